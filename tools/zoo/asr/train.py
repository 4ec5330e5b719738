"""Trains the recognizer on the corpus, with random noise, level, vocal tract length and silence."""
import argparse
import math
import os
import pathlib
import time

import corpus
import numpy as np
import torch
from corpus import BANDS, FILTERS, POWER_FLOOR
from model import LABELS, STEP_HOPS, Recognizer, StreamingRecognizer, log_mel
from paths import PACKAGE, WORK
from torch.nn import functional as F

from checkpoint import load_checkpoint, save, update_average
from exported_weights import assign_by_shape, read_constants
from speech import ACTIVE_RMS

STEPS, BATCH_SIZE, PEAK_LR, WARMUP_STEPS = 15000, 32, 3e-3, 300
# Fraction of the steps after which the learning rate decays along a half cosine.
DECAY_FROM = 0.35
# Fine-tuning starts with a lower learning rate that decays from the start, and estimates the
# statistics of batch normalization on this many utterances.
FINETUNE_LR, FINETUNE_UTTERANCES = 2e-3, 256
# Decay of the moving average of the weights, which is the result.
AVERAGE_DECAY = 0.999
# Weight of the phone loss, and delay of its targets in steps.
PHONE_WEIGHT, PHONE_DELAY = 0.5, 2
# Occurrences in a shard from which on a phone has a class of its own.
MIN_PHONE_COUNT = 20
CHECKPOINT_EVERY, REPORT_EVERY = 500, 100
# Shards in memory, and batches that are drawn before one of them is replaced.
SHARDS_IN_MEMORY, BATCHES_PER_SHARD = 4, 32
# Range of silence before and after the utterances of a batch, and of additional silence in some
# batches.
LEAD_HOPS, TAIL_HOPS = (0, 4), (15, 24)
LONG_SILENCE_PROBABILITY, LONG_SILENCE_HOPS = 0.25, 110
NOISE_PROBABILITY, BABBLE_PROBABILITY = 0.85, 0.4
WARP_PROBABILITY, EQUALIZER_PROBABILITY, NOISE_END_PROBABILITY = 0.5, 0.5, 0.15
SNR_DB = (2, 30)
SILENCE = math.log(POWER_FLOOR / 100)
# Standard deviation of the cosine of the phase between sound and noise, averaged over the bins of a
# band.
PHASE_STD = torch.from_numpy(0.7 / np.sqrt(np.maximum(1, FILTERS.sum(0) ** 2 / (FILTERS ** 2).sum(0) / 1.5)))


class Shard:
    """Utterances of one file of the corpus."""

    def __init__(self, path, phone_ids):
        content = np.load(path)
        ends = np.cumsum(content["sizes"])
        self.mels = [torch.from_numpy(m) for m in np.split(content["mels"], ends[:-1])]
        self.texts = [str(t) for t in content["texts"]]
        self.labels = [torch.tensor([LABELS.index(c) for c in text]) for text in self.texts]
        bounds = np.cumsum(content["counts"])[:-1]
        starts, names = np.split(content["starts"], bounds), np.split(content["names"], bounds)
        self.phones = [hop_phones(len(m), s, n, phone_ids) for m, s, n in zip(self.mels, starts, names)]


def hop_phones(hops, starts, names, phone_ids):
    """Returns the phone id at the center of the window of each hop; 0 for pauses and rare phones.
    """
    at = np.searchsorted(starts, (np.arange(hops) + 1) * corpus.HOP - 200, side="right") - 1
    ids = np.array([phone_ids.get(str(n), 0) for n in names])
    return torch.from_numpy(np.where(at >= 0, ids[np.maximum(at, 0)], 0))


def frequent_phones(path):
    """Returns an id, from 1 on, for each frequent phone of a shard."""
    names, counts = np.unique(np.load(path)["names"], return_counts=True)
    frequent = [str(n) for n, c in zip(names, counts) if c >= MIN_PHONE_COUNT and not str(n).startswith("_")]
    return {name: i for i, name in enumerate(frequent, 1)}


# Index of the matrix that is closest to the identity.
NEUTRAL_WARP = 6


def warp_matrices():
    """Returns matrices that warp the mel bands, for vocal tract length perturbation."""
    matrices = []
    for factor in np.linspace(0.88, 1.14, 14):
        at = np.clip(np.arange(BANDS) * factor, 0, BANDS - 1.001)
        low = at.astype(int)
        matrix = np.zeros((BANDS, BANDS), np.float32)
        matrix[low, np.arange(BANDS)] = 1 - (at - low)
        matrix[low + 1, np.arange(BANDS)] += at - low
        matrices.append(matrix)
    return torch.from_numpy(np.stack(matrices))


