#!/usr/bin/env python3
"""Writes views.bin: views of an image by OpenCV and Pillow, one after the other.

    python nodes/vision/tests/data/views.py

The image has WIDTH x HEIGHT pixels whose bytes follow a formula that the test repeats. Needs numpy,
opencv-python-headless and pillow.
"""
import pathlib

import cv2
import numpy as np
from PIL import Image

WIDTH, HEIGHT, VIEW = 24, 16, (11, 9)


def pixels(*shape):
    """Smooth bytes from 40 to 200."""
    at = np.indices(shape).astype(np.float64)
    phase = at[0] * 0.31 + at[1] * 0.17 + (at[2] * 1.3 if len(shape) > 2 else 0)
    return np.floor(120 + 80 * np.sin(phase)).astype(np.uint8)


def main():
    rgb = pixels(HEIGHT, WIDTH, 3)
    views = [
        cv2.resize(rgb, VIEW, interpolation=cv2.INTER_LINEAR),
        cv2.resize(rgb, (30, 20), interpolation=cv2.INTER_LINEAR),
        np.asarray(Image.fromarray(rgb).resize(VIEW, Image.Resampling.BILINEAR)),
        np.asarray(Image.fromarray(rgb).resize(VIEW, Image.Resampling.BICUBIC)),
        cv2.cvtColor(pixels(HEIGHT, WIDTH, 2), cv2.COLOR_YUV2RGB_YUY2),
        cv2.cvtColor(pixels(HEIGHT, WIDTH, 2), cv2.COLOR_YUV2RGB_UYVY),
        cv2.cvtColor(pixels(HEIGHT * 3 // 2, WIDTH), cv2.COLOR_YUV2RGB_NV12),
        cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY),
    ]
    path = pathlib.Path(__file__).with_name("views.bin")
    path.write_bytes(b"".join(view.tobytes() for view in views))


if __name__ == "__main__":
    main()
