"""Trains the translator on generated pairs."""
import argparse
import math
import os
import time

import numpy as np
import torch
from torch.nn import functional as F

import model
import pairs
from checkpoint import load_checkpoint, save, update_average

STEPS, BATCH_SIZE, PEAK_LR, WARMUP_STEPS = 3600, 64, 1.5e-3, 300
CHECKPOINT_EVERY, AVERAGE_DECAY = 100, 0.995
LABEL_SMOOTHING = 0.05
CHECKPOINT, WEIGHTS = os.path.join(model.WORK, "checkpoint.pt"), os.path.join(model.WORK, "translate.pt")
# Probability that a word of the English sentence is missing or doubled, as in recognized speech.
NOISE = 0.01


def noisy(rng, text):
    words = []
    for word in text.split():
        draw = rng.random()
        words += [] if draw < NOISE / 2 else [word, word] if draw < NOISE else [word]
    return " ".join(words)


def batch(rng, tokenizer, size):
    """Ids and mask of the English sentences, and the Spanish tokens."""
    drawn = [pairs.pair(rng) for _ in range(size)]
    start, end, pad = (tokenizer.token_to_id(name) for name in (model.START, model.END, model.PAD))
    sources = [[*encoding.ids, end] for encoding in tokenizer.encode_batch([noisy(rng, p.english) for p in drawn])]
    targets = [[start, *encoding.ids, end] for encoding in tokenizer.encode_batch([p.spanish for p in drawn])]
    ids = torch.full((size, max(map(len, sources))), pad)
    spoken = torch.full((size, max(map(len, targets))), pad)
    for i, (source, target) in enumerate(zip(sources, targets)):
        ids[i, :len(source)], spoken[i, :len(target)] = torch.tensor(source), torch.tensor(target)
    return ids, torch.where(ids == pad, model.MASKED, 0.0)[:, None, None], spoken


def learning_rate(step, steps):
    return PEAK_LR * min(1, (step + 1) / WARMUP_STEPS) * (0.5 * (1 + math.cos(math.pi * step / steps)) + 1e-3)


def train(seed, steps):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    tokenizer = model.tokenizer(seed)
    translator = model.Translator(tokenizer.get_vocab_size())
    optimizer = torch.optim.AdamW(translator.parameters(), weight_decay=0.01, betas=(0.9, 0.98))
    average, step = {key: value.clone() for key, value in translator.state_dict().items()}, 0
    if saved := load_checkpoint(CHECKPOINT, steps, seed=seed):
        translator.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        average, step = saved["average"], saved["step"]
    start, first, total, right, pad = time.time(), step, 0.0, 0.0, tokenizer.token_to_id(model.PAD)
    while step < steps:
        ids, mask, spoken = batch(np.random.default_rng([seed, step]), tokenizer, BATCH_SIZE)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        logits, target = translator(ids, mask, spoken[:, :-1]), spoken[:, 1:]
        loss = F.cross_entropy(logits.transpose(1, 2), target, ignore_index=pad, label_smoothing=LABEL_SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(translator.parameters(), 1.0)
        optimizer.step()
        update_average(average, translator.state_dict(), step, AVERAGE_DECAY)
        is_right = ((logits.argmax(-1) == target) | (target == pad)).all(1).float().mean()
        total, right, step = total + loss.item() / CHECKPOINT_EVERY, right + is_right.item() / CHECKPOINT_EVERY, step + 1
        if step % CHECKPOINT_EVERY == 0 or step == steps:
            print(f"translate: step {step} of {steps}, loss {total:.4f}, right {right:.4f}, "
                  f"{(time.time() - start) / (step - first):.3f} s/step", flush=True)
            total = right = 0.0
            save({"model": translator.state_dict(), "optimizer": optimizer.state_dict(), "average": average,
                  "step": step, "seed": seed}, CHECKPOINT)
    save(average, WEIGHTS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    train(arguments.seed, arguments.steps)
