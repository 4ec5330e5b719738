"""The assistant's language: sentences from templates, some of them kept from training for tuning and for the test."""
import functools
import math
import pathlib
import re
import zlib

import numpy as np

ONES = "one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()

# In a template, (a|b) is a choice, [a] may be left out, {slot} is one of a slot's values, {3-40} a number.
SLOTS = {
    "room": "kitchen|bedroom|bathroom|living room|hallway|garage|office|garden|basement|attic|balcony|workshop|"
            "dining room|nursery|laundry room|guest room",
    "device": "lights|lamp|heater|fan|television|radio|speaker|oven|camera|alarm|robot|vacuum|printer|charger|"
              "thermostat|kettle|coffee machine|dishwasher|washing machine|computer",
    "opening": "door|window|blinds|curtains|gate|garage door|front door|back door",
    "colour": "red|green|blue|white|yellow|orange|purple|pink|black|warm white",
    "thing": "box|cup|bottle|book|phone|ball|chair|table|backpack|hammer|screwdriver|wallet|plate|towel|blanket|"
             "pillow|tape|basket|remote|shoe|hat|jacket|spoon|umbrella|battery|letter|parcel|laptop|key|bag",
    "things": "boxes|cups|bottles|books|phones|balls|chairs|tables|plates|towels|blankets|pillows|baskets|shoes|hats|"
              "jackets|spoons|umbrellas|batteries|letters|parcels|keys|bags|glasses",
    "surface": "table|floor|shelf|chair|bed|desk|counter|sofa",
    "city": "london|paris|berlin|madrid|rome|boston|chicago|seattle|tokyo|dublin|vienna|sydney",
    "day": "monday|tuesday|wednesday|thursday|friday|saturday|sunday",
    "month": "january|february|march|april|may|june|july|august|september|october|november|december",
    "when": "today|tomorrow|tonight|this (morning|evening|afternoon|weekend|week)|next (week|month)|on {day}|"
            "next {day}|tomorrow (morning|evening|afternoon)|on {day} (morning|evening)|later",
    "place": "station|airport|hospital|pharmacy|supermarket|library|school|park|museum|bakery|bank|post office|"
             "charging dock|restaurant|hotel|elevator|stairs|beach|exit|market",
    "unit": "second|minute|hour",
    "direction": "left|right|forward|backward|up|down|around",
    "distance": "meters|centimeters|steps|feet|kilometers",
    "name": "anna|peter|maria|james|thomas|laura|daniel|emma|robert|sophie|oliver|julia",
    "relative": "mother|father|sister|brother|doctor|neighbor|boss|friend|daughter|son|teacher",
    "who": "{name}|my {relative}|{name}|the office",
    "task": "water the plants|feed the (cat|dog)|take (the|my) medicine|call (the doctor|{name}|my {relative})|"
            "buy (milk|bread|coffee|apples|some water|eggs|cheese)|walk the dog|send the (report|letter|message)|"
            "lock the (door|gate)|charge the (robot|phone|battery|laptop)|check the (battery|oven|door|mail)|"
            "pay the (rent|bill)|clean the (window|{room}|floor)|empty the (dishwasher|basket)|take out the trash|"
            "pick up (the parcel|my {relative}|{name})|book a (table|flight|hotel)|go to the {place}",
    "food": "milk|bread|coffee|tea|apples|bananas|eggs|cheese|water|rice|sugar|butter|tomatoes|juice|soup",
    "music": "jazz|classical|rock|quiet|happy|piano|country|dance",
    "state": "on|off",
    "more": "a little|a bit|much",
    "polite": "please|thank you|if you can",
    "ask": "can you|could you|would you|please|i want you to|i need you to|let's",
    "clock": "{hour} o'clock|{hour} thirty|half past {hour}|(quarter|ten|five|twenty) (to|past) {hour}|"
             "{hour} (ten|fifteen|twenty|twenty five|thirty five|forty|forty five|fifty|fifty five)|noon|midnight",
    "hour": "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve",
    "time": "{clock}|{clock}|{clock} in the (morning|evening|afternoon)|{clock} at night|{clock} {when}",
    "date": "{month} {ordinal}|the {ordinal} of {month}",
    "ordinal": "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|twelfth|fifteenth|twentieth",
    "digit": "zero|one|two|three|four|five|six|seven|eight|nine",
    "length": "{2-59} {unit}s|{2-59} {unit}s|one {unit}|an hour|half an hour|{1-12} hours and {2-59} minutes|"
              "{1-20} minutes and {2-59} seconds",
    "wake": "hey afferent|okay afferent|afferent",
}

