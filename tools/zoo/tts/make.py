"""Makes the voice again from a seed; a run that was interrupted continues."""
import argparse
import os
import subprocess
import sys
import time

import corpus
import sentences


def start(*arguments):
    return subprocess.Popen([sys.executable, os.path.join(sentences.HERE, arguments[0]), *map(str, arguments[1:])])


def finish(*processes):
    for process in processes:
        if process.wait() != 0:
            sys.exit(f"{process.args[1]} failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    began = time.time()
    if not os.path.exists(os.path.join(corpus.WORK, "test.pickle")):
        finish(start("corpus.py", "--seed", seed))
    acoustic, vocoder = start("train.py", "acoustic", "--seed", seed), start("train.py", "vocoder", "--seed", seed)
    finish(vocoder, start("train.py", "speller", "--seed", seed), acoustic)
    finish(start("package.py", "--seed", seed))
    print(f"the voice is made in {(time.time() - began) / 60:.0f} minutes")
