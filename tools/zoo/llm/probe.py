"""Shows what weights in training get right and wrong, on phrasings and values that training does not see."""
import argparse
import collections
import random

import torch

import tokens
from items import items
from model import CONTEXT, Llama, shape
from train import WORK

LONGEST = 60


def answers(model, tokenizer, prompts):
    """The likeliest texts after prompts, without a cache: prompts of one length go together."""
    end, groups, found = tokenizer.token_to_id(tokens.END), collections.defaultdict(list), {}
    for at, prompt in enumerate(prompts):
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        groups[len(ids)].append((at, ids))
    for length, group in groups.items():
        x = torch.tensor([ids for _, ids in group])
        for _ in range(min(LONGEST, CONTEXT - length)):
            with torch.no_grad():
                best = (model.hidden(x)[:, -1] @ model.tok_embeddings.weight.T).argmax(-1, keepdim=True)
            x = torch.cat((x, best), 1)
            if (x[:, length:] == end).any(1).all():
                break
        for (at, _), row in zip(group, x[:, length:].tolist()):
            row = row[:row.index(end)] if end in row else row
            found[at] = tokenizer.decode(row, skip_special_tokens=False)
    return [found[at] for at in range(len(prompts))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="llm", help="of the files in tools/zoo/work/llm")
    parser.add_argument("--count", type=int, default=500, help="items of each kind")
    parser.add_argument("--wrong", type=int, default=60, help="of these so many are shown")
    parser.add_argument("kinds", nargs="*", default=["slots", "dev"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = tokens.load(WORK / f"{arguments.name}.json")
    saved = torch.load(WORK / f"{arguments.name}-checkpoint.pt", weights_only=True)
    # A training from nothing has fewer layers at first.
    layers = 1 + max(int(name.split(".")[1]) for name in saved["model"] if name.startswith("layers."))
    model = Llama(shape(tokenizer.get_vocab_size(), layers))
    model.load_state_dict(saved["model"])
    print("step", saved["step"])
    for kind in arguments.kinds:
        asked = items(kind, arguments.count, 77)
        said = answers(model.eval(), tokenizer, [item.prompt for item in asked])
        wrong = [(item, text) for item, text in zip(asked, said) if text != item.expected]
        print(f"\n{kind}: {100 - 100 * len(wrong) / len(asked):.1f} % of {len(asked)}")
        all_of = collections.Counter(item.intent for item in asked)
        bad = collections.Counter(item.intent for item, _ in wrong)
        print(", ".join(f"{name} {count}/{all_of[name]}" for name, count in bad.most_common()))
        for item, text in random.Random(0).sample(wrong, min(len(wrong), arguments.wrong)):
            print(f"  {item.intent}: {item.user!r} -> {text!r}, not {item.expected!r}")


if __name__ == "__main__":
    main()
