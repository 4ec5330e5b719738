"""Exports a program with the contract of ExecuTorch's streaming Voxtral Realtime whose text can be told in
advance: a tone in mel band n begins the piece FIRST + n of the tokenizer, or the next one right after
another piece.

    python voxtral_realtime.py DIR      # nodes/speech/tests/data/voxtral

Writes `model.pte` and `cases.json`: tones, and the tokens of each step by the loop of the reference runner,
with the modules in PyTorch and the features of ExecuTorch's preprocessor. Needs torch and executorch.
"""
import json
import os
import sys

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.extension.audio.mel_spectrogram import WhisperAudioProcessor
from torch import nn
from torch.export import Dim, export

BANDS, FIRST, BOS, VOCABULARY, DELAY, MAX_STEPS = 128, 260, 1, 420, 3, 200
STEP, LEFT, RIGHT, SKIP, COLUMNS = 1280, 320, 40, 2, 8


class Encoder(nn.Module):
    """One for the loudest band, if there is a tone; nothing if the positions do not follow each other."""

    def __init__(self):
        super().__init__()
        self.register_buffer("next", torch.zeros(1, dtype=torch.long))

    def forward(self, mel, positions):
        level = mel.mean(2)
        best = nn.functional.one_hot(level.argmax(1), BANDS).float()
        is_tone = (level.amax(1, keepdim=True) - level.mean(1, keepdim=True) > 0.5).float()
        follows = (positions == self.next + torch.arange(4)).all().float()
        self.next.add_(4)
        return torch.cat([best * is_tone * follows, torch.zeros(1, BANDS)], 1)[:, None]


class Embedding(nn.Module):
    """One for the band of a piece, in the second half."""

    def forward(self, tokens):
        piece = nn.functional.one_hot((tokens - FIRST).clamp(0, BANDS - 1), BANDS).float()
        is_piece = (tokens >= FIRST).float()[..., None]
        return torch.cat([torch.zeros_like(piece), piece * is_piece], 2)


class Decoder(nn.Module):
    """Logits of the band that began DELAY steps ago."""

    def __init__(self):
        super().__init__()
        self.register_buffer("heard", torch.zeros(MAX_STEPS + DELAY + 1, BANDS))

    def forward(self, embeddings, positions):
        self.heard[positions + DELAY + 1] = embeddings[0, :, :BANDS]
        now, before = self.heard[positions + 1], self.heard[positions]
        began = (now - before).clamp(min=0)
        after_piece = embeddings[0, :, BANDS:].sum(1, keepdim=True)
        piece = began * (1 - after_piece) + began.roll(1, 1) * after_piece
        logits = torch.zeros(piece.shape[0], VOCABULARY)
        logits = torch.cat([logits[:, :BOS], torch.full((piece.shape[0], 1), 0.5), logits[:, BOS + 1:FIRST],
                            piece, logits[:, FIRST + BANDS:]], 1)
        return logits[None]


def tones(parts):
    """Audio of (Hz, milliseconds)."""
    sounds = [np.sin(2 * np.pi * hz * np.arange(16 * ms) / 16000) * (0.3 if hz else 0) for hz, ms in parts]
    return torch.tensor(np.concatenate(sounds), dtype=torch.float32)


def tokens_of(audio):
    """Token of each step, as the reference runner decodes with silence at the end."""
    preprocessor = WhisperAudioProcessor(feature_size=BANDS, streaming=True)
    encoder, embedding, decoder = Encoder(), Embedding(), Decoder()
    steps = -(-len(audio) // STEP) + DELAY
    padded = torch.cat([torch.zeros(LEFT), audio, torch.zeros(steps * STEP + RIGHT)])
    last, found = BOS, []
    for step in range(steps):
        mel = preprocessor(padded[step * STEP:step * STEP + LEFT + STEP + RIGHT])[:, :, SKIP:SKIP + COLUMNS]
        rows = encoder(mel, torch.arange(4) + 4 * step) + embedding(torch.tensor([[last]]))
        last = int(decoder(rows, torch.tensor([step]))[0, -1].argmax())
        found.append(last)
    return found


def main(folder):
    os.makedirs(folder, exist_ok=True)
    cases = [[[0, 400], [440, 320], [0, 300], [700, 160], [900, 160], [1200, 160], [0, 250]],
             [[310, 500], [0, 900], [620, 400], [0, 30]], [[0, 1000]]]
    rng = np.random.default_rng(2)
    cases += [[[int(rng.integers(0, 3) > 0) * int(rng.integers(200, 3000)), int(rng.integers(80, 600))]
               for _ in range(10)] for _ in range(5)]
    results = [{"tones": case, "tokens": tokens_of(tones(case))} for case in cases]
    count = Dim("count", min=1, max=MAX_STEPS)
    programs = {
        "encode_audio_chunk": export(Encoder(), (torch.randn(1, BANDS, COLUMNS), torch.arange(4)), strict=False),
        "token_embedding": export(Embedding(), (torch.tensor([[1, 2, 3]]),), dynamic_shapes=({1: count},),
                                  strict=False),
        "text_decoder": export(Decoder(), (torch.randn(1, 3, 2 * BANDS), torch.arange(3)),
                               dynamic_shapes=({1: count}, {0: count}), strict=False)}
    constants = {"sample_rate": 16000, "num_mel_bins": BANDS, "hop_length": 160, "window_size": 400,
                 "downsample_factor": 4, "dim": 2 * BANDS, "enc_dim": 2 * BANDS, "vocab_size": VOCABULARY,
                 "max_seq_len": MAX_STEPS, "sliding_window": 0, "streaming": 1, "step_samples": STEP,
                 "chunk_mel_len": COLUMNS, "max_enc_len": 750, "conv1_pad": 2, "conv2_pad": 2,
                 "stft_left_overlap": LEFT, "stft_right_lookahead": RIGHT, "mel_skip_frames": SKIP,
                 "delay_tokens": DELAY}
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()], constant_methods=constants,
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(os.path.join(folder, "model.pte"), "wb") as file:
        lowered.to_executorch().write_to_file(file)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in results) + "\n]\n")


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
