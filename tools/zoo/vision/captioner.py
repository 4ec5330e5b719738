"""Captioner: rows of an image from the network of `objects`, and a decoder that answers questions about them."""
import math
import os
import pathlib

import caption_scenes
import numpy as np
import objects
import torch
from augment import network_input, to_tensor
from layers import fold_batch_norm, upsample
from paths import MODELS, WORK
from shards import Shards
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional as F
from training import Task

from exported_weights import read_xnnpack_convolutions

WIDTH, HEADS, HIDDEN = 96, 4, 192
IMAGE_LAYERS, TEXT_LAYERS = 1, 2
GRID = (8, 10)
ROWS = GRID[0] // 2 * GRID[1]
CHANNELS = 48 + 48 + 4 + 24 + 48
CONTEXT = 384
TURNS = 5
BEGIN, USER, ASSISTANT, END, IMAGE = SPECIAL = ["<|begin|>", "<|user|>", "<|assistant|>", "<|end|>", "<image>"]
VOCABULARY = 384
FEATURES = np.dtype([("features", "f2", (CHANNELS, *GRID)), ("seen", caption_scenes.SEEN, caption_scenes.MAX_OBJECTS),
                     ("count", "i1")])


def load_tokenizer():
    """Returns the tokenizer of the questions and answers, and trains it on first use."""
    path = os.path.join(WORK, "captioner-tokenizer.json")
    if not os.path.exists(path):
        rng = np.random.default_rng(5)
        seen = [record["seen"][:record["count"]] for record in caption_scenes.draw_scenes(rng, 300)]
        texts = [f" {text}" for one in seen for pair in caption_scenes.draw_dialogue(rng, one, 20) for text in pair]
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
            vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False))
        tokenizer.save(path)
    return Tokenizer.from_file(path)


def load_detector():
    """Returns the network of the package `objects`, which is not trained further."""
    network = fold_batch_norm(objects.ObjectsNetwork())
    order = []
    hooks = [module.register_forward_hook(lambda module, *_: order.append(module))
             for module in network.modules() if isinstance(module, nn.Conv2d)]
    network(torch.zeros(1, 3, objects.HEIGHT, objects.WIDTH))
    for hook in hooks:
        hook.remove()
    convolutions = list(read_xnnpack_convolutions(pathlib.Path(MODELS, "objects", "objects_xnnpack.pte")))
    if len(order) != len(convolutions):
        raise SystemExit(f"objects_xnnpack.pte has {len(convolutions)} convolutions instead of {len(order)}")
    for module, (weight, bias) in zip(order, convolutions):
        module.weight.data, module.bias.data = weight, bias
    return network.requires_grad_(False)


class Features(nn.Module):
    """Maps of the detector and colors, for cells of 16 pixels."""

    def __init__(self):
        super().__init__()
        self.detector = load_detector()

    def maps(self, x):
        """Returns maps of the near and the middle level, and the outputs of heads."""
        net, levels = self.detector, []
        y = net.stem((x - 0.5) * 4)
        for level in net.levels:
            y = level(y)
            levels.append(y)
        above = net.lateral[2](levels[2])
        middle = net.lateral[1](levels[1]) + upsample(above)
        near = net.smooth[0](net.lateral[0](levels[0]) + upsample(middle))
        middle, far = net.smooth[1](middle), net.smooth[2](above)
        classes = [head(y) for head, y in zip(net.class_heads, (near, middle, far))]
        return near, middle, net.box_heads[1](middle), *classes

    @staticmethod
    def joined(x, near, middle, boxes, *classes):
        """Returns the features of the image `x`, f32[n, 172, 8, 10]."""
        classes = torch.cat([F.max_pool2d(classes[0], 2), classes[1], upsample(classes[2])], 1)
        n, colors = x.shape[0], F.avg_pool2d(x, 4)
        colors = colors.view(n, 3, GRID[0], 4, GRID[1], 4).permute(0, 1, 3, 5, 2, 4).reshape(n, 48, *GRID)
        return torch.cat([middle, F.max_pool2d(near, 2), boxes, classes * 0.25, (colors - 0.5) * 4], 1)

    def forward(self, x):
        """Image f32[n, 3, 128, 160] from 0 to 1 to f32[n, 172, 8, 10]."""
        return self.joined(x, *self.maps(x))


