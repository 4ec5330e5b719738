"""Trains the voice activity detector or the wake word: train.py vad|wake_word."""
import argparse
import math
import os
import time

import numpy as np
import torch
from torch.nn import functional as F

import data
from models import LogMel, Vad, WakeWord

BATCH = {"vad": 16, "wake_word": 32}
STEPS = {"vad": 2400, "wake_word": 2400}
PEAK_RATE = {"vad": 2e-3, "wake_word": 4e-3}
SAVE_EVERY = 100


def vad_loss(model, sounds, targets):
    logits = model.whole(sounds)
    return F.binary_cross_entropy_with_logits(logits, targets)


def wake_loss(model, sounds, targets):
    with torch.no_grad():
        features = wake_loss.features.whole(sounds)
    logits, _ = model.logits(features, model.zero_state(len(sounds)))
    return F.cross_entropy(logits.reshape(-1, logits.shape[2]), targets.reshape(-1),
                           ignore_index=data.IGNORED)


wake_loss.features = LogMel()


def batch(rng, pool, name, size):
    scene = data.vad_scene if name == "vad" else data.wake_scene
    sounds, targets = zip(*(scene(rng, pool) for _ in range(size)))
    return torch.from_numpy(np.stack(sounds)), torch.from_numpy(np.stack(targets))


def learning_rate(peak, step, steps):
    return peak * min(1, (step + 1) / 100) * (0.5 * (1 + math.cos(math.pi * step / steps)) + 1e-3)


def train(name, seed, steps):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, loss_of = (Vad(), vad_loss) if name == "vad" else (WakeWord(), wake_loss)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01, betas=(0.9, 0.98))
    checkpoint = os.path.join(data.WORK, f"{name}-checkpoint.pt")
    step = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint, weights_only=True)
        if saved["steps"] == steps and saved["seed"] == seed:
            model.load_state_dict(saved["model"])
            optimiser.load_state_dict(saved["optimiser"])
            step = saved["step"]
    pool = data.Pool()
    model.train()
    start, total, made = time.time(), 0.0, 0.0
    while step < steps:
        begin = time.time()
        sounds, targets = batch(np.random.default_rng([seed, step]), pool, name, BATCH[name])
        made += time.time() - begin
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(PEAK_RATE[name], step, steps)
        loss = loss_of(model, sounds, targets)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimiser.step()
        total += loss.item()
        step += 1
        if step % SAVE_EVERY == 0 or step == steps:
            print(f"{name}: step {step} of {steps}, loss {total / SAVE_EVERY:.4f}, "
                  f"{time.time() - start:.0f} s of which data {made:.0f}", flush=True)
            total = 0.0
            torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step,
                        "steps": steps, "seed": seed}, checkpoint + ".part")
            os.replace(checkpoint + ".part", checkpoint)
    torch.save(model.state_dict(), os.path.join(data.WORK, f"{name}.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["vad", "wake_word"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    train(arguments.name, arguments.seed, arguments.steps or STEPS[arguments.name])
