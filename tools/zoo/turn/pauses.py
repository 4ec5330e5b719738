"""Speech that ends a turn, and speech that only pauses: the last seconds of each, with the silence behind it."""
import argparse
import importlib.util
import os
from typing import NamedTuple

import numpy as np
from paths import GRAMMAR, WORK

import sounds
import speech
import texts
import voices
from checkpoint import save_arrays
from speech import ACTIVE_LEVEL, HOP, RATE
from steps import make_files

WINDOW = 2 * RATE           # what the detector hears
SILENCE_MS = (150, 300)     # how long ago the speech ended
MOST_SILENCE = SILENCE_MS[1] * RATE // 1000
KEPT = WINDOW + MOST_SILENCE
POOL = {"training": (500, 24), "tuning": (600, 1)}     # items of a shard, shards
SEEDS = {"training": 1, "tuning": 2}
NOISE_SECONDS, NOISES = 4, {"shaped": 90, "hum": 30, "clicks": 40, "tones": 40, "music": 40}
ROOM_SHARE = 0.4
# A pause is a clause that goes on (with a comma's intonation), a breath between two words, or a word of hesitation.
PAUSES = {"comma": 0.4, "cut": 0.3, "filler": 0.3}
FILLERS = ["um", "uh", "er", "[[V:m]]", "[[3:]]", "[[V:]]", "[[@m]]", "[[3::m]]", "[[m::]]", "[[V::m:]]", "[[3::]]"]
TEST_FILLERS = ["um", "[[a#::]]", "[[@::m]]", "[[V:m::]]", "hmm"]
JOINTS = ["and", "and then", "but", "because", "or", "so", "if", "when", "with", "to the", "in the", "the", "a", "for", "my", "that"]
BEGINNINGS = ["um, ", "uh, ", "well, ", "okay, ", "so, ", "[[3:]], ", "oh, "]
# Questions that rise, as a clause does that goes on: mostly those for yes or no.
YES_OR_NO = set("are is do does did can could will would have has".split())
RISING_SHARE = {True: 0.6, False: 0.04}
# The last word of what is cut, or of a filler's clause, is held this long; and some ends too, so that this alone says nothing.
HELD, HELD_AT_END = (1.0, 1.9), (0.9, 1.3)
FRAME, SEARCH = 480, 120


