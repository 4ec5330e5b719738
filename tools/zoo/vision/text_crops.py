"""Lines of text as a recognizer gets them: 32 pixels high, at the left of a border of zeros."""
import numpy as np
from backgrounds import Bank
from PIL import Image
from scipy.ndimage import gaussian_filter
from text_lines import CHARACTERS, MAX_CHARACTERS, contrasting_colors, draw_font, draw_text, text_mask

WIDTH, HEIGHT = 320, 32
BACKGROUNDS = 60
RECORD = np.dtype([("image", "u1", (HEIGHT, WIDTH)), ("width", "i2"), ("text", "i2", MAX_CHARACTERS),
                   ("length", "i2")])
INDEX = {character: i for i, character in enumerate(CHARACTERS, 1)}
LUMA = np.array([.299, .587, .114])


def encode(text):
    """Returns the labels of a text."""
    return np.array([INDEX[character] for character in text], np.int16)


def decode(labels):
    """Returns the text of a path of labels (greedy CTC)."""
    kept = [label for i, label in enumerate(labels) if label and (i == 0 or label != labels[i - 1])]
    return "".join(CHARACTERS[label - 1] for label in kept)


def blend(rng, mask, bank):
    """Returns a text with its colors over a paper or a background, 0 to 255, in gray."""
    ink, paper = contrasting_colors(rng)
    under = np.broadcast_to(paper, (*mask.shape, 3)).astype(np.float32)
    if rng.random() < .4 and max(mask.shape) < bank.images.shape[1]:
        cut = bank.cut(rng, *mask.shape).astype(np.float32)
        under = under + (cut - cut.mean((0, 1))) * rng.uniform(.1, .5)
    elif rng.random() < .4:
        under = under + np.linspace(-1, 1, mask.shape[1])[None, :, None] * rng.uniform(-40, 40)
    image = under * (1 - mask[..., None]) + ink * mask[..., None]
    return np.clip(image @ LUMA, 0, 255)


def draw_corners(rng, rows, width, skew):
    """Draws the corners of the crop around a text that takes these rows: the margins of a detector,
    and, by `skew`, a rest of rotation, shear and perspective. In the order of `Image.QUAD`.
    """
    top, bottom = rows
    size = bottom - top
    drift, shear = np.clip(rng.normal(0, .12, 2), -.25, .25) * skew * size
    above, below = rng.uniform(-.02, .2, 2) * size + abs(drift) / 2
    left, right = rng.uniform(0, .4, 2) * size
    corners = np.array([[-left, top - above], [-left, bottom + below], [width + right, bottom + below],
                        [width + right, top - above]])
    corners[:, 1] += [-drift / 2, -drift / 2, drift / 2, drift / 2]
    corners[:, 0] += [shear / 2, -shear / 2, -shear / 2, shear / 2]
    return corners + rng.normal(0, .04 * skew, (4, 2)) * size


def draw_crop(rng, split, bank, skew, blur, detail=(14, 33)):
    """Draws a record. `blur` is the deviation of a Gaussian in pixels of the crop, `detail` the
    height in pixels that the line has in its image.
    """
    text = draw_text(rng, split)
    mask, baseline, cap = text_mask(text, draw_font(rng, split))
    rows = (0, len(mask)) if rng.random() < .5 else (cap, baseline + .3 * (baseline - cap))
    border = int(len(mask) * .8)
    corners = draw_corners(rng, rows, mask.shape[1], skew) + border
    image = Image.fromarray(blend(rng, np.pad(mask, border), bank).astype(np.float32))
    height = min(int(rng.integers(*detail)), HEIGHT)
    aspect = (corners[3] - corners[0])[0] / (corners[1] - corners[0])[1] * rng.uniform(.85, 1.15)
    width = int(np.clip(round(aspect * HEIGHT), 8, WIDTH))
    # Twice the size and back: the rays of a pixel cover all of it.
    small = max(round(width * height / HEIGHT), 4), height
    image = image.transform((small[0] * 2, small[1] * 2), Image.Transform.QUAD, corners.ravel(),
                            Image.Resampling.BILINEAR).resize(small, Image.Resampling.BOX)
    image = image.resize((width, HEIGHT), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32)
    if blur:
        pixels = gaussian_filter(pixels, blur)
    record = np.zeros((), RECORD)
    record["image"][:, :width] = np.clip(pixels, 0, 255)
    record["width"], record["length"] = width, len(text)
    record["text"][:len(text)] = encode(text)
    return record


def draw_crops(rng, count, split="train"):
    """Draws records. Half of them are skewed, and a third are blurred."""
    bank = Bank(rng, BACKGROUNDS, 600)
    return np.stack([draw_crop(rng, split, bank, rng.uniform(0, 1.2) * (rng.random() < .5),
                               rng.uniform(.4, 1.5) * (rng.random() < .35)) for _ in range(count)])
