"""Words and made-up words with the phones that espeak-ng gives them, for the speller."""
import collections

import numpy as np
import torch
from torch.nn import functional as F

import networks
import phones
import sentences

MADE_UP, ORDER = 40000, 3
# Every so-many'th listed word is kept from training, with all its forms.
KEPT_FROM_TRAINING = 12


def letters(word):
    return [networks.LETTERS.index(letter) + 1 for letter in word]


def fits(word, spelled):
    """Whether the speller can read the word: two places a letter, and one between equal phones."""
    doubled = sum(a == b for a, b in zip(spelled, spelled[1:]))
    return (spelled and len(word) <= networks.LONGEST_WORD and len(spelled) + doubled <= 2 * len(word)
            and all(letter in networks.LETTERS for letter in word))


def kept_words():
    """Words of the list that the speller never trains on."""
    return set(sentences.word_list()[::KEPT_FROM_TRAINING])


def stem_kept(word, kept):
    return any(word.startswith(stem) and len(word) - len(stem) <= 3 for stem in kept if len(stem) > 2 and stem[0] == word[0])


def made_up(rng, words, count):
    """Words that look English: letters drawn after the ORDER before them."""
    after = collections.defaultdict(list)
    for word in words:
        padded = "^" * ORDER + word + "$"
        for i in range(ORDER, len(padded)):
            after[padded[i - ORDER:i]].append(padded[i])
    found = set()
    while len(found) < count:
        text = "^" * ORDER
        while not text.endswith("$") and len(text) < networks.LONGEST_WORD:
            text += sentences.pick(rng, after[text[-ORDER:]])
        if text.endswith("$") and len(text) - ORDER > 3:
            found.add(text[ORDER:-1])
    return sorted(found)


def stressed_symbols(lexicon):
    """Number of every phone with its stress; 0 is nothing."""
    found = sorted({phone for spelled in lexicon.values() for phone in spelled})
    return {phone: i + 1 for i, phone in enumerate(found)}


def pairs(lexicon, seed):
    """(words with phones for training, kept ones for test)."""
    kept = kept_words()
    known = {w: s for w, s in lexicon.items() if w not in phones.WEAK and fits(w, s)}
    test = {w: s for w, s in known.items() if stem_kept(w, kept)}
    train = {w: s for w, s in known.items() if w not in test}
    inventory = stressed_symbols(lexicon)
    for word in made_up(np.random.default_rng([seed, 5]), sorted(train), MADE_UP):
        spelled = phones.pronounce(word)
        if word not in test and fits(word, spelled) and all(phone in inventory for phone in spelled):
            train.setdefault(word, spelled)
    return sorted(train.items()), sorted(test.items())


def batch(rng, found, inventory, size):
    chosen = [found[int(rng.integers(len(found)))] for _ in range(size)]
    ids = torch.zeros(size, networks.LONGEST_WORD, dtype=torch.long)
    targets = torch.zeros(size, networks.LONGEST_WORD * 2, dtype=torch.long)
    for row, (word, spelled) in enumerate(chosen):
        ids[row, :len(word)] = torch.tensor(letters(word))
        targets[row, :len(spelled)] = torch.tensor([inventory[phone] for phone in spelled])
    places = torch.tensor([2 * len(word) for word, _ in chosen])
    return ids, (ids > 0).float()[:, None], targets, places, torch.tensor([len(s) for _, s in chosen])


def loss(model, made):
    ids, mask, targets, places, lengths = made
    longest = int(places.max()) // 2
    scores = model(ids[:, :longest], mask[:, :, :longest]).float()
    value = F.ctc_loss(scores.log_softmax(2).transpose(0, 1), targets, places, lengths, zero_infinity=True)
    return value, {"ctc": value}


def read(model, words, names, together=512):
    """Phones that the speller gives for words; `names` are those of its columns."""
    found = []
    for first in range(0, len(words), together):
        part = words[first:first + together]
        ids = torch.zeros(len(part), networks.LONGEST_WORD, dtype=torch.long)
        for row, word in enumerate(part):
            ids[row, :len(word)] = torch.tensor(letters(word))
        with torch.no_grad():
            best = model(ids, (ids > 0).float()[:, None]).argmax(2).tolist()
        for word, row in zip(part, best):
            row = row[:2 * len(word)]
            found.append([names[b] for i, b in enumerate(row) if b and (i == 0 or b != row[i - 1])])
    return found
