"""Made-up voices and accents for the training of the wake word, in a private copy of espeak-ng's data."""
import os
import shutil

import numpy as np

import speech

SEED = 50001
VARIANTS, ACCENTS = 640, 96
# Every eighth made-up voice and accent, and these variants, are kept from training, for tuning.
HELD = 8
HELD_VARIANTS = ["Alex", "Gene2", "f4", "m7", "klatt4", "grandma", "pedro", "zac"]
# espeak-ng's tables of English phonemes, without those of the test's accents.
TABLES = ["en", "en", "en-us", "en-us", "en-sc", "en-n", "en-wm", "en-us-nyc"]
# Languages that read the phrases with their own vowels, as a foreign accent does.
FOREIGN = ["poz/id", "zlw/cs", "poz/ms", "bnt/sw", "art/eo", "zls/hr", "zlw/sk", "urj/fi", "trk/tr", "roa/it"]
# How often a voice speaks with a made-up accent, one of espeak-ng's English ones, and a foreign one.
ACCENT_SHARES = [0.45, 0.45, 0.1]
MADE_VARIANT_SHARE = 0.65
VOWEL_SHIFTS = """oU @U|oU o:|oU OU|oU VU|0 A:|0 O|0 O:|a aa|a E|a a#|E e|E a|@ V|@ I2|@ E|@ a#|3 @|3 E|3 V|eI e:|eI EI
I i|I @|I2 @|I2 i|V 0|V @|U u|u: U|i: i|aI a:|aI OI|aU a:|O: o:|O: 0|A: a|A: O:|3: E|r R|t t2|l l/|h x""".replace("\n", "|").split("|")


def _row(rng, name, count, low, high):
    return f"{name} " + " ".join(str(int(rng.integers(low, high + 1))) for _ in range(count))


def _variant(rng):
    """A voice variant: vocal tract, source and prosody, each by chance."""
    size = rng.uniform(0.86, 1.34)
    low = rng.uniform(110, 270) if size > 1.08 else rng.uniform(60, 170)
    lines = [f"pitch {low:.0f} {low * rng.uniform(1.05, 1.9):.0f}"]
    for k in range(9):
        loud = rng.uniform(0, 150) if k > 5 else np.clip(100 * np.exp(rng.normal(0, 0.22)), 45, 190)
        shift = rng.uniform(-160, 160) if k > 1 and rng.random() < 0.3 else 0
        lines.append(f"formant {k} {100 * size * np.exp(rng.normal(0, 0.05)):.0f} {loud:.0f} "
                     f"{rng.uniform(65, 160):.0f} {shift:.0f}")
    for chance, name, count, least, most in (
            (0.6, "flutter", 1, 0, 22), (0.4, "roughness", 1, 0, 6), (0.6, "voicing", 1, 45, 180),
            (0.6, "consonants", 2, 50, 180), (0.3, "breath", 8, 0, 9), (0.2, "echo", 2, 5, 60),
            (0.4, "intonation", 1, 1, 4), (0.3, "stressAmp", 8, 12, 26), (0.2, "stressAdd", 8, -20, 60),
            (0.25, "stressLength", 8, 130, 280)):
        if rng.random() < chance:
            lines.append(_row(rng, name, count, least, most))
    if rng.random() < 0.5:
        points = sorted(rng.integers(200, 4500, 3))
        lines.append("tone " + " ".join(f"{hz} {rng.integers(40, 256)}" for hz in points))
    if rng.random() < 0.12:
        lines.append(f"klatt {rng.choice([1, 2, 4, 5, 6])}")
    return lines


def _accent(rng):
    """An English accent: a table of phonemes, lengths of syllables, and a few vowels moved to a neighbour."""
    lines = ["language en", f"phonemes {rng.choice(TABLES)}"]
    if rng.random() < 0.4:
        lines.append("dictrules " + " ".join(map(str, sorted(rng.choice([2, 3, 5, 6, 7], 2, False)))))
    if rng.random() < 0.7:
        lengths = np.clip(np.array([170, 150, 190, 185, 0, 0, 235, 275]) * np.exp(rng.normal(0, 0.15, 8)), 0, 340)
        lines.append("stressLength " + " ".join(f"{n:.0f}" for n in lengths))
    if rng.random() < 0.4:
        lines.append(_row(rng, "intonation", 1, 1, 4))
    for shift in rng.choice(VOWEL_SHIFTS, rng.integers(0, 7), False):
        lines.append(f"replace {rng.choice(['00', '00', '03'])} {shift}")
    return lines


def folder(work):
    """Where the private copy lies; made when it is not there."""
    home = os.path.join(work, "voices")
    copy = os.path.join(home, "espeak-ng-data")
    if os.path.isdir(copy):
        return home
    shipped, part = speech.data_folder(), copy + ".part"
    shutil.rmtree(part, ignore_errors=True)
    for inside in ("lang", "lang/made", "voices", "voices/!v"):
        os.makedirs(os.path.join(part, inside), exist_ok=True)
        if os.path.isdir(os.path.join(shipped, inside)):
            for name in sorted(os.listdir(os.path.join(shipped, inside))):
                if not os.path.lexists(os.path.join(part, inside, name)) and name != "!v":
                    os.symlink(os.path.join(shipped, inside, name), os.path.join(part, inside, name))
    for name in sorted(os.listdir(shipped)):
        if not os.path.lexists(os.path.join(part, name)):
            os.symlink(os.path.join(shipped, name), os.path.join(part, name))
    # espeak-ng finds a voice by its path only if that is in small letters; it lists 350 files at most.
    for name in sorted(os.listdir(os.path.join(shipped, "lang/gmw"))):
        os.symlink(os.path.join(shipped, "lang/gmw", name), os.path.join(part, "lang/made", name.lower()))
    for number in range(VARIANTS):
        lines = _variant(np.random.default_rng([SEED, 1, number]))
        _write(os.path.join(part, "voices/!v", _name(number)), ["language variant", f"name made {number}", *lines])
    for number in range(ACCENTS):
        lines = _accent(np.random.default_rng([SEED, 2, number]))
        _write(os.path.join(part, "lang/made", _name(number)), [f"name Made {number}", *lines])
    os.replace(part, copy)
    return home


def _write(path, lines):
    with open(path + ".part", "w") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(path + ".part", path)


def _name(number):
    return f"made{number:03}"


def _number(rng, count, held):
    """One of the numbers kept from training, or one of the others."""
    while True:
        number = int(rng.integers(count))
        if (number % HELD == 0) == held:
            return _name(number)


def random_voice(rng, held=False, phrase=False):
    """A voice name of the private copy; a held one has a variant, and mostly an accent, kept from training."""
    kind = rng.choice(3, p=ACCENT_SHARES)
    if kind == 0:
        accent = "made/" + _number(rng, ACCENTS, held)
    else:
        shipped = speech.PHRASE_ACCENTS if phrase else speech.TRAIN_ACCENTS
        accent = rng.choice(FOREIGN) if kind == 2 else "made/" + rng.choice(shipped).lower().split("/")[1]
    if rng.random() < MADE_VARIANT_SHARE:
        return f"{accent}+{_number(rng, VARIANTS, held)}"
    shipped = [v for v in speech.train_variants() if (v in HELD_VARIANTS) == held]
    return f"{accent}+{rng.choice(shipped)}"
