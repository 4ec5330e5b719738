"""Builds the package translate from a seed. An interrupted training resumes."""
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from jobs import main, run_script  # noqa: E402


def make(seed):
    run_script("translate/train.py", "--seed", seed)
    run_script("translate/package.py", "--seed", seed)


if __name__ == "__main__":
    main(__doc__, make)
