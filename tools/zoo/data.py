"""The pool of utterances and noises, and the scenes that training draws from it."""
import os
from typing import NamedTuple

import numpy as np

import sounds
import speech
import texts
import voices
from checkpoint import save_arrays
from models import LogMel, Vad, WakeWord
from speech import ACTIVE_LEVEL, HOP, RATE
from steps import make_files

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(HERE, "work")
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARD = 500
# Utterances of each kind, for voice activity and for the wake word. The wake word trains on a FIRST part at first.
POOLS = {"vad": {"sentence": 7000, "embedded": 3500, "short": 3000, "called": 2500},
         "wake_word": {"sentence": 8000, "embedded": 3500, "alike": 5000, "near": 2500, "short": 3000, "called": 2500,
                       "hey afferent": 6000, "stop": 6000, "go": 8000}}
FIRST = 0.4
# Part of a shard's seed; other numbers give other utterances.
KIND_NUMBERS = {"sentence": 0, "embedded": 1, "alike": 2, "short": 3, "called": 4, "hey afferent": 5, "stop": 6, "go": 7,
                "near": 8}
NOISES = {"shaped": 200, "hum": 60, "clicks": 80, "tones": 80, "music": 80}
NOISE_SECONDS = 10
ROOM_SHARE = 0.6
SPELLED_SHARE = 0.5
SHORTEST_HOPS = 16       # of a phrase by a made-up voice
LABELS = WakeWord.LABELS


class Spoken(NamedTuple):
    """An utterance of the pool; end is the sample where its phrase ends, or -1."""
    sound: np.ndarray
    active: np.ndarray
    end: int


def speak(rng, kind, unseen=False, in_room=None, made=False, held=False):
    """One utterance of a kind, by a random voice, often in a room; made: by one of voices.py, if its folder is in use."""
    phrase = kind in LABELS or kind in ("alike", "near")
    if made:
        voice = voices.random_voice(rng, held, phrase)
    else:
        voice = speech.random_voice(rng, unseen, speech.PHRASE_ACCENTS if phrase else speech.TRAIN_ACCENTS)
    if kind == "called":
        joint = str(rng.choice([" ", " ", ", "]))
        text = "hey afferent" + joint + texts.sentence(rng, unseen)
    elif kind in LABELS:
        if voice.startswith(tuple(voices.FOREIGN)):
            text = kind         # such a voice knows its own phonemes only, so it reads letters
        elif made and rng.random() < SPELLED_SHARE:
            text = texts.spelled(rng, kind)
        else:
            text = texts.phrase(rng, kind, unseen)
    else:
        text = getattr(texts, kind)(rng, unseen)
    said = speech.say(rng, text, voice, not unseen, speech.WIDE_PROSODY if made else speech.PROSODY)
    hops, end = len(said.active), -1
    if made and kind in LABELS and hops < SHORTEST_HOPS:
        raise ValueError(f"hardly a sound of {voice} for {kind}")
    if kind == "called":
        if len(said.word_starts) < 3:
            raise ValueError("no words after the phrase")
        hops = said.word_starts[2] // HOP
    if kind == "called" or kind in LABELS:
        end = (int(np.flatnonzero(said.active[:hops])[-1]) + 1) * HOP
    sound = said.sound
    if rng.random() < ROOM_SHARE if in_room is None else in_room:
        sound = sounds.reverberate(sound, sounds.room(rng))
        sound = sound[:len(said.sound) + int(0.3 * RATE)]
    return Spoken(sound, said.active, end)


def _speak_shard(path, kind, count, seed, made):
    if made:
        speech.use(voices.folder(WORK))
    rng = np.random.default_rng(seed)
    spoken = []
    while len(spoken) < count:
        try:
            spoken.append(speak(rng, kind, made=made))
        except ValueError:
            continue
    loud = [np.clip(s.sound * 16384, -32767, 32767).astype(np.int16) for s in spoken]
    save_arrays(path, sound=np.concatenate(loud), sizes=[len(s) for s in loud],
         active=np.concatenate([s.active for s in spoken]), hops=[len(s.active) for s in spoken],
         ends=[s.end for s in spoken])


def _noise_shard(path, kind, count, seed):
    rng = np.random.default_rng(seed)
    clips = np.stack([sounds.TRAIN_NOISES[kind](rng, NOISE_SECONDS * RATE) for _ in range(count)])
    save_arrays(path, clips=clips.astype(np.float16))


def shards(name, part=1.0):
    """(kind, number, path) of the shards of speech of a model, or of a first part of them."""
    for kind, count in POOLS[name].items():
        for i in range(round(count * part / SHARD)):
            yield kind, i, os.path.join(WORK, f"{name}-{kind.replace(' ', '_')}-{i:02}.npz")


def noise_path(kind):
    return os.path.join(WORK, f"noise-{kind}.npz")


