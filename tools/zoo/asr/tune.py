"""Sweeps the weights of the decoder on the validation sets."""
import argparse
import itertools
import shlex

import eval_sets
from evaluate import run_bench

LANGUAGE_WEIGHTS, WORD_BONUSES = (0.8, 1.0, 1.2), (1.5, 2.5, 3.5)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=400, help="items of each set")
    parser.add_argument("--bench", default="cargo run --release -q -p afferent-bench --")
    arguments = parser.parse_args()
    list_file = eval_sets.build("validation", arguments.items)
    print("language  word  " + "  ".join(eval_sets.SETS))
    for language, word in itertools.product(LANGUAGE_WEIGHTS, WORD_BONUSES):
        rows = run_bench(shlex.split(arguments.bench), list_file, "--set", f"language_weight={language}",
                         "--set", f"word_bonus={word}")
        errors = [rows[name]["WER %"] for name in eval_sets.SETS]
        print(f"{language:8}  {word:4}  " + "  ".join(f"{e:.2f}".rjust(len(n)) for e, n in zip(errors, eval_sets.SETS)),
              f"  mean {sum(errors) / len(errors):.2f}", flush=True)
