"""Dialogues: what people say, which tools are called, and what is answered, by intents that remember what was told."""
import collections
import json
import random

import facts
from phrases import more, sections
from phrasing import Intent, Phraser
from words import DAYS, MONTHS, Slots, clock, in_words, is_plural

INSTRUCTIONS = "you are afferent, a small assistant."
UNKNOWN, UNABLE = "sorry, i do not know that.", "sorry, i can not do that."
FILES = ("talk.txt", "tools.txt", "memory.txt", "facts.txt", "refuse.txt")
# How often each family is spoken of.
FAMILIES = {"talk": 0.18, "fact": 0.17, "tool": 0.25, "memory": 0.22, "refuse": 0.18}
SYSTEM_SHARE, REMEMBERED_SHARE = 0.85, 0.3
# Some dialogues of training are nothing but sums and products: there are too many to meet each often otherwise. Others
# are nothing but facts told and asked for, most of which sound like another one.
SUMS_SHARE, DRILLED = 0.06, ("plus", "minus", "times")
MEMORY_SHARE = 0.4
# How much of small talk asks what the assistant likes: that has slots, as no other has.
BOT_FAVOURITE_SHARE = 0.25
# How often the tool knows where a thing is, and how often if the user has told it: what the tool finds is newer.
FOUND, FOUND_TOLD = 0.7, 0.25

# A tool's call and result, both JSON objects.
Call = collections.namedtuple("Call", "call result")
# What a user says, what tools are called for it, the answer, the intent, and with which of its cores it is said.
Turn = collections.namedtuple("Turn", "user calls answer intent core")


def load():
    intents, answers = {}, {}
    for file in FILES:
        training = more(file)
        for name, lines in sections(file).items():
            if lines[0].startswith("="):
                answers[name] = lines.pop(0)[2:]
            if name.startswith("fact "):
                answers[name] = name.removeprefix("fact ")
            intents[name] = Intent(name, lines, training.get(name, ()))
    return intents, answers


INTENTS, ANSWERS = load()
ALONE = [name for name in INTENTS if name in ANSWERS and name != "bot_favourite" and not name.startswith("fact ")]
FACTS = [name for name in INTENTS if name.startswith("fact ")]
TABLES = ("capital", "colour", "sound", "legs", "opposite", "next", "before", "plus", "minus", "times", "count")
# Sums and products have the most answers.
TABLE_WEIGHTS = (1, 1, 0.7, 0.7, 1, 1, 1, 2.5, 2, 2, 0.7)
TOOLS = ("time", "day", "timer", "timer_open", "light", "light_on", "light_off", "light_all", "light_open", "where")
MEMORIES = {"name": 1.3, "fav": 2, "rel": 1.5, "place": 2.2, "event": 1.2, "city": 0.7, "age": 0.5, "job": 0.6}
# In training, what is harder is spoken of more often.
MEMORIES_TRAINED = MEMORIES | {"fav": 2.5, "rel": 3, "place": 3, "event": 1.6}


def are(thing):
    return "are" if is_plural(thing) else "is"


def agreeing(thing):
    """The slots of phrasings that agree with a thing in number."""
    plural = is_plural(thing)
    return {"are": are(thing), "are2": "they are" if plural else "it is", "have": "have" if plural else "has"}


def sentence(kind, key, value):
    """How a fact about the user is said to the user."""
    return {
        "name": f"your name is {value}.", "fav": f"your favourite {key} is {value}.",
        "rel": f"your {key} is called {value}.", "place": f"your {key} {are(key)} {value}.",
        "event": f"your {key} is on {value}.", "city": f"you live in {value}.", "age": f"you are {value} years old.",
        "job": f"you work as a {value}.",
    }[kind]


def not_told(kind, key):
    """What is answered where the user never told it: it begins as `sentence` does, so that whether it was told shows only
    when the answer has come to where the value would stand, behind the words that the telling's answer has before it."""
    return {
        "name": "your name is unknown to me.", "fav": f"your favourite {key} is unknown to me.",
        "rel": f"your {key} is unknown to me.", "place": f"your {key} {are(key)} somewhere unknown to me.",
        "event": f"your {key} is unknown to me.", "city": "you live somewhere unknown to me.",
        "age": "you are of an age unknown to me.", "job": "you work as something unknown to me.",
    }[kind]


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


