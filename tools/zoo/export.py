"""Writes the packages log_mel, vad and wake_word: portable and XNNPACK programs, and model.yaml."""
import argparse
import collections
import os

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

from cards import variant_entry, write_card
from models import SAMPLE_RATE, LogMel, Vad, WakeWord
from streaming import MODELS, load_trained

# Backend and partitioners of each variant.
VARIANTS = {"xnnpack": ("XnnpackBackend", lambda: [XnnpackPartitioner()]),
            "portable": ("portable", lambda: [])}
PROVENANCE = ("Trained from random weights on synthetic speech of espeak-ng by tools/zoo: "
              "`python tools/zoo/make.py --seed {seed}`.")
SYNTHETIC_ONLY = "Trained and measured on synthetic English speech only; there is no measurement with people."
CARDS = {
    "log_mel": {
        "task": "features", "contract": "log_mel",
        "provenance": "Computed, not trained: fixed DFT and mel matrices, by `python tools/zoo/make.py`.",
        "limits": ["16 kHz only.", "The normalization is fixed: features follow the level of the sound."],
    },
    "vad": {
        "task": "voice_activity", "contract": "silero_vad", "provenance": PROVENANCE,
        "decision": {"threshold": 0.55, "neg_threshold": 0.45},
        "limits": [SYNTHETIC_ONLY,
                   "Not tried with children, singing, shouting, whispers or telephone sound.",
                   "Background talkers count as noise only if there are several of them."],
    },
    "wake_word": {
        "task": "keyword_spotting", "contract": "keyword_scores", "provenance": PROVENANCE,
        "labels": WakeWord.LABELS,
        "decision": {"threshold": {"hey afferent": 0.72, "stop": 0.6, "go": 0.6}, "smooth_ms": 200,
                     "refractory_ms": 1000},
        "limits": [SYNTHETIC_ONLY,
                   "stop and go are detected only between pauses of about a quarter of a second, not inside a sentence.",
                   "hey afferent needs no pause after it."],
    },
}


def build_module(name):
    """Returns (module, example inputs, constant methods) of a package."""
    if name == "log_mel":
        return (LogMel().eval(), (torch.randn(1, LogMel.CONTEXT + LogMel.WINDOW) * 0.1,),
                {"sample_rate": SAMPLE_RATE, "window_size": LogMel.WINDOW, "context_size": LogMel.CONTEXT,
                 "hop_size": LogMel.HOP})
    if name == "vad":
        return (load_trained(Vad(), "vad"),
                (torch.randn(1, Vad.CONTEXT + Vad.WINDOW) * 0.1, torch.zeros(2, 1, Vad.HIDDEN)),
                {"sample_rate": SAMPLE_RATE, "window_size": Vad.WINDOW, "context_size": Vad.CONTEXT})
    wake = load_trained(WakeWord(), "wake_word").fold_batch_norm()
    return (wake, (torch.randn(1, WakeWord.STEPS, WakeWord.BANDS), wake.initial_state().contiguous()),
            {"sample_rate": SAMPLE_RATE, "window_frames": WakeWord.STEPS, "feature_bins": WakeWord.BANDS})


def lower(module, inputs, constants, partitioners):
    """Lowers a module.

    Returns the bytes of the program and the number of calls of each operator.
    """
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
    """Returns the content of model.yaml, without measurements."""
    content = {"afferent_model": 1, "name": name, **CARDS[name]}
    content["provenance"] = content["provenance"].format(seed=seed)
    order = ["afferent_model", "name", "task", "contract", "sample_rate", "variants", "labels", "decision",
             "license", "provenance", "quality", "limits"]
    variants = [variant_entry(os.path.join(MODELS, name), f"{name}_{v}.pte", VARIANTS[v][0]) for v in VARIANTS]
    content |= {"sample_rate": SAMPLE_RATE, "variants": variants, "license": "Apache-2.0", "quality": {}}
    return {key: content[key] for key in order if key in content}


def export(name, seed):
    module, inputs, constants = build_module(name)
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
