"""Parts that the model cards (model.yaml) of all packages share."""
import hashlib
import os

import torch
import yaml


def variant_entry(folder, file, backend, precision="fp32"):
    """Returns the entry of a program in `variants`."""
    with open(os.path.join(folder, file), "rb") as program:
        content = program.read()
    return {"file": file, "backend": backend, "precision": precision, "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest()}


def shipped_variants(entries):
    """Returns the entries of `variants` without the portable program.

    The portable programs of asr, llm and tts are large, and no shipped graph loads them. `make.py`
    writes them next to the package, and Git ignores them. Evaluation skips what needs them if they
    do not exist, and fine-tuning requires them.
    """
    return [entry for entry in entries if entry["backend"] != "portable"]


def is_available(folder, file, measurement):
    """True if a program of a package exists; otherwise prints that a measurement is skipped."""
    exists = os.path.exists(os.path.join(folder, file))
    if not exists:
        print(f"skipped: {measurement}, because {file} does not exist; make.py of its package writes it", flush=True)
    return exists


def provenance(folder, data, script, checkpoint):
    """Returns the provenance of trained weights.

    If they were fine-tuned from the weights of the package, the command is appended to the
    provenance of its card.
    """
    run = torch.load(checkpoint, weights_only=True)
    if "command" not in run:
        raise SystemExit(f"{checkpoint} has no training command; delete it and train again")
    if not run["finetune"]:
        command = f"python tools/zoo/{script} --seed {run['seed']}"
        return f"Trained from random weights on {data} by tools/zoo: `{command}`, {run['step']} steps."
    last = f" Then `{run['command']}`."
    with open(os.path.join(folder, "model.yaml")) as file:
        return yaml.safe_load(file)["provenance"].removesuffix(last) + last


def write_card(folder, content):
    with open(os.path.join(folder, "model.yaml"), "w") as file:
        yaml.safe_dump(content, file, sort_keys=False, width=110, allow_unicode=True)
