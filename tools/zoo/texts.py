"""Texts to speak: sentences from templates and words, sound-alikes, and the phrases themselves.

Templates and words marked for testing never occur in training.
"""

NOUNS = """apple artist autumn baby bakery balcony ball banana basket battery beach bicycle bird blanket
boat book bottle box branch bread bridge brother bucket building butter button cabin cake camera candle car
carpet castle cat chair cheese child circle city clock cloud coffee colour computer corner cotton country cow
cup curtain customer daughter desert desk dinner doctor dog door dragon driver drawer duck engine evening
family farmer fence field finger fire fish flower forest fountain friend fruit garage garden glass glove
grandmother guitar hammer harbour hat heater helicopter hill holiday horse hospital hotel house island jacket
journey kettle key kitchen kitten ladder lake lamp language leaf lemon letter library lion machine magazine
market meadow message minute mirror money monkey morning mountain mouse mushroom music neighbour newspaper
notebook number nurse ocean office onion orange oven painting paper parcel pencil people pepper photograph
piano picture pillow pilot pocket poem potato printer problem question rabbit radio rain river road robot roof
room rope salad scarf school scissors season shadow sheep ship shirt shoe signal sister sky snow soldier song
soup spider spoon square squirrel station story street summer sweater table teacher telephone theatre thunder
ticket tiger tomato tower train tree trousers umbrella uncle vegetable village violin wall wallet water weather
wheel window winter woman wood worker yard zebra""".split()
VERBS = """asked:ask believed:believe borrowed:borrow brought:bring built:build bought:buy called:call
carried:carry caught:catch changed:change cleaned:clean collected:collect counted:count covered:cover
described:describe drew:draw dropped:drop enjoyed:enjoy examined:examine explained:explain fed:feed
finished:finish fixed:fix followed:follow forgot:forget found:find gave:give handed:hand heard:hear held:hold
hid:hide ignored:ignore invented:invent kept:keep knew:know left:leave lifted:lift liked:like lost:lose
loved:love made:make measured:measure mentioned:mention met:meet missed:miss moved:move needed:need
noticed:notice opened:open ordered:order packed:pack painted:paint passed:pass planted:plant played:play
praised:praise prepared:prepare promised:promise pulled:pull pushed:push read:read remembered:remember
repaired:repair rented:rent returned:return saved:save saw:see sent:send served:serve showed:show sold:sell
studied:study threw:throw took:take touched:touch trusted:trust used:use visited:visit washed:wash
watched:watch welcomed:welcome won:win wrote:write""".split()
ADJECTIVES = """ancient angry beautiful big blue boring bright broken brown busy calm careful cheap clean
clever cold colourful comfortable curious dangerous dark deep delicious dirty dry early easy empty enormous
expensive famous fast favourite final fresh friendly full funny gentle green grey happy heavy honest hungry
important interesting kind large lazy light little local lonely long loud lovely lucky modern narrow nervous
new noisy old orange perfect pink plain pleasant polite poor pretty private proud purple quick quiet rare red
rich round sad safe secret serious sharp short silent silly simple sleepy slow small smooth soft special
strange strong sunny sweet tall terrible thick thin tiny tired useful warm weak wet white wide wild wise
wonderful wooden yellow young""".split()
ADVERBS = """again already always badly carefully clearly daily easily finally gently happily here inside
kindly later loudly maybe nearly never often outside perhaps politely quickly quietly rarely really seldom
silently slowly sometimes soon suddenly there today together tomorrow tonight twice usually well
yesterday""".split()
NAMES = """Alice Andrew Anna Barbara Ben Carlos Charlotte Daniel David Emily Emma Fatima Frank George Hannah
Helen Henry Isabel Jack James Jane Julia Karen Kevin Laura Lewis Lucy Maria Mark Martin Mary Michael Nina
Oliver Olivia Patrick Paul Peter Rachel Robert Ruth Samuel Sarah Simon Sophie Susan Thomas Victor
William""".split()
PLACES = """Amsterdam Athens Barcelona Berlin Boston Brussels Cairo Canada Chicago Copenhagen Dublin Egypt
Finland France Geneva Germany India Ireland Istanbul Italy Japan Kenya Lisbon London Madrid Mexico Milan
Moscow Norway Oslo Paris Poland Prague Rome Scotland Seattle Spain Stockholm Sweden Tokyo Turkey Vienna
Warsaw""".split()
NUMBERS = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand""".split()

TRAIN_TEMPLATES = """the {a} {n} {v} the {n}|{N} {v} the {a} {n} {r}|I think {N} will {b} the {n} {r}
do you know where the {a} {n} is|can you {b} my {n} please|there are {c} {n}s in the {n}|what is the {a} {n} for
when did {N} {b} the {n}|we {v} {c} {a} {n}s in {P}|{N} and {N} {v} a {n} near the {n}|it was a {a} and {a} day in {P}
please {b} the {n} next to the {a} {n}|my {n} is {a} but yours is {a}|why is the {n} so {a} {r}|{r} the {n} {v} a {a} {n}
I will {b} you at {c} {c} in the morning|turn on the {a} lamp in the {n}|set a timer for {c} minutes|how far is it from {P} to {P}
she {v} me a {n} about the {n}|they never {b} the {n} before {c}|the number is {c} {c} {c} {c}|play some {a} music in the {n}
{N} said that the {n} was {a}|if you {b} the {n} I will {b} the {n}|the {n} in {P} is very {a}|good morning {N}, how is your {n}
let us {b} a {a} {n} for the {n}|after the {n} we {v} the {a} {n}|tell {N} to {b} the {n}, and then {b} the {a} {n}
{a} {a} {n}|{c} {a} {n}s|{n} {n} {n} {n}|{w} {w} {w}|the {w} {v} a {w}|{w} {w} {n} {w} {a}|{b} the {n}|is it {a}
yes, the {n} is {a}|no, I {v} the {n} {r}|{r}, {N} {v} it|hello {N}|thank you {N}|okay, {b} it {r}|where is {N}|who {v} that""".replace("\n", "|").split("|")
TEST_TEMPLATES = """before the {n} the {a} {n} {v} us|could {N} {b} a {n} for {c} people|nobody {v} the {n} of {N}
every {n} in the {n} is {a}|which {n} did the {a} {n} {b}|in {P} the {n}s are {a} and the {n}s are {a}
{N} has {c} {n}s and a {a} {n}|I have {r} {v} a {n} like this|remind me to {b} the {n} at {c}|what a {a} {n} you {v}
the {n} that {N} {v} was {r} {a}|it takes {c} minutes to {b} the {n}|open the {n}, {N}, it is {a} outside
between {P} and {P} there is a {a} {n}|{w} and {w} {v} {w}|you should {b} the {a} {n} {r}
how many {n}s will {N} {b} {r}|my {a} {n} comes from {P}|switch off the {n} in the {a} {n}|maybe the {n} will {b} you""".replace("\n", "|").split("|")

# Nothing here is one of the phrases; each is close to one of them.
ALIKE_HEY = """hey|hey you|hey there|hey everyone|hey everett|hey aaron|hey everybody|hey adam|hey ever|hey after|hey alfred
hey africa|hey arthur|hey heather|hey ferret|hey harriet|hey parent|hey apparent|hey average|hey adherent|hey affluent
hey effort|hey offering|hey afternoon|hey amber|hey oliver|hey friend|a different|different|a different one|indifferent
afferent|the afferent nerve|an afferent fibre|okay afferent|hi afferent|hello afferent|efferent|hey efferent|a ferret|hay fever
they are different|hey what is different|say apparent|may afford it|hey affair|they have a rent|hey afghan|hey aspirin
hey a friend|hey alexa|hey computer|hey robot|they offered it|hey ann|hey different""".replace("\n", "|").split("|")
ALIKE_STOP = """stopped|stopping|stops|top|stock|step|shop|stuff|stomp|spot|star|store|staff|start|still|stoop|strop|pop|hop|chop|drop
crop|swap|stack|stick|stab|stub|stuck|stalk|stork|store up|stop it|stop that|stop now|stop the music|non stop|bus stop|pit stop|one stop
please stop|do not stop|stopper|stopwatch|step up|sit up|shut up|set up|tip top|hip hop|stand up|sob|scot|storm|stone|stay|sleep
soup|sharp|steep|strap|top up|a top|it is the top|laptop|desktop""".replace("\n", "|").split("|")
ALIKE_GO = """goal|going|ago|goat|no|so|low|though|oh|show|gone|goes|ghost|gold|code|coat|got|goo|guy|gate|grow|glow|know|dough|toe
ego|cargo|mango|gecko|logo|cold|coal|close|globe|gave|girl|good|gum|gun|game|glue|row|bow|throw|slow|joe|hello|coco|go on|go away|go home
go up|let's go|here we go|no go|to go|go ahead|go to bed|we go|yo yo|go go|tango|bingo|indigo|gaudy|gore|goose|co|blow|snow|flow|wow
cow|how|now|allow|gouda|ok|okay|yes|bye|hi|two|do|boo|gah|ga|gay|key""".replace("\n", "|").split("|")
TEST_ALIKES = set("""hey everett|hey africa|hey parent|hey adherent|hey afternoon|an afferent fibre|hello afferent|hay fever|hey robot|hey friend
stops|shop|stuff|spot|start|stack|stop it|bus stop|do not stop|set up|stone|laptop
goal|no|low|ghost|grow|ego|cold|girl|go away|let's go|we go|snow|tango|two|gone""".replace("\n", "|").split("|"))
ALIKES = ALIKE_HEY + ALIKE_STOP + ALIKE_GO

