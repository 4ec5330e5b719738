"""English: sentences of an assistant, words, and pronunciation."""
import functools
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PHRASES = os.path.join(HERE, "phrases", "en")
sys.path.append(os.path.dirname(HERE))
from sections import pick, read_sections  # noqa: E402

PACKAGE = "tts"
VOICE = "gmw/en-US"
ABOUT_VOICE = "the American voice of espeak-ng"
LETTERS = "abcdefghijklmnopqrstuvwxyz'"
# Phones of function words inside a sentence.
with open(os.path.join(PHRASES, "weak_forms.txt")) as weak_forms:
    WEAK = {word: phones.split() for word, phones in (line.rstrip("\n").split("\t") for line in weak_forms)}
BEFORE_VOWEL = {"the": ["D", "I2"]}
LIMITS = [
    "American English; other languages are read as English.",
    "Homographs (read, lead, live, wind) have one pronunciation.",
]
SAMPLES = [
    "Hello, I am your assistant. What can I do for you?",
    "It is 7:30 pm, and the timer for the pasta has 12 minutes left.",
    "Today in Seattle it will be cloudy, with a high of 64 degrees.",
    "I turned on the lights in the kitchen and set them to 40%.",
    "Sorry, I don't know where your keys are.",
    "Did you mean the lamp in the office, or the one in the bedroom?",
    "Your appointment with Doctor Miller is on Tuesday the 3rd of March at 9:15.",
    "The quick brown fox jumps over the lazy dog!",
    "125 plus 275 is 400.",
    "Good night, Sophie. Sleep well, and see you tomorrow.",
]

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
MONTHS = "january february march april may june july august september october november december".split()
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
ORDINALS = ("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
            "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth").split()

SLOTS = {name: "|".join(lines) for name, lines in read_sections(os.path.join(PHRASES, "slots.txt")).items()}
GENERATORS = {
    "small": lambda rng: ONES[rng.integers(0, 20)],
    "number": lambda rng: number_words(int(rng.integers(0, 100))),
    "big": lambda rng: number_words(int(rng.integers(100, 3000))),
    "time": lambda rng: time_of_day(rng),
    "date": lambda rng: f"{pick(rng, DAYS)} the {pick(rng, ORDINALS)} of {pick(rng, MONTHS)}",
    "day": lambda rng: pick(rng, DAYS),
    "month": lambda rng: pick(rng, MONTHS),
    "ordinal": lambda rng: pick(rng, ORDINALS),
}
TEMPLATES = {split: "\n".join(lines) for split, lines in read_sections(os.path.join(PHRASES, "templates.txt")).items()}

def number_words(n):
    """Spells out a whole number below a million."""
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10 - 2] + (f" {ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ONES[n // 100]} hundred" + (f" {number_words(n % 100)}" if n % 100 else "")
    return f"{number_words(n // 1000)} thousand" + (f" {number_words(n % 1000)}" if n % 1000 else "")


def time_of_day(rng):
    hour, minute = int(rng.integers(1, 13)), int(rng.integers(0, 60))
    kind = rng.integers(4)
    if kind == 0:
        return f"{ONES[hour]} o'clock"
    if kind == 1:
        return f"{pick(rng, ['half past', 'a quarter past', 'a quarter to', 'five to', 'ten past'])} {ONES[hour]}"
    minutes = "oh " + ONES[minute] if 0 < minute < 10 else number_words(minute) if minute else ""
    return f"{ONES[hour]} {minutes}".strip() + pick(rng, ["", "", " am", " pm", " in the morning"])


@functools.cache
def templates(split):
    return [t.strip() for t in re.split(r"[|\n]", TEMPLATES[split]) if t.strip()]


@functools.cache
def slot_values(slot):
    return SLOTS[slot].split("|")


def fill(rng, template):
    """Replaces the slots of a template by random values."""
    def value(match):
        slot = match.group(1)
        return GENERATORS[slot](rng) if slot in GENERATORS else pick(rng, slot_values(slot))
    return re.sub(r"\{(\w+)\}", value, template)


@functools.cache
def word_list():
    """Returns the base words of the lexicon, from which random strings are drawn too."""
    with open(os.path.join(PHRASES, "words.txt")) as file:
        listed = file.read().split()
    text = " ".join([*SLOTS.values(), *TEMPLATES.values(), *ONES, *TENS, *MONTHS, *DAYS, *ORDINALS,
                     "hundred thousand am pm"])
    return sorted(set(listed) | set(re.findall(r"[a-z']+", re.sub(r"\{\w+\}", "", text))))


@functools.cache
def inflected_words():
    """Returns the base words and their regular inflections, by simple rules of English spelling."""
    words = set(word_list())
    for word in word_list():
        if len(word) < 3 or not word.isalpha():
            continue
        stem = word[:-1] if word.endswith("e") else word
        consonant_y = word.endswith("y") and word[-2] not in "aeiou"
        words.add(word[:-1] + "ies" if consonant_y else word + ("es" if word.endswith(("s", "x", "sh", "ch")) else "s"))
        words |= {stem + "ing", word[:-1] + "ied" if consonant_y else stem + "ed",
                  word[:-1] + "ier" if consonant_y else stem + "er",
                  word[:-1] + "ily" if consonant_y else word + "ly", word + "'s"}
    return sorted(words)


def sentence(rng, split):
    """Draws a sentence. Splits share no template."""
    return fill(rng, pick(rng, templates(split)))
