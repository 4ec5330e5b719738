"""Language model of the recognizer's decoder: a trigram model with Kneser-Ney smoothing, as an ARPA
file.

It is estimated from sentences of the train split, from text-only sentences, and from utterances to
the language model `llm`.
"""
import argparse
import collections
import gzip
import io
import itertools
import math
import os

import grammar
import numpy as np
import queries

SENTENCES, ORDER = 60_000, 3
# Utterances to `llm` that are drawn before those with rare words are dropped; text-only sentences.
QUERIES, TEXT_ONLY_SENTENCES = 10_000, 30_000
DISCOUNT = 0.9
# An n-gram is pruned if that costs the training text less than this, in nats.
MIN_GAIN_NATS = {2: 0.5, 3: 3.0}
BEGIN, END = "<s>", "</s>"
LOG_ZERO = -99
# Probability that two sentences are joined, and the conjunctions between them.
JOIN_PROBABILITY, CONJUNCTIONS = 0.08, ["and", "and", "and then", "or"]


def train_sentences(seed, count):
    """Yields sentences of the train split."""
    rng = np.random.default_rng([seed, 4])
    for _ in range(count):
        text = grammar.sentence(rng)
        if rng.random() < JOIN_PROBABILITY:
            text += f" {CONJUNCTIONS[rng.integers(len(CONJUNCTIONS))]} {grammar.sentence(rng)}"
        yield text


def text_only_sentences(seed, count):
    """Yields text-only sentences, which add word sequences that the train split does not have."""
    rng = np.random.default_rng([seed, 7])
    return (grammar.text_only_sentence(rng) for _ in range(count))


def count_ngrams(texts):
    """Returns the counts of n-grams, by order."""
    counts = [None] + [collections.Counter() for _ in range(ORDER)]
    for text in texts:
        words = [BEGIN, *text.split(), END]
        for order in range(1, ORDER + 1):
            for at in range(len(words) - order + 1):
                counts[order][tuple(words[at:at + order])] += 1
    return counts


def continuation_counts(counts):
    """Replaces the counts of lower orders by the numbers of different preceding words (Kneser-Ney).
    """
    for order in range(1, ORDER):
        continuations = collections.Counter(gram[1:] for gram in counts[order + 1])
        continuations.update({gram: n for gram, n in counts[order].items() if gram[0] == BEGIN})
        counts[order] = continuations
    return counts


class NgramModel:
    """Log probabilities of n-grams and backoff weights of contexts, natural logarithms."""

    def __init__(self, counts, words):
        self.log_probs = [None] + [{} for _ in range(ORDER)]
        self.backoffs = {}
        total = sum(n for gram, n in counts[1].items() if gram[0] != BEGIN)
        unigrams = [(w,) for w in words] + [(END,)]
        for gram in unigrams:
            self.log_probs[1][gram] = math.log((counts[1][gram] + 0.5) / (total + 0.5 * len(unigrams)))
        for order in range(2, ORDER + 1):
            self._add_order(counts[order], order)

    def _add_order(self, counts, order):
        totals, distinct = collections.Counter(), collections.Counter()
        for gram, n in counts.items():
            totals[gram[:-1]] += n
            distinct[gram[:-1]] += 1
        probs, kept = {}, collections.defaultdict(list)
        for gram, n in counts.items():
            context = gram[:-1]
            lower = math.exp(self.log_prob(gram[1:]))
            probs[gram] = (n - DISCOUNT + DISCOUNT * distinct[context] * lower) / totals[context]
            min_gain = MIN_GAIN_NATS[order]
            if n * math.log(probs[gram] / lower) > min_gain or n * math.log(lower / probs[gram]) > min_gain:
                kept[context].append(gram)
        for context, grams in kept.items():
            left = 1 - sum(probs[g] for g in grams)
            lower = 1 - sum(math.exp(self.log_prob(g[1:])) for g in grams)
            self.backoffs[context] = math.log(max(left, 1e-6) / max(lower, 1e-6))
            for gram in grams:
                self.log_probs[order][gram] = math.log(probs[gram])

    def log_prob(self, gram):
        """Returns the log probability of the last word of an n-gram, given the words before it."""
        if gram in self.log_probs[len(gram)]:
            return self.log_probs[len(gram)][gram]
        return self.backoffs.get(gram[:-1], 0.0) + self.log_prob(gram[1:])

    def perplexity(self, sentences):
        total = count = 0
        for text in sentences:
            words = [BEGIN, *text.split(), END]
            for at in range(1, len(words)):
                total -= self.log_prob(tuple(words[max(0, at - ORDER + 1):at + 1]))
                count += 1
        return math.exp(total / count)

    def write(self, path):
        """Writes a compressed ARPA file. Its logarithms have base ten."""
        self.log_probs[1][(BEGIN,)] = LOG_ZERO * math.log(10)
        contexts = {g[:k] for order in range(2, ORDER + 1) for g in self.log_probs[order] for k in range(1, order)}
        for context in sorted(contexts, key=len, reverse=True):
            if context not in self.log_probs[len(context)]:
                self.log_probs[len(context)][context] = self.log_prob(context)
        # Reproducible: the archive contains neither a file name nor a time.
        with (open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
              io.TextIOWrapper(packed) as file):
            header = (f"ngram {n}={len(self.log_probs[n])}" for n in range(1, ORDER + 1))
            print("\\data\\", *header, sep="\n", file=file)
            for order in range(1, ORDER + 1):
                print(f"\n\\{order}-grams:", file=file)
                for gram in sorted(self.log_probs[order]):
                    line = f"{max(LOG_ZERO, self.log_probs[order][gram] / math.log(10)):.2f}\t{' '.join(gram)}"
                    if gram in contexts:
                        line += f"\t{self.backoffs.get(gram, 0.0) / math.log(10):.2f}"
                    print(line, file=file)
            print("\n\\end\\", file=file)


def build(seed, path, sentences=SENTENCES):
    counts = count_ngrams(itertools.chain(
        train_sentences(seed, sentences), text_only_sentences(seed, TEXT_ONLY_SENTENCES),
        queries.draw_sentences(seed, QUERIES)))
    words = {*grammar.vocabulary(), *(word for (word,) in counts[1])} - {BEGIN, END}
    model = NgramModel(continuation_counts(counts), sorted(words))
    model.write(path)
    rng = np.random.default_rng([seed, 5])
    for name, is_new in (("known templates", False), ("new templates", True)):
        texts = [grammar.sentence(rng, "validation", is_new) for _ in range(1000)]
        print(f"asr language model: perplexity {model.perplexity(texts):.1f} on {name}", flush=True)
    print(f"asr language model: {[len(p) for p in model.log_probs[1:]]} n-grams, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", help="ARPA file to write, compressed with gzip")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="sentences of the train split")
    arguments = parser.parse_args()
    build(arguments.seed, arguments.path, arguments.sentences)
