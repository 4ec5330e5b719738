"""Builds the vision packages and sample videos from a seed. An interrupted run resumes."""
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from jobs import main, run_parallel, run_script  # noqa: E402

# Two run at a time, in this order.
NAMES = ["text_recognizer", "depth", "objects", "text_detector", "hand", "palm"]
# Trained on the features of the package `objects`.
SECOND_NAMES = ["captioner"]


def make(seed):
    run_parallel([("vision/train.py", name, "--seed", seed) for name in NAMES])
    run_script("vision/package.py", *NAMES, "--seed", seed)
    for name in SECOND_NAMES:
        run_script("vision/train.py", name, "--seed", seed)
    run_script("vision/package.py", *SECOND_NAMES, "--seed", seed)
    run_script("vision/clips.py")


if __name__ == "__main__":
    main(__doc__, make)
