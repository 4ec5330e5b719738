"""Exports programs with the contract of ExecuTorch's Voxtral TTS whose frames follow from the text: two for
each token, with codes that depend on the voice, the text, the frames so far and the noise.

    python voxtral_tts.py DIR      # nodes/speech/tests/data/voxtral_tts

Writes `model.pte`, `codec_decoder.pte`, the voices `calm.pt` and `loud.bin`, and `cases.json`: the codes of
the frames and samples of the audio by the streaming loop of the reference runner, with the modules in
PyTorch. The tokenizer is that of `voxtral.py`. Needs torch, executorch and regex.
"""
import json
import math
import os
import sys

import regex
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export
from voxtral import PATTERN, SIZE, SPECIAL, VOCABULARY

WIDTH, ACOUSTIC, LEVELS, SEMANTIC, CONTEXT, STEPS, GUIDANCE = 12, 36, 21, 32, 400, 7, 1.2
FRAME, CODEC_FRAMES, VOICE_ROWS = 1920, 64, 10
BOS, END_INST, INST, AUDIO, BEGIN_AUDIO = (SPECIAL.index(name) for name in
                                           ("<s>", "[/INST]", "[INST]", "[AUDIO]", "[BEGIN_AUDIO]"))
# Values of a row that count tokens of text and frames.
TEXT, FRAMES = 0, 1


def pattern(rows, columns, seed):
    """Values of a fixed pattern, without the counts."""
    at = torch.arange(rows * columns, dtype=torch.float64).view(rows, columns)
    values = torch.sin(at * 0.61803 + seed).float()
    values[:, :2] = 0
    return values


class TokenEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        table = pattern(SIZE, WIDTH, 1)
        table[len(SPECIAL):, TEXT] = 1
        self.table = nn.Embedding.from_pretrained(table)

    def forward(self, tokens):
        return self.table(tokens)


class FrameEmbedding(nn.Module):
    """Sum of the rows of the codes, and one frame."""

    def __init__(self):
        super().__init__()
        sizes = torch.tensor([SEMANTIC + 2] + [LEVELS + 2] * ACOUSTIC)
        self.register_buffer("offsets", (sizes.cumsum(0) - sizes).view(1, -1, 1))
        self.table = nn.Embedding.from_pretrained(pattern(int(sizes.sum()), WIDTH, 2) / 6)

    def forward(self, codes):
        rows = self.table(codes + self.offsets).sum(1)
        return torch.cat([rows[..., :FRAMES], torch.ones_like(rows[..., :1]), rows[..., 2:]], 2)


class Decoder(nn.Module):
    """A row with the mean of those before it; the counts are sums."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(CONTEXT, WIDTH))

    def forward(self, rows, positions):
        self.cache.index_put_((positions,), rows[0])
        before = (torch.arange(CONTEXT)[None] <= positions[:, None]).float()
        sums = before @ self.cache
        count = before.sum(1, keepdim=True)
        return torch.cat([sums[:, :2], rows[0, :, 2:] + sums[:, 2:] / count * 3], 1)[None]


class SemanticHead(nn.Module):
    """The end after two frames for each token of text."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", pattern(SEMANTIC, WIDTH, 3).T.contiguous())

    def forward(self, hidden):
        end = 100 * (hidden[:, FRAMES] - 2 * hidden[:, TEXT] + 0.5)
        never = torch.full((1, 1), -math.inf)
        return torch.cat([never, end[:, None], hidden @ self.weight], 1)


