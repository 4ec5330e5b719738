"""Trains a vision model. An interrupted run resumes from its checkpoint."""
import argparse
import importlib

from training import train

TASKS = {"hand": "HandTask", "palm": "PalmTask", "depth": "DepthTask", "objects": "ObjectsTask",
         "text_detector": "TextDetectorTask", "text_recognizer": "TextRecognizerTask", "captioner": "CaptionerTask"}


def load_task(name, seed):
    return getattr(importlib.import_module(name), TASKS[name])(seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=TASKS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    train(load_task(arguments.name, arguments.seed), arguments.steps)
