"""Palms in an image: single-shot detector with the anchors of MediaPipe, loss, validation."""
import detection
import numpy as np
import palm_scenes
import torch
from augment import erase, network_input, normal, to_tensor, uniform, vary_colors, warp
from hand_scenes import PALM
from layers import Residual, conv, full, stage, upsample
from shards import Shards
from torch import nn
from torch.nn import functional as F
from training import Task

SIZE = 128
# Anchors of a cell of each level. An anchor takes palms of a range of sides, relative to the image.
STRIDES, ANCHORS = (8, 16), (2, 6)
BANDS = ((.05, .15), (.15, .26), (.2, .28), (.28, .36), (.36, .46), (.46, .58), (.58, .75), (.75, 2.0))
VALUES = 4 + 2 * len(PALM)
RADIUS = 0.35
# Unit of the boxes of the network in pixels.
BOX_SCALE = 16
THRESHOLD, MAX_OVERLAP = 0.5, 0.3


def anchors():
    """Returns centers (n, 2), from 0 to 1, and the range of sides (n, 2) of the anchors."""
    centers, bands, first = [], [], 0
    for stride, count in zip(STRIDES, ANCHORS):
        cells = SIZE // stride
        y, x = np.mgrid[:cells, :cells]
        grid = np.stack([x, y], 2).reshape(-1, 2)
        centers.append(np.repeat((grid + .5) / cells, count, 0))
        bands.append(np.tile(BANDS[first:first + count], (len(grid), 1)))
        first += count
    return (torch.from_numpy(np.concatenate(part).astype("f4")) for part in (centers, bands))


class PalmNetwork(nn.Module):
    """Residual network with heads at an eighth and a sixteenth of the size."""

    def __init__(self, widths=(16, 32, 64, 96)):
        super().__init__()
        a, b, c, d = widths
        self.stem = nn.Sequential(conv(3, a, 3, 2), stage(a, b))
        self.eighth, self.sixteenth, self.context = stage(b, c), stage(c, d), Residual(d, d)
        self.down = conv(d, c, 1)
        self.mix = Residual(c, c)
        self.box_heads = nn.ModuleList([nn.Conv2d(width, count * VALUES, 1) for width, count in zip((c, d), ANCHORS)])
        self.score_heads = nn.ModuleList([nn.Conv2d(width, count, 1) for width, count in zip((c, d), ANCHORS)])
        for head in self.score_heads:
            nn.init.constant_(head.bias, -4.0)
        self.centers, self.bands = anchors()

    def features(self, x):
        """Returns boxes in units of BOX_SCALE, and logits."""
        eighth = self.eighth(self.stem((x - 0.5) * 4))
        sixteenth = self.context(self.sixteenth(eighth))
        eighth = self.mix(eighth + upsample(self.down(sixteenth)))
        boxes, scores = [], []
        for feature, box_head, score_head in zip((eighth, sixteenth), self.box_heads, self.score_heads):
            boxes.append(box_head(feature).permute(0, 2, 3, 1).reshape(x.shape[0], -1, VALUES))
            scores.append(score_head(feature).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 1))
        return torch.cat(boxes, 1), torch.cat(scores, 1)

    def outputs(self, boxes, scores):
        """Returns the outputs of `forward`."""
        return full(boxes) * BOX_SCALE, full(scores)

    def forward(self, x):
        """Image f32[1, 3, 128, 128] from 0 to 1 to f32[1, 896, 18] (center x, y, width, height, seven
        points; in pixels from the anchor) and the logits of the scores f32[1, 896, 1].
        """
        return self.outputs(*self.features(x))


def prepare(records, rng=None):
    """Returns input, targets (n, 2, 18) from 0 to 1, and states (n, 2): 1 palm, 0 none, -1 ignored.

    Records are augmented if `rng` is given.
    """
    images = to_tensor(records["image"])
    hands = records["hands"]
    points = np.concatenate([hands["center"][:, :, None], hands["points"][:, :, PALM]], 2) / SIZE
    points, sides = torch.from_numpy(points.astype("f4")), torch.from_numpy(hands["side"] / SIZE)
    present = np.arange(palm_scenes.MAX_HANDS) < records["count"][:, None]
    states = torch.from_numpy(np.where(present, np.where(hands["is_ignored"], -1, 1), 0))
    if rng is not None:
        n = len(images)
        mirror = torch.from_numpy(np.where(rng.random(n) < 0.5, -1, 1).astype(np.float32))
        angle, zoom, shift = normal(rng, .2, n), uniform(rng, .8, 1.15, n), normal(rng, .06, n, 2)
        c, s = angle.cos() * zoom, angle.sin() * zoom
        matrix = torch.stack([torch.stack([c * mirror, -s, shift[:, 0]], 1),
                              torch.stack([s * mirror, c, shift[:, 1]], 1)], 1)
        images = erase(rng, vary_colors(rng, warp(images, matrix, SIZE, SIZE)))
        flat = (points * 2 - 1 - matrix[:, None, None, :, 2]).reshape(n, -1, 2).transpose(1, 2)
        points = (torch.linalg.solve(matrix[:, :, :2], flat).transpose(1, 2).reshape(points.shape) + 1) / 2
        sides = sides / zoom[:, None]
        inside = ((points[:, :, 1:] > 0) & (points[:, :, 1:] < 1)).all(3).sum(2)
        states = torch.where((states == 1) & ((inside < 5) | (sides < .065)), -1, states)
    boxes = torch.cat([points[:, :, 0], sides[:, :, None].expand(-1, -1, 2)], 2)
    return network_input(images), torch.cat([boxes, points[:, :, 1:].flatten(2)], 2), states


