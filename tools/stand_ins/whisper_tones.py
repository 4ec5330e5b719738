"""Exports a Whisper that reads tones in place of words, with the contract of ExecuTorch and optimum: it
hears each of eight tones as one word, without a mistake, so that lost and doubled words are those of the
program that runs it.

    python whisper_tones.py DIR     # nodes/speech/tests/data/whisper_tones

The encoder finds the start of each tone and its pitch in the features, and numbers the tones. The decoder
says the words in order, between the times of the first start and the last end. Needs torch, executorch, and
the tokenizer of `nodes/speech/tests/data/whisper`. Writes `model.pte` and `words.json`.
"""
import json
import os
import sys

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from tokenizers import Tokenizer
from torch import nn
from torch.export import export

import whisper_toy

TONES_HZ = [300, 500, 800, 1200, 1700, 2400, 3300, 4500]
ROWS, ROW_S = whisper_toy.ROWS, whisper_toy.ROW_S
# Feature above which a band holds a tone, and rows from the start of a tone to where its pitch is read.
LOUD, SETTLED_ROWS = 0.8, 3
# Columns of a row after the tones: start of a tone, number of tones so far, sound, index.
START, NUMBER, SOUND, INDEX = range(len(TONES_HZ), len(TONES_HZ) + 4)
TOKENIZER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                         "../../nodes/speech/tests/data/whisper/tokenizer.json")


def bands():
    """The band of each tone, as rows of one value: [tones, 80]."""
    bins = torch.tensor([round(hz / 40) for hz in TONES_HZ])
    return nn.functional.one_hot(whisper_toy.FILTERS[:, bins].argmax(0), 80).float()


class Encoder(nn.Module):
    """mel [1, 80, 3000] -> rows [1, 1500, tones + 4]."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bands", bands())
        self.register_buffer("index", torch.arange(ROWS).float())

    def forward(self, mel):
        levels = torch.matmul(self.bands, mel[0])[:, ::2]  # [tones, rows]
        loudest = levels.amax(0, keepdim=True)
        sound = (loudest > LOUD).float()[0]
        before = torch.cat([torch.zeros(1), sound[:-1]])
        start = sound * (1 - before)
        settled = torch.cat([levels[:, SETTLED_ROWS:], levels[:, -SETTLED_ROWS:]], 1)
        tone = (settled >= settled.amax(0, keepdim=True)).float()
        columns = [*tone, start, start.cumsum(0), sound, self.index]
        return torch.stack(columns, 1)[None]


class Decoder(nn.Module):
    """token [1, 1], rows, position [1] -> logits [1, 1, V]."""

    def __init__(self, tokenizer, words):
        super().__init__()
        ids = tokenizer.token_to_id
        self.count = tokenizer.get_vocab_size()
        self.sot, self.end, self.plain, self.zero = (
            ids(name) for name in ("<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>", "<|0.00|>"))
        self.register_buffer("words", nn.functional.one_hot(torch.tensor([ids(w) for w in words]), self.count).float())
        # Position after which the text begins, and 1 if it has times.
        self.register_buffer("first", torch.zeros(1))
        self.register_buffer("has_times", torch.ones(1))

    def time(self, row):
        """Logits of the time token of a row."""
        return (torch.arange(self.count).float() == self.zero + row).float()

    def forward(self, token, rows, position):
        at, token = position.float(), token[0].float()
        is_start, is_plain = (token == self.sot).float(), (token == self.plain).float()
        # The prompt has the start, the language and the task; then times, unless it says that there are none.
        self.first.copy_(torch.where(is_start > 0, at + 2, torch.where(is_plain > 0, at, self.first)))
        self.has_times.copy_(torch.where(is_start > 0, torch.ones(1), torch.where(is_plain > 0, torch.zeros(1),
                                                                                  self.has_times)))
        rows = rows[0]
        total = rows[:, NUMBER].amax()
        first_row = (rows[:, INDEX] + 10000 * (1 - rows[:, START])).amin().clamp(max=ROWS)
        last_row = (rows[:, INDEX] * rows[:, SOUND]).amax() + 1
        # 0 is the time of the first tone, 1 the first tone, and so on.
        step = at - self.first + 1 - self.has_times
        chosen = rows[:, START] * (rows[:, NUMBER] == step).float()
        word = torch.matmul(chosen[None], rows[:, :len(TONES_HZ)])  # [1, tones]
        text = torch.matmul(word, self.words)[0]
        none = (total == 0).float()
        end = (torch.arange(self.count) == self.end).float()
        after = torch.where(step == total + 1, self.time(last_row) * self.has_times + end * (1 - self.has_times), end)
        logits = torch.where(step <= 0, self.time(first_row * (1 - none)), torch.where(step <= total, text, after))
        logits = torch.where((none > 0) & (step > 0), end, logits)
        return (20 * logits)[None, None]


@torch.no_grad()
def main(folder):
    os.makedirs(folder, exist_ok=True)
    tokenizer = Tokenizer.from_file(TOKENIZER)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    words = [piece for piece, _ in pieces if piece.startswith("Ġ") and len(piece) > 3][:len(TONES_HZ)]
    encoder, decoder = Encoder().eval(), Decoder(tokenizer, words).eval()
    token, position = torch.tensor([[decoder.sot]]), torch.tensor([0])
    rows = encoder(torch.randn(1, 80, 2 * ROWS))
    programs = {"encoder": export(encoder, (torch.randn(1, 80, 2 * ROWS),), strict=False),
                "text_decoder": export(decoder, (token, rows, position), strict=False)}
    lowered = to_edge_transform_and_lower(programs, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(os.path.join(folder, "model.pte"), "wb") as file:
        lowered.to_executorch().write_to_file(file)
    with open(os.path.join(folder, "words.json"), "w") as file:
        json.dump({"tones_hz": TONES_HZ, "words": [word[1:] for word in words]}, file)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
