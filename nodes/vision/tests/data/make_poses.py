"""Pose models with random weights, and what reference code finds in an image, for tests/body_pose.rs.

    python nodes/vision/tests/data/make_poses.py

Needs the packages of make.py.
"""

import json

import numpy as np
import PIL.Image
import torch
from torch import nn
from torch.nn import functional
from torchvision.ops import nms

from make import HERE, prepared, write_model

KEYPOINTS = 17
# Least distance of a score to the second best bin, or to the threshold.
MARGIN = 3e-4


class SimCc(nn.Module):
    """Scores of the columns and the rows of a body in the whole input, two bins for each pixel."""

    WIDTH, HEIGHT = 24, 32

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, KEYPOINTS, 3, padding=1)
        nn.init.normal_(self.features.weight, std=0.5)
        self.columns = nn.ConvTranspose1d(KEYPOINTS, KEYPOINTS, 2, 2, groups=KEYPOINTS)
        self.rows = nn.ConvTranspose1d(KEYPOINTS, KEYPOINTS, 2, 2, groups=KEYPOINTS)
        for layer in (self.columns, self.rows):
            nn.init.normal_(layer.weight, std=1)
            nn.init.normal_(layer.bias, std=0.5)
        # Without them, all bins of a border are equal.
        self.column_biases = nn.Parameter(torch.randn(2 * self.WIDTH))
        self.row_biases = nn.Parameter(torch.randn(2 * self.HEIGHT))

    def forward(self, image):
        scores = self.features(image)
        return (
            torch.sigmoid(self.columns(scores.mean(2)) + self.column_biases - 3),
            torch.sigmoid(self.rows(scores.mean(3)) + self.row_biases - 3),
        )


def mmpose_region(box, size):
    """Center and size of the region of a box, as GetBBoxCenterScale and TopdownAffine of mmpose."""
    left, top, right, bottom = box
    center = np.array([(left + right) / 2, (top + bottom) / 2])
    width, height = (right - left) * 1.25, (bottom - top) * 1.25
    aspect = size[0] / size[1]
    if width > height * aspect:
        return center, np.array([width, width / aspect])
    return center, np.array([height * aspect, height])


def mmpose_crop(image, center, region, size):
    """As cv2.warpAffine with the matrix of mmpose: integers are the centers of pixels.

    Positions within half a pixel of the edge take the pixel at the edge.
    """
    x = (np.arange(size[0]) - size[0] / 2) * region[0] / size[0] + center[0]
    y = (np.arange(size[1]) - size[1] / 2) * region[1] / size[1] + center[1]
    x, y = np.meshgrid(x, y)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].double()
    width, height = image.size
    grid = np.stack([(x + 0.5) / width * 2 - 1, (y + 0.5) / height * 2 - 1], -1)[None]
    crop = functional.grid_sample(
        pixels, torch.from_numpy(grid), "bilinear", "border", align_corners=False
    )
    inside = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    crop = torch.where(torch.from_numpy(inside), crop, 0.0)
    mean = torch.tensor([123.675, 116.28, 103.53])[:, None, None]
    std = torch.tensor([58.395, 57.12, 57.375])[:, None, None]
    return ((crop - mean) / std).float().contiguous()


def sim_cc_keypoints(columns, rows, center, region, size, threshold):
    """As get_simcc_maximum and TopdownPoseEstimator of mmpose; None if a result is close to another."""
    keypoints = []
    for scores in zip(columns[0].numpy(), rows[0].numpy()):
        best = [line.argmax() for line in scores]
        second = [np.sort(line)[-2] for line in scores]
        score = min(line.max() for line in scores)
        if any(line.max() - other < MARGIN for line, other in zip(scores, second)):
            return None
        if abs(score - threshold) < MARGIN:
            return None
        position = np.array(best) / 2 / np.array(size) * region + center - region / 2
        # To pixels whose corners are integers.
        keypoints.append([*(position + 0.5).round(4).tolist(), round(float(score), 5)])
    return keypoints


