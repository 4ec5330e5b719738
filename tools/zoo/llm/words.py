"""Words that fill the slots of phrasings, of which a share is kept from training; numbers and times in words."""
import itertools
import math

from phrases import beside, chance, more, words as spoken_words

# Of a hundred values of a slot, so many are only in tests.
HELD = 20
# In training, this share of the values that come from lists are made-up words, so that copying is learnt rather than lists.
MADE_UP = 0.25
# In the dialogues of training, some more are made of a piece of one word and the end of another, and some of these
# have a second word: so every piece of the tokenizer is copied, not only those of made-up syllables.
SPLICED, SPLICED_PAIRS = 0.2, 0.35
# And some are one to three words that phrasings are made of: what a word means elsewhere says nothing of a name. Of several,
# none is one that phrasings have beside values, such as "{thing} lately" or "{room} robot": where a value ends could not be told.
BORROWED = 0.35
# A word that phrasings have so often is borrowed as often as any is; this share comes from known values instead.
MOST_OFTEN, BORROWED_PARTS = 100, 0.4
# This share of the favourites among them begin with an article, as titles do.
TITLED = 0.2
# This share of the places that tools give in training are not those of lists.
OWN_PLACES = 0.2
# How often a place is in a room, in tests and in training.
IN_ROOM, IN_ROOM_TRAINED = 0.15, 0.25
# Where something is: in tests with made-up words, and in training.
RELATIONS = ("in", "on", "under", "behind", "next to")
MORE_RELATIONS = (*RELATIONS, *RELATIONS, "beside", "near", "at", "by", "above", "below", "between", "inside", "outside",
                  "against", "close to", "underneath", "on top of", "in front of", "at the back of")
# Numbers below this have words of their own, which nothing else teaches: none of them is kept from training.
OWN_WORDS = 20

