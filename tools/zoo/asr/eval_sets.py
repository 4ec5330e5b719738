"""Validation and test sets of the recognizer: WAV files and a list with their transcripts."""
import os
import wave

import corpus
import grammar
import numpy as np
from paths import WORK

import sounds
import speech
import texts
from speech import ACTIVE_RMS, SAMPLE_RATE

SEEDS = {"validation": 70002, "test": 80002}
BABBLE_TALKERS = 6
TAIL_S = 0.6
LEVEL_DB = (-10, 6)
NOISES = {"validation": sounds.TRAIN_NOISES, "test": sounds.TEST_NOISES}
# Probability that a voice of the validation set has replaced consonants.
ACCENTED_PROBABILITY = 0.5
# Each set: new templates, reverberation, kind of noise, and signal-to-noise ratio in dB.
SETS = {"known-clean": (False, False, None, 0), "known-15dB": (False, False, "noise", 15),
        "known-babble-10dB": (False, False, "babble", 10), "new-clean": (True, False, None, 0),
        "new-15dB": (True, False, "noise", 15), "known-room": (False, True, None, 0)}


def random_voice(rng, split):
    if split == "test":
        return speech.random_voice(rng, True)
    return corpus.random_voice(rng, True, rng.random() < ACCENTED_PROBABILITY)


def draw_utterance(rng, split, new_template, reverb):
    """Synthesizes a random utterance of a split with a held-out voice."""
    while True:
        try:
            text = grammar.sentence(rng, split, new_template)
            return corpus.synthesize(rng, text, random_voice(rng, split), False, reverb)
        except ValueError:
            continue


def draw_talker(rng, split):
    """Synthesizes a random sentence of a background talker."""
    while True:
        try:
            text = texts.sentence(rng, split == "test")
            return speech.synthesize(rng, text, random_voice(rng, split), False).sound
        except ValueError:
            continue


def noise(rng, split, kind, count):
    if kind == "babble":
        return sounds.babble(rng, count, [draw_talker(rng, split) for _ in range(BABBLE_TALKERS)], BABBLE_TALKERS)
    generators = NOISES[split]
    return generators[list(generators)[rng.integers(len(generators))]](rng, count)


def draw_item(rng, split, new_template, reverb, noise_kind, snr_db):
    """Returns (text, 16-bit samples, sample at which the speech ends)."""
    utterance = draw_utterance(rng, split, new_template, reverb)
    sound = np.concatenate([utterance.sound, np.zeros(int(TAIL_S * SAMPLE_RATE), np.float32)])
    if noise_kind:
        sound = sound + noise(rng, split, noise_kind, len(sound)) * ACTIVE_RMS * 10 ** (-snr_db / 20)
    sound = sound * 10 ** (rng.uniform(*LEVEL_DB) / 20)
    return utterance.text, np.clip(np.round(sound * 32767), -32767, 32767).astype("<i2"), utterance.end


def write_wav(path, samples):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.tobytes())


def build(split, items):
    """Builds the sets of a split unless they exist. Returns the path of the list."""
    folder = os.path.join(WORK, f"{split}-{SEEDS[split]}-{items}")
    path = os.path.join(folder, "list.tsv")
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    corpus.start_engine(randomized=split == "validation")
    lines = []
    for number, (name, options) in enumerate(SETS.items()):
        for i in range(items):
            # A seed for each item: espeak-ng rounds differently on other processors, which must not
            # change the following items.
            text, samples, end = draw_item(np.random.default_rng([SEEDS[split], number, i]), split, *options)
            write_wav(os.path.join(folder, f"{name}-{i:04}.wav"), samples)
            lines.append(f"{name}\t{name}-{i:04}.wav\t{end}\t{text}\n")
        print(f"asr {split}: {name}, {items} items", flush=True)
    with open(path + ".part", "w") as file:
        file.writelines(lines)
    os.replace(path + ".part", path)
    return path
