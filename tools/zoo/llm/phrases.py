"""The files of phrases: their sections, and which lines training sees."""
import collections
import hashlib
import pathlib
import re

FILES = pathlib.Path(__file__).parent / "phrases"
# Of a hundred cores, frames, openings and closings, those from these numbers on are for `dev` and for `test`.
DEV, TEST = 70, 85
# A word of a line that is no slot.
WORD = r"(?<![{\w'])[a-z]{3,}(?![}\w'])"


def chance(text):
    """A number from 0 to 99 that depends only on the text."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 100


def part_of(text):
    """`train`, `dev` or `test`, by nothing but the text."""
    number = chance(text)
    return "train" if number < DEV else "dev" if number < TEST else "test"


def sections(name):
    """The lines below each [header] of a file."""
    found = collections.defaultdict(list)
    header = None
    for line in (FILES / name).read_text().splitlines():
        line = line.strip()
        if line.startswith("["):
            header = line[1:-1]
        elif line and not line.startswith("#"):
            found[header].append(line)
    return found


def more(name):
    """The lines below each [header] that are training's alone: whoever wrote them had seen nothing of `dev` and `test`."""
    return sections(f"training/{name}") if (FILES / "training" / name).exists() else {}


def part_of_core(intent, core):
    """The part of a core of an intent, a kind and a template."""
    return part_of(f"{intent} {core}")


def part_of_frame(kind, frame):
    """The part of what is said around cores of a kind."""
    return "train" if frame == "{}" else part_of(f"frame {kind} {frame}")


def training_lines():
    """(file, header, line) of all that training sees, without answers."""
    for file in sorted(path.name for path in FILES.glob("*.txt")):
        part = part_of_frame if file == "frames.txt" else part_of_core
        for header, lines in sections(file).items():
            yield from ((file, header, line) for line in lines if not line.startswith("=") and part(header, line) == "train")
        for header, lines in more(file).items():
            yield from ((file, header, line) for line in lines)


def words():
    """The words, of three letters or more, of phrasings that training sees, and how often they stand in them."""
    seen = collections.Counter()
    for _, _, line in training_lines():
        seen.update(re.findall(WORD, line))
    return seen


def beside():
    """The words that stand directly before slots in phrasings that training sees, or end openings; those that stand directly
    behind slots, or begin closings. Fillers are in both."""
    before, behind = set(), set()
    for file, header, line in training_lines():
        before.update(re.findall(r"([a-z']+)[|)( ]* \{", line))
        behind.update(re.findall(r"\} [|)( ]*([a-z']+)", line))
        if file == "frames.txt" and header in ("open", "filler"):
            before.add(line.split()[-1])
        if file == "frames.txt" and header in ("close", "filler"):
            behind.add(line.split()[0])
    return before, behind
