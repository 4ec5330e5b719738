"""Tables of facts: what the assistant knows by heart."""

CAPITALS = dict(line.split(": ") for line in """france: paris
germany: berlin
italy: rome
spain: madrid
england: london
austria: vienna
norway: oslo
sweden: stockholm
denmark: copenhagen
finland: helsinki
poland: warsaw
portugal: lisbon
greece: athens
ireland: dublin
scotland: edinburgh
hungary: budapest
belgium: brussels
switzerland: bern
russia: moscow
turkey: ankara
egypt: cairo
kenya: nairobi
japan: tokyo
china: beijing
india: new delhi
canada: ottawa
cuba: havana
peru: lima
chile: santiago
australia: canberra""".splitlines())
# Countries without a known capital.
OTHER_COUNTRIES = """brazil mexico argentina bolivia colombia venezuela uruguay jamaica morocco nigeria ghana angola
    iceland latvia estonia croatia serbia albania malta iran iraq israel vietnam thailand malaysia mongolia nepal
    pakistan indonesia ethiopia uganda zambia tunisia""".split()
COLOURS = dict(line.split(": ") for line in """the sky: blue
the sea: blue
grass: green
snow: white
milk: white
blood: red
a tomato: red
a strawberry: red
a banana: yellow
a lemon: yellow
the sun: yellow
coal: black
the night: black
chocolate: brown
an orange: orange
a carrot: orange
a frog: green
an elephant: grey
a flamingo: pink""".splitlines())
SOUNDS = {"dog": "woof", "cat": "meow", "cow": "moo", "sheep": "baa", "duck": "quack", "pig": "oink", "lion": "roar",
          "bee": "buzz", "snake": "hiss", "owl": "hoo hoo", "horse": "neigh", "frog": "croak"}
LEGS = {"dog": "four", "cat": "four", "horse": "four", "cow": "four", "elephant": "four", "spider": "eight",
        "beetle": "six", "ant": "six", "bee": "six", "fly": "six", "bird": "two", "chicken": "two", "duck": "two",
        "snake": "no", "fish": "no", "worm": "no", "table": "four", "human": "two"}
OPPOSITES = dict(pair.split(": ") for pair in """hot: cold
big: small
fast: slow
good: bad
up: down
left: right
day: night
black: white
old: new
happy: sad
open: closed
full: empty
wet: dry
light: dark
hard: soft
high: low
strong: weak
rich: poor
long: short
loud: quiet
clean: dirty
early: late
love: hate
war: peace
true: false
inside: outside
begin: end
win: lose
give: take
start: stop""".splitlines())
OPPOSITES |= {there: here for here, there in OPPOSITES.items() if there not in OPPOSITES}
# number: (after "how many", the same in an indirect question, after "the number of")
COUNTS = [
    ("seven", "days are in a week", "days are there in a week", "days in a week"),
    ("twelve", "months are in a year", "months does a year have", "months in a year"),
    ("sixty", "minutes are in an hour", "minutes does an hour have", "minutes in an hour"),
    ("sixty", "seconds are in a minute", "seconds does a minute have", "seconds in a minute"),
    ("twenty four", "hours are in a day", "hours does a day have", "hours in a day"),
    ("four", "wheels are on a car", "wheels does a car have", "wheels on a car"),
    ("two", "wheels are on a bicycle", "wheels does a bicycle have", "wheels on a bicycle"),
    ("ten", "fingers are on two hands", "fingers does a human have", "fingers on two hands"),
    ("three", "sides are in a triangle", "sides does a triangle have", "sides of a triangle"),
    ("four", "sides are in a square", "sides does a square have", "sides of a square"),
    ("four", "seasons are in a year", "seasons does a year have", "seasons in a year"),
    ("eight", "planets are in the solar system", "planets go around the sun", "planets in the solar system"),
    ("one hundred", "years are in a century", "years does a century have", "years in a century"),
    ("twenty six", "letters are in the alphabet", "letters does the alphabet have", "letters in the alphabet"),
    ("seven", "colours are in a rainbow", "colours does a rainbow have", "colours in a rainbow"),
    ("eight", "arms are on an octopus", "arms does an octopus have", "arms of an octopus"),
]
FIRST, LAST = 0, 99  # numbers that have one before and after
SUM, PRODUCT = 20, 10