LISTS = {
    "name": """anna ben clara david emma felix grace henry iris jack kate leo mia noah olivia paul quinn rose sam tina
        uma victor wendy xavier yara zoe alice bob carol daniel eva frank gina hugo ivy jonas karl lena max nina oscar
        peter rita simon tom ursula vera walter adam bella chris diana eric fiona george hannah ian julia kevin laura
        mark nora otto petra ralf sarah tim valerie will amy bruno cora dora elias freya gus hilda ida john kira luke
        maria nick olga pablo ruth steve tara vince amelia arthur charlie dylan ella finn harry isla james lily logan
        lucy mason molly oliver oscar poppy riley ruby sophie stella thomas toby violet zara martin robert michael
        jane mary susan linda barbara karen nancy betty helen sandra donna ashley kim emily brian edward ronald
        anthony jason matthew gary larry jeffrey scott andrew raymond gregory joshua dennis jerry mister smith
        fluffy rex bello felix tiger snowy rocky luna buddy simba""",
    "thing": """keys|glasses|phone|wallet|book|bag|umbrella|hat|coat|shoes|gloves|scarf|watch|ring|
        laptop|charger|headphones|notebook|pen|pencil|scissors|camera|passport|ticket|letter|
        card|map|medicine|pills|toothbrush|comb|hairbrush|mirror|towel|cup|plate|fork|spoon|
        knife|bottle|basket|hammer|screwdriver|pliers|torch|batteries|candle|matches|rope|tape|
        glue|needle|ball|guitar|violin|drum|toy|doll|blanket|pillow|sunglasses|jacket|shirt|
        trousers|socks|belt|tie|dress|boots|slippers|purse|suitcase|backpack|calculator|ruler|
        stapler|folder|magazine|newspaper|diary|album|painting|vase|remote|speaker|tablet|mouse|
        keyboard|cable|lighter|helmet|bicycle|scooter|racket|skates|swimsuit|earrings|necklace|
        bracelet|contact lenses|lipstick|razor|shampoo|soap|sponge|bucket|broom|brush|iron|
        kettle|pan|pot|lid|tin opener|corkscrew|recipe|tools|drill|saw|ladder|nails|screws|
        stamps|envelope|stickers|crayons|puzzle|cards|dice|whistle|compass|binoculars|telescope|
        tent|sleeping bag|water bottle|lunch box|house keys|car keys|reading glasses|credit card|
        train ticket|shopping list""",
    "room": """kitchen|bedroom|bathroom|living room|hall|office|garage|garden|cellar|attic|dining room|study|hallway|
        balcony|guest room|nursery|laundry room|library|workshop|playroom|corridor|basement|toilet|entrance|terrace|
        staircase|pantry|children's room|music room|storage room|lobby|classroom|studio|sun room|utility room|
        front room|back room|shed|stable|porch|loft|cloakroom|conference room|waiting room|lounge|gym|sauna|barn""",
    "spot": """in the drawer|in the box|in the cupboard|in the bag|in the basket|in the fridge|in the car|
        in the wardrobe|in the suitcase|in the backpack|in the cabinet|in the closet|in the garage|in the kitchen|
        in the bedroom|in the bathroom|in the living room|in the hall|in the office|in the cellar|in the attic|
        in the garden|in the shed|in the oven|in the sink|in the bin|in the jar|in the tin|
        in the laundry basket|in the top drawer|in the bottom drawer|in the blue box|in the desk|in the safe|
        on the table|on the shelf|on the desk|on the chair|on the sofa|on the bed|on the counter|on the floor|
        on the window sill|on the piano|on the bench|on the stairs|on the wall|on the hook|on the fridge|
        on the kitchen table|on the top shelf|on the armchair|on the stove|on the balcony|on the television|
        under the bed|under the sofa|under the table|under the pillow|under the carpet|under the chair|
        under the blanket|under the stairs|under the desk|under the mat|under the bench|
        behind the door|behind the sofa|behind the curtain|behind the shelf|behind the television|behind the books|
        behind the fridge|next to the lamp|next to the bed|next to the door|next to the sink|next to the computer|
        next to the window|next to the plant|next to the phone|near the door|near the window|near the stove|
        beside the bed|beside the sofa|beside the clock|at the door|at the window|above the sink|above the stove|
        between the books|between the chairs|inside the cupboard|inside the box|on top of the wardrobe|
        on top of the shelf|in front of the door|in front of the mirror|in front of the house""",
    "attr": """colour|food|animal|sport|song|book|film|drink|season|fruit|game|number|city|flower|day|subject|
        vegetable|music|band|dish|dessert|month|toy|place|hobby|tree|bird|cake|tea|story|letter|planet|movie|
        holiday|restaurant|instrument|singer|writer|country|ice cream|soup|cheese|dance|car|shop|word|team""",
    "value": """green|blue|red|yellow|purple|orange|black|white|pink|brown|silver|golden|pizza|pasta|rice|soup|salad|
        bread|cheese|fish|chicken|potatoes|noodles|curry|pancakes|chocolate|ice cream|apples|bananas|cherries|grapes|
        strawberries|mangos|lemons|peaches|cats|dogs|horses|elephants|tigers|lions|pandas|dolphins|owls|rabbits|
        penguins|foxes|football|tennis|swimming|chess|running|cycling|skiing|boxing|hockey|golf|dancing|water|coffee|
        juice|milk|cola|lemonade|summer|winter|spring|autumn|monday|friday|sunday|seven|twelve|three|paris|rome|
        berlin|london|roses|tulips|lilies|daisies|jazz|rock|opera|the piano|the guitar|the violin|history|music|
        mathematics|art|biology|carrots|tomatoes|onions|beans|spinach|oak|pine|mars|venus|christmas|easter|reading|
        painting|cooking|gardening|singing|hiking|the moon song|the red house|the old man|the blue sky|star light|
        the little prince|apple pie|chicken soup|tomato salad|green tea|hot chocolate|orange juice|the night sky""",
    "rel": """sister|brother|mother|father|dog|cat|horse|friend|boss|teacher|neighbour|wife|husband|son|daughter|uncle|
        aunt|cousin|grandmother|grandfather|parrot|rabbit|hamster|fish|doctor|best friend|boat|car|robot|bird|turtle|
        pony|nephew|niece|partner|girlfriend|boyfriend|dentist|colleague|goldfish|snake|mouse|baby|student|goat|
        landlord|hairdresser|trainer|flatmate|twin""",
    "event": """meeting|party|exam|flight|dentist appointment|doctor's appointment|birthday party|concert|interview|
        test|wedding|match|game|lesson|piano lesson|course|train ride|date|dinner|lunch|holiday|trip|presentation|
        football training|haircut|visit|swimming lesson|conference|job interview|yoga class|driving lesson|show|
        school trip|garden party|check up|race|choir practice|family dinner|barbecue|surgery|language course""",
    "city": """berlin|london|paris|rome|madrid|vienna|oslo|prague|hamburg|munich|boston|chicago|dallas|denver|seattle|
        toronto|sydney|tokyo|moscow|dublin|athens|lisbon|warsaw|budapest|geneva|zurich|milan|venice|naples|lyon|
        bristol|oxford|york|leeds|glasgow|cardiff|bremen|dresden|leipzig|new york|los angeles|san francisco|
        cape town|hong kong|singapore|bergen|turin|porto|nice|ghent|krakow|salzburg|basel|austin|miami|houston""",
    "job": """baker|teacher|doctor|nurse|farmer|cook|driver|painter|writer|singer|builder|gardener|plumber|lawyer|judge|
        pilot|sailor|soldier|butcher|tailor|waiter|barber|dentist|programmer|carpenter|mechanic|librarian|journalist|
        photographer|musician|dancer|scientist|manager|secretary|cleaner|postman|policeman|fireman|shop assistant|
        bus driver|taxi driver|bank clerk|designer|translator|student|banker|potter|miner|fisherman|coach""",
    "day": "monday|tuesday|wednesday|thursday|friday|saturday|sunday",
    "noun": """bridge|castle|tower|computer|telephone|radio|engine|wheel|rocket|clock|ship|train|volcano|ocean|desert|
        river|mountain|forest|museum|church|statue|painting|violin|piano|robot|battery|magnet|telescope|microscope|
        camera|printer|bread|cheese|pancakes|soup|sushi|lasagna|pizza|sandwich|goulash|paella|bicycle|motorbike|
        airplane|helicopter|submarine|tractor|dishwasher|washing machine|vacuum cleaner|toaster|oven|fridge|chair|
        table|sofa|ladder|hammer|saw|drill|tent|boat|kite|drum|trumpet|flute|democracy|philosophy|gravity|
        electricity|inflation|economy|atom|molecule|virus|vaccine|dinosaur|whale|shark|eagle|spaceship|satellite|
        internet|software|algorithm|password|pyramid|palace|temple|stadium|theatre|airport|harbour|tunnel|dam|
        windmill|fountain|carpet|curtain|mirror|helmet|jacket|diamond|gold|silver|oil|cake|chocolate|spaghetti|
        omelette|burger|salad|universe|galaxy|comet|thunder|rainbow|earthquake|hurricane|parliament|constitution|
        guitar|lawn mower|coffee machine|blender|heater|fan|printer|scanner|projector|statistics|chemistry|poetry""",
}
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
MONTHS = "january february march april may june july august september october november december".split()
CLOSED = {"day"}
ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
ONSETS = "b bl br c ch d dr f fl g gl gr h j k kl l m n p pl pr r s sh sk sl st t tr v w z".split()
VOWELS = "a e i o u ai ee oa".split()
CODAS = ["", "", "", "n", "r", "l", "m", "k", "t", "nd", "st", "ck", "x", "rd"]