TRAINING = """
what time is it [now] [in {city}]
(what is|what's|tell me) the time [in {city}]
what day is it {when}|what (is|was) the date {when}|is it {day} today
(set|start) a timer for {length}|start a {2-90} {unit} timer|set a {2-90} minute timer [for the {food}]
(cancel|pause|stop|continue) the [{2-60} minute] timer|how (long|much time) is left [on the timer]
add {2-30} (minutes|seconds) to the timer|(cancel|delete) all [my] (timers|alarms)|i need a timer for {length}
wake me [up] at {time}|set an alarm for {time}|(cancel|delete) my alarm for {time}|(snooze|sleep) for {2-20} minutes
do i have an alarm (set for {time}|{when})|move my alarm to {time}|when is my next alarm|turn off the alarm
turn {state} the {device} [in the {room}]|turn the {device} {state} [in the {room}]|(turn|switch) {state} the {room} lights
switch {state} the {device} [in the {room}]|switch the {room} (lights|heater|fan) {state}|turn everything {state} in the {room}
make the {room} lights {colour}|(set|change) the [{room}] lights to {colour}|set the {room} lights to {1-100} percent
dim the lights in the {room} [to {5-95} percent]|is the {device} in the {room} {state}|are the {room} lights {state}
make the lights {more} (brighter|darker) [in the {room}]|it's {more} (dark|bright|cold|warm|loud) in (here|the {room})
all lights {state}|{room} lights {state}|lights {state} in the {room}|i want the {room} lights {colour}
set the [{room}] (temperature|thermostat) to {10-30} [degrees]|set the {room} to {10-30} degrees
how (warm|cold|loud|bright) is it in the {room}|(what is|what's) the temperature in the {room}|make it {more} (warmer|colder) in the {room}
(open|close|lock|unlock) the {opening} [in the {room}]|is the {opening} [in the {room}] (open|closed|locked)|did i (close|lock) the {opening}
(start|stop|pause) the {device} [in the {room}]|when will the {device} be (ready|done)|how long does the {device} need
(what is|what's) the weather [like] [in {city}] {when}|(what is|what's) the weather [like] in {city}|will it (rain|snow) [in {city}] {when}
do i need (an umbrella|a jacket|a hat) {when}|how (cold|warm|windy) (is it|will it be) in {city} [{when}]|is it (raining|snowing) in {city}
will it be (warm|cold|sunny|windy|cloudy) {when} [in {city}]|how hot will it get [in {city}] {when}
(go|drive|move) to the {room}|(go|drive) to the {place}|take me to the {place}|how far is the {place} [from here]|where is the [nearest] {place}
show me the way to the {place}|(navigate|walk) to the [nearest] {place}|how long does it take to (get|walk|drive) to the {place}|find a {place} near (me|here)
turn {direction}|turn (left|right) {5-180} degrees|move {direction} {1-20} {distance}|go (forward|backward) {2-50} {distance}
go {direction} and then turn (left|right)|turn (left|right) at the {place}|follow (me|{who})|come [back] (here|to me)|come back to the {room}
wait (here|for me) [for {2-30} (seconds|minutes)]|slow down|go (faster|slower)|stop [now]|stop moving|stay (here|in the {room})|clean the {room}
where (is|did i put|did you see) my [{colour}] {thing}|where are my {things}|find the {colour} {thing}|find my {thing} [in the {room}]
pick up the [{colour}] {thing}|pick the {thing} up from the {surface}|put the [{colour}] {thing} on the {surface}
put the {colour} {thing} in the (box|basket|bag)|bring me the [{colour}] {thing} [from the {room}]|bring the {thing} to {who}|bring {who} a {thing}
how many {things} (do you see|are there|are on the {surface})|what do you see [in the {room}]|what is (in front of|behind|next to|under) (me|you|the {thing})
what is on the {surface}|(give|hand) me the [{colour}] {thing}|drop the {thing}|look at the [{colour}] {thing}|describe the {thing}|read (this|the {thing}) to me
is there a [{colour}] {thing} (in the {room}|on the {surface})|what color is the {thing}|which {thing} is (bigger|smaller|mine)
(the|my) {thing} is (on|under|behind) the {surface}|remember that my {thing} is in the {room}|i (lost|found) my {thing}|i put the {thing} on the {surface}
call {who} [on the phone]|call {who} back [{when}]|send a message to {who}|tell {who} [that] i will be there at {clock}|tell {who} [that] i am late
(read|show|check|delete) my (messages|mail)|do i have (any|new) messages [from {who}]|what did {who} (say|ask|want)|who called [me] {when}
text {who} that i am (at|near) the {place}|ask {who} [about the {thing}|about dinner]|when is {who} coming [home]|where is {who} [now]
remind me to {task} [{when}]|remind me to {task} at {time}|remind me in {length} to {task}|don't let me forget to {task}|did i {task}|i have to {task} {when}
add {food} [and {food}] to (my|the shopping) list|(remove|take) {food} from (my|the) [shopping] list|what is on (my|the shopping) list|we need (more|some) {food}
(what is|what's) on my calendar {when}|am i free {when} [at {clock}]|when is my next (meeting|appointment)|cancel my (meeting|appointment) {when}
(make|add|book) an appointment with {who} (at {time}|{when})|move my meeting with {who} to {time}|i have a meeting with {who} {when}
my birthday is on {date}|when is the birthday of {who}|how many days until {date}|what (day|date) is {date}|the meeting is on {date}
play [some] {music} music [in the {room}]|(next|last) song|(pause|stop) the music [in the {room}]|turn the (volume|music) (up|down) [{more}]|set the volume to {1-10}
louder please|be quiet [please]|play the (song|next song|news|radio) [again]|what (song|music) is this|(repeat|say) that [again]|play it again in the {room}
(start|stop) recording|take a (picture|photo|video) [of the {thing}|of me]|(start|stop|charge|call) the robot|how is your battery|what is your battery level
what can you do|what is your name|who (are you|made you)|how are you [today|doing]|thank you [very much]|thanks|good (morning|night|evening|afternoon)|goodbye|hello
yes [please]|no [thank you]|never mind|cancel [that]|okay|undo that|help [me]|that is (right|wrong|good|all)|i don't (think so|understand|want that)|are you (there|sure|ready)
tell me a (joke|story) [about a (cat|dog|robot)]|i'm (tired|hungry|happy|sad|cold|home|late|ready)|i'm in the {room}|my name is {name}|i live in {city}|i like {music} music
what (do|did) you (think|say|do) [{when}]|where (are you|do you live)|do you like {food}|how old are you|it's (nice|good) to see you|see you (soon|later|tomorrow)
what is {1-99} plus {1-99}|what is {2-99} minus {1-50}|what is {2-12} times {2-12}|what is {10-99} divided by {2-9}|how much is {1-99} (plus|minus) {1-99}
count [from {1-9}] to {5-50}|how many {unit}s are in {2-10} (hours|days|weeks)|convert {2-100} feet to meters|how many (meters|feet) are {2-100} (feet|kilometers)
the code is {digit} {digit} {digit} {digit}|my number is {digit} {digit} {digit} {digit} {digit} {digit}|call {digit} {digit} {digit} {digit} {digit}|the price is {1-99} (dollars|euros)
it is {1-12} (meters|feet) (long|high|wide)|i am {18-99} years old|the bus (comes|leaves) (at {clock}|in {2-40} minutes)|when (does|will) the {place} (open|close) [{when}]
what is the (first|last|best|next) (thing|song|train|flight) {when}|when (is|leaves) the next (train|bus|flight) to {city}|book a (flight|train|table) [to {city}] for {when}
how do i get from {city} to {city}|how far is {city}|how far is it to (the {place}|{city})|what is the (capital|name) of (the country|this place)
(stop|start) talking|speak (louder|slower|faster) [please]|i did not (understand|say) (you|that|this)|what was that|(i|we) will be (home|back) (at {clock}|{when}|soon)
(we are|i am) (leaving|going) to (the {place}|{city}) {when}|have you seen my [{colour}] {thing}|the {device} in the {room} is (broken|too loud|not working)
is it (warmer|colder) (today|here) than (yesterday|in {city})|are you still (there|here)|is the {device} [in the {room}] still (running|{state})|do you want {food} or {food}
is it (in the {room}|{when}) or (in the {room}|{when})|(left|up|yes) or (right|down|no)|someone is at the {opening}|who is (at the door|in the {room}|there)|is (anyone|someone|{who}) (home|in the {room})|show me the camera in the {room}|(watch|guard) the {room}
dinner is [ready] at {clock}|what (is|can we have) for dinner|how do i make {food}|i want (some|more) {food}|(order|get) [some] {food} [and {food}]|heat the {food} for {2-20} minutes
"""

