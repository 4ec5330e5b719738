"""Speech synthesis by espeak-ng: voices, utterances with word boundaries, and speech activity."""
import ctypes
import functools
import os
from typing import NamedTuple

import numpy as np
from scipy.signal import resample_poly

SAMPLE_RATE = 16000
# Speech activity has one value for each hop of 10 ms.
HOP = 160
# RMS that utterances are scaled to, over their active hops.
ACTIVE_RMS = 0.05
# A hop is active within this range below the loudest hop.
ACTIVE_RANGE_DB = 30.0
# Pauses of at most this length count as speech.
MAX_GAP_HOPS = 9

TRAIN_ACCENTS = ["gmw/en", "gmw/en-US", "gmw/en-US", "gmw/en-GB-scotland", "gmw/en-GB-x-gbclan",
                 "gmw/en-GB-x-gbcwmd", "gmw/en-US-nyc"]
# For wake phrases: British vowels as often as American ones.
PHRASE_ACCENTS = ["gmw/en", "gmw/en", "gmw/en", "gmw/en-US", "gmw/en-GB-scotland", "gmw/en-GB-x-gbclan",
                  "gmw/en-GB-x-gbcwmd", "gmw/en-US-nyc"]
TEST_ACCENTS = ["gmw/en-GB-x-rp", "gmw/en-029"]
TEST_VARIANTS = ["f2", "m4", "anika", "klatt3", "Annie", "Mario", "steph2", "iven3", "Michael",
                 "belinda", "caleb", "linda"]
# Whispers and effects.
EXCLUDED_VARIANTS = ["whisper", "whisperf", "croak", "Demonic", "UniRobot", "kaukovalta", "AnxiousAndy",
                   "anikaRobot", "Mr serious"] + ["robosoft" + n for n in ("", *"2345678")]
# Resampling ratios of small numbers. The first is exact; the others shift pitch and formants by up
# to a tenth.
RESAMPLE_RATIO = (320, 441)
AUGMENT_RATIOS = [RESAMPLE_RATIO, (8, 11), (3, 4), (7, 10), (2, 3), (4, 5), (7, 9), (5, 7)]

# Words per minute, pitch, and pitch range, in units of espeak-ng.
PROSODY = ((135, 216), (15, 86), (20, 81))
WIDE_PROSODY = ((120, 236), (5, 96), (10, 96))

WORD_EVENT, END_EVENT = 1, 0
AUDIO_SYNCHRONOUS, CHARS_UTF8, PHONEME_MARKUP, END_PAUSE = 2, 1, 0x100, 0x1000
RATE_PARAMETER, PITCH_PARAMETER, RANGE_PARAMETER = 1, 3, 4


class _Id(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8)]


class _Event(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("unique_identifier", ctypes.c_uint),
                ("text_position", ctypes.c_int), ("length", ctypes.c_int),
                ("audio_position", ctypes.c_int), ("sample", ctypes.c_int),
                ("user_data", ctypes.c_void_p), ("id", _Id)]


class Utterance(NamedTuple):
    """Sound at 16 kHz, its activity by hop, and the sample at which each word starts."""
    sound: np.ndarray
    active: np.ndarray
    word_starts: list


