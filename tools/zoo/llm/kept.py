"""Shows lines of phrases/training that training must not see: what they say is kept for `dev` or `test`, or is another intent's."""
import collections
import sys

from dialogues import FILES
from phrases import more, part_of_core, sections
from phrasing import said


def main():
    known = collections.defaultdict(set)
    for file in FILES:
        for intent, lines in sections(file).items():
            for line in lines:
                if not line.startswith("="):
                    for text in said(line):
                        known[text].add((intent, part_of_core(intent, line)))
    faults = [f"phrases/training/{file}: [{intent}] {line}" for file in FILES for intent, lines in more(file).items()
              for line in lines if any(where != (intent, "train") for text in said(line) for where in known[text])]
    print(*faults, f"{len(faults)} lines", sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
