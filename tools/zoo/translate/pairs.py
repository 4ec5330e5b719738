"""Sentence pairs in English and Spanish from parallel templates."""
import functools
import os
import re
import sys
import zlib
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "asr")]
import grammar  # noqa: E402
from sections import read_sections  # noqa: E402

POLITE_PROBABILITY = 0.05
# Of eight sentences of a template with at least this many, one is for validation and one for the test.
SPLIT_MIN_SENTENCES = 100
SPLITS = {0: "test", 1: "validation"}

SPANISH_ONES = ("cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
                "diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco "
                "veintiséis veintisiete veintiocho veintinueve").split()
SPANISH_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()
# Forms of `o` and of the plural by gender and number.
ENDINGS = {"m": "o", "f": "a", "mp": "os", "fp": "as"}
ARTICLES = {"el": "m", "la": "f", "los": "mp", "las": "fp"}
DETERMINERS = {"mi": {"m": "mi", "f": "mi", "mp": "mis", "fp": "mis"},
               "un": {"m": "un", "f": "una", "mp": "unos", "fp": "unas"}, "-": dict.fromkeys(ENDINGS, "")}


class Pair(NamedTuple):
    english: str
    spanish: str


def spanish_number(value, gender=""):
    """Spells out a number from 0 to 199; `m` and `f` are the forms before a noun."""
    if value >= 100:
        return "ciento " + spanish_number(value - 100, gender) if value > 100 else "cien"
    words = SPANISH_ONES[value] if value < 30 else SPANISH_TENS[value // 10 - 3] + (
        f" y {SPANISH_ONES[value % 10]}" if value % 10 else "")
    if gender and words.endswith("uno"):
        ending = {"m": "ún" if words == "veintiuno" else "un", "f": "una"}[gender]
        words = words[:-3] + ending
    return words


@functools.cache
def slots():
    """The values of each slot: pairs of the texts in English and Spanish."""
    found = {}
    for name, lines in read_sections(os.path.join(HERE, "phrases", "slots.txt")).items():
        values = [value.split("=") for line in lines for value in line.split("|")]
        found[name] = [Pair(english.strip(), spanish.strip()) for english, spanish in values]
    return found


@functools.cache
def templates():
    """The templates, and the probability of each."""
    with open(os.path.join(HERE, "phrases", "pairs.txt")) as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    pairs = [Pair(*(side.strip() for side in line.split(" = "))) for line in lines]
    weights = [1 + 2 * pair.english.count("{") + pair.english.count("(") for pair in pairs]
    return pairs, [weight / sum(weights) for weight in weights]


class Sentence:
    """One expansion of a template: the choices and values that both sides share."""

    def __init__(self, rng, template):
        self.rng, self.choices, self.values = rng, [], {}
        english = re.sub(r"\(([^()]*)\)", self._choose, template.english)
        spanish_groups = iter(range(len(self.choices)))
        spanish = re.sub(r"\((?:(\d):)?([^()]*)\)",
                         lambda m: m[2].split("|")[self.choices[int(m[1]) - 1 if m[1] else next(spanish_groups)]],
                         template.spanish)
        self.english = " ".join(self._fill(english, "english").split())
        self.spanish = finish(self._fill(spanish, "spanish"))

    def _choose(self, match):
        parts = match[1].split("|")
        self.choices.append(int(self.rng.integers(len(parts))))
        return parts[self.choices[-1]]

    def _value(self, name):
        """The value of a slot, drawn once; another one than that of the same slot without a digit."""
        if name not in self.values:
            kind = name.rstrip("2") if not name[0].isdigit() else name
            if kind[0].isdigit():
                low, high = map(int, kind.split("-"))
                self.values[name] = int(self.rng.integers(low, high + 1))
            else:
                others = [value for value in slots()[kind] if value != self.values.get(kind)]
                self.values[name] = others[int(self.rng.integers(len(others)))]
        return self.values[name]

    def _fill(self, text, side):
        def fill(match):
            name, _, form = match[1].partition(":")
            value = self._value(name)
            if isinstance(value, int):
                return grammar.number_words(value) if side == "english" else spanish_number(value, form)
            filled = self._fill(getattr(value, side), side)
            return spanish_form(filled, form) if side == "spanish" else filled
        return re.sub(r"\{([^{}]+)\}", fill, text)


def spanish_form(text, form):
    """A slot value with another determiner, or in the masculine; nouns begin with their gender."""
    if form == "m":
        return text.replace("@", "o").replace("~", "")
    article, _, noun = text.lstrip("<mfp>").partition(" ")
    if article not in ARTICLES:
        return text
    gender = ARTICLES[article]
    determiner = DETERMINERS[form][gender] if form else article
    return f"<{gender}>{determiner} {noun}"


def finish(text):
    """Agreement, contractions, spaces, and the capital letter."""
    words = text.split()
    genders = [match[1] if (match := re.search(r"<(\w+)>", word)) else None for word in words]
    for i, word in enumerate(words):
        before = next((g for g in reversed(genders[:i + 1]) if g), None)
        after = next((g for g in genders[i + 1:] if g), None)
        gender = (after or "m") if ">" in re.sub(r"<\w+>", "", word) or "^" in word else before or after or "m"
        word = re.sub(r"<\w+>", "", word).replace(">", "")
        word = word.replace("@", ENDINGS[gender]).replace("^", "n" if gender in ("mp", "fp") else "")
        stem, mark, rest = word.partition("~")
        plural = "" if gender in ("m", "f") or not mark else "s" if stem[-1] in "aeiou" else "es"
        words[i] = stem + plural + rest
    text = " ".join(word for word in words if word)
    text = re.sub(r"\b([dD]e|[aA]) el\b", lambda m: m[1] + "l", text)
    text = re.sub(r" ([.,?!])", r"\1", text.replace("¿ ", "¿"))
    first = re.search(r"\w", text).start()
    return text[:first] + text[first].upper() + text[first + 1:]


@functools.cache
def count_sentences(english):
    """Number of sentences of a template or of a slot value."""
    count = 1
    for group in re.findall(r"\(([^()]*)\)", english):
        count *= sum(count_sentences(part) for part in group.split("|"))
    for name in re.findall(r"\{([^{}]+)\}", re.sub(r"\([^()]*\)", "", english)):
        if name[0].isdigit():
            low, high = map(int, name.split("-"))
            count *= high + 1 - low
        else:
            count *= sum(count_sentences(value.english) for value in slots()[name.rstrip("2")])
    return count


def split_of(english, count):
    """The split of a sentence from a template with `count` sentences."""
    if count < SPLIT_MIN_SENTENCES:
        return "train"
    return SPLITS.get(zlib.crc32(english.encode()) % 8, "train")


def pair(rng, split="train"):
    """Draws a sentence of a split with its translation."""
    pairs, probabilities = templates()
    while True:
        template = pairs[rng.choice(len(pairs), p=probabilities)]
        sentence = Sentence(rng, template)
        english, spanish = sentence.english, sentence.spanish
        if rng.random() < POLITE_PROBABILITY and "favor" not in spanish and len(english.split()) > 2:
            english, spanish = f"{english} please", f"{spanish[:-1]}, por favor{spanish[-1]}"
        if split_of(english, count_sentences(template.english)) == split:
            return Pair(english, spanish)
