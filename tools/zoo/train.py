"""Trains the VAD or the wake word: train.py vad|wake_word."""
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
from checkpoint import load_checkpoint, save, update_average
from models import LogMel, Vad, WakeWord, float_tensor, mel_filterbank

BATCH_SIZE = {"vad": 16, "wake_word": 24}
STEPS = {"vad": 16000, "wake_word": 10800}
PEAK_LR = {"vad": 2e-3, "wake_word": 3e-3}
WARMUP_STEPS = 100
# Fraction of the steps after which the learning rate decays along a half cosine to zero.
DECAY_FROM = {"vad": 0, "wake_word": 7 / 18}
# Steps of the wake word from which it trains on the whole corpus, and with more ordinary speech.
FULL_CORPUS_STEP, SECOND_STAGE_STEP = 900, 1100
# Decay of the moving average of the weights. It is the result of the wake word.
AVERAGE_DECAY = 0.998
CHECKPOINT_EVERY = 100
PREFETCH = 4


def vad_loss(model, sounds, targets):
    logits = model.forward_offline(sounds)
    return F.binary_cross_entropy_with_logits(logits, targets)


def warped_filterbanks():
    """Returns mel filters for vocal tract length perturbation."""
    return torch.stack([float_tensor(mel_filterbank(LogMel.BANDS, 60 * w, min(7600 * w, 7950), 512).T)
                        for w in np.linspace(0.86, 1.12, 9)])


LOG_MEL, WARPED_FILTERS = LogMel(), warped_filterbanks()
CLASS_WEIGHTS = [1.0, 2.0, 2.0, 2.4]
EQUALIZER_PROBABILITY, EQUALIZER_STD_DB = 0.5, 5.0


def random_equalizer(rng):
    """Returns a smooth random power gain for each band, like a microphone or a speaker."""
    if rng.random() >= EQUALIZER_PROBABILITY:
        return np.ones(LogMel.BANDS, np.float32)
    knots = rng.normal(0, EQUALIZER_STD_DB, 6)
    level_db = np.interp(np.linspace(0, 5, LogMel.BANDS), np.arange(6), knots - knots.mean())
    return (10 ** (level_db / 10)).astype(np.float32)


def augmented_features(rng, sound):
    """Returns the features of a sound with a random vocal tract length and equalizer."""
    filters = WARPED_FILTERS[rng.integers(len(WARPED_FILTERS))] * torch.from_numpy(random_equalizer(rng))
    with torch.no_grad():
        return LOG_MEL.forward_offline(torch.from_numpy(sound)[None], filters)[0].numpy()


def wake_loss(model, features, targets):
    logits = model.forward_train(features)
    return F.cross_entropy(logits.reshape(-1, logits.shape[2]), targets.reshape(-1), torch.tensor(CLASS_WEIGHTS),
                           ignore_index=data.IGNORE_INDEX)


@functools.lru_cache(1)
def load_corpus(name, fraction):
    return data.Corpus(name, fraction)


def make_batch(name, seed, step):
    """Returns inputs and targets of a step. They depend on the arguments only."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([seed, step])
    if name == "vad":
        inputs, targets = zip(*(data.vad_scene(rng, load_corpus(name, 1.0)) for _ in range(BATCH_SIZE[name])))
    else:
        corpus = load_corpus(name, data.FIRST_FRACTION if step < FULL_CORPUS_STEP else 1.0)
        stage = int(step >= SECOND_STAGE_STEP)
        scenes = [data.wake_scene(rng, corpus, stage) for _ in range(BATCH_SIZE[name])]
        inputs, targets = zip(*((augmented_features(rng, sound), target) for sound, target in scenes))
    return np.stack(inputs), np.stack(targets)


def prefetched_batches(name, seed, steps):
    """Yields the batches of the given steps, made ahead in another process."""
    with concurrent.futures.ProcessPoolExecutor(1) as worker:
        queue = [worker.submit(make_batch, name, seed, s) for s in steps[:PREFETCH]]
        for i in range(len(steps)):
            inputs, targets = queue.pop(0).result()
            if i + PREFETCH < len(steps):
                queue.append(worker.submit(make_batch, name, seed, steps[i + PREFETCH]))
            yield torch.from_numpy(inputs), torch.from_numpy(targets)


def half_cosine(progress):
    return 0.5 * (1 + math.cos(math.pi * min(1, max(0, progress))))


def learning_rate(name, step, steps):
    decay = half_cosine((step / steps - DECAY_FROM[name]) / (1 - DECAY_FROM[name]))
    return PEAK_LR[name] * min(1, (step + 1) / WARMUP_STEPS) * (decay + 1e-3)


def train(name, seed, steps):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, loss_of = (Vad(), vad_loss) if name == "vad" else (WakeWord(), wake_loss)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01, betas=(0.9, 0.98))
    average = {key: value.clone() for key, value in model.state_dict().items()}
    checkpoint = os.path.join(data.WORK, f"{name}-checkpoint.pt")
    step = 0
    if saved := load_checkpoint(checkpoint, steps, seed=seed):
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        average, step = saved["average"], saved["step"]
    model.train()
    start, total, count = time.time(), 0.0, 0
    for inputs, targets in prefetched_batches(name, seed, range(step, steps)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(name, step, steps)
        loss = loss_of(model, inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimizer.step()
        update_average(average, model.state_dict(), step, AVERAGE_DECAY)
        total, count, step = total + loss.item(), count + 1, step + 1
        if step % CHECKPOINT_EVERY == 0 or step == steps:
            print(f"{name}: step {step} of {steps}, loss {total / count:.4f}, "
                  f"{time.time() - start:.0f} s", flush=True)
            total, count = 0.0, 0
            save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average, "step": step,
                  "seed": seed}, checkpoint)
    save(model.state_dict() if name == "vad" else average, os.path.join(data.WORK, f"{name}.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["vad", "wake_word"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    train(arguments.name, arguments.seed, arguments.steps or STEPS[arguments.name])
