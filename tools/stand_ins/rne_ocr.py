"""Exports a detector and a recognizer with the contracts of OCR in react-native-executorch up to 0.9 (CRAFT
and CRNN) whose text can be told in advance: red is text, green is a link, blue in the middle of a character
is its code, and brighter blue above than below says that it is upright.

    python rne_ocr.py DIR      # nodes/vision/tests/data/rne_ocr

Writes `detector.pte`, `recognizer.pte`, `charset.txt`, and `cases.json`: images as rectangles of colors, their
lines of text, and the boxes that the post-processing of the source finds with the same module in PyTorch.
Needs torch, executorch and scipy.
"""
import json
import math
import os
import sys

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from scipy import ndimage
from torch import nn
from torch.export import export

CHARSET = "abcdefgh"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TEXT, LINK, PEAK = 0.4, 0.4, 0.7
# Sides of a character and the gap to the next, in pixels.
WIDTH, HEIGHT, GAP = 22, 32, 8


class Detector(nn.Module):
    """[1, 3, S, S] in BGR -> [1, S / 2, S / 2, 2]: red and green."""

    def forward(self, x):
        x = nn.functional.avg_pool2d(x, 2) * torch.tensor(STD).view(1, 3, 1, 1) + torch.tensor(MEAN).view(1, 3, 1, 1)
        return torch.stack([x[:, 2], x[:, 1]], -1)


class Recognizer(nn.Module):
    """[1, 1, 64, W] -> [1, W / 4 - 1, 9]: the nearest gray of a character, where the line is even."""

    def forward(self, x):
        gray = (x[0, 0] + 1) * 127.5
        middle = gray[28:36].mean(0)
        pool = lambda row: nn.functional.avg_pool1d(row.view(1, 1, -1), 8, 4)[0, 0]
        mean = pool(middle)
        uneven = pool(middle * middle) - mean * mean
        upright = pool(gray[14:19].mean(0) - gray[45:50].mean(0)) > 8
        code = (torch.arange(len(CHARSET)) * 32 + 16) * 0.114 + 200 * 0.299
        scores = -4 * (mean.unsqueeze(1) - code).pow(2)
        scores = torch.cat([(10 * uneven - 8).unsqueeze(1), scores], 1)
        return (torch.where(upright.unsqueeze(1), scores, scores * 1e-4)).unsqueeze(0)


def word(text, left, top, is_turned=False):
    """Rectangles [x, y, width, height, color] of a word."""
    found, width = [], len(text) * (WIDTH + GAP) - GAP
    for index, letter in enumerate(text):
        x = index * (WIDTH + GAP)
        blue = CHARSET.index(letter) * 32 + 16
        for y, height, value in ((0, 9, 255), (9, 14, blue), (23, 9, 0)):
            found.append([x, y, WIDTH, height, [200, 0, value]])
        if index + 1 < len(text):
            found.append([x + WIDTH, 8, GAP, 16, [0, 200, 0]])
    if is_turned:
        found = [[width - x - w, HEIGHT - y - h, w, h, color] for x, y, w, h, color in found]
    return [[x + left, y + top, w, h, color] for x, y, w, h, color in found]


def draw(size, rectangles):
    image = np.zeros((size[1], size[0], 3), np.float32)
    for x, y, width, height, color in rectangles:
        image[y:y + height, x:x + width] = color
    return torch.tensor(image)


