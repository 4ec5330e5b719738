"""Training corpus of the VAD and the wake word, and the scenes that are mixed from it."""
import os
from typing import NamedTuple

import numpy as np

import sounds
import speech
import texts
import voices
from checkpoint import save_arrays
from jobs import build_files
from models import LogMel, Vad, WakeWord
from speech import ACTIVE_RMS, HOP, SAMPLE_RATE

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(HERE, "work")
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARD_SIZE = 500
# Utterances of each kind in the corpus of each model.
CORPUS_SIZES = {"vad": {"sentence": 7000, "embedded": 3500, "short": 3000, "wake_sentence": 2500},
                "wake_word": {"sentence": 8000, "embedded": 3500, "confusable": 5000, "near_miss": 2500, "short": 3000,
                              "wake_sentence": 2500, "hey afferent": 6000, "stop": 6000, "go": 8000}}
# Fraction of the corpus that the first steps of the wake word train on.
FIRST_FRACTION = 0.4
# Part of the seed of a shard.
KIND_SEEDS = {"sentence": 0, "embedded": 1, "confusable": 2, "short": 3, "wake_sentence": 4, "hey afferent": 5,
              "stop": 6, "go": 7, "near_miss": 8}
NOISE_CLIPS = {"shaped": 200, "hum": 60, "clicks": 80, "tones": 80, "music": 80}
NOISE_SEED = 100
NOISE_SECONDS = 10
REVERB_PROBABILITY = 0.6
# Probability that a wake phrase of a randomized voice is given in phonemes.
PHONEMES_PROBABILITY = 0.5
# Minimum length of a wake phrase of a randomized voice.
MIN_PHRASE_HOPS = 16
LABELS = WakeWord.LABELS


class Clip(NamedTuple):
    """Utterance of the corpus; phrase_end is the sample at which its wake phrase ends, or -1."""
    sound: np.ndarray
    active: np.ndarray
    phrase_end: int


def draw_utterance(rng, kind, unseen=False, reverb=None, randomized=False, held_out=False):
    """Synthesizes an utterance of a kind with a random voice.

    `reverb` is random by default. `randomized` selects the voices of voices.py, whose data must be
    in use; `held_out` selects the held-out ones of them. Raises ValueError if the utterance is
    unusable.
    """
    is_phrase = kind in LABELS or kind in ("confusable", "near_miss")
    if randomized:
        voice = voices.random_voice(rng, held_out, is_phrase)
    else:
        voice = speech.random_voice(rng, unseen, speech.PHRASE_ACCENTS if is_phrase else speech.TRAIN_ACCENTS)
    if kind == "wake_sentence":
        separator = str(rng.choice([" ", " ", ", "]))
        text = "hey afferent" + separator + texts.sentence(rng, unseen)
    elif kind in LABELS:
        if voice.startswith(tuple(voices.FOREIGN_LANGUAGES)):
            text = kind         # these voices have their own phonemes only
        elif randomized and rng.random() < PHONEMES_PROBABILITY:
            text = texts.phoneme_phrase(rng, kind)
        else:
            text = texts.wake_phrase(rng, kind, unseen)
    else:
        text = getattr(texts, kind)(rng, unseen)
    utterance = speech.synthesize(rng, text, voice, not unseen, speech.WIDE_PROSODY if randomized else speech.PROSODY)
    hops, end = len(utterance.active), -1
    if randomized and kind in LABELS and hops < MIN_PHRASE_HOPS:
        raise ValueError(f"{voice} says {kind} in {hops} hops, fewer than {MIN_PHRASE_HOPS}")
    if kind == "wake_sentence":
        if len(utterance.word_starts) < 3:
            raise ValueError("no words after the wake phrase")
        hops = utterance.word_starts[2] // HOP
    if kind == "wake_sentence" or kind in LABELS:
        end = (int(np.flatnonzero(utterance.active[:hops])[-1]) + 1) * HOP
    sound = utterance.sound
    if rng.random() < REVERB_PROBABILITY if reverb is None else reverb:
        sound = sounds.reverberate(sound, sounds.room_response(rng))
        sound = sound[:len(utterance.sound) + int(0.3 * SAMPLE_RATE)]
    return Clip(sound, utterance.active, end)


