"""Writes maps of text and the boxes that the post-processing of PaddleOCR finds in them, with OpenCV,
for src/text/regions.rs.

    pip install opencv-python-headless==5.0.0.93 pyclipper==1.4.0 numpy
    python nodes/vision/tests/data/regions.py
"""

import json
from pathlib import Path

import cv2
import numpy as np
import pyclipper

HERE = Path(__file__).parent
WIDTH, HEIGHT = 160, 96
THRESHOLD, SCORE, UNCLIP, MIN_SIDE = 0.3, 0.5, 1.6, 3


def draw(rng):
    """A map with soft rectangles in several rotations."""
    map = np.zeros((HEIGHT, WIDTH), np.float32)
    for row in range(3):
        for column in range(2):
            box = ((40 + 80 * column + rng.uniform(-8, 8), 18 + 30 * row + rng.uniform(-3, 3)),
                   (rng.uniform(20, 60), rng.uniform(5, 12)), rng.uniform(-14, 14))
            corners = np.round(cv2.boxPoints(box)).astype(np.int32)
            cv2.fillPoly(map, [corners], float(rng.uniform(0.4, 1)))
    return np.round(cv2.GaussianBlur(map, (0, 0), 1.2) * 255).astype(np.uint8)


def mini_box(points):
    box = cv2.minAreaRect(points)
    corners = sorted(cv2.boxPoints(box).tolist(), key=lambda corner: corner[0])
    left, right = sorted(corners[:2], key=lambda c: c[1]), sorted(corners[2:], key=lambda c: c[1])
    return np.array([left[0], right[0], right[1], left[1]]), min(box[1])


def mean_inside(map, box):
    mask = np.zeros(map.shape, np.uint8)
    cv2.fillPoly(mask, [np.floor(box).astype(np.int32)], 1)
    return cv2.mean(map, mask)[0]


def find(map):
    mask = cv2.dilate((map > THRESHOLD).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    boxes = []
    for contour in contours:
        box, side = mini_box(contour)
        score = mean_inside(map, box)
        if side < MIN_SIDE or score < SCORE:
            continue
        width, height = np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[3] - box[0])
        offset = pyclipper.PyclipperOffset()
        offset.AddPath((box * 1000).round().astype(int).tolist(), pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
        distance = width * height * UNCLIP / (2 * (width + height))
        grown = np.array(offset.Execute(distance * 1000)[0], np.float32) / 1000
        box, side = mini_box(grown)
        if side >= MIN_SIDE + 2:
            boxes.append({"corners": box.round(2).tolist(), "score": round(score, 4)})
    return sorted(boxes, key=lambda box: box["corners"][0])


rng = np.random.default_rng(7)
maps = [draw(rng) for _ in range(4)]
cv2.imwrite(str(HERE / "regions.png"), np.concatenate(maps), [cv2.IMWRITE_PNG_COMPRESSION, 9])
(HERE / "regions.json").write_text(json.dumps([find(map / np.float32(255)) for map in maps]) + "\n")