# The words of the phrases inside sentences, which are not commands.
TRAIN_EMBEDDED = """we stop here for {c} minutes|the {n} will stop near the {n}|please stop the {n}|stop the {a} {n} {r}
did the {n} stop {r}|they could not stop the {a} {n}|I had to stop and {b} the {n}|the next stop is {P}
we go to {P} {r}|let us go and {b} the {n}|go to the {a} {n}|where did the {n} go {r}|I want to go home with {N}
{N} has to go to the {n} {r}|go and {b} the {n}|they go by {n} to {P}|the {n}s go {r}|here we go {r}
an afferent {n} is {a}|the {n} is afferent and {a}|{N} studied afferent {n}s|hey {N}, {b} the {n}|hey, the {n} is {a}
hey, where is the {n}|they {v} a different {n}|a different {n} is {a}|the {n} stopped {r}|{N} is going to {P}
long ago the {n} was {a}|the goal of the {n} is {a}|on top of the {n}""".replace("\n", "|").split("|")
TEST_EMBEDDED = """when will the {n} stop for us|{N} did not stop at the {n}|stop to {b} a {n} {r}|a bus stop in {P}
you may go before the {n}|I go past the {a} {n} {r}|go with {N} to {P}|do the {n}s go in the {n}
the afferent path of the {n}|hey, did {N} {b} the {n}|hey {N} the {n} is {a}|it is a different {n} {r}""".replace("\n", "|").split("|")