def _build_speech_shard(path, kind, count, seed, randomized):
    if randomized:
        speech.use_data(voices.build_data(WORK))
    rng = np.random.default_rng(seed)
    clips = []
    while len(clips) < count:
        try:
            clips.append(draw_utterance(rng, kind, randomized=randomized))
        except ValueError:
            continue
    samples = [np.clip(clip.sound * 16384, -32767, 32767).astype(np.int16) for clip in clips]
    save_arrays(path, sound=np.concatenate(samples), sizes=[len(s) for s in samples],
                active=np.concatenate([clip.active for clip in clips]), hops=[len(clip.active) for clip in clips],
                ends=[clip.phrase_end for clip in clips])


def _build_noise_shard(path, kind, count, seed):
    rng = np.random.default_rng(seed)
    clips = np.stack([sounds.TRAIN_NOISES[kind](rng, NOISE_SECONDS * SAMPLE_RATE) for _ in range(count)])
    save_arrays(path, clips=clips.astype(np.float16))


def speech_shards(name, fraction=1.0):
    """Yields (kind, number, path) of the speech shards of a model, or of the first fraction of
    them.
    """
    for kind, count in CORPUS_SIZES[name].items():
        for i in range(round(count * fraction / SHARD_SIZE)):
            yield kind, i, os.path.join(WORK, f"{name}-{kind.replace(' ', '_')}-{i:02}.npz")


def noise_path(kind):
    return os.path.join(WORK, f"noise-{kind}.npz")


def build(seed, names=tuple(CORPUS_SIZES), jobs=2):
    """Builds the missing shards, those of the first fraction first, each with a new espeak-ng
    process.
    """
    os.makedirs(WORK, exist_ok=True)
    voices.build_data(WORK)
    tasks = [(_build_noise_shard, noise_path(kind), kind, count, [seed, NOISE_SEED + number])
             for number, (kind, count) in enumerate(NOISE_CLIPS.items())]
    for name in names:
        first = set(speech_shards(name, FIRST_FRACTION))
        for kind, i, path in sorted(speech_shards(name), key=lambda s: s not in first):
            randomized = name == "wake_word"
            tasks.append((_build_speech_shard, path, kind, SHARD_SIZE, [seed, KIND_SEEDS[kind], i, *[1] * randomized],
                          randomized))
    build_files("corpus", tasks, jobs)


class Corpus:
    """Utterances and noise clips of the training of a model, or the first fraction of them, in
    memory.
    """

    def __init__(self, name, fraction=1.0):
        self.clips = {kind: [] for kind in CORPUS_SIZES[name]}
        self.noises = {kind: np.load(noise_path(kind))["clips"].astype(np.float32) for kind in NOISE_CLIPS}
        for kind, _, path in speech_shards(name, fraction):
            shard = np.load(path)
            sound, active = shard["sound"], shard["active"]
            a = b = 0
            for size, hops, end in zip(shard["sizes"], shard["hops"], shard["ends"]):
                self.clips[kind].append(Clip(sound[a:a + size], active[b:b + hops], int(end)))
                a, b = a + size, b + hops

    def pick(self, rng, kind):
        """Draws an utterance of a kind, as f32."""
        clip = self.clips[kind][rng.integers(len(self.clips[kind]))]
        return Clip(clip.sound.astype(np.float32) / 16384, clip.active, clip.phrase_end)

    def noise(self, rng, count, babble_probability):
        """Draws noise of RMS one: babble of three to seven talkers, or one or two noise clips."""
        if rng.random() < babble_probability:
            return self.babble(rng, count, 3)
        return sounds.normalize_rms(sum(self.noise_clip(rng, count) * rng.uniform(0.3, 1)
                                        for _ in range(rng.choice([1, 1, 2]))))

    def babble(self, rng, count, min_talkers):
        """Draws babble of at most seven talkers, of RMS one."""
        voices = [self.pick(rng, "sentence").sound for _ in range(8)]
        return sounds.babble(rng, count, voices, rng.integers(min_talkers, 8))

    def noise_clip(self, rng, count):
        """Draws a segment of a noise clip."""
        kind = rng.choice(list(NOISE_CLIPS), p=[0.5, 0.12, 0.12, 0.12, 0.14])
        clip = self.noises[kind][rng.integers(NOISE_CLIPS[kind])]
        start = rng.integers(0, len(clip) - count)
        return sounds.normalize_rms(clip[start:start + count])


