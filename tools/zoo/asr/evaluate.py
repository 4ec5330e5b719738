"""Measures the shipped package on sentences, templates, voices and noises that training never saw; fills model.yaml."""
import argparse
import json
import os
import shlex
import subprocess
import tempfile

import numpy as np
import sets
import torch
import yaml
from model import Streaming
from paths import PACKAGE, ROOT

from cards import write_card

VAD = os.path.join(ROOT, "pipelines", "models", "vad")
COMPARED = 40               # calls on our runtime and the official one
MEASURED_ON = (
    "Synthetic speech of 12 voice variants in 2 accents, noises and sentences, none of them in training; the sentences "
    "of the known sets come from templates of training, those of the new ones do not. Noise is white, pink, a machine or "
    "rain, babble is 6 talkers, at a signal-to-noise ratio over the active speech; room: a decay of 0.1 to 0.6 s. WER in "
    "percent of words. shown_ms: from the end of speech until a transcript has the last word as it stays; final_ms: "
    "until the final transcript, behind the package vad with its defaults; both with the time of the calls.")


def bench(command, *arguments):
    """The rows of `afferent-bench asr`, by set, for the package of this checkout whichever the binary is from."""
    run = subprocess.run([*command, "asr", "--model", PACKAGE, *arguments, "--json"], stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return {row["set"]: row for row in json.loads(run.stdout)[0]["rows"]}


def sound(listed, seconds):
    """Sound of a list's files one after the other."""
    import wave
    parts, count = [], 0
    with open(listed) as file:
        for line in file:
            with wave.open(os.path.join(os.path.dirname(listed), line.split("\t")[1])) as opened:
                parts.append(np.frombuffer(opened.readframes(opened.getnframes()), "<i2").astype(np.float32) / 32768)
            count += len(parts[-1])
            if count > seconds * 16000:
                return np.concatenate(parts)
    return np.concatenate(parts)


def differences(listed, afferent):
    """The largest difference between our runtime and the official one, for each variant, from the same states."""
    from executorch.runtime import Runtime
    x, state = Streaming.example()
    heard, found = sound(listed, 30), {}
    for variant in ("portable", "xnnpack"):
        path = os.path.join(PACKAGE, f"asr_{variant}.pte")
        method = Runtime.get().load_program(path).load_method("forward")
        state, worst = torch.zeros_like(state), 0.0
        for call in range(COMPARED):
            start = call * (x.shape[1] - 240)
            inputs = [torch.from_numpy(heard[start:start + x.shape[1]].copy())[None], state]
            official = [t.clone() for t in method.execute(inputs)]
            if call % 4 == 3:
                ours = run_ours(afferent, path, inputs)
                worst = max(worst, *(float(np.abs(a - b.numpy()).max()) for a, b in zip(ours, official)))
            state = official[1]
        found[variant] = float(f"{worst:.1e}")
    return found


def run_ours(afferent, path, inputs):
    with tempfile.TemporaryDirectory() as folder:
        named = []
        for i, tensor in enumerate(inputs):
            named += ["--input", os.path.join(folder, f"in{i}.npy")]
            np.save(named[-1], tensor.numpy())
        subprocess.run([*afferent, "model", "run", path, *named, "--output-dir", folder], check=True,
                       stdout=subprocess.DEVNULL, cwd=ROOT)
        return [np.load(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if not name.startswith("in")]


def figures(row, *names):
    return {name.lower().replace(" %", "_percent").replace(" ", "_"): row[name] for name in names}


def measure(items, command, afferent):
    listed = sets.build("test", items)
    decoded = bench(command, listed)
    greedy = bench(command, listed, "--set", "lexicon=false")
    behind_vad = bench(command, listed, "--vad", VAD)
    quality = {"measured_on": MEASURED_ON}
    for name in sets.SETS:
        quality[name] = {
            **figures(decoded[name], "items", "words", "WER %", "sentences wrong %", "shown ms p50", "shown ms p95"),
            "greedy_wer_percent": greedy[name]["WER %"],
            "behind_vad": figures(behind_vad[name], "WER %", "final ms p50", "final ms p95"),
            "real_time_factor": decoded[name]["real time"],
        }
    quality["difference_from_official_runtime"] = differences(listed, afferent)
    return quality


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000, help="of each set")
    parser.add_argument("--bench", default="cargo run --release -q -p afferent-bench --")
    parser.add_argument("--afferent", default="cargo run --release -q -p afferent --")
    arguments = parser.parse_args()
    with open(os.path.join(PACKAGE, "model.yaml")) as opened:
        content = yaml.safe_load(opened)
    content["quality"] = measure(arguments.items, shlex.split(arguments.bench), shlex.split(arguments.afferent))
    write_card(PACKAGE, content)
    for set_name, row in content["quality"].items():
        print(set_name, row)
