"""Builds the package tts from a seed. An interrupted run resumes."""
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import corpus  # noqa: E402
from jobs import main, run_parallel, run_script  # noqa: E402


def make(seed):
    if not all(os.path.exists(os.path.join(corpus.WORK, f"{split}.pickle")) for split in ("train", "test")):
        run_script("tts/corpus.py", "--seed", seed)
    run_parallel([("tts/train.py", network, "--seed", seed) for network in ("acoustic", "vocoder", "g2p")])
    run_script("tts/package.py", "--seed", seed)


if __name__ == "__main__":
    main(__doc__, make)
