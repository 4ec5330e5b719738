"""Dialogues: utterances, tool calls and answers of intents, with a memory of what the user told."""
import collections
import json
import random

import facts
from phrases import sections, train_only_sections
from phrasing import Intent, Phraser
from slots import DAYS, MONTHS, Slots, clock_words, is_plural, number_words

NAMES = dict(line.split(": ") for line in sections("tables/words.txt")["names"])
LOCATION, BOT_FAVORITE, COLOR, COLORED = (NAMES[name] for name in ("location", "bot favorite", "color", "colored"))
REPLIES = {header: dict(line.split(": ", 1) for line in lines)
           for header, lines in sections("tables/replies.txt").items()}
INSTRUCTIONS = "you are afferent, a small assistant."
UNKNOWN, UNABLE = "sorry, i do not know that.", "sorry, i can not do that."
FILES = ("talk.txt", "tools.txt", "memory.txt", "facts.txt", "refuse.txt")
# Probability of each family of intents.
FAMILIES = {"talk": 0.18, "fact": 0.17, "tool": 0.25, "memory": 0.22, "refuse": 0.18}
# Probability that a dialogue has a system text, and that the text has remembered facts.
SYSTEM_PROBABILITY, REMEMBERED_PROBABILITY = 0.85, 0.3
# Probability that a training dialogue consists of arithmetic only: it has too many cases to be
# covered otherwise. Probability that it consists of told and asked facts only: they are easily
# confused.
ARITHMETIC_PROBABILITY, ARITHMETIC = 0.06, ("plus", "minus", "times")
MEMORY_PROBABILITY = 0.4
# Share of small talk that asks for a favorite of the assistant: the only one with slots.
BOT_FAVORITE_PROBABILITY = 0.25
# Probability that the tool knows the location of a thing, also after the user has told it: the
# location that the tool returns is the newer one.
FOUND_PROBABILITY, FOUND_AFTER_TOLD_PROBABILITY = 0.7, 0.25

# Tool call and result, both JSON objects.
Call = collections.namedtuple("Call", "call result")
# Utterance of the user, tool calls, answer, intent, and the core of the utterance.
Turn = collections.namedtuple("Turn", "user calls answer intent core")


def load():
    intents, answers = {}, {}
    for file in FILES:
        train_only = train_only_sections(file)
        for name, lines in sections(file).items():
            if lines[0].startswith("="):
                answers[name] = lines.pop(0)[2:]
            if name.startswith("fact "):
                answers[name] = name.removeprefix("fact ")
            intents[name] = Intent(name, lines, train_only.get(name, ()))
    return intents, answers


INTENTS, ANSWERS = load()
# Intents of small talk with a fixed answer.
FIXED_ANSWER = [name for name in INTENTS
                if name in ANSWERS and name != BOT_FAVORITE and not name.startswith("fact ")]
FACTS = [name for name in INTENTS if name.startswith("fact ")]
TABLES = ("capital", COLOR, "sound", "legs", "opposite", "next", "before", "plus", "minus", "times", "count")
# Sums and products have the most answers.
TABLE_WEIGHTS = (1, 1, 0.7, 0.7, 1, 1, 1, 2.5, 2, 2, 0.7)
TOOLS = ("time", "day", "timer", "timer_open", "light", "light_on", "light_off", "light_all", "light_open", "where")
TOOL_WEIGHTS = (1.4, 0.9, 1.8, 0.5, 1.9, 1.6, 1.8, 0.5, 0.9, 2.3)
# Weight of each kind of told fact, and the weights in training, higher for the difficult ones.
MEMORIES = {"name": 1.3, "fav": 2, "rel": 1.5, LOCATION: 2.2, "event": 1.2, "city": 0.7, "age": 0.5, "job": 0.6}
TRAIN_MEMORIES = MEMORIES | {"fav": 2.5, "rel": 3, LOCATION: 3, "event": 1.6}
# Slots of the key of a told fact, of its value, and of the value in the phrasing.
KEY_SLOTS = {"fav": "attr", "rel": "rel", LOCATION: "thing", "event": "event"}
VALUE_SLOTS = {"name": "name", "fav": "value", "rel": "name", LOCATION: "spot", "event": "day", "city": "city",
               "job": "job"}
