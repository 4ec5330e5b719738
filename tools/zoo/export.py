"""Writes the packages: portable and XNNPACK programs of the three models, and their model.yaml."""
import argparse
import collections
import os

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

from cards import file_row, write_card
from models import LogMel, RATE, Vad, WakeWord
from streaming import MODELS, trained

VARIANTS = {"xnnpack": ("XnnpackBackend", lambda: [XnnpackPartitioner()]),
            "portable": ("portable", lambda: [])}
PROVENANCE = ("Trained from random weights on synthetic speech of espeak-ng by tools/zoo: "
              "`python tools/zoo/make.py --seed {seed}`.")
CARDS = {
    "log_mel": {
        "task": "features", "contract": "log_mel",
        "provenance": "Computed, not trained: fixed DFT and mel matrices, by `python tools/zoo/make.py`.",
        "limits": ["16 kHz only.", "The normalisation is fixed: features follow the level of the sound."],
    },
    "vad": {
        "task": "voice_activity", "contract": "silero_vad", "provenance": PROVENANCE,
        "decision": {"threshold": 0.55, "neg_threshold": 0.45},
        "limits": ["Trained and measured on synthetic English speech only; nothing here says how it does on people.",
                   "Children, singing, shouting, whispers and telephone sound were not tried.",
                   "Other people talking behind the speaker count as noise only when they are several."],
    },
    "wake_word": {
        "task": "keyword_spotting", "contract": "keyword_scores", "provenance": PROVENANCE,
        "labels": WakeWord.LABELS,
        "decision": {"threshold": {"hey afferent": 0.72, "stop": 0.6, "go": 0.6}, "smooth_ms": 200, "refractory_ms": 1000},
        "limits": ["Trained and measured on synthetic English speech only; nothing here says how it does on people.",
                   "stop and go are commands only between pauses of about a quarter second; inside a sentence they are not.",
                   "hey afferent needs no pause after it."],
    },
}


def program(name):
    """(module, example inputs, constant methods) of a package."""
    if name == "log_mel":
        return (LogMel().eval(), (torch.randn(1, LogMel.CONTEXT + LogMel.WINDOW) * 0.1,),
                {"sample_rate": RATE, "window_size": LogMel.WINDOW, "context_size": LogMel.CONTEXT,
                 "hop_size": LogMel.HOP})
    if name == "vad":
        return (trained(Vad(), "vad"),
                (torch.randn(1, Vad.CONTEXT + Vad.WINDOW) * 0.1, torch.zeros(2, 1, Vad.HIDDEN)),
                {"sample_rate": RATE, "window_size": Vad.WINDOW, "context_size": Vad.CONTEXT})
    wake = trained(WakeWord(), "wake_word").fold()
    return (wake, (torch.randn(1, WakeWord.STEPS, WakeWord.BANDS), wake.zero_state().contiguous()),
            {"sample_rate": RATE, "window_frames": WakeWord.STEPS, "feature_bins": WakeWord.BANDS})


def lower(module, inputs, constants, partitioners):
    """The program's bytes and how often it calls each operator."""
    with torch.no_grad():
        exported = torch.export.export(module, inputs, strict=True)
    edge = to_edge_transform_and_lower(exported, partitioner=partitioners, constant_methods=constants)
    program = edge.to_executorch()
    operators = collections.Counter()
    for plan in program.executorch_program.execution_plan:
        if plan.name == "forward":
            for instruction in plan.chains[0].instructions:
                call = instruction.instr_args
                if hasattr(call, "op_index"):
                    op = plan.operators[call.op_index]
                    operators[f"{op.name}.{op.overload}" if op.overload else op.name] += 1
                elif hasattr(call, "delegate_index"):
                    operators[f"delegate {plan.delegates[call.delegate_index].id}"] += 1
    return program.buffer, operators


def write(path, buffer):
    with open(path, "wb") as file:
        file.write(buffer)


def card(name, seed):
    """model.yaml of a package, for the files as they are, not yet measured."""
    about = {"afferent_model": 1, "name": name, **CARDS[name]}
    about["provenance"] = about["provenance"].format(seed=seed)
    order = ["afferent_model", "name", "task", "contract", "sample_rate", "variants", "labels", "decision",
             "license", "provenance", "quality", "limits"]
    about |= {"sample_rate": RATE, "variants": [file_row(os.path.join(MODELS, name), f"{name}_{v}.pte", VARIANTS[v][0]) for v in VARIANTS],
              "license": "Apache-2.0", "quality": {}}
    return {key: about[key] for key in order if key in about}


def export(name, seed):
    module, inputs, constants = program(name)
    os.makedirs(os.path.join(MODELS, name), exist_ok=True)
    for variant, (_, partitioners) in VARIANTS.items():
        buffer, operators = lower(module, inputs, constants, partitioners())
        write(os.path.join(MODELS, name, f"{name}_{variant}.pte"), buffer)
        print(f"{name}_{variant}.pte: {len(buffer)} bytes, "
              + ", ".join(f"{op} x{n}" for op, n in sorted(operators.items())), flush=True)
    write_card(os.path.join(MODELS, name), card(name, seed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(CARDS))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    for package in arguments.names:
        export(package, arguments.seed)
