"""Trains the acoustic model, the vocoder or the speller: train.py acoustic|vocoder|speller."""
import argparse
import math
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import corpus
import networks
import source
import spelling
from checkpoint import resumed, save, update_mean
from corpus import HOP, WORK

STEPS = {"acoustic": 3200, "vocoder": 3000, "speller": 1600}
BATCH = {"acoustic": 24, "vocoder": 10, "speller": 128}
PEAK_RATE = {"acoustic": 2e-3, "vocoder": 2e-3, "speller": 3e-3}
FALL_FROM = 0.4
# What an error of pitch counts, and what it counts from which step on.
PITCH_WEIGHT, LATE_PITCH_WEIGHT, LATE = 0.5, 1.5, 2000
SEGMENT, EDGE = 72, 3
SAVE_EVERY = 100
# Of these the kept weights and statistics of norms are a running mean: those of the last batches alone are too rough.
KEPT_MEAN = {"acoustic": 0.99}
# From these steps on the norms use that mean of their statistics. Those of a batch, of clauses of one length, tell the length.
FROZEN = {"acoustic": 2700}


class Acoustic(nn.Module):
    """Encoder and decoder, trained together."""

    def __init__(self, symbols):
        super().__init__()
        self.encoder, self.decoder = networks.Encoder(symbols), networks.Decoder()


def prepared(item):
    """Arrays of an item for the acoustic model."""
    token, places = networks.placed(item.seconds)
    return (np.array([t.phone for t in item.tokens]), item.features, item.seconds / networks.DURATION_UNIT_S, token, places,
            networks.condition(item.mel, item.pitch))


def padded(arrays, shape):
    out = np.zeros((len(arrays), *shape), arrays[0].dtype)
    for row, array in zip(out, arrays):
        row[tuple(slice(0, n) for n in array.shape)] = array
    return torch.from_numpy(out)


