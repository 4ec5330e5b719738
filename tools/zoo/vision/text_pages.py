"""Scenes with lines of text: training and test data of the text detector."""
import dataclasses

import numpy as np
from backgrounds import Bank
from PIL import Image, ImageDraw, ImageFilter
from text_lines import contrasting_colors, draw_font, draw_text, text_mask

SIZE = 320
# The labels have half the size of the image.
LABEL_SCALE = 2
BACKGROUNDS = 80
# Growth of a region of the detector, as in PaddleOCR: by area * UNCLIP / perimeter on each side.
UNCLIP = 1.6
# Pixels by which drawing a polygon and the dilation of the map enlarge a box on each side.
EDGE = 1.4
# Height of capitals in pixels.
CAP_HEIGHT = (7, 34)
MIN_CAP = 6.0
RECORD = np.dtype([("image", "u1", (SIZE, SIZE, 3)), ("label", "u1", (SIZE // LABEL_SCALE, SIZE // LABEL_SCALE))])
NO_TEXT, TEXT, IGNORED = range(3)


@dataclasses.dataclass
class Line:
    """Line of text with the corners of its box: top left, top right, bottom right, bottom left."""
    text: str
    corners: np.ndarray
    cap: float


def shrunk(corners):
    """Returns the box that UNCLIP grows to `corners`."""
    along, down = corners[1] - corners[0], corners[3] - corners[0]
    width, height = np.linalg.norm(along), np.linalg.norm(down)
    low, high = 0.0, min(width, height) / 2
    for _ in range(30):
        inset = (low + high) / 2
        w, h = width - 2 * inset, height - 2 * inset
        grown = inset if w + h <= 0 else w * h * UNCLIP / (2 * (w + h))
        low, high = (inset, high) if grown > inset else (low, inset)
    low = min(low + EDGE, .47 * min(width, height))
    a, d = along / width * low, down / height * low
    return corners + np.array([a + d, d - a, -a - d, a - d])


def paste(image, mask, ink, matrix):
    """Blends a text into an image. `matrix` maps pixels of the mask to those of the image."""
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2]
    height, width = image.shape[:2]
    warped = Image.fromarray((mask * 255).astype(np.uint8)).transform(
        (width, height), Image.Transform.AFFINE, inverse.ravel(), Image.Resampling.BILINEAR)
    cover = np.asarray(warped, np.float32)[..., None] / 255
    image[:] = image * (1 - cover) + ink * cover


def _draw_panel(rng, image, center, half, turn, paper):
    """Draws a sheet of paper under a block."""
    corners = center + (np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half) @ turn.T
    panel = Image.fromarray(image.astype(np.uint8))
    ImageDraw.Draw(panel).polygon([tuple(corner) for corner in corners], tuple(int(v) for v in paper))
    image[:] = np.asarray(panel)


def draw_block(rng, split, image, tilt):
    """Draws a block of lines into `image`. Returns the lines."""
    height, width = image.shape[:2]
    cap = float(np.exp(rng.uniform(*np.log(CAP_HEIGHT))))
    angle = rng.normal(0, tilt) if rng.random() < .7 else 0.0
    shear = rng.normal(0, .5 * tilt)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ [[1, shear], [0, 1]]
    font, spacing = draw_font(rng, split, max(int(cap / .7), 8)), cap * rng.uniform(1.7, 2.6)
    rows = [draw_text(rng, split, int(rng.integers(4, 29))) for _ in range(rng.integers(1, 6))]
    masks = [text_mask(text, font) for text in rows]
    block = np.array([max(mask.shape[1] for mask, _, _ in masks), spacing * len(rows)])
    center = rng.uniform(.1, .9, 2) * [width, height]
    ink, paper = contrasting_colors(rng)
    if rng.random() < .7:
        _draw_panel(rng, image, center, block / 2 + rng.uniform(.2, 1.2, 2) * cap, turn, paper)
    else:
        # Without a sheet, the ink must differ from what is there.
        low, high = np.clip(center - block / 2, 0, None).astype(int), np.clip(center + block / 2, 1, None).astype(int)
        under = image[low[1]:high[1], low[0]:high[0]].reshape(-1, 3)
        under = under.mean(0) if len(under) else paper
        ink = ink if np.abs(ink - under).mean() > 70 else np.where(under > 128, under * .2, 255 - under * .2)
    lines = []
    for i, (text, (mask, baseline, top)) in enumerate(zip(rows, masks)):
        start = np.array([-block[0] / 2, -block[1] / 2 + (i + .75) * spacing - baseline])
        matrix = np.column_stack([turn, center + turn @ start])
        paste(image, mask, ink, matrix)
        h, w = mask.shape
        box = np.array([[-.5, -.5], [w + .5, -.5], [w + .5, h + .5], [-.5, h + .5]])
        lines.append(Line(text, box @ turn.T + matrix[:, 2], baseline - top))
    return lines


def _overlaps(lines, taken):
    """True if a box around the lines overlaps one of the boxes in `taken`."""
    corners = np.concatenate([line.corners for line in lines])
    low, high = corners.min(0), corners.max(0)
    return any((low < other_high).all() and (other_low < high).all() for other_low, other_high in taken), (low, high)


def draw_page(rng, split, bank, width=SIZE, height=SIZE, tilt=.12):
    """Draws a scene. Returns the image (height, width, 3) and its lines."""
    image = bank.cut(rng, height, width).astype(np.float32)
    lines, taken = [], []
    blocks = 0 if rng.random() < .04 else rng.integers(1, 6)
    for _ in range(blocks):
        before = image.copy()
        block = draw_block(rng, split, image, tilt)
        covered, box = _overlaps(block, taken)
        if covered:
            image[:] = before
        else:
            taken.append(box)
            lines += block
    if rng.random() < .35:
        blurred = Image.fromarray(image.astype(np.uint8)).filter(ImageFilter.GaussianBlur(rng.uniform(.3, 1.1)))
        image = np.asarray(blurred, np.float32)
    return np.clip(image, 0, 255).astype(np.uint8), lines


def visible_fraction(corners, width, height):
    """Returns the fraction of the middle line of a box that is in the image."""
    points = np.linspace((corners[0] + corners[3]) / 2, (corners[1] + corners[2]) / 2, 50)
    return ((points >= 0) & (points < [width, height])).all(1).mean()


def draw_label(lines, width, height):
    """Returns the label map: shrunk boxes are text; tiny lines and those cut off are ignored."""
    label = Image.new("L", (width // LABEL_SCALE, height // LABEL_SCALE))
    draw = ImageDraw.Draw(label)
    for line in lines:
        is_ignored = line.cap < MIN_CAP or visible_fraction(line.corners, width, height) < .2
        corners = line.corners if is_ignored else shrunk(line.corners)
        points = [tuple(point) for point in corners / LABEL_SCALE - .5]
        draw.polygon(points, IGNORED if is_ignored else TEXT)
    return np.asarray(label)


def draw_pages(rng, count, split="train"):
    """Draws records."""
    bank, records = Bank(rng, BACKGROUNDS, SIZE + 120, has_letters=False), np.zeros(count, RECORD)
    for record in records:
        image, lines = draw_page(rng, split, bank)
        record["image"], record["label"] = image, draw_label(lines, SIZE, SIZE)
    return records
