"""Shows what other decisions of the wake word would do, on scenes of training voices not drawn in training."""
import argparse

import numpy as np

import data
from models import WakeWord
from speech import RATE
from streaming import WholeWakeWord, decide

SEED = 70001
EARLY_S, LATE_S = 0.3, 1.0


def count(scenes, decision):
    """Recall per label, the delay's 95th percentile in ms, and events that match no phrase."""
    heard, delays, false = {label: [] for label in WakeWord.LABELS[1:]}, [], 0
    for scores, phrases in scenes:
        events = decide(scores, decision)
        for label, end in phrases:
            found = [at - end for name, at in events if name == label and -EARLY_S <= at - end <= LATE_S]
            heard[label].append(bool(found))
            delays += found[:1]
        false += sum(not any(name == label and -EARLY_S <= at - end <= LATE_S for label, end in phrases)
                     for name, at in events)
    return {k: round(float(np.mean(v)), 3) for k, v in heard.items()}, np.percentile(delays, 95) * 1000, false


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=400)
    arguments = parser.parse_args()
    detect, pool, scenes = WholeWakeWord(), data.Pool(), []
    for i in range(arguments.scenes):
        sound, _, events = data.wake_sound(np.random.default_rng([SEED, i]), pool)
        scenes.append((detect(sound), [(label, end / RATE) for label, end in events
                                       if end < len(sound) - LATE_S * RATE]))
    for smooth_ms in (80, 120, 160):
        for threshold in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
            recall, late, false = count(scenes, {"threshold": threshold, "smooth_ms": smooth_ms,
                                                 "refractory_ms": 1000})
            print(f"smooth {smooth_ms} ms, threshold {threshold}: {recall}, p95 {late:.0f} ms, other events {false}",
                  flush=True)
