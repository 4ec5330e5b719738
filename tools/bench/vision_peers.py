#!/usr/bin/env python3
"""Runs peers of `afferent-bench vision`, each on one thread.

    python tools/bench/vision_peers.py jpeg FILE REPEAT      (OpenCV with libjpeg-turbo)
    python tools/bench/vision_peers.py hands FOLDER REPEAT   (MediaPipe 0.10.21, hand landmark lite, with tracking)
    python tools/bench/vision_peers.py page FILE             (writes a page of ten lines)
    python tools/bench/vision_peers.py ocr FILE REPEAT       (RapidOCR with ONNX Runtime)

Needs numpy and opencv-python-headless, and mediapipe or rapidocr, onnxruntime and pillow for their commands. Prints a
JSON object: the median time of an image in microseconds, and what was found.
"""
import argparse
import json
import pathlib
import statistics
import time

import cv2
import numpy as np

LINES = [
    "The quick brown fox jumps over the lazy dog", "Invoice 2024-117, due on 30 June", "Pack my box with five dozen jugs",
    "Total amount: 1,284.50 EUR", "Please keep this door closed", "Platform 9, departure 14:35",
    "Ships leave the harbor at sunrise", "Chapter 4: Streams and queues", "Call 555-0199 for a taxi",
    "Thank you for your visit",
]


def median_us(repeat, call):
    call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def jpeg(path, repeat):
    data = np.frombuffer(pathlib.Path(path).read_bytes(), np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_COLOR)
    return {"median_us": median_us(repeat, lambda: cv2.imdecode(data, cv2.IMREAD_COLOR)),
            "mean": float(image.mean(dtype=np.float64))}


def hands(folder, repeat):
    import mediapipe
    images = [cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB) for path in sorted(pathlib.Path(folder).glob("*.png"))]
    times, found = [], 0
    with mediapipe.solutions.hands.Hands(max_num_hands=1, model_complexity=0) as tracker:
        for _ in range(repeat):
            previous = False
            for image in images:
                start = time.perf_counter()
                result = tracker.process(image)
                elapsed = (time.perf_counter() - start) * 1e6
                is_found = result.multi_hand_landmarks is not None
                # The palm detector runs only without a hand in the image before.
                if is_found and previous:
                    times.append(elapsed)
                found += is_found
                previous = is_found
    return {"median_us": statistics.median(times) if times else float("nan"), "found": found / repeat / len(images)}


def page(path):
    from PIL import Image, ImageDraw, ImageFont
    image = Image.new("RGB", (1280, 720), (248, 246, 240))
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(34)
    for row, line in enumerate(LINES):
        draw.text((60, 40 + 64 * row), line, (30, 30, 36), font)
    image.save(path)
    return {"lines": LINES}


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def ocr(path, repeat):
    from rapidocr import RapidOCR
    engine = RapidOCR(params={"EngineConfig.onnxruntime.intra_op_num_threads": 1,
                              "EngineConfig.onnxruntime.inter_op_num_threads": 1, "Global.log_level": "error"})
    image = cv2.imread(path)
    lines = sorted(zip(engine(image).boxes.tolist(), engine(image).txts), key=lambda line: line[0][0][1])
    read, expected = "\n".join(text for _, text in lines), "\n".join(LINES)
    return {"median_us": median_us(repeat, lambda: engine(image)), "cer": distance(read, expected) / len(expected)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["jpeg", "hands", "page", "ocr"])
    parser.add_argument("path")
    parser.add_argument("repeat", type=int, nargs="?", default=1)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    command = {"jpeg": jpeg, "hands": hands, "page": lambda path, _: page(path), "ocr": ocr}[options.command]
    print(json.dumps(command(options.path, options.repeat)))


if __name__ == "__main__":
    main()