TUNING = """
can we have {food} for dinner {when}|how long until the {device} is done|put the {thing} back in the {room}
tell {who} that the {thing} is in the {room}|turn {state} the {room} heater at {clock}|is {who} in the {room}
what time does the {place} open on {day}|go to the {room} and find my {thing}|play the radio in the {room} at {clock}
will it rain in {city} or in {city}|the {colour} {thing} is under the {surface}|call me back in {2-50} minutes
move {1-9} {distance} to the (left|right)|i need {food} from the {place}|set the {device} to {1-90}
"""

TEST = """
how far is it from the {room} to the {room}|please bring the {colour} {thing} to the {room} {when}
is the {place} open {when}|turn off the {device} at {clock}|set the {room} lights to {5-95} percent and close the {opening}
tell my {relative} to bring the {thing}|show me the {thing} and the {colour} {thing}|move {direction} {2-20} centimeters and stop
is it colder in {city} than in {city}|start the {device} in {2-30} minutes|remind {who} to {task}
put my {thing} next to the {thing} please|count the {colour} {things} in the {room}|what is the weather like at the beach {when}
open the {opening} when {who} is home|the {thing} and the {thing} are in the {room}|wake {who} up at {clock}
when did you see the {colour} {thing}|send {who} a picture of the {room}|take the {food} to the {room}
i think the {device} is still {state}|call the {place} and book a table for {2-9}|what did you put on the {surface} {when}
is there more {food} in the {room}|wait {2-30} minutes and then start the {device}|my meeting with {name} is at {clock}
don't turn {state} the {device}|{name} and {name} are coming {when}|where can i buy {food} and {food}
do not forget my appointment on {date}|how many minutes are left until {clock}|ask my {relative} about the {thing} on the {surface}
which {room} is the {thing} in|give the {food} to the {relative}|look for the {thing} behind the {surface}
drive {2-50} meters and turn (left|right) at the {place}|play {music} music when i am home|lock the {opening} at midnight
"""

