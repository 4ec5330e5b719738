"""Trains the recogniser on the pool of utterances, each time with other noise, level, vocal tract and gaps."""
import argparse
import math
import os
import pathlib
import time

import numpy as np
import spoken
import torch
from model import LETTERS, STACK, Recogniser, Streaming, normalised
from paths import PACKAGE, WORK
from spoken import BANDS, FILTERS, FLOOR
from torch.nn import functional as F

from checkpoint import resumed, save, update_mean
from shipped import constants, fill
from speech import ACTIVE_LEVEL

STEPS, BATCH, PEAK_RATE, WARM = 15000, 32, 3e-3, 300
# The learning rate falls along half a cosine from this part of the training on.
FALL_FROM = 0.35
# What goes on from shipped weights starts with a lower rate, which falls from the start.
GO_ON_RATE, GO_ON_SAMPLES = 2e-3, 256
KEPT_MEAN = 0.999
PHONE_WEIGHT, PHONE_DELAY = 0.5, 2
SAVE_EVERY = 500
# Shards in memory at once, and the batches drawn from them before one is replaced.
WINDOW_SHARDS, BATCHES_PER_SHARD = 4, 32
# Silence or noise before and behind the utterances of a batch: a little, or in some batches much.
LEAD_HOPS, TAIL_HOPS = (0, 4), (15, 24)
MUCH_SHARE, MUCH_HOPS = 0.25, 110
NOISE_SHARE, BABBLE_SHARE = 0.85, 0.4
SNR_DB = (2, 30)
EMPTY = math.log(FLOOR / 100)
# Sound and noise add with random phases; a band of several bins averages them.
PHASE_SPREAD = torch.from_numpy(0.7 / np.sqrt(np.maximum(1, FILTERS.sum(0) ** 2 / (FILTERS ** 2).sum(0) / 1.5)))


class Shard:
    """Utterances of one file of the pool."""

    def __init__(self, path, phones):
        content = np.load(path)
        ends = np.cumsum(content["sizes"])
        self.mels = [torch.from_numpy(m) for m in np.split(content["mels"], ends[:-1])]
        self.texts = [str(t) for t in content["texts"]]
        self.letters = [torch.tensor([LETTERS.index(c) for c in text]) for text in self.texts]
        cut = np.cumsum(content["counts"])[:-1]
        self.phones = [hop_phones(len(m), starts, names, phones) for m, starts, names
                       in zip(self.mels, np.split(content["starts"], cut), np.split(content["names"], cut))]


def hop_phones(hops, starts, names, phones):
    """The number of the phone at the centre of each hop's window; 0 for pauses and rare ones."""
    at = np.searchsorted(starts, (np.arange(hops) + 1) * spoken.HOP - 200, side="right") - 1
    numbers = np.array([phones.get(str(n), 0) for n in names])
    return torch.from_numpy(np.where(at >= 0, numbers[np.maximum(at, 0)], 0))


def phone_numbers(path):
    """Numbers from 1 on for the phones that a shard has often."""
    names, counts = np.unique(np.load(path)["names"], return_counts=True)
    kept = [str(n) for n, c in zip(names, counts) if c >= 20 and not str(n).startswith("_")]
    return {name: i for i, name in enumerate(kept, 1)}


def warps():
    """Matrices that move the bands of longer and shorter vocal tracts."""
    found = []
    for factor in np.linspace(0.88, 1.14, 14):
        at = np.clip(np.arange(BANDS) * factor, 0, BANDS - 1.001)
        low = at.astype(int)
        matrix = np.zeros((BANDS, BANDS), np.float32)
        matrix[low, np.arange(BANDS)] = 1 - (at - low)
        matrix[low + 1, np.arange(BANDS)] += at - low
        found.append(matrix)
    return torch.from_numpy(np.stack(found))


WARPS = warps()


def equaliser(rng):
    """A smooth random gain in nepers of power per band, as of a microphone or a mouth."""
    if rng.random() < 0.5:
        return np.zeros(BANDS, np.float32)
    knots = rng.normal(0, 1.0, 6)
    return np.interp(np.linspace(0, 5, BANDS), np.arange(6), knots - knots.mean()).astype(np.float32)


