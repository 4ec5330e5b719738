"""Randomized voices and accents for training, in a private copy of espeak-ng-data."""
import os
import shutil

import numpy as np

import speech

SEED = 50001
VARIANT_COUNT, ACCENT_COUNT = 640, 96
# Every eighth randomized variant and accent, and these variants of espeak-ng, are held out for
# validation.
HOLD_OUT_EVERY = 8
HELD_OUT_VARIANTS = ["Alex", "Gene2", "f4", "m7", "klatt4", "grandma", "pedro", "zac"]
# Tables of English phonemes of espeak-ng, except those of the test accents.
PHONEME_TABLES = ["en", "en", "en-us", "en-us", "en-sc", "en-n", "en-wm", "en-us-nyc"]
# Languages that read English text with their own phonemes, like a foreign accent.
FOREIGN_LANGUAGES = ["poz/id", "zlw/cs", "poz/ms", "bnt/sw", "art/eo", "zls/hr", "zlw/sk", "urj/fi", "trk/tr", "roa/it"]
# Probabilities of a randomized accent, an English accent of espeak-ng, and a foreign language.
ACCENT_PROBABILITIES = [0.45, 0.45, 0.1]
RANDOMIZED_VARIANT_PROBABILITY = 0.65
# Phoneme replacements, `from to`.
VOWEL_SHIFTS = """oU @U|oU o:|oU OU|oU VU|0 A:|0 O|0 O:|a aa|a E|a a#|E e|E a|@ V|@ I2|@ E|@ a#|3 @|3 E|3 V|eI e:|eI EI
I i|I @|I2 @|I2 i|V 0|V @|U u|u: U|i: i|aI a:|aI OI|aU a:|O: o:|O: 0|A: a|A: O:|3: E|r R|t t2|l l/|h x"""
VOWEL_SHIFTS = VOWEL_SHIFTS.replace("\n", "|").split("|")


def _random_line(rng, name, count, low, high):
    return f"{name} " + " ".join(str(int(rng.integers(low, high + 1))) for _ in range(count))


def random_variant(rng):
    """Returns the lines of a variant with random vocal tract, voice source and prosody."""
    size = rng.uniform(0.86, 1.34)
    low = rng.uniform(110, 270) if size > 1.08 else rng.uniform(60, 170)
    lines = [f"pitch {low:.0f} {low * rng.uniform(1.05, 1.9):.0f}"]
    for k in range(9):
        loud = rng.uniform(0, 150) if k > 5 else np.clip(100 * np.exp(rng.normal(0, 0.22)), 45, 190)
        shift = rng.uniform(-160, 160) if k > 1 and rng.random() < 0.3 else 0
        lines.append(f"formant {k} {100 * size * np.exp(rng.normal(0, 0.05)):.0f} {loud:.0f} "
                     f"{rng.uniform(65, 160):.0f} {shift:.0f}")
    for probability, name, count, low, high in (
            (0.6, "flutter", 1, 0, 22), (0.4, "roughness", 1, 0, 6), (0.6, "voicing", 1, 45, 180),
            (0.6, "consonants", 2, 50, 180), (0.3, "breath", 8, 0, 9), (0.2, "echo", 2, 5, 60),
            (0.4, "intonation", 1, 1, 4), (0.3, "stressAmp", 8, 12, 26), (0.2, "stressAdd", 8, -20, 60),
            (0.25, "stressLength", 8, 130, 280)):
        if rng.random() < probability:
            lines.append(_random_line(rng, name, count, low, high))
    if rng.random() < 0.5:
        points = sorted(rng.integers(200, 4500, 3))
        lines.append("tone " + " ".join(f"{hz} {rng.integers(40, 256)}" for hz in points))
    if rng.random() < 0.12:
        lines.append(f"klatt {rng.choice([1, 2, 4, 5, 6])}")
    return lines


