"""Measures the shipped turn detector on held-out voices, sentences and noises, and updates
model.yaml.
"""
import argparse
import os
import shlex
import subprocess
import tempfile
import time

import corpus
import numpy as np
import yaml
from corpus import WINDOW
from paths import PACKAGE, ROOT
from train import area_under_roc

import sounds
from cards import write_card
from speech import ACTIVE_RMS, SAMPLE_RATE

SEED = 90501
# Silence after the end of speech, in samples.
SILENCE = 200 * SAMPLE_RATE // 1000
LEVEL_DB = (-12, 6)
CONDITIONS = {"clean": None, "15dB": 15}
COMPARED_ITEMS = 20
MEASURED_ON = (
    "Synthetic speech: 12 voice variants in 2 accents, sentences and noises, all held out from training. Half "
    "of the items end a sentence; half pause in it: with the intonation of a comma, cut between two words, or "
    "with a filler, mostly a held-out one. Noise is white, pink, a machine or rain. accuracy, false_cuts "
    "(pauses detected as ends) and missed_ends are at the threshold of the decision.")


class Program:
    """A shipped program on the official runtime."""

    def __init__(self, variant):
        from executorch.runtime import Runtime
        self.path = os.path.join(PACKAGE, f"turn_{variant}.pte")
        self.program = Runtime.get().load_program(self.path)
        self.method = self.program.load_method("forward")

    def __call__(self, sound):
        import torch
        return float(self.method.execute([torch.from_numpy(sound)[None]])[0])


def draw_items(count):
    """Returns test items (sound, is an end, kind) of each condition."""
    corpus.use_voices("test")
    rng, generators = np.random.default_rng(SEED), list(sounds.TEST_NOISES.values())
    items = {name: [] for name in CONDITIONS}
    for _ in range(count):
        item = corpus.draw_ending(rng, "test")
        clean = item.sound[SILENCE:SILENCE + WINDOW]
        noise = generators[rng.integers(len(generators))](rng, WINDOW)
        gain = 10 ** (rng.uniform(*LEVEL_DB) / 20)
        for name, snr_db in CONDITIONS.items():
            sound = clean if snr_db is None else clean + noise * ACTIVE_RMS * 10 ** (-snr_db / 20)
            items[name].append(((sound * gain).astype(np.float32), item.is_end, item.kind))
    return items


def run_ours(afferent, path, sound):
    """Returns the probability on our runtime."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(os.path.join(folder, "sound.npy"), sound[None])
        subprocess.run([*afferent, "model", "run", path, "--input", os.path.join(folder, "sound.npy"),
                        "--output-dir", folder], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        return float(np.load(os.path.join(folder, "output_0.npy")).reshape(-1)[0])


def scores(probs, items, threshold):
    ends, kinds = np.array([is_end for _, is_end, _ in items]), np.array([kind for _, _, kind in items])
    predicted = probs >= threshold
    by_kind = {f"error_rate_{kind}": round(float((predicted != ends)[kinds == kind].mean()), 4)
               for kind in ("end", *corpus.PAUSE_KINDS)}
    return {"items": len(items), "area_under_roc": round(float(area_under_roc(probs, ends.astype(float))), 4),
            "accuracy": round(float((predicted == ends).mean()), 4),
            "false_cuts": round(float(predicted[~ends].mean()), 4),
            "missed_ends": round(float((~predicted)[ends].mean()), 4), **by_kind}


def measure(count, afferent, threshold):
    items, portable, xnnpack = draw_items(count), Program("portable"), Program("xnnpack")
    quality = {"measured_with": "tools/zoo/turn/evaluate.py", "measured_on": MEASURED_ON}
    start = time.perf_counter()
    for name, rows in items.items():
        quality[name] = scores(np.array([xnnpack(sound) for sound, _, _ in rows]), rows, threshold)
    quality["call_ms_official_xnnpack"] = round((time.perf_counter() - start) * 1000 / (2 * count), 2)
    compared = [sound for sound, _, _ in items["15dB"][:COMPARED_ITEMS]]
    quality["xnnpack_portable_difference"] = float(f"{max(abs(portable(s) - xnnpack(s)) for s in compared):.1e}")
    quality["difference_from_official_runtime"] = {
        name: float(f"{max(abs(run_ours(afferent, program.path, s) - program(s)) for s in compared):.1e}")
        for name, program in (("portable", portable), ("xnnpack", xnnpack))}
    return quality


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--afferent", default="cargo run --release -q -p afferent --")
    arguments = parser.parse_args()
    with open(os.path.join(PACKAGE, "model.yaml")) as file:
        content = yaml.safe_load(file)
    content["quality"] = measure(arguments.items, shlex.split(arguments.afferent), content["decision"]["threshold"])
    write_card(PACKAGE, content)
    for name, row in content["quality"].items():
        print(f"turn: {name}: {row}", flush=True)
