"""Trains the acoustic model, the vocoder or the G2P network: train.py acoustic|vocoder|g2p."""
import argparse
import math
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import corpus
import excitation
import g2p
import networks
from checkpoint import load_checkpoint, save, update_average
from corpus import HOP, WORK
from language import CODE

STEPS = {"en": {"acoustic": 3200, "vocoder": 3000, "g2p": 1600},
         "es": {"acoustic": 2400, "vocoder": 2200, "g2p": 500}}[CODE]
BATCH_SIZE = {"acoustic": 24, "vocoder": 10, "g2p": 128}
PEAK_LR = {"acoustic": 2e-3, "vocoder": 2e-3, "g2p": 3e-3}
WARMUP_STEPS = 100
# Fraction of the steps after which the learning rate decays along a half cosine.
DECAY_FROM = 0.4
# Weights of the loss terms. The weight of pitch increases at a step.
PITCH_WEIGHT, LATE_PITCH_WEIGHT, LATE_PITCH_STEP = 0.5, 1.5, 2000
VOICING_WEIGHT = 0.2
# Hops of a training segment of the vocoder, and hops at each end that the loss ignores.
SEGMENT_HOPS, EDGE_HOPS = 72, 3
# A batch of the acoustic model is drawn from this many times its size of clauses of similar length.
LENGTH_POOL = 8
CHECKPOINT_EVERY = 100
# Decay of the moving average of weights and batch statistics; 0 is the last step.
AVERAGE_DECAY = {"acoustic": 0.99}
# Share of the steps after which batch normalization uses the averaged statistics, as in inference. Those of a
# batch depend on the length of its clauses.
FREEZE_NORM_SHARE = {"acoustic": 27 / 32}


class Acoustic(nn.Module):
    """Acoustic model: encoder and decoder, trained together."""

    def __init__(self, symbols):
        super().__init__()
        self.encoder, self.decoder = networks.Encoder(symbols), networks.Decoder()


def to_arrays(item):
    """Returns the arrays of an item that the acoustic model needs."""
    token, positions = networks.expand_durations(item.seconds)
    return (np.array([t.phone for t in item.tokens]), item.features, item.seconds / networks.DURATION_UNIT_S, token,
            positions, networks.vocoder_input(item.mel, item.pitch))


def pad(arrays, shape):
    out = np.zeros((len(arrays), *shape), arrays[0].dtype)
    for row, array in zip(out, arrays):
        row[tuple(slice(0, n) for n in array.shape)] = array
    return torch.from_numpy(out)


