"""Exports a small BERT of random weights with the contract of public text encoders.

    python embed_text.py DIR      # nodes/speech/tests/data/embed_text

| program | form |
|---|---|
| `pooled.pte` | mean over the tokens, any length up to 64: `[1, D]` |
| `fixed.pte` | the same, 24 tokens with padding |
| `tokens.pte` | a vector for each token, 24 tokens: `[1, 24, D]` |

Writes also `cases.json`: texts, and the vectors of transformers. Needs torch, executorch, transformers, and
the WordPiece vocabulary of `runtime/text`.
"""
import json
import os
import sys

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from tokenizers import Tokenizer
from torch import nn
from torch.export import Dim, export
from transformers import BertConfig, BertModel

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.path.join(HERE, "../../runtime/text/tests/data/wordpiece.json")
MOST, FIXED = 64, 24
TEXTS = ["what comes after monday?", "hello", "go on from march", "", "one two three four five six seven eight"]


class Encoder(nn.Module):
    def __init__(self, model, is_pooled):
        super().__init__()
        self.model, self.is_pooled = model, is_pooled

    def forward(self, ids, mask):
        x = self.model.embeddings(input_ids=ids)
        bias = (1.0 - mask[:, None, None, :].float()) * -1e9
        for layer in self.model.encoder.layer:
            own = layer.attention.self
            heads = [f(x).view(1, -1, own.num_attention_heads, own.attention_head_size).transpose(1, 2)
                     for f in (own.query, own.key, own.value)]
            scores = heads[0] @ heads[1].transpose(2, 3) / own.attention_head_size ** 0.5 + bias
            joined = (scores.softmax(-1) @ heads[2]).transpose(1, 2).reshape(1, -1, x.shape[2])
            x = layer.attention.output(joined, x)
            x = layer.output(layer.intermediate(x), x)
        if not self.is_pooled:
            return x
        weights = mask[..., None].float()
        return (x * weights).sum(1) / weights.sum(1)


def write(path, program):
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()],
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


def main(folder):
    tok = Tokenizer.from_file(TOKENIZER)
    torch.manual_seed(3)
    config = BertConfig(vocab_size=tok.get_vocab_size(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=MOST, initializer_range=0.3,
                        attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False).eval()
    cases = []
    for text in TEXTS:
        ids = torch.tensor([tok.encode(text, add_special_tokens=True).ids])
        rows = model(input_ids=ids).last_hidden_state[0]
        short = [[round(float(value), 6) for value in values] for values in (rows.mean(0), rows.flatten())]
        cases.append({"text": text, "pooled": short[0], "tokens": short[1]})
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    count = Dim("count", min=2, max=MOST)
    # Not the same tensor twice: export would take both inputs for one.
    ids, fixed = [(torch.ones(1, n, dtype=torch.long), torch.ones(1, n, dtype=torch.long)) for n in (9, FIXED)]
    write(os.path.join(folder, "pooled.pte"),
          export(Encoder(model, True), ids, dynamic_shapes=({1: count}, {1: count}), strict=False))
    write(os.path.join(folder, "fixed.pte"), export(Encoder(model, True), fixed, strict=False))
    write(os.path.join(folder, "tokens.pte"), export(Encoder(model, False), fixed, strict=False))


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
