"""Prints accuracy and errors of a training checkpoint, on phrasings and slot values held out from
training.
"""
import argparse
import collections
import random

import torch

import tokens
from items import draw_items
from model import CONTEXT, Llama, shape
from train import WORK

MAX_NEW_TOKENS = 60


def greedy_answers(model, tokenizer, prompts):
    """Decodes greedily without a cache, in batches of prompts of the same length."""
    end, groups, answers = tokenizer.token_to_id(tokens.END), collections.defaultdict(list), {}
    for index, prompt in enumerate(prompts):
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        groups[len(ids)].append((index, ids))
    for length, group in groups.items():
        x = torch.tensor([ids for _, ids in group])
        for _ in range(min(MAX_NEW_TOKENS, CONTEXT - length)):
            with torch.no_grad():
                best = (model.hidden(x)[:, -1] @ model.tok_embeddings.weight.T).argmax(-1, keepdim=True)
            x = torch.cat((x, best), 1)
            if (x[:, length:] == end).any(1).all():
                break
        for (index, _), row in zip(group, x[:, length:].tolist()):
            row = row[:row.index(end)] if end in row else row
            answers[index] = tokenizer.decode(row, skip_special_tokens=False)
    return [answers[index] for index in range(len(prompts))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="llm", help="name of the run: its files in tools/zoo/work/llm")
    parser.add_argument("--count", type=int, default=500, help="items of each kind")
    parser.add_argument("--errors", type=int, default=60, help="maximum number of errors to print for each kind")
    parser.add_argument("kinds", nargs="*", default=["slots", "dev"], help="kinds of items: slots, dev, results")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = tokens.load(WORK / f"{arguments.name}.json")
    saved = torch.load(WORK / f"{arguments.name}-checkpoint.pt", weights_only=True)
    # A run from random weights starts with fewer layers.
    layers = 1 + max(int(name.split(".")[1]) for name in saved["model"] if name.startswith("layers."))
    model = Llama(shape(tokenizer.get_vocab_size(), layers))
    model.load_state_dict(saved["model"])
    print("step", saved["step"])
    for kind in arguments.kinds:
        items = draw_items(kind, arguments.count, 77)
        answers = greedy_answers(model.eval(), tokenizer, [item.prompt for item in items])
        errors = [(item, answer) for item, answer in zip(items, answers) if answer != item.expected]
        print(f"\n{kind}: {100 - 100 * len(errors) / len(items):.1f} % of {len(items)}")
        totals = collections.Counter(item.intent for item in items)
        by_intent = collections.Counter(item.intent for item, _ in errors)
        print(", ".join(f"{name} {count}/{totals[name]}" for name, count in by_intent.most_common()))
        for item, answer in random.Random(0).sample(errors, min(len(errors), arguments.errors)):
            print(f"  {item.intent}: {item.user!r} -> {answer!r}, expected {item.expected!r}")


if __name__ == "__main__":
    main()
