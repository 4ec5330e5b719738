"""Landmarks of a hand in an upright crop: network, loss, validation."""
import contextlib

import hand_crops
import numpy as np
import torch
from augment import erase, network_input, normal, to_tensor, uniform, vary_colors, warp
from hand_scenes import LANDMARKS
from layers import conv, full, pool, stage, upsample
from shards import Shards
from torch import nn
from torch.nn import functional as F
from training import Task

SIZE = 96
STRIDE = 4
# Deviation of the target of a heat map, in pixels.
HEAT_DEVIATION = 4.0
WORLD_SCALE = 0.1
# Landmarks that are further outside of the crop have no heat map.
MAX_OUTSIDE = 6


class HandNetwork(nn.Module):
    """Heat maps at a quarter of the size; their centers of mass are the landmarks."""

    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()
        a, b, c, d = widths
        self.stem, self.quarter, self.eighth, self.sixteenth = conv(3, a, 3, 2), stage(a, b), stage(b, c), stage(c, d)
        self.from_sixteenth, self.from_eighth = conv(d, c, 1), conv(c, b, 1)
        self.heads = nn.Sequential(conv(b, b), nn.Conv2d(b, LANDMARKS, 1))
        self.rest = nn.Sequential(nn.Linear(d + 2 * LANDMARKS, 112), nn.ReLU(), nn.Linear(112, 2 + 4 * LANDMARKS))
        centers = (torch.arange(SIZE // STRIDE) + 0.5) * STRIDE / SIZE
        self.register_buffer("centers", centers)
        self.register_buffer("grid", torch.cartesian_prod(centers, centers).T.flip(0).contiguous())

    def features(self, x):
        """Returns heat maps as logits (n, 21, 24, 24), and pooled features (n, 128)."""
        quarter = self.quarter(self.stem((x - 0.5) * 4))
        eighth = self.eighth(quarter)
        sixteenth = self.sixteenth(eighth)
        y = upsample(self.from_sixteenth(sixteenth)) + eighth
        y = upsample(self.from_eighth(y)) + quarter
        return self.heads(y), pool(sixteenth)

    def decode(self, heat, pooled):
        """Returns heat maps as logits, x and y from 0 to 1, depths, presence, handedness, world."""
        heat = full(heat).flatten(2)
        with torch.autocast("cpu", enabled=False) if self.training else contextlib.nullcontext():
            position = F.linear(torch.softmax(heat, 2), self.grid)
        rest = full(self.rest(torch.cat([full(pooled), position.flatten(1) - 0.5], 1)))
        return heat, position, rest[:, 2:2 + LANDMARKS], rest[:, 0], rest[:, 1], rest[:, 2 + LANDMARKS:]

    def outputs(self, heat, pooled):
        """Returns the outputs of `forward`."""
        _, position, depth, presence, handedness, world = self.decode(heat, pooled)
        landmarks = torch.cat([position, depth[:, :, None]], 2) * SIZE
        return (landmarks.reshape(-1, 3 * LANDMARKS), torch.sigmoid(presence)[:, None],
                torch.sigmoid(handedness)[:, None], world * WORLD_SCALE)

    def forward(self, x):
        """Image f32[1, 3, 96, 96] from 0 to 1 to landmarks f32[1, 63] (x, y, z in pixels), presence
        f32[1, 1], handedness f32[1, 1] (1 is right), world f32[1, 63] in meters.
        """
        return self.outputs(*self.features(x))


def random_warp(rng, count):
    """Draws mirroring, rotation, scale and shift: matrices for `warp`, and their parts."""
    mirror = torch.from_numpy(np.where(rng.random(count) < 0.5, -1, 1).astype(np.float32))
    angle, zoom = normal(rng, .15, count), uniform(rng, .85, 1.12, count)
    c, s, shift = angle.cos() * zoom, angle.sin() * zoom, normal(rng, .04, count, 2)
    matrix = torch.stack([torch.stack([c * mirror, -s, shift[:, 0]], 1),
                          torch.stack([s * mirror, c, shift[:, 1]], 1)], 1)
    return matrix, mirror, angle, zoom


def prepare(records, rng=None):
    """Returns input, landmarks (x, y, z from 0 to 1), world (n, 21, 3), right, presence.

    Records are augmented if `rng` is given.
    """
    images = to_tensor(records["image"])
    points, world = (torch.from_numpy(records[name].copy()) for name in ("points", "world"))
    is_right, is_hand = (torch.from_numpy(records[name].copy()) for name in ("is_right", "is_hand"))
    points = points / hand_crops.SIZE
    if rng is None:
        matrix = torch.eye(2, 3).repeat(len(images), 1, 1)
        return network_input(warp(images, matrix, SIZE, SIZE)), points, world, is_right, is_hand
    matrix, mirror, angle, zoom = random_warp(rng, len(images))
    images = erase(rng, vary_colors(rng, warp(images, matrix, SIZE, SIZE)))
    flat = points[:, :, :2] * 2 - 1 - matrix[:, None, :, 2]
    flat = torch.linalg.solve(matrix[:, :, :2], flat.transpose(1, 2)).transpose(1, 2)
    points = torch.cat([(flat + 1) / 2, points[:, :, 2:] / zoom[:, None, None]], 2)
    # The inverse of the warp: rotated back, then mirrored.
    c, s, m = (part[:, None] for part in (angle.cos(), angle.sin(), mirror))
    x, y, z = world.unbind(2)
    world = torch.stack([(c * x + s * y) * m, c * y - s * x, z], 2)
    is_right = torch.where(mirror < 0, 1 - is_right, is_right)
    return network_input(images), points, world, is_right, is_hand


def heat_targets(position, centers):
    """Returns normalized Gaussian heat maps (n, 21, cells)."""
    x, y = (torch.exp(-0.5 * ((position[..., k:k + 1] - centers) * SIZE / HEAT_DEVIATION) ** 2) for k in (0, 1))
    heat = (y[..., :, None] * x[..., None, :]).flatten(2) + 1e-9
    return heat / heat.sum(2, keepdim=True)


def scores(outputs, points, world, is_right, is_hand):
    """Returns figures of outputs of `HandNetwork.forward`."""
    landmarks, presence, handedness, located = (output.float() for output in outputs)
    hands = is_hand > 0.5
    landmarks, points = landmarks.reshape(-1, LANDMARKS, 3)[hands], points[hands] * SIZE
    extent = (points[..., :2].amax(1) - points[..., :2].amin(1)).amax(1)
    error = (landmarks - points)[..., :2].norm(dim=2) / extent[:, None]
    world_error = (located.reshape(-1, LANDMARKS, 3)[hands] - world[hands]).norm(dim=2)
    return {"pck": float((error < 0.2).float().mean()), "pck_0.1": float((error < 0.1).float().mean()),
            "median_error": float(error.median()), "mean_error": float(error.mean()),
            "presence": float(((presence[:, 0] > 0.5) == hands).float().mean()),
            "handedness": float(((handedness[:, 0] > 0.5) == (is_right > 0.5))[hands].float().mean()),
            "world_mm": float(world_error.mean() * 1000)}


class HandTask(Task):
    NAME, STEPS, RESTART, BATCH_SIZE, MAX_SHARDS = "hand", 20000, 12000, 64, 80
    prepare = staticmethod(prepare)

    def __init__(self, seed):
        super().__init__(seed)
        self.shards = Shards("hand", "train", seed, hand_crops.draw_crops)
        self.validation = Shards("hand", "validation", seed, hand_crops.draw_crops)

    def network(self):
        return HandNetwork()

    def loss(self, network, rng, shards):
        inputs, points, world, is_right, is_hand = prepare(self.shards.sample(rng, self.BATCH_SIZE, shards), rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            heat, position, depth, presence, handedness, located = network.decode(*network.features(inputs))
        hands = is_hand > 0.5
        flat = points[..., :2]
        inside = ((flat * SIZE > -MAX_OUTSIDE) & (flat * SIZE < SIZE + MAX_OUTSIDE)).all(2) & hands[:, None]
        count = inside.sum().clamp(min=1)
        offset = F.smooth_l1_loss(position * SIZE, flat * SIZE, beta=2.0, reduction="none").sum(2)
        entropy = -(heat_targets(flat, network.centers) * torch.log_softmax(heat, 2)).sum(2)
        located = located.reshape(-1, LANDMARKS, 3)
        return (0.5 * (offset * inside).sum() / count + 4 * (entropy * inside).sum() / count
                + 2 * (located[hands] - world[hands] / WORLD_SCALE).abs().mean()
                + 2 * F.smooth_l1_loss(depth[hands], points[..., 2][hands], beta=0.1)
                + 0.5 * F.binary_cross_entropy_with_logits(presence, is_hand)
                + 0.5 * F.binary_cross_entropy_with_logits(handedness[hands], is_right[hands]))

    def validate(self, network):
        records = self.validation.first(1024)
        with torch.no_grad():
            batches = [prepare(records[i:i + 128]) for i in range(0, len(records), 128)]
            outputs = [network(batch[0]) for batch in batches]
        joined = [torch.cat(parts) for parts in zip(*outputs)]
        return scores(joined, *(torch.cat(parts) for parts in list(zip(*batches))[1:]))
