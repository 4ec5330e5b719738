"""Exports a small vision-language model in three forms, and the answers of their reference loops.

    python vlm.py DIR [--cases]     # nodes/vision/tests/data/vlm

| folder | form | image | positions |
|---|---|---|---|
| `executorch` | MultimodalRunner: part after part | `u8[3, H, W]`, longest side 32, no border; bf16 rows | `i64[1]` |
| `optimum` | rows replace the tokens of the image | `f32[1, 3, 32, 32]`, stretched, -1 to 1 | `i64[S]` |
| `rne` | rows are spliced in; embeddings of each layer | `bf16[1, 3, 32, 32]`, 0 to 255, border of the corners | `i64[S]` |

All have the same rule: a question names a quarter of an image, such as "top left", and the answer spells
its color. A word that a question leaves out is that of an earlier question. With several images, "first"
asks about the first one, otherwise it is the last. The encoder gives a row for each quarter; the decoder
finds rows, words and the start of the answer in its cache by attention. `--cases` writes only the cases.
Needs torch, executorch, tokenizers, jinja2 and Pillow.
"""
import json
import os
import sys

import jinja2
import numpy as np
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.export import Dim, export

SPECIAL = ["<s>", "<|user|>", "<|assistant|>", "<|end|>", "<image>", "<img>", "</img>"]
WORDS = {"top": (11, 1), "bottom": (11, -1), "left": (13, 1), "right": (13, -1), "first": (15, 1), "second": (15, -1)}
COLORS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "white": (1, 1, 1), "black": (0, 0, 0),
          "yellow": (1, 1, 0)}
# Values of an embedding: quarter, color, flags of rows and words each before a value, start of an answer.
QUARTER, COLOR, IS_ROW, ASSISTANT, WIDTH = slice(0, 4), slice(4, 10), 10, 17, 20
SIDE, CONTEXT, LETTERS, CHUNK = 32, 160, 8, 32
SIGNS = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
TEMPLATE = """{{ '<s>' }}{% for message in messages %}{{ '<|' + message.role + '|>' }}\
{% if message.content is string %}{% if message.role == 'user' %}{{ ' ' }}{% endif %}{{ message.content }}\
{% else %}{% for part in message.content %}\
{% if part.type == 'image' %}<image>{% else %} {{ part.text }}{% endif %}{% endfor %}{% endif %}<|end|>{% endfor %}\
{% if add_generation_prompt %}<|assistant|>{% endif %}"""


