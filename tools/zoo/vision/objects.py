"""Objects in a room: anchor-free detector, loss, validation."""
import detection
import numpy as np
import room_views
import torch
from augment import erase, network_input, normal, to_tensor, uniform, vary_colors
from layers import conv, full, stage, upsample
from room_scenes import LABELS
from shards import Shards
from torch import nn
from torch.nn import functional as F
from training import Task

WIDTH, HEIGHT = 160, 128
PAD = 114
STRIDES = (8, 16, 32)
# Task-aligned assignment: each object takes the locations with the highest score^ALPHA * IoU^BETA.
TOP_LOCATIONS, ALPHA, BETA = 8, 0.5, 4.0
CENTER_RADIUS = 1.5
BOX_WEIGHT = 4.0
MAX_LOG_DISTANCE = 4.0
THRESHOLD, MAX_OVERLAP = 0.25, 0.6


def locations():
    """Returns centers (n, 2) and strides (n) of the locations of all levels, in pixels."""
    centers, strides = [], []
    for stride in STRIDES:
        y, x = np.mgrid[:HEIGHT // stride, :WIDTH // stride]
        centers.append(np.stack([x.ravel(), y.ravel()], 1) * stride + stride / 2)
        strides.append(np.full(x.size, stride))
    return (torch.from_numpy(np.concatenate(centers).astype("f4")),
            torch.from_numpy(np.concatenate(strides).astype("f4")))


class ObjectsNetwork(nn.Module):
    """Residual network with a feature pyramid, and heads at each level."""

    def __init__(self, widths=(16, 24, 48, 80, 96), neck=48):
        super().__init__()
        a, b, c, d, e = widths
        self.stem = nn.Sequential(conv(3, a, 3, 2), stage(a, b))
        self.levels = nn.ModuleList([stage(b, c), stage(c, d), stage(d, e, 1)])
        self.lateral = nn.ModuleList([conv(width, neck, 1) for width in (c, d, e)])
        self.smooth = nn.ModuleList([conv(neck, neck) for _ in STRIDES])
        # XNNPACK cannot load int8 convolutions that share their weights.
        self.box_heads = nn.ModuleList([nn.Sequential(conv(neck, neck), nn.Conv2d(neck, 4, 1)) for _ in STRIDES])
        self.class_heads = nn.ModuleList([nn.Sequential(conv(neck, neck), nn.Conv2d(neck, len(LABELS), 1))
                                          for _ in STRIDES])
        for head in self.class_heads:
            nn.init.constant_(head[-1].bias, -4.0)
        centers, strides = locations()
        self.register_buffer("centers", centers.T.clone()[None])
        self.register_buffer("strides", strides[None, None])

    def features(self, x):
        """Returns logarithms of the distances to the four sides (n, 4, locations), and class logits."""
        x, features = self.stem((x - 0.5) * 4), []
        for level in self.levels:
            x = level(x)
            features.append(x)
        above, boxes, classes = None, [], []
        for k in reversed(range(len(STRIDES))):
            y = self.lateral[k](features[k])
            above = y if above is None else y + upsample(above)
            y = self.smooth[k](above)
            boxes.insert(0, self.box_heads[k](y).flatten(2))
            classes.insert(0, self.class_heads[k](y).flatten(2))
        return torch.cat(boxes, 2), torch.cat(classes, 2)

    @staticmethod
    def distances(logarithms):
        """Returns distances to the sides in strides."""
        return torch.exp(full(logarithms).clamp(max=MAX_LOG_DISTANCE))

    def corners(self, distances):
        """Returns boxes (n, 4, locations) as x0, y0, x1, y1."""
        low = self.centers - distances[:, :2] * self.strides
        high = self.centers + distances[:, 2:] * self.strides
        return torch.cat([low, high], 1)

    def outputs(self, logarithms, classes):
        """Returns the output of `forward`."""
        distances = self.distances(logarithms)
        low, high = distances[:, :2] * self.strides, distances[:, 2:] * self.strides
        return torch.cat([self.centers + (high - low) / 2, low + high, torch.sigmoid(classes)], 1)

    def forward(self, x):
        """Image f32[1, 3, 128, 160] from 0 to 1 to f32[1, 12, 420]: center x, y, width, height in
        pixels, and scores of the classes.
        """
        return self.outputs(*self.features(x))


def letterbox(images):
    """Returns images (n, 3, 120, 160) with a border above and below."""
    border = (HEIGHT - images.shape[2]) // 2
    return F.pad(images, (0, 0, border, border), value=PAD)


def prepare(records, rng=None):
    """Returns input, boxes (n, 20, 4), labels (n, 20), -1 for none, and ignored (n, 20).

    Records are augmented if `rng` is given.
    """
    images = letterbox(to_tensor(records["image"]))
    boxes = torch.from_numpy(records["boxes"]["corners"].copy())
    boxes = boxes + torch.tensor([0, 1, 0, 1]) * ((HEIGHT - room_views.HEIGHT) // 2)
    labels = torch.from_numpy(records["boxes"]["label"].astype("i8"))
    ignored = torch.from_numpy(records["boxes"]["is_ignored"].copy())
    count = torch.from_numpy(records["count"].astype("i8"))
    labels[torch.arange(labels.shape[1])[None] >= count[:, None]] = -1
    if rng is None:
        return network_input(images), boxes, labels, ignored
    n = len(images)
    mirror = torch.from_numpy(np.where(rng.random(n) < 0.5, -1, 1).astype(np.float32))
    zoom, shift = uniform(rng, .75, 1.2, n), normal(rng, .08, n, 2)
    zero = torch.zeros(n)
    matrix = torch.stack([torch.stack([zoom * mirror, zero, shift[:, 0]], 1),
                          torch.stack([zero, zoom, shift[:, 1]], 1)], 1)
    grid = F.affine_grid(matrix, images.shape, align_corners=False)
    images = F.grid_sample(images - PAD, grid, padding_mode="zeros", align_corners=False) + PAD
    size = torch.tensor([WIDTH, HEIGHT] * 2)
    flat = boxes / size * 2 - 1 - torch.cat([shift, shift], 1)[:, None]
    flat = flat / torch.stack([zoom * mirror, zoom] * 2, 1)[:, None]
    moved = (flat + 1) / 2 * size
    moved = torch.cat([torch.minimum(moved[..., :2], moved[..., 2:]), torch.maximum(moved[..., :2], moved[..., 2:])], 2)
    clipped = torch.minimum(moved.clamp(min=0), size)
    kept = (clipped[..., 2:] - clipped[..., :2]).prod(2) / (moved[..., 2:] - moved[..., :2]).prod(2).clamp(min=1e-6)
    ignored = ignored | (kept < .3)
    labels = torch.where(kept < .05, -1, labels)
    return network_input(erase(rng, vary_colors(rng, images), 3, 6, 24)), clipped, labels, ignored


def pair_overlaps(a, b):
    """Returns IoU and generalized IoU of boxes in the last dimension, broadcast."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - both + 1e-6
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1) + 1e-6
    return both / union, both / union - (hull - union) / hull


@torch.no_grad()
def assign(corners, scores, centers, strides, boxes, labels, ignored):
    """Returns for each location its object (n, locations), -1 for none, and the target score."""
    present = (labels >= 0) & ~ignored
    shared = pair_overlaps(boxes[:, :, None], corners[:, None])[0]
    own = scores.gather(1, labels.clamp(min=0)[:, :, None].expand(-1, -1, scores.shape[2]))
    middle = (boxes[..., :2] + boxes[..., 2:]) / 2
    far = (middle[:, :, None] - centers).abs().amax(3) / strides
    inside = ((centers > boxes[:, :, None, :2]) & (centers < boxes[:, :, None, 2:])).all(3)
    allowed = (inside | (far < CENTER_RADIUS)) & present[:, :, None]
    quality = own.pow(ALPHA) * shared.pow(BETA) * allowed
    best = quality.topk(TOP_LOCATIONS, 2).indices
    taken = torch.zeros_like(quality).scatter_(2, best, 1.0) * (quality > 1e-9)
    rank, owner = (shared * taken + taken).max(1)
    highest = (quality * taken).amax(2, keepdim=True).clamp(min=1e-9)
    target = quality * taken / highest * (shared * taken).amax(2, keepdim=True)
    target = target.gather(1, owner[:, None])[:, 0]
    return torch.where(rank > 0, owner, -1), torch.where(rank > 0, target, 0)


def mean_average_precision(outputs, boxes, labels, ignored):
    """Returns the average precision at IoU 0.5 of each class."""
    decoded = [detection.decode_rows(output, 0.01, MAX_OVERLAP) for output in outputs]
    result = []
    for label in range(len(LABELS)):
        found = [(b[l == label], s[l == label]) for b, l, s in decoded]
        expected = [(b[l == label], i[l == label]) for b, l, i in zip(boxes, labels, ignored)]
        result.append(detection.average_precision(found, expected))
    return result


class ObjectsTask(Task):
    NAME, STEPS, RESTART, BATCH_SIZE, MAX_SHARDS = "objects", 11000, 4500, 32, 48
    prepare = staticmethod(prepare)

    def __init__(self, seed):
        super().__init__(seed)
        self.shards = Shards("rooms", "train", seed, room_views.draw_views)
        self.validation = Shards("rooms", "validation", seed, room_views.draw_views)

    def network(self):
        return ObjectsNetwork()

    def loss(self, network, rng, shards):
        inputs, boxes, labels, ignored = prepare(self.shards.sample(rng, self.BATCH_SIZE, shards), rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logarithms, classes = network.features(inputs)
        distances, classes = network.distances(logarithms), full(classes)
        corners, centers = network.corners(distances).transpose(1, 2), network.centers[0].T
        owner, target = assign(corners.detach(), classes.detach().sigmoid(), centers, network.strides[0], boxes,
                               labels, ignored)
        is_object, index = owner >= 0, owner.clamp(min=0)
        hidden = ((centers > boxes[:, :, None, :2]) & (centers < boxes[:, :, None, 2:])).all(3)
        hidden = (hidden & (ignored & (labels >= 0))[:, :, None]).any(1) & ~is_object
        wanted = F.one_hot(labels.gather(1, index).clamp(min=0), len(LABELS)) * target[..., None]
        total = target.sum().clamp(min=1)
        entropy = F.binary_cross_entropy_with_logits(classes, wanted.transpose(1, 2), reduction="none").sum(1)
        assigned = boxes.gather(1, index[..., None].expand(-1, -1, 4))
        shape = 1 - pair_overlaps(corners, assigned)[1]
        return (entropy * ~hidden).sum() / total + BOX_WEIGHT * (shape * target).sum() / total

    def validate(self, network):
        inputs, boxes, labels, ignored = prepare(self.validation.first(512))
        with torch.no_grad():
            outputs = torch.cat([network(part) for part in inputs.split(64)]).numpy()
        precisions = mean_average_precision(outputs, boxes.numpy(), labels.numpy(), ignored.numpy())
        return {"map_50": float(np.nanmean(precisions))} | dict(zip(LABELS, precisions))
