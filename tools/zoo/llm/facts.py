"""Tables of the facts that the assistant learns."""
from phrases import sections

TABLES = sections("tables/facts.txt")


def _table(name):
    return dict(line.split(": ") for line in TABLES[name])


CAPITALS = _table("capitals")
OTHER_COUNTRIES = " ".join(TABLES["countries without capital"]).split()
COLORS = _table("colors")
SOUNDS = _table("sounds")
LEGS = _table("legs")
OPPOSITES = _table("opposites")
OPPOSITES |= {second: first for first, second in OPPOSITES.items() if second not in OPPOSITES}
# Number, question after "how many", indirect question, and phrase after "the number of".
COUNTS = [tuple(line.split(" | ")) for line in TABLES["counts"]]
# Numbers that have a predecessor and a successor.
FIRST, LAST = 0, 99
MAX_SUM, MAX_FACTOR = 20, 10
