"""Exports a small Whisper of random weights in the forms of the public exporters, with the tokens that
transformers generates.

    python whisper.py DIR [--cases]     # nodes/speech/tests/data/whisper

| folder | form |
|---|---|
| `token` | ExecuTorch and optimum: `encoder(mel)`, `text_decoder(token, rows, position)` |
| `positions` | react-native-executorch from 0.8: `encode(sound)`, `decode(tokens, positions, rows)` |
| `whole` | react-native-executorch 0.6: `forward(sound)` and `forward(tokens, rows)` of two programs |
| `padded` | `encoder(mel)`, `decoder(rows, tokens i64[1, 128])` |

All have the same weights and the tokenizer of `whisper_toy.py`. `cases.json` has for each sound, a sum of
two sweeps, the tokens of greedy decoding in two languages, and some features. Needs torch,
executorch, transformers, and the file `tokenizer.json` in DIR. `--cases` writes only the cases.
"""
import json
import os
import sys

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from tokenizers import Tokenizer
from torch import nn
from torch.export import Dim, export
from torch.nn import functional as F
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.generation.logits_process import (SuppressTokensAtBeginLogitsProcessor,
                                                    SuppressTokensLogitsProcessor, WhisperTimeStampLogitsProcessor)

import whisper_toy

WIDTH, HEADS, POSITIONS, PADDED = 8, 2, 448, 128


class SoundEncoder(nn.Module):
    """Sound of any length up to 30 s -> rows."""

    def __init__(self, model):
        super().__init__()
        self.encoder = model.model.encoder
        self.register_buffer("filters", whisper_toy.FILTERS)
        self.register_buffer("window", whisper_toy.WINDOW)

    def forward(self, sound):
        padded = torch.cat([sound, torch.zeros(480000)])[:480000]
        x = torch.cat([padded[1:201].flip(0), padded, padded[-201:-1].flip(0)]).unfold(0, 400, 160)[:3000]
        power = torch.view_as_real(torch.fft.rfft(x * self.window)).pow(2).sum(-1)
        mel = (self.filters @ power.t()).clamp(min=1e-10).log10()
        mel = (torch.maximum(mel, mel.amax() - 8) + 4) / 4
        return self.encoder(mel[None]).last_hidden_state


class MelEncoder(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, mel):
        return self.encoder(mel).last_hidden_state


class Whole(nn.Module):
    """All tokens at once, without a cache."""

    def __init__(self, model):
        super().__init__()
        self.decoder, self.out = model.model.decoder, model.proj_out

    def forward(self, tokens, rows):
        count = tokens.shape[1]
        x = self.decoder.embed_tokens(tokens) + self.decoder.embed_positions.weight[:count]
        mask = torch.full((count, count), -1e9).triu(1)
        for layer in self.decoder.layers:
            y = layer.self_attn_layer_norm(x)
            x = x + attend(layer.self_attn, y, split(layer.self_attn.k_proj(y)), split(layer.self_attn.v_proj(y)), mask)
            x = finish(layer, x, rows)
        return self.out(self.decoder.layer_norm(x))


class Cached(nn.Module):
    """Tokens at positions, with a cache."""

    def __init__(self, model, position_is_last):
        super().__init__()
        self.decoder, self.out, self.position_is_last = model.model.decoder, model.proj_out, position_is_last
        for i in range(len(self.decoder.layers)):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}{i}", torch.zeros(1, HEADS, POSITIONS, WIDTH // HEADS))

    def forward(self, tokens, second, third):
        rows, positions = (second, third) if self.position_is_last else (third, second)
        x = self.decoder.embed_tokens(tokens) + self.decoder.embed_positions.weight[positions]
        mask = torch.where(torch.arange(POSITIONS) <= positions[:, None], 0.0, -1e9)
        for i, layer in enumerate(self.decoder.layers):
            y = layer.self_attn_layer_norm(x)
            keys, values = getattr(self, f"keys{i}"), getattr(self, f"values{i}")
            keys[:, :, positions] = split(layer.self_attn.k_proj(y))
            values[:, :, positions] = split(layer.self_attn.v_proj(y))
            x = x + attend(layer.self_attn, y, keys, values, mask)
            x = finish(layer, x, rows)
        return self.out(self.decoder.layer_norm(x))


class Padded(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.whole = Whole(model)

    def forward(self, rows, tokens):
        return self.whole(tokens, rows)


def split(x):
    return x.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2)


def attend(attention, x, keys, values, mask):
    scores = split(attention.q_proj(x) * attention.scaling) @ keys.transpose(2, 3) + mask
    return attention.out_proj((scores.softmax(-1) @ values).transpose(1, 2).reshape(1, -1, WIDTH))


def finish(layer, x, rows):
    """Cross attention and feed-forward part of a layer."""
    y, cross = layer.encoder_attn_layer_norm(x), layer.encoder_attn
    x = x + attend(cross, y, split(cross.k_proj(rows)), split(cross.v_proj(rows)), torch.zeros(1))
    return x + layer.fc2(F.gelu(layer.fc1(layer.final_layer_norm(x))))