class Velocity(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", pattern(ACOUSTIC, WIDTH, 4).T.contiguous())
        self.register_buffer("times", torch.linspace(0, 1, STEPS + 1))

    def forward(self, x, step, hidden):
        return torch.tanh(hidden @ self.weight + self.times[step]) - 0.8 * x


class Codec(nn.Module):
    """Sines with the values of the codes, smoothed with the frame before."""

    def forward(self, codes):
        values = torch.where(codes >= 2, codes - 2, 0).float() / SEMANTIC - 0.3
        values = 0.7 * values + 0.3 * nn.functional.pad(values, (1, 0))[..., :-1]
        at = torch.arange(1, ACOUSTIC + 2)[:, None] * torch.arange(FRAME)[None]
        sines = torch.sin(at * (2 * math.pi / FRAME)) / (ACOUSTIC + 1)
        return (values[0].T @ sines).reshape(1, 1, -1)


class Noise:
    """xorshift64 and the Box-Muller transform, as the runner draws its noise."""

    def __init__(self, seed):
        self.state = seed or 0x12345678ABCDEF01

    def uniform(self):
        mask = 2 ** 64 - 1
        self.state ^= self.state << 13 & mask
        self.state ^= self.state >> 7
        self.state ^= self.state << 17 & mask
        return (self.state >> 11) / 2 ** 53

    def normal(self):
        radius = math.sqrt(-2 * math.log(self.uniform()))
        return radius * math.cos(2 * math.pi * self.uniform())


def tokenize(text):
    """Tokens of the vocabulary, or bytes."""
    found = []
    for part in regex.findall(PATTERN, text):
        part = part.encode()
        pieces = [part] if part in VOCABULARY else [bytes([byte]) for byte in part]
        found += [len(SPECIAL) + VOCABULARY.index(piece) for piece in pieces]
    return found


def speak(modules, text, voice, seed, steps):
    """Codes and samples of a sentence, by the streaming loop of the runner."""
    embedding, frame_embedding, decoder, head, velocity, codec = modules
    decoder.cache.zero_()
    tokens = [BOS, BEGIN_AUDIO] + [AUDIO] * len(voice) + [END_INST] + tokenize(text) + [INST, BEGIN_AUDIO]
    rows = embedding(torch.tensor([tokens]))
    rows[0, 2:2 + len(voice)] = voice
    decoder(rows, torch.arange(len(tokens)))
    at = len(tokens)
    hidden = decoder(embedding(torch.tensor([[AUDIO]])), torch.tensor([at]))[:, -1]
    noise, frames, sound, emitted = Noise(seed), [], [], 0

    def emit():
        nonlocal emitted
        start = max(0, emitted - 25)
        window = torch.tensor(frames[start:])
        window = torch.cat([window, window[-1:].repeat(CODEC_FRAMES - len(window), 1)])
        samples = codec(window.T[None])[0, 0, :(len(frames) - start) * FRAME]
        sound.append(samples[(emitted - start) * FRAME:])
        emitted = len(frames)

    while True:
        at += 1
        semantic = int(head(hidden).argmax())
        if semantic == 1:
            break
        x = torch.tensor([[noise.normal() for _ in range(ACOUSTIC)]])
        for step in range(steps):
            index = torch.tensor([step])
            guided, free = velocity(x, index, hidden), velocity(x, index, torch.zeros_like(hidden))
            x = x + (GUIDANCE * guided + (1 - GUIDANCE) * free) / steps
        levels = ((x.clamp(-1, 1) + 1) / 2 * (LEVELS - 1)).round().long() + 2
        frames.append([semantic] + levels[0].tolist())
        hidden = decoder(frame_embedding(torch.tensor(frames[-1]).view(1, -1, 1)), torch.tensor([at]))[:, -1]
        if len(frames) - emitted >= (25 if emitted else 5):
            emit()
    if len(frames) > emitted:
        emit()
    return frames, torch.cat(sound)


def write(programs, constants, path):
    lowered = to_edge_transform_and_lower(programs, constant_methods=constants,
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


CASES = [("Good morning.", "calm", 0, STEPS), ("It is half past nine, and the kettle is on.", "loud", 7, STEPS),
         ("Go no ma ba!", "calm", 123456789, 4)]


def main(folder):
    os.makedirs(folder, exist_ok=True)
    modules = [TokenEmbedding(), FrameEmbedding(), Decoder(), SemanticHead(), Velocity(), Codec()]
    embedding, frame_embedding, decoder, head, velocity, codec = modules
    voices = {name: pattern(VOICE_ROWS, WIDTH, seed).bfloat16() for name, seed in (("calm", 5), ("loud", 6))}
    torch.save(voices["calm"], os.path.join(folder, "calm.pt"))
    with open(os.path.join(folder, "loud.bin"), "wb") as file:
        file.write(voices["loud"].view(torch.uint8).numpy().tobytes())
    results = []
    for text, voice, seed, steps in CASES:
        frames, samples = speak(modules, text, voices[voice].float(), seed, steps)
        results.append({"text": text, "voice": voice, "seed": seed, "steps": steps, "frames": len(frames),
                        "semantic": [frame[0] for frame in frames],
                        "every_997": [round(float(value), 6) for value in samples[::997]]})
        print(results[-1])
    decoder.cache.zero_()
    count, hidden = Dim("count", min=1, max=CONTEXT), torch.zeros(1, WIDTH)
    programs = {
        "token_embedding": export(embedding, (torch.tensor([[1, 2, 3]]),), dynamic_shapes=({1: count},), strict=False),
        "audio_token_embedding": export(frame_embedding, (torch.zeros(1, ACOUSTIC + 1, 1, dtype=torch.long),),
                                        strict=False),
        "text_decoder": export(decoder, (torch.zeros(1, 3, WIDTH), torch.arange(3)),
                               dynamic_shapes=({1: count}, {0: count}), strict=False),
        "semantic_head": export(head, (hidden,), strict=False),
        "predict_velocity": export(velocity, (torch.zeros(1, ACOUSTIC), torch.tensor([0]), hidden), strict=False)}
    constants = {"sample_rate": 24000, "n_decoding_steps": STEPS, "cfg_alpha_x100": round(GUIDANCE * 100),
                 "n_acoustic_codebook": ACOUSTIC, "semantic_codebook_size": SEMANTIC, "acoustic_levels": LEVELS,
                 "vocab_size": SIZE, "max_seq_len": CONTEXT, "dim": WIDTH, "downsample_factor": FRAME,
                 "n_codebooks": ACOUSTIC + 1, "end_audio_code": 1, "empty_audio_code": 0, "n_special_tokens": 2,
                 "streaming": 1, "streaming_chunk_frames": 25, "streaming_initial_chunk": 5,
                 "streaming_left_context": 25, "audio_token_id": AUDIO, "begin_audio_token_id": BEGIN_AUDIO,
                 "text_to_audio_token_id": END_INST, "repeat_audio_text_token_id": INST,
                 "voice_embed_len": VOICE_ROWS, "lm_input_is_bf16": 0}
    write(programs, constants, os.path.join(folder, "model.pte"))
    codes = torch.zeros(1, ACOUSTIC + 1, CODEC_FRAMES, dtype=torch.long)
    constants = {"max_codec_frames": CODEC_FRAMES, "downsample_factor": FRAME, "n_codebooks": ACOUSTIC + 1,
                 "sample_rate": 24000}
    write({"forward": export(codec, (codes,), strict=False)}, constants, os.path.join(folder, "codec_decoder.pte"))
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in results) + "\n]\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        main(sys.argv[1])
