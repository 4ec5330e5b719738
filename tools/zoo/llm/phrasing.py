"""Phrasings: cores of each intent, and frames around them, from phrases/*.txt, by split."""
import functools
import re

from phrases import sections, split_of_core, split_of_frame, train_only_sections
from slots import VALUE_WORDS, number_words

# Probability that a core is used without a frame, by kind; cores of other kinds need a frame.
NO_FRAME_PROBABILITY = {"q": 0.4, "vp": 0.3, "s": 0.45, "any": 0.85}
OPENING_PROBABILITY, CLOSING_PROBABILITY, FILLER_PROBABILITY = 0.2, 0.15, 0.06
ARTICLE_DROP_PROBABILITY, CONTRACTION_PROBABILITY, WRITTEN_PROBABILITY = 0.08, 0.3, 0.35
AMERICAN_PROBABILITY, DIGITS_PROBABILITY = 0.4, 0.4
DROPPABLE = {"the", "a", "an", "that", "please", "to"}
# Augmentation: an utterance gets a stray word at its start or end, or loses a word as in a
# recognition error. Words that carry the meaning are kept.
STRAY_WORD_PROBABILITY, WORD_DROP_PROBABILITY = 0.08, 0.08
WORD_DROP_MIN_WORDS = 5
KEEP_WORDS = set(" ".join(sections("tables/words.txt")["keep"]).split())
CONTRACTIONS = [tuple(line.split(": ")) for line in sections("tables/words.txt")["contractions"]]
# Intents whose numbers may be written in digits.
DIGIT_INTENTS = {"timer", "duration", "tell_age", "plus", "minus", "times"}
AMERICAN = dict(line.split(": ") for line in sections("tables/words.txt")["american"])
NUMBERS = {number_words(number): str(number) for number in range(100, -1, -1)}
NUMBER = re.compile(r"\b(" + "|".join(sorted(NUMBERS, key=len, reverse=True)) + r")\b")


def alternatives(text):
    """Returns all expansions of a text with (alternatives|in|brackets)."""
    match = re.search(r"\(([^()]*)\)", text)
    if not match:
        return [" ".join(text.split())]
    before, after = text[:match.start()], text[match.end():]
    return [whole for choice in match[1].split("|") for whole in alternatives(before + choice + after)]


def normalized_texts(core):
    """Returns all expansions of a core, without its kind and punctuation."""
    return {" ".join(re.sub(r"[^a-z_{}0-9 ]", "", text).split()) for text in alternatives(core.split(" ", 1)[1])}


def choose(rng, text):
    """Returns a random expansion of a text."""
    while "(" in text:
        text = re.sub(r"\(([^()]*)\)", lambda match: rng.choice(match[1].split("|")), text)
    return " ".join(text.split())


@functools.lru_cache
def frames(kind, split):
    by_split = {"train": [], "dev": [], "test": []}
    for line in sections("frames.txt")[kind]:
        by_split[split_of_frame(kind, line)].append(line)
    by_split["train"] += train_only_sections("frames.txt").get(kind, ())
    return by_split[split]


class Intent:
    """Cores of one intent by split: pairs of a kind (q, iq, np, vp, s, any) and a template.

    `train_only` are additional cores of the train split. A `dev` or `test` core whose text also
    occurs in the train split is dropped.
    """

    def __init__(self, name, lines, train_only=()):
        self.name = name
        self.cores = {"train": [], "dev": [], "test": []}
        known = set().union(*(normalized_texts(line) for line in lines if split_of_core(name, line) == "train"),
                            *map(normalized_texts, train_only))
        for line in lines:
            split = split_of_core(name, line)
            if split == "train" or known.isdisjoint(normalized_texts(line)):
                self.cores[split].append(tuple(line.split(" ", 1)))
        self.cores["train"] += [tuple(line.split(" ", 1)) for line in train_only]
        if not self.cores["train"]:
            self.cores["train"] = self.cores["dev"] + self.cores["test"]

    def count_phrasings(self):
        """Counts the expansions of the cores of the train split."""
        return sum(len(alternatives(template)) for _, template in self.cores["train"])


