"""Test items: dialogues of which the last answer is asked for, with phrasings or values that training never sees."""
import collections
import random

import tokens
from dialogues import ALONE, FACTS, MEMORIES, TABLES, TOOLS, Speaker

# What is given to the model, what it should say, what the user said last, and the intent.
Item = collections.namedtuple("Item", "prompt expected user intent")
# How many turns stand before the question, or one more, drawn evenly from these.
BEFORE = (0, 0, 1, 2, 4)
OWN = [*TABLES, *FACTS, *ALONE, "bot_favourite", "unknown", "unable", *(f"tool {name}" for name in TOOLS),
       *(f"{what} {kind}" for kind in MEMORIES for what in ("tell", "ask", "ask not told"))]
# What has no slots, or slots of which training has every value.
CLOSED = {*FACTS, *ALONE, *TABLES, "tool time", "tool day", "tool timer_open",
          "tool light_all", *(f"ask not told {kind}" for kind in ("name", "city", "age", "job"))}
# The share of each family.
FAMILIES = {"talk": 0.16, "fact": 0.16, "tool": 0.27, "memory": 0.28, "refuse": 0.13}


def family(name):
    if name in ALONE or name == "bot_favourite":
        return "talk"
    if name in TABLES or name in FACTS:
        return "fact"
    if name in ("unknown", "unable"):
        return "refuse"
    return name.split()[0] if name.startswith("tool") else "memory"


def last_turns(speaker, name):
    """The turns of an item: the last is the one that counts."""
    what, _, kind = name.rpartition(" ")
    if name in FACTS or name in ALONE:
        return speaker.alone(name)
    if what == "tool":
        return speaker.use_tool(kind)
    if what == "tell":
        return speaker.tell(kind, speaker.new_key(kind))
    if what in ("ask", "ask not told"):
        keys = [key for known, key in speaker.known if known == kind]
        return speaker.ask(kind, keys[-1] if what == "ask" and keys else speaker.new_key(kind))
    if name in ("unknown", "unable"):
        return speaker.refusal(name)
    return speaker.bot_favourite() if name == "bot_favourite" else speaker.table(name)


def phrased_by(name):
    """The intents whose phrasings an item of that name needs."""
    what, _, kind = name.rpartition(" ")
    if what == "tool":
        return {"timer_open": ("timer_open", "duration"), "light_open": ("light_open", "room_reply")}.get(kind, (kind,))
    if what in ("tell", "ask", "ask not told"):
        return ("where",) if kind == "place" and what != "tell" else (f"{what.split()[0]}_{kind}",)
    return (name,)


def made(rng, name, part, unseen):
    """The items of a dialogue that ends with what `name` says: one, or two if a tool is called."""
    speaker = Speaker(rng, "train", unseen)
    system = speaker.remembered() if rng.random() < 0.8 else None
    before = []
    count = rng.choice(BEFORE)
    while len(before) < count:
        before += speaker.any_turns()
    if name.startswith("ask ") and "not told" not in name:
        kind = name.split()[1]
        before += speaker.tell(kind, speaker.new_key(kind))
        for _ in range(rng.randint(0, 2)):
            before += speaker.talk()
    speaker.phraser.part = part
    if not all(speaker.can(intent) for intent in phrased_by(name)):
        return []
    *more, last = last_turns(speaker, name)
    before += more
    prompt = tokens.prompt(system, before, last.user)
    if not last.calls:
        return [Item(prompt, f" {last.answer}", last.user, last.intent)]
    called, result = last.calls[0]
    asked = Item(prompt, tokens.CALL + called, last.user, last.intent)
    said = Item(tokens.prompt(system, before, last.user, last.calls), f" {last.answer}", f"{last.user} => {result}", last.intent)
    # A told place is asked for to hear it; that the tool is called for it is an item of "tool where".
    return [said] if name == "ask place" else [asked, said]


def items(kind, count, seed):
    """`slots`: known phrasings with new values; `dev`, `test`: new phrasings with values of training; `results`: what a tool
    gave, with new values, to be said."""
    rng, found = random.Random(f"{kind} {seed}"), []
    results, slots = kind == "results", kind in ("slots", "results")
    families = {name: [own for own in OWN if family(own) == name and not (slots and own in CLOSED)] for name in FAMILIES}
    if results:
        families = {name: own if name == "tool" else [] for name, own in families.items()}
    shares = [FAMILIES[name] * bool(families[name]) for name in FAMILIES]
    while len(found) < count:
        name = rng.choice(families[rng.choices(list(FAMILIES), shares)[0]])
        phrased = made(rng, name, "train" if slots else kind, slots)
        found += phrased[1:] if results else phrased[:1]
    return found[:count]