def result(rng, **fields):
    """What a tool gives: JSON with or without a space behind commas and colons."""
    return json.dumps(fields, separators=rng.choice(((", ", ": "), (",", ":"))))


def duration(slots, rng):
    """(slots of the phrase, arguments of the tool, how it is said back)."""
    unit = rng.choice(("minute", "minute", "minute", "second", "hour"))
    number = slots.number(1, {"minute": 99, "second": 90, "hour": 24}[unit])
    said, plural = in_words(number), unit + ("s" if number > 1 else "")
    kind = rng.random()
    if kind < 0.08:
        words, minutes = rng.choice((("half an hour", 30), ("a quarter of an hour", 15), ("a quarter hour", 15),
                                     ("three quarters of an hour", 45)))
        one = {30: "half hour", 15: "quarter hour", 45: "three quarter hour"}[minutes]
        return {"time": words, "time1": one}, {"minutes": minutes}, f"{in_words(minutes)} minutes"
    if kind < 0.12:
        unit = rng.choice(("minute", "second", "hour"))
        words = f"{'an' if unit == 'hour' else 'a'} {unit}"
        return {"time": words, "time1": f"one {unit}"}, {unit + "s": 1}, f"one {unit}"
    if kind < 0.16:
        hours = rng.randint(1, 9)
        words = "an hour and a half" if hours == 1 else f"{in_words(hours)} and a half hours"
        back = f"{in_words(hours)} hour{'s' * (hours > 1)} and thirty minutes"
        return {"time": words, "time1": f"{in_words(hours)} and a half hour"}, {"hours": hours, "minutes": 30}, back
    if kind < 0.28:
        larger, smaller = rng.choice((("hour", "minute"), ("minute", "second")))
        first, second = slots.number(1, 20), slots.number(1, 59)
        back = (f"{in_words(first)} {larger}{'s' * (first > 1)} and "
                f"{in_words(second)} {smaller}{'s' * (second > 1)}")
        words = back.replace(" and ", " ") if rng.random() < 0.2 else back
        return {"time": words, "time1": words}, {larger + "s": first, smaller + "s": second}, back
    return {"time": f"{said} {plural}", "time1": f"{said} {unit}"}, {unit + "s": number}, f"{said} {plural}"


