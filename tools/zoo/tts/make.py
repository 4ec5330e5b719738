"""Builds the packages tts and tts_es from a seed. An interrupted run resumes."""
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from jobs import main, run_parallel, run_script  # noqa: E402
from language import MODULES, VARIABLE  # noqa: E402


def make(seed):
    for code in MODULES:
        os.environ[VARIABLE] = code
        run_script("tts/corpus.py", "--seed", seed)
        run_parallel([("tts/train.py", network, "--seed", seed) for network in ("acoustic", "vocoder", "g2p")])
        run_script("tts/package.py", "--seed", seed)


if __name__ == "__main__":
    main(__doc__, make)