def _grammar():
    spec = importlib.util.spec_from_file_location("grammar", os.path.join(GRAMMAR, "grammar.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


grammar = _grammar()


class Ending(NamedTuple):
    """The last KEPT samples up to MOST_SILENCE behind the end of speech; whether it is the end; of what kind."""
    sound: np.ndarray
    ends: bool
    kind: str


def stretched(sound, factor):
    """A sound made longer without a change of pitch: overlapping frames, each where it fits the one before."""
    half = FRAME // 2
    count = int(len(sound) * factor / half) - 1
    if count < 3 or len(sound) < 2 * FRAME + 2 * SEARCH:
        return sound
    window, out = np.hanning(FRAME + 1)[:-1].astype(np.float32), np.zeros((count + 1) * half, np.float32)
    at = 0
    for k in range(count):
        wanted = int(k * half / factor)
        if k:
            follows = sound[at + half:at + half + FRAME]
            low = max(0, min(wanted - SEARCH, len(sound) - FRAME - 2 * SEARCH))
            region = sound[low:low + FRAME + 2 * SEARCH]
            if len(follows) < FRAME or len(region) < FRAME:
                break
            wanted = low + int(np.correlate(region, follows, "valid").argmax())
        at = min(wanted, len(sound) - FRAME)
        out[k * half:k * half + FRAME] += sound[at:at + FRAME] * window
    # The first half frame rises with the window, as sound in the middle of speech should not.
    out[:half] += sound[:half] * window[half:]
    return out[:(k + 1) * half]


def held(rng, said, cut, factor):
    """The sound of an utterance up to its word `cut`, of which the last is held longer."""
    starts = said.word_starts
    end = starts[cut] if cut < len(starts) else len(said.sound)
    start = starts[cut - 1]
    last = stretched(said.sound[start:end], rng.uniform(*factor))
    sound = np.concatenate([said.sound[:start], last])
    fade = min(len(sound), int(rng.uniform(0.004, 0.04) * RATE))
    sound[len(sound) - fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
    return sound


def text_of(rng, part):
    """A sentence: of the assistant's language, or of any."""
    if rng.random() < 0.6:
        return grammar.sentence(rng, part, part == "test" and rng.random() < 0.5)
    return texts.sentence(rng, part == "test")


def marked(rng, text):
    """A sentence with the mark that gives it its intonation."""
    rises = rng.random() < RISING_SHARE[text.split()[0].lower() in YES_OR_NO]
    return text + ("?" if rises else str(rng.choice([".", ".", ".", ".", "!"])))


def say(rng, text, voice, part):
    return speech.say(rng, text, voice, part == "training")


def ended(rng, part, voice):
    """A whole sentence, which may hesitate before it goes on to its end."""
    text, chance = text_of(rng, part), rng.random()
    words = text.split()
    if chance < 0.12:
        text = str(rng.choice(BEGINNINGS)) + text
    elif chance < 0.3 and len(words) > 2:
        cut = rng.integers(1, len(words))
        filler = f" {rng.choice(FILLERS)}," if rng.random() < 0.6 else ""
        text = f"{' '.join(words[:cut])},{filler} {' '.join(words[cut:])}"
    said = say(rng, marked(rng, text), voice, part)
    if said.word_starts and rng.random() < 0.3:
        return held(rng, said, len(said.word_starts), HELD_AT_END)
    return said.sound


def paused(rng, part, voice, kind):
    """A sentence up to some word, where the speaker waits, breathes, or hesitates."""
    while True:
        words = text_of(rng, part).split()
        if len(words) > 2:
            break
    cut = int(rng.integers(1, len(words)))
    if kind == "cut":
        said = say(rng, marked(rng, " ".join(words)), voice, part)
        if len(said.word_starts) <= cut:
            raise ValueError("espeak-ng joined words")
        return held(rng, said, cut, HELD)
    begun = " ".join(words if rng.random() < 0.2 else words[:cut])
    if rng.random() < 0.3:
        begun += " " + str(rng.choice(JOINTS))
    if kind == "comma":
        return say(rng, begun + ",", voice, part).sound
    filler = rng.choice(TEST_FILLERS if part == "test" else FILLERS)
    said = say(rng, f"{begun}{rng.choice([',', ''])} {filler}{rng.choice([',', ',', '.'])}", voice, part)
    return held(rng, said, len(said.word_starts), HELD) if said.word_starts else said.sound


def draw(rng, part):
    """An ending by a voice of a part."""
    ends = bool(rng.random() < 0.5)
    kind = "end" if ends else str(rng.choice(list(PAUSES), p=list(PAUSES.values())))
    while True:
        voice = speech.random_voice(rng, True) if part == "test" else voices.random_voice(rng, part == "tuning")
        try:
            sound = ended(rng, part, voice) if ends else paused(rng, part, voice, kind)
        except ValueError:
            continue
        active = np.flatnonzero(speech.activity(sound))
        if len(active) < 15:
            continue
        sound = sound * (ACTIVE_LEVEL / np.sqrt((sound.reshape(-1)[:len(sound) // HOP * HOP].reshape(-1, HOP)[active] ** 2).mean()))
        end = (int(active[-1]) + 1) * HOP
        if rng.random() < ROOM_SHARE:
            sound = sounds.reverberate(sound, sounds.room(rng))
        sound = np.concatenate([np.zeros(KEPT, np.float32), sound, np.zeros(MOST_SILENCE, np.float32)])
        stop = KEPT + end + MOST_SILENCE
        return Ending(sound[stop - KEPT:stop].astype(np.float32), ends, kind)


def use_voices(part):
    speech.use(None if part == "test" else voices.folder(WORK))


def shard_path(part, number):
    return os.path.join(WORK, f"{part}-{number:03}.npz")


def _shard(path, seed, part, count):
    use_voices(part)
    rng = np.random.default_rng(seed)
    made = [draw(rng, part) for _ in range(count)]
    save_arrays(path, sounds=np.stack([np.round(np.clip(m.sound, -1, 1) * 32767).astype(np.int16) for m in made]),
                ends=[m.ends for m in made], kinds=[m.kind for m in made])


def noises(rng, recipes, each):
    """Noises of RMS one."""
    return np.stack([recipes[kind](rng, NOISE_SECONDS * RATE) for kind in recipes for _ in range(each[kind])]).astype(np.float16)


def _noises(path, seed):
    save_arrays(path, clips=noises(np.random.default_rng(seed), sounds.TRAIN_NOISES, NOISES))


def build(seed, jobs=1):
    """Make what the pool still lacks."""
    os.makedirs(WORK, exist_ok=True)
    voices.folder(WORK)
    tasks = [(_noises, os.path.join(WORK, "noises.npz"), [seed, 0])]
    tasks += [(_shard, shard_path(part, i), [seed, SEEDS[part], i], part, count)
              for part, (count, shards) in POOL.items() for i in range(shards)]
    make_files("turn pool", tasks, jobs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    build(arguments.seed, arguments.jobs)
