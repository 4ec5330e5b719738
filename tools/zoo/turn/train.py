"""Trains the turn detector on the corpus, with random noise, level, silence and vocal tract length.
"""
import argparse
import math
import os
import time

import corpus
import numpy as np
import torch
from corpus import MAX_SILENCE, SILENCE_MS, WINDOW
from model import BANDS, DFT, HOP, MELS, TurnDetector, filterbank
from paths import WORK
from torch.nn import functional as F

from checkpoint import load_checkpoint, save, update_average
from models import mel_filterbank
from speech import ACTIVE_RMS, SAMPLE_RATE

STEPS, BATCH_SIZE, PEAK_LR, WARMUP_STEPS = 2500, 48, 3e-3, 100
# Decay of the moving average of the weights, which is the result.
AVERAGE_DECAY = 0.998
NOISE_PROBABILITY, SNR_DB, BABBLE_PROBABILITY = 0.75, (5, 30), 0.2
LEVEL_DB = (-16, 8)
MASK_PROBABILITY = 0.5
LABEL_SMOOTHING = 0.02
CHECKPOINT_EVERY = 250


class Dataset:
    """Endings of a split, and noise clips."""

    def __init__(self, split):
        shards = [np.load(corpus.shard_path(split, i)) for i in range(corpus.SHARDS[split][1])]
        self.sounds = np.concatenate([shard["sounds"] for shard in shards])
        self.ends = np.concatenate([shard["ends"] for shard in shards]).astype(np.float32)
        self.kinds = np.concatenate([shard["kinds"] for shard in shards])
        self.clips = np.load(corpus.noise_path())["clips"]

    def draw_noise(self, rng):
        """Draws noise or babble of RMS one."""
        if rng.random() < BABBLE_PROBABILITY:
            babble = sum(np.roll(self.sounds[rng.integers(len(self.sounds))][:WINDOW].astype(np.float32),
                                 rng.integers(WINDOW)) for _ in range(rng.integers(3, 7)))
            return babble / (np.sqrt((babble ** 2).mean()) + 1e-9)
        clip = self.clips[rng.integers(len(self.clips))]
        start = rng.integers(len(clip) - WINDOW)
        return clip[start:start + WINDOW].astype(np.float32)

    def augmented_window(self, rng, i):
        """Returns the window of an item with random silence, noise and level."""
        silence = rng.integers(SILENCE_MS[0] * SAMPLE_RATE // 1000, MAX_SILENCE + 1)
        sound = self.sounds[i][silence:silence + WINDOW].astype(np.float32) / 32767
        if rng.random() < NOISE_PROBABILITY:
            sound = sound + self.draw_noise(rng) * ACTIVE_RMS * 10 ** (-rng.uniform(*SNR_DB) / 20)
        return sound * 10 ** (rng.uniform(*LEVEL_DB) / 20)


def warped_filterbanks():
    """Returns filters for vocal tract length perturbation. The pitch bins are not warped."""
    bins, size = filterbank()[MELS:], DFT[0] * DFT[1]
    banks = [np.concatenate([mel_filterbank(MELS, 60 * w, min(7600 * w, 7950), size), bins])
             for w in np.linspace(0.88, 1.12, 7)]
    return torch.stack([torch.from_numpy(bank.T.astype(np.float32)) for bank in banks])


def spec_augment(rng, features):
    """Masks a random span of bands and of time of an item (SpecAugment)."""
    if rng.random() < MASK_PROBABILITY:
        width = rng.integers(1, 8)
        start = rng.integers(0, BANDS - width)
        features[:, start:start + width] = 0
        width = rng.integers(1, 10)
        start = rng.integers(0, len(features) - width)
        features[start:start + width] = 0


def predict_logits(model, dataset, seed):
    """Returns the logits of all items, each augmented once."""
    rng, logits = np.random.default_rng(seed), []
    order = range(len(dataset.ends))
    with torch.no_grad():
        for i in range(0, len(order), BATCH_SIZE):
            windows = np.stack([dataset.augmented_window(rng, k) for k in order[i:i + BATCH_SIZE]])
            logits.append(model.forward_batch(torch.from_numpy(windows)))
    return torch.cat(logits).numpy()


def area_under_roc(scores, ends):
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    hits = ends > 0.5
    return (ranks[hits].sum() - hits.sum() * (hits.sum() + 1) / 2) / (hits.sum() * (~hits).sum())


def learning_rate(step, steps):
    return PEAK_LR * min(1, (step + 1) / WARMUP_STEPS) * (0.5 * (1 + math.cos(math.pi * step / steps)) + 1e-3)


def train(seed, steps):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    dataset, validation, model, banks = Dataset("train"), Dataset("validation"), TurnDetector(), warped_filterbanks()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.02, betas=(0.9, 0.98))
    average = {key: value.clone() for key, value in model.state_dict().items()}
    checkpoint, step, averaged_model = os.path.join(WORK, "turn-checkpoint.pt"), 0, TurnDetector().eval()
    if saved := load_checkpoint(checkpoint, steps, seed=seed):
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        average, step = saved["average"], saved["step"]
    print(f"turn: {sum(p.numel() for p in model.parameters())} parameters, {len(dataset.ends)} items", flush=True)
    start, first, total = time.time(), step, 0.0
    while step < steps:
        rng = np.random.default_rng([seed, step])
        picked = rng.integers(len(dataset.ends), size=BATCH_SIZE)
        model.train()
        sounds = torch.from_numpy(np.stack([dataset.augmented_window(rng, i) for i in picked]))
        with torch.no_grad():
            filters = banks[torch.from_numpy(rng.integers(len(banks), size=BATCH_SIZE))]
            windows = sounds.unfold(1, model.power.window.shape[0], HOP)
            features = model.features(model.power.forward_fft(windows, filters))
            for row in features:
                spec_augment(rng, row)
        targets = torch.from_numpy(dataset.ends[picked]) * (1 - 2 * LABEL_SMOOTHING) + LABEL_SMOOTHING
        loss = F.binary_cross_entropy_with_logits(model.logits(features)[:, 0], targets)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        update_average(average, model.state_dict(), step, AVERAGE_DECAY)
        step, total = step + 1, total + loss.item()
        if step % CHECKPOINT_EVERY == 0 or step == steps:
            averaged_model.load_state_dict(average)
            logits = predict_logits(averaged_model, validation, 1)
            is_wrong = (logits > 0) != (validation.ends > 0.5)
            errors = {kind: float(is_wrong[validation.kinds == kind].mean()) for kind in np.unique(validation.kinds)}
            print(f"turn: step {step} of {steps}, loss {total / CHECKPOINT_EVERY:.4f}, "
                  f"validation AUC {area_under_roc(logits, validation.ends):.4f}, error rates: "
                  + ", ".join(f"{kind} {rate:.3f}" for kind, rate in errors.items())
                  + f", {(time.time() - start) / (step - first):.3f} s/step", flush=True)
            total = 0.0
            save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average, "step": step,
                  "seed": seed}, checkpoint)
    save(average, os.path.join(WORK, "turn.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    train(arguments.seed, arguments.steps)
