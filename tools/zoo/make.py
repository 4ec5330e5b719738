"""Builds all packages and sample sounds from a seed. An interrupted run resumes."""
import data
from jobs import main, run_parallel, run_script


def make(seed):
    data.build(seed)
    run_parallel([("train.py", name, "--seed", seed) for name in ("vad", "wake_word")])
    run_script("export.py", "--seed", seed)
    run_script("samples.py")
    run_script("asr/sample.py")
    # Longest first, so that both processors finish at about the same time.
    run_parallel([(f"{package}/make.py", "--seed", seed) for package in ("llm", "vision", "asr", "tts", "turn", "translate")])


if __name__ == "__main__":
    main(__doc__, make)
