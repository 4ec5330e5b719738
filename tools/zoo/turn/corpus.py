"""Corpus of the turn detector: the last seconds of speech that ends a turn or only pauses, with the
silence after it.
"""
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
from jobs import build_files
from speech import ACTIVE_RMS, HOP, SAMPLE_RATE

# Samples that the detector takes.
WINDOW = 2 * SAMPLE_RATE
# Time since the end of speech at which the detector is called.
SILENCE_MS = (150, 300)
MAX_SILENCE = SILENCE_MS[1] * SAMPLE_RATE // 1000
ENDING_SAMPLES = WINDOW + MAX_SILENCE
# Items in a shard, and shards.
SHARDS = {"train": (500, 24), "validation": (600, 1)}
SEEDS = {"train": 1, "validation": 2}
NOISE_SECONDS, NOISE_CLIPS = 4, {"shaped": 90, "hum": 30, "clicks": 40, "tones": 40, "music": 40}
REVERB_PROBABILITY, END_PROBABILITY, GRAMMAR_PROBABILITY = 0.4, 0.5, 0.6
MIN_ACTIVE_HOPS = 15
# Probability of each kind of pause: a clause that continues, with the intonation of a comma; a cut
# between two words; a filler.
PAUSE_KINDS = {"comma": 0.4, "cut": 0.3, "filler": 0.3}
FILLERS = ["um", "uh", "er", "[[V:m]]", "[[3:]]", "[[V:]]", "[[@m]]", "[[3::m]]", "[[m::]]", "[[V::m:]]", "[[3::]]"]
TEST_FILLERS = ["um", "[[a#::]]", "[[@::m]]", "[[V:m::]]", "hmm"]
CONTINUATIONS = ["and", "and then", "but", "because", "or", "so", "if", "when", "with", "to the", "in the", "the",
                 "a", "for", "my", "that"]
OPENINGS = ["um, ", "uh, ", "well, ", "okay, ", "so, ", "[[3:]], ", "oh, "]
# First words of yes/no questions, and the probability of a rising intonation for these and for
# others. A rising question sounds like a clause that continues.
YES_NO_WORDS = set("are is do does did can could will would have has".split())
RISING_PROBABILITY = {True: 0.6, False: 0.04}
# Range of the factor by which the last word before a pause, or of a filler, is stretched; and of
# some ends, so that stretching alone does not indicate a pause.
PAUSE_STRETCH, END_STRETCH = (1.0, 1.9), (0.9, 1.3)
# Frame of the time stretching, and search range for the best overlap, in samples.
STRETCH_FRAME, SEARCH = 480, 120


