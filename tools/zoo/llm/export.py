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

from cards import file_row, write_card

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
    "A small network, shortly trained: of what it is told it forgets or garbles one in twelve, of phrasings that it never met it gets one in nine wrong, "
    "and one in 160 of what is said in known phrasings with names and things that it never met.",
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


def card(seed, quality):
    """model.yaml for the files as they are."""
    return {
        "afferent_model": 1, "name": "llm", "task": "chat", "contract": "llama", "tokenizer": "tokenizer.json",
        "variants": [file_row(PACKAGE, file, backend, precision) for file, (backend, precision, _) in VARIANTS.items()],
        "chat": CHAT, "licence": "Apache-2.0",
        "provenance": f"Trained from random weights on generated dialogues by tools/zoo/llm: `python tools/zoo/llm/make.py --seed {seed}`. "
                      "The shipped weights come from eighteen runs, each from the weights of the one before (`train.py --go-on`): 31,950 steps of up to 2,304 "
                      "tokens with four and then six layers, while phrasings and kinds of dialogues were added; then, of up to 4,608 tokens with nine "
                      "layers and three times the phrasings, `--seed 71 --steps 5040 --rate 0.0025`, which `--rate 0.004` continued to step 13,500, from "
                      "step 5,250 on with phrasings drawn more often that were got wrong; with `--steps 11000` and `10000` for 2,250 steps, `8800` up to "
                      "there, `16000` up to step 11,200, and `13500`; then, with spaces that are tokens of their own and more words as values, "
                      "`--seed 73 --steps 3000 --rate 0.0015`, the first 380 steps of it with `--steps 4300 --rate 0.002`; then, with answers that "
                      "begin as the telling's does where nothing was told, `--seed 101 --steps 5400 --rate 0.002`, the first 3,500 steps of it "
                      "with `--steps 6000`; then, with the lines read out that nobody could understand so, and values whose ends can be told, "
                      "`--seed 111 --steps 7000 --rate 0.0021`, up to step 600 with `--steps 8500 --rate 0.0025`, up to 1,760 with `--steps 6800 "
                      "--rate 0.002` and up to 2,250 with `--steps 7700 --rate 0.002`, the lines being read in three parts up to there; then, "
                      "with four times the values, more prepositions of places and 154 more lines of what is told and asked, `--seed 121 --steps 4700 "
                      "--rate 0.002`, up to step 950 with `--steps 5600`, the values being there from then on and the lines from step 1,650 on; "
                      "then, with twelve layers and 912 more lines of names, favourites and places, `--seed 131 --steps 4600 --rate 0.002`, which `--steps 5800` continued; "
                      "then, from step 1,650 on with known phrasings drawn less often, `--seed 171 --steps 6000 --rate 0.0015`, up to step 3,150 with `--steps 5000`, continued by `--steps 6500 --rate 0.0045`; "
                      "then `--seed 181 --drill seventeen --steps 6000 --rate 0.0015`. "
                      "So that command makes like ones, not the same.",
        "quality": quality, "limits": LIMITS,
    }


def export(name, seed):
    PACKAGE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tokenizer = checkpoint(name, folder)
        begin, end = tokenizer.token_to_id(tokens.BEGIN), tokenizer.token_to_id(tokens.END)
        for file, (_, _, options) in VARIANTS.items():
            llama_export.export(folder, PACKAGE / file, CONTEXT, begin, [end], custom=True, **options)
    shutil.copyfile(WORK / f"{name}.json", PACKAGE / "tokenizer.json")
    write_card(PACKAGE, card(seed, {}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="llm", help="of the files in tools/zoo/work/llm")
    parser.add_argument("--seed", type=int, default=1, help="of the training, for model.yaml")
    arguments = parser.parse_args()
    export(arguments.name, arguments.seed)
