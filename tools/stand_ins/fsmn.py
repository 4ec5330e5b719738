"""Exports a detector with the contract of the FSMN of react-native-executorch, which takes loud windows
for speech: its output follows from the input.

    python fsmn.py DIR      # nodes/speech/tests/data/fsmn

Writes `fsmn.pte` and `cases.json`: for the sounds of `sound`, the mean of 1 - p0 over the last five
windows of each second. Needs torch and executorch.
"""
import json
import os
import sys

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export


class Detector(nn.Module):
    """[windows, 512] -> [1, windows, 3]: silence, and two classes of speech, by the mean square."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(2, 3)
        self.out.weight.data = torch.tensor([[-4000.0, 0.0], [4000.0, -100.0], [0.0, 100.0]])
        self.out.bias.data = torch.tensor([1.0, 0.0, -1.0])

    def forward(self, windows):
        features = torch.stack([(windows * windows).mean(1), windows.mean(1)], 1)
        return self.out(features).softmax(-1)[None]


def windows(samples):
    """The input that the host makes: [n, 512]."""
    x = samples.unfold(0, 400, 160)
    x = x - x.mean(1, keepdim=True)
    x = torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1) * torch.hann_window(400)
    return nn.functional.pad(x, (56, 56))


def sound(level):
    """Two seconds of a tone whose level goes up and down."""
    t = torch.arange(32000, dtype=torch.float64) / 16000
    return (torch.sin(2 * torch.pi * 700 * t) * level * torch.sin(2 * torch.pi * 0.7 * t) + 0.05).float()


def main(folder):
    os.makedirs(folder, exist_ok=True)
    model, count = Detector().eval(), Dim("count", min=100, max=1000)
    program = export(model, (torch.randn(120, 512),), dynamic_shapes=({0: count},), strict=False)
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    with open(os.path.join(folder, "fsmn.pte"), "wb") as file:
        lowered.to_executorch().write_to_file(file)
    cases = []
    for level in (0.0, 0.05, 0.1, 0.2, 0.5):
        samples = torch.cat([torch.zeros(95 * 160 + 240), sound(level)])
        found = [round(float(1 - model(windows(samples[at:at + 99 * 160 + 400]))[0, -5:, 0].mean()), 5)
                 for at in range(0, 32000, 800)]
        cases.append({"level": level, "speech": found})
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
