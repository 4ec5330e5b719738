"""Trains the turn detector on the pool, each time with other noise, level, silence and vocal tract."""
import argparse
import math
import os
import time

import numpy as np
import pauses
import torch
from model import BINS, MELS, Turn, filters
from paths import WORK
from pauses import MOST_SILENCE, SILENCE_MS, WINDOW
from torch.nn import functional as F

from checkpoint import resumed, save, update_mean
from models import mel_matrix
from speech import ACTIVE_LEVEL, RATE

STEPS, BATCH, PEAK_RATE, WARM = 2500, 48, 3e-3, 100
KEPT_MEAN = 0.998
NOISE_SHARE, SNR_DB, BABBLE_SHARE = 0.75, (5, 30), 0.2
LEVEL_DB = (-16, 8)
MASKED_SHARE = 0.5
SAVE_EVERY = 250


class Pool:
    """Endings of a part, and noises."""

    def __init__(self, part):
        found = [np.load(pauses.shard_path(part, i)) for i in range(pauses.POOL[part][1])]
        self.sounds = np.concatenate([f["sounds"] for f in found])
        self.ends = np.concatenate([f["ends"] for f in found]).astype(np.float32)
        self.kinds = np.concatenate([f["kinds"] for f in found])
        self.clips = np.load(os.path.join(WORK, "noises.npz"))["clips"]

    def noise(self, rng):
        """Noise or distant talk of RMS one."""
        if rng.random() < BABBLE_SHARE:
            talk = sum(np.roll(self.sounds[rng.integers(len(self.sounds))][:WINDOW].astype(np.float32), rng.integers(WINDOW))
                       for _ in range(rng.integers(3, 7)))
            return talk / (np.sqrt((talk ** 2).mean()) + 1e-9)
        clip = self.clips[rng.integers(len(self.clips))]
        start = rng.integers(len(clip) - WINDOW)
        return clip[start:start + WINDOW].astype(np.float32)

    def heard(self, rng, i):
        """What the detector hears of an item: some silence behind it, noise, a level."""
        silence = rng.integers(SILENCE_MS[0] * RATE // 1000, MOST_SILENCE + 1)
        sound = self.sounds[i][silence:silence + WINDOW].astype(np.float32) / 32767
        if rng.random() < NOISE_SHARE:
            sound = sound + self.noise(rng) * ACTIVE_LEVEL * 10 ** (-rng.uniform(*SNR_DB) / 20)
        return sound * 10 ** (rng.uniform(*LEVEL_DB) / 20)


def warped():
    """The filters of shorter and longer vocal tracts: the mel bands move, the bins of the pitch stay."""
    bins = filters()[MELS:]
    return torch.stack([torch.from_numpy(np.concatenate([mel_matrix(MELS, 60 * w, min(7600 * w, 7950), 1024), bins]).T.astype(np.float32))
                        for w in np.linspace(0.88, 1.12, 7)])


def mask(rng, features):
    """Blank out a few bands and a short time of one item."""
    if rng.random() < MASKED_SHARE:
        width = rng.integers(1, 8)
        start = rng.integers(0, MELS + len(BINS) - width)
        features[:, start:start + width] = 0
        width = rng.integers(1, 10)
        start = rng.integers(0, len(features) - width)
        features[start:start + width] = 0


def scores(model, pool, seed):
    """Logits of a pool's items, each heard once."""
    rng, found = np.random.default_rng(seed), []
    order = range(len(pool.ends))
    with torch.no_grad():
        for i in range(0, len(order), BATCH):
            found.append(model.in_training(torch.from_numpy(np.stack([pool.heard(rng, k) for k in order[i:i + BATCH]]))))
    return torch.cat(found).numpy()


def area(scores, ends):
    """The area under the curve of hits over false alarms."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    hits = ends > 0.5
    return (ranks[hits].sum() - hits.sum() * (hits.sum() + 1) / 2) / (hits.sum() * (~hits).sum())


def train(seed, steps):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    pool, tuning, model, tracts = Pool("training"), Pool("tuning"), Turn(), warped()
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.02, betas=(0.9, 0.98))
    mean = {key: value.clone() for key, value in model.state_dict().items()}
    checkpoint, step, averaged = os.path.join(WORK, "turn-checkpoint.pt"), 0, Turn().eval()
    if saved := resumed(checkpoint, steps, seed=seed):
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        mean, step = saved["mean"], saved["step"]
    print(f"turn: {sum(p.numel() for p in model.parameters())} parameters, {len(pool.ends)} items", flush=True)
    start, first, total = time.time(), step, 0.0
    while step < steps:
        rng = np.random.default_rng([seed, step])
        picked = rng.integers(len(pool.ends), size=BATCH)
        model.train()
        sounds = torch.from_numpy(np.stack([pool.heard(rng, i) for i in picked]))
        with torch.no_grad():
            chosen = tracts[torch.from_numpy(rng.integers(len(tracts), size=BATCH))]
            windows = sounds.unfold(1, model.power.window.shape[0], 320)
            features = model.features(model.power.in_batch(windows, chosen))
            for row in features:
                mask(rng, row)
        targets = torch.from_numpy(pool.ends[picked]) * 0.96 + 0.02
        loss = F.binary_cross_entropy_with_logits(model.logits(features)[:, 0], targets)
        for group in optimiser.param_groups:
            group["lr"] = PEAK_RATE * min(1, (step + 1) / WARM) * (0.5 * (1 + math.cos(math.pi * step / steps)) + 1e-3)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimiser.step()
        update_mean(mean, model.state_dict(), step, KEPT_MEAN)
        step, total = step + 1, total + loss.item()
        if step % SAVE_EVERY == 0 or step == steps:
            averaged.load_state_dict(mean)
            found = scores(averaged, tuning, 1)
            wrong = {kind: float(((found > 0) != (tuning.ends > 0.5))[tuning.kinds == kind].mean()) for kind in np.unique(tuning.kinds)}
            print(f"turn: step {step} of {steps}, loss {total / SAVE_EVERY:.4f}, area on tuning {area(found, tuning.ends):.4f}, wrong: "
                  + ", ".join(f"{kind} {share:.3f}" for kind, share in wrong.items())
                  + f", {(time.time() - start) / (step - first):.3f} s a step", flush=True)
            total = 0.0
            save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "mean": mean, "step": step,
                  "seed": seed}, checkpoint)
    save(mean, os.path.join(WORK, "turn.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    train(arguments.seed, arguments.steps)
