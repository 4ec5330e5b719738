"""Exports transducers with the contracts of ExecuTorch's Parakeet (TDT, and RNN-T with one output of
`joint`) whose words can be told in advance: a tone of 40 * n Hz is the piece FIRST + n of the tokenizer.

    python parakeet.py DIR      # nodes/speech/tests/data/parakeet

Writes `tdt.pte`, `rnnt.pte`, and `cases.json`: tones, and the tokens with their rows that the greedy loop
of the reference runner finds with the same modules in PyTorch. Needs torch and executorch.
"""
import json
import os
import sys

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export

BANDS, FIRST, BLANK, LAYERS, HIDDEN, LEVEL = 128, 260, 420, 2, 16, 0.25
DURATIONS = [0, 1, 2, 3, 4]


class Preprocessor(nn.Module):
    """Magnitudes of the first 128 bins of 400 samples, every 160 samples."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))

    def forward(self, audio, length):
        x = nn.functional.pad(audio, (200, 200)).unfold(0, 400, 160) * self.window
        power = torch.view_as_real(torch.fft.rfft(x))[:, :BANDS].pow(2).sum(-1)
        return power.t().unsqueeze(0), length // 160 + 1


class Encoder(nn.Module):
    """Shares of the bands in the power of eight columns; zero if they are silent."""

    def forward(self, audio_signal, length):
        power = nn.functional.avg_pool1d(nn.functional.pad(audio_signal, (0, 7)), 8)
        return (power / (power.sum(1, keepdim=True) + 1.0)).transpose(1, 2), (length - 1) // 8 + 1


class Predictor(nn.Module):
    """One for the band of the last token. The state counts the tokens."""

    def forward(self, token, h, c):
        last = nn.functional.one_hot((token[:, 0] - FIRST).clamp(0, BANDS - 1), BANDS).float()
        is_token = (token < BLANK).float()
        return (last * is_token).unsqueeze(1), h + 1, c + h


class Joint(nn.Module):
    """The strongest band that is not that of the last token, if it has a quarter of the power."""

    def __init__(self, durations):
        super().__init__()
        self.durations = durations

    def forward(self, f, g):
        scores = torch.cat([(f - 2 * g)[0, 0], torch.full((1,), LEVEL)])
        best = scores.argmax()
        token = torch.where(best < BANDS, best + FIRST, torch.tensor(BLANK))
        if not self.durations:
            return token
        # Tokens of odd bands stay at their row.
        return token, torch.where(best < BANDS, (best % 2 == 0).long() * 2, torch.tensor(1))


def greedy(parts, durations, audio):
    """Tokens and rows, as the transducer runner of ExecuTorch decodes."""
    mel, length = parts["preprocessor"](audio, torch.tensor([len(audio)]))
    rows, count = parts["encoder"](mel, length)
    h = c = torch.zeros(LAYERS, 1, HIDDEN)
    g, h, c = parts["decoder_step"](torch.tensor([[BLANK]]), h, c)
    t, symbols, found = 0, 0, []
    while t < int(count):
        result = parts["joint"](rows[:, t:t + 1], g)
        token, duration = (result[0], DURATIONS[int(result[1])]) if durations else (result, 0)
        if int(token) == BLANK:
            t, symbols = t + max(duration, 1), 0
            continue
        found.append([int(token), t])
        g, h, c = parts["decoder_step"](token.view(1, 1), h, c)
        t += duration
        symbols = symbols + 1 if duration == 0 else 0
        if symbols >= 10:
            t, symbols = t + 1, 0
    return found


def tones(parts):
    """Audio of (band, milliseconds); band 0 is silence."""
    sounds = [np.sin(2 * np.pi * 40 * band * np.arange(16 * ms) / 16000) * (0.3 if band else 0) for band, ms in parts]
    return torch.tensor(np.concatenate(sounds), dtype=torch.float32)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    state = torch.zeros(LAYERS, 1, HIDDEN)
    cases = [[[0, 300], [20, 240], [0, 200], [31, 240], [57, 160], [0, 400]],
             [[18, 320], [33, 320], [0, 100], [18, 320], [0, 700], [45, 400], [0, 80]],
             [[0, 900]], [[22, 90]]]
    rng = np.random.default_rng(3)
    cases += [[[int(rng.integers(0, 2)) * int(rng.integers(6, 120)), int(rng.integers(40, 500))] for _ in range(12)]
              for _ in range(6)]
    results = []
    for name, durations in (("tdt", True), ("rnnt", False)):
        parts = {"preprocessor": Preprocessor(), "encoder": Encoder(), "decoder_step": Predictor(),
                 "joint": Joint(durations)}
        for number, case in enumerate(cases):
            if name == "tdt":
                results.append({"tones": case})
            results[number][name] = greedy(parts, durations, tones(case))
        samples, columns = Dim("samples", min=1600, max=480000), Dim("columns", min=10, max=3001)
        programs = {
            "preprocessor": export(parts["preprocessor"].eval(), (torch.randn(16000), torch.tensor([16000])),
                                   dynamic_shapes=({0: samples}, {}), strict=False),
            "encoder": export(parts["encoder"], (torch.randn(1, BANDS, 1000), torch.tensor([1000])),
                              dynamic_shapes=({2: columns}, {}), strict=False),
            "decoder_step": export(parts["decoder_step"], (torch.tensor([[BLANK]]), state, state), strict=False),
            "joint": export(parts["joint"], (torch.randn(1, 1, BANDS), torch.randn(1, 1, BANDS)), strict=False)}
        lowered = to_edge_transform_and_lower(
            programs, partitioner={name: [XnnpackPartitioner()] if name == "joint" else [] for name in programs},
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
            constant_methods={"num_rnn_layers": LAYERS, "pred_hidden": HIDDEN, "joint_hidden": BANDS,
                              "vocab_size": BLANK, "blank_id": BLANK, "sample_rate": 16000, "window_stride": 0.01,
                              "encoder_subsampling_factor": 8})
        with open(os.path.join(folder, f"{name}.pte"), "wb") as file:
            lowered.to_executorch().write_to_file(file)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in results) + "\n]\n")


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
