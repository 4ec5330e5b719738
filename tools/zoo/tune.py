"""Shows what other decisions of the wake word would do, on scenes of training voices not drawn in training."""
import argparse

import numpy as np

import data
from evaluate import tally
from speech import RATE
from streaming import WholeWakeWord

SEED = 70001


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=400)
    arguments = parser.parse_args()
    detect, pool, scenes = WholeWakeWord(), data.Pool(), []
    for i in range(arguments.scenes):
        sound, events = data.wake_sound(np.random.default_rng([SEED, i]), pool, mixture=1)
        scenes.append((detect(sound), [(label, end / RATE) for label, end in events]))
    for smooth_ms in (80, 120, 160):
        for threshold in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
            row, other = tally(scenes, {"threshold": threshold, "smooth_ms": smooth_ms, "refractory_ms": 1000})
            found = ", ".join(f"{label} {r['recall']:.3f} (p95 {r['delay_ms_p95']:.0f} ms)" for label, r in row.items())
            print(f"smooth {smooth_ms} ms, threshold {threshold}: {found}, other events {other}", flush=True)
