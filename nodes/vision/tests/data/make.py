"""Writes the expected results of this folder.

    pip install executorch==1.5.1 torch==2.13.0 torchvision==0.28.0 pillow==13.0.0
    python nodes/vision/tests/data/make.py

make_poses.py and make_masks.py write those of poses and masks.
"""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional
from torchvision.ops import batched_nms, nms

from letterbox import letterbox

HERE = Path(__file__).parent


def write_program(name, model, example, partitioners=()):
    lowered = to_edge_transform_and_lower(torch.export.export(model, (example,)), partitioner=list(partitioners))
    (HERE / f"{name}.pte").write_bytes(lowered.to_executorch().buffer)


def rounded(tensor):
    return [[round(value, 2) for value in row] for row in tensor.tolist()]


def write_suppression():
    """Non-maximum suppression, for src/boxes.rs."""
    torch.manual_seed(1)
    cases = []
    for count, overlap in [(0, 0.5), (1, 0.5), (12, 0.45), (40, 0.7), (40, 0.3), (80, 0.5)]:
        corner = torch.rand(count, 2) * 60
        boxes = torch.tensor(
            rounded(torch.cat([corner, corner + 5 + torch.rand(count, 2) * 40], 1))
        ).reshape(count, 4)
        # Some scores are equal.
        scores = (torch.rand(count) * 50).round() / 50
        classes = torch.randint(0, 3, (count,))
        # torchvision does not say which of equal scores comes first: give it the order.
        order = torch.sort(-scores, stable=True).indices
        kept = order[batched_nms(boxes[order], -torch.arange(count).float(), classes[order], overlap)]
        agnostic = order[nms(boxes[order], -torch.arange(count).float(), overlap)]
        cases.append(
            {
                "boxes": rounded(boxes),
                "scores": [round(score, 2) for score in scores.tolist()],
                "classes": classes.tolist(),
                "overlap": overlap,
                "kept": kept.tolist(),
                "kept_agnostic": agnostic.tolist(),
            }
        )
    (HERE / "suppression.json").write_text(json.dumps(cases) + "\n")