class Noises:
    """Mel powers of noises and of babble."""

    def __init__(self):
        self.clips = torch.from_numpy(np.load(os.path.join(WORK, "noises.npz"))["clips"])

    def piece(self, rng, hops, talk):
        """Powers of noise of RMS one; talk gives a random utterance's mels."""
        if rng.random() >= BABBLE_SHARE:
            clip = self.clips[rng.integers(len(self.clips))]
            start = rng.integers(0, max(1, len(clip) - hops))
            clip = clip[start:start + hops].float().exp()
            return clip if len(clip) == hops else clip.repeat(hops // len(clip) + 1, 1)[:hops]
        total, talkers = torch.zeros(hops, BANDS), int(rng.integers(1, 9))
        for _ in range(talkers):
            voice = talk().float().exp()
            start = int(rng.integers(0, hops))
            total += voice.repeat(hops // len(voice) + 2, 1)[start % len(voice):][:hops]
        return total / (talkers * ACTIVE_LEVEL ** 2)


def augmented(rng, mels, noises, talk):
    """Features [batch, hops, bands] of utterances' mels, and the hop where they begin."""
    lead, tail = (int(rng.integers(*span) + rng.integers(MUCH_HOPS) * (rng.random() < MUCH_SHARE))
                  for span in (LEAD_HOPS, TAIL_HOPS))
    hops = -(-(lead + max(len(m) for m in mels) + tail) // STACK) * STACK
    x = torch.full((len(mels), hops, BANDS), EMPTY)
    for i, mel in enumerate(mels):
        x[i, lead:lead + len(mel)] = mel
    chosen = torch.from_numpy(np.where(rng.random(len(mels)) < 0.5, rng.integers(len(WARPS), size=len(mels)), 6))
    x = torch.bmm(x, WARPS[chosen]) + torch.from_numpy(np.stack([equaliser(rng) for _ in mels]))[:, None]
    power = x.exp()
    noise = torch.zeros_like(power)
    for i, mel in enumerate(mels):
        if rng.random() < NOISE_SHARE:
            level = ACTIVE_LEVEL ** 2 * 10 ** (-rng.uniform(*SNR_DB) / 10)
            noise[i] = noises.piece(rng, hops, talk) * torch.from_numpy(equaliser(rng)).exp() * level
            if rng.random() < 0.15:
                noise[i, lead + len(mel) + 3:] = 0
    phase = torch.randn(power.shape, generator=torch.Generator().manual_seed(int(rng.integers(1 << 40))))
    power = power + noise + 2 * (power * noise).sqrt() * (phase * PHASE_SPREAD).clamp(-0.95, 0.95)
    power *= torch.from_numpy(np.exp(rng.uniform(-3.5, 2.5, (len(mels), 1, 1))).astype(np.float32))
    features = normalised(power)
    for row in features:
        mask(rng, row)
    return features, lead


def mask(rng, features):
    """Blank out bands and times of one utterance."""
    for _ in range(rng.integers(0, 3)):
        width = rng.integers(1, 10)
        start = rng.integers(0, BANDS - width)
        features[:, start:start + width] = 0
    for _ in range(rng.integers(0, 3)):
        width = rng.integers(1, 14)
        start = rng.integers(0, max(1, len(features) - width))
        features[start:start + width] = 0


def batches(seed, first, last, phones, noises):
    """Features, letters, phones of the steps of training; each depends on the pool, the seed, its number and where the
    training was resumed."""
    window, number = [], first
    while number < last:
        turn = number // BATCHES_PER_SHARD
        order = np.random.default_rng([seed, turn]).permutation(_count())
        window = window[-(WINDOW_SHARDS - 1):] + [Shard(spoken.shard_path(order[0]), phones)]
        while len(window) < WINDOW_SHARDS:
            window.append(Shard(spoken.shard_path(order[len(window)]), phones))
        everything = [(s, i) for s in window for i in range(len(s.texts))]
        rng = np.random.default_rng([seed, turn, 1])
        picked = rng.permutation(len(everything))[:BATCH * BATCHES_PER_SHARD]
        picked = sorted(picked, key=lambda p: _size(everything[p]) * rng.uniform(0.9, 1.1))
        groups = [picked[i:i + BATCH] for i in range(0, len(picked), BATCH)]
        for group in rng.permutation(np.array(groups)):
            if number >= last:
                return
            chosen = [everything[p] for p in group]

            def talk():
                shard = window[rng.integers(len(window))]
                return shard.mels[rng.integers(len(shard.mels))]
            features, lead = augmented(rng, [s.mels[i] for s, i in chosen], noises, talk)
            target = torch.zeros(len(chosen), features.shape[1], dtype=torch.long)
            for row, (s, i) in zip(target, chosen):
                row[lead:lead + len(s.phones[i])] = s.phones[i]
            target = F.pad(target[:, STACK - 1::STACK], (PHONE_DELAY, 0))[:, :features.shape[1] // STACK]
            number += 1
            yield features, [s.letters[i] for s, i in chosen], target


def _size(entry):
    return len(entry[0].mels[entry[1]])


def _count():
    """Shards that the pool has by now."""
    count = 0
    while os.path.exists(spoken.shard_path(count)):
        count += 1
    return count


def greedy(logits):
    """The text of the likeliest labels."""
    text, last = "", 0
    for label in logits.argmax(-1).tolist():
        if label != last and label:
            text += LETTERS[label]
        last = label
    return " ".join(text.split())


def word_errors(reference, found):
    """Edits between two texts, in words, and the words of the first."""
    a, b = reference.split(), found.split()
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1], len(a)


def clean_features(mels):
    """Features of utterances without anything added."""
    hops = -(-(max(map(len, mels)) + TAIL_HOPS[1]) // STACK) * STACK
    power = torch.full((len(mels), hops, BANDS), FLOOR / 100)
    for row, mel in zip(power, mels):
        row[:len(mel)] = mel.float().exp()
    return normalised(power)


@torch.no_grad()
def greedy_error(model, shard):
    """Word error rate in percent without a lexicon."""
    wrong = words = 0
    order = sorted(range(len(shard.texts)), key=lambda i: len(shard.mels[i]))
    for start in range(0, len(order), 50):
        group = order[start:start + 50]
        with torch.autocast("cpu", torch.bfloat16):
            logits, _ = model.whole(clean_features([shard.mels[i] for i in group]))
        for row, i in zip(logits, group):
            e, w = word_errors(shard.texts[i], greedy(row[:(len(shard.mels[i]) + TAIL_HOPS[1]) // STACK]))
            wrong, words = wrong + e, words + w
    return 100 * wrong / words


def learning_rate(step, steps, peak, fall_from):
    part = (step / steps - fall_from) / (1 - fall_from)
    return peak * min(1, (step + 1) / WARM) * (0.5 * (1 + math.cos(math.pi * min(1, max(0, part)))) + 1e-3)


def optimisers(model):
    """Muon for the matrices of the blocks, AdamW for everything else."""
    inner = [p for name, p in model.named_parameters() if p.dim() == 2 and not name.startswith(("out", "phones"))]
    outer = [p for name, p in model.named_parameters() if p.dim() != 2 or name.startswith(("out", "phones"))]
    return [torch.optim.Muon(inner, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(outer, weight_decay=0.01, betas=(0.9, 0.98))]


def load_shipped(model, features):
    """The weights of the package. Its normalisations are folded into the layers before them: they start as what
    changes nothing for these features."""
    program = Streaming(model).state_dict()
    state = fill([name for name in program if not name.startswith("power")],
                 {name: weights.shape for name, weights in program.items()},
                 constants(pathlib.Path(PACKAGE) / "asr_portable.pte"))
    biases = {}
    for name, weights in state.items():
        layer, kind = name.rsplit(".", 1)
        target = dict(model.named_parameters())
        if kind == "bias" and f"{layer}_norm.bias" in target:
            biases[model.get_submodule(f"{layer}_norm")] = weights
        else:
            target[name].data.copy_(weights.reshape(target[name].shape))

    def unchanged(norm, inputs):
        variance, mean = torch.var_mean(inputs[0].float(), 0, correction=0)
        norm.running_var.copy_(variance)
        norm.running_mean.copy_(mean)
        norm.weight.data.copy_((variance + norm.eps).sqrt())
        norm.bias.data.copy_(biases[norm] + mean)

    hooks = [norm.register_forward_pre_hook(unchanged) for norm in biases]
    with torch.no_grad():
        model.eval().whole(features)
    for hook in hooks:
        hook.remove()


def loss_of(model, features, letters, phones):
    """The CTC loss per letter, and that with the loss of the phones."""
    with torch.autocast("cpu", torch.bfloat16):
        logits, phone_logits = model.whole(features)
    chances = F.log_softmax(logits.float(), -1).transpose(0, 1)
    steps = torch.full((len(letters),), len(chances))
    sizes = torch.tensor([len(text) for text in letters])
    ctc = F.ctc_loss(chances, torch.cat(letters), steps, sizes, zero_infinity=True, reduction="none")
    ctc = (ctc / sizes).mean()
    if phone_logits.shape[-1] == 1:
        return ctc, ctc
    return ctc, ctc + PHONE_WEIGHT * F.cross_entropy(phone_logits.float().flatten(0, 1), phones.flatten())


def train(seed, steps, name, go_on):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    phones = phone_numbers(spoken.shard_path(0))
    # The phones help a training to begin; the program does not have them.
    classes = 1 if go_on else len(phones) + 1
    peak, fall_from = (GO_ON_RATE, 0) if go_on else (PEAK_RATE, FALL_FROM)
    model, noises = Recogniser(classes), Noises()
    known, new = (Shard(os.path.join(WORK, f"tuning-{kind}.npz"), phones) for kind in ("known", "new"))
    both = optimisers(model)
    mean = {key: value.clone() for key, value in model.state_dict().items()}
    checkpoint, step = os.path.join(WORK, f"{name}-checkpoint.pt"), 0
    if saved := resumed(checkpoint, steps, seed=seed, go_on=go_on):
        model.load_state_dict(saved["model"])
        for optimiser, state in zip(both, saved["optimisers"]):
            optimiser.load_state_dict(state)
        mean, step = saved["mean"], saved["step"]
    elif go_on:
        load_shipped(model, clean_features(known.mels[:GO_ON_SAMPLES]))
        mean = {key: value.clone() for key, value in model.state_dict().items()}
    averaged = Recogniser(classes).eval()
    if go_on and step == 0:
        averaged.load_state_dict(mean)
        print(f"asr: shipped: greedy word error {greedy_error(averaged, known):.1f} % known templates, "
              f"{greedy_error(averaged, new):.1f} % new ones", flush=True)
    start, total, count, first = time.time(), 0.0, 0, step
    for features, letters, target in batches(seed, step, steps, phones, noises):
        model.train()
        for group in both[0].param_groups + both[1].param_groups:
            group["lr"] = learning_rate(step, steps, peak, fall_from)
        ctc, loss = loss_of(model, features, letters, target)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        for optimiser in both:
            optimiser.step()
        update_mean(mean, model.state_dict(), step, KEPT_MEAN)
        total, count, step = total + ctc.item(), count + 1, step + 1
        if step % 100 == 0 or step == steps:
            rate = (step - first) / (time.time() - start)
            print(f"asr: step {step} of {steps}, ctc {total / count:.4f}, {rate:.2f} steps/s, "
                  f"{(steps - step) / rate / 60:.0f} min left", flush=True)
            total, count = 0.0, 0
        if step % SAVE_EVERY == 0 or step == steps:
            save({"model": model.state_dict(), "optimisers": [o.state_dict() for o in both], "mean": mean, "step": step,
                  "seed": seed, "go_on": go_on, "command": f"asr/train.py{' --go-on' * go_on} --seed {seed} --steps {steps}"}, checkpoint)
            averaged.load_state_dict(mean)
            print(f"asr: step {step}: greedy word error {greedy_error(averaged, known):.1f} % known templates, "
                  f"{greedy_error(averaged, new):.1f} % new ones", flush=True)
    save(mean, os.path.join(WORK, f"{name}.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--name", default="asr", help="of the checkpoint and the weights in tools/zoo/work/asr")
    parser.add_argument("--go-on", action="store_true", help="from the weights of the package")
    arguments = parser.parse_args()
    train(arguments.seed, arguments.steps, arguments.name, arguments.go_on)
