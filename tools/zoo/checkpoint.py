"""What the zoo keeps: files that are whole or not there, so that a run continues, and means of weights."""
import os

import numpy as np
import torch


def save(content, path):
    torch.save(content, f"{path}.part")
    os.replace(f"{path}.part", path)


def resumed(path, steps, **run):
    """What a training has kept at `path`; None where it begins. What another run kept there is refused."""
    if not os.path.exists(path):
        return None
    saved = torch.load(path, weights_only=True)
    other = [f"{name} {saved.get(name, 'unknown')}, not {value}" for name, value in run.items() if saved.get(name) != value]
    if saved["step"] > steps:
        other.append(f"{saved['step']} steps, more than {steps}")
    if other:
        raise SystemExit(f"{path} is of a run with {' and '.join(other)}: move it away to begin anew")
    return saved


def save_arrays(path, **arrays):
    with open(path + ".part", "wb") as file:
        np.savez(file, **arrays)
    os.replace(path + ".part", path)


def update_mean(mean, state, step, most):
    """Move a running mean of weights, which starts as a plain one, towards the present ones; `most` of it is kept."""
    kept = min(most, step / (step + 10))
    for key, value in state.items():
        if value.is_floating_point():
            mean[key].lerp_(value, 1 - kept)
        else:
            mean[key].copy_(value)
