"""Writes a palm detector and a landmark model with random weights, and what MediaPipe's calculations
give with them, for tests/hands.rs.

    pip install executorch==1.5.1 torch==2.13.0 pillow==13.0.0
    python nodes/vision/tests/data/hands.py
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

from letterbox import letterbox

HERE = Path(__file__).parent
PALM_SIZE, HAND_SIZE = 64, 32
SCORE, OVERLAP = 0.6, 0.3


class Palms(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 12, 8, 8)
        self.eighth, self.sixteenth = nn.Conv2d(12, 2 * 19, 1), nn.Conv2d(12, 6 * 19, 1)
        nn.init.normal_(self.features.weight, std=0.2)

    def forward(self, image):
        x = torch.tanh(self.features(image))
        rows = [self.eighth(x), self.sixteenth(functional.avg_pool2d(x, 2))]
        rows = torch.cat([row.permute(0, 2, 3, 1).reshape(1, -1, 19) for row in rows], 1)
        size = 14 + 8 * torch.sigmoid(rows[..., 2:3])
        boxes = torch.cat([8 * rows[..., :2], size, size, 8 * rows[..., 4:18]], 2)
        return boxes, 4 * rows[..., 18:]


class Hand(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 8, 8, 8)
        self.head = nn.Linear(8 * 16, 128)
        nn.init.normal_(self.features.weight, std=0.2)

    def forward(self, image):
        y = torch.tanh(self.head(torch.tanh(self.features(image)).flatten(1)))
        landmarks = HAND_SIZE / 2 + 12 * y[:, :63]
        return landmarks, torch.sigmoid(y[:, 63:64]), torch.sigmoid(y[:, 64:65]), 0.1 * y[:, 65:]


def write_program(name, model, example):
    """Writes a program for the CPU, and one for the GPU."""
    for suffix, partitioners in (("", []), ("_vulkan", [VulkanPartitioner()])):
        lowered = to_edge_transform_and_lower(torch.export.export(model, (example,)), partitioner=partitioners)
        (HERE / f"{name}{suffix}.pte").write_bytes(lowered.to_executorch().buffer)


def letterboxed(image):
    """The input of the palm detector, scale and border."""
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    left, top, *new = letterbox(image.size, [PALM_SIZE, PALM_SIZE])
    canvas = torch.zeros(1, 3, PALM_SIZE, PALM_SIZE)
    canvas[..., top : top + new[1], left : left + new[0]] = functional.interpolate(
        pixels, (new[1], new[0]), mode="bilinear", align_corners=False
    )
    return canvas, (new[0] / image.width, new[1] / image.height), (left, top)


def overlap(a, b):
    low, high = np.maximum(a[:2] - a[2:4] / 2, b[:2] - b[2:4] / 2), np.minimum(a[:2] + a[2:4] / 2, b[:2] + b[2:4] / 2)
    both = np.prod(np.maximum(high - low, 0))
    return both / (a[2] * a[3] + b[2] * b[3] - both)


def find_palms(outputs):
    """Weighted non-maximum suppression of the decoded anchors: scores and values in pixels."""
    boxes, logits = (output[0].numpy().astype(np.float64) for output in outputs)
    anchors = []
    for stride, count in ((8, 2), (16, 6)):
        for y in range(PALM_SIZE // stride):
            for x in range(PALM_SIZE // stride):
                anchors += [((x + 0.5) * stride, (y + 0.5) * stride)] * count
    anchors = np.array(anchors)
    values = boxes.copy()
    values[:, :2] += anchors
    values[:, 4:] += np.tile(anchors, 7)
    scores = 1 / (1 + np.exp(-logits[:, 0]))
    left = [i for i in np.argsort(-scores, kind="stable") if scores[i] >= SCORE]
    found = []
    while left:
        same = [i for i in left if i == left[0] or overlap(values[left[0]], values[i]) > OVERLAP]
        found.append((scores[left[0]], np.average(values[same], 0, scores[same])))
        left = [i for i in left if i not in same]
    return found


def region_of_palm(values):
    """Center, side and rotation of the landmarks' region."""
    wrist, knuckle = values[4:6], values[8:10]
    angle = np.pi / 2 - np.arctan2(-(knuckle[1] - wrist[1]), knuckle[0] - wrist[0])
    side = max(values[2:4])
    shift = np.array([np.sin(angle), -np.cos(angle)]) * 0.5 * side
    return values[:2] + shift, side * 2.6, angle


