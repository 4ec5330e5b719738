"""Makes the package llm again from a seed; a training that was interrupted continues."""
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from steps import main, run  # noqa: E402


def make(seed):
    run("llm/train.py", "--seed", seed)
    run("llm/export.py")


if __name__ == "__main__":
    main(__doc__, make)
