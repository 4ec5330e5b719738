"""Measures every shipped package, as it lies in pipelines/models, and fills their model.yaml; needs no training data."""
import argparse
import os
import subprocess

from steps import ZOO, run

ROOT = os.path.dirname(os.path.dirname(ZOO))
BINARIES = ["afferent", "afferent-bench"]


def measure(names, folder):
    afferent, bench = (os.path.join(folder, name) for name in BINARIES)
    commands = {
        "basic": ["evaluate.py"],
        "asr": ["asr/evaluate.py", "--bench", bench, "--afferent", afferent],
        "llm": ["llm/evaluate.py", "--binary", afferent],
        "tts": ["tts/evaluate.py", "--bench", bench, "--read-back"],
        "turn": ["turn/evaluate.py", "--afferent", afferent],
    }
    for name in names or commands:
        run(*commands[name])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="basic (log_mel, vad, wake_word), asr, llm, tts, turn; all without")
    parser.add_argument("--binaries", help="folder of the built afferent and afferent-bench; without it they are built")
    arguments = parser.parse_args()
    if not arguments.binaries:
        subprocess.run(["cargo", "build", "--release", *(word for name in BINARIES for word in ("-p", name))], check=True, cwd=ROOT)
    measure(arguments.names, arguments.binaries or os.path.join(ROOT, "target", "release"))
