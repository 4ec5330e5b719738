"""The translator: a transformer with an encoder and a decoder, and its tokenizer."""
import math
import os

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional as F

import pairs

WORK = os.path.join(os.path.dirname(pairs.HERE), "work", "translate")
PAD, START, END = SPECIAL = ("<pad>", "<s>", "</s>")
VOCABULARY, TOKENIZER_PAIRS = 1200, 30000
WIDTH, HEADS, LAYERS, INNER = 160, 4, 3, 320
# Most tokens of a text.
POSITIONS = 64
MASKED = -1e4


def tokenizer(seed=1):
    """Byte-level BPE of both languages, trained on first use."""
    import numpy as np
    path = os.path.join(WORK, "tokenizer.json")
    if os.path.exists(path):
        return Tokenizer.from_file(path)
    os.makedirs(WORK, exist_ok=True)
    rng, made = np.random.default_rng([seed, 9]), Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    texts = (text for _ in range(TOKENIZER_PAIRS) for text in pairs.pair(rng))
    made.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.save(path, pretty=False)
    return made


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    @staticmethod
    def split(x):
        """[B, N, WIDTH] -> [B, HEADS, N, WIDTH / HEADS]"""
        return x.view(x.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x, key, value, mask):
        """Rows [B, N, WIDTH] of the values that match; key and value are split into heads."""
        scores = self.split(self.query(x)) @ key.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask
        joined = (scores.softmax(-1) @ value).transpose(1, 2)
        return self.out(joined.reshape(x.shape[0], -1, WIDTH))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        return x + self.narrow(F.gelu(self.wide(self.norm(x))))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention, self.feed_forward = nn.LayerNorm(WIDTH), Attention(), FeedForward()

    def forward(self, x, mask):
        y, attention = self.norm(x), self.attention
        keys, values = attention.split(attention.key(y)), attention.split(attention.value(y))
        return self.feed_forward(x + attention(y, keys, values, mask))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.own_norm, self.own, self.cross_norm, self.cross = (
            nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), Attention())
        self.feed_forward = FeedForward()

    def own_rows(self, y):
        return self.own.split(self.own.key(y)), self.own.split(self.own.value(y))

    def forward(self, x, y, keys, values, mask, rows, row_mask):
        """`y` is the normalized `x`, `keys` and `values` are those of the tokens so far."""
        x = x + self.own(y, keys, values, mask)
        key, value = self.cross.split(self.cross.key(rows)), self.cross.split(self.cross.value(rows))
        return self.feed_forward(x + self.cross(self.cross_norm(x), key, value, row_mask))


class Translator(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.source_positions, self.target_positions = nn.Embedding(POSITIONS, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        for table in (self.tokens, self.source_positions, self.target_positions):
            nn.init.normal_(table.weight, std=0.05)
        self.encoder_layers = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.decoder_layers = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def encode(self, ids, mask):
        x = self.tokens(ids) + self.source_positions.weight[:ids.shape[1]]
        for layer in self.encoder_layers:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def logits(self, x):
        return self.decoder_norm(x) @ self.tokens.weight.T

    def forward(self, ids, mask, targets):
        """Logits after each token of `targets`; `mask` is 0, and MASKED where `ids` is padding."""
        rows, count = self.encode(ids, mask), targets.shape[1]
        x = self.tokens(targets) + self.target_positions.weight[:count]
        causal = torch.full((count, count), MASKED).triu(1)
        for layer in self.decoder_layers:
            y = layer.own_norm(x)
            x = layer(x, y, *layer.own_rows(y), causal, rows, mask)
        return self.logits(x)


class Encoder(nn.Module):
    """The program `encoder`: ids [1, n] -> rows [1, n, WIDTH]."""

    def __init__(self, translator):
        super().__init__()
        self.translator = translator

    def forward(self, ids):
        return self.translator.encode(ids, torch.zeros(1))


class Steps(nn.Module):
    """The program `text_decoder`, with its cache: token [1, 1], rows, position [1] -> logits [1, 1, V]."""

    def __init__(self, translator):
        super().__init__()
        self.translator = translator
        for i in range(LAYERS):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}{i}", torch.zeros(1, HEADS, POSITIONS, WIDTH // HEADS))

    def forward(self, token, rows, position):
        x = self.translator.tokens(token) + self.translator.target_positions(position)[None]
        mask = torch.where(torch.arange(POSITIONS) <= position, 0.0, MASKED)
        for i, layer in enumerate(self.translator.decoder_layers):
            y = layer.own_norm(x)
            keys, values = getattr(self, f"keys{i}"), getattr(self, f"values{i}")
            key, value = layer.own_rows(y)
            keys[:, :, position] = key
            values[:, :, position] = value
            x = layer(x, y, keys, values, mask, rows, torch.zeros(1))
        return self.translator.logits(x)
