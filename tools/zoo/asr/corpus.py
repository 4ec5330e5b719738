"""Training corpus of the recognizer: mel powers of utterances with the phone of each hop, and of
noise.
"""
import argparse
import os
from typing import NamedTuple

import numpy as np
from paths import WORK
from scipy.fft import rfft

import grammar
import sounds
import speech
import voices
from checkpoint import save_arrays
from jobs import build_files
from models import mel_filterbank
from speech import ACTIVE_RMS, HOP, SAMPLE_RATE

BANDS, ANALYSIS_WINDOW, FFT_SIZE = 64, 400, 512
# Mel power of the quantization noise of 16-bit sound.
POWER_FLOOR = 1e-6
FILTERS = mel_filterbank(BANDS, 60, 7600, FFT_SIZE).T.astype(np.float32)
WINDOW = np.hanning(ANALYSIS_WINDOW + 1)[:-1].astype(np.float32)

SHARD_SIZE, SHARD_COUNT = 1000, 40
RANDOM_WORDS_PROBABILITY, REVERB_PROBABILITY = 0.3, 0.5
RANDOMIZED_VARIANT_PROBABILITY, RANDOMIZED_ACCENT_PROBABILITY = 0.4, 0.3
# Additional shards with accents that also replace consonants. The last accents are held out for
# validation.
ACCENTED_SHARD_COUNT, ACCENTED_PROBABILITY, ACCENT_COUNT, HELD_OUT_ACCENT_COUNT = 64, 0.7, 256, 32
CONSONANT_SHIFTS = ("D d|D d|D z|D v|T t|T t|T f|T s|N n|v w|w v|z s|dZ j|dZ tS|tS S|S s|r R|t t2|l l/|h x|p b|"
                    "d t").split("|")
VALIDATION_UTTERANCES = 600
NOISE_CLIPS = {"shaped": 90, "hum": 30, "clicks": 40, "tones": 40, "music": 40}
NOISE_SECONDS = 10
PHONEME_EVENT = 7


class PhonemeEspeak(speech.Espeak):
    """espeak-ng engine that reports the starts of phonemes instead of those of words."""

    def __init__(self, data_path=None):
        self.starts, self.names = [], []
        super().__init__(data_path)
        self.library.espeak_Initialize(speech.AUDIO_SYNCHRONOUS, 0, data_path and data_path.encode(), 1)
        self.library.espeak_SetSynthCallback(self.callback)

    def _receive(self, samples, count, events):
        i = 0
        while events[i].type != speech.END_EVENT:
            if events[i].type == PHONEME_EVENT:
                self.starts.append(events[i].sample)
                self.names.append(events[i].id.string.decode("latin1"))
            i += 1
        return super()._receive(samples, count, events)

    def speak(self, text, voice, rate, pitch, pitch_range):
        self.starts, self.names = [], []
        sound, _ = super().speak(text, voice, rate, pitch, pitch_range)
        return sound, self.starts


class Utterance(NamedTuple):
    """Text, sound, sample at which the speech ends, and start sample and name of each phone."""
    text: str
    sound: np.ndarray
    end: int
    starts: list
    names: list


def random_voice(rng, held_out, accented=False):
    """Draws a voice name of the private espeak-ng-data.

    `held_out` selects held-out variants and accents.
    """
    if accented and rng.random() < ACCENTED_PROBABILITY:
        number = rng.integers(ACCENT_COUNT) if not held_out else ACCENT_COUNT + rng.integers(HELD_OUT_ACCENT_COUNT)
        accent = f"made/accent{number:03}"
    elif rng.random() < RANDOMIZED_ACCENT_PROBABILITY:
        accent = "made/" + voices.random_name(rng, voices.ACCENT_COUNT, held_out)
    else:
        accent = "made/" + rng.choice(speech.TRAIN_ACCENTS).lower().split("/")[1]
    if rng.random() < RANDOMIZED_VARIANT_PROBABILITY:
        return f"{accent}+{voices.random_name(rng, voices.VARIANT_COUNT, held_out)}"
    shipped = [v for v in speech.train_variants() if (v in voices.HELD_OUT_VARIANTS) == held_out]
    return f"{accent}+{rng.choice(shipped)}"


def build_voices():
    """Adds accents with replaced consonants to the private espeak-ng-data. Returns its folder."""
    folder = voices.build_data(WORK)
    for number in range(ACCENT_COUNT + HELD_OUT_ACCENT_COUNT):
        rng = np.random.default_rng([voices.SEED, 3, number])
        shifts = rng.choice(CONSONANT_SHIFTS, rng.integers(1, 5), False)
        path = os.path.join(folder, "espeak-ng-data", "lang", "made", f"accent{number:03}")
        if not os.path.exists(path):
            voices.write_lines(path, [f"name Accent {number}", *voices.random_accent(rng),
                                      *(f"replace 00 {s}" for s in shifts)])
    return folder


