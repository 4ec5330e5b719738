"""Sounds to transcribe, as WAV files with a list: for tuning, of training's kind but kept from it; and for the test."""
import os
import wave

import grammar
import numpy as np
import spoken
from paths import WORK

import sounds
import speech
import texts
from speech import ACTIVE_LEVEL, RATE

SEEDS = {"tuning": 70002, "test": 80002}
BABBLE_TALKERS = 6
TAIL_S = 0.6
LEVEL_DB = (-10, 6)
NOISES = {"tuning": sounds.TRAIN_NOISES, "test": sounds.TEST_NOISES}
# Name of each set: whether its templates are new, whether it is in rooms, its noise and how far that is below.
SETS = {"known-clean": (False, False, None, 0), "known-15dB": (False, False, "noise", 15),
        "known-babble-10dB": (False, False, "babble", 10), "new-clean": (True, False, None, 0),
        "new-15dB": (True, False, "noise", 15), "known-room": (False, True, None, 0)}


def voice(rng, part):
    return speech.random_voice(rng, True) if part == "test" else spoken.random_voice(rng, True, rng.random() < 0.5)


def speak(rng, part, new, in_room):
    """An utterance of a part by voices kept from training."""
    while True:
        try:
            return spoken.say(rng, grammar.sentence(rng, part, new), voice(rng, part), False, in_room)
        except ValueError:
            continue


def talker(rng, part):
    """Sound of somebody who talks about something else."""
    while True:
        try:
            return speech.say(rng, texts.sentence(rng, part == "test"), voice(rng, part), False).sound
        except ValueError:
            continue


def noise(rng, part, kind, count):
    if kind == "babble":
        return sounds.babble(rng, count, [talker(rng, part) for _ in range(BABBLE_TALKERS)], BABBLE_TALKERS)
    recipes = NOISES[part]
    return recipes[list(recipes)[rng.integers(len(recipes))]](rng, count)


def item(rng, part, new, in_room, kind, snr_db):
    """(text, sound as 16-bit samples, sample where the speech ends)."""
    said = speak(rng, part, new, in_room)
    sound = np.concatenate([said.sound, np.zeros(int(TAIL_S * RATE), np.float32)])
    if kind:
        sound = sound + noise(rng, part, kind, len(sound)) * ACTIVE_LEVEL * 10 ** (-snr_db / 20)
    sound = sound * 10 ** (rng.uniform(*LEVEL_DB) / 20)
    return said.text, np.clip(np.round(sound * 32767), -32767, 32767).astype("<i2"), said.end


def write_wav(path, samples):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())


def build(part, items):
    """Make the sets of a part where they are not there; returns the path of the list."""
    folder = os.path.join(WORK, f"{part}-{SEEDS[part]}-{items}")
    path = os.path.join(folder, "list.tsv")
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    spoken.start_voices(made=part == "tuning")
    lines = []
    for number, (name, about) in enumerate(SETS.items()):
        for i in range(items):
            # One item has no influence on the draws of the next: espeak-ng rounds a little differently on other processors.
            text, samples, end = item(np.random.default_rng([SEEDS[part], number, i]), part, *about)
            write_wav(os.path.join(folder, f"{name}-{i:04}.wav"), samples)
            lines.append(f"{name}\t{name}-{i:04}.wav\t{end}\t{text}\n")
        print(f"asr {part}: {name}, {items} items", flush=True)
    with open(path + ".part", "w") as file:
        file.writelines(lines)
    os.replace(path + ".part", path)
    return path