LISTS = {"training": TRAINING, "tuning": TUNING, "test": TEST}
# Templates of the language model alone, of the words of training: they are written, never spoken. None of them gives a
# sentence of a template that tuning or the test has of its own.
PHRASES = pathlib.Path(__file__).with_name("phrases.txt")
# Sentences of this many or more are divided: every eighth is kept for the test, and every eighth for tuning.
DIVIDED_FROM = 200
WAKE_SHARE, ASK_SHARE, POLITE_SHARE = 0.16, 0.07, 0.05
RANDOM_WORDS = (2, 8)


def number(value):
    """A number below two hundred in words."""
    if value < 10:
        return ONES[value - 1] if value else "zero"
    if value < 20:
        return TEENS[value - 10]
    if value < 100:
        return TENS[value // 10 - 2] + (" " + ONES[value % 10 - 1] if value % 10 else "")
    return "one hundred" + (" and " + number(value - 100) if value > 100 else "")


def _choices(text, at, end):
    """Parse choices up to the closing bracket: (list of sequences, the place behind it)."""
    choices, sequence, word = [], [], ""
    while at < len(text) and text[at] != end:
        c = text[at]
        if c in "([{|" and word:
            sequence.append(word)
            word = ""
        if c == "(" or c == "[":
            inner, at = _choices(text, at + 1, ")" if c == "(" else "]")
            sequence.append(inner + [[""]] if c == "[" else inner)
        elif c == "{":
            close = text.index("}", at)
            sequence.append(_slot(text[at + 1:close]))
            at = close
        elif c == "|":
            choices.append(sequence)
            sequence = []
        else:
            word += c
        at += 1
    choices.append(sequence + ([word] if word else []))
    return choices, at


@functools.cache
def _slot(name):
    """The choices of a slot."""
    span = re.fullmatch(r"(\d+)-(\d+)", name)
    if span:
        return tuple([number(n)] for n in range(int(span[1]), int(span[2]) + 1))
    return tuple(_choices(SLOTS[name], 0, "")[0])


def _variety(part):
    """How many texts a part of a template gives."""
    if isinstance(part, str):
        return 1
    return sum(math.prod(_variety(p) for p in sequence) for sequence in part)


def _expand(rng, part):
    if isinstance(part, str):
        return part
    return "".join(_expand(rng, p) for p in part[rng.integers(len(part))])


@functools.cache
def templates(name):
    """The templates of a list, how many texts each gives, and how often each is drawn."""
    lines = (PHRASES.read_text() if name == "phrases" else LISTS[name]).strip().split("\n")
    parsed = [[sequence] for line in lines for sequence in _choices(line, 0, "")[0]]
    counts = [_variety(t) for t in parsed]
    weights = [1 + math.log(n) for n in counts]
    return parsed, counts, [w / sum(weights) for w in weights]


def part_of(text, variety):
    """Whether a sentence belongs to training, tuning or the test."""
    if variety < DIVIDED_FROM:
        return "training"
    return {0: "test", 1: "tuning"}.get(zlib.crc32(text.encode()) % 8, "training")


def sentence(rng, part="training", new_template=False):
    """A sentence of a part; a new template is one that training does not have."""
    parsed, counts, weights = templates(part if new_template else "training")
    while True:
        i = rng.choice(len(parsed), p=weights)
        text = _expand(rng, parsed[i])
        chance = rng.random()
        if chance < WAKE_SHARE:
            text = f"{_expand(rng, _slot('wake'))} {text}"
        elif chance < WAKE_SHARE + ASK_SHARE:
            text = f"{_expand(rng, _slot('ask'))} {text}"
        elif chance < WAKE_SHARE + ASK_SHARE + POLITE_SHARE:
            text = f"{text} {_expand(rng, _slot('polite'))}"
        text = " ".join(text.split())
        if new_template or part_of(text, counts[i]) == part:
            return text


def phrase(rng):
    """A sentence of the templates of the language model, each drawn as often as any other."""
    parsed, _, _ = templates("phrases")
    return " ".join(_expand(rng, parsed[rng.integers(len(parsed))]).split())


@functools.cache
def vocabulary():
    """Every word of the training's sentences, sorted."""
    rng = np.random.default_rng(1)
    parsed, _, _ = templates("training")
    spoken = {w for t in parsed for _ in range(200) for w in _expand(rng, t).split()}
    for slot in ("wake", "ask", "polite", "thing", "things"):
        spoken |= {w for _ in range(500) for w in _expand(rng, _slot(slot)).split()}
    return sorted(spoken)


def random_words(rng):
    """A string of words of the language without its order."""
    words = vocabulary()
    return " ".join(words[rng.integers(len(words))] for _ in range(rng.integers(*RANDOM_WORDS)))


if __name__ == "__main__":
    generator = np.random.default_rng(1)
    known = set(vocabulary())
    parsed, counts, weights = templates("training")
    print(f"{len(known)} words, {len(parsed)} templates, {sum(counts):.3g} sentences")
    for kept in ("tuning", "test"):
        texts = [sentence(generator, kept, True) for _ in range(4000)]
        new = {w for t in texts for w in t.split()} - known
        print(f"{kept}: {len(templates(kept)[0])} templates, words unknown to training: {sorted(new)}")
    for _ in range(12):
        print("  ", sentence(generator), "/", sentence(generator, "test", True))