def listed(kind):
    text = LISTS[kind]
    values = text.split("|") if "|" in text else text.split()
    return list(dict.fromkeys(" ".join(value.split()) for value in values))


def is_held(kind, value):
    return kind not in CLOSED and chance(f"{kind} {value}") < HELD


KNOWN = {kind: [value for value in listed(kind) if not is_held(kind, value)] for kind in LISTS}
UNSEEN = {kind: [value for value in listed(kind) if is_held(kind, value)] for kind in LISTS}
KEPT = {word for values in UNSEEN.values() for value in values for word in value.split()}
UNSEEN_VALUES = {value for values in UNSEEN.values() for value in values}


def more_values(kind):
    """Values that are training's alone: none that tests keep, and none with a word that is one."""
    lines = more("values.txt").get(kind, ())
    return [value for line in lines for value in line.split("|")
            if value not in UNSEEN_VALUES and UNSEEN_VALUES.isdisjoint(value.split())]


TRAINED = {kind: list(dict.fromkeys(values + more_values(kind))) for kind, values in KNOWN.items()}
PARTS = sorted({word for values in TRAINED.values() for value in values for word in value.split() if len(word) > 2})
# Some of these are among the values kept from training, which `Slots.placed` never gives as a whole.
COUNTS = spoken_words()
SPOKEN = sorted(COUNTS)
# Words that phrasings have often are the harder to take for a name, and drawn more often, up to a point.
OFTEN = list(itertools.accumulate(math.sqrt(min(COUNTS[word], MOST_OFTEN)) for word in SPOKEN))
# In a value of several words, none but the last is one of the former, and none but the first one of the latter.
BEFORE, BEHIND = beside()
ENDS = [word for word in PARTS if word not in BEHIND]