def synthesize(rng, text, voice, augment=True, reverb=False):
    """Synthesizes a text after 0.1 to 0.4 s of silence."""
    spoken = speech.synthesize(rng, text, voice, augment)
    sound, lead = spoken.sound, int(rng.integers(10, 40)) * HOP
    if reverb:
        sound = sounds.reverberate(sound, sounds.room_response(rng))[:len(sound) + int(0.2 * SAMPLE_RATE)]
        sound = sound * (ACTIVE_RMS / (np.sqrt((sound[:len(spoken.sound)] ** 2).mean()) + 1e-9))
    sound = np.concatenate([np.zeros(lead, np.float32), sound.astype(np.float32)])
    end = lead + (int(np.flatnonzero(spoken.active)[-1]) + 1) * HOP
    return Utterance(text, sound, end, [lead + s for s in spoken.word_starts], list(speech.engine.names))


def draw_utterance(rng, split, held_out=False, new_template=False, accented=False):
    """Synthesizes a random utterance of a split.

    Some of the train split are strings of random words.
    """
    while True:
        if split == "train" and rng.random() < RANDOM_WORDS_PROBABILITY:
            text = grammar.random_words(rng)
        else:
            text = grammar.sentence(rng, split, new_template)
        try:
            return synthesize(rng, text, random_voice(rng, held_out, accented), True, rng.random() < REVERB_PROBABILITY)
        except ValueError:
            continue


def mel_power(sound):
    """Returns mel powers [hops, bands] as the program computes them: hop t ends at sample (t + 1) *
    160.
    """
    padded = np.concatenate([np.zeros(ANALYSIS_WINDOW - HOP, np.float32), sound])
    windows = np.lib.stride_tricks.sliding_window_view(padded, ANALYSIS_WINDOW)[::HOP]
    spectrum = rfft(windows * WINDOW, FFT_SIZE)
    return (spectrum.real ** 2 + spectrum.imag ** 2) @ FILTERS


def write_shard(path, utterances):
    """Writes the log mel powers of utterances, with their texts and phones."""
    mels = [np.log(mel_power(u.sound) + POWER_FLOOR / 100).astype(np.float16) for u in utterances]
    save_arrays(path, mels=np.concatenate(mels), sizes=[len(m) for m in mels], texts=[u.text for u in utterances],
                starts=np.concatenate([u.starts for u in utterances]),
                names=np.concatenate([u.names for u in utterances]), counts=[len(u.names) for u in utterances])


def start_engine(randomized=True):
    """Starts espeak-ng in this process, with the private data or with the installed one."""
    speech.engine = PhonemeEspeak(build_voices() if randomized else None)


def shard_path(number):
    return os.path.join(WORK, f"speech-{number:03}.npz")


def validation_path(kind):
    """Returns the path of the validation set with `known` or with `new` templates."""
    return os.path.join(WORK, f"validation-{kind}.npz")


def noise_path():
    return os.path.join(WORK, "noise.npz")


def _build_shard(path, seed, split, new_template, count, accented=False):
    start_engine()
    rng = np.random.default_rng(seed)
    write_shard(path, [draw_utterance(rng, split, split != "train", new_template, accented) for _ in range(count)])


def _build_noise(path, seed):
    """Writes the log mel powers of noise clips of RMS one."""
    rng = np.random.default_rng(seed)
    clips = [mel_power(sounds.TRAIN_NOISES[kind](rng, NOISE_SECONDS * SAMPLE_RATE))
             for kind, count in NOISE_CLIPS.items() for _ in range(count)]
    save_arrays(path, clips=np.log(np.stack(clips) + POWER_FLOOR / 100).astype(np.float16))


def build(seed, shards=SHARD_COUNT, jobs=1):
    """Builds the missing files, each with a new espeak-ng process."""
    os.makedirs(WORK, exist_ok=True)
    build_voices()
    tasks = [(_build_noise, noise_path(), [seed, 1]),
             (_build_shard, validation_path("known"), [seed, 2], "validation", False, VALIDATION_UTTERANCES),
             (_build_shard, validation_path("new"), [seed, 3], "validation", True, VALIDATION_UTTERANCES)]
    tasks += [(_build_shard, shard_path(i), [seed, 10, i], "train", False, SHARD_SIZE) for i in range(shards)]
    tasks += [(_build_shard, shard_path(i), [seed, 10, i], "train", False, SHARD_SIZE, True)
              for i in range(shards, shards + ACCENTED_SHARD_COUNT)]
    build_files("asr corpus", tasks, jobs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards", type=int, default=SHARD_COUNT)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    build(arguments.seed, arguments.shards, arguments.jobs)
