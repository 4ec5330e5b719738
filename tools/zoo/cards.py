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


def provenance(folder, what, command, checkpoint):
    """Where the weights of a training come from; of one that went on from the package, behind what its card says of that."""
    went_on = torch.load(checkpoint, weights_only=True)["went_on"]
    if not went_on:
        return f"Trained from random weights on {what} by tools/zoo: `{command}`."
    with open(os.path.join(folder, "model.yaml")) as file:
        return f"{yaml.safe_load(file)['provenance']} Then `{went_on}`."


def write_card(folder, content):
    with open(os.path.join(folder, "model.yaml"), "w") as file:
        yaml.safe_dump(content, file, sort_keys=False, width=110, allow_unicode=True)