WARPS = warp_matrices()


def random_equalizer(rng):
    """Returns a smooth random gain for each band, as log power, like a microphone or a speaker."""
    if rng.random() < 1 - EQUALIZER_PROBABILITY:
        return np.zeros(BANDS, np.float32)
    knots = rng.normal(0, 1.0, 6)
    return np.interp(np.linspace(0, 5, BANDS), np.arange(6), knots - knots.mean()).astype(np.float32)


class Noises:
    """Mel powers of noise clips, and of babble."""

    def __init__(self):
        self.clips = torch.from_numpy(np.load(corpus.noise_path())["clips"])

    def draw(self, rng, hops, draw_mels):
        """Draws noise of RMS one.

        `draw_mels` returns the mel powers of a random utterance, for babble.
        """
        if rng.random() >= BABBLE_PROBABILITY:
            clip = self.clips[rng.integers(len(self.clips))]
            start = rng.integers(0, max(1, len(clip) - hops))
            clip = clip[start:start + hops].float().exp()
            return clip if len(clip) == hops else clip.repeat(hops // len(clip) + 1, 1)[:hops]
        total, talkers = torch.zeros(hops, BANDS), int(rng.integers(1, 9))
        for _ in range(talkers):
            voice = draw_mels().float().exp()
            start = int(rng.integers(0, hops))
            total += voice.repeat(hops // len(voice) + 2, 1)[start % len(voice):][:hops]
        return total / (talkers * ACTIVE_RMS ** 2)


def augment(rng, mels, noises, draw_mels):
    """Returns augmented features [batch, hops, bands] of utterances, and the hop at which they
    start.
    """
    lead, tail = (int(rng.integers(*span) + rng.integers(LONG_SILENCE_HOPS) * (rng.random() < LONG_SILENCE_PROBABILITY))
                  for span in (LEAD_HOPS, TAIL_HOPS))
    hops = -(-(lead + max(len(m) for m in mels) + tail) // STEP_HOPS) * STEP_HOPS
    x = torch.full((len(mels), hops, BANDS), SILENCE)
    for i, mel in enumerate(mels):
        x[i, lead:lead + len(mel)] = mel
    is_warped = rng.random(len(mels)) < WARP_PROBABILITY
    chosen = torch.from_numpy(np.where(is_warped, rng.integers(len(WARPS), size=len(mels)), NEUTRAL_WARP))
    x = torch.bmm(x, WARPS[chosen]) + torch.from_numpy(np.stack([random_equalizer(rng) for _ in mels]))[:, None]
    power = x.exp()
    noise = torch.zeros_like(power)
    for i, mel in enumerate(mels):
        if rng.random() < NOISE_PROBABILITY:
            level = ACTIVE_RMS ** 2 * 10 ** (-rng.uniform(*SNR_DB) / 10)
            noise[i] = noises.draw(rng, hops, draw_mels) * torch.from_numpy(random_equalizer(rng)).exp() * level
            if rng.random() < NOISE_END_PROBABILITY:
                noise[i, lead + len(mel) + 3:] = 0
    # Sound and noise add with random phases.
    phase = torch.randn(power.shape, generator=torch.Generator().manual_seed(int(rng.integers(1 << 40))))
    power = power + noise + 2 * (power * noise).sqrt() * (phase * PHASE_STD).clamp(-0.95, 0.95)
    power *= torch.from_numpy(np.exp(rng.uniform(-3.5, 2.5, (len(mels), 1, 1))).astype(np.float32))
    features = log_mel(power)
    for row in features:
        spec_augment(rng, row)
    return features, lead


def spec_augment(rng, features):
    """Masks random bands and times of an utterance (SpecAugment)."""
    for _ in range(rng.integers(0, 3)):
        width = rng.integers(1, 10)
        start = rng.integers(0, BANDS - width)
        features[:, start:start + width] = 0
    for _ in range(rng.integers(0, 3)):
        width = rng.integers(1, 14)
        start = rng.integers(0, max(1, len(features) - width))
        features[start:start + width] = 0


def batches(seed, first, last, phone_ids, noises):
    """Yields features, labels and phones of each step.

    They depend on the corpus, the seed, the step, and the step at which the training was resumed.
    """
    shards, step = [], first
    while step < last:
        turn = step // BATCHES_PER_SHARD
        order = np.random.default_rng([seed, turn]).permutation(_count_shards())
        shards = shards[-(SHARDS_IN_MEMORY - 1):] + [Shard(corpus.shard_path(order[0]), phone_ids)]
        while len(shards) < SHARDS_IN_MEMORY:
            shards.append(Shard(corpus.shard_path(order[len(shards)]), phone_ids))
        utterances = [(s, i) for s in shards for i in range(len(s.texts))]
        rng = np.random.default_rng([seed, turn, 1])
        picked = rng.permutation(len(utterances))[:BATCH_SIZE * BATCHES_PER_SHARD]
        # Batches of similar length, to limit padding.
        picked = sorted(picked, key=lambda p: _length(utterances[p]) * rng.uniform(0.9, 1.1))
        groups = [picked[i:i + BATCH_SIZE] for i in range(0, len(picked), BATCH_SIZE)]
        for group in rng.permutation(np.array(groups)):
            if step >= last:
                return
            chosen = [utterances[p] for p in group]

            def draw_mels():
                shard = shards[rng.integers(len(shards))]
                return shard.mels[rng.integers(len(shard.mels))]
            features, lead = augment(rng, [s.mels[i] for s, i in chosen], noises, draw_mels)
            phones = torch.zeros(len(chosen), features.shape[1], dtype=torch.long)
            for row, (s, i) in zip(phones, chosen):
                row[lead:lead + len(s.phones[i])] = s.phones[i]
            phones = F.pad(phones[:, STEP_HOPS - 1::STEP_HOPS], (PHONE_DELAY, 0))[:, :features.shape[1] // STEP_HOPS]
            step += 1
            yield features, [s.labels[i] for s, i in chosen], phones


def _length(utterance):
    shard, index = utterance
    return len(shard.mels[index])


def _count_shards():
    """Counts the shards that exist by now."""
    count = 0
    while os.path.exists(corpus.shard_path(count)):
        count += 1
    return count


def greedy_text(logits):
    """Returns the text of the greedy CTC output."""
    text, last = "", 0
    for label in logits.argmax(-1).tolist():
        if label != last and label:
            text += LABELS[label]
        last = label
    return " ".join(text.split())


def word_errors(reference, hypothesis):
    """Returns the word edit distance of two texts, and the number of words of the reference."""
    a, b = reference.split(), hypothesis.split()
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1], len(a)


def clean_features(mels):
    """Returns the features of utterances without augmentation."""
    hops = -(-(max(map(len, mels)) + TAIL_HOPS[1]) // STEP_HOPS) * STEP_HOPS
    power = torch.full((len(mels), hops, BANDS), POWER_FLOOR / 100)
    for row, mel in zip(power, mels):
        row[:len(mel)] = mel.float().exp()
    return log_mel(power)


@torch.no_grad()
def greedy_error(model, shard):
    """Returns the word error rate of greedy decoding, in percent."""
    errors = words = 0
    order = sorted(range(len(shard.texts)), key=lambda i: len(shard.mels[i]))
    for start in range(0, len(order), 50):
        group = order[start:start + 50]
        with torch.autocast("cpu", torch.bfloat16):
            logits, _ = model(clean_features([shard.mels[i] for i in group]))
        for row, i in zip(logits, group):
            e, w = word_errors(shard.texts[i], greedy_text(row[:(len(shard.mels[i]) + TAIL_HOPS[1]) // STEP_HOPS]))
            errors, words = errors + e, words + w
    return 100 * errors / words


def learning_rate(step, steps, peak, decay_from):
    progress = (step / steps - decay_from) / (1 - decay_from)
    return peak * min(1, (step + 1) / WARMUP_STEPS) * (0.5 * (1 + math.cos(math.pi * min(1, max(0, progress)))) + 1e-3)


def create_optimizers(model):
    """Returns Muon for the matrices of the blocks, and AdamW for everything else."""
    heads = ("output_layer", "phone_layer")
    inner = [p for name, p in model.named_parameters() if p.dim() == 2 and not name.startswith(heads)]
    outer = [p for name, p in model.named_parameters() if p.dim() != 2 or name.startswith(heads)]
    return [torch.optim.Muon(inner, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(outer, weight_decay=0.01, betas=(0.9, 0.98))]


def load_package(model, features):
    """Loads the weights of the package.

    Their batch normalization is folded into the layers before it. It is initialized so that it does
    not change the outputs for `features`.
    """
    program = StreamingRecognizer(model).state_dict()
    state = assign_by_shape([name for name in program if not name.startswith("power")],
                            {name: weights.shape for name, weights in program.items()},
                            read_constants(pathlib.Path(PACKAGE) / "asr_portable.pte"))
    biases = {}
    for name, weights in state.items():
        layer, kind = name.rsplit(".", 1)
        parameters = dict(model.named_parameters())
        if kind == "bias" and f"{layer}_norm.bias" in parameters:
            biases[model.get_submodule(f"{layer}_norm")] = weights
        else:
            parameters[name].data.copy_(weights.reshape(parameters[name].shape))

    def set_identity(norm, inputs):
        variance, mean = torch.var_mean(inputs[0].float(), 0, correction=0)
        norm.running_var.copy_(variance)
        norm.running_mean.copy_(mean)
        norm.weight.data.copy_((variance + norm.eps).sqrt())
        norm.bias.data.copy_(biases[norm] + mean)

    hooks = [norm.register_forward_pre_hook(set_identity) for norm in biases]
    with torch.no_grad():
        model.eval()(features)
    for hook in hooks:
        hook.remove()


def loss_of(model, features, labels, phones):
    """Returns the CTC loss per letter, and its sum with the phone loss."""
    with torch.autocast("cpu", torch.bfloat16):
        logits, phone_logits = model(features)
    log_probs = F.log_softmax(logits.float(), -1).transpose(0, 1)
    input_lengths = torch.full((len(labels),), len(log_probs))
    target_lengths = torch.tensor([len(text) for text in labels])
    ctc = F.ctc_loss(log_probs, torch.cat(labels), input_lengths, target_lengths, zero_infinity=True, reduction="none")
    ctc = (ctc / target_lengths).mean()
    if phone_logits.shape[-1] == 1:
        return ctc, ctc
    return ctc, ctc + PHONE_WEIGHT * F.cross_entropy(phone_logits.float().flatten(0, 1), phones.flatten())


def report_errors(label, model, known, new):
    print(f"asr: {label}: greedy word error rate {greedy_error(model, known):.1f} % on known templates, "
          f"{greedy_error(model, new):.1f} % on new ones", flush=True)


def train(seed, steps, name, finetune):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    phone_ids = frequent_phones(corpus.shard_path(0))
    # The phone loss helps training from random weights. The program does not have its layer.
    classes = 1 if finetune else len(phone_ids) + 1
    peak, decay_from = (FINETUNE_LR, 0) if finetune else (PEAK_LR, DECAY_FROM)
    model, noises = Recognizer(classes), Noises()
    known, new = (Shard(corpus.validation_path(kind), phone_ids) for kind in ("known", "new"))
    optimizers = create_optimizers(model)
    average = {key: value.clone() for key, value in model.state_dict().items()}
    checkpoint, step = os.path.join(WORK, f"{name}-checkpoint.pt"), 0
    command = f"asr/train.py{' --finetune' * finetune} --seed {seed} --steps {steps}"
    if saved := load_checkpoint(checkpoint, steps, seed=seed, finetune=finetune):
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        average, step = saved["average"], saved["step"]
    elif finetune:
        load_package(model, clean_features(known.mels[:FINETUNE_UTTERANCES]))
        average = {key: value.clone() for key, value in model.state_dict().items()}
    averaged_model = Recognizer(classes).eval()
    if finetune and step == 0:
        averaged_model.load_state_dict(average)
        report_errors("package", averaged_model, known, new)
    start, total, count, first = time.time(), 0.0, 0, step
    for features, labels, phones in batches(seed, step, steps, phone_ids, noises):
        model.train()
        for group in optimizers[0].param_groups + optimizers[1].param_groups:
            group["lr"] = learning_rate(step, steps, peak, decay_from)
        ctc, loss = loss_of(model, features, labels, phones)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        for optimizer in optimizers:
            optimizer.step()
        update_average(average, model.state_dict(), step, AVERAGE_DECAY)
        total, count, step = total + ctc.item(), count + 1, step + 1
        if step % REPORT_EVERY == 0 or step == steps:
            rate = (step - first) / (time.time() - start)
            print(f"asr: step {step} of {steps}, CTC loss {total / count:.4f}, {rate:.2f} steps/s, "
                  f"{(steps - step) / rate / 60:.0f} min left", flush=True)
            total, count = 0.0, 0
        if step % CHECKPOINT_EVERY == 0 or step == steps:
            save({"model": model.state_dict(), "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                  "average": average, "step": step, "seed": seed, "finetune": finetune, "command": command}, checkpoint)
            averaged_model.load_state_dict(average)
            report_errors(f"step {step}", averaged_model, known, new)
    save(average, os.path.join(WORK, f"{name}.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--name", default="asr", help="name of the checkpoint and weights in tools/zoo/work/asr")
    parser.add_argument("--finetune", action="store_true", help="start from the weights of the package")
    arguments = parser.parse_args()
    train(arguments.seed, arguments.steps, arguments.name, arguments.finetune)
