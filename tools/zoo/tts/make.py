"""Makes the voice again from a seed; a run that was interrupted continues."""
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import corpus  # noqa: E402
from steps import beside, main, run  # noqa: E402


def make(seed):
    if not all(os.path.exists(os.path.join(corpus.WORK, f"{part}.pickle")) for part in ("train", "test")):
        run("tts/corpus.py", "--seed", seed)
    beside([("tts/train.py", part, "--seed", seed) for part in ("acoustic", "vocoder", "speller")])
    run("tts/package.py", "--seed", seed)


if __name__ == "__main__":
    main(__doc__, make)
