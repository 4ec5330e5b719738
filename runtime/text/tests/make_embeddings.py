"""Exports tiny language models with random weights that see: programs of token_embedding, text_decoder and
vision_encoder.

    python runtime/text/tests/make_embeddings.py

Needs torch and executorch. Writes `tests/data/embeddings_*.pte` and `tests/data/embeddings.json`: prompts of
tokens and images with the logits of PyTorch after the last token.

| program | positions | embeddings | as exported by |
|---|---|---|---|
| embeddings_each.pte | `i64[S]` | f32 | optimum |
| embeddings_first.pte | `i64[1]` | bf16, image u8 | ExecuTorch |
| embeddings_layers.pte | `i64[S]` | f32, and one for each layer | react-native-executorch, `has_ple` |
"""

import json
import pathlib
import random

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

DATA = pathlib.Path(__file__).parent / "data"
CONTEXT, VOCABULARY, WIDTH, LAYERS, PER_LAYER = 64, 40, 16, 2, 4
SIDE, PATCH = 8, 4
PLACEHOLDER = 39


class Vision(torch.nn.Module):
    """One row for each patch of an image."""

    def __init__(self, dtype, rows_dtype):
        super().__init__()
        self.dtype, self.rows_dtype = dtype, rows_dtype
        self.patches = torch.nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)

    def forward(self, image):
        rows = self.patches(image.float() / 255.0).flatten(2).transpose(1, 2)
        return (rows * 4.0).to(self.rows_dtype)


class Embedding(torch.nn.Module):
    """Embedding of the tokens, and optionally one for each layer."""

    def __init__(self, dtype, has_layers):
        super().__init__()
        self.dtype, self.has_layers = dtype, has_layers
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layers = torch.nn.Embedding(VOCABULARY, LAYERS * PER_LAYER)

    def forward(self, tokens):
        rows = self.embed(tokens).to(self.dtype)
        if not self.has_layers:
            return rows
        return rows, self.layers(tokens).unflatten(2, (LAYERS, PER_LAYER))


class Decoder(torch.nn.Module):
    """One layer of attention with a cache."""

    def __init__(self, positions_each):
        super().__init__()
        self.positions_each = positions_each
        self.embed_position = torch.nn.Embedding(CONTEXT, WIDTH)
        self.query, self.key, self.value = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.of_layers = torch.nn.Linear(LAYERS * PER_LAYER, WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("keys", torch.zeros(CONTEXT, WIDTH))
        self.register_buffer("values", torch.zeros(CONTEXT, WIDTH))

    def decode(self, rows, positions):
        if not self.positions_each:
            positions = positions + torch.arange(rows.size(1))
        x = rows[0].float()
        x = x + self.embed_position(positions)
        self.keys.index_put_((positions,), self.key(x))
        self.values.index_put_((positions,), self.value(x))
        seen = torch.arange(CONTEXT)[None, :] <= positions[:, None]
        scores = torch.where(seen, self.query(x) @ self.keys.T, torch.full([], -1e9))
        return self.head(x + torch.softmax(scores, -1) @ self.values)[None]

    def forward(self, rows, positions):
        return self.decode(rows, positions)


class LayersDecoder(Decoder):
    """The same, with embeddings of each layer."""

    def forward(self, rows, layers, positions):
        return self.decode(rows + self.of_layers(layers.flatten(2)), positions)


def logits(vision, embedding, decoder, segments):
    """Logits of PyTorch after segments that are prefilled in their order."""
    at, found = 0, None
    decoder.keys.zero_()
    decoder.values.zero_()
    for segment in segments:
        ids = segment.get("tokens") or [0] * (SIDE // PATCH) ** 2
        outputs = embedding(torch.tensor([ids]))
        rows, layers = outputs if embedding.has_layers else (outputs, None)
        if "image" in segment:
            rows = vision(torch.tensor(segment["image"]).reshape(1, 3, SIDE, SIDE).to(vision.dtype))
        positions = torch.arange(at, at + len(ids)) if decoder.positions_each else torch.tensor([at])
        found = decoder(rows, positions) if layers is None else decoder(rows, layers, positions)
        at += len(ids)
    decoder.keys.zero_()
    decoder.values.zero_()
    return [round(float(value), 6) for value in found[0, -1]]


def prompts():
    """Prompts that begin with tokens, begin with an image, have two images or none, and end with an image."""
    rng = random.Random(7)
    tokens = lambda count: {"tokens": [rng.randrange(VOCABULARY - 1) for _ in range(count)]}
    image = lambda: {"image": [rng.randrange(256) for _ in range(3 * SIDE * SIDE)]}
    first, question = image(), tokens(5)
    return [[tokens(1), first, question], [tokens(1), image(), question], [first, tokens(2)],
            [tokens(3), first, tokens(11), image(), tokens(1)], [tokens(14)], [tokens(2), first]]


def write(name, positions_each, dtype, image_dtype, has_layers):
    """Exports a program. Returns its prompts with their logits."""
    vision, embedding = Vision(image_dtype, dtype).eval(), Embedding(dtype, has_layers).eval()
    decoder = (LayersDecoder if has_layers else Decoder)(positions_each).eval()
    cases = [{"segments": prompt, "logits": logits(vision, embedding, decoder, prompt)} for prompt in prompts()]
    count, length = torch.export.Dim("count", min=1, max=16), 3
    ids = torch.zeros(1, length, dtype=torch.long)
    rows, layers = torch.zeros(1, length, WIDTH, dtype=dtype), torch.zeros(1, length, LAYERS, PER_LAYER)
    positions = torch.arange(length) if positions_each else torch.zeros(1, dtype=torch.long)
    inputs = (rows, layers, positions) if has_layers else (rows, positions)
    shapes = tuple({0: count} if value is positions and positions_each else None if value is positions else {1: count}
                   for value in inputs)
    programs = {
        "vision_encoder": torch.export.export(vision, (torch.zeros(1, 3, SIDE, SIDE).to(image_dtype),), strict=False),
        "token_embedding": torch.export.export(embedding, (ids,), dynamic_shapes=({1: count},), strict=False),
        "text_decoder": torch.export.export(decoder, inputs, dynamic_shapes=shapes, strict=False),
    }
    constants = {"get_max_seq_len": CONTEXT, "get_vocab_size": VOCABULARY, "use_kv_cache": True, "get_eos_ids": [2],
                 "vision_token_id": PLACEHOLDER}
    lowered = to_edge_transform_and_lower(programs, constant_methods=constants,
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    target = DATA / name
    target.write_bytes(lowered.to_executorch().buffer)
    print(f"{name}: {target.stat().st_size} bytes", flush=True)
    return cases


def main():
    torch.manual_seed(3)
    with torch.no_grad():
        cases = {
            "embeddings_each.pte": write("embeddings_each.pte", True, torch.float32, torch.float32, False),
            "embeddings_first.pte": write("embeddings_first.pte", False, torch.bfloat16, torch.uint8, False),
            "embeddings_layers.pte": write("embeddings_layers.pte", True, torch.float32, torch.float32, True),
        }
    (DATA / "embeddings.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
