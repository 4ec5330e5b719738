"""Segmentation models with random weights, and what reference code finds, for tests/segment.rs.

    python nodes/vision/tests/data/make_masks.py

Needs the packages of make.py. Pixels of an expected mask that are close to another value are -1.
"""

import json

import numpy as np
import PIL.Image
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional
from torchvision.ops import batched_nms

from make import HERE, normalized, prepared, write_model

WIDTH, HEIGHT = 96, 64
CLASSES, PROTOTYPES = 3, 8
MARGIN = 0.02


class Classes(nn.Module):
    """Logits of four classes, of a quarter of the size."""

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 4, 4, 4)

    def forward(self, image):
        return self.features(image)


class Matte(nn.Module):
    """An opacity, of a quarter of the size."""

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 1, 4, 4)
        nn.init.normal_(self.features.weight, std=0.5)

    def forward(self, image):
        return torch.sigmoid(self.features(image))


class Instances(nn.Module):
    """Random objects in cells of 8 x 8 pixels, and prototypes of a quarter of the size."""

    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        self.features = nn.Conv2d(3, 8, 8, 8)
        self.head = nn.Conv2d(8, 4 + CLASSES + PROTOTYPES, 1)
        self.prototypes = nn.Conv2d(3, PROTOTYPES, 4, 4)
        nn.init.normal_(self.features.weight, std=0.2)
        nn.init.normal_(self.head.weight, std=0.8)
        nn.init.normal_(self.prototypes.weight, std=0.5)
        x = torch.arange(WIDTH // 8).float().add(0.5).mul(8)
        y = torch.arange(HEIGHT // 8).float().add(0.5).mul(8)
        self.register_buffer("cells", torch.stack([x.repeat(len(y)), y.repeat_interleave(len(x))]))

    def forward(self, image):
        found = self.head(torch.tanh(self.features(image))).flatten(2)
        center = self.cells + 8 * torch.tanh(found[:, :2])
        size = 12 + 30 * torch.sigmoid(found[:, 2:4])
        scores = torch.sigmoid(found[:, 4 : 4 + CLASSES])
        coefficients = torch.tanh(found[:, 4 + CLASSES :])
        prototypes = self.prototypes(image)
        if self.layout == "dense":
            return torch.cat([center, size, scores, coefficients], 1), prototypes
        best, classes = scores.max(1, keepdim=True)
        corners = torch.cat([center - size / 2, center + size / 2], 1)
        return torch.cat([corners, best, classes.float(), coefficients], 1).mT, prototypes


class Prompted(nn.Module):
    """Three masks of each of two prompts, of half the size, as the outputs of EfficientSAM."""

    WIDTH, HEIGHT, QUERIES = 48, 32, 2

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 3, 2, 2)
        nn.init.normal_(self.features.weight, std=1.5)
        self.register_buffer("x", torch.arange(self.WIDTH // 2).float().mul(2).add(1))
        self.register_buffer("y", torch.arange(self.HEIGHT // 2).float().mul(2).add(1)[:, None])
        self.register_buffer("steps", torch.tensor([0.3, 0.5, 0.7]))

    def forward(self, image, points, labels):
        # Inside of the points with the labels 2 and 3, wherever they are.
        first = (points * (labels == 2)[..., None]).sum(2)[..., None, None]
        last = (points * (labels == 3)[..., None]).sum(2)[..., None, None]
        x = torch.minimum(self.x - first[:, :, 0], last[:, :, 0] - self.x)
        y = torch.minimum(self.y - first[:, :, 1], last[:, :, 1] - self.y)
        inside = torch.minimum(x, y).clamp(-4, 4)[:, :, None]
        masks = self.features(image)[:, None] + inside / 2
        quality = torch.sin(points.sum((2, 3))[..., None] * self.steps)
        return masks, quality


def stretched(image, width, height):
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    return functional.interpolate(pixels, (height, width), mode="bilinear", align_corners=False)


def values_of(mask):
    return {"size": [mask.shape[1], mask.shape[0]], "values": mask.flatten().int().tolist()}


def classes_of(image):
    example = normalized(image.resize((WIDTH, HEIGHT), PIL.Image.Resampling.BILINEAR)).contiguous()
    logits = write_model("mask_classes", Classes().eval(), example)[0]
    best = logits.topk(2, 0).values
    return values_of(torch.where(best[0] - best[1] < MARGIN, -1, logits.argmax(0)))


def instances_of(image, layout, score, iou):
    """As process_mask of Ultralytics without upsampling; the most probable object in front."""
    model = Instances(layout).eval()
    example, border, scale = prepared(image, layout)
    rows, prototypes = write_model(f"mask_{layout}", model, example)
    if layout == "dense":
        rows = rows[0].T
        scores, classes = rows[:, 4 : 4 + CLASSES].max(1)
        center, size = rows[:, :2], rows[:, 2:4]
        boxes = torch.cat([center - size / 2, center + size / 2], 1)
        coefficients = rows[:, 4 + CLASSES :]
    else:
        boxes, scores, classes = rows[0, :, :4], rows[0, :, 4], rows[0, :, 5]
        coefficients = rows[0, :, 6:]
    keep = (scores > score).nonzero()[:, 0]
    if layout == "dense":
        keep = keep[batched_nms(boxes[keep], scores[keep], classes[keep], iou)]
    else:
        keep = keep[scores[keep].argsort(descending=True, stable=True)]
    count, height, width = prototypes[0].shape
    logits = (coefficients[keep] @ prototypes[0].view(count, -1)).view(-1, height, width)
    left, top, right, bottom = (boxes[keep] / 4)[:, :, None, None].unbind(1)
    column = torch.arange(width)[None, None]
    row = torch.arange(height)[None, :, None]
    inside = (column >= left) & (column < right) & (row >= top) & (row < bottom)
    mask = torch.zeros(height, width)
    for number in reversed(range(len(keep))):
        mask[inside[number] & (logits[number] > 0)] = number + 1
    mask[(inside & (logits.abs() < MARGIN)).any(0)] = -1
    # The border of the letterbox.
    center_x, center_y = (column[0] + 0.5) * 4, (row[0] + 0.5) * 4
    new = image.width * scale[0], image.height * scale[1]
    shows_x = (center_x >= border[0]) & (center_x <= border[0] + new[0])
    shows_y = (center_y >= border[1]) & (center_y <= border[1] + new[1])
    mask[~(shows_x & shows_y)] = 0
    labels = [str(int(label)) for label in classes[keep]]
    return {**values_of(mask), "labels": labels}


def prompts_of(image):
    """Masks of three boxes, the most probable in front."""
    model = Prompted().eval()
    size = torch.tensor([Prompted.WIDTH, Prompted.HEIGHT])
    example = stretched(image, Prompted.WIDTH, Prompted.HEIGHT)
    labels = torch.tensor([[[2.0, 3.0]]]).repeat(1, Prompted.QUERIES, 1)
    boxes = torch.tensor([[20.0, 10, 90, 70], [60, 5, 140, 60], [100, 40, 170, 95]])
    corners = boxes.view(-1, 2, 2) / torch.tensor(image.size) * size
    corners = torch.minimum(corners, size)
    inputs = example, torch.cat([corners[:2]])[None], labels
    lowered = to_edge_transform_and_lower(torch.export.export(model, inputs))
    (HERE / "mask_prompts.pte").write_bytes(lowered.to_executorch().buffer)
    mask = torch.zeros(Prompted.HEIGHT // 2, Prompted.WIDTH // 2)
    close = torch.zeros_like(mask, dtype=torch.bool)
    best = []
    for number in reversed(range(len(boxes))):
        both = corners[number].repeat(1, Prompted.QUERIES, 1, 1)
        with torch.no_grad():
            masks, quality = model(example, both, labels)
        best.append(int(quality[0, 0].argmax()))
        logits = masks[0, 0, best[-1]]
        mask[logits > 0] = number + 1
        close |= logits.abs() < MARGIN
    assert len(set(best)) > 1, best
    mask[close] = -1
    return {**values_of(mask), "boxes": boxes.tolist()}


def main():
    torch.manual_seed(11)
    image = PIL.Image.open(HERE / "waves.png")
    score, iou = 0.85, 0.3
    with torch.no_grad():
        opacity = write_model("mask_matte", Matte().eval(), stretched(image, WIDTH, HEIGHT))
    expected = {
        "score": score,
        "iou": iou,
        "classes": classes_of(image),
        "matte": values_of((opacity[0, 0] * 255).round()),
        "dense": instances_of(image, "dense", score, iou),
        "selected": instances_of(image, "selected", score, iou),
        "prompts": prompts_of(image),
    }
    for name, found in expected.items():
        if isinstance(found, dict):
            counts = dict(zip(*np.unique(found["values"], return_counts=True)))
            print(name, len(found.get("labels", [])), counts if len(counts) < 20 else len(counts))
    (HERE / "masks.json").write_text(json.dumps(expected) + "\n")


main()