def build(seed, names=tuple(POOLS), jobs=2):
    """Make what the pools still lack, the first part of each kind first; every shard by a fresh espeak-ng."""
    os.makedirs(WORK, exist_ok=True)
    voices.folder(WORK)
    tasks = [(_noise_shard, noise_path(kind), kind, count, [seed, 100 + number])
             for number, (kind, count) in enumerate(NOISES.items())]
    for name in names:
        first = set(shards(name, FIRST))
        for kind, i, path in sorted(shards(name), key=lambda s: s not in first):
            made = name == "wake_word"
            tasks.append((_speak_shard, path, kind, SHARD, [seed, KIND_NUMBERS[kind], i, *[1] * made], made))
    make_files("pool", tasks, jobs)


class Pool:
    """The utterances and noises of the training of a model, or a first part of them, in memory."""

    def __init__(self, name, part=1.0):
        self.spoken = {kind: [] for kind in POOLS[name]}
        self.noises = {kind: np.load(noise_path(kind))["clips"].astype(np.float32) for kind in NOISES}
        for kind, _, path in shards(name, part):
            shard = np.load(path)
            sound, active = shard["sound"], shard["active"]
            a = b = 0
            for size, hops, end in zip(shard["sizes"], shard["hops"], shard["ends"]):
                self.spoken[kind].append(Spoken(sound[a:a + size], active[b:b + hops], int(end)))
                a, b = a + size, b + hops

    def pick(self, rng, kind):
        """An utterance at full precision, its activity as bool."""
        spoken = self.spoken[kind][rng.integers(len(self.spoken[kind]))]
        return Spoken(spoken.sound.astype(np.float32) / 16384, spoken.active, spoken.end)

    def noise(self, rng, count, babble):
        """Noise of RMS one: a training recipe, babble of three to seven talkers, or a mixture."""
        if rng.random() < babble:
            return self.babble(rng, count, 3)
        return sounds.unit(sum(self.recipe(rng, count) * rng.uniform(0.3, 1)
                               for _ in range(rng.choice([1, 1, 2]))))

    def babble(self, rng, count, fewest):
        """So many talkers, or up to seven, at once; RMS one."""
        voices = [self.pick(rng, "sentence").sound for _ in range(8)]
        return sounds.babble(rng, count, voices, rng.integers(fewest, 8))

    def recipe(self, rng, count):
        """A piece of noise that is not made of speech."""
        kind = rng.choice(list(NOISES), p=[0.5, 0.12, 0.12, 0.12, 0.14])
        clip = self.noises[kind][rng.integers(NOISES[kind])]
        start = rng.integers(0, len(clip) - count)
        return sounds.unit(clip[start:start + count])


class Scene(NamedTuple):
    """Speech on a silent ground, its activity per hop, and (label, end sample) of each phrase."""
    sound: np.ndarray
    active: np.ndarray
    events: list


