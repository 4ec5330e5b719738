"""The tokenizer, and how a dialogue is written for the model."""
import collections
import json
import random

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dialogues import dialogue

PAD, BEGIN, END, SYSTEM, USER, ASSISTANT, CALL, RESULT = SPECIAL = (
    "<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|call|>", "<|result|>")
PIECES, DIALOGUES = 1150, 4000
SPACE = "Ġ"  # how the alphabet of bytes writes a space
WORDS = r"\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
# In this share of the dialogues of training, what is only read is cut smaller: of each pair that was joined, so many come
# apart. So a word is the same word however it is cut, with a space before it and without.
CUT_DIALOGUES, CUT = 0.5, 0.1


def splitter(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def texts(seed):
    """All texts of some dialogues."""
    rng = random.Random(seed)
    for _ in range(DIALOGUES):
        system, turns = dialogue(rng, 8)
        yield system or ""
        for turn in turns:
            yield from (turn.user, turn.answer, *(text for made in turn.calls for text in made))


def train(seed, path):
    """Byte-level pairs in lower case. A word is cut in the same way after a space as after a quotation mark.

    Pairs are learnt without spaces; those of a space and a piece come last. So a name in a sentence and the same name
    in a tool's argument consist of corresponding tokens, and copying one to the other is easily learnt.
    """
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), splitter(r"\s|" + WORDS)
    trainer = trainers.BpeTrainer(vocab_size=PIECES, special_tokens=list(SPECIAL), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(texts(seed), trainer)
    first = collections.Counter()
    for text in texts(seed + 1):
        for word, _ in made.pre_tokenizer.pre_tokenize_str(made.normalizer.normalize_str(text)):
            first[made.model.tokenize(word)[0].value] += 1
    content = json.loads(made.to_str())["model"]
    vocabulary, merges = content["vocab"], [tuple(pair) for pair in content["merges"]]
    for piece in [piece for piece, count in first.most_common() if count >= 3 and piece != SPACE]:
        vocabulary[SPACE + piece] = len(vocabulary)
        merges.append((SPACE, piece))
    final = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    final.normalizer, final.pre_tokenizer, final.decoder = made.normalizer, splitter(" ?(?:" + WORDS + r")|\s"), decoders.ByteLevel()
    final.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    final.save(str(path), pretty=False)
    return final


def load(path):
    return tokenizers.Tokenizer.from_file(str(path))


def halves(tokenizer):
    """The two tokens that each token was joined from, by its number; single bytes and what marks a dialogue have none."""
    made = json.loads(tokenizer.to_str())["model"]
    number = made["vocab"]
    return {number[first + second]: (number[first], number[second]) for first, second in made["merges"]}


def cut_smaller(rng, ids, halves):
    """The same text in more tokens."""
    cut, waiting = [], ids[::-1]
    while waiting:
        token = waiting.pop()
        if token in halves and rng.random() < CUT:
            waiting += reversed(halves[token])
        else:
            cut.append(token)
    return cut


def parts(system, turns):
    """(text, the number of the turn in which the model says it or None) of a dialogue, in order."""
    yield BEGIN + (f"{SYSTEM} {system}{END}" if system else ""), None
    for number, turn in enumerate(turns):
        yield f"{USER} {turn.user}{END}{ASSISTANT}", None
        for call, result in turn.calls:
            yield f"{CALL}{call}{END}", number
            yield f"{RESULT}{result}{END}{ASSISTANT}", None
        yield f" {turn.answer}{END}", number


def encoded(rng, tokenizer, halves, system, turns):
    """Tokens of a dialogue for training, and for each that is to be learnt the number of its turn, for the others None."""
    tokens, learnt, smaller = [], [], rng.random() < CUT_DIALOGUES
    texts, said = zip(*parts(system, turns))
    for part, number in zip(tokenizer.encode_batch(list(texts), add_special_tokens=False), said):
        ids = cut_smaller(rng, part.ids, halves) if smaller and number is None else part.ids
        tokens += ids
        learnt += [number] * len(ids)
    return tokens, learnt


def prompt(system, turns, user, calls=()):
    """The text after which the model answers `user`, or the results of `calls` made for it."""
    asked = "".join(text for text, _ in parts(system, turns)) + f"{USER} {user}{END}{ASSISTANT}"
    return asked + "".join(f"{CALL}{call}{END}{RESULT}{result}{END}{ASSISTANT}" for call, result in calls)

