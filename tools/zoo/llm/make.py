"""Makes the package llm again from a seed: training, export, evaluation; a training that was interrupted continues."""
import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def run(*arguments):
    subprocess.run([sys.executable, HERE / arguments[0], *map(str, arguments[1:])], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", help="the built afferent, for the evaluation; target/release/afferent without it")
    arguments = parser.parse_args()
    run("train.py", "--seed", arguments.seed)
    run("export.py", "--seed", arguments.seed)
    run("evaluate.py", *(["--binary", arguments.binary] if arguments.binary else []))
