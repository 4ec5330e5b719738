"""Values that fill the slots of phrasings, some of them held out from training; numbers and times
in words.
"""
import itertools
import math

from phrases import hash_percent, sections, slot_neighbors, train_only_sections, word_counts

# Percent of the values of a slot that are held out from training.
HELD_OUT_PERCENT = 20
# Probability that a value of a list is replaced by a pseudoword, so that the model learns to copy
# instead of memorizing the list.
PSEUDOWORD_PROBABILITY = 0.25
# In training, values are also spliced from a prefix of one word and a suffix of another, some of
# them with a second word. They cover the tokens that pseudowords do not have.
SPLICED_PROBABILITY, SPLICED_PAIR_PROBABILITY = 0.2, 0.35
# Others are one to three words borrowed from phrasings: the meaning of a word elsewhere must not
# decide whether it is a name. In a value of several words, the first ones never precede a slot in
# phrasings and the last ones never follow one: the end of the value would be ambiguous.
BORROWED_PROBABILITY = 0.35
# Count above which a word of phrasings is not borrowed more often; probability that a borrowed word
# comes from known values instead.
MAX_BORROW_COUNT, BORROWED_VALUE_PROBABILITY = 100, 0.4
# Probability that a borrowed favorite starts with an article, as titles do.
ARTICLE_PROBABILITY = 0.2
# Probability that a location found by the tool in training has another determiner than "the".
OTHER_DETERMINER_PROBABILITY = 0.2
# Probability that a location is extended by a room, in tests and in training.
IN_ROOM_PROBABILITY, TRAIN_IN_ROOM_PROBABILITY = 0.15, 0.25
# Prepositions of locations with pseudowords, in tests and in training.
PREPOSITIONS = tuple(sections("tables/words.txt")["prepositions"])
TRAIN_PREPOSITIONS = (*PREPOSITIONS, *PREPOSITIONS, *sections("tables/words.txt")["train-only prepositions"])
# Numbers below this are never held out: each is a word that occurs in no other number.
FIRST_COMPOSED_NUMBER = 20

LISTS = {kind: list(dict.fromkeys("|".join(lines).split("|"))) for kind, lines in sections("tables/values.txt").items()}
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
MONTHS = "january february march april may june july august september october november december".split()
# Slots without held-out values.
CLOSED = {"day"}
ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
ONSETS = "b bl br c ch d dr f fl g gl gr h j k kl l m n p pl pr r s sh sk sl st t tr v w z".split()
VOWELS = "a e i o u ai ee oa".split()
CODAS = ["", "", "", "n", "r", "l", "m", "k", "t", "nd", "st", "ck", "x", "rd"]


def is_held_out(kind, value):
    return kind not in CLOSED and hash_percent(f"{kind} {value}") < HELD_OUT_PERCENT


KNOWN = {kind: [value for value in LISTS[kind] if not is_held_out(kind, value)] for kind in LISTS}
UNSEEN = {kind: [value for value in LISTS[kind] if is_held_out(kind, value)] for kind in LISTS}
UNSEEN_WORDS = {word for values in UNSEEN.values() for value in values for word in value.split()}
UNSEEN_VALUES = {value for values in UNSEEN.values() for value in values}


def train_only_values(kind):
    """Returns the additional training values.

    None is a held-out value or contains one as a word.
    """
    lines = train_only_sections("values.txt").get(kind, ())
    return [value for line in lines for value in line.split("|")
            if value not in UNSEEN_VALUES and UNSEEN_VALUES.isdisjoint(value.split())]


TRAINED = {kind: list(dict.fromkeys(values + train_only_values(kind))) for kind, values in KNOWN.items()}
VALUE_WORDS = sorted({word for values in TRAINED.values() for value in values for word in value.split()
                      if len(word) > 2})
# Some of these occur in held-out values, which `Slots.compose` never returns as a whole.
PHRASE_COUNTS = word_counts()
PHRASE_WORDS = sorted(PHRASE_COUNTS)
# Frequent words are harder to recognize as names, and are drawn more often, up to a limit.
CUMULATIVE_WEIGHTS = list(itertools.accumulate(math.sqrt(min(PHRASE_COUNTS[word], MAX_BORROW_COUNT))
                                               for word in PHRASE_WORDS))
PRECEDING, FOLLOWING = slot_neighbors()
LAST_WORDS = [word for word in VALUE_WORDS if word not in FOLLOWING]


