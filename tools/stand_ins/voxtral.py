"""Exports programs with the contract of Voxtral, a language model that hears, in two forms. Its transcript
can be told in advance: each tone in mel band n is a word of the tokenizer, in Spanish another one.

    python voxtral.py DIR      # nodes/speech/tests/data/hearing

| folder | form | features | positions |
|---|---|---|---|
| `executorch` | MultimodalRunner: part after part | `bf16[1, 128, 3000]` | `i64[1]` |
| `optimum` | rows replace the tokens of the audio | `f32[parts, 128, 3000]`, at most 2 parts | `i64[S]` |

Writes the programs, `tekken.json`, and `cases.json`: tones, the language, and the tokens by the loop of the
runner, with the modules in PyTorch and the features of ExecuTorch's preprocessor. The decoder finds the
tones, the language and the start of the answer in its cache. Needs torch and executorch.
"""
import base64
import json
import os
import sys

import numpy as np
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.extension.audio.mel_spectrogram import WhisperAudioProcessor
from torch import nn
from torch.export import Dim, export

BANDS, COLUMNS, POOL, CONTEXT, CHUNK = 128, 3000, 8, 1024, 400
SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AUDIO]", "[BEGIN_AUDIO]", "[TRANSCRIBE]"]
# Values of a row: the band, a flag of the start of an answer, and one of Spanish.
START, SPANISH, WIDTH = BANDS, BANDS + 1, BANDS + 2
PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = [f" {first}{vowel}{last}" for last in ("", "n", "s") for first in "bdfgklmnprstvz" for vowel in "aeiou"]
VOCABULARY = [bytes([byte]) for byte in range(256)] + [word.encode() for word in ["lang", ":en", ":es"]]
FIRST = len(SPECIAL) + len(VOCABULARY)
VOCABULARY += [word.encode() for word in WORDS[:BANDS]] + [f"{word}o".encode() for word in WORDS[:BANDS]]
SIZE = len(SPECIAL) + len(VOCABULARY)


def token(text):
    """Number of a special token, or of a token of the vocabulary."""
    return SPECIAL.index(text) if text in SPECIAL else len(SPECIAL) + VOCABULARY.index(text.encode())


class Encoder(nn.Module):
    """A row for 80 ms: one for the loudest band, if there is a tone."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, mel):
        level = mel.float().unflatten(2, (COLUMNS // POOL, POOL)).mean(3).transpose(1, 2).flatten(0, 1)
        best = nn.functional.one_hot(level.argmax(1), BANDS).float()
        is_tone = (level.amax(1, keepdim=True) - level.mean(1, keepdim=True) > 0.5).float()
        return torch.cat([best * is_tone, torch.zeros(level.size(0), 2)], 1).to(self.dtype)


class Embedding(nn.Module):
    """Flags of the tokens."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        table = torch.zeros(SIZE, 2)
        table[token("[TRANSCRIBE]"), START - BANDS] = 1
        table[token(":es"), SPANISH - BANDS] = 1
        self.flags = nn.Embedding.from_pretrained(table)

    def forward(self, tokens):
        return nn.functional.pad(self.flags(tokens), (BANDS, 0)).to(self.dtype)


class Decoder(nn.Module):
    """Embeddings to logits: after the start of the answer, the word of the next tone, then the end."""

    def __init__(self, positions_each):
        super().__init__()
        self.positions_each = positions_each
        self.register_buffer("cache", torch.zeros(CONTEXT, WIDTH))

    def forward(self, rows, positions):
        if not self.positions_each:
            positions = positions + torch.arange(rows.size(1))
        self.cache.index_put_((positions,), rows[0].float())
        slots = torch.arange(CONTEXT)
        before = (slots[None] <= positions[:, None]).float()
        bands = self.cache[:, :BANDS]
        began = torch.relu(bands - torch.cat([torch.zeros(1, BANDS), bands[:-1]]))
        begins = began.sum(1)
        number = begins.cumsum(0)
        start = (self.cache[:, START] * (slots + 1) * before).amax(1) - 1
        at = torch.relu(1 - (number[None] - (positions - start + 1)[:, None]).abs()) * begins * before
        word = at @ began * (start >= 0).float()[:, None]
        spanish = ((self.cache[:, SPANISH] * before).amax(1, keepdim=True) > 0.5).float()
        count = positions.size(0)
        end = torch.full((count, 1), 0.5)
        return torch.cat([torch.zeros(count, 2), end, torch.zeros(count, FIRST - 3), word * (1 - spanish),
                          word * spanish], 1)[None]


def tones(parts):
    """Audio of (Hz, milliseconds)."""
    sounds = [np.sin(2 * np.pi * hz * np.arange(16 * ms) / 16000) * (0.3 if hz else 0) for hz, ms in parts]
    return torch.tensor(np.concatenate(sounds), dtype=torch.float32)