PHRASES = {
    "hey afferent": ["hey afferent", "hey afferent", "hey afferent!", "hey afferent.", "hey afferrent", "[[h'eI 'af3r@nt]]",
                     "[[h'eI 'af@r@nt]]", "[[h'eI 'afr@nt]]", "[[h'eI 'af3rEnt]]", "[[h'eI_ 'af3r@nt]]", "[[heI 'af3r@nt]]"],
    "stop": ["stop", "stop", "stop!", "stop.", "[[st'0p]]"],
    "go": ["go", "go", "go!", "go.", "[[g'oU]]", "[[g'@U]]"],
}
TEST_PHRASES = {"hey afferent": ["hey afferent", "hey afferent!"], "stop": ["stop", "stop!"], "go": ["go", "go!"]}

# The phrases in phonemes: each part with the sounds that accents give it, the commoner ones more than once.
SPELLED = {
    "hey afferent": [["h'"], "eI eI eI eI e: e: EI E e".split(), [" '", " '", " '", "_ '"],
                     "a a a a a a E a# A:".split(), ["f"], "@ @ @ 3 3 I2 V a# I".split() + ["", ""], ["r"],
                     "@ @ @ @ E E I a".split(), ["nt"]],
    "stop": [["st'"], "0 0 0 0 A: A: A: O a".split(), ["p"]],
    "go": [["g'"], "oU oU oU @U @U o: o: VU OU o".split()],
}
# Sounds next to the phrases that are none: a part exchanged for another. Of the test's sound-alikes only "grow" is among them.
NEAR = {
    "hey afferent": ["h'eI '%s" % t for t in "al@r@nt am@r@nt as@r@nt ak@r@nt af@l@nt af@m@nt afIs@nt afl@nt af@rI af@ af@rVm "
                     "Of@r@nt u:f@r@nt Ef@d@nt aI@r@nt".split()]
    + ["%s 'af@r@nt" % t for t in "w'eI d'eI m'eI s'eI h'u: h'A: n'aU g'eI s'i: D@".split()] + ["h'eI", "'af@r@nt", "h'eI 'af"],
    "stop": "st'0 st'0k st'0t st'0n st'0m st'0l st'0f st'Ep st'Ip st'u:p st'aIp st'eIp st'i:p sk'0p sp'0p sl'0p sw'0p fl'0p kl'0p d'0p t'0p st'0pI st'0p@ "
            "st'0pIN".split(),
    "go": "k'oU d'oU t'oU b'oU p'oU f'oU h'oU w'oU r'oU v'oU m'oU dZ'oU gr'oU gl'oU g'u: g'aI g'eI g'i: g'3: g'A: g'O: g'aU g'V g'oUt g'oUk g'oUd g'oUb "
          "g'oUm g'oUz g'oUtS @g'oU g'oU@ 'oU".split(),
}

