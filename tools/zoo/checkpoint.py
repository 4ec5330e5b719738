"""Checkpoints and data files, written atomically; moving averages of weights."""
import os

import numpy as np
import torch


def save(content, path):
    torch.save(content, f"{path}.part")
    os.replace(f"{path}.part", path)


def load_checkpoint(path, steps, **run):
    """Loads the checkpoint at `path`; None if there is none. Exits if it belongs to another run."""
    if not os.path.exists(path):
        return None
    saved = torch.load(path, weights_only=True)
    mismatches = [f"{name} {saved.get(name, 'unknown')} instead of {value}" for name, value in run.items()
                  if saved.get(name) != value]
    if saved["step"] > steps:
        mismatches.append(f"{saved['step']} steps, more than {steps}")
    if mismatches:
        raise SystemExit(f"{path} belongs to a run with {' and '.join(mismatches)}; move it away to start a new run")
    return saved


def save_arrays(path, **arrays):
    with open(path + ".part", "wb") as file:
        np.savez(file, **arrays)
    os.replace(path + ".part", path)


def update_average(average, state, step, max_decay):
    """Updates an exponential moving average of weights. Early steps use a smaller decay."""
    decay = min(max_decay, step / (step + 10))
    for key, value in state.items():
        if value.is_floating_point():
            average[key].lerp_(value, 1 - decay)
        else:
            average[key].copy_(value)