def number_words(number):
    """Spells out a number from 0 to 100."""
    if number < 20:
        return ONES[number]
    if number == 100:
        return "one hundred"
    return TENS[number // 10] + (" " + ONES[number % 10] if number % 10 else "")


def clock_words(hour, minute):
    """Spells out a time of day."""
    hour = number_words((hour - 1) % 12 + 1)
    if minute == 0:
        return f"{hour} o'clock"
    return f"{hour} oh {number_words(minute)}" if minute < 10 else f"{hour} {number_words(minute)}"


def pseudoword(rng, plural=False):
    """Returns a random pronounceable string; it ends in s only if it is a plural."""
    while True:
        count = rng.choice((1, 2, 2, 3))
        word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(count)) + rng.choice(CODAS)
        if len(word) > 3:
            return word + "s" if plural else word


def spliced_word(rng):
    """Returns a word spliced from two words. It is not held out and not a neighbor of slots."""
    while True:
        first, second = (rng.choice(rng.choice((PHRASE_WORDS, VALUE_WORDS))) for _ in range(2))
        start = rng.choice((0, rng.randrange(len(first) - 1)))
        word = first[start:start + rng.randint(1, 5)] + second[-rng.randint(2, 5):]
        if len(word) > 3 and word not in UNSEEN_WORDS and word not in PRECEDING and word not in FOLLOWING:
            return word


def spliced_pair(rng):
    """Returns a spliced word and a known or another spliced word."""
    return f"{spliced_word(rng)} {rng.choice(LAST_WORDS) if rng.random() < 0.5 else spliced_word(rng)}"


def borrowed_words(rng):
    """Returns one to three words of phrasings or of known values."""
    count = rng.choice((1, 1, 1, 2, 2, 3))
    while True:
        words = [rng.choice(VALUE_WORDS) if rng.random() < BORROWED_VALUE_PROBABILITY
                 else rng.choices(PHRASE_WORDS, cum_weights=CUMULATIVE_WEIGHTS)[0] for _ in range(count)]
        if PRECEDING.isdisjoint(words[:-1]) and FOLLOWING.isdisjoint(words[1:]):
            return " ".join(words)


def is_plural(thing):
    return thing.endswith("s") and not thing.endswith("ss")


class Slots:
    """Draws slot values: known values and pseudowords, or held-out values if `unseen`.

    `augment` adds spliced and borrowed words.
    """

    def __init__(self, rng, unseen, augment=False):
        self.rng, self.unseen, self.augment = rng, unseen, augment

    def draw(self, kind):
        values = UNSEEN if self.unseen else TRAINED if self.augment else KNOWN
        if kind in CLOSED:
            return self.rng.choice(KNOWN[kind])
        if self.augment and self.rng.random() < SPLICED_PROBABILITY:
            splice = spliced_pair if self.rng.random() < SPLICED_PAIR_PROBABILITY else spliced_word
            return self.compose(kind, lambda: splice(self.rng))
        if self.augment and self.rng.random() < BORROWED_PROBABILITY:
            return self.compose(kind, lambda: borrowed_words(self.rng), ARTICLE_PROBABILITY)
        if self.rng.random() < PSEUDOWORD_PROBABILITY:
            return self.invented(kind)
        if kind == "spot" and self.rng.random() < (TRAIN_IN_ROOM_PROBABILITY if self.augment else IN_ROOM_PROBABILITY):
            return f"{self.rng.choice(values[kind])} in the {self.rng.choice(values['room'])}"
        return self.rng.choice(values[kind])

    def found_location(self):
        """Draws the location that a tool returns; in training also with another determiner, as "in
        your bag".
        """
        location = self.draw("spot")
        if self.augment and self.rng.random() < OTHER_DETERMINER_PROBABILITY:
            location = location.replace("the", self.rng.choice(("your", "your", "a")), 1)
        return location

    def compose(self, kind, draw_words, article_probability=0.0):
        """Builds a value from drawn words until it is not held out. Locations get a preposition."""
        while True:
            value = draw_words()
            if kind == "spot":
                value = f"{self.preposition()} the {value}"
            elif kind == "value" and self.rng.random() < article_probability:
                value = f"the {value}"
            if value not in UNSEEN_VALUES:
                return value

    def invented(self, kind):
        if kind == "spot":
            return f"{self.preposition()} the {pseudoword(self.rng)}"
        return pseudoword(self.rng, plural=kind == "thing" and self.rng.random() < 0.4)

    def preposition(self):
        return self.rng.choice(TRAIN_PREPOSITIONS if self.augment else PREPOSITIONS)

    def number(self, lowest, highest):
        """Draws a number. One in eight of the composed numbers is held out from training."""
        while True:
            number = self.rng.randint(lowest, highest)
            if number < FIRST_COMPOSED_NUMBER or (hash_percent(f"number {number}") < 12) == self.unseen:
                return number
