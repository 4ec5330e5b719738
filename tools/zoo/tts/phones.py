"""Words to phones of espeak-ng, and a clause to the tokens that the acoustic model reads."""
import ctypes
import functools
import os
import sys
from typing import NamedTuple

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import speech  # noqa: E402

VOICE = "gmw/en-US"
RATE_WPM, PITCH, PITCH_RANGE = 165, 50, 50
PHONEME_EVENT, PHONEME_EVENTS = 7, 1
VOWEL_STARTS = tuple("aeiouAEIOUV3@0")
STRESSES = {"'": 2, ",": 1}
# Words that are weak inside a sentence, as espeak-ng says them there.
WEAK = {
    "a": "a#", "an": "an", "the": "D @2", "to": "t @", "of": "V v", "in": "I n", "on": "O2 n", "for": "f 3", "at": "a t", "and": "a n d",
    "is": "I z", "it": "I t", "its": "I t s", "it's": "I t s", "are": "A@", "was": "w V z", "were": "w 3:", "be": "b i:", "been": "b I n", "can": "k a n",
    "could": "k U d", "will": "w I l", "would": "w U d", "has": "h a z", "have": "h a v", "had": "h a d", "i": "aI", "i'm": "aI m",
    "i'll": "aI l", "i've": "aI v", "you": "j u:", "you're": "j U@", "he": "h i:", "she": "S i:", "we": "w i:", "they": "D eI", "his": "h I z", "him": "h I m", "her": "h 3:", "them": "D E m",
    "your": "j U@", "my": "m aI", "our": "aU 3", "their": "D e@", "this": "D I s", "that": "D a t", "that's": "D a t s", "as": "a z", "from": "f r V m",
    "with": "w I D", "by": "b aI", "or": "O@", "but": "b V t", "not": "n ,0 t", "so": "s oU", "than": "D a n", "me": "m i:", "us": "V s", "am": "a m",
    "should": "S U d", "shall": "S a l", "may": "m eI", "do": "d u:", "does": "d V z", "what": "w ,V t", "when": "w E n", "if": "I f",
    "there": "D e@", "which": "w I tS", "who": "h u:", "into": "I n t ,u:", "some": "s V m",
}
WEAK["an"] = "a n"
BEFORE_VOWEL = {"the": "D I2"}
# What a token tells besides its phone; the order is that of the program's input.
FEATURES = 14
SILENCE = 1
CONTEXT = 16
SPAN = 8.0


class Token(NamedTuple):
    phone: int
    stress: int
    word: int


class Espeak(speech._Espeak):
    """espeak-ng that also tells where each phoneme starts."""

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
        """Sound at espeak-ng's rate, and (sample, phoneme) events."""
        self.phones.clear()
        sound, _ = self.speak(text, VOICE, RATE_WPM, PITCH, PITCH_RANGE)
        return sound, list(self.phones)

    def spell(self, word):
        """Phones of a word said alone, the stress mark before each stressed vowel."""
        self.library.espeak_SetVoiceByName(VOICE.encode())
        text = ctypes.c_char_p(word.encode())
        found = self.library.espeak_TextToPhonemes(ctypes.byref(text), 1, ord("|") << 8) or b""
        phones = []
        for part in found.decode().replace(" ", "|").split("|"):
            phone = part.replace("_:", "").strip("_;!")
            if phone.strip("',"):
                phones.append(phone)
        return phones


@functools.cache
def espeak():
    return Espeak()


def pronounce(word):
    """Phones of a word inside a sentence."""
    return WEAK[word].split() if word in WEAK else espeak().spell(word)


def split(phone):
    """A phone without its stress mark, and its stress: 0 none, 1 secondary, 2 primary."""
    return (phone[1:], STRESSES[phone[0]]) if phone[0] in STRESSES else (phone, 0)


def phrase(words, lexicon):
    """Phones of each word of a clause."""
    found = [lexicon[word] for word in words]
    for i, word in enumerate(words[:-1]):
        if word in BEFORE_VOWEL and split(found[i + 1][0])[0].startswith(VOWEL_STARTS):
            found[i] = BEFORE_VOWEL[word].split()
    return found


def tokens(phones, symbols):
    """The tokens of a clause between two silences, from the phones of its words."""
    found = [Token(SILENCE, 0, -1)]
    for w, word in enumerate(phones):
        found += [Token(symbols[phone], stress, w) for phone, stress in map(split, word)]
    return found + [Token(SILENCE, 0, len(phones))]


def features(found, mark):
    """What the tokens of a clause know of their stress and of their place in it: [tokens, FEATURES]."""
    count = len(found)
    out = np.zeros((count, FEATURES), np.float32)
    stressed = [i for i, t in enumerate(found) if t.stress == 2]
    nucleus = stressed[-1] if stressed else count
    before = 0
    for i, token in enumerate(found):
        out[i, 0], out[i, 1] = token.stress == 2, token.stress == 1
        out[i, 2] = i == 0 or found[i - 1].word != token.word
        out[i, 3] = i + 1 == count or found[i + 1].word != token.word
        out[i, 4], out[i, 5] = min(i / SPAN, 4), min((count - 1 - i) / SPAN, 4)
        out[i, 6], out[i, 7] = min(before / SPAN, 4), min((len(stressed) - before) / SPAN, 4)
        out[i, 8], out[i, 9] = i == nucleus, i > nucleus
        out[i, 10 + ".,?!".index(mark)] = 1
        before += token.stress == 2
    return out


def align(ours, theirs):
    """For each of our phones the index of the event where it starts, by the least number of edits."""
    n, m = len(ours), len(theirs)
    cost = np.zeros((n + 1, m + 1), np.int32)
    cost[:, 0], cost[0] = 2 * np.arange(n + 1), 2 * np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost[i, j] = min(cost[i - 1, j - 1] + 3 * (ours[i - 1] != theirs[j - 1]), cost[i - 1, j] + 2, cost[i, j - 1] + 2)
    starts, i, j = [m] * n, n, m
    while i > 0:
        if j > 0 and cost[i, j] == cost[i - 1, j - 1] + 3 * (ours[i - 1] != theirs[j - 1]):
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
