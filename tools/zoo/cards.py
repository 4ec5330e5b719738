"""What the model.yaml files of the packages have in common."""
import hashlib
import os

import torch
import yaml


def file_row(folder, file, backend, precision="fp32"):
    """A program of a package as model.yaml lists it."""
    with open(os.path.join(folder, file), "rb") as opened:
        content = opened.read()
    return {"file": file, "backend": backend, "precision": precision, "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest()}


def provenance(folder, what, script, checkpoint):
    """Where the weights of a training come from; of one that went on from the package, behind what its card says of that."""
    run = torch.load(checkpoint, weights_only=True)
    if "command" not in run:
        raise SystemExit(f"{checkpoint} does not say of which run it is: train anew")
    if not run["go_on"]:
        return f"Trained from random weights on {what} by tools/zoo: `python tools/zoo/{script} --seed {run['seed']}`, {run['step']} steps."
    last = f" Then `{run['command']}`."
    with open(os.path.join(folder, "model.yaml")) as file:
        return yaml.safe_load(file)["provenance"].removesuffix(last) + last


def write_card(folder, content):
    with open(os.path.join(folder, "model.yaml"), "w") as file:
        yaml.safe_dump(content, file, sort_keys=False, width=110, allow_unicode=True)
