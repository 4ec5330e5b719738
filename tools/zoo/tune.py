"""Shows what thresholds of the wake word would do: fresh speech of training voices and texts in training noises."""
import argparse
import concurrent.futures
import os

import numpy as np
import torch

import data
import sounds
from evaluate import NOISY_DB, at_level, drawn, tally
from models import WakeWord
from speech import ACTIVE_LEVEL, RATE
from streaming import WholeWakeWord

SEED = 70001
PHRASES = WakeWord.LABELS[1:]
NOISES = ["shaped", "babble", "shaped", "music", "babble", "shaped", "hum", "babble", "clicks", "tones"]
BABBLE_TALKERS = 6
HOURS, STREAMS = 2, 60      # of other speech; of phrases at 10 dB
THRESHOLDS = [round(0.3 + 0.05 * i, 2) for i in range(14)]


def stream(called, i):
    """A minute of phrases and sentences, or of sentences only, and its phrases as (label, end in seconds)."""
    path = os.path.join(data.WORK, f"tune-{'called' if called else 'other'}-{i:03}.npz")
    if not os.path.exists(path):
        rng = np.random.default_rng([SEED, called, i])
        if called:
            draw = drawn(rng, PHRASES + ["sentence"], [0.27, 0.27, 0.27, 0.19], False, unseen=False)
            scene = data.lay(rng, 60 * RATE, draw, lambda: rng.uniform(0.5, 1.5))
        else:
            draw = drawn(rng, ["sentence"], None, rng.random() < 0.5, unseen=False)
            scene = data.lay(rng, 60 * RATE, draw, lambda: rng.uniform(0.3, 1.2))
        x, kind = scene.sound, NOISES[i // 2 % len(NOISES)]
        if called or i % 2:
            if kind == "babble":
                voices = [data.speak(rng, "sentence", False, False).sound for _ in range(12)]
                noise = sounds.babble(rng, len(x), voices, BABBLE_TALKERS)
            else:
                noise = sounds.TRAIN_NOISES[kind](rng, len(x))
            x = x + noise * ACTIVE_LEVEL * 10 ** (-(NOISY_DB if called else rng.choice([10, 20])) / 20)
        data.save(path, x=np.round(at_level(rng, x) * 32768).clip(-32768, 32767).astype(np.int16),
                  labels=np.array([e[0] for e in scene.events], "U20"), ends=[e[1] / RATE for e in scene.events])
    made = np.load(path)
    return made["x"].astype(np.float32) / 32768, list(zip(made["labels"].tolist(), made["ends"].tolist()))


def scored(called, i):
    sound, truth = stream(called, i)
    return WholeWakeWord()(sound), truth


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", action="store_true", help="make the sounds only")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    numbers = [(called, i) for called, count in ((True, STREAMS), (False, 60 * HOURS)) for i in range(count)]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        found = list(pool.map(stream if arguments.make else scored, *zip(*numbers)))
    if not arguments.make:
        for smooth_ms in (80, 120, 160):
            for threshold in THRESHOLDS:
                decision = {"threshold": threshold, "smooth_ms": smooth_ms, "refractory_ms": 1000}
                row, _ = tally(found[:STREAMS], decision)
                _, other = tally(found[STREAMS:], decision)
                print(f"smooth {smooth_ms} ms, threshold {threshold}: "
                      + ", ".join(f"{p} {row[p]['recall']:.3f} of {row[p]['items']}, {other[p]} false" for p in PHRASES)
                      + f" in {HOURS} hours", flush=True)
