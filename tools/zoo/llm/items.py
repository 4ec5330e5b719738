"""Test items: dialogues that end with a question, with phrasings or slot values held out from
training.
"""
import collections
import random

import tokens
from dialogues import BOT_FAVORITE, FACTS, FIXED_ANSWER, LOCATION, MEMORIES, TABLES, TOOLS, Speaker

# Prompt of the model, expected text, last utterance of the user, and intent.
Item = collections.namedtuple("Item", "prompt expected user intent")
# Numbers of turns before the question, drawn uniformly.
CONTEXT_TURNS = (0, 0, 1, 2, 4)
CASES = [*TABLES, *FACTS, *FIXED_ANSWER, BOT_FAVORITE, "unknown", "unable", *(f"tool {name}" for name in TOOLS),
         *(f"{what} {kind}" for kind in MEMORIES for what in ("tell", "ask", "ask not told"))]
# Cases without slots that have held-out values.
CLOSED_CASES = {*FACTS, *FIXED_ANSWER, *TABLES, "tool time", "tool day", "tool timer_open",
                "tool light_all", *(f"ask not told {kind}" for kind in ("name", "city", "age", "job"))}
# Share of each family.
FAMILIES = {"talk": 0.16, "fact": 0.16, "tool": 0.27, "memory": 0.28, "refuse": 0.13}


def family_of(case):
    if case in FIXED_ANSWER or case == BOT_FAVORITE:
        return "talk"
    if case in TABLES or case in FACTS:
        return "fact"
    if case in ("unknown", "unable"):
        return "refuse"
    return case.split()[0] if case.startswith("tool") else "memory"


def case_turns(speaker, case):
    """Generates the turns of a case; the last one is measured."""
    what, _, kind = case.rpartition(" ")
    if case in FACTS or case in FIXED_ANSWER:
        return speaker.fixed_answer(case)
    if what == "tool":
        return speaker.use_tool(kind)
    if what == "tell":
        return speaker.tell(kind, speaker.new_key(kind))
    if what in ("ask", "ask not told"):
        keys = [key for known, key in speaker.known if known == kind]
        return speaker.ask(kind, keys[-1] if what == "ask" and keys else speaker.new_key(kind))
    if case in ("unknown", "unable"):
        return speaker.refusal(case)
    return speaker.bot_favorite() if case == BOT_FAVORITE else speaker.table(case)


def intents_of(case):
    """Returns the intents whose phrasings a case needs."""
    what, _, kind = case.rpartition(" ")
    if what == "tool":
        return {"timer_open": ("timer_open", "duration"), "light_open": ("light_open", "room_reply")}.get(kind, (kind,))
    if what in ("tell", "ask", "ask not told"):
        return ("where",) if kind == LOCATION and what != "tell" else (f"{what.split()[0]}_{kind}",)
    return (case,)


def case_items(rng, case, split, unseen):
    """Generates the items of a case: one, or two if a tool is called."""
    speaker = Speaker(rng, "train", unseen)
    system = speaker.system_text() if rng.random() < 0.8 else None
    context = []
    count = rng.choice(CONTEXT_TURNS)
    while len(context) < count:
        context += speaker.any_turns()
    if case.startswith("ask ") and "not told" not in case:
        kind = case.split()[1]
        context += speaker.tell(kind, speaker.new_key(kind))
        for _ in range(rng.randint(0, 2)):
            context += speaker.talk()
    speaker.phraser.split = split
    if not all(speaker.has_phrasing(intent) for intent in intents_of(case)):
        return []
    *more, last = case_turns(speaker, case)
    context += more
    prompt = tokens.prompt(system, context, last.user)
    if not last.calls:
        return [Item(prompt, f" {last.answer}", last.user, last.intent)]
    call, result = last.calls[0]
    call_item = Item(prompt, tokens.CALL + call, last.user, last.intent)
    answer_item = Item(tokens.prompt(system, context, last.user, last.calls), f" {last.answer}",
                       f"{last.user} => {result}", last.intent)
    # A question for a location measures the answer; its tool call is measured by "tool where".
    return [answer_item] if case == f"ask {LOCATION}" else [call_item, answer_item]


def draw_items(kind, count, seed):
    """Draws test items of a kind.

    `slots`: known phrasings with held-out values. `dev`, `test`: held-out phrasings with training
    values. `results`: answers to tool results with held-out values.
    """
    rng, items = random.Random(f"{kind} {seed}"), []
    is_results, is_unseen = kind == "results", kind in ("slots", "results")
    families = {name: [case for case in CASES if family_of(case) == name and not (is_unseen and case in CLOSED_CASES)]
                for name in FAMILIES}
    if is_results:
        families = {name: cases if name == "tool" else [] for name, cases in families.items()}
    weights = [FAMILIES[name] * bool(families[name]) for name in FAMILIES]
    while len(items) < count:
        case = rng.choice(families[rng.choices(list(FAMILIES), weights)[0]])
        drawn = case_items(rng, case, "train" if is_unseen else kind, is_unseen)
        items += drawn[1:] if is_results else drawn[:1]
    return items[:count]