class Form:
    """A form of the model."""

    def __init__(self, name):
        self.name, is_runner = name, name == "executorch"
        self.dtype = torch.bfloat16 if is_runner else torch.float32
        self.encoder, self.embedding = Encoder(self.dtype).eval(), Embedding(self.dtype).eval()
        self.decoder = Decoder(not is_runner).eval()

    def run(self, rows, at):
        each = self.decoder.positions_each
        positions = torch.arange(at, at + rows.size(1)) if each else torch.tensor([at])
        return self.decoder(rows, positions)[0, -1], at + rows.size(1)

    def answer(self, audio, language):
        """Tokens of the transcript, by the loop of the form."""
        preprocessor = WhisperAudioProcessor(feature_size=BANDS, stack_output=True, max_audio_len=60)
        heard = self.encoder(preprocessor(audio).to(self.dtype))[None]
        tokens = lambda names: self.embedding(torch.tensor([[token(name) for name in names]]))
        spoken = ["lang", f":{language}"] if language else []
        parts = [tokens(["<s>", "[INST]", "[BEGIN_AUDIO]"]), heard, tokens(["[/INST]", *spoken, "[TRANSCRIBE]"])]
        self.decoder.cache.zero_()
        if self.name == "optimum":
            parts = [torch.cat(parts, 1)]
        at, said = 0, []
        for part in parts:
            logits, at = self.run(part, at)
        while int(logits.argmax()) != token("</s>"):
            said.append(int(logits.argmax()))
            logits, at = self.run(self.embedding(torch.tensor([said[-1:]])), at)
        return said

    def write(self, folder):
        """Exports the program."""
        count, each, is_runner = Dim("count", min=1, max=CHUNK), self.decoder.positions_each, self.name == "executorch"
        positions = torch.arange(3) if each else torch.zeros(1, dtype=torch.long)
        mel = torch.zeros(1 if is_runner else 2, BANDS, COLUMNS, dtype=self.dtype)
        parts = None if is_runner else ({0: Dim("parts", min=1, max=2)},)
        programs = {
            "audio_encoder": export(self.encoder, (mel,), dynamic_shapes=parts, strict=False),
            "token_embedding": export(self.embedding, (torch.tensor([[1, 2, 3]]),), dynamic_shapes=({1: count},),
                                      strict=False),
            "text_decoder": export(self.decoder, (torch.zeros(1, 3, WIDTH, dtype=self.dtype), positions),
                                   dynamic_shapes=({1: count}, {0: count} if each else None), strict=False)}
        own = {"get_eos_ids": [token("</s>")], "enable_dynamic_shape": True} if is_runner else {
            "get_eos_id": token("</s>"), "audio_token_id": token("[AUDIO]"), "modality": "audio"}
        constants = {"get_max_seq_len": CONTEXT, "get_vocab_size": SIZE, "use_kv_cache": True, **own}
        self.decoder.cache.zero_()
        lowered = to_edge_transform_and_lower(programs, constant_methods=constants,
                                              compile_config=EdgeCompileConfig(_check_ir_validity=False))
        os.makedirs(os.path.join(folder, self.name), exist_ok=True)
        with open(os.path.join(folder, self.name, "model.pte"), "wb") as file:
            lowered.to_executorch().write_to_file(file)


def write_tokenizer(path):
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(text).decode(), "token_str": None}
             for rank, text in enumerate(VOCABULARY)]
    config = {"pattern": PATTERN, "num_vocab_tokens": len(VOCABULARY), "default_vocab_size": SIZE,
              "default_num_special_tokens": len(SPECIAL), "version": "v11"}
    special = [{"rank": rank, "token_str": text, "is_control": True} for rank, text in enumerate(SPECIAL)]
    with open(path, "w") as file:
        json.dump({"config": config, "vocab": vocab, "special_tokens": special}, file)
        file.write("\n")


def main(folder):
    os.makedirs(folder, exist_ok=True)
    write_tokenizer(os.path.join(folder, "tekken.json"))
    sounds = [[[0, 400], [440, 320], [0, 300], [700, 240], [900, 240], [1200, 240], [0, 250]], [[0, 1000]]]
    rng = np.random.default_rng(5)
    sounds += [[[int(rng.integers(0, 3) > 0) * int(rng.integers(200, 3000)), int(rng.integers(240, 700))]
                for _ in range(12)] for _ in range(4)]
    # More than one part of the encoder.
    long = [[hz, 2500] for pair in [(400, 0), (700, 0), (1500, 0), (900, 500)] * 2 for hz in pair]
    cases = []
    for form in map(Form, ("executorch", "optimum")):
        for number, sound in enumerate([*sounds, long] if form.name == "optimum" else sounds):
            language = [None, "en", "es"][number % 3]
            said = form.answer(tones(sound), language)
            text = b"".join(VOCABULARY[one - len(SPECIAL)] for one in said).decode()
            cases.append({"form": form.name, "tones": sound, "language": language, "tokens": said, "text": text})
            print(cases[-1])
        form.write(folder)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        main(sys.argv[1])
