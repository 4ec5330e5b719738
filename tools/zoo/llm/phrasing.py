"""Phrasings: cores of each intent and what stands around them, from phrases/*.txt, in parts that training sees or does not."""
import functools
import re

from phrases import more, part_of_core, part_of_frame, sections
from words import PARTS, in_words

# How often nothing but the core is said, by kind; cores of the other kinds need a frame.
BARE = {"q": 0.4, "vp": 0.3, "s": 0.45, "any": 0.85}
OPENING, CLOSING, FILLER, DROPPED, SHORTENED, WRITTEN = 0.2, 0.15, 0.06, 0.08, 0.3, 0.35
DROPPABLE = {"the", "a", "an", "that", "please", "to"}
# In training, an utterance may begin or end with a word that means nothing here, and one of its words may be left out,
# as a recogniser loses it, but for those that turn the meaning.
STRAY, LOST = 0.08, 0.08
LOST_FROM = 5
TURNING = set("on off not no never before after plus minus times next last all every who what where when which how why".split())
SHORT = [("what is", "what's"), ("where is", "where's"), ("who is", "who's"), ("when is", "when's"), ("i am", "i'm"),
         ("do not", "don't"), ("can not", "can't"), ("it is", "it's"), ("that is", "that's"), ("you are", "you're"),
         ("i would", "i'd"), ("i have", "i've"), ("does not", "doesn't"), ("did not", "didn't"), ("let us", "let's"),
         ("have not", "haven't"), ("how is", "how's"), ("can not", "cannot")]
COUNTED = {"timer", "duration", "tell_age", "plus", "minus", "times"}
AMERICAN = {"favourite": "favorite", "colour": "color", "neighbour": "neighbor", "grey": "gray", "favour": "favor"}


def alternatives(text):
    """All that a text with (alternatives|in|brackets) stands for."""
    match = re.search(r"\(([^()]*)\)", text)
    if not match:
        return [" ".join(text.split())]
    before, after = text[:match.start()], text[match.end():]
    return [whole for choice in match[1].split("|") for whole in alternatives(before + choice + after)]


def said(core):
    """All that a core stands for, without its kind and marks."""
    return {" ".join(re.sub(r"[^a-z_{}0-9 ]", "", text).split()) for text in alternatives(core.split(" ", 1)[1])}


def chosen(rng, text):
    """One of the alternatives."""
    while "(" in text:
        text = re.sub(r"\(([^()]*)\)", lambda match: rng.choice(match[1].split("|")), text)
    return " ".join(text.split())


@functools.lru_cache
def frames(kind, part):
    found = {"train": [], "dev": [], "test": []}
    for line in sections("frames.txt")[kind]:
        found[part_of_frame(kind, line)].append(line)
    found["train"] += more("frames.txt").get(kind, ())
    return found[part]


class Intent:
    """The cores of one intent, by part: pairs of a kind (q, iq, np, vp, s, any) and a template; `training` are more of its.

    What training says as a core of another kind is new to nobody, and in no other part.
    """

    def __init__(self, name, lines, training=()):
        self.name = name
        self.cores = {"train": [], "dev": [], "test": []}
        known = set().union(*(said(line) for line in lines if part_of_core(name, line) == "train"), *map(said, training))
        for line in lines:
            part = part_of_core(name, line)
            if part == "train" or known.isdisjoint(said(line)):
                self.cores[part].append(tuple(line.split(" ", 1)))
        self.cores["train"] += [tuple(line.split(" ", 1)) for line in training]
        if not self.cores["train"]:
            self.cores["train"] = self.cores["dev"] + self.cores["test"]

    def phrasings(self):
        """How many cores training has, alternatives counted, without frames, openings and closings."""
        return sum(len(alternatives(template)) for _, template in self.cores["train"])