class Phraser:
    """Generates utterances of intents with phrasings of one split.

    `augment` adds stray words and drops words. `sampler` draws the cores; without it they are drawn
    uniformly. `last_core` is the intent and the index of the core of the last utterance.
    """

    def __init__(self, rng, split="train", augment=False, sampler=None):
        self.rng, self.split, self.augment, self.sampler = rng, split, augment, sampler
        self.last_core = None

    def draw_core(self, intent):
        cores = intent.cores[self.split]
        index = self.sampler.draw(self.rng, intent.name) if self.sampler else self.rng.randrange(len(cores))
        self.last_core = intent.name, index
        return cores[index]

    def draw_frame(self, kind):
        split = self.split
        if split != "train" and (self.rng.random() < 0.5 or not frames(kind, split)):
            split = "train"
        if split == "train" and self.rng.random() < NO_FRAME_PROBABILITY.get(kind, 0):
            return "{}"
        return self.rng.choice(frames(kind, split))

    def draw_affix(self, kind, probability):
        """Draws an opening, closing or filler, or an empty string."""
        if self.rng.random() >= probability:
            return ""
        split = self.split if self.rng.random() < 0.5 else "train"
        return self.rng.choice(frames(kind, split) or frames(kind, "train"))

    def say(self, intent, slots, bare=False):
        """Generates an utterance of the intent, as recognized or as written; `bare` means without a
        frame.
        """
        rng = self.rng
        kind, core = self.draw_core(intent)
        text = choose(rng, core)
        if not bare:
            text = choose(rng, self.draw_frame(kind)).replace("{}", text)
        opening, closing = ("", "") if bare else (self.draw_affix("open", OPENING_PROBABILITY),
                                                  self.draw_affix("close", CLOSING_PROBABILITY))
        if rng.random() < ARTICLE_DROP_PROBABILITY:
            text = drop_function_word(rng, text)
        if self.augment and not bare:
            text = drop_word(rng, text) if rng.random() < WORD_DROP_PROBABILITY else text
            # A stray word next to a slot would be taken for a part of its value.
            if rng.random() < STRAY_WORD_PROBABILITY / 2 and (opening or not text.startswith("{")):
                opening = f"{opening} {rng.choice(VALUE_WORDS)}".strip()
            if rng.random() < STRAY_WORD_PROBABILITY / 2 and (closing or not text.endswith("}")):
                closing = f"{closing} {rng.choice(VALUE_WORDS)}".strip()
        if rng.random() < FILLER_PROBABILITY and not bare:
            text = insert_filler(rng, text, self.draw_affix("filler", 1))
        if rng.random() < CONTRACTION_PROBABILITY:
            text = contract(rng, text)
        for slot, value in slots.items():
            text = text.replace("{" + slot + "}", value)
        text = to_american(text) if rng.random() < AMERICAN_PROBABILITY else text
        if rng.random() < WRITTEN_PROBABILITY:
            if intent.name in DIGIT_INTENTS and rng.random() < DIGITS_PROBABILITY:
                text = to_digits(text)
            return write_text(rng, kind, opening, text, closing)
        return " ".join(f"{opening} {text} {closing}".split())


def drop_function_word(rng, text):
    words = text.split()
    candidates = [i for i, word in enumerate(words) if word in DROPPABLE]
    if candidates and len(words) > 3:
        del words[rng.choice(candidates)]
    return " ".join(words)


def drop_word(rng, text):
    words = text.split()
    candidates = [i for i, word in enumerate(words) if "{" not in word and word not in KEEP_WORDS]
    if candidates and len(words) >= WORD_DROP_MIN_WORDS:
        del words[rng.choice(candidates)]
    return " ".join(words)


def insert_filler(rng, text, filler):
    words = text.split()
    words.insert(rng.randint(0, len(words)), filler)
    return " ".join(words)


def contract(rng, text):
    """Contracts some of the word pairs, sometimes without apostrophes."""
    no_apostrophe = rng.random() < 0.3
    for long, short in CONTRACTIONS:
        if rng.random() < 0.7:
            text = re.sub(rf"\b{long}\b", short.replace("'", "") if no_apostrophe else short, text)
    return text


def to_digits(text):
    return NUMBER.sub(lambda match: NUMBERS[match[0]], text)


def to_american(text):
    return re.sub("|".join(AMERICAN), lambda match: AMERICAN[match[0]], text)


def write_text(rng, kind, opening, text, closing):
    """Joins the parts of an utterance with capitals and punctuation."""
    comma = "," if rng.random() < 0.7 else ""
    text = f"{opening}{comma} {text}" if opening else text
    text = f"{text}{comma} {closing}" if closing else text
    text = re.sub(r"\bi\b", "I", text)
    mark = {"q": "?", "iq": rng.choice("?.")}.get(kind, rng.choice(("", ".", ".", "!")))
    return text[:1].upper() + text[1:] + mark