class Detector(nn.Module):
    """Random features of cells of 8 x 8 pixels, as the outputs of a detector."""

    WIDTH, HEIGHT, CLASSES = 96, 64, 3

    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        self.features = nn.Conv2d(3, 16, 8, 8)
        self.head = nn.Conv2d(16, 4 + self.CLASSES + 1, 1)
        nn.init.normal_(self.features.weight, std=0.2)
        nn.init.normal_(self.head.weight, std=0.8)
        x = torch.arange(self.WIDTH // 8).float().add(0.5).mul(8)
        y = torch.arange(self.HEIGHT // 8).float().add(0.5).mul(8)
        self.register_buffer("cells", torch.stack([x.repeat(len(y)), y.repeat_interleave(len(x))]))

    def forward(self, image):
        found = self.head(torch.tanh(self.features(image))).flatten(2)
        center = self.cells + 8 * torch.tanh(found[:, :2])
        size = 6 + 30 * torch.sigmoid(found[:, 2:4])
        logits = found[:, 4:]
        boxes = torch.cat([center, size], 1)
        if self.layout == "queries":
            scale = torch.tensor([self.WIDTH, self.HEIGHT, self.WIDTH, self.HEIGHT])
            return logits.mT, boxes.mT / scale
        scores = torch.sigmoid(logits[:, : self.CLASSES])
        if self.layout == "dense":
            return torch.cat([boxes, scores], 1)
        corners = torch.cat([center - size / 2, center + size / 2], 1).mT
        best, classes = scores.max(1)
        if self.layout == "selected":
            return torch.cat([corners, best[..., None], classes[..., None].float()], 2)
        return corners[0], best[0], classes[0].float()


def prepared(image, layout):
    """The input of the model, and the border and the scale of each axis."""
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
    width, height = image.size
    if layout in ("dense", "selected"):
        left, top, *new = letterbox(image.size, [Detector.WIDTH, Detector.HEIGHT])
    else:
        new, left, top = (Detector.WIDTH, Detector.HEIGHT), 0, 0
    resized = functional.interpolate(pixels, (new[1], new[0]), mode="bilinear", align_corners=False)
    canvas = torch.full((1, 3, Detector.HEIGHT, Detector.WIDTH), 114.0)
    canvas[..., top : top + new[1], left : left + new[0]] = resized
    canvas /= 255
    if layout == "queries":
        mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
        canvas = (canvas - mean[:, None, None]) / std[:, None, None]
    return canvas, (left, top), (new[0] / width, new[1] / height)


def detections(outputs, layout):
    """Corners in pixels of the model, scores and classes, by the reference code of the layout."""
    if layout == "queries":
        logits, boxes = outputs
        scores, classes = logits[0].softmax(-1)[:, :-1].max(-1)
        center, size = boxes[0, :, :2], boxes[0, :, 2:]
        scale = torch.tensor([Detector.WIDTH, Detector.HEIGHT] * 2)
        return torch.cat([center - size / 2, center + size / 2], 1) * scale, scores, classes
    if layout == "split":
        return outputs[0], outputs[1], outputs[2].long()
    if layout == "selected":
        return outputs[0, :, :4], outputs[0, :, 4], outputs[0, :, 5].long()
    boxes, (scores, classes) = outputs[0, :4].T, outputs[0, 4:].max(0)
    center, size = boxes[:, :2], boxes[:, 2:]
    return torch.cat([center - size / 2, center + size / 2], 1), scores, classes


def write_detectors():
    """Detectors with random weights, and what PyTorch finds in an image, for tests/detect.rs."""
    torch.manual_seed(3)
    rows, columns = np.mgrid[0:90, 0:150]
    waves = [np.sin(columns / a + rows / b) for a, b in ((7, 11), (13, -9), (-5, 8))]
    image = PIL.Image.fromarray((127 + 120 * np.stack(waves, -1)).astype(np.uint8))
    image.save(HERE / "waves.png", optimize=True)
    score, iou = 0.5, 0.45
    cases = {}
    for layout in ("dense", "selected", "split", "queries"):
        model = Detector(layout).eval()
        example, border, scale = prepared(image, layout)
        write_program(layout, model, example)
        if layout == "dense":
            # The next weights do not depend on it.
            with torch.random.fork_rng():
                write_program("dense_vulkan", model, example, [VulkanPartitioner()])
        with torch.no_grad():
            boxes, scores, classes = detections(model(example), layout)
        keep = scores > score
        boxes, scores, classes = boxes[keep], scores[keep], classes[keep]
        if layout in ("dense", "split"):
            kept = batched_nms(boxes, scores, classes, iou)
        else:
            kept = scores.argsort(descending=True, stable=True)
        boxes, scores, classes = boxes[kept], scores[kept], classes[kept]
        boxes = (boxes - torch.tensor(border * 2)) / torch.tensor(scale * 2)
        limits = torch.tensor(image.size * 2)
        boxes = torch.minimum(boxes.clamp(min=0), limits)
        inside = (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])
        cases[layout] = [
            {"box": box, "score": round(score, 5), "label": str(label)}
            for box, score, label in zip(
                rounded(boxes[inside]), scores[inside].tolist(), classes[inside].tolist()
            )
        ]
    (HERE / "detections.json").write_text(json.dumps({"score": score, "iou": iou, "found": cases}) + "\n")


class Pooled(nn.Module):
    """Logits of six classes."""

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 8, 8, 8)
        self.head = nn.Linear(8, 6)
        nn.init.normal_(self.head.weight, std=3)

    def forward(self, image):
        return self.head(torch.tanh(self.features(image)).mean((2, 3)))


class Map(nn.Module):
    """A map of a quarter of the size."""

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 1, 4, 4)

    def forward(self, image):
        return self.features(image)[:, 0]


def normalized(image):
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    return (pixels - mean[:, None, None]) / std[:, None, None]


def write_model(name, model, example):
    write_program(name, model, example)
    with torch.no_grad():
        return model(example)


def write_whole_images():
    """A classifier and a depth model with random weights, for tests/whole_images.rs."""
    torch.manual_seed(4)
    image = PIL.Image.open(HERE / "waves.png")
    # As torchvision: the shorter side to 64 / 0.875, then the middle.
    short = round(64 / 0.875)
    scale = short / min(image.size)
    new = int(image.width * scale), int(image.height * scale)
    resized = image.resize(new, PIL.Image.Resampling.BILINEAR)
    left, top = round((new[0] - 64) / 2), round((new[1] - 64) / 2)
    crop = resized.crop((left, top, left + 64, top + 64))
    model = Pooled().eval()
    logits = write_model("classes", model, normalized(crop).contiguous())
    # Regions of the boxes (20, 10) to (60, 80) and (90, 50) to (130, 70).
    boxes = [(5, 10, 75, 80), (90, 40, 130, 80)]
    regions = [image.resize((64, 64), PIL.Image.Resampling.BILINEAR, box) for box in boxes]
    with torch.no_grad():
        vectors = [model(normalized(region).contiguous())[0] for region in regions]
    stretched = image.resize((96, 64), PIL.Image.Resampling.BICUBIC)
    # Pixel after pixel in memory.
    depth = write_model("depth", Map().eval(), normalized(stretched))
    expected = {
        "probabilities": [round(value, 5) for value in logits[0].softmax(0).tolist()],
        "depth": [round(value, 4) for value in depth.flatten().tolist()],
        "regions": rounded(torch.stack(vectors)),
    }
    (HERE / "whole_images.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    write_suppression()
    write_detectors()
    write_whole_images()
