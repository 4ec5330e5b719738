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
# In training so many of the spaces before words that are only read are tokens of their own: the word then has the token
# that it has behind a quotation mark.
APART = 0.05


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


def after_space(tokenizer):
    """The tokens that differ by a space before them: of each with one, by its number, that of the other."""
    number = tokenizer.get_vocab()
    return {number[piece]: number[piece[1:]] for piece in number if piece.startswith(SPACE) and piece[1:] in number}


def parts(system, turns):
    """(text, the number of the turn in which the model says it or None) of a dialogue, in order."""
    yield BEGIN + (f"{SYSTEM} {system}{END}" if system else ""), None
    for number, turn in enumerate(turns):
        yield f"{USER} {turn.user}{END}{ASSISTANT}", None
        for call, result in turn.calls:
            yield f"{CALL}{call}{END}", number
            yield f"{RESULT}{result}{END}{ASSISTANT}", None
        yield f" {turn.answer}{END}", number


def encoded(rng, tokenizer, bare, system, turns):
    """Tokens of a dialogue for training, and for each that is to be learnt the number of its turn, for the others None;
    `bare` is what `after_space` gives."""
    space = tokenizer.token_to_id(SPACE)
    tokens, learnt = [], []
    texts, said = zip(*parts(system, turns))
    for part, number in zip(tokenizer.encode_batch(list(texts), add_special_tokens=False), said):
        for token in part.ids:
            apart = number is None and token in bare and rng.random() < APART
            new = [space, bare[token]] if apart else [token]
            tokens += new
            learnt += [number] * len(new)
    return tokens, learnt


def prompt(system, turns, user, calls=()):
    """The text after which the model answers `user`, or the results of `calls` made for it."""
    asked = "".join(text for text, _ in parts(system, turns)) + f"{USER} {user}{END}{ASSISTANT}"
    return asked + "".join(f"{CALL}{call}{END}{RESULT}{result}{END}{ASSISTANT}" for call, result in calls)

