"""Training loop with checkpoints. An interrupted run resumes."""
import math
import os
import time

import numpy as np
import torch
from paths import WORK

from checkpoint import load_checkpoint, save, update_average

AVERAGE_DECAY = 0.998
WARMUP_STEPS = 100
CHECKPOINT_SECONDS = 120
SHARD_EVERY = 100


class Task:
    """Network with its data, loss and validation. Subclasses set the constants and methods."""
    NAME = ""
    STEPS = 10000
    RESTART = None
    BATCH_SIZE = 64
    PEAK_LR = 2e-3
    MAX_SHARDS = 96
    REPORT_EVERY = 500

    def __init__(self, seed):
        self.seed = seed

    def network(self):
        """Returns a network with random weights."""
        raise NotImplementedError

    @staticmethod
    def prepare(records, rng=None):
        """Returns the input of the network, followed by the targets."""
        raise NotImplementedError

    def loss(self, network, rng, shards):
        """Returns the loss of a random batch of the first `shards` shards of training data."""
        raise NotImplementedError

    def validate(self, network):
        """Returns named figures on the validation data."""
        raise NotImplementedError


def weights_path(name):
    return os.path.join(WORK, f"{name}.pt")


def load_network(task):
    """Returns the trained network, for inference."""
    network = task.network()
    network.load_state_dict(torch.load(weights_path(task.NAME), weights_only=True))
    return network.eval()


def learning_rate(step, steps, restart, peak):
    """Returns a cosine schedule, which begins again at half of the peak at step `restart`."""
    if restart and step >= restart:
        step, steps, peak = step - restart, steps - restart, peak / 2
    elif restart:
        steps = restart
    return peak * min(1, (step + 1) / WARMUP_STEPS) * (0.5 * (1 + math.cos(math.pi * step / steps)) + 1e-3)


def train(task, steps=None):
    """Trains until `steps`. Writes the moving average of the weights."""
    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    steps = steps or task.STEPS
    network, averaged = task.network().to(memory_format=torch.channels_last), task.network()
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.02, betas=(0.9, 0.98))
    average, step = {key: value.clone() for key, value in network.state_dict().items()}, 0
    path = os.path.join(WORK, f"{task.NAME}-checkpoint.pt")
    if saved := load_checkpoint(path, steps, seed=task.seed, total_steps=steps):
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        average, step = saved["average"], saved["step"]
    print(f"{task.NAME}: {sum(p.numel() for p in network.parameters())} parameters, step {step} of {steps}", flush=True)
    total, since, cpu, last_save = 0.0, step, time.process_time(), time.time()
    while step < steps:
        rng = np.random.default_rng([task.seed, step])
        network.train()
        loss = task.loss(network, rng, min(task.MAX_SHARDS, 4 + step // SHARD_EVERY))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, task.RESTART, task.PEAK_LR)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        update_average(average, network.state_dict(), step, AVERAGE_DECAY)
        step, total = step + 1, total + loss.item()
        if step % task.REPORT_EVERY == 0 or step == steps:
            averaged.load_state_dict(average)
            figures = task.validate(averaged.eval())
            print(f"{task.NAME}: step {step}, loss {total / (step - since):.4f}, "
                  + ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
                  + f", {(time.process_time() - cpu) / (step - since):.3f} CPU s/step", flush=True)
            total, since, cpu = 0.0, step, time.process_time()
        if time.time() - last_save > CHECKPOINT_SECONDS or step == steps:
            save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "average": average,
                  "step": step, "total_steps": steps, "seed": task.seed}, path)
            last_save = time.time()
    save(average, weights_path(task.NAME))