def acoustic_batch(items):
    ids, features, lengths, token, places, target = zip(*items)
    tokens, hops = max(map(len, ids)), max(map(len, token))
    ones = [np.ones((1, len(i)), np.float32) for i in ids]
    steps = [np.ones((1, len(t) // 2), np.float32) for t in token]
    return (padded(ids, (tokens,)), padded(features, (tokens, features[0].shape[1])), padded(lengths, (tokens,)),
            padded(ones, (1, tokens)), padded(token, (hops,)), padded(places, (hops, networks.PLACES)),
            padded(target, (target[0].shape[0], hops)), padded(steps, (1, hops // 2)))


def paired(hidden, token, places):
    """The decoder's input: what the encoder says of the token of each hop and the place in it, two hops a step."""
    of_hop = torch.cat([hidden.gather(2, token[:, None].expand(-1, hidden.shape[1], -1)), places.transpose(1, 2)], 1)
    batch, rows, hops = of_hop.shape
    return of_hop.reshape(batch, rows, hops // 2, 2).permute(0, 3, 1, 2).reshape(batch, 2 * rows, hops // 2)


def decoded(model, batch):
    """Durations and spectrum that the model gives for true durations."""
    ids, features, _, mask, token, places, _, steps = batch
    hidden, lengths = model.encoder(ids, features, mask)
    return lengths, model.decoder(paired(hidden.float(), token, places), steps)


def acoustic_loss(model, batch):
    *batch, pitch_weight = batch
    _, _, true_lengths, mask, _, _, target, steps = batch
    with torch.autocast("cpu", torch.bfloat16):
        lengths, found = decoded(model, batch)
    lengths, found = lengths.float(), found.float()
    # The silences around a clause have their own, fixed length.
    inner = mask[:, 0].clone()
    inner[:, 0] = 0
    inner.scatter_(1, (mask[:, 0].sum(1, keepdim=True) - 1).long(), 0)
    hop = steps[:, 0].repeat_interleave(2, 1)
    voiced = hop * target[:, -1]
    mel = ((found[:, :-2] - target[:, :-2]).abs().mean(1) * hop).sum() / hop.sum()
    length = (F.smooth_l1_loss(lengths, true_lengths, reduction="none", beta=0.1) * inner).sum() / inner.sum()
    pitch = ((found[:, -2] - target[:, -2]).abs() * voiced).sum() / voiced.sum()
    voicing = (F.binary_cross_entropy_with_logits(found[:, -1], target[:, -1], reduction="none") * hop).sum() / hop.sum()
    return mel + length + pitch_weight * pitch + 0.2 * voicing, {"mel": mel, "length": length, "pitch": pitch, "voicing": voicing}


def acoustic(seed):
    torch.manual_seed(seed)
    _, symbols = corpus.load("lexicon")
    items = [prepared(item) for item in corpus.load("train")]

    def batch(step):
        rng = np.random.default_rng([seed, step])
        # Clauses of like length, so that little of a batch is padding.
        near = int(rng.integers(len(items) - 8 * BATCH["acoustic"]))
        by_length = rng.choice(8 * BATCH["acoustic"], BATCH["acoustic"], replace=False) + near
        return *acoustic_batch([ordered[i] for i in by_length]), LATE_PITCH_WEIGHT if step >= LATE else PITCH_WEIGHT
    ordered = sorted(items, key=lambda item: len(item[3]))
    return Acoustic(len(symbols) + 2), batch, acoustic_loss


def spectral_loss(found, true):
    """Distance of two batches of sound at several resolutions."""
    total = 0
    for window in (256, 512, 1024, 2048):
        shape = torch.hann_window(window)
        a, b = (torch.stft(x, window, window // 4, window=shape, return_complex=True).abs() for x in (found, true))
        total = total + (torch.log(a + 1e-3) - torch.log(b + 1e-3)).abs().mean() + 0.5 * (a - b).norm() / (b.norm() + 1e-3)
    return total / 4


def vocoder_loss(model, batch):
    x, pulses, noise, sound = batch
    with torch.autocast("cpu", torch.bfloat16):
        found = model(x, pulses, noise)
    inside = found[:, EDGE:-EDGE].reshape(len(found), -1)
    loss = spectral_loss(inside, sound[:, EDGE * HOP:-EDGE * HOP])
    return loss, {"spectral": loss}


def vocoder(seed):
    torch.manual_seed(seed)
    items = [item for item in corpus.load("train") if len(item.pitch) > SEGMENT]
    where = [source.pulses(item.pitch) for item in items]

    def segment(rng):
        i = int(rng.integers(len(items)))
        item, first = items[i], int(rng.integers(len(items[i].pitch) - SEGMENT))
        cut = slice(first, first + SEGMENT)
        return (networks.condition(item.mel[cut], item.pitch[cut]), source.pulse_spectra(*where[i], first, SEGMENT),
                source.noise_spectra(rng, SEGMENT), item.sound[first * HOP:(first + SEGMENT) * HOP].astype(np.float32) / 32767)

    def batch(step):
        rng = np.random.default_rng([seed, step])
        return tuple(torch.from_numpy(np.stack(part)) for part in zip(*(segment(rng) for _ in range(BATCH["vocoder"]))))
    return networks.Vocoder(), batch, vocoder_loss


def speller(seed):
    torch.manual_seed(seed)
    lexicon, _ = corpus.load("lexicon")
    inventory = spelling.stressed_symbols(lexicon)
    found, _ = spelling.pairs(lexicon, seed)

    def batch(step):
        return spelling.batch(np.random.default_rng([seed, step]), found, inventory, BATCH["speller"])
    return networks.Speller(len(inventory) + 1), batch, spelling.loss


def learning_rate(name, step, steps):
    falling = max(0, step / steps - FALL_FROM) / (1 - FALL_FROM)
    return PEAK_RATE[name] * min(1, (step + 1) / 100) * (0.5 * (1 + math.cos(math.pi * falling)) + 1e-3)


def freeze(model, mean):
    """Let the norms of a model in training use the kept statistics."""
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm1d) and module.training:
            module.eval()
            module.running_mean.copy_(mean[f"{name}.running_mean"])
            module.running_var.copy_(mean[f"{name}.running_var"])


def train(name, seed, steps):
    torch.set_num_threads(1)
    model, batch, loss_of = {"acoustic": acoustic, "vocoder": vocoder, "speller": speller}[name](seed)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=1e-3, betas=(0.9, 0.98))
    checkpoint, step, kept_mean = os.path.join(WORK, f"{name}-checkpoint.pt"), 0, KEPT_MEAN.get(name, 0.0)
    mean = {key: value.clone() for key, value in model.state_dict().items()}
    if saved := resumed(checkpoint, steps, seed=seed):
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        mean, step = saved["mean"], saved["step"]
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, {steps} steps", flush=True)
    model.train()
    start, totals, first = time.time(), {}, step
    while step < steps:
        if step >= FROZEN.get(name, steps):
            freeze(model, mean)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(name, step, steps)
        loss, parts = loss_of(model, batch(step))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimiser.step()
        update_mean(mean, model.state_dict(), step, kept_mean)
        for key, value in parts.items():
            totals[key] = totals.get(key, 0) + value.item() / SAVE_EVERY
        step += 1
        if step % SAVE_EVERY == 0 or step == steps:
            print(f"{name}: step {step} of {steps}, " + ", ".join(f"{k} {v:.4f}" for k, v in totals.items())
                  + f", {(time.time() - start) / (step - first):.3f} s a step", flush=True)
            totals = {}
            save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "mean": mean, "step": step, "seed": seed},
                 checkpoint)
    save(mean, os.path.join(WORK, f"{name}.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(STEPS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    train(arguments.name, arguments.seed, arguments.steps or STEPS[arguments.name])
