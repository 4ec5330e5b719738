"""Sentences of an assistant and strings of random words, as clauses of words in full with their end mark."""
import functools
import os
import re
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
MONTHS = ("january february march april may june july august september october november december").split()
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
ORDINALS = ("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
            "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth").split()

SLOTS = {
    "room": "kitchen|bathroom|bedroom|living room|hallway|office|garage|garden|basement|attic|dining room|nursery|"
            "laundry room|porch|balcony|cellar",
    "light": "light|lights|lamp|ceiling light|reading lamp|desk lamp|floor lamp|spotlights",
    "device": "heating|fan|radio|television|coffee machine|dishwasher|washing machine|dryer|thermostat|speaker|"
              "vacuum cleaner|oven|door lock|front door|garage door|alarm|camera|air conditioner|blinds|curtains|"
              "music|kettle|humidifier|window",
    "state": "on|off|open|closed|locked|unlocked|running|paused|finished|out of order",
    "color": "red|green|blue|white|yellow|orange|purple|pink|warm white|cool white",
    "name": "alice|adam|anna|ben|brian|carol|charlie|clara|daniel|david|emily|emma|eric|frank|grace|hannah|harry|"
            "helen|jack|james|jane|julia|karen|laura|leo|linda|lucas|maria|martin|mary|michael|nina|oliver|paul|"
            "peter|rachel|robert|rosa|sam|sarah|simon|sophie|thomas|tom|victor|wendy|zoe|mom|dad|your mother|"
            "your brother|the doctor|your sister",
    "city": "london|paris|berlin|madrid|rome|vienna|boston|chicago|dallas|seattle|tokyo|sydney|dublin|oslo|munich|"
            "toronto|zurich|lisbon|prague|moscow|denver|houston|geneva|hamburg|cairo|athens",
    "weather": "sunny|cloudy|rainy|windy|foggy|snowy|stormy|mostly clear|partly cloudy|cold and wet|warm and dry|"
               "humid|freezing|mild|overcast",
    "thing": "keys|phone|wallet|glasses|umbrella|bag|book|laptop|charger|jacket|shoes|hat|scarf|tickets|passport|"
             "camera|remote control|headphones|water bottle|notebook|red cup|blue box",
    "place": "on the kitchen table|in the drawer|under the sofa|on the shelf|in your bag|next to the door|"
             "in the car|behind the chair|on the desk|in the hallway|near the window|on the bed|in the box|"
             "by the sink|in the pocket of your coat",
    "food": "pasta|rice|eggs|tea|bread|pizza|chicken|soup|potatoes|cake|cookies|coffee|salad|fish|porridge",
    "item": "milk|butter|apples|bananas|cheese|flour|sugar|tomatoes|onions|yogurt|juice|soap|paper towels|batteries|"
            "light bulbs|dog food|coffee beans",
    "event": "meeting|appointment|birthday|dinner|flight|concert|lesson|call|interview|party|class|deadline",
    "event2": "dentist appointment|team meeting|piano lesson|doctor's visit|birthday party|football match",
    "music": "jazz|classical music|rock|pop songs|your playlist|the news|an audiobook|a podcast|folk music|"
             "something quiet|the radio",
    "when": "today|tomorrow|tonight|this morning|this afternoon|this evening|next week|on the weekend|right now|"
            "later today|tomorrow morning|in the evening|at noon|at midnight",
    "animal": "dog|cat|horse|elephant|giraffe|rabbit|monkey|penguin|squirrel|turtle|whale|tiger",
    "adjective": "nice|lovely|quiet|busy|beautiful|difficult|wonderful|long|short|funny|strange|careful",
    "unit": "minutes|seconds|hours|days|weeks|kilometers|miles|degrees|percent|dollars|grams|liters",
}
GENERATED = {
    "small": lambda rng: ONES[rng.integers(0, 20)],
    "number": lambda rng: number(int(rng.integers(0, 100))),
    "big": lambda rng: number(int(rng.integers(100, 3000))),
    "time": lambda rng: time_of_day(rng),
    "date": lambda rng: f"{pick(rng, DAYS)} the {pick(rng, ORDINALS)} of {pick(rng, MONTHS)}",
    "day": lambda rng: pick(rng, DAYS),
    "month": lambda rng: pick(rng, MONTHS),
    "ordinal": lambda rng: pick(rng, ORDINALS),
}
TRAIN = """
it is {time}. | the time is {time}. | it's {time} now, {name}. | right now it is {time} in {city}.
today is {date}. | it is {day}, the {ordinal} of {month}. | tomorrow is {day}.
your timer for {number} minutes is set. | timer set for {number} {unit}. | i set a timer for {small} minutes and {number} seconds.
the {food} timer has {number} minutes left. | there are {small} minutes left. | your {food} is ready. | time is up, the {food} is done!
i have cancelled the timer. | the timer was stopped. | you have no timers. | you have {small} timers running. | which timer do you mean?
the alarm is set for {time}. | i will wake you at {time} {when}. | good morning, it is {time}, time to get up! | your alarm is off.
i turned on the {light} in the {room}. | the {room} {light} is now {state}. | the {light} in the {room} is {color} now. | okay, {room} {light} off.
i have set the {light} to {number} percent. | the {room} is dark now. | all lights are off. | should i turn off the {light} in the {room}?
the {device} is {state}. | the {device} in the {room} is {state}. | i turned the {device} off. | do you want me to turn on the {device}? | i started the {device} for you.
the temperature in the {room} is {number} degrees. | i set the heating to {small} degrees. | it is {number} degrees in the {room}.
today in {city} it will be {weather}, with a high of {number} degrees. | expect {weather} weather {when}. | the weather in {city} is {weather}. | it will rain {when}, take an umbrella.
it is {weather} outside, and {number} degrees. | no rain is expected {when}. | tomorrow will be {weather} with a low of {number}. | the wind is {small} miles per hour.
your {thing} are {place}. | i think the {thing} is {place}. | you left your {thing} {place}. | i last saw your {thing} {place}. | i do not know where your {thing} is.
calling {name} now. | {name} is not answering. | i sent your message to {name}. | you have a message from {name}. | {name} says hello. | {name} called at {time}.
i added {item} to your shopping list. | your list has {item}, {item} and {item}. | you need {item} and {item}. | i removed {item} from the list.
your {event} with {name} is at {time}. | you have {small} {event} reminders {when}. | the {event} on {day} starts at {time}. | i will remind you about the {event} {when}. | your {event2} is on {day} at {time}.
playing {music}. | i paused the music. | the volume is at {number} percent. | this song is {adjective}. | shall i play {music} in the {room}?
{number} plus {number} is {number}. | {number} times {small} is {big}. | {big} divided by {small} is {number}. | the answer is {big}. | that makes {number} {unit}. | it is {big} {unit} from {city} to {city}.
i am sorry, i did not understand that. | sorry, i can't do that. | i don't know the answer to that. | could you say that again, please? | i am not sure what you mean. | that is something i can't help with.
hello {name}! | good morning, {name}. | good night, {name}, sleep well. | you are welcome. | how are you today? | i am fine, thank you. | what can i do for you? | nice to meet you, {name}.
i can set timers, turn on lights and tell you the time. | my name is afferent. | i am your assistant. | i live in this house and i listen when you call me.
okay. | done. | all right. | yes. | no. | thank you. | please wait. | one moment, please. | of course. | sure, no problem. | never mind.
why did the {animal} cross the road? | the {animal} is an {adjective} animal. | a {animal} can run very fast. | the {adjective} {animal} sleeps in the {room}. | i like {food} and {food}.
{name} is in the {room}. | {name} came home at {time}. | the front door was opened at {time}. | there is someone at the door. | the window in the {room} is open.
the battery is at {number} percent. | the download is finished. | the internet connection is slow {when}. | there are {small} new messages and {number} emails. | the update takes {small} {unit}.
did you mean {name} or {name}? | is it {small} or {small}? | do you want {food} or {food}? | would you like to hear the {ordinal} one? | the {ordinal} of {month} is a {day}.
that is a {adjective} idea. | what a {adjective} day! | you had a {adjective} day. | have a {adjective} evening, {name}. | remember to take your {thing}. | don't forget the {event} {when}.
"""
TEST = """
at the moment it is {time}. | in {city} the clock says {time}. | we have {day} today, the {ordinal}.
okay {name}, {number} minutes from now. | i started counting down from {number} {unit}. | only {number} seconds remain. | the countdown for the {food} ends at {time}.
done, the {room} {light} should be {color}. | nobody is in the {room}, so i switched off the {light}. | the {light} near the {device} is broken. | dimming the {light} to {number} percent.
somebody left the {device} {state}. | your {device} will be {state} until {time}. | may i switch the {device} off {when}?
{city} will see {weather} skies and {number} degrees {when}. | bring a coat, since it gets {weather} {when}. | yesterday was {weather}, but {day} looks {weather}.
have you looked for the {thing} {place}? | perhaps {name} put the {thing} {place}. | the {thing} should still be {place}.
shall i call {name} back {when}? | {name} wrote that the {event} moved to {time}. | {name} and {name} will arrive on {day}. | nothing new from {name} since {time}.
we are out of {item} and {item}. | please buy {number} {item}, some {food} and {item}.
between {time} and {time} you are free. | on {date} there is a {event2} with {name}. | the {event} is only {number} {unit} long.
next comes {music} for the {room}. | turning the volume down to {small}.
if you take {number} from {big}, you get {number}. | {big} {unit} are about {number} {unit}. | the number you asked for is {big}.
my apologies, {name}, that went wrong. | unfortunately nobody told me that. | i have never heard about the {animal} {place}. | asking for the {thing} is not something i was made for.
pleased to see you again, {name}. | see you {when}, {name}! | what should we do with the {thing}?
the {adjective} {animal} ate {number} {item}. | have you ever seen a {animal} with a {color} {thing}? | every {animal} in {city} is {adjective} {when}.
"""
RANDOM_SHARE = 0.3
END_MARKS = ".,?!"


