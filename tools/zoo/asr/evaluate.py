"""Measures the shipped package on held-out sentences, templates, voices and noises, and updates
model.yaml.
"""
import argparse
import json
import os
import shlex
import subprocess
import tempfile

import eval_sets
import numpy as np
import torch
import yaml
from model import StreamingRecognizer
from paths import PACKAGE, ROOT

from cards import is_available, write_card

VAD = os.path.join(ROOT, "pipelines", "models", "vad")
# Calls that are compared with the official runtime: every fourth of this many.
COMPARED_CALLS, COMPARE_EVERY = 40, 4
COMPARED_SECONDS = 30
MEASURED_ON = (
    "Synthetic speech: 12 voice variants in 2 accents, noises and sentences, all held out from training; the "
    "sentences of the known sets are from templates of training, those of the new sets are not. Noise is "
    "white, pink, a machine or rain, babble is 6 talkers, at a signal-to-noise ratio over the active speech; "
    "room: a decay of 0.1 to 0.6 s. WER in percent. shown_ms: from the end of speech until a transcript has "
    "the last word in its final form; final_ms: until the final transcript, with the package vad and its "
    "defaults; both include the time of the calls.")


def run_bench(command, *arguments):
    """Returns the rows of `afferent-bench asr` by set, for the package of this checkout."""
    command = [*command, "asr", "--model", PACKAGE, *arguments, "--json"]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return {row["set"]: row for row in json.loads(run.stdout)[0]["rows"]}


def read_sound(list_file, seconds):
    """Returns the sounds of a list, concatenated."""
    import wave
    parts, count = [], 0
    with open(list_file) as file:
        for line in file:
            with wave.open(os.path.join(os.path.dirname(list_file), line.split("\t")[1])) as wav:
                parts.append(np.frombuffer(wav.readframes(wav.getnframes()), "<i2").astype(np.float32) / 32768)
            count += len(parts[-1])
            if count > seconds * 16000:
                return np.concatenate(parts)
    return np.concatenate(parts)


def runtime_differences(list_file, afferent):
    """Returns the largest difference of our runtime from the official one for each variant that
    exists, from the same states.
    """
    from executorch.runtime import Runtime
    x, state = StreamingRecognizer.example_inputs()
    sound, differences = read_sound(list_file, COMPARED_SECONDS), {}
    for variant in ("portable", "xnnpack"):
        path = os.path.join(PACKAGE, f"asr_{variant}.pte")
        if not is_available(PACKAGE, os.path.basename(path), "comparison with the official runtime"):
            continue
        method = Runtime.get().load_program(path).load_method("forward")
        state, worst = torch.zeros_like(state), 0.0
        for call in range(COMPARED_CALLS):
            start = call * (x.shape[1] - 240)
            inputs = [torch.from_numpy(sound[start:start + x.shape[1]].copy())[None], state]
            official = [t.clone() for t in method.execute(inputs)]
            if call % COMPARE_EVERY == COMPARE_EVERY - 1:
                ours = run_ours(afferent, path, inputs)
                worst = max(worst, *(float(np.abs(a - b.numpy()).max()) for a, b in zip(ours, official)))
            state = official[1]
        differences[variant] = float(f"{worst:.1e}")
    return differences


def run_ours(afferent, path, inputs):
    """Returns the outputs of a program on our runtime."""
    with tempfile.TemporaryDirectory() as folder:
        options = []
        for i, tensor in enumerate(inputs):
            options += ["--input", os.path.join(folder, f"in{i}.npy")]
            np.save(options[-1], tensor.numpy())
        subprocess.run([*afferent, "model", "run", path, *options, "--output-dir", folder], check=True,
                       stdout=subprocess.DEVNULL, cwd=ROOT)
        return [np.load(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if not name.startswith("in")]


def select(row, *columns):
    return {name.lower().replace(" %", "_percent").replace(" ", "_"): row[name] for name in columns}


def measure(items, command, afferent):
    list_file = eval_sets.build("test", items)
    decoded = run_bench(command, list_file)
    greedy = run_bench(command, list_file, "--set", "lexicon=false")
    with_vad = run_bench(command, list_file, "--vad", VAD)
    quality = {"measured_on": MEASURED_ON}
    for name in eval_sets.SETS:
        quality[name] = {
            **select(decoded[name], "items", "words", "WER %", "sentences wrong %", "shown ms p50", "shown ms p95"),
            "greedy_wer_percent": greedy[name]["WER %"],
            "with_vad": select(with_vad[name], "WER %", "final ms p50", "final ms p95"),
            "real_time_factor": decoded[name]["real time"],
        }
    quality["difference_from_official_runtime"] = runtime_differences(list_file, afferent)
    return quality


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000, help="items of each set")
    parser.add_argument("--bench", default="cargo run --release -q -p afferent-bench --")
    parser.add_argument("--afferent", default="cargo run --release -q -p afferent --")
    arguments = parser.parse_args()
    with open(os.path.join(PACKAGE, "model.yaml")) as file:
        content = yaml.safe_load(file)
    content["quality"] = measure(arguments.items, shlex.split(arguments.bench), shlex.split(arguments.afferent))
    write_card(PACKAGE, content)
    for set_name, row in content["quality"].items():
        print(set_name, row)
