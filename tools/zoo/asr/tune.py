"""Tries weights of the decoder on voices, sentences and templates kept from training, which are not those of the test."""
import argparse
import itertools
import shlex

import sets
from evaluate import bench

LANGUAGE, WORD = (0.8, 1.0, 1.2), (1.5, 2.5, 3.5)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=400, help="of each set")
    parser.add_argument("--bench", default="cargo run --release -q -p afferent-bench --")
    arguments = parser.parse_args()
    listed = sets.build("tuning", arguments.items)
    print("language  word  " + "  ".join(sets.SETS))
    for language, word in itertools.product(LANGUAGE, WORD):
        rows = bench(shlex.split(arguments.bench), listed, "--set", f"language_weight={language}",
                     "--set", f"word_bonus={word}")
        errors = [rows[name]["WER %"] for name in sets.SETS]
        print(f"{language:8}  {word:4}  " + "  ".join(f"{e:.2f}".rjust(len(n)) for e, n in zip(errors, sets.SETS)),
              f"  mean {sum(errors) / len(errors):.2f}", flush=True)
