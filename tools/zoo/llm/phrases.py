"""Phrase files: their sections, and the split (`train`, `dev` or `test`) of each line."""
import collections
import hashlib
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from sections import read_sections  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "phrases"
# Percentiles of the hash from which on a line belongs to `dev` and to `test`.
DEV_FROM, TEST_FROM = 70, 85
# A word of at least three letters that is not a slot.
WORD = r"(?<![{\w'])[a-z]{3,}(?![}\w'])"


def hash_percent(text):
    """Returns a number from 0 to 99 that depends on the text only."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 100


def split_of(text):
    """Returns the split of a text: `train`, `dev` or `test`."""
    percent = hash_percent(text)
    return "train" if percent < DEV_FROM else "dev" if percent < TEST_FROM else "test"


def sections(name):
    """Returns the sections of a phrase file."""
    return read_sections(FOLDER / name)


def train_only_sections(name):
    """Returns the sections of a file of phrases/training, whose lines all belong to `train`."""
    return sections(f"training/{name}") if (FOLDER / "training" / name).exists() else {}


def split_of_core(intent, core):
    """Returns the split of a core of an intent: a kind and a template."""
    return split_of(f"{intent} {core}")


def split_of_frame(kind, frame):
    """Returns the split of a frame, opening, closing or filler."""
    return "train" if frame == "{}" else split_of(f"frame {kind} {frame}")


def train_lines():
    """Yields (file, header, line) of the train split, without answers."""
    for file in sorted(path.name for path in FOLDER.glob("*.txt")):
        split = split_of_frame if file == "frames.txt" else split_of_core
        for header, lines in sections(file).items():
            yield from ((file, header, line) for line in lines
                        if not line.startswith("=") and split(header, line) == "train")
        for header, lines in train_only_sections(file).items():
            yield from ((file, header, line) for line in lines)


def word_counts():
    """Counts the words of the phrasings of the train split."""
    counts = collections.Counter()
    for _, _, line in train_lines():
        counts.update(re.findall(WORD, line))
    return counts


def slot_neighbors():
    """Returns the words that directly precede slots, and those that directly follow them.

    The last words of openings count as preceding, the first words of closings as following, and
    fillers as both.
    """
    preceding, following = set(), set()
    for file, header, line in train_lines():
        preceding.update(re.findall(r"([a-z']+)[|)( ]* \{", line))
        following.update(re.findall(r"\} [|)( ]*([a-z']+)", line))
        if file == "frames.txt" and header in ("open", "filler"):
            preceding.add(line.split()[-1])
        if file == "frames.txt" and header in ("close", "filler"):
            following.add(line.split()[0])
    return preceding, following