def random_accent(rng):
    """Returns the lines of an English accent: phoneme table, syllable lengths, and replaced
    phonemes.
    """
    lines = ["language en", f"phonemes {rng.choice(PHONEME_TABLES)}"]
    if rng.random() < 0.4:
        lines.append("dictrules " + " ".join(map(str, sorted(rng.choice([2, 3, 5, 6, 7], 2, False)))))
    if rng.random() < 0.7:
        lengths = np.clip(np.array([170, 150, 190, 185, 0, 0, 235, 275]) * np.exp(rng.normal(0, 0.15, 8)), 0, 340)
        lines.append("stressLength " + " ".join(f"{n:.0f}" for n in lengths))
    if rng.random() < 0.4:
        lines.append(_random_line(rng, "intonation", 1, 1, 4))
    for shift in rng.choice(VOWEL_SHIFTS, rng.integers(0, 7), False):
        lines.append(f"replace {rng.choice(['00', '00', '03'])} {shift}")
    return lines


def build_data(work):
    """Builds the private copy unless it exists. Returns the folder that contains it."""
    folder = os.path.join(work, "voices")
    copy = os.path.join(folder, "espeak-ng-data")
    if os.path.isdir(copy):
        return folder
    shipped, part = speech.installed_data(), copy + ".part"
    shutil.rmtree(part, ignore_errors=True)
    for subfolder in ("lang", "lang/made", "voices", "voices/!v"):
        os.makedirs(os.path.join(part, subfolder), exist_ok=True)
        if os.path.isdir(os.path.join(shipped, subfolder)):
            for name in sorted(os.listdir(os.path.join(shipped, subfolder))):
                if not os.path.lexists(os.path.join(part, subfolder, name)) and name != "!v":
                    os.symlink(os.path.join(shipped, subfolder, name), os.path.join(part, subfolder, name))
    for name in sorted(os.listdir(shipped)):
        if not os.path.lexists(os.path.join(part, name)):
            os.symlink(os.path.join(shipped, name), os.path.join(part, name))
    # espeak-ng finds a voice by its path only if the path is in lower case. It lists at most 350
    # files.
    for name in sorted(os.listdir(os.path.join(shipped, "lang/gmw"))):
        os.symlink(os.path.join(shipped, "lang/gmw", name), os.path.join(part, "lang/made", name.lower()))
    for number in range(VARIANT_COUNT):
        lines = random_variant(np.random.default_rng([SEED, 1, number]))
        lines = ["language variant", f"name made {number}", *lines]
        write_lines(os.path.join(part, "voices/!v", _voice_name(number)), lines)
    for number in range(ACCENT_COUNT):
        lines = random_accent(np.random.default_rng([SEED, 2, number]))
        write_lines(os.path.join(part, "lang/made", _voice_name(number)), [f"name Made {number}", *lines])
    os.replace(part, copy)
    return folder


def write_lines(path, lines):
    with open(path + ".part", "w") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(path + ".part", path)


def _voice_name(number):
    return f"made{number:03}"


def random_name(rng, count, held_out):
    """Draws the name of one of `count` randomized variants or accents."""
    while True:
        number = int(rng.integers(count))
        if (number % HOLD_OUT_EVERY == 0) == held_out:
            return _voice_name(number)


def random_voice(rng, held_out=False, is_phrase=False):
    """Draws a voice name of the private copy.

    Variant and randomized accent are held out on request.
    """
    kind = rng.choice(3, p=ACCENT_PROBABILITIES)
    if kind == 0:
        accent = "made/" + random_name(rng, ACCENT_COUNT, held_out)
    else:
        shipped = speech.PHRASE_ACCENTS if is_phrase else speech.TRAIN_ACCENTS
        accent = rng.choice(FOREIGN_LANGUAGES) if kind == 2 else "made/" + rng.choice(shipped).lower().split("/")[1]
    if rng.random() < RANDOMIZED_VARIANT_PROBABILITY:
        return f"{accent}+{random_name(rng, VARIANT_COUNT, held_out)}"
    shipped = [v for v in speech.train_variants() if (v in HELD_OUT_VARIANTS) == held_out]
    return f"{accent}+{rng.choice(shipped)}"
