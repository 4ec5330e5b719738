"""Utterances to the language model `llm`, normalized as the recognizer writes them."""
import collections
import os
import random
import re
import sys

from paths import ZOO

# Appended after tools/zoo, which has other modules of the same names.
sys.path.append(os.path.join(ZOO, "llm"))
from dialogues import Speaker  # noqa: E402
from phrasing import AMERICAN, CONTRACTIONS  # noqa: E402

# Sentences with a word that occurs in fewer sentences are dropped: it is a pseudoword or a rare
# name.
MIN_WORD_COUNT = 6
TURNS_PER_SPEAKER = 8
WORD = re.compile(r"[a-z']+")
SPELLINGS = {short.replace("'", ""): short for _, short in CONTRACTIONS} | AMERICAN


def draw_sentences(seed, count):
    """Draws `count` training utterances without digits, and returns those without rare words."""
    rng, sentences = random.Random(f"{seed} questions"), []
    while len(sentences) < count:
        speaker = Speaker(rng)
        for _ in range(TURNS_PER_SPEAKER):
            sentences += (" ".join(normalized_words(turn.user)) for turn in speaker.any_turns()
                          if not re.search(r"\d", turn.user))
    counts = collections.Counter(word for text in sentences for word in set(text.split()))
    return [text for text in sentences if all(counts[word] >= MIN_WORD_COUNT for word in text.split())]


def normalized_words(text):
    """Returns the words of a text in the spelling of the recognizer."""
    return [SPELLINGS.get(word, word) for word in WORD.findall(text.lower())]


if __name__ == "__main__":
    sentences = draw_sentences(1, 30_000)
    words = collections.Counter(word for text in sentences for word in text.split())
    rare = [word for word, n in words.items() if n < 9]
    print(len(sentences), "sentences,", len(words), "words; rare ones:", *rare[:80])
    print(*sentences[:40], sep="\n")