def make_tokenizer(path):
    """Writes a tokenizer with the words, and letters for the rest."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)] + [".", "Ġ"]
    tokenizer.train_from_iterator([f" {word}" for word in WORDS for _ in range(9)], trainers.BpeTrainer(
        vocab_size=200, special_tokens=SPECIAL, initial_alphabet=letters, show_progress=False))
    tokenizer.save(path)
    return tokenizer


class Encoder(nn.Module):
    """Image to four rows. `scale` and `shift` undo the preparation of the image."""

    def __init__(self, scale, shift, dtype):
        super().__init__()
        self.scale, self.shift, self.dtype = scale, shift, dtype
        self.register_buffer("colors", torch.tensor(list(COLORS.values()), dtype=torch.float32))

    def forward(self, image):
        x = image.float() * self.scale + self.shift
        if image.dim() == 4:
            x = x[0]
        height, width = x.shape[1], x.shape[2]
        y_top = (torch.arange(height) * 2 < height).float()
        x_left = (torch.arange(width) * 2 < width).float()
        means = []
        for rows in (y_top, 1 - y_top):
            for columns in (x_left, 1 - x_left):
                total = (x * rows[:, None] * columns).sum((1, 2))
                means.append(total / (rows.sum() * columns.sum()))
        mean = torch.stack(means)
        score = mean @ self.colors.T - 0.5 * (self.colors * self.colors).sum(1)
        found = torch.softmax(score * 40, 1)
        rest = torch.zeros(4, WIDTH - 11)
        return torch.cat([torch.eye(4), found, torch.ones(4, 1), rest], 1)[None].to(self.dtype)


class Embedding(nn.Module):
    """Embedding of the tokens; with `has_layers`, the flag of the start of an answer is one of a layer."""

    def __init__(self, tokenizer, dtype, has_layers):
        super().__init__()
        self.dtype, self.has_layers = dtype, has_layers
        table = torch.zeros(tokenizer.get_vocab_size(), WIDTH)
        for word, (flag, value) in WORDS.items():
            row = table[tokenizer.token_to_id(f"Ġ{word}")]
            row[flag], row[flag + 1] = 1, value
        start = torch.zeros(tokenizer.get_vocab_size(), 2)
        start[tokenizer.token_to_id("<|assistant|>"), 0] = 1
        if not has_layers:
            table[:, ASSISTANT] = start[:, 0]
        self.embed, self.layers = nn.Embedding.from_pretrained(table), nn.Embedding.from_pretrained(start)

    def forward(self, tokens):
        rows = self.embed(tokens).to(self.dtype)
        return (rows, self.layers(tokens).unflatten(2, (1, 2))) if self.has_layers else rows


class Decoder(nn.Module):
    """Embeddings to logits, with a cache of the embeddings."""

    def __init__(self, tokenizer, positions_each, last_only):
        super().__init__()
        self.positions_each, self.last_only = positions_each, last_only
        spelling = torch.zeros(len(COLORS), LETTERS, tokenizer.get_vocab_size())
        for color, name in enumerate(COLORS):
            tokens = [tokenizer.token_to_id(letter) for letter in f"{name}."] + [tokenizer.token_to_id("<|end|>")]
            for at in range(LETTERS):
                spelling[color, at, tokens[min(at, len(tokens) - 1)]] = 1
        self.register_buffer("spelling", spelling.flatten(0, 1))
        self.register_buffer("signs", SIGNS.clone())
        self.register_buffer("cache", torch.zeros(CONTEXT, WIDTH))

    def latest(self, flag, value, before):
        """The value of the latest position with the flag, and 1 if there is one."""
        is_flagged = before & (self.cache[:, flag] > 0.5)
        score = torch.where(is_flagged, torch.arange(CONTEXT) * 20.0, -1e9)
        weights = torch.softmax(score, 1) * is_flagged
        return weights @ value, weights.sum(1)

    def decode(self, rows, positions):
        if not self.positions_each:
            positions = positions + torch.arange(rows.size(1))
        self.cache.index_put_((positions,), rows[0].float())
        slots = torch.arange(CONTEXT)
        before = slots[None] <= positions[:, None]
        vertical, _ = self.latest(11, self.cache[:, 12], before)
        horizontal, _ = self.latest(13, self.cache[:, 14], before)
        order, is_ordered = self.latest(15, self.cache[:, 16], before)
        # Without a word, it is the last image.
        order = order - (1 - is_ordered)
        signs = self.cache[:, QUARTER] @ self.signs
        match = vertical[:, None] * signs[:, 0] + horizontal[:, None] * signs[:, 1]
        score = match * 10000.0 - order[:, None] * slots * 20.0
        score = torch.where(before & (self.cache[:, IS_ROW] > 0.5), score, -1e9)
        color = torch.softmax(score, 1) @ self.cache[:, COLOR]
        start, _ = self.latest(ASSISTANT, slots.float(), before)
        letter = positions - start
        at = torch.relu(1 - (letter[:, None] - torch.arange(LETTERS)).abs())
        logits = (color[:, :, None] * at[:, None]).flatten(1) @ self.spelling * 10
        return logits[-1:] if self.last_only else logits[None]

    def forward(self, rows, positions):
        return self.decode(rows, positions)


class LayersDecoder(Decoder):
    """The same, with embeddings of each layer."""

    def forward(self, rows, layers, positions):
        start = torch.cat([torch.zeros(1, rows.size(1), ASSISTANT), layers[:, :, 0, :1],
                           torch.zeros(1, rows.size(1), WIDTH - ASSISTANT - 1)], 2)
        return self.decode(rows + start, positions)


class Form:
    """A form of the model with its preparation of images and its prompt."""

    def __init__(self, name, tokenizer):
        self.name, self.tokenizer = name, tokenizer
        float32, bf16 = torch.float32, torch.bfloat16
        self.dtype, self.image_dtype, scale, shift = {
            "executorch": (bf16, torch.uint8, 1 / 255, 0.0), "optimum": (float32, float32, 0.5, 0.5),
            "rne": (float32, bf16, 1 / 255, 0.0)}[name]
        self.encoder = Encoder(scale, shift, self.dtype).eval()
        self.embedding = Embedding(tokenizer, self.dtype, name == "rne").eval()
        self.decoder = (LayersDecoder if name == "rne" else Decoder)(tokenizer, name != "executorch",
                                                                     name == "executorch").eval()
        self.ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}

    def prepare(self, pixels):
        """The input of the encoder for u8 pixels [height, width, 3]."""
        height, width = pixels.shape[:2]
        ratio = SIDE / max(height, width)
        size = (SIDE, SIDE) if self.name == "optimum" else (round(width * ratio), round(height * ratio))
        resized = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))
        if self.name == "rne":
            side = max(min(height, width) // 30, 1)
            corners = [pixels[y, x] for y in (slice(0, side), slice(height - side, None))
                       for x in (slice(0, side), slice(width - side, None))]
            framed = np.empty((SIDE, SIDE, 3), np.uint8)
            framed[:] = np.floor(np.mean([corner.reshape(-1, 3).mean(0) for corner in corners], 0))
            top, left = (SIDE - size[1]) // 2, (SIDE - size[0]) // 2
            framed[top:top + size[1], left:left + size[0]] = resized
            resized = framed
        x = torch.from_numpy(resized.copy()).permute(2, 0, 1)
        if self.name == "executorch":
            return x
        return (x.float() / 127.5 - 1 if self.name == "optimum" else x.float())[None].to(self.image_dtype)

    def prompt(self, turns):
        """Tokens and images of a prompt: parts of tokens, and the number of an image."""
        encode, shown, parts = lambda text: self.tokenizer.encode(text).ids, set(), [[self.ids["<s>"]]]
        if self.name == "executorch":
            for images, question, said in turns:
                parts.append([self.ids["<|user|>"]])
                parts += [number for number in images if number not in shown]
                shown |= set(images)
                parts.append(encode(f" {question}") + [self.ids["<|end|>"], self.ids["<|assistant|>"]] + said)
            return parts
        messages, order, answers = [], [], []
        for images, question, said in turns:
            new = [number for number in images if number not in shown]
            shown |= set(images)
            order += new
            content = [{"type": "image"}] * len(new) + [{"type": "text", "text": question}]
            messages.append({"role": "user", "content": content if new else question})
            if said:
                messages.append({"role": "assistant", "content": self.tokenizer.decode(said)})
                answers.append(said)
        text = jinja2.Environment().from_string(TEMPLATE).render(messages=messages, add_generation_prompt=True)
        tokens, parts = encode(text), []
        # The tokens that the model generated are kept, which the tokenizer may write in another way.
        starts = [at for at, token in enumerate(tokens) if token == self.ids["<|assistant|>"]]
        for at, said in reversed(list(zip(starts, answers))):
            end = tokens.index(self.ids["<|end|>"], at)
            tokens[at + 1:end + 1] = said
        if self.name == "rne":
            image = [self.ids["<img>"], self.ids["<image>"], self.ids["</img>"]]
            tokens = [one for token in tokens for one in (image if token == self.ids["<image>"] else [token])]
        for token in tokens:
            if token == self.ids["<image>"]:
                parts.append(order.pop(0))
            elif parts and isinstance(parts[-1], list):
                parts[-1].append(token)
            else:
                parts.append([token])
        return parts

    def embed(self, tokens):
        outputs = self.embedding(torch.tensor([tokens]))
        return outputs if self.name == "rne" else (outputs,)

    def run(self, inputs, at):
        count = inputs[0].shape[1]
        positions = torch.arange(at, at + count) if self.decoder.positions_each else torch.tensor([at])
        return self.decoder(*inputs, positions).reshape(-1, self.tokenizer.get_vocab_size())[-1]

    def answer(self, parts, rows):
        """Tokens of the context and of the answer, by the loop of the reference of the form."""
        self.decoder.cache.zero_()
        context = [token for part in parts
                   for token in (part if isinstance(part, list) else [self.ids["<image>"]] * rows[part].shape[1])]
        if self.name == "executorch":
            at = 0
            for part in parts:
                inputs = self.embed(part) if isinstance(part, list) else (rows[part],)
                logits, at = self.run(inputs, at), at + inputs[0].shape[1]
        else:
            inputs = self.embed([0 if token == self.ids["<image>"] else token for token in context])
            slots = [at for at, token in enumerate(context) if token == self.ids["<image>"]]
            seen = [rows[part] for part in parts if not isinstance(part, list)]
            inputs[0][:, slots] = torch.cat(seen, 1)
            logits, at = self.run(inputs, 0), len(context)
        said = []
        while len(said) < 20:
            said.append(int(logits.argmax()))
            if said[-1] == self.ids["<|end|>"]:
                break
            logits, at = self.run(self.embed([said[-1]]), at), at + 1
        return context + said, said

    def write(self, folder):
        """Exports the program."""
        count = Dim("count", min=1, max=CHUNK)
        rows, tokens = torch.zeros(1, 3, WIDTH, dtype=self.dtype), torch.zeros(1, 3, dtype=torch.long)
        layers, each = torch.zeros(1, 3, 1, 2), self.decoder.positions_each
        positions = torch.arange(3) if each else torch.zeros(1, dtype=torch.long)
        inputs = (rows, layers, positions) if self.name == "rne" else (rows, positions)
        shapes = tuple({0: count} if value is positions and each else None if value is positions else {1: count}
                       for value in inputs)
        if self.name == "executorch":
            height, width = Dim("height", min=8, max=SIDE), Dim("width", min=8, max=SIDE)
            vision = export(self.encoder, (torch.zeros(3, 16, 24, dtype=torch.uint8),),
                            dynamic_shapes=({1: height, 2: width},), strict=False)
        else:
            vision = export(self.encoder, (torch.zeros(1, 3, SIDE, SIDE, dtype=self.image_dtype),), strict=False)
        programs = {"vision_encoder": vision,
                    "token_embedding": export(self.embedding, (tokens,), dynamic_shapes=({1: count},), strict=False),
                    "text_decoder": export(self.decoder, inputs, dynamic_shapes=shapes, strict=False)}
        own = {"executorch": {"get_eos_ids": [self.ids["<|end|>"]], "enable_dynamic_shape": True},
               "optimum": {"get_eos_id": self.ids["<|end|>"], "image_token_id": self.ids["<image>"],
                           "modality": "vision"},
               "rne": {"get_eos_ids": [self.ids["<|end|>"]], "image_placeholder_id": self.ids["<image>"]}}[self.name]
        constants = {"get_max_seq_len": CONTEXT, "get_vocab_size": self.tokenizer.get_vocab_size(),
                     "use_kv_cache": True, **own}
        lowered = to_edge_transform_and_lower(programs, constant_methods=constants,
                                              compile_config=EdgeCompileConfig(_check_ir_validity=False))
        os.makedirs(os.path.join(folder, self.name), exist_ok=True)
        with open(os.path.join(folder, self.name, "model.pte"), "wb") as file:
            lowered.to_executorch().write_to_file(file)


def draw_image(width, height, colors):
    """Pixels with the four colors in the quarters."""
    pixels = np.zeros((height, width, 3), np.uint8)
    for quarter, color in enumerate(colors):
        y, x = quarter // 2, quarter % 2
        pixels[y * height // 2:(y + 1) * height // 2, x * width // 2:(x + 1) * width // 2] = [
            255 * part for part in COLORS[color]]
    return pixels


IMAGES = [(64, 64, ["red", "green", "blue", "white"]), (64, 32, ["yellow", "black", "green", "red"]),
          (40, 80, ["white", "blue", "red", "yellow"]), (64, 48, ["black", "yellow", "white", "green"])]
# Number of images of a question, of earlier questions; then images to show, and questions.
SCRIPTS = [
    (1, 0, [0, "top left", "bottom right", "top right", 1, "top left", "bottom left", 2, "top right", 3,
            "bottom left"]),
    (2, 0, [0, 1, "first top left", "second top left", "top right", 3, "first bottom right", "bottom right"]),
    (1, 4, [0, "top left", "right", "bottom", 2, "left", "first right", "top"]),
    (2, 1, [0, 3, "first top right", "left", 1, "bottom", "first"]),
]


def play(form, script):
    """Runs a script; returns its questions with the tokens of context and answer."""
    size, history, steps = script
    kept, rows, turns, asked = [], {}, [], []
    for step in steps:
        if isinstance(step, int):
            kept = (kept + [step])[-size:]
            rows[step] = form.encoder(form.prepare(draw_image(*IMAGES[step])))
            continue
        turns = turns[-history:] if history else []
        turns.append((list(kept), step, []))
        context, said = form.answer(form.prompt(turns), rows)
        turns[-1] = (*turns[-1][:2], said)
        text = form.tokenizer.decode(said)
        asked.append({"question": step, "context": context, "answer": text})
    return asked


def main(folder, only_cases):
    path = os.path.join(folder, "tokenizer.json")
    tokenizer = Tokenizer.from_file(path) if only_cases else make_tokenizer(path)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as file:
        file.write(TEMPLATE)
    cases = {"images": [{"width": w, "height": h, "quarters": [[255 * x for x in COLORS[c]] for c in colors]}
                        for w, h, colors in IMAGES], "forms": {}}
    for name in ("executorch", "optimum", "rne"):
        form = Form(name, tokenizer)
        cases["forms"][name] = [{"images": script[0], "history": script[1],
                                 "steps": [step for step in script[2]], "asked": play(form, script)}
                                for script in SCRIPTS]
        form.decoder.cache.zero_()
        if not only_cases:
            form.write(folder)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        json.dump(cases, file)
        file.write("\n")
    for name, scripts in cases["forms"].items():
        print(name, [[(one["question"], one["answer"]) for one in script["asked"]] for script in scripts])


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        main(sys.argv[1], "--cases" in sys.argv)