ONSETS = "b bl br ch d dr f fl fr g gl gr h j k kl kr l m n p pl pr r s sh sk sl sm sn sp st str sw t th tr v w y z".split()
VOWELS = "a e i o u ee oo ai oa ar or er ow oi".split()
CODAS = ["", "", "", *"b d f g k l m n p s t v x z ch sh nd nt st rm lk mp ng sk".split()]


def _half(words, unseen):
    """A word in seven is kept for testing; tests also use the others."""
    return words if unseen else [w for i, w in enumerate(words) if i % 7 != 3]


def invented(rng):
    """A word that is in no dictionary."""
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
                   for _ in range(rng.integers(1, 4)))


def _word(rng, kind, unseen):
    if kind == "w":
        return invented(rng)
    if kind in "vb":
        past, base = rng.choice(_half(VERBS, unseen)).split(":")
        return past if kind == "v" else base
    words = {"n": NOUNS, "a": ADJECTIVES, "r": ADVERBS, "N": NAMES, "P": PLACES, "c": NUMBERS}[kind]
    return str(rng.choice(_half(words, unseen)))


def fill(rng, template, unseen):
    parts = template.split("{")
    return parts[0] + "".join(_word(rng, p[0], unseen) + p[2:] for p in parts[1:])


def sentence(rng, unseen):
    """A sentence without "stop", "go" or "afferent"."""
    return fill(rng, str(rng.choice(TEST_TEMPLATES if unseen else TRAIN_TEMPLATES)), unseen)


def embedded(rng, unseen):
    """A sentence that has a word of the phrases, or part of one, in it."""
    return fill(rng, str(rng.choice(TEST_EMBEDDED if unseen else TRAIN_EMBEDDED)), unseen)


def alike(rng, unseen):
    """A short text that sounds like one of the phrases."""
    group = (ALIKE_HEY, ALIKE_STOP, ALIKE_GO)[rng.integers(3)]
    return str(rng.choice([t for t in group if (t in TEST_ALIKES) == unseen]))


def short(rng, unseen):
    """One or two words of ordinary language."""
    kinds = rng.choice(["n", "a", "N", "c", "an", "cn", "w", "r", "b"])
    return " ".join(_word(rng, k, unseen) for k in kinds)


def phrase(rng, label, unseen):
    return str(rng.choice((TEST_PHRASES if unseen else PHRASES)[label]))


def spelled(rng, label):
    """A phrase in espeak-ng's phonemes, in some accent."""
    return "[[" + "".join(str(rng.choice(part)) for part in SPELLED[label]) + "]]"


def near(rng, unseen):
    """A sound next to a phrase, for training only."""
    return f"[[{rng.choice(NEAR[str(rng.choice(list(NEAR)))])}]]"
