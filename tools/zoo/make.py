"""Makes every package and sample sound again from a seed; a run that was interrupted continues."""
import argparse
import os
import subprocess
import sys
import time

import data

HERE = data.HERE


def run(*arguments):
    return subprocess.Popen([sys.executable, os.path.join(HERE, arguments[0]), *map(str, arguments[1:])])


def finish(*processes):
    for process in processes:
        if process.wait() != 0:
            sys.exit(f"{process.args[1]} failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    start = time.time()
    data.build(seed)
    finish(run("train.py", "vad", "--seed", seed), run("train.py", "wake_word", "--seed", seed))
    finish(run("export.py", "--seed", seed))
    finish(run("samples.py"))
    finish(run("asr/make.py", "--seed", seed))
    finish(run("llm/train.py", "--seed", seed))
    finish(run("llm/export.py", "--seed", seed))
    finish(run("tts/make.py", "--seed", seed))
    print(f"all packages and sounds made in {(time.time() - start) / 60:.0f} minutes")
