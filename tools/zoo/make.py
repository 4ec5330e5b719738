"""Makes every package and sample sound again from a seed; a run that was interrupted continues."""
import data
from steps import finish, main, run, start


def make(seed):
    data.build(seed)
    finish(start("train.py", "vad", "--seed", seed), start("train.py", "wake_word", "--seed", seed))
    run("export.py", "--seed", seed)
    run("samples.py")
    # What trains on one core, beside each other.
    finish(start("asr/make.py", "--seed", seed), start("llm/make.py", "--seed", seed))
    finish(start("tts/make.py", "--seed", seed), start("turn/make.py", "--seed", seed))


if __name__ == "__main__":
    main(__doc__, make)
