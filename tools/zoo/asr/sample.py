"""Writes the sample sounds commands.wav and question.wav: a voice that training never heard, and in JSON files what it says and when."""
import json
import os

import numpy as np
import sets
from paths import ROOT

import sounds
import speech
from speech import ACTIVE_LEVEL, HOP, RATE

ASSETS = os.path.join(ROOT, "pipelines", "assets")
VOICE, SEED, SNR_DB = "gmw/en-GB-x-rp+f2", 2026, 20
# Seconds of pause before each sentence, and the sentence; then seconds of pause at the end.
STORIES = {
    "commands": ([(0.5, "set a timer for twenty five minutes"), (1.0, "turn on the lights in the dining room"),
                  (1.2, "bring the blanket to my sister"), (0.9, "where is the nearest pharmacy")], 1.0),
    "question": ([(0.6, "how many days are in a week"), (5.0, "turn on the lights in the kitchen")], 5.0),
}


def seconds(sample):
    return round(sample / RATE, 3)


def build(name):
    story, end_s = STORIES[name]
    rng = np.random.default_rng(SEED)
    parts, sentences, at = [], [], 0
    for pause, text in story:
        said = speech.say(rng, text, VOICE, varied=False)
        at += int(pause * RATE)
        end = (int(np.flatnonzero(said.active)[-1]) + 1) * HOP
        sentences.append({"text": text, "end_s": seconds(at + end),
                          "word_starts_s": [seconds(at + start) for start in said.word_starts]})
        parts += [np.zeros(int(pause * RATE), np.float32), said.sound]
        at += len(said.sound)
    sound = np.concatenate(parts + [np.zeros(int(end_s * RATE), np.float32)])
    sound = sound + sounds.coloured(rng, len(sound), 1) * ACTIVE_LEVEL * 10 ** (-SNR_DB / 20)
    path = os.path.join(ASSETS, name)
    sets.write_wav(f"{path}.wav", np.round(np.clip(sound * 1.6, -1, 1) * 32767).astype("<i2"))
    with open(f"{path}.json", "w") as file:
        json.dump({"sentences": sentences}, file, indent=1)
        file.write("\n")
    print(f"{name}.wav: {len(sound) / RATE:.2f} s", flush=True)


if __name__ == "__main__":
    for story in STORIES:
        build(story)
