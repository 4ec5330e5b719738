"""Sentences of an assistant and strings of random words, as clauses of spelled-out words with a
mark.
"""
import os
import re
from typing import NamedTuple

from language import language
from sections import pick

HERE = os.path.dirname(os.path.abspath(__file__))
RANDOM_WORDS_PROBABILITY = 0.3


class Clause(NamedTuple):
    """Spelled-out words and the mark that ends them: one of `.`, `,`, `?` and `!`."""
    words: tuple
    mark: str

    def text(self):
        return " ".join(self.words) + self.mark


def clauses(sentence):
    """Splits a sentence at its marks."""
    matches = re.findall(f"([{language.LETTERS} ]+)([.,?!])", sentence)
    return [Clause(tuple(words.split()), mark) for words, mark in matches if words.split()]


def random_clause(rng, words):
    count = int(rng.integers(2, 9))
    return Clause(tuple(pick(rng, words) for _ in range(count)), pick(rng, "...,?!"))


def draw(rng, split, words):
    """Draws the clauses of a sentence, or a clause of random words."""
    if rng.random() < RANDOM_WORDS_PROBABILITY:
        return [random_clause(rng, words)]
    return clauses(language.sentence(rng, split))
