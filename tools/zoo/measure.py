"""Measures every shipped package, as it lies in pipelines/models, and fills their model.yaml; needs no training data."""
import argparse
import os
import shlex
import subprocess

from steps import ZOO, run

ROOT = os.path.dirname(os.path.dirname(ZOO))
BINARIES = ["afferent", "afferent-bench"]


def commands(folder):
    """What measures each package, with the binaries of a folder."""
    afferent, bench = (os.path.join(folder, name) for name in BINARIES)
    return {
        "basic": ["evaluate.py"],
        "asr": ["asr/evaluate.py", "--bench", shlex.quote(bench), "--afferent", shlex.quote(afferent)],
        "llm": ["llm/evaluate.py", "--binary", afferent],
        "tts": ["tts/evaluate.py", "--bench", bench, "--read-back"],
        "turn": ["turn/evaluate.py", "--afferent", shlex.quote(afferent)],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="basic (log_mel, vad, wake_word), asr, llm, tts, turn; all without")
    parser.add_argument("--binaries", help="folder of the built afferent and afferent-bench; without it they are built")
    arguments = parser.parse_args()
    known = commands(os.path.abspath(arguments.binaries or os.path.join(ROOT, "target", "release")))
    if unknown := set(arguments.names) - set(known):
        parser.error(f"no package is called {', '.join(sorted(unknown))}: {', '.join(known)} are")
    if not arguments.binaries:
        subprocess.run(["cargo", "build", "--release", *(word for name in BINARIES for word in ("-p", name))], check=True, cwd=ROOT)
    for name in arguments.names or known:
        run(*known[name])
