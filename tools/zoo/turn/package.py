"""Writes the package of the turn detector: its programs and model.yaml."""
import argparse
import os

import model
import numpy as np
import torch
from model import Turn
from paths import PACKAGE, WORK
from train import Pool, scores

from cards import file_row, write_card
from export import VARIANTS, lower, write
from speech import RATE

# Of the pauses of tuning, so many may be taken for ends: a threshold with fewer false cuts costs more waiting.
FALSE_CUTS = 0.05
TUNING_SEED = 7
LIMITS = [
    "Trained and measured on synthetic English speech only. A synthesiser does not hesitate: its pauses are commas, cuts between words, and "
    "fillers that we wrote, so this knows what such pauses sound like and little of how people pause.",
    "It hears intonation, length and some sounds of the last two seconds, not meaning: a sentence that is whole but goes on sounds like its end.",
    "It is to be asked in a pause, 150 to 300 ms after the end of speech, not while somebody speaks.",
    "A pause at whose end the voice falls as at the end of a sentence is taken for an end.",
]


def threshold(trained):
    """The least one at which no more than FALSE_CUTS of the pauses of tuning are taken for ends."""
    pool = Pool("tuning")
    found = 1 / (1 + np.exp(-scores(trained, pool, TUNING_SEED)))
    return round(float(np.quantile(found[pool.ends < 0.5], 1 - FALSE_CUTS)), 2)


def card(seed, decision):
    """model.yaml for the files as they are, not yet measured."""
    return {
        "afferent_model": 1, "name": "turn", "task": "end_of_turn", "contract": "end_of_turn", "sample_rate": RATE,
        "variants": [file_row(PACKAGE, f"turn_{variant}.pte", VARIANTS[variant][0]) for variant in VARIANTS], "decision": decision, "licence": "Apache-2.0",
        "provenance": "Trained from random weights on synthetic speech of espeak-ng by tools/zoo: "
                      f"`python tools/zoo/turn/make.py --seed {seed}`.",
        "quality": {}, "limits": LIMITS,
    }


def build(seed):
    os.makedirs(PACKAGE, exist_ok=True)
    torch.set_num_threads(1)
    trained = model.load(os.path.join(WORK, "turn.pt"))
    folded = model.load(os.path.join(WORK, "turn.pt")).fold()
    for variant, (_, partitioners) in VARIANTS.items():
        buffer, operators = lower(folded, Turn.example(), Turn.constants(), partitioners())
        write(os.path.join(PACKAGE, f"turn_{variant}.pte"), buffer)
        print(f"turn_{variant}.pte: {len(buffer)} bytes, "
              + ", ".join(f"{op} x{n}" for op, n in sorted(operators.items())), flush=True)
    write_card(PACKAGE, card(seed, {"threshold": threshold(trained), "silence_ms": Turn.SILENCE_MS}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    build(parser.parse_args().seed)
