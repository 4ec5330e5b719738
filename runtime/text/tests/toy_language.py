"""Toy language of the small model: questions to a robot, and its answers.

A turn is `Q: question`, a line break, `A: answer`. The question `what next?` refers to the previous
answer and needs the context of earlier turns. Greetings have characters of two to four bytes.
"""

LISTS = [
    "monday tuesday wednesday thursday friday saturday sunday",
    "january february march april may june july august september october november december",
    "zero one two three four five six seven eight nine ten eleven twelve",
    "red orange yellow green blue violet",
]
GREETINGS = {
    "german": "grüß dich",
    "french": "enchanté",
    "czech": "dobrý den",
    "greek": "γεια σου",
    "russian": "привет",
    "japanese": "こんにちは",
    "chinese": "你好",
    "wave": "👋🏽 hi",
}
NEXT = {}
for words in map(str.split, LISTS):
    NEXT.update(zip(words, words[1:] + words[:1]))


def turns(rng, count):
    """Returns `count` questions and answers; `rng` is a `random.Random`."""
    found, last = [], None
    for _ in range(count):
        kind = rng.random()
        if last is not None and kind < 0.4:
            question, last = "what next?", NEXT[last]
            answer = last
        elif kind < 0.8:
            word = rng.choice(list(NEXT))
            question, last = f"what comes after {word}?", NEXT[word]
            answer = last
        elif kind < 0.9:
            start = rng.choice(list(NEXT))
            words = [start]
            for _ in range(3):
                words.append(NEXT[words[-1]])
            question, last = f"go on from {start}", words[-1]
            answer = ", ".join(words[1:])
        else:
            language, last = rng.choice(list(GREETINGS)), None
            question, answer = f"say hello in {language}", GREETINGS[language]
        found.append((question, answer))
    return found


def prompt(question):
    """Prompt up to the answer."""
    return f"Q: {question}\nA:"


def reply(answer):
    """Answer of the model after a prompt, without the EOS token."""
    return f" {answer}"


def lines():
    """All sentences, as training data for tokenizers."""
    for word, following in NEXT.items():
        yield prompt(f"what comes after {word}?") + reply(following) + "\n"
        yield prompt(f"go on from {word}") + reply(f"{following}, {NEXT[following]}") + "\n"
    for language, greeting in GREETINGS.items():
        yield prompt(f"say hello in {language}") + reply(greeting) + "\n"
    yield prompt("what next?") + "\n"