def boxes(image, side=800):
    """Boxes of lines in pixels of the image, as the source finds them; the image is not enlarged."""
    height, width = image.shape[:2]
    top, left = (side - height) // 2, (side - width) // 2
    canvas = torch.zeros(side, side, 3)
    canvas[top:top + height, left:left + width] = image
    x = (canvas.flip(-1) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
    maps = Detector()(x.permute(2, 0, 1)[None])[0].numpy()
    labels, count = ndimage.label((maps[..., 0] > TEXT) | (maps[..., 1] > LINK))
    found = []
    for part, (rows, columns) in enumerate(ndimage.find_objects(labels), 1):
        mask = labels == part
        if mask.sum() < 10 or maps[..., 0][mask].max() < PEAK:
            continue
        w, h = columns.stop - columns.start, rows.stop - rows.start
        radius = int(math.sqrt(mask.sum() / max(w, h)) * 2)
        before, after = (radius + 1) - 1 - (radius + 1) // 2, (radius + 1) // 2
        limit = side // 2 - 1
        found.append([max(columns.start - before, 0), max(rows.start - before, 0),
                      min(columns.stop - 1 + after, limit), min(rows.stop - 1 + after, limit)])
    ratio = 1280 / (side / 2)
    lines = group([[value * ratio for value in box] for box in found])
    scale = side / 1280
    return [[round((v * scale) - (left, top, left, top)[i], 2) for i, v in enumerate(box)] for box in lines]


def group(found):
    """groupTextBoxes of the source, for upright boxes of text from left to right."""
    sides = lambda box: (box[2] - box[0], box[3] - box[1])
    center = lambda box: ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    corners = lambda box: [(box[i], box[j]) for i in (0, 2) for j in (1, 3)]
    found, lines = sorted(found, key=lambda box: -max(sides(box))), []
    while found:
        line, ignored = found.pop(0), []
        while True:
            near = [(math.dist(center(line), center(box)), i) for i, box in enumerate(found) if i not in ignored
                    and abs(center(box)[1] - center(line)[1]) < 0.5 * min(sides(box))]
            if not near:
                break
            index = min(near)[1]
            box, size = found[index], min(sides(found[index]))
            gap = min(math.dist(a, b) for a in corners(line) for b in corners(box))
            if gap < 2 * size and abs(min(sides(line)) - size) < 2 * size:
                line = [min(line[0], box[0]), min(line[1], box[1]), max(line[2], box[2]), max(line[3], box[3])]
                found.pop(index)
                ignored = []
                if max(sides(line)) > 588:
                    break
            else:
                ignored.append(index)
        lines.append(line)
    lines = [line for line in lines if min(sides(line)) > 15 and max(sides(line)) > 30]
    return sorted(lines, key=lambda line: (line[1], line[0]))


def cases():
    """Sizes of images, words, and the lines of text that they are."""
    yield [800, 600], [word("face", 60, 50), word("bead", 220, 52), word("cab", 90, 200), word("hag", 520, 200)], \
        ["facebead", "cab", "hag"]
    yield [800, 480], [word("deaf", 100, 80, True), word("a", 420, 86), word("abcdefgh", 60, 260)], \
        ["deaf", "a", "abcdefgh"]
    # Longer than the largest input: it is read in parts.
    yield [800, 300], [word("abcdefgh", 100, 100), word("hgfedcba", 370, 100)], ["abcdefgh hgfedcba"]
    # A speck, and a link alone.
    yield [800, 400], [word("ha", 300, 150), [[20, 20, 4, 4, [255, 0, 0]]], [[500, 300, 60, 30, [0, 220, 0]]]], ["ha"]
    yield [300, 800], [], []


def write(path, modules):
    programs = {name: export(module, (torch.randn(size),), strict=False) for name, (module, size) in modules.items()}
    lowered = to_edge_transform_and_lower(programs, partitioner={name: [XnnpackPartitioner()] for name in programs},
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    results = []
    for size, words, lines in cases():
        rectangles = [rectangle for one in words for rectangle in one]
        found = boxes(draw(size, rectangles))
        assert len(found) == len(lines), (found, lines)
        # Every second image has twice the size.
        scale = 1 + len(results) % 2
        rectangles = [[value * scale for value in values] + [color] for *values, color in rectangles]
        results.append({"size": [side * scale for side in size], "rectangles": rectangles, "lines": lines,
                        "boxes": [[value * scale for value in box] for box in found]})
        print(lines, found)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in results) + "\n]\n")
    with open(os.path.join(folder, "charset.txt"), "w") as file:
        file.write(CHARSET + "\n")
    write(os.path.join(folder, "detector.pte"),
          {f"forward_{side}": (Detector(), (1, 3, side, side)) for side in (320, 800, 1280)})
    write(os.path.join(folder, "recognizer.pte"),
          {f"forward_{width}": (Recognizer(), (1, 1, 64, width)) for width in (64, 128, 256, 512)})


if __name__ == "__main__":
    with torch.no_grad():
        main(sys.argv[1])