def region_of_landmarks(points):
    """The same from landmarks, as HandLandmarksToRect and RectTransformation of MediaPipe."""
    wrist = points[0]
    middle = ((points[5] + points[13]) / 2 + points[9]) / 2
    angle = np.pi / 2 - np.arctan2(-(middle[1] - wrist[1]), middle[0] - wrist[0])
    some = points[[0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18]]
    back = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    turned = some @ back.T
    low, high = turned.min(0), turned.max(0)
    size = high - low
    center = back.T @ ((low + high) / 2 + [0, -0.1 * size[1]])
    return center, max(size) * 2.0, angle


def crop(image, center, side, angle):
    """The region as an input of the landmark model."""
    grid = (np.stack(np.meshgrid(np.arange(HAND_SIZE), np.arange(HAND_SIZE)), 2) + 0.5) / HAND_SIZE - 0.5
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    at = grid @ turn.T * side + center
    inside = torch.from_numpy(((at >= 0) & (at < image.size)).all(2)).float()
    at = torch.from_numpy(at / image.size * 2 - 1).float()[None]
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    sampled = functional.grid_sample(pixels, at, mode="bilinear", padding_mode="border", align_corners=False)
    return sampled * inside, turn


def run_hand(model, image, center, side, angle):
    inputs, turn = crop(image, center, side, angle)
    with torch.no_grad():
        landmarks, presence, handedness, world = model(inputs)
    landmarks = landmarks.numpy().reshape(21, 3).astype(np.float64)
    points = (landmarks[:, :2] / HAND_SIZE - 0.5) @ turn.T * side + center
    depth = landmarks[:, 2] / 0.4 * side / HAND_SIZE
    world = world.numpy().reshape(21, 3).astype(np.float64)
    world[:, :2] = world[:, :2] @ turn.T
    hand = {
        "landmarks": np.column_stack([points, depth - depth[0]]).round(3).tolist(),
        "world_m": world.round(5).tolist(),
        "presence": round(float(presence), 5),
        # The model assumes a mirrored image.
        "side": "left" if float(handedness) >= 0.5 else "right",
    }
    return hand, points


torch.manual_seed(6)
image = PIL.Image.open(HERE / "waves.png")
palms, hand = Palms().eval(), Hand().eval()
inputs, scale, border = letterboxed(image)
write_program("palms", palms, inputs)
write_program("hand", hand, torch.zeros(1, 3, HAND_SIZE, HAND_SIZE))
with torch.no_grad():
    found = find_palms(palms(inputs))
expected = []
for score, values in found:
    values = values.copy()
    values[:2] = (values[:2] - border) / scale
    values[2:4] /= np.sqrt(scale[0] * scale[1])
    values[4:] = ((values[4:].reshape(7, 2) - border) / scale).ravel()
    wrist, knuckle = values[4:6], values[8:10]
    angle = np.arctan2(knuckle[0] - wrist[0], -(knuckle[1] - wrist[1]))
    expected.append({"score": round(score, 5), "center": values[:2].round(3).tolist(), "side": round(values[2], 3),
                     "angle": round(angle, 5)})
    if len(expected) == 1:
        first, points = run_hand(hand, image, *region_of_palm(values))
        second, _ = run_hand(hand, image, *region_of_landmarks(points))
(HERE / "hands.json").write_text(
    json.dumps({"score": SCORE, "palms": expected, "hands": [first, second]}) + "\n"
)