class Phraser:
    """Says intents with phrasings of one part.

    `varied` adds words that mean nothing, and leaves some out; `drill` says how often which core is drawn, evenly if None.
    `said` is the core of the last utterance: the name of its intent, and its place among the cores.
    """

    def __init__(self, rng, part="train", varied=False, drill=None):
        self.rng, self.part, self.varied, self.drill = rng, part, varied, drill
        self.said = None

    def core(self, intent):
        cores = intent.cores[self.part]
        at = self.drill.draw(self.rng, intent.name) if self.drill else self.rng.randrange(len(cores))
        self.said = intent.name, at
        return cores[at]

    def frame(self, kind):
        part = self.part
        if part != "train" and (self.rng.random() < 0.5 or not frames(kind, part)):
            part = "train"
        if part == "train" and self.rng.random() < BARE.get(kind, 0):
            return "{}"
        return self.rng.choice(frames(kind, part))

    def around(self, kind, share):
        if self.rng.random() >= share:
            return ""
        part = self.part if self.rng.random() < 0.5 else "train"
        return self.rng.choice(frames(kind, part) or frames(kind, "train"))

    def say(self, intent, slots, bare=False):
        """An utterance of the intent, as recognised or as written."""
        rng = self.rng
        kind, core = self.core(intent)
        text = chosen(rng, core)
        if not bare:
            text = chosen(rng, self.frame(kind)).replace("{}", text)
        opening, closing = ("", "") if bare else (self.around("open", OPENING), self.around("close", CLOSING))
        if rng.random() < DROPPED:
            text = dropped(rng, text)
        if self.varied and not bare:
            text = lost(rng, text) if rng.random() < LOST else text
            # A word beside a value would be taken for a part of it.
            if rng.random() < STRAY / 2 and (opening or not text.startswith("{")):
                opening = f"{opening} {rng.choice(PARTS)}".strip()
            if rng.random() < STRAY / 2 and (closing or not text.endswith("}")):
                closing = f"{closing} {rng.choice(PARTS)}".strip()
        if rng.random() < FILLER and not bare:
            text = filled(rng, text, self.around("filler", 1))
        if rng.random() < SHORTENED:
            text = shortened(rng, text)
        for slot, value in slots.items():
            text = text.replace("{" + slot + "}", value)
        text = american(text) if rng.random() < 0.4 else text
        if rng.random() < WRITTEN:
            if intent.name in COUNTED and rng.random() < 0.4:
                text = digits(text)
            return written(rng, kind, opening, text, closing)
        return " ".join(f"{opening} {text} {closing}".split())


def dropped(rng, text):
    words = text.split()
    soft = [at for at, word in enumerate(words) if word in DROPPABLE]
    if soft and len(words) > 3:
        del words[rng.choice(soft)]
    return " ".join(words)


def lost(rng, text):
    words = text.split()
    soft = [at for at, word in enumerate(words) if "{" not in word and word not in TURNING]
    if soft and len(words) >= LOST_FROM:
        del words[rng.choice(soft)]
    return " ".join(words)


def filled(rng, text, filler):
    words = text.split()
    words.insert(rng.randint(0, len(words)), filler)
    return " ".join(words)


def shortened(rng, text):
    bare = rng.random() < 0.3
    for long, short in SHORT:
        if rng.random() < 0.7:
            text = re.sub(rf"\b{long}\b", short.replace("'", "") if bare else short, text)
    return text


NUMBERS = {in_words(number): str(number) for number in range(100, -1, -1)}
NUMBER = re.compile(r"\b(" + "|".join(sorted(NUMBERS, key=len, reverse=True)) + r")\b")


def digits(text):
    return NUMBER.sub(lambda match: NUMBERS[match[0]], text)


def american(text):
    return re.sub("|".join(AMERICAN), lambda match: AMERICAN[match[0]], text)


def written(rng, kind, opening, text, closing):
    """With capitals and marks."""
    comma = "," if rng.random() < 0.7 else ""
    text = f"{opening}{comma} {text}" if opening else text
    text = f"{text}{comma} {closing}" if closing else text
    text = re.sub(r"\bi\b", "I", text)
    mark = {"q": "?", "iq": rng.choice("?.")}.get(kind, rng.choice(("", ".", ".", "!")))
    return text[:1].upper() + text[1:] + mark
