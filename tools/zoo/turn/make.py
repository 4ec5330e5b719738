"""Makes the turn detector's package again from a seed; a run that was interrupted continues."""
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from steps import main, run  # noqa: E402


def make(seed):
    run("turn/pauses.py", "--seed", seed)
    run("turn/train.py", "--seed", seed)
    run("turn/package.py", "--seed", seed)


if __name__ == "__main__":
    main(__doc__, make)
