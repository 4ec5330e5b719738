"""Exports small programs with the contract of Kokoro of react-native-executorch, with the methods
`forward_8` to `forward_128` of 0.7 and with the one `forward` of 0.10, whose outputs follow from the
inputs: each symbol lasts some frames and sounds with its own tone, punctuation and padding are silent.

    python kokoro.py DIR      # nodes/speech/tests/data/kokoro

Writes the programs, two voices, and `cases.json`: for phonemes, samples of the audio and the frames of
the symbols by the plain loop below. Needs torch, executorch and numpy.
"""
import json
import math
import os
import sys
from fractions import Fraction

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export

SYMBOLS, WIDTH, FRAME, FRAMES_MIN, FRAMES_MAX, ROWS = 178, 640, 600, 16, 296, 40
# Ids of the symbols of the cases, from the vocabulary of the public model.
IDS = {";": 1, ":": 2, ",": 3, ".": 4, "!": 5, "?": 6, " ": 16, "A": 24, "I": 25, "O": 31, "W": 39, "b": 44,
       "d": 46, "f": 48, "h": 50, "i": 51, "k": 53, "l": 54, "m": 55, "n": 56, "p": 58, "s": 61, "t": 62, "w": 65,
       "z": 68, "ð": 81, "ə": 83, "ɛ": 86, "ɜ": 87, "ɪ": 102, "ŋ": 112, "ɹ": 123, "ʌ": 138, "ˈ": 156}
SILENT = {0, 1, 2, 3, 4, 5, 6, 16}
# Milliseconds after a part that ends with the symbol.
PAUSES = {".": 375, "?": 500, "!": 250, ";": 400, ",": 130, ":": 250}


class DurationPredictor(nn.Module):
    """Frames of each symbol by its number and the mean of the voice, and features."""

    def __init__(self):
        super().__init__()
        self.frames, self.features = nn.Embedding(SYMBOLS, 1), nn.Embedding(SYMBOLS, 4)
        self.frames.weight.data = (torch.arange(SYMBOLS) % 4 + 1.0).view(-1, 1)
        at = torch.arange(SYMBOLS * 4).view(SYMBOLS, 4)
        self.features.weight.data = torch.sin(at * 0.7 + 0.2)
        self.features.weight.data[list(SILENT)] = 0
        self.wide = nn.Linear(4, WIDTH, bias=False)
        self.wide.weight.data = torch.cos(torch.arange(WIDTH * 4) * 0.3).view(WIDTH, 4)

    def forward(self, tokens, mask, voice, speed):
        frames = (self.frames(tokens)[0, :, 0] * mask[0].float() + voice.mean()) / speed
        return frames.floor().to(torch.int64), self.wide(self.features(tokens))


class Synthesizer(nn.Module):
    def __init__(self):
        super().__init__()
        at = torch.arange(FRAME, dtype=torch.float64)
        self.waves = nn.Linear(8, FRAME, bias=False)
        self.waves.weight.data = torch.stack([
            torch.sin(2 * math.pi * 5 * k * at / FRAME) / 20 for k in range(1, 9)], 1).float().contiguous()

    def forward(self, tokens, mask, indices, features, voice):
        rows = (features * mask[:, :, None].float() * voice[:, None, :1]).index_select(1, indices)
        return self.waves(rows[:, :, :8]).reshape(1, 1, -1)


def scale(frames, target):
    """Frames with the sum `target`: shares rounded, then corrected where the error is greatest."""
    total, shrinks = sum(frames), target < sum(frames)
    shares = [Fraction(count * target, total) for count in frames]
    rounded = [math.ceil(share) if shrinks else math.floor(share) for share in shares]
    errors = sorted(range(len(frames)), key=lambda at: (-abs(rounded[at] - shares[at]), at))
    for at in errors[:abs(target - sum(rounded))]:
        rounded[at] += -1 if shrinks else 1
    return rounded


def strip(samples, margin):
    """First and last sample to keep: where ten samples are loud on average, with a margin."""
    loud = np.maximum(0, np.abs(samples.astype(np.float64)) - 0.005)
    sums = np.convolve(loud, np.ones(10), "valid") / 10
    hits = np.nonzero(sums >= 0.005)[0]
    if len(hits) == 0:
        return 0, 0
    return max(0, hits[0] + 9 - margin), min(len(samples), hits[-1] + margin + 1)


