"""Makes the recogniser's package again from a seed; a run that was interrupted continues."""
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from steps import main, run  # noqa: E402


def make(seed):
    run("asr/spoken.py", "--seed", seed)
    run("asr/train.py", "--seed", seed)
    run("asr/package.py", "--seed", seed)


if __name__ == "__main__":
    main(__doc__, make)
