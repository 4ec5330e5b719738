"""Exports classifiers with the contract of BERT for sequences whose class can be told in advance: words vote
for days, months or numbers, and padding would vote for months.

    python classify_text.py DIR      # nodes/speech/tests/data/classify_text

Writes `dynamic.pte` (any length up to 64) and `fixed.pte` (24 tokens with padding), `config.json` with the
names of the classes, and `cases.json`: texts, their class, and the probabilities in PyTorch. Needs torch,
executorch, tokenizers, and the WordPiece vocabulary of `runtime/text`.
"""
import json
import os
import sys

import torch
from tokenizers import Tokenizer
from torch import nn
from torch.export import Dim, export

from embed_text import FIXED, MOST, TOKENIZER, write

# Words that are one token.
CLASSES = {"day": ["monday", "wednesday", "friday", "saturday"],
           "month": ["january", "february", "march", "april", "june", "july", "august", "november", "december"],
           "number": ["four", "five", "seven", "eight", "nine", "eleven"]}
TEXTS = [("what comes after monday?", "day"), ("go on from march", "month"), ("four and five", "number"),
         ("friday and saturday in june", "day"), ("eight june seven", "number"), ("", "number")]


class Classifier(nn.Module):
    def __init__(self, tok):
        super().__init__()
        votes = torch.zeros(tok.get_vocab_size(), len(CLASSES))
        for number, words in enumerate(CLASSES.values()):
            for word in words:
                votes[tok.token_to_id(word), number] = 1.5
        votes[tok.token_to_id("[PAD]"), 1] = 9
        self.votes = nn.Embedding.from_pretrained(votes)

    def forward(self, ids, mask):
        return (self.votes(ids) * mask[..., None].float()).sum(1) + torch.tensor([0.0, -0.1, 0.2])


def main(folder):
    os.makedirs(folder, exist_ok=True)
    tok = Tokenizer.from_file(TOKENIZER)
    model, cases = Classifier(tok), []
    for text, label in TEXTS + [(" ".join(["what comes after"] * 30 + ["june"] * 60), "month")]:
        ids = tok.encode(text, add_special_tokens=True).ids
        found = {}
        for name, most in (("dynamic", MOST), ("fixed", FIXED)):
            # The last token of a text that is cut stays.
            cut = torch.tensor([ids if len(ids) <= most else ids[:most - 1] + ids[-1:]])
            found[name] = [round(float(value), 5) for value in model(cut, torch.ones_like(cut))[0].softmax(0)]
        if len(ids) <= FIXED:
            assert list(CLASSES)[found["fixed"].index(max(found["fixed"]))] == label, (text, found)
        cases.append({"text": text, "class": label, **found})
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": "bert", "id2label": dict(enumerate(CLASSES))}, file)
        file.write("\n")
    count = Dim("count", min=2, max=MOST)
    # Not the same tensor twice: export would take both inputs for one.
    ids, fixed = [(torch.ones(1, n, dtype=torch.long), torch.ones(1, n, dtype=torch.long)) for n in (9, FIXED)]
    write(os.path.join(folder, "dynamic.pte"),
          export(model, ids, dynamic_shapes=({1: count}, {1: count}), strict=False))
    write(os.path.join(folder, "fixed.pte"), export(model, fixed, strict=False))


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
