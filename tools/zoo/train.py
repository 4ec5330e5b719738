"""Trains the voice activity detector or the wake word: train.py vad|wake_word."""
import argparse
import concurrent.futures
import math
import os
import time

import numpy as np
import torch
from torch.nn import functional as F

import data
from models import LogMel, Vad, WakeWord, constant, mel_matrix

BATCH = {"vad": 16, "wake_word": 32}
STEPS = {"vad": 2400, "wake_word": 1400}
# The learning rate follows half a cosine over SLOW steps; from step FALL it also falls to zero at AGAIN, and
# from there on it starts at half the peak and falls to zero at the last step.
SLOW = {"vad": 2400, "wake_word": 1700}
FALL = {"vad": 2400, "wake_word": 500}
AGAIN = {"vad": 2400, "wake_word": 1150}
PEAK_RATE = {"vad": 2e-3, "wake_word": 4e-3}
SAVE_EVERY = 100
AHEAD = 4


def vad_loss(model, sounds, targets):
    logits = model.whole(sounds)
    return F.binary_cross_entropy_with_logits(logits, targets)


def warped_filters():
    """Mel filters of shorter and longer vocal tracts."""
    return torch.stack([constant(mel_matrix(LogMel.BANDS, 60 * w, min(7600 * w, 7950), 512).T)
                        for w in np.linspace(0.86, 1.12, 9)])


FEATURES, WARPED = LogMel(), warped_filters()
PHRASE_WEIGHT = 2.0


def wake_loss(model, sounds, targets):
    with torch.no_grad():
        filters = WARPED[torch.randint(len(WARPED), (len(sounds),))]
        # One sound at a time stays in the cache.
        features = torch.cat([FEATURES.whole(sounds[i:i + 1], filters[i:i + 1]) for i in range(len(sounds))])
    logits, _ = model.logits(features, model.zero_state(len(sounds)))
    weight = torch.full((logits.shape[2],), PHRASE_WEIGHT)
    weight[0] = 1.0
    return F.cross_entropy(logits.reshape(-1, logits.shape[2]), targets.reshape(-1), weight,
                           ignore_index=data.IGNORED)


def load_pool():
    global pool
    torch.set_num_threads(1)
    pool = data.Pool()


def batch(name, seed, step):
    rng = np.random.default_rng([seed, step])
    if name == "vad":
        scenes = [data.vad_scene(rng, pool) for _ in range(BATCH[name])]
    else:
        scenes = [data.wake_scene(rng, pool, int(step >= AGAIN[name])) for _ in range(BATCH[name])]
    sounds, targets = zip(*scenes)
    return np.stack(sounds), np.stack(targets)


def batches(name, seed, steps):
    """Batches of the given steps, made ahead by another process."""
    with concurrent.futures.ProcessPoolExecutor(1, initializer=load_pool) as worker:
        ahead = [worker.submit(batch, name, seed, s) for s in steps[:AHEAD]]
        for i in range(len(steps)):
            sounds, targets = ahead.pop(0).result()
            if i + AHEAD < len(steps):
                ahead.append(worker.submit(batch, name, seed, steps[i + AHEAD]))
            yield torch.from_numpy(sounds), torch.from_numpy(targets)


def half_cosine(part):
    return 0.5 * (1 + math.cos(math.pi * min(1, max(0, part))))


def learning_rate(name, step, steps):
    if step >= AGAIN[name]:
        part = 0.5 * half_cosine((step - AGAIN[name]) / (steps - AGAIN[name]))
    else:
        part = half_cosine(step / SLOW[name])
        part *= half_cosine((step - FALL[name]) / max(1, AGAIN[name] - FALL[name]))
    return PEAK_RATE[name] * min(1, (step + 1) / 100) * (part + 1e-3)


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
    model.train()
    start, total, count = time.time(), 0.0, 0
    for sounds, targets in batches(name, seed, range(step, steps)):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(name, step, steps)
        torch.manual_seed(seed * 1_000_000 + step)
        loss = loss_of(model, sounds, targets)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimiser.step()
        total, count, step = total + loss.item(), count + 1, step + 1
        if step % SAVE_EVERY == 0 or step == steps:
            print(f"{name}: step {step} of {steps}, loss {total / count:.4f}, "
                  f"{time.time() - start:.0f} s", flush=True)
            total, count = 0.0, 0
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