def collate_acoustic(items):
    ids, features, durations, token, positions, target = zip(*items)
    tokens, hops = max(map(len, ids)), max(map(len, token))
    token_mask = [np.ones((1, len(i)), np.float32) for i in ids]
    step_mask = [np.ones((1, len(t) // 2), np.float32) for t in token]
    return (pad(ids, (tokens,)), pad(features, (tokens, features[0].shape[1])), pad(durations, (tokens,)),
            pad(token_mask, (1, tokens)), pad(token, (hops,)), pad(positions, (hops, networks.POSITION_FEATURES)),
            pad(target, (target[0].shape[0], hops)), pad(step_mask, (1, hops // 2)))


def decoder_input(hidden, token, positions):
    """Expands hidden vectors to hops, appends the position features, and joins two hops to a step.
    """
    of_hop = torch.cat([hidden.gather(2, token[:, None].expand(-1, hidden.shape[1], -1)), positions.transpose(1, 2)], 1)
    batch, rows, hops = of_hop.shape
    return of_hop.reshape(batch, rows, hops // 2, 2).permute(0, 3, 1, 2).reshape(batch, 2 * rows, hops // 2)


def predict(model, batch):
    """Returns predicted durations, and the spectrum predicted for true durations (teacher forcing).
    """
    ids, features, _, mask, token, positions, _, step_mask = batch
    hidden, durations = model.encoder(ids, features, mask)
    return durations, model.decoder(decoder_input(hidden.float(), token, positions), step_mask)


def acoustic_loss(model, batch):
    *batch, pitch_weight = batch
    _, _, true_durations, mask, _, _, target, step_mask = batch
    with torch.autocast("cpu", torch.bfloat16):
        durations, spectrum = predict(model, batch)
    durations, spectrum = durations.float(), spectrum.float()
    # The silences around a clause have fixed lengths.
    inner = mask[:, 0].clone()
    inner[:, 0] = 0
    inner.scatter_(1, (mask[:, 0].sum(1, keepdim=True) - 1).long(), 0)
    hop = step_mask[:, 0].repeat_interleave(2, 1)
    voiced = hop * target[:, -1]
    mel = ((spectrum[:, :-2] - target[:, :-2]).abs().mean(1) * hop).sum() / hop.sum()
    duration = (F.smooth_l1_loss(durations, true_durations, reduction="none", beta=0.1) * inner).sum() / inner.sum()
    pitch = ((spectrum[:, -2] - target[:, -2]).abs() * voiced).sum() / voiced.sum()
    voicing = F.binary_cross_entropy_with_logits(spectrum[:, -1], target[:, -1], reduction="none")
    voicing = (voicing * hop).sum() / hop.sum()
    return (mel + duration + pitch_weight * pitch + VOICING_WEIGHT * voicing,
            {"mel": mel, "duration": duration, "pitch": pitch, "voicing": voicing})


def acoustic(seed):
    """Returns the model, a function from a step to its batch, and the loss function."""
    torch.manual_seed(seed)
    _, symbols = corpus.load("lexicon")
    items = [to_arrays(item) for item in corpus.load("train")]
    pool_size = LENGTH_POOL * BATCH_SIZE["acoustic"]

    def batch(step):
        rng = np.random.default_rng([seed, step])
        # Clauses of similar length, to limit padding.
        first = int(rng.integers(len(items) - pool_size))
        indices = rng.choice(pool_size, BATCH_SIZE["acoustic"], replace=False) + first
        pitch_weight = LATE_PITCH_WEIGHT if step >= LATE_PITCH_STEP else PITCH_WEIGHT
        return *collate_acoustic([by_length[i] for i in indices]), pitch_weight
    by_length = sorted(items, key=lambda item: len(item[3]))
    return Acoustic(len(symbols) + 2), batch, acoustic_loss


def multi_resolution_stft_loss(predicted, target):
    """Returns the spectral distance of two batches of sound, averaged over several window lengths.
    """
    total = 0
    for window in (256, 512, 1024, 2048):
        shape = torch.hann_window(window)
        a, b = (torch.stft(x, window, window // 4, window=shape, return_complex=True).abs()
                for x in (predicted, target))
        log_distance = (torch.log(a + 1e-3) - torch.log(b + 1e-3)).abs().mean()
        total = total + log_distance + 0.5 * (a - b).norm() / (b.norm() + 1e-3)
    return total / 4


def vocoder_loss(model, batch):
    x, pulses, noise, sound = batch
    with torch.autocast("cpu", torch.bfloat16):
        predicted = model(x, pulses, noise)
    inside = predicted[:, EDGE_HOPS:-EDGE_HOPS].reshape(len(predicted), -1)
    loss = multi_resolution_stft_loss(inside, sound[:, EDGE_HOPS * HOP:-EDGE_HOPS * HOP])
    return loss, {"spectral": loss}


def vocoder(seed):
    """Returns the model, a function from a step to its batch, and the loss function."""
    torch.manual_seed(seed)
    items = [item for item in corpus.load("train") if len(item.pitch) > SEGMENT_HOPS]
    pulses = [excitation.pulses(item.pitch) for item in items]

    def segment(rng):
        i = int(rng.integers(len(items)))
        item, first = items[i], int(rng.integers(len(items[i].pitch) - SEGMENT_HOPS))
        span = slice(first, first + SEGMENT_HOPS)
        samples = item.sound[first * HOP:(first + SEGMENT_HOPS) * HOP]
        return (networks.vocoder_input(item.mel[span], item.pitch[span]),
                excitation.pulse_spectra(*pulses[i], first, SEGMENT_HOPS),
                excitation.noise_spectra(rng, SEGMENT_HOPS), samples.astype(np.float32) / 32767)

    def batch(step):
        rng = np.random.default_rng([seed, step])
        segments = zip(*(segment(rng) for _ in range(BATCH_SIZE["vocoder"])))
        return tuple(torch.from_numpy(np.stack(part)) for part in segments)
    return networks.Vocoder(), batch, vocoder_loss


def grapheme_to_phoneme(seed):
    """Returns the model, a function from a step to its batch, and the loss function."""
    torch.manual_seed(seed)
    lexicon, _ = corpus.load("lexicon")
    symbols = g2p.stressed_symbols(lexicon)
    pairs, _ = g2p.word_pairs(lexicon, seed)

    def batch(step):
        return g2p.draw_batch(np.random.default_rng([seed, step]), pairs, symbols, BATCH_SIZE["g2p"])
    return networks.G2p(len(symbols) + 1), batch, g2p.ctc_loss


def learning_rate(name, step, steps):
    progress = max(0, step / steps - DECAY_FROM) / (1 - DECAY_FROM)
    return PEAK_LR[name] * min(1, (step + 1) / WARMUP_STEPS) * (0.5 * (1 + math.cos(math.pi * progress)) + 1e-3)


def freeze_norms(model, average):
    """Switches batch normalization to the averaged statistics."""
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm1d) and module.training:
            module.eval()
            module.running_mean.copy_(average[f"{name}.running_mean"])
            module.running_var.copy_(average[f"{name}.running_var"])


def train(name, seed, steps):
    torch.set_num_threads(1)
    create = {"acoustic": acoustic, "vocoder": vocoder, "g2p": grapheme_to_phoneme}[name]
    model, batch, loss_of = create(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-3, betas=(0.9, 0.98))
    checkpoint, step, decay = os.path.join(WORK, f"{name}-checkpoint.pt"), 0, AVERAGE_DECAY.get(name, 0.0)
    average = {key: value.clone() for key, value in model.state_dict().items()}
    if saved := load_checkpoint(checkpoint, steps, seed=seed):
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        average, step = saved["average"], saved["step"]
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, {steps} steps", flush=True)
    model.train()
    start, totals, first = time.time(), {}, step
    while step < steps:
        if step >= FREEZE_NORM_SHARE.get(name, 1) * steps:
            freeze_norms(model, average)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(name, step, steps)
        loss, parts = loss_of(model, batch(step))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimizer.step()
        update_average(average, model.state_dict(), step, decay)
        for key, value in parts.items():
            totals[key] = totals.get(key, 0) + value.item() / CHECKPOINT_EVERY
        step += 1
        if step % CHECKPOINT_EVERY == 0 or step == steps:
            print(f"{name}: step {step} of {steps}, " + ", ".join(f"{k} {v:.4f}" for k, v in totals.items())
                  + f", {(time.time() - start) / (step - first):.3f} s/step", flush=True)
            totals = {}
            save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average, "step": step,
                  "seed": seed}, checkpoint)
    save(average, os.path.join(WORK, f"{name}.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(STEPS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    train(arguments.name, arguments.seed, arguments.steps or STEPS[arguments.name])
