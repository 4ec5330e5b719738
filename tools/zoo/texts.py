"""Texts to synthesize: template sentences, confusable texts, and the wake phrases themselves.

Templates and words of the test split never occur in training.
"""
import os

from sections import read_sections

PHRASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "phrases")
WORDS = {name: " ".join(lines).split() for name, lines in read_sections(os.path.join(PHRASES, "words.txt")).items()}
SENTENCES = read_sections(os.path.join(PHRASES, "sentences.txt"))
CONFUSABLES = {name: "|".join(lines).split("|")
               for name, lines in read_sections(os.path.join(PHRASES, "confusables.txt")).items()}
TEST_CONFUSABLES = set(CONFUSABLES["test"])
# Word list of each slot; {v} and {b} are the two forms of a verb, {w} is a pseudoword.
SLOT_WORDS = {"n": "nouns", "a": "adjectives", "r": "adverbs", "N": "names", "P": "locations", "c": "numbers"}

# Spellings of each wake phrase; double brackets enclose espeak-ng phonemes.
WAKE_PHRASES = {
    "hey afferent": ["hey afferent", "hey afferent", "hey afferent!", "hey afferent.", "hey afferrent",
                     "[[h'eI 'af3r@nt]]", "[[h'eI 'af@r@nt]]", "[[h'eI 'afr@nt]]", "[[h'eI 'af3rEnt]]",
                     "[[h'eI_ 'af3r@nt]]", "[[heI 'af3r@nt]]"],
    "stop": ["stop", "stop", "stop!", "stop.", "[[st'0p]]"],
    "go": ["go", "go", "go!", "go.", "[[g'oU]]", "[[g'@U]]"],
}
TEST_WAKE_PHRASES = {"hey afferent": ["hey afferent", "hey afferent!"], "stop": ["stop", "stop!"],
                     "go": ["go", "go!"]}

# Phonemes of each wake phrase: the alternatives of each part in different accents, repeated by
# weight.
PHONEME_ALTERNATIVES = {
    "hey afferent": [["h'"], "eI eI eI eI e: e: EI E e".split(), [" '", " '", " '", "_ '"],
                     "a a a a a a E a# A:".split(), ["f"], "@ @ @ 3 3 I2 V a# I".split() + ["", ""], ["r"],
                     "@ @ @ @ E E I a".split(), ["nt"]],
    "stop": [["st'"], "0 0 0 0 A: A: A: O a".split(), ["p"]],
    "go": [["g'"], "oU oU oU @U @U o: o: VU OU o".split()],
}
# Phoneme strings that differ from a wake phrase in one part. Of the confusables of the test, only
# "grow" is among them.
NEAR_MISSES = {
    "hey afferent": ["h'eI '%s" % t for t in "al@r@nt am@r@nt as@r@nt ak@r@nt af@l@nt af@m@nt afIs@nt afl@nt af@rI "
                     "af@ af@rVm Of@r@nt u:f@r@nt Ef@d@nt aI@r@nt".split()]
    + ["%s 'af@r@nt" % t for t in "w'eI d'eI m'eI s'eI h'u: h'A: n'aU g'eI s'i: D@".split()]
    + ["h'eI", "'af@r@nt", "h'eI 'af"],
    "stop": "st'0 st'0k st'0t st'0n st'0m st'0l st'0f st'Ep st'Ip st'u:p st'aIp st'eIp st'i:p sk'0p sp'0p sl'0p sw'0p "
            "fl'0p kl'0p d'0p t'0p st'0pI st'0p@ st'0pIN".split(),
    "go": "k'oU d'oU t'oU b'oU p'oU f'oU h'oU w'oU r'oU v'oU m'oU dZ'oU gr'oU gl'oU g'u: g'aI g'eI g'i: g'3: g'A: g'O: "
          "g'aU g'V g'oUt g'oUk g'oUd g'oUb g'oUm g'oUz g'oUtS @g'oU g'oU@ 'oU".split(),
}

ONSETS = ("b bl br ch d dr f fl fr g gl gr h j k kl kr l m n p pl pr r s sh sk sl sm sn sp st str sw t th tr v w "
          "y z").split()
VOWELS = "a e i o u ee oo ai oa ar or er ow oi".split()
CODAS = ["", "", "", *"b d f g k l m n p s t v x z ch sh nd nt st rm lk mp ng sk".split()]


def _words(name, unseen):
    """Returns the words that a split may use. Every seventh word is held out from training."""
    words = WORDS[name]
    return words if unseen else [word for i, word in enumerate(words) if i % 7 != 3]


def pseudoword(rng):
    """Returns a random pronounceable string."""
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
                   for _ in range(rng.integers(1, 4)))


def _slot_value(rng, slot, unseen):
    if slot == "w":
        return pseudoword(rng)
    if slot in "vb":
        past, infinitive = rng.choice(_words("verbs", unseen)).split(":")
        return past if slot == "v" else infinitive
    return str(rng.choice(_words(SLOT_WORDS[slot], unseen)))


def fill(rng, template, unseen):
    """Replaces the slots of a template by random words."""
    parts = template.split("{")
    return parts[0] + "".join(_slot_value(rng, p[0], unseen) + p[2:] for p in parts[1:])


def sentence(rng, unseen):
    """Returns a sentence without "stop", "go" or "afferent"."""
    return fill(rng, str(rng.choice(SENTENCES["test" if unseen else "train"])), unseen)


def embedded(rng, unseen):
    """Returns a sentence that contains a word of a wake phrase, or a part of one."""
    return fill(rng, str(rng.choice(SENTENCES["embedded test" if unseen else "embedded train"])), unseen)


def confusable(rng, unseen):
    """Returns a short text that sounds like a wake phrase."""
    texts = CONFUSABLES[list(WAKE_PHRASES)[rng.integers(3)]]
    return str(rng.choice([text for text in texts if (text in TEST_CONFUSABLES) == unseen]))


def short(rng, unseen):
    """Returns one or two everyday words."""
    slots = rng.choice(["n", "a", "N", "c", "an", "cn", "w", "r", "b"])
    return " ".join(_slot_value(rng, slot, unseen) for slot in slots)


def wake_phrase(rng, label, unseen):
    """Returns a spelling of a wake phrase."""
    return str(rng.choice((TEST_WAKE_PHRASES if unseen else WAKE_PHRASES)[label]))


def phoneme_phrase(rng, label):
    """Returns a wake phrase in espeak-ng phonemes, in a random accent."""
    return "[[" + "".join(str(rng.choice(part)) for part in PHONEME_ALTERNATIVES[label]) + "]]"


def near_miss(rng, unseen):
    """Returns a phoneme string close to a wake phrase. Training only."""
    return f"[[{rng.choice(NEAR_MISSES[str(rng.choice(list(NEAR_MISSES)))])}]]"
