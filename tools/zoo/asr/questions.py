"""What people say to the assistant's language model, as the recogniser writes it: without marks, capitals and digits."""
import collections
import os
import random
import re
import sys

from paths import ZOO

# Behind the zoo's shared modules, of which it has others by the same name.
sys.path.append(os.path.join(ZOO, "llm"))
from dialogues import Speaker  # noqa: E402
from phrasing import AMERICAN, SHORT  # noqa: E402

# Words that stand in fewer of the sentences were made up, or are names that a recogniser need not know.
LEAST = 6
WORD = re.compile(r"[a-z']+")
SPELLED = {short.replace("'", ""): short for _, short in SHORT} | AMERICAN


def said(seed, count):
    """Sentences with phrasings and values of the training of `llm`, of words that stand in several of them."""
    rng, found = random.Random(f"{seed} questions"), []
    while len(found) < count:
        speaker = Speaker(rng)
        for _ in range(8):
            found += (" ".join(spelled(turn.user)) for turn in speaker.any_turns() if not re.search(r"\d", turn.user))
    counts = collections.Counter(word for text in found for word in set(text.split()))
    return [text for text in found if all(counts[word] >= LEAST for word in text.split())]


def spelled(text):
    """The words of a text, each in the one spelling that the recogniser has for it."""
    return [SPELLED.get(word, word) for word in WORD.findall(text.lower())]


if __name__ == "__main__":
    sentences = said(1, 30_000)
    words = collections.Counter(word for text in sentences for word in text.split())
    print(len(sentences), "sentences,", len(words), "words; rare ones:", *[word for word, n in words.items() if n < 9][:80])
    print(*sentences[:40], sep="\n")
