"""Writes the package of the recogniser: its programs, its language model and model.yaml."""
import argparse
import os

import language
import model
import torch
from model import LETTERS, Recogniser, Streaming
from paths import PACKAGE, WORK

from cards import file_row, provenance, write_card
from export import VARIANTS, lower, write
from speech import RATE

LANGUAGE = "language.arpa.gz"
# Found by tune.py on voices, sentences and templates kept from training, not on those of the test.
DECODER = {"language_model": LANGUAGE, "language_weight": 1.0, "word_bonus": 2.5, "start_delay_ms": 300.0,
           "end_delay_ms": 200.0}
LIMITS = [
    "Trained and measured on synthetic English speech only; nothing here says how it does on people.",
    "With its lexicon it hears only the words of language.arpa.gz, and hot words: any other word becomes one of these.",
    "Sound that begins without a tenth of a second before its first word loses that word.",
    "Numbers, times and names are spelled out in small letters, without punctuation.",
]


def card(come_from):
    """model.yaml for the files as they are, not yet measured."""
    return {
        "afferent_model": 1, "name": "asr", "task": "speech_recognition", "contract": "streaming_ctc",
        "sample_rate": RATE, "variants": [file_row(PACKAGE, f"asr_{variant}.pte", VARIANTS[variant][0]) for variant in VARIANTS],
        "labels": ["", *LETTERS[1:]], "decoder": DECODER, "license": "Apache-2.0",
        "provenance": come_from,
        "quality": {}, "limits": LIMITS,
    }


def difference(program, features_of):
    """How far calls of the program one after another are from the network on the whole sound."""
    sound = torch.randn(1, 10 * Recogniser.WINDOW) * 0.05
    padded = torch.cat([torch.zeros(1, Recogniser.CONTEXT), sound], 1)
    _, state = program.example()
    found = []
    with torch.no_grad():
        for at in range(0, sound.shape[1], Recogniser.WINDOW):
            chances, state = program(padded[:, at:at + Recogniser.CONTEXT + Recogniser.WINDOW], state)
            found.append(chances)
        logits, _ = features_of.whole(model.normalised(features_of.power.in_batch(
            padded.unfold(1, Recogniser.LENGTH, model.HOP))))
    return float((torch.cat(found, 1) - logits.log_softmax(-1)).abs().max())


def build(seed, name):
    os.makedirs(PACKAGE, exist_ok=True)
    come_from = provenance(PACKAGE, "synthetic speech of espeak-ng", "asr/make.py", os.path.join(WORK, f"{name}-checkpoint.pt"))
    language.build(seed, os.path.join(PACKAGE, LANGUAGE))
    trained = model.load(os.path.join(WORK, f"{name}.pt"))
    program = Streaming(trained).eval()
    print(f"asr: streaming differs from whole sounds by {difference(program, trained):.1e}", flush=True)
    constants = {"sample_rate": RATE, "window_size": Recogniser.WINDOW, "context_size": Recogniser.CONTEXT}
    for variant, (_, partitioners) in VARIANTS.items():
        buffer, operators = lower(program, program.example(), constants, partitioners())
        write(os.path.join(PACKAGE, f"asr_{variant}.pte"), buffer)
        print(f"asr_{variant}.pte: {len(buffer)} bytes, "
              + ", ".join(f"{op} x{n}" for op, n in sorted(operators.items())), flush=True)
    write_card(PACKAGE, card(come_from))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the language model")
    parser.add_argument("--name", default="asr", help="of the weights in tools/zoo/work/asr")
    arguments = parser.parse_args()
    build(arguments.seed, arguments.name)
