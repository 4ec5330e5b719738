"""Lines of text in an image: network, loss, validation."""
import numpy as np
import text_pages
import torch
from augment import network_input, to_tensor, vary_colors
from layers import conv, full, stage, upsample
from shards import Shards
from text_pages import IGNORED, TEXT
from torch import nn
from torch.nn import functional as F
from training import Task

# Size of the program. Training uses squares; the network takes any multiple of 32.
WIDTH, HEIGHT = 640, 480
# The negatives with the highest loss count, at most this many for each positive.
NEGATIVES = 3


class TextDetector(nn.Module):
    """Feature pyramid with a probability for each pixel of half the size."""

    def __init__(self, widths=(16, 24, 48, 64), neck=32):
        super().__init__()
        a, b, c, d = widths
        self.stem = nn.Sequential(conv(3, a, 3, 2), conv(a, a))
        self.levels = nn.ModuleList([stage(a, b), stage(b, c), stage(c, d), stage(d, d, 1)])
        self.lateral = nn.ModuleList([conv(width, neck, 1) for width in (b, c, d, d)])
        self.smooth = conv(neck, neck)
        self.head = nn.Sequential(conv(neck + a, neck // 2), nn.Conv2d(neck // 2, 1, 1))

    def features(self, x):
        """Returns logits (n, 1, height / 2, width / 2)."""
        first = x = self.stem(x)
        features = []
        for level in self.levels:
            x = level(x)
            features.append(x)
        y = self.lateral[-1](features[-1])
        for lateral, feature in zip(reversed(self.lateral[:-1]), reversed(features[:-1])):
            y = upsample(y) + lateral(feature)
        y = torch.cat([upsample(self.smooth(y)), first], 1)
        return (self.head(y),)

    @staticmethod
    def outputs(logits):
        """Returns the output of `forward`."""
        return upsample(torch.sigmoid(logits))

    def forward(self, x):
        """Image f32[1, 3, 480, 640] from -1 to 1 to the probability of text f32[1, 1, 480, 640]."""
        return self.outputs(*self.features(x))


def prepare(records, rng=None):
    """Returns input and labels (n, 160, 160)."""
    images, labels = to_tensor(records["image"]), torch.from_numpy(records["label"].copy())
    if rng is not None:
        images = vary_colors(rng, images)
        inverted = torch.from_numpy(rng.random(len(images)) < .2)
        images[inverted] = 255 - images[inverted]
    return network_input(images) * 2 - 1, labels


def text_loss(logits, labels):
    """Cross-entropy with the hardest negatives, and the Dice loss."""
    target, counted = (labels == TEXT).float(), (labels != IGNORED).float()
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none") * counted
    positive = (entropy * target).sum()
    count = int(target.sum().clamp(min=100))
    negative = (entropy * (1 - target)).flatten()
    hardest = negative.topk(min(NEGATIVES * count, negative.numel())).values.sum()
    shares = torch.sigmoid(logits) * counted
    dice = 1 - 2 * (shares * target).sum() / (shares.sum() + target.sum() + 1)
    return (positive + hardest) / (count * (1 + NEGATIVES)) * 4 + dice


class TextDetectorTask(Task):
    NAME, STEPS, BATCH_SIZE, MAX_SHARDS = "text_detector", 3000, 12, 32
    prepare = staticmethod(prepare)

    def __init__(self, seed):
        super().__init__(seed)
        self.shards = Shards("pages", "train", seed, text_pages.draw_pages, 256)
        self.validation = Shards("pages", "validation", seed, text_pages.draw_pages, 256)

    def network(self):
        return TextDetector()

    def loss(self, network, rng, shards):
        inputs, labels = prepare(self.shards.sample(rng, self.BATCH_SIZE, shards), rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, = network.features(inputs)
        return text_loss(full(logits)[:, 0], labels)

    def validate(self, network):
        inputs, labels = prepare(self.validation.first(128))
        with torch.no_grad():
            found = torch.cat([network.features(part)[0][:, 0] for part in inputs.split(16)]) > 0
        target, counted = labels == TEXT, labels != IGNORED
        both = (found & target).sum()
        return {"precision": float(both / (found & counted).sum().clamp(min=1)), "recall": float(both / target.sum()),
                "iou": float(both / ((found & counted) | target).sum())}


assert np.gcd(WIDTH, HEIGHT) % 32 == 0
