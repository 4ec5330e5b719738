#!/usr/bin/env python3
"""Writes undistort.bin: an image without the distortion of three lenses, by OpenCV.

    python nodes/vision/tests/data/undistort.py

Prints the focal lengths and the principal point of each camera without distortion. That of the fisheye lens is computed
here, since OpenCV uses another rule for it. Needs numpy and opencv-python-headless.
"""
import pathlib

import cv2
import numpy as np

WIDTH, HEIGHT = 40, 30
K = np.array([[30, 0, 19], [0, 31, 14.5], [0, 0, 1]], np.float64)
LENSES = [
    np.array([-0.28, 0.09, 0.001, -0.0005, -0.01]),
    np.array([0.5, -0.2, 0.001, -0.0005, 0.03, 0.8, -0.1, 0.02]),
]
FISHEYE = np.array([-0.02, 0.01, -0.004, 0.0006])


def image():
    y, x, channel = np.indices((HEIGHT, WIDTH, 3)).astype(np.float64)
    return np.floor(120 + 80 * np.sin(y * 0.31 + x * 0.17 + channel * 1.3)).astype(np.uint8)


def fisheye_matrix():
    """The rule of getOptimalNewCameraMatrix with alpha 0."""
    xs, ys = np.linspace(0, WIDTH - 1, 65), np.linspace(0, HEIGHT - 1, 65)

    def seen(x, y):
        points = np.stack(np.broadcast_arrays(x, y), -1).reshape(1, -1, 2).astype(np.float64)
        return cv2.fisheye.undistortPoints(points, K, FISHEYE)[0]

    left, right = seen(0.0, ys)[:, 0].max(), seen(WIDTH - 1.0, ys)[:, 0].min()
    top, bottom = seen(xs, 0.0)[:, 1].max(), seen(xs, HEIGHT - 1.0)[:, 1].min()
    fx, fy = (WIDTH - 1) / (right - left), (HEIGHT - 1) / (bottom - top)
    return np.array([[fx, 0, -fx * left], [0, fy, -fy * top], [0, 0, 1]])


def main():
    views = []
    size = WIDTH, HEIGHT
    for lens in LENSES:
        matrix, _ = cv2.getOptimalNewCameraMatrix(K, lens, size, 0)
        maps = cv2.initUndistortRectifyMap(K, lens, None, matrix, size, cv2.CV_32FC1)
        views.append((matrix, maps))
    matrix = fisheye_matrix()
    maps = cv2.fisheye.initUndistortRectifyMap(K, FISHEYE, np.eye(3), matrix, size, cv2.CV_32FC1)
    views.append((matrix, maps))
    path = pathlib.Path(__file__).with_name("undistort.bin")
    with path.open("wb") as file:
        for matrix, maps in views:
            print([float(round(matrix[at], 4)) for at in ((0, 0), (1, 1), (0, 2), (1, 2))])
            file.write(cv2.remap(image(), *maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE).tobytes())


if __name__ == "__main__":
    main()
