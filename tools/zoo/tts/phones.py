"""Words to phones by espeak-ng, and a clause to the input tokens of the acoustic model."""
import ctypes
import functools
import os
import sys
from typing import NamedTuple

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import speech  # noqa: E402
from language import language  # noqa: E402

RATE_WPM, PITCH, PITCH_RANGE = 165, 50, 50
PHONEME_EVENT, PHONEME_EVENTS = 7, 1
VOWEL_STARTS = tuple("aeiouAEIOUV3@0")
STRESSES = {"'": 2, ",": 1}
END_MARKS = ".,?!"
# Features of a token besides its phone, in the order of the input of the program.
FEATURES = 14
FIRST_MARK_FEATURE = 10
SILENCE = 1
# Tokens or hops on each side of a window that the model sees as context.
CONTEXT = 16
# Scale and limit of features that count tokens or stresses.
COUNT_SCALE, MAX_COUNT = 8.0, 4


class Token(NamedTuple):
    phone: int
    stress: int
    word: int


class PhonemeEspeak(speech.Espeak):
    """espeak-ng engine that also reports the start of each phoneme."""

    def __init__(self):
        super().__init__()
        self.rate = self.library.espeak_Initialize(speech.AUDIO_SYNCHRONOUS, 0, None, PHONEME_EVENTS)
        self.library.espeak_SetSynthCallback(self.callback)
        self.library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self.phones = []

    def _receive(self, samples, count, events):
        i = 0
        while events[i].type != speech.END_EVENT:
            if events[i].type == PHONEME_EVENT:
                self.phones.append((events[i].sample, events[i].id.string.decode("latin1")))
            i += 1
        return super()._receive(samples, count, events)

    def say(self, text):
        """Returns the sound, at the sample rate of espeak-ng, and its phoneme events (sample,
        phoneme).
        """
        self.phones.clear()
        sound, _ = self.speak(text, language.VOICE, RATE_WPM, PITCH, PITCH_RANGE)
        return sound, list(self.phones)

    def to_phones(self, word):
        """Returns the phones of an isolated word, with the stress mark before each stressed vowel.
        """
        self.library.espeak_SetVoiceByName(language.VOICE.encode())
        text = ctypes.c_char_p(word.encode())
        phonemes = self.library.espeak_TextToPhonemes(ctypes.byref(text), 1, ord("|") << 8) or b""
        phones = []
        for part in phonemes.decode().replace(" ", "|").split("|"):
            phone = part.replace("_:", "").strip("_;!")
            if phone.strip("',"):
                phones.append(phone)
        return phones


@functools.cache
def espeak():
    return PhonemeEspeak()


def pronounce(word):
    """Returns the phones of a word inside a sentence."""
    return language.WEAK[word] if word in language.WEAK else espeak().to_phones(word)


def split_stress(phone):
    """Returns a phone without its stress mark, and its stress: 0 none, 1 secondary, 2 primary."""
    return (phone[1:], STRESSES[phone[0]]) if phone[0] in STRESSES else (phone, 0)


def clause_phones(words, lexicon):
    """Returns the phones of each word of a clause."""
    phones = [lexicon[word] for word in words]
    for i, word in enumerate(words[:-1]):
        if word in language.BEFORE_VOWEL and split_stress(phones[i + 1][0])[0].startswith(VOWEL_STARTS):
            phones[i] = language.BEFORE_VOWEL[word]
    return phones


def clause_tokens(phones, symbols):
    """Returns the tokens of a clause between two silences, from the phones of its words."""
    tokens = [Token(SILENCE, 0, -1)]
    for w, word in enumerate(phones):
        tokens += [Token(symbols[phone], stress, w) for phone, stress in map(split_stress, word)]
    return tokens + [Token(SILENCE, 0, len(phones))]


def token_features(tokens, mark):
    """Returns stress, position in the clause, and end mark of each token: [tokens, FEATURES]."""
    count = len(tokens)
    out = np.zeros((count, FEATURES), np.float32)
    stressed = [i for i, t in enumerate(tokens) if t.stress == 2]
    nucleus = stressed[-1] if stressed else count
    before = 0
    for i, token in enumerate(tokens):
        out[i, 0], out[i, 1] = token.stress == 2, token.stress == 1
        out[i, 2] = i == 0 or tokens[i - 1].word != token.word
        out[i, 3] = i + 1 == count or tokens[i + 1].word != token.word
        out[i, 4], out[i, 5] = min(i / COUNT_SCALE, MAX_COUNT), min((count - 1 - i) / COUNT_SCALE, MAX_COUNT)
        out[i, 6] = min(before / COUNT_SCALE, MAX_COUNT)
        out[i, 7] = min((len(stressed) - before) / COUNT_SCALE, MAX_COUNT)
        out[i, 8], out[i, 9] = i == nucleus, i > nucleus
        out[i, FIRST_MARK_FEATURE + END_MARKS.index(mark)] = 1
        before += token.stress == 2
    return out


def align(phones, events):
    """Returns for each phone the index of the event at which it starts, by least edit cost."""
    n, m = len(phones), len(events)
    cost = np.zeros((n + 1, m + 1), np.int32)
    cost[:, 0], cost[0] = 2 * np.arange(n + 1), 2 * np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            substitution = cost[i - 1, j - 1] + 3 * (phones[i - 1] != events[j - 1])
            cost[i, j] = min(substitution, cost[i - 1, j] + 2, cost[i, j - 1] + 2)
    starts, i, j = [m] * n, n, m
    while i > 0:
        if j > 0 and cost[i, j] == cost[i - 1, j - 1] + 3 * (phones[i - 1] != events[j - 1]):
            i, j = i - 1, j - 1
            starts[i] = j
        elif j > 0 and cost[i, j] == cost[i, j - 1] + 2:
            j -= 1
        else:
            i -= 1
            starts[i] = j
    if starts:
        starts[0] = 0
    return starts
