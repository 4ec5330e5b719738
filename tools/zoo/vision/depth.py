"""Depth of the pixels of a room: network, loss, validation."""
import math

import room_views
import torch
from augment import network_input, to_tensor, vary_colors
from layers import Residual, conv, full, pool, stage, upsample
from shards import Shards
from torch import nn
from torch.nn import functional as F
from training import Task

WIDTH, HEIGHT = 160, 128
# The map has half the size of the image.
MAP_WIDTH, MAP_HEIGHT = WIDTH // 2, HEIGHT // 2
MIN_DEPTH, MAX_DEPTH = 0.1, 20.0
GRADIENT_SCALES = 4
GRADIENT_WEIGHT = 1.0


class DepthNetwork(nn.Module):
    """U-Net that predicts the logarithm of the depth."""

    def __init__(self, widths=(16, 24, 48, 64, 96)):
        super().__init__()
        a, b, c, d, e = widths
        self.stem = nn.Sequential(conv(3, a, 3, 2), conv(a, a))
        self.down = nn.ModuleList([stage(a, b), stage(b, c), stage(c, d), stage(d, e)])
        self.context = nn.Sequential(nn.Linear(e, e), nn.ReLU(), nn.Linear(e, e))
        self.reduce = nn.ModuleList([conv(e, d, 1), conv(d, c, 1), conv(c, b, 1), conv(b, a, 1)])
        self.up = nn.ModuleList([Residual(d, d), Residual(c, c), Residual(b, b), Residual(a, a)])
        self.head = nn.Conv2d(a, 1, 3, 1, 1)

    def features(self, x):
        """Returns the logarithm of the depth."""
        skips = [self.stem((x - 0.5) * 4)]
        for down in self.down:
            skips.append(down(skips[-1]))
        y = skips.pop()
        y = y + self.context(pool(y))[:, :, None, None]
        for reduce, up in zip(self.reduce, self.up):
            y = up(upsample(reduce(y)) + skips.pop())
        return (self.head(y),)

    def outputs(self, log_depth):
        """Returns the output of `forward`."""
        return torch.exp(torch.clamp(log_depth, math.log(MIN_DEPTH), math.log(MAX_DEPTH)))

    def forward(self, x):
        """Image f32[1, 3, 128, 160] from 0 to 1 to depth f32[1, 1, 64, 80] in meters."""
        return self.outputs(*self.features(x))


def prepare(records, rng=None):
    """Returns input and depth (n, 1, 64, 80). Records are mirrored and varied if `rng` is given."""
    images = F.interpolate(to_tensor(records["image"]), (HEIGHT, WIDTH), mode="bilinear")
    depth = torch.from_numpy(records["depth"].astype("f4"))[:, None]
    depth = F.interpolate(depth, (MAP_HEIGHT, MAP_WIDTH), mode="nearest-exact")
    if rng is not None:
        mirrored = torch.from_numpy(rng.random(len(images)) < 0.5)
        images[mirrored], depth[mirrored] = images[mirrored].flip(3), depth[mirrored].flip(3)
        images = vary_colors(rng, images)
    return network_input(images), depth


def depth_loss(predicted, target):
    """Absolute difference of logarithms, and that of their gradients at several scales."""
    difference = predicted - torch.log(target)
    loss = difference.abs().mean() + 0.5 * (difference - difference.mean((2, 3), keepdim=True)).abs().mean()
    for k in range(GRADIENT_SCALES):
        step = difference[:, :, ::1 << k, ::1 << k]
        loss = loss + GRADIENT_WEIGHT * (step.diff(dim=2).abs().mean() + step.diff(dim=3).abs().mean()) / 2
    return loss


def scores(predicted, target):
    """Returns the figures that the literature uses."""
    ratio = torch.maximum(predicted / target, target / predicted)
    return {"abs_rel": float(((predicted - target).abs() / target).mean()),
            "delta_1": float((ratio < 1.25).float().mean()), "delta_2": float((ratio < 1.25 ** 2).float().mean()),
            "rmse_m": float(((predicted - target) ** 2).mean().sqrt())}


class DepthTask(Task):
    NAME, STEPS, RESTART, BATCH_SIZE, MAX_SHARDS = "depth", 17500, 10000, 32, 48
    prepare = staticmethod(prepare)

    def __init__(self, seed):
        super().__init__(seed)
        self.shards = Shards("rooms", "train", seed, room_views.draw_views)
        self.validation = Shards("rooms", "validation", seed, room_views.draw_views)

    def network(self):
        return DepthNetwork()

    def loss(self, network, rng, shards):
        inputs, depth = prepare(self.shards.sample(rng, self.BATCH_SIZE, shards), rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            predicted, = network.features(inputs)
        return depth_loss(full(predicted), depth)

    def validate(self, network):
        inputs, depth = prepare(self.validation.first(512))
        with torch.no_grad():
            predicted = torch.cat([network(part) for part in inputs.split(64)])
        return scores(predicted, depth)
