"""Shows what thresholds of the wake word would do: fresh speech of voices kept from its training in training noises."""
import argparse
import concurrent.futures
import itertools
import os

import numpy as np
import torch

import data
import sounds
import speech
import voices
from evaluate import NOISY_DB, at_level, tally
from models import WakeWord
from speech import ACTIVE_LEVEL, RATE
from streaming import WholeWakeWord

SEED = 70001
PHRASES = WakeWord.LABELS[1:]
NOISES = ["shaped", "babble", "shaped", "music", "babble", "shaped", "hum", "babble", "clicks", "tones"]
BABBLE_TALKERS = 6
HOURS, STREAMS = 2, 40      # of other speech; minutes of phrases at 10 dB
SMOOTH_MS = (80, 120, 160, 200)
THRESHOLDS = [round(0.4 + 0.04 * i, 2) for i in range(15)]
ALLOWED = 1                 # false alarms of all labels together, of the decision that is proposed


def drawn(rng, kinds, in_room):
    def draw():
        while True:
            kind = rng.choice(kinds)
            try:
                return kind, data.speak(rng, kind, in_room=in_room, made=True, held=True)
            except ValueError:
                continue
    return draw


def noise(rng, kind, count):
    if kind == "babble":
        draw = drawn(rng, ["sentence"], False)
        return sounds.babble(rng, count, [draw()[1].sound for _ in range(12)], BABBLE_TALKERS)
    return sounds.TRAIN_NOISES[kind](rng, count)


def stream(called, i):
    """A minute of phrases and sentences, or of sentences only, and its phrases as (label, end in seconds)."""
    path = os.path.join(data.WORK, f"tune-{'called' if called else 'other'}-{i:03}.npz")
    if not os.path.exists(path):
        speech.use(voices.folder(data.WORK))
        rng = np.random.default_rng([SEED, called, i])
        if called:
            scene = data.lay(rng, 60 * RATE, drawn(rng, PHRASES + ["sentence"], False), lambda: rng.uniform(0.5, 1.5))
        else:
            draw = drawn(rng, ["sentence"], rng.random() < 0.5)
            scene = data.lay(rng, 60 * RATE, draw, lambda: rng.uniform(0.3, 1.2))
        x = scene.sound
        if called or i % 2:
            level_db = NOISY_DB if called else rng.choice([10, 20])
            x = x + noise(rng, NOISES[i // 2 % len(NOISES)], len(x)) * ACTIVE_LEVEL * 10 ** (-level_db / 20)
        events = [e for e in scene.events if called]
        data.save_arrays(path, x=np.round(at_level(rng, x) * 32768).clip(-32768, 32767).astype(np.int16),
                  labels=np.array([e[0] for e in events], "U20"), ends=[e[1] / RATE for e in events])
    made = np.load(path)
    return made["x"].astype(np.float32) / 32768, list(zip(made["labels"].tolist(), made["ends"].tolist()))


def scored(called, i):
    sound, truth = stream(called, i)
    return WholeWakeWord()(sound), truth


def show(called, other):
    """The table of thresholds, and the decision of the highest mean recall within the allowed false alarms."""
    best = (0.0, None, None)
    for smooth_ms in SMOOTH_MS:
        rows = {p: [] for p in PHRASES}
        for threshold in THRESHOLDS:
            decision = {"threshold": threshold, "smooth_ms": smooth_ms, "refractory_ms": 1000}
            row, _ = tally(called, decision)
            _, false = tally(other, decision)
            for p in PHRASES:
                rows[p].append((threshold, row[p]["recall"], false[p]))
            print(f"smooth {smooth_ms} ms, threshold {threshold}: "
                  + ", ".join(f"{p} {row[p]['recall']:.3f} of {row[p]['items']}, {false[p]} false" for p in PHRASES)
                  + f" in {HOURS} hours", flush=True)
        # Of equals the last, which has the higher thresholds.
        for points in itertools.product(*rows.values()):
            mean = round(sum(recall for _, recall, _ in points) / len(points), 6)
            if sum(false for _, _, false in points) <= ALLOWED and mean >= best[0]:
                best = (mean, smooth_ms, dict(zip(PHRASES, points)))
    print(f"proposed, with at most {ALLOWED} false alarm in {HOURS} hours: smooth {best[1]} ms, {best[2]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", action="store_true", help="make the sounds only")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    numbers = [(called, i) for called, count in ((True, STREAMS), (False, 60 * HOURS)) for i in range(count)]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        found = list(pool.map(stream if arguments.make else scored, *zip(*numbers)))
    if not arguments.make:
        show(found[:STREAMS], found[STREAMS:])