def in_words(number):
    """0 to 100 in words."""
    if number < 20:
        return ONES[number]
    if number == 100:
        return "one hundred"
    return TENS[number // 10] + (" " + ONES[number % 10] if number % 10 else "")


def clock(hour, minute):
    """How a time of day is said."""
    hour = in_words((hour - 1) % 12 + 1)
    if minute == 0:
        return f"{hour} o'clock"
    return f"{hour} oh {in_words(minute)}" if minute < 10 else f"{hour} {in_words(minute)}"


def made_up(rng, plural=False):
    """A word that nobody has heard; it ends in s only if it is a plural."""
    while True:
        count = rng.choice((1, 2, 2, 3))
        word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(count)) + rng.choice(CODAS)
        if len(word) > 3:
            return word + "s" if plural else word


def spliced(rng):
    """A word with the spelling of English; none that is kept for tests or stands beside values in phrasings."""
    while True:
        first, second = (rng.choice(rng.choice((SPOKEN, PARTS))) for _ in range(2))
        start = rng.choice((0, rng.randrange(len(first) - 1)))
        word = first[start:start + rng.randint(1, 5)] + second[-rng.randint(2, 5):]
        if len(word) > 3 and word not in KEPT and word not in BEFORE and word not in BEHIND:
            return word


def spliced_pair(rng):
    """Such a word and a known one or another such."""
    return f"{spliced(rng)} {rng.choice(ENDS) if rng.random() < 0.5 else spliced(rng)}"


def borrowed(rng):
    """One to three words that are said in phrasings or are parts of known values."""
    count = rng.choice((1, 1, 1, 2, 2, 3))
    while True:
        words = [rng.choice(PARTS) if rng.random() < BORROWED_PARTS else rng.choices(SPOKEN, cum_weights=OFTEN)[0]
                 for _ in range(count)]
        if BEFORE.isdisjoint(words[:-1]) and BEHIND.isdisjoint(words[1:]):
            return " ".join(words)


def is_plural(thing):
    return thing.endswith("s") and not thing.endswith("ss")


class Slots:
    """Draws what fills slots: known values and made-up ones in training, values kept from it in tests.

    `varied` adds spliced and borrowed words.
    """

    def __init__(self, rng, unseen, varied=False):
        self.rng, self.unseen, self.varied = rng, unseen, varied

    def draw(self, kind):
        pool = UNSEEN if self.unseen else TRAINED if self.varied else KNOWN
        if kind in CLOSED:
            return self.rng.choice(KNOWN[kind])
        if self.varied and self.rng.random() < SPLICED:
            made = spliced_pair if self.rng.random() < SPLICED_PAIRS else spliced
            return self.placed(kind, lambda: made(self.rng))
        if self.varied and self.rng.random() < BORROWED:
            return self.placed(kind, lambda: borrowed(self.rng), TITLED)
        if self.rng.random() < MADE_UP:
            return self.invented(kind)
        if kind == "spot" and self.rng.random() < (IN_ROOM_TRAINED if self.varied else IN_ROOM):
            return f"{self.rng.choice(pool[kind])} in the {self.rng.choice(pool['room'])}"
        return self.rng.choice(pool[kind])

    def found(self):
        """Where a tool says that a thing is: in training also in words of its own, as "in your bag"."""
        place = self.draw("spot")
        if self.varied and self.rng.random() < OWN_PLACES:
            place = place.replace("the", self.rng.choice(("your", "your", "a")), 1)
        return place

    def placed(self, kind, words, titled=0.0):
        """A value of such words that no test keeps: of a spot they are what something is in, on or under; some are titles."""
        while True:
            value = words()
            if kind == "spot":
                value = f"{self.relation()} the {value}"
            elif kind == "value" and self.rng.random() < titled:
                value = f"the {value}"
            if value not in UNSEEN_VALUES:
                return value

    def invented(self, kind):
        if kind == "spot":
            return f"{self.relation()} the {made_up(self.rng)}"
        return made_up(self.rng, plural=kind == "thing" and self.rng.random() < 0.4)

    def relation(self):
        return self.rng.choice(MORE_RELATIONS if self.varied else RELATIONS)

    def number(self, lowest, highest):
        """A number; of those from twenty on one in eight is kept from training."""
        while True:
            number = self.rng.randint(lowest, highest)
            if number < OWN_WORDS or (chance(f"number {number}") < 12) == self.unseen:
                return number
