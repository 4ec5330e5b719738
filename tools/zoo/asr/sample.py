"""Writes sounds of sentences, spoken by a held-out voice, and JSON files with their sentences and times. Arguments are
names of sounds; without any, all are written.
"""
import json
import os
import sys

import eval_sets
import numpy as np
from paths import ROOT

import sounds
import speech
from speech import ACTIVE_RMS, HOP, SAMPLE_RATE

ASSETS = os.path.join(ROOT, "pipelines", "assets")
VOICE, SEED, SNR_DB = "gmw/en-GB-x-rp+f2", 2026, 20
# Seconds of silence before each sentence, the sentence, and seconds of silence at the end.
SCRIPTS = {
    "commands": ([(0.5, "set a timer for twenty five minutes"), (1.0, "turn on the lights in the dining room"),
                  (1.2, "bring the blanket to my sister"), (0.9, "where is the nearest pharmacy")], 1.0),
    "question": ([(0.6, "how many days are in a week"), (5.0, "turn on the lights in the kitchen")], 5.0),
    "visual_question": ([(2.0, "what do you see"), (3.0, "do you see a table")], 3.0),
    "memory_question": ([(0.6, "where is the lamp")], 3.0),
    "steps_question": ([(0.6, "how many days are in a week"), (1.5, "hey afferent"), (0.7, "how many steps did i take"),
                        (4.0, "what is my heart rate")], 3.0),
    "glasses_questions": ([(0.6, "hey afferent"), (0.7, "where is the lamp"), (5.0, "what do you see"),
                           (4.0, "how many steps did i take")], 3.0),
}


def to_seconds(sample):
    return round(sample / SAMPLE_RATE, 3)


def build(name):
    script, tail_s = SCRIPTS[name]
    rng = np.random.default_rng(SEED)
    parts, sentences, at = [], [], 0
    for pause, text in script:
        utterance = speech.synthesize(rng, text, VOICE, augment=False)
        at += int(pause * SAMPLE_RATE)
        end = (int(np.flatnonzero(utterance.active)[-1]) + 1) * HOP
        sentences.append({"text": text, "end_s": to_seconds(at + end),
                          "word_starts_s": [to_seconds(at + start) for start in utterance.word_starts]})
        parts += [np.zeros(int(pause * SAMPLE_RATE), np.float32), utterance.sound]
        at += len(utterance.sound)
    sound = np.concatenate(parts + [np.zeros(int(tail_s * SAMPLE_RATE), np.float32)])
    sound = sound + sounds.colored_noise(rng, len(sound), 1) * ACTIVE_RMS * 10 ** (-SNR_DB / 20)
    path = os.path.join(ASSETS, name)
    eval_sets.write_wav(f"{path}.wav", np.round(np.clip(sound * 1.6, -1, 1) * 32767).astype("<i2"))
    with open(f"{path}.json", "w") as file:
        json.dump({"sentences": sentences}, file, indent=1)
        file.write("\n")
    print(f"{name}.wav: {len(sound) / SAMPLE_RATE:.2f} s", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or SCRIPTS:
        build(name)