def turned(x, cos, sin):
    """Rotary position embedding."""
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


class Layer(nn.Module):
    """Attention and feed-forward part."""

    def __init__(self):
        super().__init__()
        self.norm, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def heads(self, x):
        return x.view(x.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2)

    def attend(self, query, key, value, mask):
        scores = query @ key.transpose(2, 3) * (WIDTH // HEADS) ** -0.5 + mask
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(query.shape[0], -1, WIDTH))

    def feed(self, x):
        return x + self.down(F.gelu(self.up(self.second(x))))


class Vision(nn.Module):
    """Features to rows."""

    def __init__(self):
        super().__init__()
        self.project = nn.Sequential(nn.Linear(2 * CHANNELS, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))
        self.positions = nn.Parameter(torch.randn(ROWS, WIDTH) * 0.2)
        self.layers = nn.ModuleList([Layer() for _ in range(IMAGE_LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, features):
        """f32[n, 172, 8, 10] to f32[n, 40, 96]: a row for each two cells, one above the other."""
        n = features.shape[0]
        pairs = features.view(n, CHANNELS, GRID[0] // 2, 2, GRID[1]).permute(0, 2, 4, 1, 3)
        x = self.project(pairs.reshape(n, ROWS, 2 * CHANNELS)) + self.positions
        for layer in self.layers:
            y = layer.norm(x)
            x = x + layer.attend(*(layer.heads(part(y)) for part in (layer.query, layer.key, layer.value)),
                                 torch.zeros(1))
            x = layer.feed(x)
        return self.norm(x)


class Decoder(nn.Module):
    """Rows and embeddings of tokens to logits of tokens."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embed.weight, std=0.1)
        self.layers = nn.ModuleList([Layer() for _ in range(TEXT_LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        rate = 10000.0 ** (-torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))
        angles = torch.arange(CONTEXT)[:, None] * rate
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def logits(self, x):
        return self.norm(x) @ self.embed.weight.T

    def forward(self, x):
        """f32[n, s, 96] to f32[n, s, 384], without a cache."""
        count = x.shape[1]
        mask = torch.full((count, count), -1e9).triu(1)
        cos, sin = self.cos[:count], self.sin[:count]
        for layer in self.layers:
            y = layer.norm(x)
            query, key = (turned(layer.heads(part(y)), cos, sin) for part in (layer.query, layer.key))
            x = x + layer.attend(query, key, layer.heads(layer.value(y)), mask)
            x = layer.feed(x)
        return self.logits(x)


class Captioner(nn.Module):
    """Features of an image and tokens to logits."""

    def __init__(self):
        super().__init__()
        self.vision, self.decoder = Vision(), Decoder()

    def forward(self, features, before, after):
        """Logits of the tokens `after`; the rows are between `before` and `after`."""
        embed = self.decoder.embed
        x = torch.cat([embed(before), self.vision(features), embed(after)], 1)
        return self.decoder(x)[:, before.shape[1] + ROWS:]


class Dialogues:
    """Dialogues about images as tokens."""

    def __init__(self):
        self.tokenizer = load_tokenizer()
        self.ids = {name: self.tokenizer.token_to_id(name) for name in SPECIAL}
        self.before = [self.ids[BEGIN], self.ids[USER]]

    def encode(self, pairs):
        """Returns the tokens after the image, and 1 for each that is of an answer."""
        tokens, mask = [], []
        for k, (question, answer) in enumerate(pairs):
            asked = [self.ids[USER]] * (k > 0) + self.tokenizer.encode(f" {question}").ids
            asked += [self.ids[END], self.ids[ASSISTANT]]
            said = self.tokenizer.encode(f" {answer}").ids + [self.ids[END]]
            tokens += asked + said
            mask += [0] * len(asked) + [1] * len(said)
        return tokens, mask

    def batch(self, rng, records, turns):
        """Returns tokens and mask of a dialogue for each record, padded."""
        drawn = [self.encode(caption_scenes.draw_dialogue(rng, record["seen"][:record["count"]], turns))
                 for record in records]
        length = max(len(tokens) for tokens, _ in drawn)
        tokens, mask = np.zeros((2, len(drawn), length), np.int64)
        for row, (one, marks) in enumerate(drawn):
            tokens[row, :len(one)], mask[row, :len(one)] = one, marks
        return torch.from_numpy(tokens), torch.from_numpy(mask)


def prepare(images):
    """Returns the input of the program for u8 images (n, 120, 160, 3)."""
    return network_input(objects.letterbox(to_tensor(images)))


class CaptionerTask(Task):
    NAME, STEPS, BATCH_SIZE, MAX_SHARDS, PEAK_LR, SHARD_SIZE = "captioner", 6400, 24, 24, 2e-3, 512
    RESTART = 4200

    def __init__(self, seed):
        super().__init__(seed)
        self.features, self.dialogues = Features().eval(), Dialogues()
        self.shards = Shards("captions", "train", seed, self.draw, self.SHARD_SIZE)
        self.validation = Shards("captions", "validation", seed, self.draw, self.SHARD_SIZE)

    def draw(self, rng, count):
        """Draws scenes with the features of their images."""
        scenes, drawn = caption_scenes.draw_scenes(rng, count), np.zeros(count, FEATURES)
        drawn["seen"], drawn["count"] = scenes["seen"], scenes["count"]
        with torch.no_grad():
            for start in range(0, count, 32):
                part = slice(start, start + 32)
                drawn["features"][part] = self.features(prepare(scenes["image"][part])).numpy()
        return drawn

    def network(self):
        return Captioner()

    def entropy(self, network, rng, records):
        """Returns the loss, and the share of the answers that are right in all tokens."""
        tokens, mask = self.dialogues.batch(rng, records, TURNS)
        before = torch.tensor([self.dialogues.before]).expand(len(records), -1)
        features = torch.from_numpy(records["features"].astype(np.float32))
        logits = network(features, before, tokens)[:, :-1]
        wanted, mask = tokens[:, 1:], mask[:, 1:]
        losses = F.cross_entropy(logits.reshape(-1, VOCABULARY), wanted.reshape(-1), reduction="none")
        wrong = ((logits.argmax(-1) != wanted) & (mask > 0)).int()
        # An answer begins where the mask does.
        answer = (F.pad(mask, (1, 0))[:, :-1] < mask).cumsum(1) * mask
        missed = torch.zeros(len(records), TURNS + 1, dtype=torch.int).scatter_add_(1, answer, wrong)[:, 1:]
        is_asked = torch.arange(TURNS) < answer.max(1, keepdim=True).values
        return (losses * mask.reshape(-1)).sum() / mask.sum(), (missed == 0)[is_asked].float().mean()

    def loss(self, network, rng, shards):
        return self.entropy(network, rng, self.shards.sample(rng, self.BATCH_SIZE, shards))[0]

    def validate(self, network):
        rng, records = np.random.default_rng(1), self.validation.first(self.SHARD_SIZE)
        with torch.no_grad():
            parts = [self.entropy(network, rng, records[start:start + 64]) for start in range(0, len(records), 64)]
        loss, right = (float(torch.stack([part[k] for part in parts]).mean()) for k in (0, 1))
        return {"loss": loss, "right": right, "perplexity": math.exp(loss)}
