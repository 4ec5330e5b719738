"""Writes the sample sounds: wake_word.wav with its truth in wake_word.json, and other_speech.wav."""
import json
import os

import numpy as np
from scipy.io import wavfile

import sounds
import speech
import texts
from data import ROOT
from speech import ACTIVE_LEVEL, HOP, RATE

ASSETS = os.path.join(ROOT, "pipelines", "assets")
VOICE = "gmw/en-GB-x-rp+f2"
# (seconds of pause before, text, label or None)
STORY = [(0.6, "The blue kettle is in the kitchen.", None), (0.8, "hey afferent", "hey afferent"),
         (1.0, "stop", "stop"), (0.9, "Tomorrow we visit the old castle near the lake.", None),
         (0.7, "hey afferent", "hey afferent"), (0.8, "go", "go")]
SILENCE_AT_END = 1.5
STORY_SNR_DB, OTHER_SNR_DB = 20, 18
OTHER_SECONDS = 60


def write(name, x):
    wavfile.write(os.path.join(ASSETS, name), RATE, np.round(np.clip(x, -1, 1) * 32767).astype(np.int16))
    print(f"{name}: {len(x) / RATE:.2f} s, peak {np.abs(x).max():.2f}", flush=True)


def second(sample):
    return round(sample / RATE, 3)


def wake_word(rng):
    parts, phrases, segments, at = [], [], [], 0
    for pause, text, label in STORY:
        said = speech.say(rng, text, VOICE, varied=False)
        gap = int(pause * RATE)
        parts += [np.zeros(gap, np.float32), said.sound]
        where = np.flatnonzero(said.active)
        span = {"start_s": second(at + gap + where[0] * HOP), "end_s": second(at + gap + (where[-1] + 1) * HOP)}
        segments.append(span)
        if label:
            phrases.append({"label": label, **span})
        at += gap + len(said.sound)
    x = np.concatenate(parts + [np.zeros(int(SILENCE_AT_END * RATE), np.float32)])
    x = x + sounds.coloured(rng, len(x), 1) * ACTIVE_LEVEL * 10 ** (-STORY_SNR_DB / 20)
    write("wake_word.wav", x * 1.6)
    with open(os.path.join(ASSETS, "wake_word.json"), "w") as file:
        json.dump({"phrases": phrases, "speech": segments}, file, indent=1)
        file.write("\n")


def other_speech(rng):
    parts, count = [], 0
    while count < OTHER_SECONDS * RATE:
        said = speech.say(rng, texts.sentence(rng, True), speech.random_voice(rng, True), varied=False)
        gap = np.zeros(int(rng.uniform(0.3, 1.2) * RATE), np.float32)
        parts += [gap, said.sound]
        count += len(gap) + len(said.sound)
    x = np.concatenate(parts)[:OTHER_SECONDS * RATE]
    x = x + sounds.coloured(rng, len(x), 1) * ACTIVE_LEVEL * 10 ** (-OTHER_SNR_DB / 20)
    write("other_speech.wav", x * 1.6)


if __name__ == "__main__":
    os.makedirs(ASSETS, exist_ok=True)
    wake_word(np.random.default_rng(2024))
    other_speech(np.random.default_rng(2025))
