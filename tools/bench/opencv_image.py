#!/usr/bin/env python3
"""Prepares images for a model with OpenCV, as the peer of `afferent-bench image`.

    python tools/bench/opencv_image.py FORMAT REPEAT

Converts an image of 1280 x 720 pixels in FORMAT (yuyv, nv12 or rgb8) to RGB, scales it to 640 x 360, pads it to
640 x 640, divides by 255 and splits the channels, on one thread. The last steps are done in two ways, by NumPy and by
`cv2.dnn.blobFromImage`; the faster one counts. Needs numpy and opencv-python-headless. Prints a JSON object: the median
time of an image in microseconds, the mean of the output, and the version of OpenCV.
"""
import argparse
import json
import statistics
import time

import cv2
import numpy as np

WIDTH, HEIGHT, SIZE, PAD = 1280, 720, 640, 114


def source(name):
    """The image that `afferent-bench image` makes."""
    shape = {"yuyv": (HEIGHT, WIDTH, 2), "nv12": (HEIGHT * 3 // 2, WIDTH), "rgb8": (HEIGHT, WIDTH, 3)}[name]
    at = np.arange(np.prod(shape), dtype=np.uint64)
    return ((at * 2654435761 % 2**32) >> 24).astype(np.uint8).reshape(shape)


def to_rgb(name, image):
    if name == "yuyv":
        return cv2.cvtColor(image, cv2.COLOR_YUV2RGB_YUY2)
    return cv2.cvtColor(image, cv2.COLOR_YUV2RGB_NV12) if name == "nv12" else image


def letterboxed(name, image):
    scaled = cv2.resize(to_rgb(name, image), (SIZE, SIZE * HEIGHT // WIDTH), interpolation=cv2.INTER_LINEAR)
    border = (SIZE - scaled.shape[0]) // 2
    return cv2.copyMakeBorder(scaled, border, border, 0, 0, cv2.BORDER_CONSTANT, value=(PAD, PAD, PAD))


def with_numpy(name, image):
    planes = np.ascontiguousarray(letterboxed(name, image).transpose(2, 0, 1))
    return np.multiply(planes, np.float32(1 / 255), dtype=np.float32)


def with_blob(name, image):
    return cv2.dnn.blobFromImage(letterboxed(name, image), 1 / 255)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=["yuyv", "nv12", "rgb8"])
    parser.add_argument("repeat", type=int)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    image = source(options.format)
    medians, mean = [], 0.0
    for prepare in with_numpy, with_blob:
        times = []
        for _ in range(options.repeat):
            start = time.perf_counter()
            out = prepare(options.format, image)
            times.append((time.perf_counter() - start) * 1e6)
        medians.append(statistics.median(times))
        mean = float(out.mean(dtype=np.float64))
    print(json.dumps({"median_us": min(medians), "mean": mean, "opencv": cv2.__version__}))


if __name__ == "__main__":
    main()
