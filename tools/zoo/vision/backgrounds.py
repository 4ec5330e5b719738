"""Procedural backgrounds: noise at several scales with shapes and letters."""
import string

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

# Linear colors of skin; shapes in these colors are distractors.
SKINS = np.array([[.94, .72, .60], [.87, .62, .48], [.80, .55, .40], [.70, .44, .30], [.55, .34, .23], [.40, .24, .16],
                  [.28, .17, .12], [.95, .78, .68]]) ** 2.2


def _noise(rng, size):
    """Draws an image of random values at a random scale."""
    grid = 2 ** int(rng.integers(1, 7))
    channels = 3 if rng.random() < 0.5 else 1
    method = (Image.Resampling.BICUBIC, Image.Resampling.NEAREST, Image.Resampling.BILINEAR)[rng.integers(3)]
    planes = [Image.fromarray(rng.normal(0, 1, (grid, grid)).astype(np.float32)) for _ in range(channels)]
    planes = [np.asarray(plane.resize((size, size), method)) for plane in planes]
    return np.stack(planes, 2) * rng.uniform(5, 45)


def _draw_shape(rng, draw, size, kinds):
    if rng.random() < 0.6:
        color = tuple(int(v) for v in rng.integers(0, 256, 3))
    else:
        skin = 255 * SKINS[rng.integers(len(SKINS))] ** (1 / 2.2) * rng.uniform(0.6, 1.1)
        color = tuple(int(min(v, 255)) for v in skin)
    width = int(rng.integers(1, 10))
    fill, outline = (color, None) if rng.random() < 0.6 else (None, color)
    x, y = rng.uniform(-20, size + 20, (2, 2))
    corners = [min(x), min(y), max(x), max(y)]
    kind = rng.integers(kinds)
    if kind == 0:
        draw.rectangle(corners, fill, outline, width)
    elif kind == 1:
        draw.ellipse(corners, fill, outline, width)
    elif kind == 2:
        draw.line([x[0], y[0], x[1], y[1]], color, int(rng.integers(1, 26)))
    elif kind == 3:
        draw.polygon([tuple(p) for p in rng.uniform(0, size, (5, 2))], fill, outline)
    else:
        text = "".join(rng.choice(list(string.ascii_letters), 6))
        draw.text((x[0], y[0]), text, color, font_size=float(rng.uniform(10, 60)))


def draw_background(rng, size, has_letters=True):
    """Draws a square RGB image."""
    image = rng.uniform(20, 235, 3) + sum(_noise(rng, size) for _ in range(rng.integers(1, 6)))
    image = Image.fromarray(np.clip(image, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(rng.integers(0, 14)):
        _draw_shape(rng, draw, size, 5 if has_letters else 4)
    if rng.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 4)))
    return np.asarray(image)


class Bank:
    """Backgrounds to cut from."""

    def __init__(self, rng, count, size, has_letters=True):
        self.images = np.stack([draw_background(rng, size, has_letters) for _ in range(count)])

    def cut(self, rng, height, width):
        """Cuts a random part, flipped at random."""
        image = self.images[rng.integers(len(self.images))]
        y, x = rng.integers(0, image.shape[0] - height + 1), rng.integers(0, image.shape[1] - width + 1)
        image = image[y:y + height, x:x + width]
        flips = tuple(axis for axis in (0, 1) if rng.random() < 0.5)
        return np.ascontiguousarray(np.flip(image, flips))
