"""Writes the sample sounds: wake_word.wav with its labels in wake_word.json, and other_speech.wav.
"""
import json
import os

import numpy as np
from scipy.io import wavfile

import sounds
import speech
import texts
from data import ROOT
from speech import ACTIVE_RMS, HOP, SAMPLE_RATE

ASSETS = os.path.join(ROOT, "pipelines", "assets")
VOICE = "gmw/en-GB-x-rp+f2"
# Seconds of silence before the text, the text, and its label or None.
SCRIPT = [(0.6, "The blue kettle is in the kitchen.", None), (0.8, "hey afferent", "hey afferent"),
          (1.0, "stop", "stop"), (0.9, "Tomorrow we visit the old castle near the lake.", None),
          (0.7, "hey afferent", "hey afferent"), (0.8, "go", "go")]
TAIL_SILENCE_S = 1.5
SCRIPT_SNR_DB, OTHER_SNR_DB = 20, 18
OTHER_SECONDS = 60
SEEDS = {"wake_word": 2024, "other_speech": 2025}


def write(name, x):
    wavfile.write(os.path.join(ASSETS, name), SAMPLE_RATE, np.round(np.clip(x, -1, 1) * 32767).astype(np.int16))
    print(f"{name}: {len(x) / SAMPLE_RATE:.2f} s, peak {np.abs(x).max():.2f}", flush=True)


def to_seconds(sample):
    return round(sample / SAMPLE_RATE, 3)


def write_wake_word(rng):
    parts, phrases, segments, at = [], [], [], 0
    for pause, text, label in SCRIPT:
        utterance = speech.synthesize(rng, text, VOICE, augment=False)
        gap = int(pause * SAMPLE_RATE)
        parts += [np.zeros(gap, np.float32), utterance.sound]
        active = np.flatnonzero(utterance.active)
        span = {"start_s": to_seconds(at + gap + active[0] * HOP),
                "end_s": to_seconds(at + gap + (active[-1] + 1) * HOP)}
        segments.append(span)
        if label:
            phrases.append({"label": label, **span})
        at += gap + len(utterance.sound)
    x = np.concatenate(parts + [np.zeros(int(TAIL_SILENCE_S * SAMPLE_RATE), np.float32)])
    x = x + sounds.colored_noise(rng, len(x), 1) * ACTIVE_RMS * 10 ** (-SCRIPT_SNR_DB / 20)
    write("wake_word.wav", x * 1.6)
    with open(os.path.join(ASSETS, "wake_word.json"), "w") as file:
        json.dump({"phrases": phrases, "speech": segments}, file, indent=1)
        file.write("\n")


def write_other_speech(rng):
    parts, count = [], 0
    while count < OTHER_SECONDS * SAMPLE_RATE:
        text = texts.sentence(rng, True)
        utterance = speech.synthesize(rng, text, speech.random_voice(rng, True), augment=False)
        gap = np.zeros(int(rng.uniform(0.3, 1.2) * SAMPLE_RATE), np.float32)
        parts += [gap, utterance.sound]
        count += len(gap) + len(utterance.sound)
    x = np.concatenate(parts)[:OTHER_SECONDS * SAMPLE_RATE]
    x = x + sounds.colored_noise(rng, len(x), 1) * ACTIVE_RMS * 10 ** (-OTHER_SNR_DB / 20)
    write("other_speech.wav", x * 1.6)


if __name__ == "__main__":
    os.makedirs(ASSETS, exist_ok=True)
    write_wake_word(np.random.default_rng(SEEDS["wake_word"]))
    write_other_speech(np.random.default_rng(SEEDS["other_speech"]))
