"""Writes the package llm: two programs by the official Llama export, the tokenizer, and model.yaml.
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs

import tokens
from dialogues import INSTRUCTIONS, LOCATION
from model import CONTEXT, Llama, shape
from train import WORK

from cards import provenance, shipped_variants, variant_entry, write_card

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "text" / "tests"))
import llama_export  # noqa: E402

PACKAGE = ROOT / "pipelines" / "models" / "llm"
# Backend, precision and export options of each program. The runtime takes the first that it can
# run.
VARIANTS = {
    "llm_8da4w.pte": ("XnnpackBackend", "8da4w", {"xnnpack": True, "quantized": True}),
    "llm_portable.pte": ("portable", "fp32", {}),
}
MAX_DIFFERENCE = 2e-4
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
        {"name": "get_time", "about": "returns the time and the weekday", "arguments": {},
         "result": {"time": "hours and minutes, for example 16:10", "day": "weekday in English"}},
        {"name": "set_timer", "about": "starts a timer",
         "arguments": {"hours": "1 to 24", "minutes": "1 to 99", "seconds": "1 to 90"},
         "result": {"ok": "true if the timer runs"}},
        {"name": "where_is", "about": "returns the location of a thing of the user",
         "arguments": {"thing": "name of the thing"},
         "result": {LOCATION: "location, for example: on the table; null if unknown"}},
        {"name": "set_light", "about": "switches the lights of a room on or off",
         "arguments": {"room": "name of the room, or all", "state": "on or off"},
         "result": {"ok": "true if the lights answered"}},
    ],
}
LIMITS = [
    "A small network. It forgets or garbles some of what it is told, and misunderstands some phrasings that "
    "it was not trained on; `quality` gives the rates.",
    "It knows about a hundred questions, four tools, and what the user tells about name, age, home, job, "
    "favorites, names of others, appointments and locations of things. It should refuse everything else.",
    "English in lower case, as from a speech recognizer, with numbers up to one hundred in words. The "
    "tokenizer folds capitals.",
    "Phrasings unlike those of training are taken for another request, not for an unknown one.",
    "All dialogues are generated; there is no measurement with people.",
    "A dialogue has at most 512 tokens, about sixteen turns.",
]


def official_model(weights, s):
    args = ModelArgs(**s, max_seq_len=CONTEXT, max_context_len=CONTEXT, generate_full_logits=True)
    model = construct_transformer(args)
    model.load_state_dict(weights)
    return model.eval()


def write_checkpoint(name, folder):
    """Writes the trained weights for the official export, and returns the tokenizer.

    Checks first that the official model computes the same logits.
    """
    tokenizer = tokens.load(WORK / f"{name}.json")
    s = shape(tokenizer.get_vocab_size())
    weights = torch.load(WORK / f"{name}.pt", weights_only=True)
    ours = Llama(s)
    ours.load_state_dict(weights)
    theirs = official_model(weights | {"output.weight": weights["tok_embeddings.weight"]}, s)
    prompt = torch.randint(0, s["vocab_size"], (1, 100))
    with torch.no_grad():
        difference = float((ours(prompt) - theirs(prompt)).abs().max())
    if difference > MAX_DIFFERENCE:
        raise SystemExit(f"logits differ from the official Llama by {difference:.2g}, more than {MAX_DIFFERENCE}")
    llama_export.save(theirs, s, folder)
    return tokenizer


def card(origin):
    """Returns the content of model.yaml, without measurements."""
    variants = [variant_entry(PACKAGE, file, backend, precision)
                for file, (backend, precision, _) in VARIANTS.items()]
    return {
        "afferent_model": 1, "name": "llm", "task": "chat", "contract": "llama", "tokenizer": "tokenizer.json",
        "variants": shipped_variants(variants), "chat": CHAT, "license": "Apache-2.0",
        "provenance": origin,
        "quality": {}, "limits": LIMITS,
    }


def export(name):
    origin = provenance(PACKAGE, "generated dialogues", "llm/make.py", WORK / f"{name}-checkpoint.pt")
    PACKAGE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tokenizer = write_checkpoint(name, folder)
        begin, end = tokenizer.token_to_id(tokens.BEGIN), tokenizer.token_to_id(tokens.END)
        for file, (_, _, options) in VARIANTS.items():
            llama_export.export(folder, PACKAGE / file, CONTEXT, begin, [end], custom=True, **options)
    shutil.copyfile(WORK / f"{name}.json", PACKAGE / "tokenizer.json")
    write_card(PACKAGE, card(origin))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="llm", help="name of the run: its files in tools/zoo/work/llm")
    export(parser.parse_args().name)
