"""Measures the packages in pipelines/models and updates their model.yaml.

Needs no training data.
"""
import argparse
import os
import shlex
import subprocess

from jobs import ZOO, run_script

ROOT = os.path.dirname(os.path.dirname(ZOO))
BINARIES = ["afferent", "afferent-bench"]


def evaluation_commands(folder):
    """Returns the evaluation command of each package, for the binaries in a folder."""
    afferent, bench = (os.path.join(folder, name) for name in BINARIES)
    return {
        "basic": ["evaluate.py"],
        "asr": ["asr/evaluate.py", "--bench", shlex.quote(bench), "--afferent", shlex.quote(afferent)],
        "llm": ["llm/evaluate.py", "--binary", afferent],
        "tts": ["tts/evaluate.py", "--bench", bench, "--read-back"],
        "tts_es": ["tts/evaluate.py", "--bench", bench],
        "translate": ["translate/evaluate.py", "--afferent", afferent],
        "turn": ["turn/evaluate.py", "--afferent", shlex.quote(afferent)],
        "vision": ["vision/evaluate.py", "--afferent", shlex.quote(afferent)],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*",
                        help="basic (log_mel, vad, wake_word), asr, llm, tts, tts_es, translate, turn or vision; all of them by default")
    parser.add_argument("--binaries", help="folder with built afferent and afferent-bench; they are built by default")
    arguments = parser.parse_args()
    commands = evaluation_commands(os.path.abspath(arguments.binaries or os.path.join(ROOT, "target", "release")))
    if unknown := set(arguments.names) - set(commands):
        parser.error(f"unknown package {', '.join(sorted(unknown))}; choose from {', '.join(commands)}")
    if not arguments.binaries:
        packages = [word for name in BINARIES for word in ("-p", name)]
        subprocess.run(["cargo", "build", "--release", *packages], check=True, cwd=ROOT)
    for name in arguments.names or commands:
        os.environ["VOICE_LANGUAGE"] = "es" if name == "tts_es" else "en"
        run_script(*commands[name])
