"""The pool of the recogniser's training: utterances as mel powers with the phone of every hop, and noises."""
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
from models import mel_matrix
from speech import ACTIVE_LEVEL, HOP, RATE
from steps import make_files

BANDS, LENGTH, DFT = 64, 400, 512
# Mel power below this counts as nothing; it is the hearing of 16-bit sound.
FLOOR = 1e-6
FILTERS = mel_matrix(BANDS, 60, 7600, DFT).T.astype(np.float32)
WINDOW = np.hanning(LENGTH + 1)[:-1].astype(np.float32)

SHARD, SHARDS = 1000, 40
RANDOM_SHARE, ROOM_SHARE = 0.3, 0.5
# How often an utterance comes from a made-up variant, and from a made-up accent.
MADE_VARIANT_SHARE, MADE_ACCENT_SHARE = 0.4, 0.3
# More shards behind those, by accents that also change consonants, as many people's do; the accents behind
# the first ones are kept for tuning.
ACCENTED_SHARDS, ACCENTED_SHARE, ACCENTS, HELD_ACCENTS = 64, 0.7, 256, 32
CONSONANT_SHIFTS = ("D d|D d|D z|D v|T t|T t|T f|T s|N n|v w|w v|z s|dZ j|dZ tS|tS S|S s|r R|t t2|l l/|h x|p b|d t").split("|")
NOISES = {"shaped": 90, "hum": 30, "clicks": 40, "tones": 40, "music": 40}
NOISE_SECONDS = 10
PHONEME_EVENT = 7


class PhoneEspeak(speech._Espeak):
    """espeak-ng that tells the start of every phoneme, where the other tells that of every word."""

    def __init__(self, home=None):
        self.starts, self.names = [], []
        super().__init__(home)
        self.library.espeak_Initialize(speech.AUDIO_SYNCHRONOUS, 0, home and home.encode(), 1)
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


class Spoken(NamedTuple):
    """A text, its sound, the sample where its speech ends, and the start and name of its phones."""
    text: str
    sound: np.ndarray
    end: int
    starts: list
    names: list


def random_voice(rng, held, accented=False):
    """A voice of the private copy of espeak-ng's data; a held one has a variant kept from training."""
    if accented and rng.random() < ACCENTED_SHARE:
        accent = f"made/accent{rng.integers(ACCENTS) if not held else ACCENTS + rng.integers(HELD_ACCENTS):03}"
    elif rng.random() < MADE_ACCENT_SHARE:
        accent = "made/" + voices._number(rng, voices.ACCENTS, held)
    else:
        accent = "made/" + rng.choice(speech.TRAIN_ACCENTS).lower().split("/")[1]
    if rng.random() < MADE_VARIANT_SHARE:
        return f"{accent}+{voices._number(rng, voices.VARIANTS, held)}"
    shipped = [v for v in speech.train_variants() if (v in voices.HELD_VARIANTS) == held]
    return f"{accent}+{rng.choice(shipped)}"


def accents():
    """Add accents with other consonants to the private copy of espeak-ng's data; returns its folder."""
    home = voices.folder(WORK)
    for number in range(ACCENTS + HELD_ACCENTS):
        rng = np.random.default_rng([voices.SEED, 3, number])
        shifts = rng.choice(CONSONANT_SHIFTS, rng.integers(1, 5), False)
        path = os.path.join(home, "espeak-ng-data", "lang", "made", f"accent{number:03}")
        if not os.path.exists(path):
            voices._write(path, [f"name Accent {number}", *voices._accent(rng), *(f"replace 00 {s}" for s in shifts)])
    return home


def say(rng, text, voice, varied=True, in_room=False):
    """Speak a text, with silence of 0.1 to 0.4 s before it."""
    said = speech.say(rng, text, voice, varied)
    sound, lead = said.sound, int(rng.integers(10, 40)) * HOP
    if in_room:
        sound = sounds.reverberate(sound, sounds.room(rng))[:len(sound) + int(0.2 * RATE)]
        sound = sound * (ACTIVE_LEVEL / (np.sqrt((sound[:len(said.sound)] ** 2).mean()) + 1e-9))
    sound = np.concatenate([np.zeros(lead, np.float32), sound.astype(np.float32)])
    end = lead + (int(np.flatnonzero(said.active)[-1]) + 1) * HOP
    return Spoken(text, sound, end, [lead + s for s in said.word_starts], list(speech._espeak.names))


def draw(rng, part, held=False, new_template=False, accented=False):
    """An utterance of a voice of the private copy; of training with random strings of words among it."""
    while True:
        if part == "training" and rng.random() < RANDOM_SHARE:
            text = grammar.random_words(rng)
        else:
            text = grammar.sentence(rng, part, new_template)
        try:
            return say(rng, text, random_voice(rng, held, accented), True, rng.random() < ROOM_SHARE)
        except ValueError:
            continue


def mel_power(sound):
    """Mel band powers [hops, bands]; hop t ends at sample (t + 1) * 160, as the program hears it."""
    padded = np.concatenate([np.zeros(LENGTH - HOP, np.float32), sound])
    windows = np.lib.stride_tricks.sliding_window_view(padded, LENGTH)[::HOP]
    spectrum = rfft(windows * WINDOW, DFT)
    return (spectrum.real ** 2 + spectrum.imag ** 2) @ FILTERS


def pack(path, utterances):
    """Write utterances as logarithms of mel powers, with their texts and phones."""
    mels = [np.log(mel_power(u.sound) + FLOOR / 100).astype(np.float16) for u in utterances]
    save_arrays(path, mels=np.concatenate(mels), sizes=[len(m) for m in mels], texts=[u.text for u in utterances],
         starts=np.concatenate([u.starts for u in utterances]), names=np.concatenate([u.names for u in utterances]),
         counts=[len(u.names) for u in utterances])


def start_voices(made=True):
    """Speak with the private copy of espeak-ng's data in this process, or with the installed one."""
    speech._espeak = PhoneEspeak(accents() if made else None)


def shard_path(number):
    return os.path.join(WORK, f"spoken-{number:03}.npz")


def _shard(path, seed, part, new_template, count, accented=False):
    start_voices()
    rng = np.random.default_rng(seed)
    pack(path, [draw(rng, part, part != "training", new_template, accented) for _ in range(count)])


def _noises(path, seed):
    """Mel powers of noises of RMS one."""
    rng = np.random.default_rng(seed)
    clips = [mel_power(sounds.TRAIN_NOISES[kind](rng, NOISE_SECONDS * RATE))
             for kind, count in NOISES.items() for _ in range(count)]
    save_arrays(path, clips=np.log(np.stack(clips) + FLOOR / 100).astype(np.float16))


def build(seed, shards=SHARDS, jobs=1):
    """Make what the pool still lacks; every shard by a fresh espeak-ng."""
    os.makedirs(WORK, exist_ok=True)
    accents()
    tasks = [(_noises, os.path.join(WORK, "noises.npz"), [seed, 1]),
             (_shard, os.path.join(WORK, "tuning-known.npz"), [seed, 2], "tuning", False, 600),
             (_shard, os.path.join(WORK, "tuning-new.npz"), [seed, 3], "tuning", True, 600)]
    tasks += [(_shard, shard_path(i), [seed, 10, i], "training", False, SHARD) for i in range(shards)]
    tasks += [(_shard, shard_path(i), [seed, 10, i], "training", False, SHARD, True)
              for i in range(shards, shards + ACCENTED_SHARDS)]
    make_files("asr pool", tasks, jobs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    build(arguments.seed, arguments.shards, arguments.jobs)
