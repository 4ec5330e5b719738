"""Tokenizer of the language model, and the chat format of dialogues."""
import collections
import json
import random

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dialogues import dialogue

PAD, BEGIN, END, SYSTEM, USER, ASSISTANT, CALL, RESULT = SPECIAL = (
    "<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|call|>", "<|result|>")
# Vocabulary size before the tokens with a leading space; dialogues that the tokenizer is trained
# on.
VOCABULARY_SIZE, TRAIN_DIALOGUES = 1150, 4000
# Number of occurrences from which on a first token of words also gets a variant with a leading
# space.
MIN_SPACE_COUNT = 3
SPACE = "Ġ"  # a space in the byte-level alphabet
WORDS = r"\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
# Probability that a leading space is a token of its own in the context of a training dialogue. The
# word then has the same tokens as after a quotation mark.
SPLIT_SPACE_PROBABILITY = 0.05


def splitter(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def texts(seed):
    """Yields all texts of random dialogues."""
    rng = random.Random(seed)
    for _ in range(TRAIN_DIALOGUES):
        system, turns = dialogue(rng, 8)
        yield system or ""
        for turn in turns:
            yield from (turn.user, turn.answer, *(text for call in turn.calls for text in call))


def train(seed, path):
    """Trains a byte-level BPE tokenizer for lower-case text.

    Merges are learned without spaces; merges of a space and a token are appended. A word in a
    sentence and the same word in a quoted tool argument are therefore split alike, which makes
    copying easy to learn.
    """
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), splitter(r"\s|" + WORDS)
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY_SIZE, special_tokens=list(SPECIAL), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts(seed), trainer)
    first_tokens = collections.Counter()
    for text in texts(seed + 1):
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text)):
            first_tokens[tokenizer.model.tokenize(word)[0].value] += 1
    content = json.loads(tokenizer.to_str())["model"]
    vocabulary, merges = content["vocab"], [tuple(pair) for pair in content["merges"]]
    for token in [token for token, count in first_tokens.most_common() if count >= MIN_SPACE_COUNT and token != SPACE]:
        vocabulary[SPACE + token] = len(vocabulary)
        merges.append((SPACE, token))
    final = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    final.normalizer, final.pre_tokenizer = tokenizer.normalizer, splitter(" ?(?:" + WORDS + r")|\s")
    final.decoder = decoders.ByteLevel()
    final.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    final.save(str(path), pretty=False)
    return final


def load(path):
    return tokenizers.Tokenizer.from_file(str(path))


def without_space(tokenizer):
    """Returns, for the id of each token with a leading space, the id of the token without it."""
    ids = tokenizer.get_vocab()
    return {ids[token]: ids[token[1:]] for token in ids if token.startswith(SPACE) and token[1:] in ids}


def segments(system, turns):
    """Yields (text, index of the turn in which the model generates it, or None) of a dialogue."""
    yield BEGIN + (f"{SYSTEM} {system}{END}" if system else ""), None
    for index, turn in enumerate(turns):
        yield f"{USER} {turn.user}{END}{ASSISTANT}", None
        for call, result in turn.calls:
            yield f"{CALL}{call}{END}", index
            yield f"{RESULT}{result}{END}{ASSISTANT}", None
        yield f" {turn.answer}{END}", index


def encode_dialogue(rng, tokenizer, spaceless, system, turns):
    """Encodes a training dialogue.

    Returns its tokens, and for each token the index of the turn that it is a target of, or None.
    `spaceless` is the result of `without_space`.
    """
    space = tokenizer.token_to_id(SPACE)
    tokens, targets = [], []
    texts, turn_indices = zip(*segments(system, turns))
    for encoding, index in zip(tokenizer.encode_batch(list(texts), add_special_tokens=False), turn_indices):
        for token in encoding.ids:
            is_split = index is None and token in spaceless and rng.random() < SPLIT_SPACE_PROBABILITY
            pieces = [space, spaceless[token]] if is_split else [token]
            tokens += pieces
            targets += [index] * len(pieces)
    return tokens, targets


def prompt(system, turns, user, calls=()):
    """Returns the text after which the model answers `user`, given the `calls` made and their
    results.
    """
    text = "".join(text for text, _ in segments(system, turns)) + f"{USER} {user}{END}{ASSISTANT}"
    return text + "".join(f"{CALL}{call}{END}{RESULT}{result}{END}{ASSISTANT}" for call, result in calls)
