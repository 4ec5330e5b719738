"""Writes the package asr: programs, language model and model.yaml."""
import argparse
import os

import language_model
import model
import torch
from model import LABELS, Recognizer, StreamingRecognizer
from paths import PACKAGE, WORK

from cards import provenance, shipped_variants, variant_entry, write_card
from export import VARIANTS, lower, write
from speech import SAMPLE_RATE

LANGUAGE_MODEL = "language.arpa.gz"
# Weights found by tune.py on the validation sets.
DECODER = {"language_model": LANGUAGE_MODEL, "language_weight": 1.0, "word_bonus": 2.5, "start_delay_ms": 300.0,
           "end_delay_ms": 200.0}
LIMITS = [
    "Trained and measured on synthetic English speech only; there is no measurement with people.",
    "With its lexicon it recognizes only the words of language.arpa.gz and hot words. Any other word is "
    "replaced by one of these.",
    "Numbers, times and names are spelled out in lower case, without punctuation.",
]


def card(origin):
    """Returns the content of model.yaml, without measurements."""
    variants = [variant_entry(PACKAGE, f"asr_{variant}.pte", VARIANTS[variant][0]) for variant in VARIANTS]
    return {
        "afferent_model": 1, "name": "asr", "task": "speech_recognition", "contract": "streaming_ctc",
        "sample_rate": SAMPLE_RATE, "variants": shipped_variants(variants),
        "labels": ["", *LABELS[1:]], "decoder": DECODER, "license": "Apache-2.0",
        "provenance": origin,
        "quality": {}, "limits": LIMITS,
    }


def streaming_difference(program, trained):
    """Returns the largest difference of consecutive calls from the network on the whole sound."""
    sound = torch.randn(1, 10 * Recognizer.WINDOW) * 0.05
    padded = torch.cat([torch.zeros(1, Recognizer.CONTEXT), sound], 1)
    _, state = program.example_inputs()
    calls = []
    with torch.no_grad():
        for at in range(0, sound.shape[1], Recognizer.WINDOW):
            log_probs, state = program(padded[:, at:at + Recognizer.CONTEXT + Recognizer.WINDOW], state)
            calls.append(log_probs)
        power = trained.power.forward_fft(padded.unfold(1, Recognizer.ANALYSIS_WINDOW, model.HOP))
        logits, _ = trained(model.log_mel(power))
    return float((torch.cat(calls, 1) - logits.log_softmax(-1)).abs().max())


def build(seed, name):
    os.makedirs(PACKAGE, exist_ok=True)
    origin = provenance(PACKAGE, "synthetic speech of espeak-ng", "asr/make.py",
                        os.path.join(WORK, f"{name}-checkpoint.pt"))
    language_model.build(seed, os.path.join(PACKAGE, LANGUAGE_MODEL))
    trained = model.load(os.path.join(WORK, f"{name}.pt"))
    program = StreamingRecognizer(trained).eval()
    print(f"asr: streaming differs from whole sounds by {streaming_difference(program, trained):.1e}", flush=True)
    constants = {"sample_rate": SAMPLE_RATE, "window_size": Recognizer.WINDOW, "context_size": Recognizer.CONTEXT}
    for variant, (_, partitioners) in VARIANTS.items():
        buffer, operators = lower(program, program.example_inputs(), constants, partitioners())
        write(os.path.join(PACKAGE, f"asr_{variant}.pte"), buffer)
        print(f"asr_{variant}.pte: {len(buffer)} bytes, "
              + ", ".join(f"{op} x{n}" for op, n in sorted(operators.items())), flush=True)
    write_card(PACKAGE, card(origin))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="seed of the language model")
    parser.add_argument("--name", default="asr", help="name of the weights in tools/zoo/work/asr")
    arguments = parser.parse_args()
    build(arguments.seed, arguments.name)
