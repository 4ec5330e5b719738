"""Makes the recogniser's package again from a seed; a run that was interrupted continues."""
import argparse
import os
import subprocess
import sys

import spoken

HERE = os.path.dirname(os.path.abspath(__file__))
# The end of training hears more accents: half of its utterances have other consonants too.
ACCENTED = ["--name", "accented", "--begin", "asr", "--peak", 1.2e-3, "--steps", 2000,
            "--from-shard", spoken.SHARDS - 4]


def run(script, seed, *arguments):
    command = [sys.executable, os.path.join(HERE, script), "--seed", seed, *arguments]
    subprocess.run(list(map(str, command)), check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    run("spoken.py", seed)
    run("train.py", seed)
    run("train.py", seed + 1, *ACCENTED)
    run("package.py", seed, "--name", "accented")
