"""Lists lines of phrases/training whose text is held out for `dev` or `test`, or belongs to another
intent.
"""
import collections
import sys

from dialogues import FILES
from phrases import sections, split_of_core, train_only_sections
from phrasing import normalized_texts


def main():
    known = collections.defaultdict(set)
    for file in FILES:
        for intent, lines in sections(file).items():
            for line in lines:
                if not line.startswith("="):
                    for text in normalized_texts(line):
                        known[text].add((intent, split_of_core(intent, line)))
    faults = [f"phrases/training/{file}: [{intent}] {line}" for file in FILES
              for intent, lines in train_only_sections(file).items() for line in lines
              if any(owner != (intent, "train") for text in normalized_texts(line) for owner in known[text])]
    print(*faults, f"{len(faults)} lines", sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
