"""The language model of the recogniser's decoder: words in threes, counted in sentences of training, in others that are
only written, and in what people say to the language model `llm`, as an ARPA file."""
import argparse
import collections
import gzip
import io
import itertools
import math
import os

import grammar
import numpy as np
import questions

SENTENCES, ORDER = 60_000, 3
# How many more sentences are drawn of what people say to the assistant's language model, of which those without rare words
# stay, and of templates that are only written.
QUESTIONS, PHRASES = 10_000, 30_000
DISCOUNT = 0.9
# Sequences whose loss would cost the sentences counted less than this many nepers are left out.
LEAST_GAIN = {2: 0.5, 3: 3.0}
BEGIN, END = "<s>", "</s>"
# How often two sentences are one, and what joins them.
JOINED_SHARE, JOINTS = 0.08, ["and", "and", "and then", "or"]


def said(seed, sentences):
    """Sentences of training."""
    rng = np.random.default_rng([seed, 4])
    for _ in range(sentences):
        text = grammar.sentence(rng)
        if rng.random() < JOINED_SHARE:
            text += f" {JOINTS[rng.integers(len(JOINTS))]} {grammar.sentence(rng)}"
        yield text


def phrases(seed, sentences):
    """Sentences of templates that are only written: how words follow each other elsewhere."""
    rng = np.random.default_rng([seed, 7])
    return (grammar.phrase(rng) for _ in range(sentences))


def counted(texts):
    """How often each word, pair and triple stands in texts."""
    counts = [None] + [collections.Counter() for _ in range(ORDER)]
    for text in texts:
        words = [BEGIN, *text.split(), END]
        for order in range(1, ORDER + 1):
            for at in range(len(words) - order + 1):
                counts[order][tuple(words[at:at + order])] += 1
    return counts


def continued(counts):
    """For all but the longest sequences, how many different words stand before them (Kneser and Ney)."""
    for order in range(1, ORDER):
        before = collections.Counter(gram[1:] for gram in counts[order + 1])
        before.update({gram: n for gram, n in counts[order].items() if gram[0] == BEGIN})
        counts[order] = before
    return counts


class Model:
    """Chances of words behind words: natural logarithms, with the weight of falling back for each context."""

    def __init__(self, counts, words):
        self.chances = [None] + [{} for _ in range(ORDER)]
        self.weights = {}
        total = sum(n for gram, n in counts[1].items() if gram[0] != BEGIN)
        known = [(w,) for w in words] + [(END,)]
        for gram in known:
            self.chances[1][gram] = math.log((counts[1][gram] + 0.5) / (total + 0.5 * len(known)))
        for order in range(2, ORDER + 1):
            self._add(counts[order], order)

    def _add(self, counts, order):
        totals, kinds = collections.Counter(), collections.Counter()
        for gram, n in counts.items():
            totals[gram[:-1]] += n
            kinds[gram[:-1]] += 1
        found, kept = {}, collections.defaultdict(list)
        for gram, n in counts.items():
            context = gram[:-1]
            lower = math.exp(self.chance(gram[1:]))
            found[gram] = (n - DISCOUNT + DISCOUNT * kinds[context] * lower) / totals[context]
            if n * math.log(found[gram] / lower) > LEAST_GAIN[order] or n * math.log(lower / found[gram]) > LEAST_GAIN[order]:
                kept[context].append(gram)
        for context, grams in kept.items():
            left = 1 - sum(found[g] for g in grams)
            lower = 1 - sum(math.exp(self.chance(g[1:])) for g in grams)
            self.weights[context] = math.log(max(left, 1e-6) / max(lower, 1e-6))
            for gram in grams:
                self.chances[order][gram] = math.log(found[gram])

    def chance(self, gram):
        """Of the last word behind those before it."""
        if gram in self.chances[len(gram)]:
            return self.chances[len(gram)][gram]
        return self.weights.get(gram[:-1], 0.0) + self.chance(gram[1:])

    def perplexity(self, sentences):
        total = count = 0
        for text in sentences:
            words = [BEGIN, *text.split(), END]
            for at in range(1, len(words)):
                total -= self.chance(tuple(words[max(0, at - ORDER + 1):at + 1]))
                count += 1
        return math.exp(total / count)

    def write(self, path):
        """As a compressed ARPA file, which has logarithms to the base of ten."""
        self.chances[1][(BEGIN,)] = -99 * math.log(10)
        needed = {g[:k] for order in range(2, ORDER + 1) for g in self.chances[order] for k in range(1, order)}
        for context in sorted(needed, key=len, reverse=True):
            if context not in self.chances[len(context)]:
                self.chances[len(context)][context] = self.chance(context)
        # Neither the name nor the time of the file is in it: the same model gives the same bytes.
        with (open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
              io.TextIOWrapper(packed) as file):
            print("\\data\\", *(f"ngram {n}={len(self.chances[n])}" for n in range(1, ORDER + 1)), sep="\n", file=file)
            for order in range(1, ORDER + 1):
                print(f"\n\\{order}-grams:", file=file)
                for gram in sorted(self.chances[order]):
                    line = f"{max(-99, self.chances[order][gram] / math.log(10)):.2f}\t{' '.join(gram)}"
                    if gram in needed:
                        line += f"\t{self.weights.get(gram, 0.0) / math.log(10):.2f}"
                    print(line, file=file)
            print("\n\\end\\", file=file)


def build(seed, path, sentences=SENTENCES):
    counts = counted(itertools.chain(said(seed, sentences), phrases(seed, PHRASES), questions.said(seed, QUESTIONS)))
    words = {*grammar.vocabulary(), *(word for (word,) in counts[1])} - {BEGIN, END}
    model = Model(continued(counts), sorted(words))
    model.write(path)
    rng = np.random.default_rng([seed, 5])
    for name, part, new in (("known templates", "tuning", False), ("new templates", "tuning", True)):
        texts = [grammar.sentence(rng, part, new) for _ in range(1000)]
        print(f"asr language: perplexity {model.perplexity(texts):.1f} on {name}", flush=True)
    print(f"asr language: {[len(c) for c in model.chances[1:]]} sequences, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    arguments = parser.parse_args()
    build(arguments.seed, arguments.path, arguments.sentences)
