"""Speech from espeak-ng: voices, utterances with the start of every word, and what counts as speech."""
import ctypes
import functools
import os
from typing import NamedTuple

import numpy as np
from scipy.signal import resample_poly

RATE = 16000
HOP = 160                   # activity is known per 10 ms
ACTIVE_LEVEL = 0.05         # every utterance is scaled to this RMS over its active hops
ACTIVE_RANGE_DB = 30.0      # a hop is active within this range below the loudest hop
MAX_GAP_HOPS = 9            # pauses shorter than 100 ms count as speech

TRAIN_ACCENTS = ["gmw/en", "gmw/en-US", "gmw/en-US", "gmw/en-GB-scotland", "gmw/en-GB-x-gbclan",
                 "gmw/en-GB-x-gbcwmd", "gmw/en-US-nyc"]
# For the phrases: British vowels as often as American ones.
PHRASE_ACCENTS = ["gmw/en", "gmw/en", "gmw/en", "gmw/en-US", "gmw/en-GB-scotland", "gmw/en-GB-x-gbclan",
                  "gmw/en-GB-x-gbcwmd", "gmw/en-US-nyc"]
TEST_ACCENTS = ["gmw/en-GB-x-rp", "gmw/en-029"]
TEST_VARIANTS = ["f2", "m4", "anika", "klatt3", "Annie", "Mario", "steph2", "iven3", "Michael",
                 "belinda", "caleb", "linda"]
# Whispers and effects, which are hardly speech.
UNUSED_VARIANTS = ["whisper", "whisperf", "croak", "Demonic", "UniRobot", "kaukovalta", "AnxiousAndy",
                   "anikaRobot", "Mr serious"] + ["robosoft" + n for n in ("", *"2345678")]
# Small ratios near 16000 / 22050: the others shift pitch and formants by up to a tenth.
EXACT_RATIO = (320, 441)
TRAIN_RATIOS = [EXACT_RATIO, (8, 11), (3, 4), (7, 10), (2, 3), (4, 5), (7, 9), (5, 7)]

# Words a minute, pitch and its range, in espeak-ng's measures.
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
    """Sound at 16 kHz, its activity per hop, and the sample where each word starts."""
    sound: np.ndarray
    active: np.ndarray
    word_starts: list


class _Espeak:
    """One synchronous espeak-ng per process."""

    def __init__(self, home=None):
        self.library, self.home = ctypes.CDLL("libespeak-ng.so.1"), home
        self.rate = self.library.espeak_Initialize(AUDIO_SYNCHRONOUS, 0, home and home.encode(), 0)
        if self.rate <= 0:
            raise RuntimeError("espeak-ng did not start: is its data installed?")
        self.parts, self.words = [], []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int,
                                ctypes.POINTER(_Event))
        self.callback = kind(self._receive)
        self.library.espeak_SetSynthCallback(self.callback)

    def _receive(self, samples, count, events):
        if samples and count > 0:
            self.parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        i = 0
        while events[i].type != END_EVENT:
            if events[i].type == WORD_EVENT:
                self.words.append(events[i].sample)
            i += 1
        return 0

    def speak(self, text, voice, rate, pitch, pitch_range):
        self.parts.clear()
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
        return np.concatenate(self.parts).astype(np.float32) / 32768, list(self.words)


_espeak = None


def use(home):
    """Let this process speak with the espeak-ng-data of a folder instead of the installed one."""
    global _espeak
    if _espeak is None or _espeak.home != home:
        _espeak = _Espeak(home)


@functools.cache
def data_folder():
    """The installed espeak-ng-data."""
    for root in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/share", "/usr/lib"):
        folder = os.path.join(root, "espeak-ng-data")
        if os.path.isdir(folder):
            return folder
    raise RuntimeError("espeak-ng-data is not installed")


@functools.cache
def train_variants():
    """Names of the shipped voice variants that training may use."""
    shipped = os.listdir(os.path.join(data_folder(), "voices/!v"))
    return sorted(set(shipped) - set(TEST_VARIANTS) - set(UNUSED_VARIANTS))


def random_voice(rng, unseen, accents=TRAIN_ACCENTS):
    """A voice name; an unseen one has both its accent and its variant kept from training."""
    accents, variants = (TEST_ACCENTS, TEST_VARIANTS) if unseen else (accents, train_variants())
    return f"{rng.choice(accents)}+{rng.choice(variants)}"


def activity(sound):
    """Whether each 10 ms hop is speech: within 30 dB of the loudest hop, short pauses closed."""
    hops = len(sound) // HOP
    level = np.sqrt((sound[:hops * HOP].reshape(hops, HOP) ** 2).mean(1))
    active = level >= level.max(initial=0) * 10 ** (-ACTIVE_RANGE_DB / 20)
    where = np.flatnonzero(active)
    for a, b in zip(where[:-1], where[1:]):
        if b - a - 1 <= MAX_GAP_HOPS:
            active[a:b] = True
    return active


def say(rng, text, voice, varied=True, prosody=PROSODY):
    """Speak a text: random rate, pitch and range, trimmed to its speech with 20 ms on each side."""
    global _espeak
    _espeak = _espeak or _Espeak()
    sound, words = _espeak.speak(text, voice, *(int(rng.integers(*span)) for span in prosody))
    up, down = TRAIN_RATIOS[rng.integers(len(TRAIN_RATIOS))] if varied else EXACT_RATIO
    sound = resample_poly(sound, up, down).astype(np.float32)
    active = activity(sound)
    where = np.flatnonzero(active)
    if len(where) == 0:
        raise ValueError(f"espeak-ng is silent for {text!r}")
    first, last = max(0, where[0] - 2), min(len(active), where[-1] + 3)
    sound, active = sound[first * HOP:last * HOP], active[first:last]
    power = (sound.reshape(-1, HOP)[active] ** 2).mean()
    if power == 0:
        raise ValueError(f"espeak-ng is silent for {text!r}")
    return Utterance(sound * (ACTIVE_LEVEL / np.sqrt(power)), active,
                     [max(0, int(w * up / down) - first * HOP) for w in words])