class Clause(NamedTuple):
    """Words in full and the mark that ends them: one of `.`, `,`, `?` and `!`."""
    words: tuple
    mark: str

    def text(self):
        return " ".join(self.words) + self.mark


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


def number(n):
    """A whole number below a million in words."""
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10 - 2] + (f" {ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ONES[n // 100]} hundred" + (f" {number(n % 100)}" if n % 100 else "")
    return f"{number(n // 1000)} thousand" + (f" {number(n % 1000)}" if n % 1000 else "")


def time_of_day(rng):
    hour, minute = int(rng.integers(1, 13)), int(rng.integers(0, 60))
    kind = rng.integers(4)
    if kind == 0:
        return f"{ONES[hour]} o'clock"
    if kind == 1:
        return f"{pick(rng, ['half past', 'a quarter past', 'a quarter to', 'five to', 'ten past'])} {ONES[hour]}"
    minutes = "oh " + ONES[minute] if 0 < minute < 10 else number(minute) if minute else ""
    return f"{ONES[hour]} {minutes}".strip() + pick(rng, ["", "", " am", " pm", " in the morning"])


@functools.cache
def templates(unseen):
    return [t.strip() for t in re.split(r"[|\n]", TEST if unseen else TRAIN) if t.strip()]


@functools.cache
def slot_values(slot):
    return SLOTS[slot].split("|")


def fill(rng, template):
    def value(match):
        slot = match.group(1)
        return GENERATED[slot](rng) if slot in GENERATED else pick(rng, slot_values(slot))
    return re.sub(r"\{(\w+)\}", value, template)


@functools.cache
def word_list():
    """The words that the dictionary is made from, and that random strings draw from."""
    with open(os.path.join(HERE, "words.txt")) as file:
        listed = file.read().split()
    sentences = " ".join([*SLOTS.values(), TRAIN, TEST, *ONES, *TENS, *MONTHS, *DAYS, *ORDINALS, "hundred thousand am pm"])
    return sorted(set(listed) | set(re.findall(r"[a-z']+", re.sub(r"\{\w+\}", "", sentences))))


@functools.cache
def inflected():
    """The words of the list with common endings, by the simple rules of English spelling."""
    found = set(word_list())
    for word in word_list():
        if len(word) < 3 or not word.isalpha():
            continue
        stem = word[:-1] if word.endswith("e") else word
        consonant_y = word.endswith("y") and word[-2] not in "aeiou"
        found.add(word[:-1] + "ies" if consonant_y else word + ("es" if word.endswith(("s", "x", "sh", "ch")) else "s"))
        found |= {stem + "ing", word[:-1] + "ied" if consonant_y else stem + "ed", word[:-1] + "ier" if consonant_y else stem + "er",
                  word[:-1] + "ily" if consonant_y else word + "ly", word + "'s"}
    return sorted(found)


def clauses(sentence):
    """A sentence split at its marks."""
    found = re.findall(r"([a-z' ]+)([.,?!])", sentence)
    return [Clause(tuple(words.split()), mark) for words, mark in found if words.split()]


def random_clause(rng, words):
    count = int(rng.integers(2, 9))
    return Clause(tuple(pick(rng, words) for _ in range(count)), pick(rng, "...,?!"))


def draw(rng, unseen, words):
    """The clauses of a sentence; unseen ones come from templates that training never fills."""
    if rng.random() < RANDOM_SHARE:
        return [random_clause(rng, words)]
    return clauses(fill(rng, pick(rng, templates(unseen))))
