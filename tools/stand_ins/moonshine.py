"""Exports programs with the contract of react-native-executorch's Moonshine whose text can be told in
advance: each tone at 250 + 50 n Hz is the piece FIRST + n of the tokenizer.

    python moonshine.py DIR      # nodes/speech/tests/data/moonshine

Writes `moonshine_tiny_encoder.pte`, `moonshine_tiny_decoder.pte`, and `cases.json`: tones, and the tokens by
the loop of the source with the modules in PyTorch. Needs torch and executorch.
"""
import json
import math
import os
import sys

import numpy as np
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export

TONES, FIRST, START, END, FRAME, MAX_SAMPLES, MAX_TOKENS = 40, 260, 1, 2, 1280, 24 * 16000, 128


class Encoder(nn.Module):
    """A row for 80 ms: one for the loudest tone, if there is one."""

    def forward(self, sound):
        hz = 250 + 50 * torch.arange(TONES)[:, None]
        phase = hz * torch.arange(FRAME)[None] * (2 * math.pi / 16000)
        waves = torch.cat([torch.cos(phase), torch.sin(phase)])[:, None]
        parts = nn.functional.conv1d(sound[:, None], waves, stride=FRAME)[0] / FRAME
        power = (parts[:TONES] * parts[:TONES] + parts[TONES:] * parts[TONES:]).T
        loud = (power.amax(1, keepdim=True) > 0.005).float()
        return (nn.functional.one_hot(power.argmax(1), TONES).float() * loud)[None]


class Decoder(nn.Module):
    """The next token after each token: the piece of the next tone, then the end."""

    def forward(self, tokens, rows):
        began = torch.relu(rows[0] - torch.cat([torch.zeros(1, TONES), rows[0, :-1]]))
        begins = began.sum(1)
        number = begins.cumsum(0)
        at = torch.arange(1, tokens.size(1) + 1)[:, None]
        piece = torch.relu(1 - (number[None] - at).abs()) * begins @ began
        said = piece @ torch.arange(TONES).float() + FIRST
        return torch.where(piece.sum(1) > 0.5, said, END).round().long()[None]


def tones(parts):
    """Audio of (Hz, milliseconds)."""
    sounds = [np.sin(2 * np.pi * hz * np.arange(16 * ms) / 16000) * (0.3 if hz else 0) for hz, ms in parts]
    return torch.tensor(np.concatenate(sounds), dtype=torch.float32)


def tokens_of(encoder, decoder, audio):
    rows, tokens = encoder(audio[None]), [START]
    while tokens[-1] != END:
        tokens.append(int(decoder(torch.tensor([tokens]), rows)[0, -1]))
    return tokens[1:-1]


def write(program, method, path):
    lowered = to_edge_transform_and_lower({method: program},
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    encoder, decoder = Encoder(), Decoder()
    rng = np.random.default_rng(11)
    sounds = [[[0, 320], [450, 320], [0, 240], [900, 480], [1500, 240], [0, 240]], [[0, 960]]]
    sounds += [[[int(rng.integers(0, 3) > 0) * (250 + 50 * int(rng.integers(0, TONES))),
                 80 * int(rng.integers(2, 7))] for _ in range(12)] for _ in range(4)]
    cases = [{"tones": sound, "tokens": tokens_of(encoder, decoder, tones(sound))} for sound in sounds]
    samples, count = Dim("samples", min=3 * FRAME, max=MAX_SAMPLES), Dim("count", min=1, max=MAX_TOKENS)
    rows = Dim("rows", min=3, max=MAX_SAMPLES // FRAME)
    write(export(encoder, (torch.zeros(1, 5 * FRAME),), dynamic_shapes=({1: samples},), strict=False), "forward",
          os.path.join(folder, "moonshine_tiny_encoder.pte"))
    write(export(decoder, (torch.tensor([[1, 2, 3]]), torch.zeros(1, 5, TONES)),
                 dynamic_shapes=({1: count}, {1: rows}), strict=False), "forward_cached",
          os.path.join(folder, "moonshine_tiny_decoder.pte"))
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    print(*cases, sep="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        main(sys.argv[1])