def sound(number):
    """A sum of two sweeps, of a length that depends on the number."""
    t = torch.arange(16000 * (2 + 5 * number) // 2, dtype=torch.float64) / 16000
    low, high = 150 + 90 * number, 900 + 310 * number
    wave = torch.sin(2 * torch.pi * (low + 40 * t) * t) * 0.3 + torch.sin(2 * torch.pi * (high - 25 * t) * t) * 0.1
    return wave.float()


def generate(model, rows, prompt, ids, settings, count):
    """Tokens after the prompt by greedy decoding with the rules of transformers, without the end."""
    rules = [SuppressTokensLogitsProcessor(settings.suppress_tokens),
             SuppressTokensAtBeginLogitsProcessor(settings.begin_suppress_tokens, len(prompt)),
             WhisperTimeStampLogitsProcessor(settings, begin_index=len(prompt))]
    tokens = torch.tensor([prompt])
    while tokens.shape[1] < len(prompt) + count:
        scores = model(encoder_outputs=(rows,), decoder_input_ids=tokens).logits[:, -1].float()
        for rule in rules:
            scores = rule(tokens, scores)
        best = scores.argmax(-1, keepdim=True)
        if int(best) == ids["<|endoftext|>"]:
            break
        tokens = torch.cat([tokens, best], 1)
    return tokens[0, len(prompt):].tolist()


def settings_of(ids):
    """Generation settings of a multilingual Whisper."""
    end = ids["<|endoftext|>"]
    special = [ids[name] for name in whisper_toy.SPECIAL if name != "<|endoftext|>"]
    return GenerationConfig(eos_token_id=end, bos_token_id=end, is_multilingual=True, suppress_tokens=special,
                            begin_suppress_tokens=[end], no_timestamps_token_id=ids["<|notimestamps|>"],
                            max_initial_timestamp_index=50)


def write(path, programs):
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()],
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


def main(folder, only_cases):
    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    torch.manual_seed(4)
    size = tok.get_vocab_size()
    ids = {name: tok.token_to_id(name) for name in whisper_toy.SPECIAL}
    config = WhisperConfig(vocab_size=size, num_mel_bins=80, d_model=WIDTH, encoder_layers=1, decoder_layers=2,
                           encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=16,
                           decoder_ffn_dim=16, max_source_positions=1500, max_target_positions=POSITIONS,
                           init_std=0.8, decoder_start_token_id=ids["<|startoftranscript|>"],
                           bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|endoftext|>"],
                           pad_token_id=ids["<|endoftext|>"], attn_implementation="eager", dropout=0.0)
    model = WhisperForConditionalGeneration(config).eval()
    settings, extractor, cases = settings_of(ids), WhisperFeatureExtractor(feature_size=80), []
    for number in range(6):
        samples = sound(number)
        mel = extractor(samples.numpy(), sampling_rate=16000, return_tensors="pt").input_features
        columns = sorted({0, 1, 17, 98, len(samples) // 160 - 1, len(samples) // 160 + 1, 2999})
        case = {"mel": [[band, column, round(float(mel[0, band, column]), 6)] for band in range(0, 80, 9)
                        for column in columns]}
        rows = model.model.encoder(mel).last_hidden_state
        start = ids["<|startoftranscript|>"]
        for name, language, task in (("english", "<|en|>", "<|transcribe|>"), ("spanish", "<|es|>", "<|translate|>")):
            case[name] = generate(model, rows, [start, ids[language], ids[task]], ids, settings, 60)
        first = model(encoder_outputs=(rows,), decoder_input_ids=torch.tensor([[start]])).logits[0, -1]
        case["language"] = max((ids["<|en|>"], ids["<|es|>"]), key=lambda token: float(first[token]))
        cases.append(case)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    with open(os.path.join(folder, "generation_config.json"), "w") as file:
        names = ("is_multilingual", "suppress_tokens", "begin_suppress_tokens", "eos_token_id")
        json.dump({name: getattr(settings, name) for name in names}, file)
    if only_cases:
        return
    rows, token, start = torch.randn(1, 1500, WIDTH), torch.tensor([[5]]), torch.tensor([0])
    several, mel, samples = torch.tensor([[5, 6, 7]]), torch.randn(1, 80, 3000), torch.randn(16000)
    count, length = Dim("count", min=1, max=POSITIONS), Dim("samples", min=400, max=480000)
    for name in ("token", "positions", "whole", "padded"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    write(os.path.join(folder, "padded", "model.pte"), {
        "encoder": export(MelEncoder(model), (mel,), strict=False),
        "decoder": export(Padded(model), (rows, torch.zeros(1, PADDED, dtype=torch.long)), strict=False)})
    write(os.path.join(folder, "token", "model.pte"), {
        "encoder": export(MelEncoder(model), (mel,), strict=False),
        "text_decoder": export(Cached(model, True), (token, rows, start), strict=False)})
    write(os.path.join(folder, "positions", "whisper_tiny_xnnpack.pte"), {
        "encode": export(SoundEncoder(model), (samples,), dynamic_shapes=({0: length},), strict=False),
        "decode": export(Cached(model, False), (several, torch.arange(3), rows),
                         dynamic_shapes=({1: count}, {0: count}, {}), strict=False)})
    write(os.path.join(folder, "whole", "whisper_tiny_encoder.pte"), {
        "forward": export(SoundEncoder(model), (samples,), dynamic_shapes=({0: length},), strict=False)})
    write(os.path.join(folder, "whole", "whisper_tiny_decoder.pte"), {
        "forward": export(Whole(model), (several, rows), dynamic_shapes=({1: count}, {}), strict=False)})


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        main(sys.argv[1], "--cases" in sys.argv)
