"""Exports an encoder and a decoder with the contract of optimum's T5 exports, which spell their input
backwards in another alphabet: the result follows from the text and from the tokens that were fed back.

    python seq2seq.py DIR      # nodes/speech/tests/data/seq2seq

Writes `model.pte` and `cases.json`: texts, and the tokens of greedy decoding with the modules in PyTorch.
Needs torch, executorch, sentencepiece, and the tokenizer of `runtime/text`.
"""
import json
import os
import sys

import sentencepiece
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export

VOCABULARY, START, END, MOST, FIRST = 420, 0, 2, 64, 260

TOKENIZER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/text/tests/data/bpe.model")
TEXTS = ["what comes after monday?", "hello", "go on from march", "one, two, three", "a", "say hello in january"]


class Encoder(nn.Module):
    """ids [1, n] -> one for each id, backwards: [1, n, V]."""

    def forward(self, ids):
        return nn.functional.one_hot(ids, VOCABULARY).float().flip(1)


class Decoder(nn.Module):
    """The id of the row of the position, plus one if the last token is even; the end after the last row.
    The first row is the end of the input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.long))

    def forward(self, token, rows, position):
        self.count.copy_(torch.where(position == 0, torch.zeros(1, dtype=torch.long), self.count + 1))
        follows = (self.count == position).all()
        row = rows[0].index_select(0, (position + 1).clamp(max=rows.shape[1] - 1))
        is_last = position + 1 >= rows.shape[1]
        shifted = torch.where((token[0] % 2 == 0) & (row.argmax(-1) >= FIRST), row.roll(1, 1), row)
        end = nn.functional.one_hot(torch.tensor([END]), VOCABULARY).float()
        return torch.where(is_last | ~follows, end, shifted)[None]


def greedy(encoder, decoder, ids):
    rows, token, found = encoder(torch.tensor([ids + [END]])), START, []
    for position in range(MOST):
        token = int(decoder(torch.tensor([[token]]), rows, torch.tensor([position]))[0, -1].argmax())
        if token == END:
            break
        found.append(token)
    return found


def main(folder):
    os.makedirs(folder, exist_ok=True)
    encoder, decoder = Encoder(), Decoder()
    pieces = sentencepiece.SentencePieceProcessor(TOKENIZER)
    results = [{"text": text, "tokens": greedy(encoder, decoder, pieces.encode(text))} for text in TEXTS]
    count = Dim("count", min=2, max=MOST)
    rows = torch.randn(1, 5, VOCABULARY)
    programs = {
        "encoder": export(Encoder(), (torch.tensor([[5, 6, 7]]),), dynamic_shapes=({1: count},), strict=False),
        "text_decoder": export(Decoder(), (torch.tensor([[1]]), rows, torch.tensor([0])),
                               dynamic_shapes=({}, {1: count}, {}), strict=False)}
    constants = {"decoder_start_token_id": START, "get_eos_id": END, "get_max_seq_len": MOST,
                 "get_vocab_size": VOCABULARY}
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()], constant_methods=constants,
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(os.path.join(folder, "model.pte"), "wb") as file:
        lowered.to_executorch().write_to_file(file)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in results) + "\n]\n")


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
