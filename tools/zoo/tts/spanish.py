"""Spanish: sentences of an assistant, words, and pronunciation."""
import functools
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PHRASES = os.path.join(HERE, "phrases", "es")
ZOO = os.path.dirname(HERE)
sys.path += [ZOO, os.path.join(ZOO, "translate")]
import pairs  # noqa: E402
from sections import read_sections  # noqa: E402

PACKAGE = "tts_es"
VOICE = "roa/es"
ABOUT_VOICE = "the European Spanish voice of espeak-ng"
LETTERS = "abcdefghijklmnopqrstuvwxyzáéíóúüñ"
BEFORE_VOWEL = {}
LIMITS = [
    "European Spanish; other languages are read as Spanish.",
    "There is no Spanish recognizer to read the voice back: it is measured against its teacher only.",
]
SAMPLES = [
    "Hola, soy tu asistente. ¿Qué puedo hacer por ti?",
    "Son las 7:30, y quedan 12 minutos para la pasta.",
    "He encendido las luces de la cocina al 40 %.",
    "Lo siento, no sé dónde están tus llaves.",
    "¡Buenas noches, Lucía! Hasta mañana.",
]
SECTIONS = {name: " ".join(lines).split() for name, lines in
            read_sections(os.path.join(PHRASES, "words.txt")).items()}
# Endings of regular verbs in the forms that an assistant says and hears.
CONJUGATION = {
    "ar": "ar o as a amos áis an é aste ó asteis aron aba abas ábamos aban aré ará arán ando ado e es en",
    "er": "er o es e emos éis en í iste ió imos ieron ía ías íamos ían eré erá erán iendo ido a as an",
    "ir": "ir o es e imos ís en í iste ió ieron ía ías íamos ían iré irá irán iendo ido a as an"}
SAMPLE_SENTENCES = 20000


class Weak(dict):
    """Phones of function words inside a sentence, without stress."""

    def __init__(self):
        import phones
        super().__init__({word: [phone.lstrip("',") for phone in phones.espeak().to_phones(word)]
                          for word in SECTIONS["unstressed"]})


def __getattr__(name):
    if name != "WEAK":
        raise AttributeError(name)
    globals()["WEAK"] = Weak()
    return globals()["WEAK"]


@functools.cache
def word_list():
    """Returns the base words of the lexicon, from which random strings are drawn too."""
    import numpy as np
    rng, words = np.random.default_rng(3), set(SECTIONS["words"]) | set(SECTIONS["unstressed"])
    for _ in range(SAMPLE_SENTENCES):
        words |= set(re.findall(f"[{LETTERS}]+", pairs.pair(rng).spanish.lower()))
    return sorted(words)


@functools.cache
def inflected_words():
    """Returns the base words, the plurals of words, and the forms of regular verbs."""
    words = set(word_list())
    for verb in SECTIONS["verbs"]:
        words |= {verb[:-2] + ending for ending in CONJUGATION[verb[-2:]].split()}
    for word in SECTIONS["words"]:
        if word[-1] in "aeo":
            words.add(word + "s")
        elif word[-1] in "dlnr" and not set(word) & set("áéíóú"):
            words.add(word + "es")
        if word.endswith("o"):
            words |= {word[:-1] + "a", word[:-1] + "as"}
    return sorted(words)


def sentence(rng, split):
    """Draws a sentence. Splits share no sentence."""
    return pairs.pair(rng, split).spanish.lower()