class Scene(NamedTuple):
    """Speech over silence, its activity by hop, and (label, end sample) of each wake phrase."""
    sound: np.ndarray
    active: np.ndarray
    events: list


def build_scene(rng, count, draw, gap):
    """Concatenates utterances: draw() returns (kind, Clip), gap() the seconds between them."""
    sound = np.zeros(count, np.float32)
    active = np.zeros(count // HOP + 1, bool)
    events = []
    at = int(rng.uniform(0, 1) * gap() * SAMPLE_RATE)
    while at < count:
        kind, clip = draw()
        at -= at % HOP
        part = clip.sound[:count - at]
        sound[at:at + len(part)] += part
        part = clip.active[:len(active) - at // HOP]
        active[at // HOP:at // HOP + len(part)] |= part
        if clip.phrase_end >= 0 and at + clip.phrase_end < count:
            events.append(("hey afferent" if kind == "wake_sentence" else kind, at + clip.phrase_end))
        at += len(clip.active) * HOP + int(gap() * SAMPLE_RATE)
    return Scene(sound, active[:count // HOP], events)


def truncate(rng, clip):
    """Drops the start or the end of an utterance."""
    hops = len(clip.active)
    a, b = (rng.integers(1, hops // 2 + 1), hops) if rng.random() < 0.5 else (0, rng.integers(hops // 2, hops))
    return Clip(clip.sound[a * HOP:b * HOP], clip.active[a:b], -1)


def spectral_tilt(rng, x):
    """Applies a small random slope to the spectrum, like a microphone."""
    amount = rng.uniform(-0.5, 0.4)
    y = x.copy()
    y[1:] += amount * x[:-1]
    return y / (1 + abs(amount))


def quantize_16bit(rng, x):
    """Rounds to 16 bits, sometimes after adding faint converter noise."""
    if rng.random() < 0.5:
        x = x + rng.standard_normal(len(x), np.float32) * np.float32(10 ** rng.uniform(-5, -3.7))
    return (np.round(np.clip(x, -1, 1) * 32767) / 32768).astype(np.float32)


VAD_BABBLE_PROBABILITY = 0.5
# Babble of at least this many talkers is not speech if there is no other speech.
MIN_BABBLE_TALKERS = 5


def vad_scene(rng, corpus, windows=256):
    """Returns a sound and the target of each window for the VAD, at a peak level of -45 to 0 dBFS.
    """
    count = windows * Vad.WINDOW
    if rng.random() < 0.2:
        x, target = np.zeros(count, np.float32), np.zeros(windows, np.float32)
        dice = rng.random()
        if dice < 0.3:
            x += corpus.babble(rng, count, MIN_BABBLE_TALKERS)
        elif dice < 0.93:
            x += corpus.noise_clip(rng, count)
            if rng.random() < 0.3:
                x += sounds.shaped(rng, count) * rng.uniform(0.01, 0.5)
    else:
        pause = rng.choice([0.4, 1.0, 2.5])

        def draw():
            kind = rng.choice(["sentence", "embedded", "short", "wake_sentence"], p=[0.6, 0.15, 0.2, 0.05])
            clip = corpus.pick(rng, kind)
            return kind, Clip(clip.sound * 10 ** (rng.uniform(-4, 4) / 20), clip.active, -1)
        scene = build_scene(rng, count, draw, lambda: rng.uniform(0.1, pause))
        x = spectral_tilt(rng, scene.sound)
        if rng.random() < 0.85:
            noise = corpus.noise(rng, count, VAD_BABBLE_PROBABILITY)
            x = x + noise * ACTIVE_RMS * 10 ** (-rng.uniform(3, 30) / 20)
        target = vad_target(scene.active, windows)
    level = 10 ** (rng.uniform(-45, 0) / 20)
    x = x / (np.abs(x).max() + 1e-6) * level
    return quantize_16bit(rng, x), target


def vad_target(active, windows):
    """Returns 1 for windows with at least half of their samples active, 0 for others."""
    samples = np.repeat(active, HOP)[:windows * Vad.WINDOW]
    samples = np.pad(samples, (0, windows * Vad.WINDOW - len(samples)))
    return (samples.reshape(windows, -1).mean(1) >= 0.5).astype(np.float32)


# Time span after the end of a phrase with its label as the target, in seconds. "stop" and "go"
# require a pause after them, so their scores rise later.
TARGET_SPAN_S = {"hey afferent": (0.0, 0.28), "stop": (0.12, 0.34), "go": (0.12, 0.34)}
# Steps around the end of a phrase that the loss ignores, in seconds before it and after the target
# span.
IGNORE_BEFORE_S = {"hey afferent": 0.2, "stop": 0.05, "go": 0.05}
IGNORE_AFTER_S = 0.16
IGNORE_INDEX = -100


KINDS = ["hey afferent", "wake_sentence", "stop", "go", "confusable", "near_miss", "short", "embedded", "sentence"]
# Probability of each kind: first more phrases and confusables, later more ordinary speech.
KIND_PROBABILITIES = [[0.11, 0.05, 0.11, 0.18, 0.19, 0.05, 0.08, 0.08, 0.15],
                      [0.08, 0.04, 0.08, 0.15, 0.11, 0.04, 0.07, 0.10, 0.33]]
BABBLE_PROBABILITY = 0.42


def wake_scene(rng, corpus, stage=0, steps=160):
    """Returns a sound and the label of each 40 ms step for the wake word."""
    sound, events = wake_sound(rng, corpus, stage, steps)
    return sound, wake_target(events, steps)


def wake_sound(rng, corpus, stage=0, steps=160):
    """Returns the sound of a scene, and its wake phrases as (label, end sample)."""
    count = steps * LogMel.WINDOW

    def draw():
        kind = rng.choice(KINDS, p=KIND_PROBABILITIES[stage])
        clip = corpus.pick(rng, kind)
        clip = clip._replace(sound=clip.sound * 10 ** (rng.uniform(-3, 3) / 20))
        dice = rng.random()
        if kind == "sentence" and dice < 0.3:
            clip = truncate(rng, clip)
        if kind == "hey afferent" and dice < 0.15:
            stop = int(len(clip.active) * rng.uniform(0.2, 0.65))
            start = 0 if dice < 0.1 else int(len(clip.active) * rng.uniform(0.35, 0.6))
            stop = stop if start == 0 else len(clip.active)
            clip = Clip(clip.sound[start * HOP:stop * HOP], clip.active[start:stop], -1)
        return kind, clip
    scene = build_scene(rng, count, draw, lambda: rng.choice([rng.uniform(0.3, 0.6), rng.uniform(0.3, 1.6)]))
    x = spectral_tilt(rng, scene.sound)
    if rng.random() < 0.85:
        noise = corpus.noise(rng, count, BABBLE_PROBABILITY)
        x = x + noise * ACTIVE_RMS * 10 ** (-rng.uniform(4, 25) / 20)
    x = x * 10 ** (rng.uniform(-20, 12) / 20)
    return quantize_16bit(rng, x), scene.events


def wake_target(events, steps):
    heard_s = (np.arange(steps) + 1) * LogMel.WINDOW / SAMPLE_RATE
    target = np.zeros(steps, np.int64)
    for label, end in events:
        since_end_s = heard_s - end / SAMPLE_RATE
        first, last = TARGET_SPAN_S[label]
        ignored = (since_end_s >= -IGNORE_BEFORE_S[label]) & (since_end_s < last + IGNORE_AFTER_S)
        target[ignored & (target == 0)] = IGNORE_INDEX
        target[(since_end_s >= first) & (since_end_s < last)] = LABELS.index(label)
    return target
