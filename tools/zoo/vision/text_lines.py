"""Random texts and lines of text in the fonts of Debian."""
import functools
import os
import string

import numpy as np
from paths import ZOO
from PIL import Image, ImageDraw, ImageFont

from sections import read_sections

FONT_FOLDER = "/usr/share/fonts/truetype"
# Families and their styles. Training and test have no family in common.
FAMILIES = {
    "train": {
        "dejavu/DejaVuSans": ("", "-Bold"), "dejavu/DejaVuSerif": ("", "-Bold"),
        "liberation/LiberationSans-": ("Regular", "Bold", "Italic", "BoldItalic"),
        "liberation/LiberationSansNarrow-": ("Regular", "Bold", "Italic"),
        "liberation/LiberationMono-": ("Regular", "Bold", "Italic"),
        "freefont/FreeSerif": ("", "Bold", "Italic", "BoldItalic"), "freefont/FreeMono": ("", "Bold", "Oblique"),
    },
    "test": {
        "liberation/LiberationSerif-": ("Regular", "Bold", "Italic"), "freefont/FreeSans": ("", "Bold", "Oblique"),
        "dejavu/DejaVuSansMono": ("", "-Bold"),
    },
}
# Labels of the recognizer: index 0 is the blank of CTC, and the space is the last.
CHARACTERS = "".join(map(chr, range(33, 127))) + " "
MAX_CHARACTERS = 28
# A seventh of the words is in no training text.
HELD_OUT = 7
RENDERED_SIZE = 48


@functools.cache
def words(split):
    """Returns the words of a split."""
    every = set()
    for name in ("words.txt", "sentences.txt"):
        for lines in read_sections(os.path.join(ZOO, "phrases", name)).values():
            for word in " ".join(lines).replace(":", " ").replace("|", " ").split():
                if word.isalpha() and "{" not in word:
                    every.add(word)
    every = sorted(every)
    return [word for i, word in enumerate(every) if (i % HELD_OUT == 0) == (split == "test")]


def _cased(rng, word):
    return (word, word.capitalize(), word.upper())[rng.choice(3, p=(.5, .3, .2))]


def _number(rng):
    digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 6))))
    forms = (digits, f"{digits}.{rng.integers(0, 100):02}", f"{rng.integers(0, 24)}:{rng.integers(0, 60):02}",
             f"${digits}", f"{digits}%", f"-{digits}",
             f"{digits} {('kg', 'cm', 'm', 'km', 'V', 'ml')[rng.integers(6)]}",
             f"{rng.integers(1, 32)}/{rng.integers(1, 13)}/20{rng.integers(0, 100):02}", f"#{digits}", f"No. {digits}")
    return forms[rng.integers(len(forms))]


def _code(rng):
    """Draws a string of random characters."""
    alphabet = (CHARACTERS[:-1], string.ascii_uppercase + string.digits, string.ascii_letters)[rng.integers(3)]
    return "".join(rng.choice(list(alphabet), rng.integers(2, 10)))


def draw_text(rng, split, max_characters=MAX_CHARACTERS):
    """Draws a line of words, numbers and codes."""
    known, text = words(split), ""
    for _ in range(rng.integers(1, 6)):
        kind = rng.random()
        if kind < .66:
            part = _cased(rng, known[rng.integers(len(known))])
            mark = rng.random()
            part = part + (".", ",", "!", "?", ":", ";")[rng.integers(6)] if mark < .12 else part
            part = (f"({part})", f'"{part}"', f"{part}'s", f"{part}-")[rng.integers(4)] if mark > .93 else part
        else:
            part = _number(rng) if kind < .88 else _code(rng)
        longer = f"{text} {part}" if text else part
        if len(longer) > max_characters:
            break
        text = longer
    return text or draw_text(rng, split, max_characters)


@functools.cache
def load_font(path, size):
    return ImageFont.truetype(os.path.join(FONT_FOLDER, path), size)


def draw_font(rng, split, size=RENDERED_SIZE):
    families = FAMILIES[split]
    family = list(families)[rng.integers(len(families))]
    styles = families[family]
    return load_font(f"{family}{styles[rng.integers(len(styles))]}.ttf", size)


def text_mask(text, font):
    """Renders a text. Returns coverage from 0 to 1 without a border, and the rows of baseline and
    capital height within it.
    """
    left, top, right, bottom = font.getbbox(text, anchor="ls")
    image = Image.new("L", (right - left + 4, bottom - top + 4))
    ImageDraw.Draw(image).text((2 - left, 2 - top), text, 255, font, anchor="ls")
    cap = -font.getbbox("H", anchor="ls")[1]
    return np.asarray(image, np.float32) / 255, 2 - top, 2 - top - cap


def contrasting_colors(rng):
    """Draws colors of text and paper, 0 to 255, that differ in brightness."""
    while True:
        ink, paper = rng.uniform(0, 255, (2, 3))
        if rng.random() < .4:
            ink, paper = np.full(3, rng.uniform(0, 70)), rng.uniform(160, 255) - rng.uniform(0, 30, 3)
            if rng.random() < .25:
                ink, paper = paper, ink
        if abs((ink - paper) @ [.299, .587, .114]) > 55:
            return ink, paper


if not os.path.isdir(os.path.join(FONT_FOLDER, "liberation")):
    raise SystemExit("fonts are missing; install fonts-dejavu-core, fonts-liberation and fonts-freefont-ttf")
