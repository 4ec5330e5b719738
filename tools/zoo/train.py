"""Trains the voice activity detector or the wake word: train.py vad|wake_word."""
import argparse
import concurrent.futures
import functools
import math
import os
import time

import numpy as np
import torch
from torch.nn import functional as F

import data
from checkpoint import resumed, save, update_mean
from models import LogMel, Vad, WakeWord, constant, mel_matrix

BATCH = {"vad": 16, "wake_word": 24}
STEPS = {"vad": 16000, "wake_word": 10800}
PEAK_RATE = {"vad": 2e-3, "wake_word": 3e-3}
# The learning rate falls along half a cosine from this part of the training on, to zero at the last step.
FALL_FROM = {"vad": 0, "wake_word": 7 / 18}
# From these steps on, the wake word trains on its whole pool and with more ordinary speech.
WHOLE_POOL, ORDINARY = 900, 1100
# The weights of the wake word that are kept are a running mean.
KEPT_MEAN = 0.998
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
PHRASE_WEIGHTS = [1.0, 2.0, 2.0, 2.4]
EQUALISED_SHARE, EQUALISED_DB = 0.5, 5.0


def equaliser(rng):
    """A smooth random gain per band, as of a microphone or a mouth."""
    if rng.random() >= EQUALISED_SHARE:
        return np.ones(LogMel.BANDS, np.float32)
    knots = rng.normal(0, EQUALISED_DB, 6)
    level_db = np.interp(np.linspace(0, 5, LogMel.BANDS), np.arange(6), knots - knots.mean())
    return (10 ** (level_db / 10)).astype(np.float32)


def wake_features(rng, sound):
    """Features of a sound, of a vocal tract and a microphone drawn for it."""
    filters = WARPED[rng.integers(len(WARPED))] * torch.from_numpy(equaliser(rng))
    with torch.no_grad():
        return FEATURES.whole(torch.from_numpy(sound)[None], filters)[0].numpy()


def wake_loss(model, features, targets):
    logits = model.in_training(features)
    return F.cross_entropy(logits.reshape(-1, logits.shape[2]), targets.reshape(-1), torch.tensor(PHRASE_WEIGHTS),
                           ignore_index=data.IGNORED)


@functools.lru_cache(1)
def pool(name, part):
    return data.Pool(name, part)


def batch(name, seed, step):
    """Inputs and targets of a step, which depend on nothing else."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([seed, step])
    if name == "vad":
        inputs, targets = zip(*(data.vad_scene(rng, pool(name, 1.0)) for _ in range(BATCH[name])))
    else:
        spoken = pool(name, data.FIRST if step < WHOLE_POOL else 1.0)
        scenes = [data.wake_scene(rng, spoken, int(step >= ORDINARY)) for _ in range(BATCH[name])]
        inputs, targets = zip(*((wake_features(rng, sound), target) for sound, target in scenes))
    return np.stack(inputs), np.stack(targets)


def batches(name, seed, steps):
    """Batches of the given steps, made ahead by another process."""
    with concurrent.futures.ProcessPoolExecutor(1) as worker:
        ahead = [worker.submit(batch, name, seed, s) for s in steps[:AHEAD]]
        for i in range(len(steps)):
            inputs, targets = ahead.pop(0).result()
            if i + AHEAD < len(steps):
                ahead.append(worker.submit(batch, name, seed, steps[i + AHEAD]))
            yield torch.from_numpy(inputs), torch.from_numpy(targets)


def half_cosine(part):
    return 0.5 * (1 + math.cos(math.pi * min(1, max(0, part))))


def learning_rate(name, step, steps):
    falling = half_cosine((step / steps - FALL_FROM[name]) / (1 - FALL_FROM[name]))
    return PEAK_RATE[name] * min(1, (step + 1) / 100) * (falling + 1e-3)


def train(name, seed, steps):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, loss_of = (Vad(), vad_loss) if name == "vad" else (WakeWord(), wake_loss)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01, betas=(0.9, 0.98))
    mean = {key: value.clone() for key, value in model.state_dict().items()}
    checkpoint = os.path.join(data.WORK, f"{name}-checkpoint.pt")
    step = 0
    if saved := resumed(checkpoint, steps, seed=seed):
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        mean, step = saved["mean"], saved["step"]
    model.train()
    start, total, count = time.time(), 0.0, 0
    for inputs, targets in batches(name, seed, range(step, steps)):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(name, step, steps)
        loss = loss_of(model, inputs, targets)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimiser.step()
        update_mean(mean, model.state_dict(), step, KEPT_MEAN)
        total, count, step = total + loss.item(), count + 1, step + 1
        if step % SAVE_EVERY == 0 or step == steps:
            print(f"{name}: step {step} of {steps}, loss {total / count:.4f}, "
                  f"{time.time() - start:.0f} s", flush=True)
            total, count = 0.0, 0
            save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "mean": mean, "step": step,
                  "seed": seed}, checkpoint)
    save(model.state_dict() if name == "vad" else mean, os.path.join(data.WORK, f"{name}.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["vad", "wake_word"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    train(arguments.name, arguments.seed, arguments.steps or STEPS[arguments.name])