class Espeak:
    """The synchronous espeak-ng engine; at most one in a process."""

    def __init__(self, data_path=None):
        self.library, self.data_path = ctypes.CDLL("libespeak-ng.so.1"), data_path
        self.rate = self.library.espeak_Initialize(AUDIO_SYNCHRONOUS, 0, data_path and data_path.encode(), 0)
        if self.rate <= 0:
            raise RuntimeError("espeak-ng failed to start; check that espeak-ng-data is installed")
        self.chunks, self.words = [], []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int,
                                ctypes.POINTER(_Event))
        self.callback = kind(self._receive)
        self.library.espeak_SetSynthCallback(self.callback)

    def _receive(self, samples, count, events):
        if samples and count > 0:
            self.chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        i = 0
        while events[i].type != END_EVENT:
            if events[i].type == WORD_EVENT:
                self.words.append(events[i].sample)
            i += 1
        return 0

    def speak(self, text, voice, rate, pitch, pitch_range):
        self.chunks.clear()
        self.words.clear()
        if self.library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice}")
        for parameter, value in ((RATE_PARAMETER, rate), (PITCH_PARAMETER, pitch),
                                 (RANGE_PARAMETER, pitch_range)):
            self.library.espeak_SetParameter(parameter, value, 0)
        data = text.encode()
        self.library.espeak_Synth(data, len(data) + 1, 0, 1, 0,
                                  END_PAUSE | PHONEME_MARKUP | CHARS_UTF8, None, None)
        self.library.espeak_Synchronize()
        return np.concatenate(self.chunks).astype(np.float32) / 32768, list(self.words)


# The engine of this process.
engine = None


def use_data(path):
    """Selects the espeak-ng-data in a folder; None selects the installed one."""
    global engine
    if engine is None or engine.data_path != path:
        engine = Espeak(path)


@functools.cache
def installed_data():
    """Returns the path of the installed espeak-ng-data."""
    for root in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/share", "/usr/lib"):
        folder = os.path.join(root, "espeak-ng-data")
        if os.path.isdir(folder):
            return folder
    raise RuntimeError("espeak-ng-data is not installed")


@functools.cache
def train_variants():
    """Returns the voice variants of espeak-ng that training may use."""
    shipped = os.listdir(os.path.join(installed_data(), "voices/!v"))
    return sorted(set(shipped) - set(TEST_VARIANTS) - set(EXCLUDED_VARIANTS))


def random_voice(rng, unseen, accents=TRAIN_ACCENTS):
    """Draws a voice name. Accent and variant of an unseen voice are held out from training."""
    accents, variants = (TEST_ACCENTS, TEST_VARIANTS) if unseen else (accents, train_variants())
    return f"{rng.choice(accents)}+{rng.choice(variants)}"


def speech_activity(sound):
    """Returns for each hop whether it is speech: within 30 dB of the loudest one, short pauses
    closed.
    """
    hops = len(sound) // HOP
    level = np.sqrt((sound[:hops * HOP].reshape(hops, HOP) ** 2).mean(1))
    active = level >= level.max(initial=0) * 10 ** (-ACTIVE_RANGE_DB / 20)
    indices = np.flatnonzero(active)
    for a, b in zip(indices[:-1], indices[1:]):
        if b - a - 1 <= MAX_GAP_HOPS:
            active[a:b] = True
    return active


def synthesize(rng, text, voice, augment=True, prosody=PROSODY):
    """Synthesizes a text with random prosody, trimmed to its speech with 20 ms on each side.

    `augment` resamples it by a random ratio. Raises ValueError if it is silent.
    """
    global engine
    engine = engine or Espeak()
    sound, words = engine.speak(text, voice, *(int(rng.integers(*span)) for span in prosody))
    up, down = AUGMENT_RATIOS[rng.integers(len(AUGMENT_RATIOS))] if augment else RESAMPLE_RATIO
    sound = resample_poly(sound, up, down).astype(np.float32)
    active = speech_activity(sound)
    indices = np.flatnonzero(active)
    if len(indices) == 0:
        raise ValueError(f"espeak-ng returned silence for {text!r}")
    first, last = max(0, indices[0] - 2), min(len(active), indices[-1] + 3)
    sound, active = sound[first * HOP:last * HOP], active[first:last]
    power = (sound.reshape(-1, HOP)[active] ** 2).mean()
    if power == 0:
        raise ValueError(f"espeak-ng returned silence for {text!r}")
    return Utterance(sound * (ACTIVE_RMS / np.sqrt(power)), active,
                     [max(0, int(w * up / down) - first * HOP) for w in words])
