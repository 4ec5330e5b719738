#!/usr/bin/env python3
"""Writes fit.json: pixels that an image takes when it is fitted to another size.

    python nodes/vision/tests/data/fit.py

The crop is computed as by `Resize` and `CenterCrop` of torchvision for square results.
"""
import json
import pathlib
import random

from letterbox import letterbox


def crop(image, size, fraction):
    short = round(size / fraction)
    width, height = image
    new = [short, int(short * height / width)] if width <= height else [int(short * width / height), short]
    left, top = (int(round((new[axis] - size) / 2.0)) for axis in (0, 1))
    return [-left, -top, *new]


def main():
    random.seed(1)
    cases = []
    images = [[1280, 720], [720, 1280], [640, 480], [810, 1080], [1281, 721], [1280, 721], [333, 500], [99, 7], [224, 224]]
    images += [[random.randint(2, 2000), random.randint(2, 2000)] for _ in range(60)]
    for image in images:
        side = random.choice([224, 320, 384, 640])
        fraction = random.choice([1.0, 0.875, 0.95])
        cases.append({
            "image": image, "size": [side, side], "fraction": fraction,
            "letterbox": letterbox(image, [side, side]), "crop": crop(image, side, fraction),
        })
    path = pathlib.Path(__file__).with_name("fit.json")
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