@torch.no_grad()
def assign(centers, bands, targets, states):
    """Returns for each anchor its palm (n, anchors), -1 for none, and whether it is ignored."""
    distance = (targets[:, :, None, :2] - centers).norm(dim=3) / targets[:, :, None, 2]
    nearest = distance.amin(2, keepdim=True)
    near = distance <= torch.maximum(torch.full_like(nearest, RADIUS), nearest * 1.01)
    sides = targets[:, :, None, 2]
    fits = (sides >= bands[:, 0]) & (sides < bands[:, 1])
    wide = (sides >= bands[:, 0] * .85) & (sides < bands[:, 1] * 1.15)
    chosen = near & fits & (states == 1)[:, :, None]
    skipped = (near & wide & (states == 1)[:, :, None]) | ((distance < 1) & (states == -1)[:, :, None])
    owner = torch.where(chosen.any(1), chosen.float().argmax(1), -1)
    return owner, skipped.any(1) & (owner < 0)


def decode(boxes, scores, centers, threshold=THRESHOLD, limit=MAX_OVERLAP):
    """Returns boxes (n, 18) from 0 to 1 and scores of one image, with weighted suppression."""
    values = boxes / SIZE
    values[:, :2] += centers
    values[:, 4:] += np.tile(centers, len(PALM))
    scores = 1 / (1 + np.exp(-np.clip(scores[:, 0], -100, 100)))
    picked = np.flatnonzero(scores >= threshold)
    order, rows, kept = picked[np.argsort(-scores[picked], kind="stable")], [], []
    corners = np.concatenate([values[:, :2] - values[:, 2:4] / 2, values[:, :2] + values[:, 2:4] / 2], 1)
    while len(order):
        same = detection.overlaps(corners[order[:1]], corners[order])[0] > limit
        same[0] = True
        weights = scores[order[same], None]
        rows.append((values[order[same]] * weights).sum(0) / weights.sum())
        kept.append(scores[order[0]])
        order = order[~same]
    return np.array(rows).reshape(-1, VALUES), np.array(kept)


def scores(outputs, targets, states, centers):
    """Returns figures of outputs of the network on whole scenes."""
    found, expected, errors, hits, count, false = [], [], [], 0, 0, 0
    for boxes, logits, target, state in zip(*outputs, targets, states):
        rows, values = decode(boxes.copy(), logits, centers, 0.02)
        corners = np.concatenate([rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2], 1)
        wanted = target[state != 0]
        wanted = np.concatenate([wanted[:, :2] - wanted[:, 2:4] / 2, wanted[:, :2] + wanted[:, 2:4] / 2], 1)
        found.append((corners, values))
        expected.append((wanted, state[state != 0] < 0))
        sure, palms = values >= THRESHOLD, target[state == 1]
        gap = np.linalg.norm(rows[sure, None, :2] - palms[None, :, :2], axis=2) / palms[None, :, 2]
        count += len(palms)
        hits += int((gap < .5).any(0).sum()) if sure.any() else 0
        skipped = target[state == -1]
        known = np.concatenate([palms, skipped])
        if sure.any():
            far = np.linalg.norm(rows[sure, None, :2] - known[None, :, :2], axis=2) / known[None, :, 2]
            false += int((far >= .7).all(1).sum()) if len(known) else int(sure.sum())
        for k in range(len(palms)):
            if sure.any() and gap[:, k].min() < .5:
                row = rows[sure][gap[:, k].argmin()]
                errors.append(np.linalg.norm((row[4:] - palms[k, 4:]).reshape(-1, 2), axis=1).mean() / palms[k, 2])
    return {"average_precision": detection.average_precision(found, expected), "recall": hits / max(count, 1),
            "false_per_image": false / len(targets), "point_error": float(np.mean(errors)) if errors else 1.0}


class PalmTask(Task):
    NAME, STEPS, BATCH_SIZE, MAX_SHARDS = "palm", 6000, 48, 32
    prepare = staticmethod(prepare)

    def __init__(self, seed):
        super().__init__(seed)
        self.shards = Shards("palms", "train", seed, palm_scenes.draw_scenes)
        self.validation = Shards("palms", "validation", seed, palm_scenes.draw_scenes)

    def network(self):
        return PalmNetwork()

    def loss(self, network, rng, shards):
        inputs, targets, states = prepare(self.shards.sample(rng, self.BATCH_SIZE, shards), rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            boxes, logits = network(inputs)
        owner, skipped = assign(network.centers, network.bands, targets, states)
        is_palm, logits = owner >= 0, logits[..., 0]
        wanted = targets.gather(1, owner.clamp(min=0)[..., None].expand(-1, -1, VALUES))[is_palm]
        centers = network.centers.expand(len(inputs), -1, -1)[is_palm]
        size = wanted[:, 2:3]
        offsets = torch.cat([wanted[:, :2] - centers, wanted[:, 2:4],
                             wanted[:, 4:] - centers.repeat(1, len(PALM))], 1)
        error = F.smooth_l1_loss(boxes[is_palm] / SIZE / size, offsets / size, beta=.05, reduction="none")
        count = is_palm.sum().clamp(min=1)
        shares = torch.sigmoid(logits)
        entropy = F.binary_cross_entropy_with_logits(logits, is_palm.float(), reduction="none")
        focal = entropy * torch.where(is_palm, 1 - shares, shares) ** 2 * torch.where(is_palm, 1.0, .5) * ~skipped
        return 2 * focal.sum() / count + error.mean(1).sum() / count * 10

    def validate(self, network):
        inputs, targets, states = prepare(self.validation.first(512))
        with torch.no_grad():
            parts = [network(part) for part in inputs.split(64)]
        outputs = [torch.cat(part).numpy() for part in zip(*parts)]
        return scores(outputs, targets.numpy(), states.numpy(), network.centers.numpy())
