"""Exports small programs with the contract of Supertonic, in the form of ExecuTorch 1.5.1 and in that of
react-native-executorch 0.10, whose outputs follow from the inputs: seconds of the letters, columns that
move from noise to the mean of the text, tones with the values of the columns.

    python supertonic.py DIR      # nodes/speech/tests/data/supertonic

Writes the programs, `unicode_indexer.json`, two voices, and `cases.json`: for texts in parts, samples of
the audio by the plain loop below, with the cleaned text of ExecuTorch's example. Needs torch, executorch
and numpy.
"""
import json
import math
import os
import sys

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.examples.models.supertonic.preprocessing import preprocess_text
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export

LETTERS, CHANNELS, WIDTH, GROUPS, SAMPLES = 160, 144, 256, 6, 512
RATE, TEXT_MAX, LATENT_MAX = 44100, 300, 200


def table(rows, columns, seed):
    """Values of a fixed pattern."""
    at = torch.arange(rows * columns, dtype=torch.float64).view(rows, columns)
    return torch.sin(at * 0.37 + seed).float()


class DurationPredictor(nn.Module):
    """Each letter lasts a few 1/64 s, times the first value of the style: exact in half precision."""

    def __init__(self):
        super().__init__()
        self.seconds = nn.Embedding(LETTERS, 1)
        self.seconds.weight.data = ((torch.arange(LETTERS) % 5 + 3) / 64).view(-1, 1)

    def forward(self, ids, style, mask):
        return (self.seconds(ids)[:, :, 0] * mask[:, 0]).sum(1) * style[:, 0, 0]


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.out = nn.Embedding(LETTERS, 4), nn.Linear(4, WIDTH, bias=False)
        self.letters.weight.data, self.out.weight.data = table(LETTERS, 4, 0.1), table(WIDTH, 4, 0.5)

    def forward(self, ids, style, mask):
        return (self.out(self.letters(ids)) + style.mean(1, keepdim=True)).transpose(1, 2) * mask


