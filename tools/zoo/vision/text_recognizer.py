"""Text of a line: network, loss, validation."""
import functools

import numpy as np
import text_crops
import torch
from augment import normal, uniform
from layers import Residual, conv, full
from shards import Shards
from text_crops import HEIGHT, WIDTH
from text_lines import CHARACTERS
from torch import nn
from torch.nn import functional as F
from training import Task

# Pixels of a step of the output.
STEP = 4


class Temporal(nn.Module):
    """Depthwise and pointwise convolution along the line, beside a shortcut."""

    def __init__(self, width, kernel=9):
        super().__init__()
        self.depthwise = nn.Sequential(
            nn.Conv2d(width, width, (1, kernel), 1, (0, kernel // 2), groups=width, bias=False), nn.BatchNorm2d(width))
        self.pointwise = nn.Sequential(conv(width, 2 * width, 1), nn.Conv2d(2 * width, width, 1, bias=False),
                                       nn.BatchNorm2d(width))

    @staticmethod
    def outputs(logits):
        """Returns the output of `forward`."""
        return torch.softmax(logits, 2)

    def forward(self, x):
        return x + self.pointwise(self.depthwise(x))


class TextRecognizer(nn.Module):
    """Residual network that reduces the height to one, and convolutions along the line."""

    def __init__(self, widths=(24, 40, 64, 96, 128)):
        super().__init__()
        a, b, c, d, e = widths
        self.trunk = nn.Sequential(conv(1, a, 3, 2), Residual(a, b, 2), Residual(b, b), Residual(b, c, (2, 1)),
                                   Residual(c, c), Residual(c, d, (2, 1)))
        self.collapse = nn.Sequential(nn.Conv2d(d, e, (2, 1), bias=False), nn.BatchNorm2d(e), nn.ReLU(inplace=True))
        self.line = nn.Sequential(*(Temporal(e) for _ in range(4)))
        self.head = nn.Conv2d(e, 1 + len(CHARACTERS), 1)

    def features(self, x):
        """Returns logits (n, steps, 96)."""
        y = self.head(self.line(self.collapse(self.trunk(x))))
        return (y.flatten(2).transpose(1, 2),)

    @staticmethod
    def outputs(logits):
        """Returns the output of `forward`."""
        return torch.softmax(logits, 2)

    def forward(self, x):
        """Gray line f32[1, 1, 32, 320] from -1 to 1 to probabilities f32[1, 80, 96]: the blank of
        CTC, then the characters.
        """
        return self.outputs(*self.features(x))


def prepare(records, rng=None):
    """Returns input, labels (n, 28) and lengths. The border at the right is 0."""
    images = torch.from_numpy(records["image"].copy()).float()[:, None]
    width = torch.from_numpy(records["width"].astype("i8"))
    if rng is not None:
        n = len(images)
        gain, shift = uniform(rng, .6, 1.3, n, 1, 1, 1), uniform(rng, -30, 30, n, 1, 1, 1)
        images = (images - 128) * gain + 128 + shift
        images = images + normal(rng, 1, *images.shape) * uniform(rng, 0, 16, n, 1, 1, 1)
        inverted = torch.from_numpy(rng.random(n) < .3)
        images[inverted] = 255 - images[inverted]
    images = (images.clamp(0, 255) / 255 - 0.5) / 0.5
    images = images * (torch.arange(WIDTH) < width[:, None])[:, None, None].float()
    labels = torch.from_numpy(records["text"].astype("i8"))
    lengths = torch.from_numpy(records["length"].astype("i8"))
    return images.contiguous(memory_format=torch.channels_last), labels, lengths


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def texts(records):
    return ["".join(CHARACTERS[label - 1] for label in record["text"][:record["length"]]) for record in records]


def character_error_rate(read, expected):
    return sum(map(edit_distance, read, expected)) / sum(map(len, expected))


class TextRecognizerTask(Task):
    NAME, STEPS, BATCH_SIZE, MAX_SHARDS = "text_recognizer", 5000, 64, 96
    prepare = staticmethod(prepare)

    def __init__(self, seed):
        super().__init__(seed)
        self.shards = Shards("lines", "train", seed, text_crops.draw_crops)
        self.validation = Shards("lines", "validation", seed, functools.partial(text_crops.draw_crops, split="train"))

    def network(self):
        return TextRecognizer()

    def loss(self, network, rng, shards):
        inputs, labels, lengths = prepare(self.shards.sample(rng, self.BATCH_SIZE, shards), rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, = network.features(inputs)
        logits = full(logits)
        steps = torch.full((len(inputs),), logits.shape[1])
        return F.ctc_loss(torch.log_softmax(logits, 2).transpose(0, 1), labels, steps, lengths, zero_infinity=True)

    def validate(self, network):
        records = self.validation.first(512)
        inputs = prepare(records)[0]
        with torch.no_grad():
            paths = torch.cat([network(part).argmax(2) for part in inputs.split(64)]).numpy()
        read, expected = [text_crops.decode(path) for path in paths], texts(records)
        return {"cer": character_error_rate(read, expected),
                "exact": float(np.mean([a == b for a, b in zip(read, expected)]))}


assert WIDTH // STEP >= 2 * text_crops.MAX_CHARACTERS and HEIGHT == 32