TOLD_SLOTS = {"name": "name", "fav": "value", "rel": "name", LOCATION: LOCATION, "event": "day", "city": "city",
              "age": "n", "job": "job"}


def copula(thing):
    return "are" if is_plural(thing) else "is"


def agreement(thing):
    """Returns the slots of phrasings that agree with a thing in number."""
    plural = is_plural(thing)
    return {"are": copula(thing), "are2": "they are" if plural else "it is", "have": "have" if plural else "has"}


def fact_sentence(kind, key, value):
    """Returns the sentence that states a fact about the user."""
    return REPLIES["told"][kind].format(key=key, value=value, are=copula(key))


def not_told_sentence(kind, key):
    """Returns the answer for a fact that the user never told.

    It starts with the same words as `fact_sentence`, so that the model decides whether it knows the
    fact at the position of the value, after the words that preceded the value when it was told.
    """
    return REPLIES["not told"][kind].format(key=key, are=copula(key))


def tool_call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


def tool_result(rng, **fields):
    """Returns a tool result: JSON with or without a space after commas and colons."""
    return json.dumps(fields, separators=rng.choice(((", ", ": "), (",", ":"))))


def duration(slots, rng):
    """Draws a duration.

    Returns slots of the phrase, arguments of the tool, and words of the answer.
    """
    unit = rng.choice(("minute", "minute", "minute", "second", "hour"))
    number = slots.number(1, {"minute": 99, "second": 90, "hour": 24}[unit])
    words, plural = number_words(number), unit + ("s" if number > 1 else "")
    kind = rng.random()
    if kind < 0.08:
        phrase, minutes = rng.choice((("half an hour", 30), ("a quarter of an hour", 15), ("a quarter hour", 15),
                                      ("three quarters of an hour", 45)))
        singular = {30: "half hour", 15: "quarter hour", 45: "three quarter hour"}[minutes]
        return {"time": phrase, "time1": singular}, {"minutes": minutes}, f"{number_words(minutes)} minutes"
    if kind < 0.12:
        unit = rng.choice(("minute", "second", "hour"))
        phrase = f"{'an' if unit == 'hour' else 'a'} {unit}"
        return {"time": phrase, "time1": f"one {unit}"}, {unit + "s": 1}, f"one {unit}"
    if kind < 0.16:
        hours = rng.randint(1, 9)
        phrase = "an hour and a half" if hours == 1 else f"{number_words(hours)} and a half hours"
        answer = f"{number_words(hours)} hour{'s' * (hours > 1)} and thirty minutes"
        return ({"time": phrase, "time1": f"{number_words(hours)} and a half hour"}, {"hours": hours, "minutes": 30},
                answer)
    if kind < 0.28:
        larger, smaller = rng.choice((("hour", "minute"), ("minute", "second")))
        first, second = slots.number(1, 20), slots.number(1, 59)
        answer = (f"{number_words(first)} {larger}{'s' * (first > 1)} and "
                  f"{number_words(second)} {smaller}{'s' * (second > 1)}")
        phrase = answer.replace(" and ", " ") if rng.random() < 0.2 else answer
        return {"time": phrase, "time1": phrase}, {larger + "s": first, smaller + "s": second}, answer
    return {"time": f"{words} {plural}", "time1": f"{words} {unit}"}, {unit + "s": number}, f"{words} {plural}"


