"""Exports diarizers with the contract of ExecuTorch's Sortformer whose speakers can be told in advance:
a voice is a tone in one of four groups of mel bands, and speakers are numbered in the order of their first
row in the context, which is right only while the speaker cache holds that row.

    python sortformer.py DIR      # nodes/speech/tests/data/sortformer

Writes `sortformer.pte`, `no_preprocessor.pte` (without the method `preprocessor`), and `cases.json`: tones,
and the probabilities and turns of the streaming loop of the reference runner with the same modules in
PyTorch, over the features of the whole audio. The features are compared with those of transformers where
it is installed. Needs torch and executorch.
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

BANDS, GROUPS, WIDTH, CACHE, COLUMNS, LEVEL = 128, 4, 6, 188, 4000, -5.0
TONES_HZ = [400, 1200, 2600, 5600]


def mel_filters():
    """[BANDS, 257] triangles of unit area on the Slaney scale, 0 to 8 kHz."""
    step = np.log(6.4) / 27
    hz = lambda mel: np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(step * (mel - 15)))
    edges = hz(np.linspace(0, 15 + np.log(8) / step, BANDS + 2))
    bins, low, middle, high = np.arange(257) * 31.25, edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rise, fall = (bins - low) / (middle - low), (high - bins) / (high - middle)
    return torch.tensor(np.maximum(0, np.minimum(rise, fall)) * 2 / (high - low), dtype=torch.float32)


class Preprocessor(nn.Module):
    """Log-mel features of NeMo, without normalization: [n] -> [1, 128, n / 160 + 1]."""

    def __init__(self):
        super().__init__()
        window = nn.functional.pad(torch.hann_window(400, periodic=False), (56, 56))
        self.register_buffer("window", window)
        self.register_buffer("filters", mel_filters())

    def forward(self, audio, length):
        x = torch.cat([audio[:1], audio[1:] - 0.97 * audio[:-1]])
        x = nn.functional.pad(x, (256, 256)).unfold(0, 512, 160) * self.window
        power = torch.view_as_real(torch.fft.rfft(x)).pow(2).sum(-1)
        return torch.log(power @ self.filters.t() + 2.0**-24).t().unsqueeze(0), length // 160


class PreEncode(nn.Module):
    """Loudest band of each group, smoothed by three convolutions of width 3 and stride 2, in WIDTH axes."""

    def __init__(self, mixture):
        super().__init__()
        self.smooth = nn.Conv2d(1, 1, (3, 1), stride=(2, 1), padding=(1, 0), bias=False)
        self.smooth.weight.data = torch.tensor([0.25, 0.5, 0.25]).view(1, 1, 3, 1)
        self.register_buffer("mixture", mixture)

    def forward(self, chunk, chunk_len):
        x = chunk.view(1, 1, -1, GROUPS, BANDS // GROUPS).amax(-1)
        for _ in range(3):
            x, chunk_len = self.smooth(x), (chunk_len - 1) // 2 + 1
        return x[:, 0] @ self.mixture, chunk_len


class Encode(nn.Module):
    """Probability of each group, at the position of its first row; the mean of all rows shifts it a little."""

    def __init__(self, mixture):
        super().__init__()
        self.register_buffer("inverse", torch.linalg.pinv(mixture))
        self.register_buffer("ties", torch.arange(GROUPS) * 0.01)

    def forward(self, embs, emb_len):
        level = (embs @ self.inverse)[0]
        rows = torch.arange(level.shape[0]).float().unsqueeze(1)
        rows = torch.where(level > LEVEL, rows, torch.full_like(rows, 1e6))
        first = rows.amin(0) + self.ties
        rank = (first.unsqueeze(0) < first.unsqueeze(1)).float().sum(1)
        position = (rank.unsqueeze(1) == torch.arange(GROUPS).float()).float()
        probability = torch.sigmoid(level - LEVEL + 0.02 * level.mean(0))
        return (probability @ position).unsqueeze(0)


def rows_of(parts, audio):
    """Rows of the whole audio, as the runner computes those of its first 40 seconds."""
    mel, length = parts["preprocessor"](audio, torch.tensor([len(audio)]))
    columns = int(length)
    # Zeros after the end, as in the input of fixed size.
    padded = nn.functional.pad(mel.transpose(1, 2)[:, :columns], (0, 0, 0, 64))
    rows, count = parts["pre_encode"](padded, length)
    return rows[0, :int(count)]


def diarize(parts, rows, chunk, queue_len):
    """Probabilities of all rows, by the loop of the runner: cache, queue, chunk."""
    cache, queue, found = rows[:0], rows[:0], []
    for at in range(0, len(rows), chunk):
        new = rows[at:at + chunk]
        context = torch.cat([cache, queue, new])
        result = parts["encode"](context.unsqueeze(0), torch.tensor([len(context)]))[0]
        found.append(result[len(cache) + len(queue):])
        leaving = max(0, len(queue) + len(new) - queue_len)
        kept = len(cache) + leaving
        cache, scores, queue = context[:kept], result[:kept].amax(1), context[kept:]
        if kept > CACHE:
            best = torch.sort(scores, descending=True, stable=True).indices[:CACHE]
            cache = cache[best.sort().values]
    return torch.cat(found)


def turns(probabilities):
    """[speaker, first row, row after the last]."""
    found = []
    for speaker in range(GROUPS):
        start = None
        for row, value in enumerate(probabilities[:, speaker].tolist() + [0.0]):
            if value > 0.5 and start is None:
                start = row
            elif value <= 0.5 and start is not None:
                found.append([speaker, start, row])
                start = None
    return sorted(found, key=lambda turn: (turn[1], turn[0]))


def sound(parts):
    """Audio of ([[voice, level], ...], milliseconds); each part fades in and out within 20 ms."""
    sounds = []
    for voices, ms in parts:
        n = np.arange(16 * ms)
        fade = np.minimum(1, np.minimum(n, 16 * ms - 1 - n) / 320)
        tone = sum((level * np.sin(2 * np.pi * TONES_HZ[voice] * n / 16000) for voice, level in voices), np.zeros(len(n)))
        sounds.append(tone * fade)
    return torch.tensor(np.concatenate(sounds), dtype=torch.float32)


def check_features(parts, audio):
    try:
        from transformers.audio_utils import mel_filter_bank
        from transformers.models.parakeet.feature_extraction_parakeet import ParakeetFeatureExtractor
    except ImportError:
        return
    extractor = ParakeetFeatureExtractor.__new__(ParakeetFeatureExtractor)
    extractor.win_length, extractor.n_fft, extractor.hop_length = 400, 512, 160
    filters = mel_filter_bank(257, BANDS, 0, 8000, 16000, norm="slaney", mel_scale="slaney")
    extractor.mel_filters = torch.tensor(filters.T, dtype=torch.float32)
    emphasized = torch.cat([audio[:1], audio[1:] - 0.97 * audio[:-1]])
    expected = extractor._torch_extract_fbank_features(emphasized[None]).transpose(1, 2)
    found, _ = parts["preprocessor"](audio, torch.tensor([len(audio)]))
    error = (found - expected).abs().max()
    print("features differ from transformers by", float(error))
    assert found.shape == expected.shape and error < 2e-3


def cases():
    a, b, c, d = ([voice, level] for voice, level in zip(range(4), (0.5, 0.3, 0.12, 0.2)))
    # The second voice of the first case is heard first and then only at the end.
    long = [[[b], 7000], [[], 900], [[c], 9000], [[], 500], [[c, d], 4000], [[d], 9000], [[], 1300],
            [[a], 9200], [[a, c], 3000], [[c], 6000], [[], 400], [[b], 3000], [[b, a], 1700], [[], 900]]
    rng = np.random.default_rng(5)
    mixed = [[[[int(v), float(rng.integers(5, 50)) / 100] for v in rng.choice(4, rng.integers(0, 3), replace=False)],
              int(rng.integers(200, 2500))] for _ in range(26)]
    return [(long, 124, 124), (mixed, 25, 25), (mixed[:9], 6, 40), ([[[a], 90]], 124, 124), ([[[], 3000]], 10, 10)]


def main(folder):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(2)
    mixture = torch.linalg.qr(torch.randn(WIDTH, GROUPS))[0].t().contiguous()
    parts = {"preprocessor": Preprocessor(), "pre_encode": PreEncode(mixture), "encode": Encode(mixture)}
    results = []
    for audio_parts, chunk, queue in cases():
        audio = sound(audio_parts)
        if not results:
            check_features(parts, audio[:48000] + 1e-3 * torch.randn(48000))
        rows = rows_of(parts, audio)
        probabilities = diarize(parts, rows, chunk, queue)
        margin = (probabilities - 0.5).abs().min()
        assert margin > 1e-4, margin
        found = turns(probabilities)
        print(len(rows), "rows,", found)
        values = [[round(value, 4) for value in row] for row in probabilities.tolist()]
        results.append({"sound": audio_parts, "chunk": chunk, "queue": queue, "turns": found, "probabilities": values})
    # Known in advance: numbers in the order of appearance, whatever the cache has dropped.
    speakers = [turn[0] for turn in results[0]["turns"]]
    assert speakers[0] == 0 and speakers[-2:] == [0, 3], speakers
    samples, total = Dim("samples", min=1600, max=1920000), Dim("total", min=2, max=1000)
    programs = {
        "preprocessor": export(parts["preprocessor"], (torch.randn(48000), torch.tensor([48000])),
                               dynamic_shapes=({0: samples}, {}), strict=False),
        "pre_encode": export(parts["pre_encode"], (torch.randn(1, COLUMNS, BANDS), torch.tensor([COLUMNS])), strict=False),
        "encode": export(parts["encode"], (torch.randn(1, 1000, WIDTH), torch.tensor([1000])),
                         dynamic_shapes=({1: total}, {}), strict=False)}
    constants = {"sample_rate": 16000, "window_stride": 0.01, "subsampling_factor": 8, "fc_d_model": WIDTH,
                 "tf_d_model": WIDTH, "max_num_of_spks": GROUPS, "spkcache_len": CACHE}
    for name, chosen in (("sortformer", list(programs)), ("no_preprocessor", ["pre_encode", "encode"])):
        lowered = to_edge_transform_and_lower(
            {method: programs[method] for method in chosen},
            partitioner={method: [] if method == "preprocessor" else [XnnpackPartitioner()] for method in chosen},
            compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True), constant_methods=constants)
        with open(os.path.join(folder, f"{name}.pte"), "wb") as file:
            lowered.to_executorch().write_to_file(file)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in results) + "\n]\n")


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