class VectorEstimator(nn.Module):
    """Moves each column towards the mean of the text, more in even channels."""

    def __init__(self):
        super().__init__()
        self.register_buffer("share", torch.tensor([1.0, 0.5]).repeat(CHANNELS // 2).view(1, CHANNELS, 1))

    def forward(self, latent, text, style, latent_mask, text_mask, step, steps):
        mean = text.sum(2, keepdim=True)[:, :CHANNELS] / text_mask.sum(2, keepdim=True)
        target = mean + style[:, :1, :1] * (step / steps).view(1, 1, 1)
        return (latent + (target - latent) * self.share / steps.view(1, 1, 1)) * latent_mask


class OtherOrder(nn.Module):
    """The estimator with the masks in the order of react-native-executorch."""

    def __init__(self):
        super().__init__()
        self.inner = VectorEstimator()

    def forward(self, latent, text, style, text_mask, latent_mask, step, steps):
        return self.inner(latent, text, style, latent_mask, text_mask, step, steps)


class Vocoder(nn.Module):
    """Six tones of 512 samples for each column: channel 6 d + g is the level of tone d in part g."""

    def __init__(self):
        super().__init__()
        tones, at = torch.arange(1, 25, dtype=torch.float64), torch.arange(SAMPLES, dtype=torch.float64)
        waves = torch.sin(2 * math.pi * tones[:, None] * at / SAMPLES) / 96
        self.waves = nn.Linear(24, SAMPLES, bias=False)
        self.waves.weight.data = waves.T.float().contiguous()

    def forward(self, latent):
        levels = latent.view(1, 24, GROUPS, -1).permute(0, 3, 2, 1)
        return self.waves(levels).reshape(1, -1)


def noise(seed, count):
    """Box-Muller over SplitMix64."""
    state, found, wrap = seed, [], (1 << 64) - 1

    def number():
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & wrap
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & wrap
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & wrap
        return (z ^ (z >> 31)) >> 11

    while len(found) < count:
        radius = math.sqrt(-2 * math.log((number() + 1) / (1 << 53)))
        angle = 2 * math.pi * number() / (1 << 53)
        found += [radius * math.cos(angle), radius * math.sin(angle)]
    return torch.tensor(found[:count], dtype=torch.float64).float()


def synthesize(models, dtype, text, ids_of, voice, seed, steps, pace):
    """Samples of one part, its text cleaned and with the marks of the language."""
    ids = torch.tensor([[ids_of(ord(letter)) for letter in text]])
    mask, dp, ttl = torch.ones(1, 1, ids.shape[1]), voice["style_dp"], voice["style_ttl"]
    mask, dp, ttl = (torch.as_tensor(one).to(dtype) for one in (mask, dp, ttl))
    seconds = float(models[0](ids, dp, mask)) / pace
    columns = max(1, math.ceil(seconds * RATE / (GROUPS * SAMPLES)))
    assert columns <= LATENT_MAX
    rows = models[1](ids, ttl, mask)
    latent = noise(seed, CHANNELS * columns).view(1, CHANNELS, columns).to(dtype)
    latent_mask, total = torch.ones(1, 1, columns, dtype=dtype), torch.tensor([float(steps)], dtype=dtype)
    for step in range(steps):
        now = torch.tensor([float(step)], dtype=dtype)
        latent = models[2](latent, rows, ttl, latent_mask, mask, now, total)
    return models[3](latent)[0].float()


def voices(folder):
    """Writes two voices of few digits, and returns them."""
    found = {}
    for number, name in enumerate(("F1", "M1")):
        dp = np.zeros((1, 8, 16))
        dp[0, 0, 0] = [1.0, 1.5][number]
        ttl = ((np.arange(50 * 256) * (7 + 4 * number)) % 19 - 9).reshape(1, 50, 256) / 10
        style = {"style_ttl": {"dims": [1, 50, 256], "data": ttl.tolist()},
                 "style_dp": {"dims": [1, 8, 16], "data": dp.tolist()}}
        with open(os.path.join(folder, f"{name}.json"), "w") as file:
            json.dump(style, file, separators=(",", ":"))
        found[name] = {"style_ttl": torch.tensor(ttl).float(), "style_dp": torch.tensor(dp).float()}
    return found


def inputs(dtype):
    """Example inputs and dynamic shapes of the four methods."""
    text, latent = (lambda: Dim("text", min=1, max=TEXT_MAX)), (lambda: Dim("latent", min=1, max=LATENT_MAX))
    ids, mask = torch.zeros(1, 20, dtype=torch.int64), torch.ones(1, 1, 20, dtype=dtype)
    dp, ttl = torch.ones(1, 8, 16, dtype=dtype), torch.ones(1, 50, 256, dtype=dtype)
    # Inputs that are the same tensor would become one.
    columns, one = torch.ones(1, CHANNELS, 30, dtype=dtype), torch.ones(1, dtype=dtype)
    t, tt, l, lv = text(), text(), latent(), latent()
    return [((ids, dp, mask), ({1: t}, None, {2: t})), ((ids, ttl, mask), ({1: t}, None, {2: t})),
            ((columns, torch.ones(1, WIDTH, 20, dtype=dtype), ttl, torch.ones(1, 1, 30, dtype=dtype), mask, one,
              one.clone()), ({2: l}, {2: tt}, None, {2: l}, {2: tt}, None, None)), ((columns,), ({2: lv},))]


def lower(programs, partitioner, constants, path):
    lowered = to_edge_transform_and_lower(
        programs, partitioner=partitioner, compile_config=EdgeCompileConfig(_check_ir_validity=False),
        constant_methods=constants)
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


CASES = [
    {"text": "Hello, it is half past nine.", "parts": ["Hello, it is half past nine."]},
    {"text": "The café — “closed”", "language": "fr", "seed": 7, "steps": 3, "voice": "M1",
     "parts": ["The café — “closed”"]},
    {"text": "One.  Two words! Three\nmore words?", "pace": 1.25, "parts": ["One.", "Two words!", "Three\nmore words?"]},
    # The text takes 240 letters, but only half of them fit the columns.
    {"text": "on and on " * 26 + "it goes.",
     "parts": ["on and on " * 12, "on and on " * 12, "on and on on and on it goes."]},
]


def main(folder):
    names = ["duration_predictor", "text_encoder", "vector_estimator", "vocoder"]
    rne, single = os.path.join(folder, "four"), os.path.join(folder, "one")
    for one in (folder, rne, single):
        os.makedirs(one, exist_ok=True)
    styles = voices(folder)
    indexer = [-1] * 0x302
    for number, code in enumerate(list(range(32, 127)) + [0x300, 0x301]):
        indexer[code] = number + 1
    indexer[ord("^")] = -1
    with open(os.path.join(folder, "unicode_indexer.json"), "w") as file:
        json.dump(indexer, file, separators=(",", ":"))
    cases, forms = [dict(case) for case in CASES], {}
    for form, dtype, steps in (("four", torch.float32, 8), ("one", torch.float16, 5)):
        models = [model().eval().to(dtype) for model in (DurationPredictor, TextEncoder, VectorEstimator, Vocoder)]
        forms[form] = models
        for case in cases:
            language = case.get("language", "en")
            found = []
            for part in case["parts"]:
                text = preprocess_text(part, language)
                samples = synthesize(models, dtype, text, lambda code: indexer[code],
                                     styles[case.get("voice", "F1")], case.get("seed", 0),
                                     case.get("steps", steps), case.get("pace", 1.0))
                found.append({"len": len(samples), "every_997": [round(float(x), 5) for x in samples[::997]]})
            case[form] = found
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    models = forms["four"][:2] + [OtherOrder().eval()] + forms["four"][3:]
    for name, model, (example, shapes) in zip(names, models, inputs(torch.float32)):
        if name == "vector_estimator":
            example, shapes = (tuple(x[i] for i in (0, 1, 2, 4, 3, 5, 6)) for x in (example, shapes))
        program = export(model, example, dynamic_shapes=shapes, strict=False)
        lower(program, [XnnpackPartitioner()], None, os.path.join(rne, f"{name}_xnnpack_fp32.pte"))
        print(name, flush=True)
    programs = {name: export(model, example, dynamic_shapes=shapes, strict=False)
                for name, model, (example, shapes) in zip(names, forms["one"], inputs(torch.float16))}
    lower(programs, {name: [] for name in names},
          {"get_sample_rate": RATE, "get_base_chunk_size": SAMPLES, "get_chunk_compress_factor": GROUPS,
           "get_flow_steps": 5, "get_text_vocabulary_size": LETTERS, "get_latent_dim": 24,
           "get_latent_channels": CHANNELS, "get_max_text_length": TEXT_MAX, "get_max_latent_length": LATENT_MAX,
           "get_batch_size": 1, "get_activation_dtype": "float16", "enable_dynamic_shape": True},
          os.path.join(single, "supertonic.pte"))


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