class Speaker:
    """Generates the turns of a dialogue, and remembers the facts that were told.

    `split` selects the phrasings, `unseen` selects held-out slot values, `augment` adds augmented
    ones, and `sampler` draws the phrasings.
    """

    def __init__(self, rng, split="train", unseen=False, augment=False, sampler=None):
        self.rng, self.slots = rng, Slots(rng, unseen, augment)
        self.phraser = Phraser(rng, split, augment, sampler)
        self.memories = TRAIN_MEMORIES if augment else MEMORIES
        self.known = {}

    def say(self, intent, bare=False, **slots):
        return self.phraser.say(INTENTS[intent], slots, bare)

    def has_phrasing(self, intent):
        return bool(INTENTS[intent].cores[self.phraser.split])

    def turn(self, user, answer, intent, *calls):
        return [Turn(user, calls, answer, intent, self.phraser.last_core)]

    # Families

    def any_turns(self):
        family = self.rng.choices(list(FAMILIES), FAMILIES.values())[0]
        return getattr(self, family)()

    def talk(self):
        if self.rng.random() < BOT_FAVORITE_PROBABILITY:
            return self.bot_favorite()
        return self.fixed_answer(self.rng.choice(FIXED_ANSWER))

    def bot_favorite(self):
        draw = self.slots.draw
        user = self.say(BOT_FAVORITE, attr=draw("attr"), value=draw("value"), value2=draw("value"))
        return self.turn(user, ANSWERS[BOT_FAVORITE], BOT_FAVORITE)

    def fixed_answer(self, intent):
        return self.turn(self.say(intent), ANSWERS[intent], intent)

    def fact(self):
        if self.rng.random() < 0.4:
            return self.fixed_answer(self.rng.choice(FACTS))
        return self.table(self.rng.choices(TABLES, TABLE_WEIGHTS)[0])

    def tool(self):
        return self.use_tool(self.rng.choices(TOOLS, TOOL_WEIGHTS)[0])

    def refuse(self):
        return self.refusal(self.rng.choice(("unknown", "unable")))

    def refusal(self, intent):
        draw = self.slots.draw
        slots = {kind: draw(kind) for kind in ("city", "name", "noun", "room", "rel", "day")}
        user = self.say(intent, country=self.rng.choice([*facts.CAPITALS, *facts.OTHER_COUNTRIES]),
                        n=number_words(self.slots.number(1, 99)), **slots)
        return self.turn(user, UNKNOWN if intent == "unknown" else UNABLE, intent)

    # Tables of facts

    def table(self, intent):
        slots, answer = getattr(self, "table_color" if intent == COLOR else f"table_{intent}")()
        return self.turn(self.say(intent, **slots), answer, intent)

    def table_capital(self):
        if self.rng.random() < 0.25:
            is_real = self.rng.random() < 0.5
            country = self.rng.choice(facts.OTHER_COUNTRIES) if is_real else self.slots.invented("country")
            return {"country": country}, UNKNOWN
        country = self.rng.choice(list(facts.CAPITALS))
        return {"country": country}, f"the capital of {country} is {facts.CAPITALS[country]}."

    def table_color(self):
        thing = self.rng.choice(list(facts.COLORS))
        return {COLORED: thing}, f"{thing} is {facts.COLORS[thing]}."

    def table_sound(self):
        animal = self.rng.choice(list(facts.SOUNDS))
        return {"animal": animal}, f"a {animal} says {facts.SOUNDS[animal]}."

    def table_legs(self):
        animal = self.rng.choice(list(facts.LEGS))
        article = "an" if animal[0] in "aeiou" else "a"
        return {"legged": animal}, f"{article} {animal} has {facts.LEGS[animal]} legs."

    def table_opposite(self):
        word = self.rng.choice(list(facts.OPPOSITES))
        return {"word": word}, f"the opposite of {word} is {facts.OPPOSITES[word]}."

    def table_next(self):
        item, after = self.successors()
        return {"item": item}, f"after {item} comes {after}."

    def table_before(self):
        before, item = self.successors()
        return {"item": item}, f"before {item} comes {before}."

    def successors(self):
        """Draws two consecutive numbers, days or months."""
        kind = self.rng.random()
        if kind < 0.6:
            number = self.rng.randint(facts.FIRST, facts.LAST)
            return number_words(number), number_words(number + 1)
        row = DAYS if kind < 0.8 else MONTHS
        at = self.rng.randrange(len(row))
        return row[at], row[(at + 1) % len(row)]

    def table_plus(self):
        a = self.rng.randint(0, facts.MAX_SUM)
        b = self.rng.randint(0, facts.MAX_SUM - a)
        words = {"a": number_words(a), "b": number_words(b)}
        return words, f"{words['a']} plus {words['b']} is {number_words(a + b)}."

    def table_minus(self):
        c = self.rng.randint(0, facts.MAX_SUM)
        b = self.rng.randint(0, c)
        words = {"c": number_words(c), "b": number_words(b)}
        return words, f"{words['c']} minus {words['b']} is {number_words(c - b)}."

    def table_times(self):
        d, e = self.rng.randint(1, facts.MAX_FACTOR), self.rng.randint(1, facts.MAX_FACTOR)
        words = {"d": number_words(d), "e": number_words(e)}
        return words, f"{words['d']} times {words['e']} is {number_words(d * e)}."

    def table_count(self):
        number, question, indirect, phrase = self.rng.choice(facts.COUNTS)
        return {"many": question, "many_i": indirect, "many_of": phrase}, f"there are {number} {phrase}."

    # Tools

    def use_tool(self, intent):
        return getattr(self, f"tool_{intent}")()

    def tool_time(self):
        return self.clock("time", self.say("time"))

    def tool_day(self):
        return self.clock("day", self.say("day", day=self.rng.choice(DAYS)))

    def clock(self, intent, user):
        hour, minute, day = self.rng.randint(0, 23), self.rng.randint(0, 59), self.rng.choice(DAYS)
        now = tool_result(self.rng, time=f"{hour:02}:{minute:02}", day=day)
        answer = f"it is {clock_words(hour, minute)}." if intent == "time" else f"today is {day}."
        return self.turn(user, answer, intent, Call(tool_call("get_time"), now))

    def tool_timer(self):
        slots, arguments, words = duration(self.slots, self.rng)
        return self.timer("timer", self.say("timer", **slots), arguments, words)

    def timer(self, intent, user, arguments, words):
        ok = self.rng.random() < 0.9
        answer = f"your timer is set for {words}." if ok else "sorry, i could not set the timer."
        call = Call(tool_call("set_timer", **arguments), tool_result(self.rng, ok=ok))
        return self.turn(user, answer, intent, call)

    def tool_timer_open(self):
        slots, arguments, words = duration(self.slots, self.rng)
        question = self.turn(self.say("timer_open"), "for how long?", "timer_open")
        return question + self.timer("duration", self.say("duration", **slots), arguments, words)

    def tool_light(self):
        room, state = self.slots.draw("room"), self.state()
        return self.light("light", self.say("light", room=room, state=state), room, state)

    def tool_light_on(self):
        room = self.slots.draw("room")
        return self.light("light_on", self.say("light_on", room=room), room, "on")

    def tool_light_off(self):
        room = self.slots.draw("room")
        return self.light("light_off", self.say("light_off", room=room), room, "off")

    def tool_light_all(self):
        state = self.state()
        return self.light("light_all", self.say("light_all", state=state), "all", state)

    def tool_light_open(self):
        room, state = self.slots.draw("room"), self.state()
        question = self.turn(self.say("light_open", state=state), "in which room?", "light_open")
        return question + self.light("room_reply", self.say("room_reply", room=room), room, state)

    def state(self):
        return self.rng.choice(("on", "off"))

    def light(self, intent, user, room, state):
        ok = self.rng.random() < 0.9
        if room == "all":
            answer = f"all lights are {state}." if ok else "sorry, the lights do not answer."
        else:
            answer = f"the {room} light is {state}." if ok else f"sorry, the {room} light does not answer."
        call = Call(tool_call("set_light", room=room, state=state), tool_result(self.rng, ok=ok))
        return self.turn(user, answer, intent, call)

    def tool_where(self):
        return self.where(self.new_key(LOCATION))

    def where(self, thing):
        user = self.say("where", thing=thing, **agreement(thing))
        is_told = (LOCATION, thing) in self.known
        probability = FOUND_AFTER_TOLD_PROBABILITY if is_told else FOUND_PROBABILITY
        location = self.slots.found_location() if self.rng.random() < probability else None
        call = Call(tool_call("where_is", thing=thing), tool_result(self.rng, **{LOCATION: location}))
        # A location that the tool returned is known from now on, as if it had been told.
        if location:
            self.known[LOCATION, thing] = location
        return self.turn(user, self.fact_answer(LOCATION, thing), "where", call)

    # Memory

    def memory(self):
        told, choice = list(self.known), self.rng.random()
        if told and choice < 0.48:
            return self.ask(*self.rng.choice(told))
        kind = self.rng.choices(list(self.memories), self.memories.values())[0]
        if choice < 0.7:
            keys = [key for known, key in told if known == kind]
            is_update = keys and self.rng.random() < 0.3
            return self.tell(kind, self.rng.choice(keys) if is_update else self.new_key(kind))
        return self.ask(kind, self.new_key(kind))

    def new_key(self, kind):
        """Draws the key of a fact that was not told yet; empty if facts of the kind have no key."""
        slot = KEY_SLOTS.get(kind)
        if slot is None:
            return ""
        while True:
            key = self.slots.draw(slot)
            if (kind, key) not in self.known:
                return key

    def value(self, kind):
        if kind == "age":
            return number_words(self.slots.number(4, 99))
        return self.slots.draw(VALUE_SLOTS[kind])

    def tell(self, kind, key, value=None):
        value = value or self.value(kind)
        self.known[kind, key] = value
        slots = {KEY_SLOTS.get(kind, ""): key, TOLD_SLOTS[kind]: value, **agreement(key)}
        user = self.say(f"tell_{kind}", **slots)
        answer = f"nice to meet you, {value}." if kind == "name" else f"okay, {fact_sentence(kind, key, value)}"
        return self.turn(user, answer, f"tell_{kind}")

    def ask(self, kind, key):
        if kind == LOCATION:
            return self.where(key)
        user = self.say(f"ask_{kind}", attr=key, rel=key, event=key)
        return self.turn(user, self.fact_answer(kind, key), f"ask_{kind}")

    def fact_answer(self, kind, key):
        if (kind, key) in self.known:
            return fact_sentence(kind, key, self.known[kind, key])
        return not_told_sentence(kind, key)

    def system_text(self):
        """Generates the system text: instructions, and sometimes facts from earlier dialogues."""
        text = INSTRUCTIONS
        if self.rng.random() < REMEMBERED_PROBABILITY:
            for _ in range(self.rng.randint(1, 4)):
                kind = self.rng.choices(list(self.memories), self.memories.values())[0]
                key = self.new_key(kind)
                if (kind, key) not in self.known:
                    self.known[kind, key] = self.value(kind)
                    text += " " + fact_sentence(kind, key, self.known[kind, key])
        return text


def dialogue(rng, turn_count, sampler=None):
    """Generates a training dialogue: the system text or None, and its turns."""
    speaker = Speaker(rng, augment=True, sampler=sampler)
    system = speaker.system_text() if rng.random() < SYSTEM_PROBABILITY else None
    turns, kind = [], rng.random()
    while len(turns) < turn_count:
        if kind < ARITHMETIC_PROBABILITY:
            turns += speaker.table(rng.choice(ARITHMETIC))
        elif kind < ARITHMETIC_PROBABILITY + MEMORY_PROBABILITY:
            turns += speaker.memory()
        else:
            turns += speaker.any_turns()
    return system, turns


if __name__ == "__main__":
    for seed in range(3):
        print(*dialogue(random.Random(seed), 12), sep="\n", end="\n\n")
    for name, intent in INTENTS.items():
        print(name, {split: len(cores) for split, cores in intent.cores.items()}, intent.count_phrasings())