def synthesize(models, phonemes, voice, speed):
    """Audio of one part without the pause, first kept sample, and frames of the symbols."""
    count = len(phonemes) + 2
    tokens = torch.zeros(1, max(count, 8), dtype=torch.int64)
    tokens[0, 1:count - 1] = torch.tensor([IDS[symbol] for symbol in phonemes])
    mask = torch.arange(tokens.shape[1])[None] < count
    row = voice[min(len(phonemes) - 1, len(voice) - 1)][None]
    frames, features = models[0](tokens, mask, row[:, 128:], torch.tensor([speed]))
    frames = frames.tolist()
    total = min(max(sum(frames), FRAMES_MIN), FRAMES_MAX)
    frames = scale(frames, total) if total != sum(frames) else frames
    indices = torch.repeat_interleave(torch.arange(len(frames)), torch.tensor(frames))
    samples = models[1](tokens, mask, indices, features, row)[0, 0].numpy()
    last = count - 1 if phonemes[-1].isalpha() else count - 2
    samples = samples[:FRAME * sum(frames[:last])]
    first, end = strip(samples, 1200)
    return samples[first:end], first, frames


def voices(folder):
    found = {}
    for number, name in enumerate(("af_one", "bm_two")):
        rows = np.zeros((ROWS, 256), np.float32)
        rows[:, 0] = 0.5 + np.arange(ROWS) / ROWS / (number + 1)
        rows[:, 128:] = number + (np.arange(ROWS)[:, None] % 3) / 8
        rows.astype("<f4").tofile(os.path.join(folder, f"{name}.bin"))
        found[name] = torch.tensor(rows)
    return found


def lower(programs, path):
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()],
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


def inputs(count, tokens, frames):
    """Example inputs and dynamic shapes of both methods for up to `count` symbols."""
    ids, mask = torch.zeros(1, count, dtype=torch.int64), torch.ones(1, count, dtype=torch.bool)
    row, some = torch.ones(1, 256), torch.zeros(100, dtype=torch.int64)
    first = (ids, mask, row[:, :128], torch.ones(1))
    second = (ids, mask, some, torch.ones(1, count, WIDTH), row)
    at = {1: tokens} if tokens is not None else None
    return (first, (at, at, None, None)), (second, (at, at, {0: frames}, at, None))


WORDS = ["wˈʌn", "tˈɪn", "bˈɛd"]
# The fourth is a little too long for the model, so that it is said faster; the fifth is divided.
CASES = [
    {"text": "Hello, it is head.", "voice": "af_one", "parts": ["həlˈO, ɪt ɪz hˈɛd."]},
    {"text": "No!", "voice": "bm_two", "speed": 1.5, "parts": ["nˈO!"]},
    {"text": "One bed? Tin bed.", "voice": "af_one", "parts": ["wˈʌn bˈɛd?", "tˈɪn bˈɛd."]},
    {"text": "One tin bed " * 7 + "one tin bed.", "voice": "bm_two", "parts": [" ".join(WORDS * 8) + "."]},
    {"text": "One tin bed " * 7 + "one tin bed.", "voice": "bm_two", "speed": 0.8,
     "parts": [" ".join(WORDS * 4), " ".join(WORDS * 4) + "."]},
]


def write_cases(folder, models):
    rows, cases = voices(folder), []
    for case in CASES:
        parts = []
        for phonemes in case["parts"]:
            samples, first, frames = synthesize(models, phonemes, rows[case["voice"]], case.get("speed", 1.0))
            parts.append({"phonemes": phonemes, "len": len(samples), "first": int(first), "frames": frames,
                          "pause_ms": PAUSES.get(phonemes[-1], 0),
                          "every_97": [round(float(x), 5) for x in samples[::97]]})
        cases.append({**case, "parts": parts})
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n")


def main(folder):
    for form in ("one", "several"):
        os.makedirs(os.path.join(folder, form), exist_ok=True)
    models = (DurationPredictor().eval(), Synthesizer().eval())
    write_cases(folder, models)
    frames, names = Dim("frames", min=FRAMES_MIN, max=FRAMES_MAX), ("duration_predictor", "synthesizer")
    for at, (name, model) in enumerate(zip(names, models)):
        example, shapes = inputs(60, Dim("tokens", min=8, max=128), frames)[at]
        lower(export(model, example, dynamic_shapes=shapes, strict=False),
              os.path.join(folder, "one", f"{name}_xnnpack_fp32.pte"))
        programs = {}
        for most in (8, 32, 64, 128):
            tokens = None if most == 8 else Dim(f"tokens_{most}", min=8, max=most)
            example, shapes = inputs(most, tokens, frames)[at]
            programs[f"forward_{most}"] = export(model, example, dynamic_shapes=shapes, strict=False)
        lower(programs, os.path.join(folder, "several", f"{name}.pte"))
        print(name, flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