def _load_grammar():
    spec = importlib.util.spec_from_file_location("grammar", GRAMMAR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


grammar = _load_grammar()


class Ending(NamedTuple):
    """The last ENDING_SAMPLES of a sound, until MAX_SILENCE after the end of speech; `kind` is end
    or a kind of pause.
    """
    sound: np.ndarray
    is_end: bool
    kind: str


def time_stretch(sound, factor):
    """Stretches a sound without changing its pitch, by waveform similarity overlap-add (WSOLA)."""
    half = STRETCH_FRAME // 2
    count = int(len(sound) * factor / half) - 1
    if count < 3 or len(sound) < 2 * STRETCH_FRAME + 2 * SEARCH:
        return sound
    window, out = np.hanning(STRETCH_FRAME + 1)[:-1].astype(np.float32), np.zeros((count + 1) * half, np.float32)
    at = 0
    for k in range(count):
        position = int(k * half / factor)
        if k:
            continuation = sound[at + half:at + half + STRETCH_FRAME]
            low = max(0, min(position - SEARCH, len(sound) - STRETCH_FRAME - 2 * SEARCH))
            region = sound[low:low + STRETCH_FRAME + 2 * SEARCH]
            if len(continuation) < STRETCH_FRAME or len(region) < STRETCH_FRAME:
                break
            position = low + int(np.correlate(region, continuation, "valid").argmax())
        at = min(position, len(sound) - STRETCH_FRAME)
        out[k * half:k * half + STRETCH_FRAME] += sound[at:at + STRETCH_FRAME] * window
    # No fade-in at the start: the sound is in the middle of speech.
    out[:half] += sound[:half] * window[half:]
    return out[:(k + 1) * half]


def stretch_last_word(rng, utterance, word_count, factor):
    """Returns the sound of the first words of an utterance, with the last of them stretched."""
    starts = utterance.word_starts
    end = starts[word_count] if word_count < len(starts) else len(utterance.sound)
    start = starts[word_count - 1]
    last = time_stretch(utterance.sound[start:end], rng.uniform(*factor))
    sound = np.concatenate([utterance.sound[:start], last])
    fade = min(len(sound), int(rng.uniform(0.004, 0.04) * SAMPLE_RATE))
    sound[len(sound) - fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
    return sound


def draw_text(rng, split):
    """Draws a sentence of the home assistant or of general language."""
    if rng.random() < GRAMMAR_PROBABILITY:
        return grammar.sentence(rng, split, split == "test" and rng.random() < 0.5)
    return texts.sentence(rng, split == "test")


def add_end_mark(rng, text):
    """Appends the mark that determines the intonation."""
    is_rising = rng.random() < RISING_PROBABILITY[text.split()[0].lower() in YES_NO_WORDS]
    return text + ("?" if is_rising else str(rng.choice([".", ".", ".", ".", "!"])))


def synthesize(rng, text, voice, split):
    return speech.synthesize(rng, text, voice, split == "train")


def draw_end(rng, split, voice):
    """Synthesizes a complete sentence, sometimes with a hesitation before its end."""
    text, draw = draw_text(rng, split), rng.random()
    words = text.split()
    if draw < 0.12:
        text = str(rng.choice(OPENINGS)) + text
    elif draw < 0.3 and len(words) > 2:
        cut = rng.integers(1, len(words))
        filler = f" {rng.choice(FILLERS)}," if rng.random() < 0.6 else ""
        text = f"{' '.join(words[:cut])},{filler} {' '.join(words[cut:])}"
    utterance = synthesize(rng, add_end_mark(rng, text), voice, split)
    if utterance.word_starts and rng.random() < 0.3:
        return stretch_last_word(rng, utterance, len(utterance.word_starts), END_STRETCH)
    return utterance.sound


def draw_pause(rng, split, voice, kind):
    """Synthesizes the first part of a sentence, until a pause of a kind."""
    while True:
        words = draw_text(rng, split).split()
        if len(words) > 2:
            break
    cut = int(rng.integers(1, len(words)))
    if kind == "cut":
        utterance = synthesize(rng, add_end_mark(rng, " ".join(words)), voice, split)
        if len(utterance.word_starts) <= cut:
            raise ValueError("espeak-ng joined words")
        return stretch_last_word(rng, utterance, cut, PAUSE_STRETCH)
    text = " ".join(words if rng.random() < 0.2 else words[:cut])
    if rng.random() < 0.3:
        text += " " + str(rng.choice(CONTINUATIONS))
    if kind == "comma":
        return synthesize(rng, text + ",", voice, split).sound
    filler = rng.choice(TEST_FILLERS if split == "test" else FILLERS)
    text = f"{text}{rng.choice([',', ''])} {filler}{rng.choice([',', ',', '.'])}"
    utterance = synthesize(rng, text, voice, split)
    if not utterance.word_starts:
        return utterance.sound
    return stretch_last_word(rng, utterance, len(utterance.word_starts), PAUSE_STRETCH)


def draw_ending(rng, split):
    """Draws an ending with a random voice of a split."""
    is_end = bool(rng.random() < END_PROBABILITY)
    kind = "end" if is_end else str(rng.choice(list(PAUSE_KINDS), p=list(PAUSE_KINDS.values())))
    while True:
        voice = speech.random_voice(rng, True) if split == "test" else voices.random_voice(rng, split == "validation")
        try:
            sound = draw_end(rng, split, voice) if is_end else draw_pause(rng, split, voice, kind)
        except ValueError:
            continue
        active = np.flatnonzero(speech.speech_activity(sound))
        if len(active) < MIN_ACTIVE_HOPS:
            continue
        hops = sound.reshape(-1)[:len(sound) // HOP * HOP].reshape(-1, HOP)
        sound = sound * (ACTIVE_RMS / np.sqrt((hops[active] ** 2).mean()))
        end = (int(active[-1]) + 1) * HOP
        if rng.random() < REVERB_PROBABILITY:
            sound = sounds.reverberate(sound, sounds.room_response(rng))
        sound = np.concatenate([np.zeros(ENDING_SAMPLES, np.float32), sound, np.zeros(MAX_SILENCE, np.float32)])
        stop = ENDING_SAMPLES + end + MAX_SILENCE
        return Ending(sound[stop - ENDING_SAMPLES:stop].astype(np.float32), is_end, kind)


def use_voices(split):
    speech.use_data(None if split == "test" else voices.build_data(WORK))


def shard_path(split, number):
    return os.path.join(WORK, f"{split}-{number:03}.npz")


def noise_path():
    return os.path.join(WORK, "noise.npz")


def _build_shard(path, seed, split, count):
    use_voices(split)
    rng = np.random.default_rng(seed)
    endings = [draw_ending(rng, split) for _ in range(count)]
    samples = [np.round(np.clip(ending.sound, -1, 1) * 32767).astype(np.int16) for ending in endings]
    save_arrays(path, sounds=np.stack(samples), ends=[ending.is_end for ending in endings],
                kinds=[ending.kind for ending in endings])


def _build_noise(path, seed):
    """Writes noise clips of RMS one."""
    rng = np.random.default_rng(seed)
    clips = [sounds.TRAIN_NOISES[kind](rng, NOISE_SECONDS * SAMPLE_RATE)
             for kind in sounds.TRAIN_NOISES for _ in range(NOISE_CLIPS[kind])]
    save_arrays(path, clips=np.stack(clips).astype(np.float16))


def build(seed, jobs=1):
    """Builds the missing files."""
    os.makedirs(WORK, exist_ok=True)
    voices.build_data(WORK)
    tasks = [(_build_noise, noise_path(), [seed, 0])]
    tasks += [(_build_shard, shard_path(split, i), [seed, SEEDS[split], i], split, count)
              for split, (count, shards) in SHARDS.items() for i in range(shards)]
    build_files("turn corpus", tasks, jobs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    build(arguments.seed, arguments.jobs)
