"""Writes the package turn: programs and model.yaml."""
import argparse
import os

import model
import numpy as np
import torch
from model import TurnDetector
from paths import PACKAGE, WORK
from train import Dataset, predict_logits

from cards import variant_entry, write_card
from export import VARIANTS, lower, write
from speech import SAMPLE_RATE

# Fraction of the pauses of the validation set that may be detected as ends. A lower one costs more
# waiting.
MAX_FALSE_CUTS = 0.05
VALIDATION_SEED = 7
LIMITS = [
    "Trained and measured on synthetic English speech only. A synthesizer does not hesitate: the pauses are "
    "commas, cuts between words, and written fillers, which differ from pauses of people.",
    "It uses intonation, duration and some sounds of the last two seconds, not meaning. A sentence that could "
    "end but goes on sounds like its end.",
    "It is to be called in a pause, 150 to 300 ms after the end of speech, not during speech.",
    "A pause before which the voice falls as at the end of a sentence is detected as an end.",
]


def choose_threshold(trained):
    """Returns the lowest threshold that detects at most MAX_FALSE_CUTS of the validation pauses as
    ends.
    """
    dataset = Dataset("validation")
    probs = 1 / (1 + np.exp(-predict_logits(trained, dataset, VALIDATION_SEED)))
    return round(float(np.quantile(probs[dataset.ends < 0.5], 1 - MAX_FALSE_CUTS)), 2)


def card(seed, decision):
    """Returns the content of model.yaml, without measurements."""
    variants = [variant_entry(PACKAGE, f"turn_{variant}.pte", VARIANTS[variant][0]) for variant in VARIANTS]
    return {
        "afferent_model": 1, "name": "turn", "task": "end_of_turn", "contract": "end_of_turn",
        "sample_rate": SAMPLE_RATE, "variants": variants, "decision": decision, "license": "Apache-2.0",
        "provenance": "Trained from random weights on synthetic speech of espeak-ng by tools/zoo: "
                      f"`python tools/zoo/turn/make.py --seed {seed}`.",
        "quality": {}, "limits": LIMITS,
    }


def build(seed):
    os.makedirs(PACKAGE, exist_ok=True)
    torch.set_num_threads(1)
    trained = model.load(os.path.join(WORK, "turn.pt"))
    folded = model.load(os.path.join(WORK, "turn.pt")).fold_batch_norm()
    for variant, (_, partitioners) in VARIANTS.items():
        buffer, operators = lower(folded, TurnDetector.example_inputs(), TurnDetector.constants(), partitioners())
        write(os.path.join(PACKAGE, f"turn_{variant}.pte"), buffer)
        print(f"turn_{variant}.pte: {len(buffer)} bytes, "
              + ", ".join(f"{op} x{n}" for op, n in sorted(operators.items())), flush=True)
    decision = {"threshold": choose_threshold(trained), "silence_ms": TurnDetector.SILENCE_MS}
    write_card(PACKAGE, card(seed, decision))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    build(parser.parse_args().seed)