class Speaker:
    """Makes turns of a dialogue, and keeps in mind what was told.

    `part` is that of the phrasings, `unseen` says whether slots are filled with values that training never sees, `varied`
    whether with more that nobody has heard; `drill` says how often which phrasing is drawn.
    """

    def __init__(self, rng, part="train", unseen=False, varied=False, drill=None):
        self.rng, self.slots, self.phraser = rng, Slots(rng, unseen, varied), Phraser(rng, part, varied, drill)
        self.memories = MEMORIES_TRAINED if varied else MEMORIES
        self.known = {}

    def say(self, intent, bare=False, **slots):
        return self.phraser.say(INTENTS[intent], slots, bare)

    def can(self, intent):
        return bool(INTENTS[intent].cores[self.phraser.part])

    def turn(self, user, answer, intent, *calls):
        return [Turn(user, calls, answer, intent, self.phraser.said)]

    # Families

    def any_turns(self):
        family = self.rng.choices(list(FAMILIES), FAMILIES.values())[0]
        return getattr(self, family)()

    def talk(self):
        if self.rng.random() < BOT_FAVOURITE_SHARE:
            return self.bot_favourite()
        return self.alone(self.rng.choice(ALONE))

    def bot_favourite(self):
        draw = self.slots.draw
        user = self.say("bot_favourite", attr=draw("attr"), value=draw("value"), value2=draw("value"))
        return self.turn(user, ANSWERS["bot_favourite"], "bot_favourite")

    def alone(self, intent):
        return self.turn(self.say(intent), ANSWERS[intent], intent)

    def fact(self):
        if self.rng.random() < 0.4:
            return self.alone(self.rng.choice(FACTS))
        return self.table(self.rng.choices(TABLES, TABLE_WEIGHTS)[0])

    def tool(self):
        weights = (1.4, 0.9, 1.8, 0.5, 1.9, 1.6, 1.8, 0.5, 0.9, 2.3)
        return self.use_tool(self.rng.choices(TOOLS, weights)[0])

    def refuse(self):
        return self.refusal(self.rng.choice(("unknown", "unable")))

    def refusal(self, intent):
        draw = self.slots.draw
        slots = {kind: draw(kind) for kind in ("city", "name", "noun", "room", "rel", "day")}
        user = self.say(intent, country=self.rng.choice([*facts.CAPITALS, *facts.OTHER_COUNTRIES]),
                        n=in_words(self.slots.number(1, 99)), **slots)
        return self.turn(user, UNKNOWN if intent == "unknown" else UNABLE, intent)

    # Tables of facts

    def table(self, intent):
        slots, answer = getattr(self, f"table_{intent}")()
        return self.turn(self.say(intent, **slots), answer, intent)

    def table_capital(self):
        if self.rng.random() < 0.25:
            other = self.rng.random() < 0.5
            country = self.rng.choice(facts.OTHER_COUNTRIES) if other else self.slots.invented("country")
            return {"country": country}, UNKNOWN
        country = self.rng.choice(list(facts.CAPITALS))
        return {"country": country}, f"the capital of {country} is {facts.CAPITALS[country]}."

    def table_colour(self):
        thing = self.rng.choice(list(facts.COLOURS))
        return {"coloured": thing}, f"{thing} is {facts.COLOURS[thing]}."

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
        item, after = self.neighbours()
        return {"item": item}, f"after {item} comes {after}."

    def table_before(self):
        before, item = self.neighbours()
        return {"item": item}, f"before {item} comes {before}."

    def neighbours(self):
        kind = self.rng.random()
        if kind < 0.6:
            number = self.rng.randint(facts.FIRST, facts.LAST)
            return in_words(number), in_words(number + 1)
        row = DAYS if kind < 0.8 else MONTHS
        at = self.rng.randrange(len(row))
        return row[at], row[(at + 1) % len(row)]

    def table_plus(self):
        a = self.rng.randint(0, facts.SUM)
        b = self.rng.randint(0, facts.SUM - a)
        words = {"a": in_words(a), "b": in_words(b)}
        return words, f"{words['a']} plus {words['b']} is {in_words(a + b)}."

    def table_minus(self):
        c = self.rng.randint(0, facts.SUM)
        b = self.rng.randint(0, c)
        words = {"c": in_words(c), "b": in_words(b)}
        return words, f"{words['c']} minus {words['b']} is {in_words(c - b)}."

    def table_times(self):
        d, e = self.rng.randint(1, facts.PRODUCT), self.rng.randint(1, facts.PRODUCT)
        words = {"d": in_words(d), "e": in_words(e)}
        return words, f"{words['d']} times {words['e']} is {in_words(d * e)}."

    def table_count(self):
        number, asked, indirect, of = self.rng.choice(facts.COUNTS)
        return {"many": asked, "many_i": indirect, "many_of": of}, f"there are {number} {of}."

    # Tools

    def use_tool(self, intent):
        return getattr(self, f"tool_{intent}")()

    def tool_time(self):
        return self.clock("time", self.say("time"))

    def tool_day(self):
        return self.clock("day", self.say("day", day=self.rng.choice(DAYS)))

    def clock(self, intent, user):
        hour, minute, day = self.rng.randint(0, 23), self.rng.randint(0, 59), self.rng.choice(DAYS)
        now = result(self.rng, time=f"{hour:02}:{minute:02}", day=day)
        answer = f"it is {clock(hour, minute)}." if intent == "time" else f"today is {day}."
        return self.turn(user, answer, intent, Call(call("get_time"), now))

    def tool_timer(self):
        words, arguments, back = duration(self.slots, self.rng)
        return self.timer("timer", self.say("timer", **words), arguments, back)

    def timer(self, intent, user, arguments, back):
        fine = self.rng.random() < 0.9
        answer = f"your timer is set for {back}." if fine else "sorry, i could not set the timer."
        return self.turn(user, answer, intent, Call(call("set_timer", **arguments), result(self.rng, ok=fine)))

    def tool_timer_open(self):
        words, arguments, back = duration(self.slots, self.rng)
        asked = self.turn(self.say("timer_open"), "for how long?", "timer_open")
        return asked + self.timer("duration", self.say("duration", **words), arguments, back)

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
        asked = self.turn(self.say("light_open", state=state), "in which room?", "light_open")
        return asked + self.light("room_reply", self.say("room_reply", room=room), room, state)

    def state(self):
        return self.rng.choice(("on", "off"))

    def light(self, intent, user, room, state):
        fine = self.rng.random() < 0.9
        if room == "all":
            answer = f"all lights are {state}." if fine else "sorry, the lights do not answer."
        else:
            answer = f"the {room} light is {state}." if fine else f"sorry, the {room} light does not answer."
        made = Call(call("set_light", room=room, state=state), result(self.rng, ok=fine))
        return self.turn(user, answer, intent, made)

    def tool_where(self):
        return self.where(self.new_key("place"))

    def where(self, thing):
        user = self.say("where", thing=thing, **agreeing(thing))
        share = FOUND_TOLD if ("place", thing) in self.known else FOUND
        place = self.slots.found() if self.rng.random() < share else None
        made = Call(call("where_is", thing=thing), result(self.rng, place=place))
        # What a tool has found is known from then on, as if it had been told.
        if place:
            self.known["place", thing] = place
        return self.turn(user, self.known_or_not("place", thing), "where", made)

    # Memory

    def memory(self):
        told, choice = list(self.known), self.rng.random()
        if told and choice < 0.48:
            return self.ask(*self.rng.choice(told))
        kind = self.rng.choices(list(self.memories), self.memories.values())[0]
        if choice < 0.7:
            same = [key for known, key in told if known == kind]
            update = same and self.rng.random() < 0.3
            return self.tell(kind, self.rng.choice(same) if update else self.new_key(kind))
        return self.ask(kind, self.new_key(kind))

    def new_key(self, kind):
        """What a fact is about that was not told yet, as far as there is such a thing."""
        slot = {"fav": "attr", "rel": "rel", "place": "thing", "event": "event"}.get(kind)
        if slot is None:
            return ""
        while True:
            key = self.slots.draw(slot)
            if (kind, key) not in self.known:
                return key

    def value(self, kind):
        if kind == "age":
            return in_words(self.slots.number(4, 99))
        return self.slots.draw({"name": "name", "fav": "value", "rel": "name", "place": "spot", "event": "day",
                                "city": "city", "job": "job"}[kind])

    def tell(self, kind, key, value=None):
        value = value or self.value(kind)
        self.known[kind, key] = value
        slot = {"fav": "attr", "rel": "rel", "place": "thing", "event": "event"}.get(kind, "")
        given = {"name": "name", "fav": "value", "rel": "name", "place": "place", "event": "day", "city": "city",
                 "age": "n", "job": "job"}[kind]
        slots = {slot: key, given: value, **agreeing(key)}
        user = self.say(f"tell_{kind}", **slots)
        answer = f"nice to meet you, {value}." if kind == "name" else f"okay, {sentence(kind, key, value)}"
        return self.turn(user, answer, f"tell_{kind}")

    def ask(self, kind, key):
        if kind == "place":
            return self.where(key)
        user = self.say(f"ask_{kind}", attr=key, rel=key, event=key)
        return self.turn(user, self.known_or_not(kind, key), f"ask_{kind}")

    def known_or_not(self, kind, key):
        return sentence(kind, key, self.known[kind, key]) if (kind, key) in self.known else not_told(kind, key)

    def remembered(self):
        """The system text: with instructions, and with facts known from before."""
        text = INSTRUCTIONS
        if self.rng.random() < REMEMBERED_SHARE:
            for _ in range(self.rng.randint(1, 4)):
                kind = self.rng.choices(list(self.memories), self.memories.values())[0]
                key = self.new_key(kind)
                if (kind, key) not in self.known:
                    self.known[kind, key] = self.value(kind)
                    text += " " + sentence(kind, key, self.known[kind, key])
        return text


def dialogue(rng, turns, drill=None):
    """(system text or None, turns) for training."""
    speaker = Speaker(rng, varied=True, drill=drill)
    system = speaker.remembered() if rng.random() < SYSTEM_SHARE else None
    made, kind = [], rng.random()
    while len(made) < turns:
        if kind < SUMS_SHARE:
            made += speaker.table(rng.choice(DRILLED))
        elif kind < SUMS_SHARE + MEMORY_SHARE:
            made += speaker.memory()
        else:
            made += speaker.any_turns()
    return system, made


if __name__ == "__main__":
    for seed in range(3):
        print(*dialogue(random.Random(seed), 12), sep="\n", end="\n\n")
    for name, intent in INTENTS.items():
        print(name, {part: len(cores) for part, cores in intent.cores.items()}, intent.phrasings())
