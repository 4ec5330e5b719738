"""Sentences of a home assistant from templates, in train, validation and test splits."""
import functools
import math
import os
import re
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from sections import read_sections  # noqa: E402

ONES = "one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()

SLOTS = {name: "|".join(lines) for name, lines in read_sections(os.path.join(HERE, "phrases", "slots.txt")).items()}
TEMPLATES = read_sections(os.path.join(HERE, "phrases", "templates.txt"))
# Templates for the n-gram language model only, with words of the train split; they are never
# synthesized. None of them yields a sentence of a template that is held out.
TEXT_ONLY_FILE = os.path.join(HERE, "phrases", "text_only.txt")
# Templates with at least this many sentences are split by sentence: an eighth is held out for
# validation and an eighth for the test.
SPLIT_MIN_SENTENCES = 200
WAKE_PROBABILITY, ASK_PROBABILITY, POLITE_PROBABILITY = 0.16, 0.07, 0.05
RANDOM_WORDS = (2, 8)


def number_words(value):
    """Spells out a number from 0 to 199."""
    if value < 10:
        return ONES[value - 1] if value else "zero"
    if value < 20:
        return TEENS[value - 10]
    if value < 100:
        return TENS[value // 10 - 2] + (" " + ONES[value % 10 - 1] if value % 10 else "")
    return "one hundred" + (" and " + number_words(value - 100) if value > 100 else "")


def _parse_choices(text, at, end):
    """Parses choices up to the bracket `end`.

    Returns the sequences and the index of the bracket.
    """
    choices, sequence, word = [], [], ""
    while at < len(text) and text[at] != end:
        c = text[at]
        if c in "([{|" and word:
            sequence.append(word)
            word = ""
        if c == "(" or c == "[":
            inner, at = _parse_choices(text, at + 1, ")" if c == "(" else "]")
            sequence.append(inner + [[""]] if c == "[" else inner)
        elif c == "{":
            close = text.index("}", at)
            sequence.append(_slot_choices(text[at + 1:close]))
            at = close
        elif c == "|":
            choices.append(sequence)
            sequence = []
        else:
            word += c
        at += 1
    choices.append(sequence + ([word] if word else []))
    return choices, at


@functools.cache
def _slot_choices(name):
    """Returns the parsed choices of a slot."""
    span = re.fullmatch(r"(\d+)-(\d+)", name)
    if span:
        return tuple([number_words(n)] for n in range(int(span[1]), int(span[2]) + 1))
    return tuple(_parse_choices(SLOTS[name], 0, "")[0])


def _count_texts(element):
    """Counts the texts that an element of a parsed template can expand to."""
    if isinstance(element, str):
        return 1
    return sum(math.prod(_count_texts(e) for e in sequence) for sequence in element)


def _expand(rng, element):
    if isinstance(element, str):
        return element
    return "".join(_expand(rng, e) for e in element[rng.integers(len(element))])


@functools.cache
def templates(name):
    """Returns the parsed templates of a split, their numbers of texts, and their sampling
    probabilities.
    """
    if name == "text only":
        with open(TEXT_ONLY_FILE) as file:
            lines = file.read().strip().split("\n")
    else:
        lines = TEMPLATES[name]
    parsed = [[sequence] for line in lines for sequence in _parse_choices(line, 0, "")[0]]
    counts = [_count_texts(template) for template in parsed]
    weights = [1 + math.log(count) for count in counts]
    return parsed, counts, [weight / sum(weights) for weight in weights]


def split_of(text, count):
    """Returns the split of a sentence from a template with `count` sentences."""
    if count < SPLIT_MIN_SENTENCES:
        return "train"
    return {0: "test", 1: "validation"}.get(zlib.crc32(text.encode()) % 8, "train")


def sentence(rng, split="train", new_template=False):
    """Draws a sentence of a split, from templates of the train split or from new ones."""
    parsed, counts, probabilities = templates(split if new_template else "train")
    while True:
        i = rng.choice(len(parsed), p=probabilities)
        text = _expand(rng, parsed[i])
        draw = rng.random()
        if draw < WAKE_PROBABILITY:
            text = f"{_expand(rng, _slot_choices('wake'))} {text}"
        elif draw < WAKE_PROBABILITY + ASK_PROBABILITY:
            text = f"{_expand(rng, _slot_choices('ask'))} {text}"
        elif draw < WAKE_PROBABILITY + ASK_PROBABILITY + POLITE_PROBABILITY:
            text = f"{text} {_expand(rng, _slot_choices('polite'))}"
        text = " ".join(text.split())
        if new_template or split_of(text, counts[i]) == split:
            return text


def text_only_sentence(rng):
    """Draws a sentence of the text-only templates, each with the same probability."""
    parsed, _, _ = templates("text only")
    return " ".join(_expand(rng, parsed[rng.integers(len(parsed))]).split())


@functools.cache
def vocabulary():
    """Returns the sorted words of the train split."""
    rng = np.random.default_rng(1)
    parsed, _, _ = templates("train")
    words = {w for template in parsed for _ in range(200) for w in _expand(rng, template).split()}
    for slot in ("wake", "ask", "polite", "thing", "things"):
        words |= {w for _ in range(500) for w in _expand(rng, _slot_choices(slot)).split()}
    return sorted(words)


def random_words(rng):
    """Draws a string of random words of the vocabulary."""
    words = vocabulary()
    return " ".join(words[rng.integers(len(words))] for _ in range(rng.integers(*RANDOM_WORDS)))


if __name__ == "__main__":
    generator = np.random.default_rng(1)
    known = set(vocabulary())
    parsed, counts, _ = templates("train")
    print(f"{len(known)} words, {len(parsed)} templates, {sum(counts):.3g} sentences")
    for split in ("validation", "test"):
        texts = [sentence(generator, split, True) for _ in range(4000)]
        new = {w for text in texts for w in text.split()} - known
        print(f"{split}: {len(templates(split)[0])} templates, words not in the train split: {sorted(new)}")
    for _ in range(12):
        print("  ", sentence(generator), "/", sentence(generator, "test", True))
