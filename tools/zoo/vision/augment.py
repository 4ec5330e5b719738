"""Random geometry and colors of a batch of images, and their targets."""
import numpy as np
import torch
from torch.nn import functional as F


def uniform(rng, low, high, *shape):
    return torch.from_numpy(rng.uniform(low, high, shape).astype(np.float32))


def normal(rng, deviation, *shape):
    return torch.from_numpy((rng.normal(size=shape) * deviation).astype(np.float32))


def to_tensor(images):
    """Returns u8 images (n, height, width, channels) as f32 (n, channels, height, width)."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float()


def warp(images, matrix, height, width):
    """Samples images at the positions `matrix` (n, 2, 3) of the result, from -1 to 1."""
    grid = F.affine_grid(matrix, (len(images), images.shape[1], height, width), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def vary_colors(rng, images):
    """Varies brightness, contrast, tint, sharpness and noise of images of values from 0 to 255."""
    n = len(images)
    images = images * uniform(rng, .6, 1.35, n, 1, 1, 1) + uniform(rng, -30, 30, n, 1, 1, 1)
    images = images * (1 + normal(rng, .07, n, images.shape[1], 1, 1))
    mean = images.mean((2, 3), keepdim=True)
    images = (images - mean) * uniform(rng, .6, 1.25, n, 1, 1, 1) + mean
    soft, coarse, gray = (torch.from_numpy(rng.random(n) < p) for p in (.3, .15, .08))
    images[soft] = F.avg_pool2d(images[soft], 3, 1, 1, count_include_pad=False)
    if coarse.any():
        images[coarse] = F.interpolate(F.avg_pool2d(images[coarse], 2), scale_factor=2.0, mode="bilinear")
    images[gray] = images[gray].mean(1, keepdim=True)
    noise = torch.from_numpy(rng.standard_normal(images.shape, np.float32))
    return (images + noise * uniform(rng, 0, 14, n, 1, 1, 1)).clamp(0, 255)


def erase(rng, images, every=4, low=8, high=34):
    """Covers a rectangle of each `every`-th image with one color."""
    height, width = images.shape[2:]
    for i in range(0, len(images), every):
        h, w = rng.integers(low, high, 2)
        y, x = rng.integers(0, height - low), rng.integers(0, width - low)
        images[i, :, y:y + h, x:x + w] = uniform(rng, 0, 255, images.shape[1], 1, 1)
    return images


def network_input(images):
    """Returns images of values from 0 to 255 as the input of a network."""
    return (images / 255).contiguous(memory_format=torch.channels_last)