def lay(rng, count, draw, gap):
    """Put utterances one after another: draw() gives (kind, Spoken), gap() seconds between them."""
    sound = np.zeros(count, np.float32)
    active = np.zeros(count // HOP + 1, bool)
    events = []
    at = int(rng.uniform(0, 1) * gap() * RATE)
    while at < count:
        kind, spoken = draw()
        at -= at % HOP
        part = spoken.sound[:count - at]
        sound[at:at + len(part)] += part
        part = spoken.active[:len(active) - at // HOP]
        active[at // HOP:at // HOP + len(part)] |= part
        if spoken.end >= 0 and at + spoken.end < count:
            events.append(("hey afferent" if kind == "called" else kind, at + spoken.end))
        at += len(spoken.active) * HOP + int(gap() * RATE)
    return Scene(sound, active[:count // HOP], events)


def cut(rng, spoken):
    """Drop the start or the end of an utterance."""
    hops = len(spoken.active)
    a, b = (rng.integers(1, hops // 2 + 1), hops) if rng.random() < 0.5 else (0, rng.integers(hops // 2, hops))
    return Spoken(spoken.sound[a * HOP:b * HOP], spoken.active[a:b], -1)


def tilt(rng, x):
    """A gentle random slope of the spectrum, as of a microphone."""
    amount = rng.uniform(-0.5, 0.4)
    y = x.copy()
    y[1:] += amount * x[:-1]
    return y / (1 + abs(amount))


# How often the noise of a scene is babble; so many talkers at least are no speech where there is nothing else.
VAD_BABBLE_SHARE, FEWEST_TALKERS = 0.5, 5


def vad_scene(rng, pool, windows=256):
    """(sound, target per window) for voice activity, at a peak level of -45 to 0 dBFS."""
    count = windows * Vad.WINDOW
    if rng.random() < 0.2:
        x, target = np.zeros(count, np.float32), np.zeros(windows, np.float32)
        dice = rng.random()
        if dice < 0.3:
            x += pool.babble(rng, count, FEWEST_TALKERS)
        elif dice < 0.93:
            x += pool.recipe(rng, count)
            if rng.random() < 0.3:
                x += sounds.shaped(rng, count) * rng.uniform(0.01, 0.5)
    else:
        pause = rng.choice([0.4, 1.0, 2.5])

        def draw():
            kind = rng.choice(["sentence", "embedded", "short", "called"], p=[0.6, 0.15, 0.2, 0.05])
            spoken = pool.pick(rng, kind)
            return kind, Spoken(spoken.sound * 10 ** (rng.uniform(-4, 4) / 20), spoken.active, -1)
        scene = lay(rng, count, draw, lambda: rng.uniform(0.1, pause))
        x = tilt(rng, scene.sound)
        if rng.random() < 0.85:
            x = x + pool.noise(rng, count, VAD_BABBLE_SHARE) * ACTIVE_LEVEL * 10 ** (-rng.uniform(3, 30) / 20)
        target = vad_target(scene.active, windows)
    level = 10 ** (rng.uniform(-45, 0) / 20)
    x = x / (np.abs(x).max() + 1e-6) * level
    return quantised(rng, x), target


def vad_target(active, windows):
    """Windows of which at least half the samples are speech."""
    samples = np.repeat(active, HOP)[:windows * Vad.WINDOW]
    samples = np.pad(samples, (0, windows * Vad.WINDOW - len(samples)))
    return (samples.reshape(windows, -1).mean(1) >= 0.5).astype(np.float32)


def quantised(rng, x):
    """As 16-bit sound, sometimes with the faint noise of a converter."""
    if rng.random() < 0.5:
        x = x + rng.standard_normal(len(x), np.float32) * np.float32(10 ** rng.uniform(-5, -3.7))
    return (np.round(np.clip(x, -1, 1) * 32767) / 32768).astype(np.float32)


# When, after the end of a phrase, a step must name it, and when nothing is asked of it, in seconds.
# "stop" and "go" count only when a pause follows: their scores may rise after 120 ms of it.
NAMED = {"hey afferent": (0.0, 0.28), "stop": (0.12, 0.34), "go": (0.12, 0.34)}
FREE_BEFORE = {"hey afferent": 0.2, "stop": 0.05, "go": 0.05}
FREE_AFTER = 0.16
IGNORED = -100


KINDS = ["hey afferent", "called", "stop", "go", "alike", "near", "short", "embedded", "sentence"]
# How often each occurs: at first phrases and sound-alikes, later more ordinary speech.
MIXTURES = [[0.11, 0.05, 0.11, 0.18, 0.19, 0.05, 0.08, 0.08, 0.15],
            [0.08, 0.04, 0.08, 0.15, 0.11, 0.04, 0.07, 0.10, 0.33]]
BABBLE_SHARE = 0.42


def wake_scene(rng, pool, mixture=0, steps=160):
    """(sound, label per 40 ms step) for the wake word."""
    sound, events = wake_sound(rng, pool, mixture, steps)
    return sound, wake_target(events, steps)


def wake_sound(rng, pool, mixture=0, steps=160):
    """The sound of a scene and its phrases as (label, end sample)."""
    count = steps * LogMel.WINDOW

    def draw():
        kind = rng.choice(KINDS, p=MIXTURES[mixture])
        spoken = pool.pick(rng, kind)
        spoken = spoken._replace(sound=spoken.sound * 10 ** (rng.uniform(-3, 3) / 20))
        dice = rng.random()
        if kind == "sentence" and dice < 0.3:
            spoken = cut(rng, spoken)
        if kind == "hey afferent" and dice < 0.15:
            kept = int(len(spoken.active) * rng.uniform(0.2, 0.65))
            begin = 0 if dice < 0.1 else int(len(spoken.active) * rng.uniform(0.35, 0.6))
            kept = kept if begin == 0 else len(spoken.active)
            spoken = Spoken(spoken.sound[begin * HOP:kept * HOP], spoken.active[begin:kept], -1)
        return kind, spoken
    scene = lay(rng, count, draw, lambda: rng.choice([rng.uniform(0.3, 0.6), rng.uniform(0.3, 1.6)]))
    x = tilt(rng, scene.sound)
    if rng.random() < 0.85:
        x = x + pool.noise(rng, count, BABBLE_SHARE) * ACTIVE_LEVEL * 10 ** (-rng.uniform(4, 25) / 20)
    x = x * 10 ** (rng.uniform(-20, 12) / 20)
    return quantised(rng, x), scene.events


def wake_target(events, steps):
    heard = (np.arange(steps) + 1) * LogMel.WINDOW / RATE
    target = np.zeros(steps, np.int64)
    for label, end in events:
        since = heard - end / RATE
        first, last = NAMED[label]
        free = (since >= -FREE_BEFORE[label]) & (since < last + FREE_AFTER)
        target[free & (target == 0)] = IGNORED
        target[(since >= first) & (since < last)] = LABELS.index(label)
    return target
