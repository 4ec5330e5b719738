"""Writes the package: the trained Llama by the official export in two forms, its tokenizer, and model.yaml."""
import argparse
import pathlib
import shutil
import sys
import tempfile

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs

import tokens
from dialogues import INSTRUCTIONS
from model import CONTEXT, Llama, shape
from train import WORK

from cards import file_row, provenance, write_card

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "text" / "tests"))
import llama_export  # noqa: E402

PACKAGE = ROOT / "pipelines" / "models" / "llm"
# file: (backend, precision, options of the export); the first that a machine can run is taken.
VARIANTS = {
    "llm_8da4w.pte": ("XnnpackBackend", "8da4w", {"xnnpack": True, "quantized": True}),
    "llm_portable.pte": ("portable", "fp32", {}),
}
LARGEST_DIFFERENCE = 2e-4
CHAT = {
    "instructions": INSTRUCTIONS,
    "begin": tokens.BEGIN,
    "system": f"{tokens.SYSTEM} {{text}}{tokens.END}",
    "user": f"{tokens.USER} {{text}}{tokens.END}",
    "answer": tokens.ASSISTANT,
    "end": tokens.END,
    "call": tokens.CALL,
    "result": f"{tokens.RESULT}{{text}}{tokens.END}",
    "tools": [
        {"name": "get_time", "about": "the time and the weekday", "arguments": {},
         "result": {"time": "hours and minutes, as 16:10", "day": "the weekday in English"}},
        {"name": "set_timer", "about": "starts a timer",
         "arguments": {"hours": "1 to 24", "minutes": "1 to 99", "seconds": "1 to 90"}, "result": {"ok": "whether it runs"}},
        {"name": "where_is", "about": "where a thing of the user is", "arguments": {"thing": "its name"},
         "result": {"place": "for example: on the table; or null"}},
        {"name": "set_light", "about": "switches the light of a room",
         "arguments": {"room": "its name, or all", "state": "on or off"}, "result": {"ok": "whether it is so now"}},
    ],
}
LIMITS = [
    "A small network, shortly trained: some of what it is told it forgets or garbles, and some phrasings that it never met it gets wrong; "
    "`quality` says how many.",
    "It knows about a hundred questions, four tools, and what a user tells of name, age, home, job, favourites, names of others, appointments and places of things; anything else it should refuse.",
    "English in lower case, as a recogniser writes it; numbers in words up to one hundred; capitals are folded by the tokenizer.",
    "Phrasings far from the grammar that it was trained on are taken for something else, not for unknown.",
    "All dialogues were generated; nothing here says how it does with people.",
    "A dialogue has at most 512 tokens, about sixteen turns.",
]


def official(weights, s):
    model = construct_transformer(ModelArgs(**s, max_seq_len=CONTEXT, max_context_len=CONTEXT, generate_full_logits=True))
    model.load_state_dict(weights)
    return model.eval()


def checkpoint(name, folder):
    """The trained weights as the official export reads them, after checking that they compute the same."""
    tokenizer = tokens.load(WORK / f"{name}.json")
    s = shape(tokenizer.get_vocab_size())
    weights = torch.load(WORK / f"{name}.pt", weights_only=True)
    ours = Llama(s)
    ours.load_state_dict(weights)
    theirs = official(weights | {"output.weight": weights["tok_embeddings.weight"]}, s)
    asked = torch.randint(0, s["vocab_size"], (1, 100))
    with torch.no_grad():
        difference = float((ours(asked) - theirs(asked)).abs().max())
    if difference > LARGEST_DIFFERENCE:
        raise SystemExit(f"the official Llama computes something else: {difference:.2g}")
    llama_export.save(theirs, s, folder)
    return tokenizer


def card(come_from):
    """model.yaml for the files as they are, not yet measured."""
    return {
        "afferent_model": 1, "name": "llm", "task": "chat", "contract": "llama", "tokenizer": "tokenizer.json",
        "variants": [file_row(PACKAGE, file, backend, precision) for file, (backend, precision, _) in VARIANTS.items()],
        "chat": CHAT, "license": "Apache-2.0",
        "provenance": come_from,
        "quality": {}, "limits": LIMITS,
    }


def export(name):
    come_from = provenance(PACKAGE, "generated dialogues", "llm/make.py", WORK / f"{name}-checkpoint.pt")
    PACKAGE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tokenizer = checkpoint(name, folder)
        begin, end = tokenizer.token_to_id(tokens.BEGIN), tokenizer.token_to_id(tokens.END)
        for file, (_, _, options) in VARIANTS.items():
            llama_export.export(folder, PACKAGE / file, CONTEXT, begin, [end], custom=True, **options)
    shutil.copyfile(WORK / f"{name}.json", PACKAGE / "tokenizer.json")
    write_card(PACKAGE, card(come_from))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="llm", help="of the files in tools/zoo/work/llm")
    export(parser.parse_args().name)