def write_sim_cc(image, threshold):
    """The model, and the keypoints in boxes."""
    boxes = [[20, 10, 60, 80], [50, 30, 140, 70], [110, -10, 170, 60], [0, 0, *image.size]]
    size = SimCc.WIDTH, SimCc.HEIGHT
    for seed in range(1000):
        torch.manual_seed(seed)
        model = SimCc().eval()
        found = []
        for box in boxes:
            center, region = mmpose_region(box, size)
            crop = mmpose_crop(image, center, region, size)
            with torch.no_grad():
                outputs = model(crop)
            found.append(sim_cc_keypoints(*outputs, center, region, size, threshold))
        if None in found or not any(score < threshold for body in found for *_, score in body):
            continue
        write_model("pose_simcc", model, crop)
        return {"boxes": boxes, "keypoints": found}
    raise RuntimeError("no seed gives clear maxima")


class Poses(nn.Module):
    """Random bodies in cells of 8 x 8 pixels, as the outputs of Ultralytics models."""

    WIDTH, HEIGHT = 96, 64

    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        self.features = nn.Conv2d(3, 8, 8, 8)
        self.head = nn.Conv2d(8, 5 + 3 * KEYPOINTS, 1)
        nn.init.normal_(self.features.weight, std=0.2)
        nn.init.normal_(self.head.weight, std=1.5)
        x = torch.arange(self.WIDTH // 8).float().add(0.5).mul(8)
        y = torch.arange(self.HEIGHT // 8).float().add(0.5).mul(8)
        self.register_buffer("cells", torch.stack([x.repeat(len(y)), y.repeat_interleave(len(x))]))

    def forward(self, image):
        found = self.head(torch.tanh(self.features(image))).flatten(2)
        center = self.cells + 8 * torch.tanh(found[:, :2])
        size = 6 + 30 * torch.sigmoid(found[:, 2:4])
        score = torch.sigmoid(found[:, 4:5])
        keypoints = found[:, 5:].unflatten(1, (KEYPOINTS, 3))
        positions = self.cells[:, None] + 20 * torch.tanh(keypoints[:, :, :2]).transpose(1, 2)
        keypoints = torch.cat([positions.transpose(1, 2), torch.sigmoid(keypoints[:, :, 2:])], 2)
        keypoints = keypoints.flatten(1, 2)
        if self.layout == "dense":
            return torch.cat([center, size, score, keypoints], 1)
        corners = torch.cat([center - size / 2, center + size / 2], 1)
        return torch.cat([corners, score, torch.zeros_like(score), keypoints], 1).mT


def ultralytics_bodies(output, layout, image, border, scale, score, iou, threshold):
    """As PosePredictor of Ultralytics, without limits to keypoints."""
    rows = output[0].T if layout == "dense" else output[0]
    boxes, scores = rows[:, :4], rows[:, 4]
    keypoints = rows[:, 5 if layout == "dense" else 6 :].unflatten(1, (KEYPOINTS, 3))
    if layout == "dense":
        center, size = boxes[:, :2], boxes[:, 2:]
        boxes = torch.cat([center - size / 2, center + size / 2], 1)
    keep = (scores > score).nonzero()[:, 0]
    if layout == "dense":
        keep = keep[nms(boxes[keep], scores[keep], iou)]
    else:
        keep = keep[scores[keep].argsort(descending=True, stable=True)]
    boxes = (boxes[keep] - torch.tensor(border * 2)) / torch.tensor(scale * 2)
    boxes = torch.minimum(boxes.clamp(min=0), torch.tensor(image.size * 2))
    keypoints = keypoints[keep]
    keypoints[..., :2] = (keypoints[..., :2] - torch.tensor(border)) / torch.tensor(scale)
    keypoints[..., 2][keypoints[..., 2] < threshold] = 0
    return [
        {
            "box": [round(value, 3) for value in box.tolist()],
            "score": round(body_score, 5),
            "keypoints": [[round(value, 3) for value in point] for point in points.tolist()],
        }
        for box, body_score, points in zip(boxes, scores[keep].tolist(), keypoints)
        if box[0] < box[2] and box[1] < box[3]
    ]


def main():
    image = PIL.Image.open(HERE / "waves.png")
    threshold, score, iou = 0.3, 0.75, 0.05
    expected = {"keypoint": threshold, "score": score, "iou": iou}
    expected["sim_cc"] = write_sim_cc(image, threshold)
    for layout in ("dense", "selected"):
        torch.manual_seed(7)
        model = Poses(layout).eval()
        example, border, scale = prepared(image, layout)
        output = write_model(f"pose_{layout}", model, example)
        expected[layout] = ultralytics_bodies(
            output, layout, image, border, scale, score, iou, threshold
        )
        print(layout, len(expected[layout]))
    (HERE / "poses.json").write_text(json.dumps(expected) + "\n")


main()
