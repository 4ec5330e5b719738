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
# answer | noun phrases | questions | indirect questions, alternatives separated by /
FACTS = [[part.strip().split(" / ") for part in line.split(" | ")] for line in """
jupiter is the largest planet. | the (largest|biggest) planet / the (largest|biggest) planet (we know|of all|in the solar system) | which planet is the (largest|biggest) / what planet is the (largest|biggest) / which planet is bigger than all others | which planet is the (largest|biggest) / what planet is the (largest|biggest)
mercury is the smallest planet. | the smallest planet / the smallest planet (we know|of all|in the solar system) | which planet is the smallest / what planet is the smallest / which planet is smaller than all others | which planet is the smallest / what planet is the smallest
mount everest is the highest mountain. | the (highest|tallest) mountain / the (highest|tallest) mountain (in the world|on earth|of all) | which mountain is the (highest|tallest) / what mountain is the (highest|tallest) / which mountain is higher than all others | which mountain is the (highest|tallest) / what mountain is the (highest|tallest)
the nile is the longest river. | the longest river / the longest river (in the world|on earth|of all) | which river is the longest / what river is the longest / which river is longer than all others | which river is the longest / what river is the longest
the pacific is the largest ocean. | the (largest|biggest) ocean / the (largest|biggest) ocean (in the world|on earth|of all) | which ocean is the (largest|biggest) / what ocean is the (largest|biggest) | which ocean is the (largest|biggest) / what ocean is the (largest|biggest)
the cheetah is the fastest animal. | the fastest animal / the fastest animal (in the world|on earth|on land) | which animal is the fastest / what animal is the fastest / which animal runs the fastest | which animal is the fastest / which animal runs the fastest
the blue whale is the largest animal. | the (largest|biggest) animal / the (largest|biggest) animal (in the world|on earth|of all) | which animal is the (largest|biggest) / what animal is the (largest|biggest) | which animal is the (largest|biggest) / what animal is the (largest|biggest)
the giraffe is the tallest animal. | the tallest animal / the tallest animal (in the world|on earth|of all) | which animal is the tallest / what animal is the tallest / which animal has the longest neck | which animal is the tallest / which animal has the longest neck
the sun is the closest star. | the (closest|nearest) star / the star (closest|nearest) to (us|the earth) | which star is the (closest|nearest) / what star is the (closest|nearest) | which star is the (closest|nearest) / what star is the (closest|nearest)
water boils at one hundred degrees. | the boiling point of water / the temperature (where|at which) water boils | when does water boil / at what temperature does water boil / how hot is boiling water | when water boils / at what temperature water boils
water freezes at zero degrees. | the freezing point of water / the temperature (where|at which) water freezes | when does water freeze / at what temperature does water freeze / when does water become ice | when water freezes / at what temperature water freezes
ice is frozen water. | frozen water / ice made of | what is ice / what is ice made of / what do you call frozen water | what ice is / what ice is made of
bees make honey. | the animal that makes honey / the maker of honey | who makes honey / which animal makes honey / where does honey come from / what do bees make | who makes honey / where honey comes from / what bees make
cows give milk. | the animal that gives milk / the source of milk | where does milk come from / which animal gives milk / what do cows give / who gives milk | where milk comes from / which animal gives milk
the moon goes around the earth. | the thing that goes around the earth / the satellite of the earth | what goes around the earth / what does the moon do / where does the moon go | what goes around the earth / what the moon does
the earth goes around the sun. | the path of the earth / the thing the earth goes around | what does the earth go around / does the earth go around the sun / what does the earth circle | what the earth goes around / what the earth circles
fish live in water. | the home of fish / the place where fish live | where do fish live / where does a fish live / in what do fish live | where fish live / where a fish lives
birds live in nests. | the home of birds / the place where birds live | where do birds live / where does a bird live / in what do birds live | where birds live / where a bird lives
the sun rises in the east. | the direction of the sunrise / the place where the sun rises | where does the sun rise / where does the sun come up / in which direction does the sun rise | where the sun rises / where the sun comes up
the sun sets in the west. | the direction of the sunset / the place where the sun sets | where does the sun set / where does the sun go down / in which direction does the sun set | where the sun sets / where the sun goes down
bread is made of flour and water. | the stuff bread is made of / the ingredients of bread | what is bread made of / what do you need for bread / what is in bread | what bread is made of / what is in bread
cheese is made of milk. | the stuff cheese is made of / the ingredients of cheese | what is cheese made of / what do you need for cheese / what is in cheese | what cheese is made of / what is in cheese
paper is made of wood. | the stuff paper is made of / the material of paper | what is paper made of / where does paper come from / what do you need for paper | what paper is made of / where paper comes from
glass is made of sand. | the stuff glass is made of / the material of glass | what is glass made of / where does glass come from / what do you need for glass | what glass is made of / where glass comes from
february is the shortest month. | the shortest month / the shortest month of the year | which month is the shortest / what month is the shortest / which month has the fewest days | which month is the shortest / which month has the fewest days
january is the first month. | the first month / the first month of the year | which month is the first / what month comes first / which month starts the year | which month is the first / which month starts the year
december is the last month. | the last month / the last month of the year | which month is the last / what month comes last / which month ends the year | which month is the last / which month ends the year
a young dog is a puppy. | a young dog / a baby dog / the name of a (young|baby) dog | what is a young dog called / what do you call a (young|baby) dog / how is a baby dog called | what a (young|baby) dog is called / how a young dog is called
a young cat is a kitten. | a young cat / a baby cat / the name of a (young|baby) cat | what is a young cat called / what do you call a (young|baby) cat / how is a baby cat called | what a (young|baby) cat is called / how a young cat is called
a young cow is a calf. | a young cow / a baby cow / the name of a (young|baby) cow | what is a young cow called / what do you call a (young|baby) cow / how is a baby cow called | what a (young|baby) cow is called / how a young cow is called
a young horse is a foal. | a young horse / a baby horse / the name of a (young|baby) horse | what is a young horse called / what do you call a (young|baby) horse / how is a baby horse called | what a (young|baby) horse is called / how a young horse is called
a young sheep is a lamb. | a young sheep / a baby sheep / the name of a (young|baby) sheep | what is a young sheep called / what do you call a (young|baby) sheep / how is a baby sheep called | what a (young|baby) sheep is called / how a young sheep is called
""".strip().splitlines()]
FIRST, LAST = 0, 99  # numbers that have one before and after
SUM, PRODUCT = 20, 10
