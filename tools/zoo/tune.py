"""Sweeps thresholds of the wake word on new speech of held-out voices with training noises."""
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
from evaluate import NOISY_SNR_DB, match_events, random_level
from models import WakeWord
from speech import ACTIVE_RMS, SAMPLE_RATE
from streaming import OfflineWakeWord

SEED = 70001
PHRASES = WakeWord.LABELS[1:]
NOISES = ["shaped", "babble", "shaped", "music", "babble", "shaped", "hum", "babble", "clicks", "tones"]
BABBLE_TALKERS = 6
# Hours of other speech, and minutes with wake phrases at 10 dB.
HOURS, PHRASE_MINUTES = 2, 40
SMOOTH_MS = (80, 120, 160, 200)
THRESHOLDS = [round(0.4 + 0.04 * i, 2) for i in range(15)]
# Limit of false alarms, over all labels, of the proposed decision.
MAX_FALSE_ALARMS = 1


def drawer(rng, kinds, reverb):
    """Returns a function that draws utterances of held-out voices, as `data.build_scene` takes it.
    """
    def draw():
        while True:
            kind = rng.choice(kinds)
            try:
                return kind, data.draw_utterance(rng, kind, reverb=reverb, randomized=True, held_out=True)
            except ValueError:
                continue
    return draw


def noise(rng, kind, count):
    if kind == "babble":
        draw = drawer(rng, ["sentence"], False)
        return sounds.babble(rng, count, [draw()[1].sound for _ in range(12)], BABBLE_TALKERS)
    return sounds.TRAIN_NOISES[kind](rng, count)


def stream(has_phrases, i):
    """Returns a minute of sentences, with or without wake phrases, and its phrases (label, end in
    seconds).
    """
    path = os.path.join(data.WORK, f"tune-{'phrases' if has_phrases else 'other'}-{i:03}.npz")
    if not os.path.exists(path):
        speech.use_data(voices.build_data(data.WORK))
        rng = np.random.default_rng([SEED, has_phrases, i])
        if has_phrases:
            draw = drawer(rng, PHRASES + ["sentence"], False)
            scene = data.build_scene(rng, 60 * SAMPLE_RATE, draw, lambda: rng.uniform(0.5, 1.5))
        else:
            draw = drawer(rng, ["sentence"], rng.random() < 0.5)
            scene = data.build_scene(rng, 60 * SAMPLE_RATE, draw, lambda: rng.uniform(0.3, 1.2))
        x = scene.sound
        if has_phrases or i % 2:
            snr_db = NOISY_SNR_DB if has_phrases else rng.choice([10, 20])
            x = x + noise(rng, NOISES[i // 2 % len(NOISES)], len(x)) * ACTIVE_RMS * 10 ** (-snr_db / 20)
        events = [e for e in scene.events if has_phrases]
        data.save_arrays(path, x=np.round(random_level(rng, x) * 32768).clip(-32768, 32767).astype(np.int16),
                         labels=np.array([e[0] for e in events], "U20"), ends=[e[1] / SAMPLE_RATE for e in events])
    saved = np.load(path)
    return saved["x"].astype(np.float32) / 32768, list(zip(saved["labels"].tolist(), saved["ends"].tolist()))


def score_stream(has_phrases, i):
    sound, truth = stream(has_phrases, i)
    return OfflineWakeWord()(sound), truth


def report(phrase_streams, other_streams):
    """Prints recall and false alarms of each threshold, and proposes a decision.

    The proposed one has the highest mean recall within the limit of false alarms.
    """
    best = (0.0, None, None)
    for smooth_ms in SMOOTH_MS:
        rows = {p: [] for p in PHRASES}
        for threshold in THRESHOLDS:
            decision = {"threshold": threshold, "smooth_ms": smooth_ms, "refractory_ms": 1000}
            row, _ = match_events(phrase_streams, decision)
            _, false = match_events(other_streams, decision)
            for p in PHRASES:
                rows[p].append((threshold, row[p]["recall"], false[p]))
            print(f"smoothing {smooth_ms} ms, threshold {threshold}: "
                  + ", ".join(f"{p} recall {row[p]['recall']:.3f} of {row[p]['items']}, {false[p]} false alarms"
                              for p in PHRASES) + f" in {HOURS} hours", flush=True)
        # Ties go to the last one, which has the higher thresholds.
        for points in itertools.product(*rows.values()):
            mean = round(sum(recall for _, recall, _ in points) / len(points), 6)
            if sum(false for _, _, false in points) <= MAX_FALSE_ALARMS and mean >= best[0]:
                best = (mean, smooth_ms, dict(zip(PHRASES, points)))
    print(f"proposed, with at most {MAX_FALSE_ALARMS} false alarm in {HOURS} hours: smoothing {best[1]} ms, {best[2]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", action="store_true", help="synthesize the sounds only")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    numbers = [(has_phrases, i) for has_phrases, count in ((True, PHRASE_MINUTES), (False, 60 * HOURS))
               for i in range(count)]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, initializer=torch.set_num_threads,
                                                initargs=(1,)) as pool:
        results = list(pool.map(stream if arguments.make else score_stream, *zip(*numbers)))
    if not arguments.make:
        report(results[:PHRASE_MINUTES], results[PHRASE_MINUTES:])
