"""Text files whose lines are grouped below [header] lines, and draws from their values."""
import collections


def read_sections(path):
    """Returns the lines below each header, in order. Blank lines and `#` comments are skipped."""
    sections = collections.defaultdict(list)
    header = None
    with open(path) as file:
        for line in map(str.strip, file):
            if line.startswith("[") and line.endswith("]"):
                header = line[1:-1]
            elif line and not line.startswith("#"):
                sections[header].append(line)
    return sections


def pick(rng, items):
    return items[int(rng.integers(len(items)))]
