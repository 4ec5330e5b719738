"""Training data and decoding of the G2P network: words and pseudowords with the phones of
espeak-ng.
"""
import collections

import numpy as np
import torch
from torch.nn import functional as F

import networks
import phones
from language import language
from sections import pick

# Number of pseudowords, and the order of the letter n-grams that generate them.
PSEUDOWORDS, ORDER = 40000, 3
# Every word at this step of the word list is held out from training, with its inflections.
HOLD_OUT_EVERY = 12


def letter_ids(word):
    return [networks.LETTERS.index(letter) + 1 for letter in word]


def is_learnable(word, pronunciation):
    """Returns true if the outputs suffice: two for each letter, with a blank between equal phones.
    """
    doubled = sum(a == b for a, b in zip(pronunciation, pronunciation[1:]))
    return (pronunciation and len(word) <= networks.MAX_WORD_LETTERS and len(pronunciation) + doubled <= 2 * len(word)
            and all(letter in networks.LETTERS for letter in word))


def held_out_words():
    """Returns the base words that the network is not trained on."""
    return set(language.word_list()[::HOLD_OUT_EVERY])


def has_held_out_stem(word, held_out):
    return any(word.startswith(stem) and len(word) - len(stem) <= 3
               for stem in held_out if len(stem) > 2 and stem[0] == word[0])


def pseudowords(rng, words, count):
    """Generates words that look like those of the language from an n-gram model of the letters of `words`."""
    following = collections.defaultdict(list)
    for word in words:
        padded = "^" * ORDER + word + "$"
        for i in range(ORDER, len(padded)):
            following[padded[i - ORDER:i]].append(padded[i])
    generated = set()
    while len(generated) < count:
        text = "^" * ORDER
        while not text.endswith("$") and len(text) < networks.MAX_WORD_LETTERS:
            text += pick(rng, following[text[-ORDER:]])
        if text.endswith("$") and len(text) - ORDER > 3:
            generated.add(text[ORDER:-1])
    return sorted(generated)


def stressed_symbols(lexicon):
    """Returns the index of each phone with its stress mark; 0 is the blank."""
    symbols = sorted({phone for pronunciation in lexicon.values() for phone in pronunciation})
    return {phone: i + 1 for i, phone in enumerate(symbols)}


def word_pairs(lexicon, seed):
    """Returns the (word, phones) pairs of training and test."""
    held_out = held_out_words()
    known = {w: p for w, p in lexicon.items() if w not in language.WEAK and is_learnable(w, p)}
    test = {w: p for w, p in known.items() if has_held_out_stem(w, held_out)}
    train = {w: p for w, p in known.items() if w not in test}
    symbols = stressed_symbols(lexicon)
    for word in pseudowords(np.random.default_rng([seed, 5]), sorted(train), PSEUDOWORDS):
        pronunciation = phones.pronounce(word)
        if word not in test and is_learnable(word, pronunciation) and all(phone in symbols for phone in pronunciation):
            train.setdefault(word, pronunciation)
    return sorted(train.items()), sorted(test.items())


def draw_batch(rng, pairs, symbols, size):
    chosen = [pairs[int(rng.integers(len(pairs)))] for _ in range(size)]
    ids = torch.zeros(size, networks.MAX_WORD_LETTERS, dtype=torch.long)
    targets = torch.zeros(size, networks.MAX_WORD_LETTERS * 2, dtype=torch.long)
    for row, (word, pronunciation) in enumerate(chosen):
        ids[row, :len(word)] = torch.tensor(letter_ids(word))
        targets[row, :len(pronunciation)] = torch.tensor([symbols[phone] for phone in pronunciation])
    input_lengths = torch.tensor([2 * len(word) for word, _ in chosen])
    target_lengths = torch.tensor([len(pronunciation) for _, pronunciation in chosen])
    return ids, (ids > 0).float()[:, None], targets, input_lengths, target_lengths


def ctc_loss(model, batch):
    ids, mask, targets, input_lengths, target_lengths = batch
    longest = int(input_lengths.max()) // 2
    scores = model(ids[:, :longest], mask[:, :, :longest]).float()
    loss = F.ctc_loss(scores.log_softmax(2).transpose(0, 1), targets, input_lengths, target_lengths, zero_infinity=True)
    return loss, {"ctc": loss}


def decode(model, words, names, batch_size=512):
    """Returns the phones of words by greedy decoding; `names` are those of the output columns."""
    decoded = []
    for first in range(0, len(words), batch_size):
        batch = words[first:first + batch_size]
        ids = torch.zeros(len(batch), networks.MAX_WORD_LETTERS, dtype=torch.long)
        for row, word in enumerate(batch):
            ids[row, :len(word)] = torch.tensor(letter_ids(word))
        with torch.no_grad():
            best = model(ids, (ids > 0).float()[:, None]).argmax(2).tolist()
        for word, row in zip(batch, best):
            row = row[:2 * len(word)]
            decoded.append([names[b] for i, b in enumerate(row) if b and (i == 0 or b != row[i - 1])])
    return decoded
