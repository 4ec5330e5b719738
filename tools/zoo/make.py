"""Makes every package and sample sound again from a seed; a run that was interrupted continues."""
import data
from steps import beside, main, run


def make(seed):
    data.build(seed)
    beside([("train.py", name, "--seed", seed) for name in ("vad", "wake_word")])
    run("export.py", "--seed", seed)
    run("samples.py")
    run("asr/sample.py")
    # The longest first, so that both processors end with something short.
    beside([(f"{package}/make.py", "--seed", seed) for package in ("llm", "asr", "tts", "turn")])


if __name__ == "__main__":
    main(__doc__, make)
