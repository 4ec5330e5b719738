"""Measures the shipped turn detector on voices, sentences and noises that training never heard; fills model.yaml."""
import argparse
import os
import shlex
import subprocess
import tempfile
import time

import numpy as np
import pauses
import yaml
from paths import PACKAGE, ROOT
from pauses import WINDOW
from train import area

import sounds
from cards import write_card
from speech import ACTIVE_LEVEL, RATE

SEED = 90501
SILENCE = 200 * RATE // 1000
LEVEL_DB = (-12, 6)
CONDITIONS = {"clean": None, "15dB": 15}
COMPARED = 20
MEASURED_ON = (
    "Synthetic speech of 12 voice variants in 2 accents, sentences and noises, none of them in training; half of the items end a sentence, "
    "half pause in it: with a comma's intonation, cut between two words, or with a filler, most of which training never heard. Noise is white, "
    "pink, a machine or rain. accuracy, false_cuts (pauses taken for ends) and missed_ends are at the threshold of the decision.")


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


def items(count):
    """(sound, whether it is an end, kind) of test items, clean, and the same in noise."""
    pauses.use_voices("test")
    rng, recipes = np.random.default_rng(SEED), list(sounds.TEST_NOISES.values())
    made = {name: [] for name in CONDITIONS}
    for _ in range(count):
        item = pauses.draw(rng, "test")
        clean = item.sound[SILENCE:SILENCE + WINDOW]
        noise = recipes[rng.integers(len(recipes))](rng, WINDOW)
        gain = 10 ** (rng.uniform(*LEVEL_DB) / 20)
        for name, snr_db in CONDITIONS.items():
            sound = clean if snr_db is None else clean + noise * ACTIVE_LEVEL * 10 ** (-snr_db / 20)
            made[name].append(((sound * gain).astype(np.float32), item.ends, item.kind))
    return made


def ours(afferent, path, sound):
    """The answer of our runtime."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(os.path.join(folder, "sound.npy"), sound[None])
        subprocess.run([*afferent, "model", "run", path, "--input", os.path.join(folder, "sound.npy"), "--output-dir", folder],
                       check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        return float(np.load(os.path.join(folder, "output_0.npy")).reshape(-1)[0])


def figures(found, rows, threshold):
    ends, kinds = np.array([ends for _, ends, _ in rows]), np.array([kind for _, _, kind in rows])
    said = found >= threshold
    wrong = {f"wrong_of_{kind}": round(float((said != ends)[kinds == kind].mean()), 4) for kind in ("end", *pauses.PAUSES)}
    return {"items": len(rows), "area_under_roc": round(float(area(found, ends.astype(float))), 4),
            "accuracy": round(float((said == ends).mean()), 4), "false_cuts": round(float(said[~ends].mean()), 4),
            "missed_ends": round(float((~said)[ends].mean()), 4), **wrong}


def measure(count, afferent, threshold):
    made, portable, xnnpack = items(count), Program("portable"), Program("xnnpack")
    quality = {"measured_with": "tools/zoo/turn/evaluate.py", "measured_on": MEASURED_ON}
    start = time.perf_counter()
    for name, rows in made.items():
        quality[name] = figures(np.array([xnnpack(sound) for sound, _, _ in rows]), rows, threshold)
    quality["call_ms_official_xnnpack"] = round((time.perf_counter() - start) * 1000 / (2 * count), 2)
    some = [sound for sound, _, _ in made["15dB"][:COMPARED]]
    quality["xnnpack_portable_difference"] = float(f"{max(abs(portable(s) - xnnpack(s)) for s in some):.1e}")
    quality["difference_from_official_runtime"] = {
        name: float(f"{max(abs(ours(afferent, program.path, s) - program(s)) for s in some):.1e}")
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
