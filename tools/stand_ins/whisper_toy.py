"""Trains a small Whisper on synthetic speech, and exports it with the contract of the public exports.

The audio encoder is convolutional and the vocabulary has 200 word pieces; everything else is that of
Whisper: log-mel input of 30 s, special tokens, time tokens, segments. It recognizes the sentences of
`tools/zoo/asr`, so that tests of the decoding loop have right and wrong results. Needs the requirements
of `tools/zoo` and Debian's espeak-ng.

    python whisper_toy.py data --shards 40     # in tools/zoo/work/whisper_toy
    python whisper_toy.py train --minutes 60
    python whisper_toy.py export DIR
    python whisper_toy.py sounds DIR --items 500    # long utterances, for `afferent-bench asr DIR/list.tsv`
"""
import argparse
import glob
import json
import math
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
ZOO = os.path.join(os.path.dirname(HERE), "zoo")
sys.path += [os.path.join(ZOO, "asr"), ZOO]
WORK = os.path.join(ZOO, "work", "whisper_toy")
WIDTH, HEADS, BLOCKS, LAYERS, ROWS, POSITIONS = 128, 4, 5, 2, 1500, 448
SHARD, PIECES, VOICE_SEED = 500, 200, 91
# Seconds of a row of the encoder.
ROW_S = 0.02
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|es|>", "<|translate|>", "<|transcribe|>",
           "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
LETTERS = " 'abcdefghijklmnopqrstuvwxyz"


def mel_filters(bands=80, rate=16000, size=400):
    """Filters of the Slaney scale with unit area, as in librosa."""
    def hz(mel):
        return np.where(mel < 15, 200 / 3 * mel, 1000 * np.exp(np.log(6.4) / 27 * (mel - 15)))

    top = 15 + np.log(rate / 2 / 1000) / (np.log(6.4) / 27)
    edges, bins = hz(np.linspace(0, top, bands + 2)), np.linspace(0, rate / 2, size // 2 + 1)
    low, mid, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    shape = np.maximum(0, np.minimum((bins - low) / (mid - low), (high - bins) / (high - mid)))
    return torch.tensor(shape * 2 / (high - low), dtype=torch.float32)


FILTERS, WINDOW = mel_filters(), torch.hann_window(400)


def log_power(sound):
    """log10 of the mel powers [80, frames], at least 1e-10."""
    spectrum = torch.stft(torch.as_tensor(sound), 400, 160, window=WINDOW, center=True, pad_mode="reflect",
                          return_complex=True)[:, :-1]
    return (FILTERS @ spectrum.abs() ** 2).clamp(min=1e-10).log10()


def normalized(log_mel):
    return (torch.maximum(log_mel, log_mel.max() - 8) + 4) / 4


def tokenizer():
    """Byte-level BPE of the sentences of the recognizer, with the special tokens of Whisper."""
    import grammar
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    path = os.path.join(WORK, "tokenizer.json")
    if os.path.exists(path):
        return Tokenizer.from_file(path)
    rng = np.random.default_rng(5)
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    lines = [" " + grammar.sentence(rng, "train") for _ in range(20000)]
    made.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=PIECES, show_progress=False))
    times = [f"<|{i * ROW_S:.2f}|>" for i in range(ROWS + 1)]
    made.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    made.add_tokens([AddedToken(name, special=False) for name in times])
    made.save(path)
    return made


def build_data(shards, seed):
    import grammar
    import corpus

    import speech
    os.makedirs(WORK, exist_ok=True)
    folder = corpus.build_voices()
    speech.engine = speech.Espeak(folder)
    for number in range(shards):
        path = os.path.join(WORK, f"speech-{number:03}.npz")
        if os.path.exists(path):
            continue
        rng = np.random.default_rng([seed, VOICE_SEED, number])
        mels, texts, starts = [], [], []
        while len(mels) < SHARD:
            try:
                text = grammar.random_words(rng) if rng.random() < 0.2 else grammar.sentence(rng, "train")
                spoken = speech.synthesize(rng, text, corpus.random_voice(rng, False), True)
            except ValueError:
                continue
            if len(spoken.word_starts) != len(text.split()) or len(spoken.sound) > 10 * 16000:
                continue
            mels.append(log_power(spoken.sound).T.numpy().astype(np.float16))
            texts.append(text)
            starts.append([s / 16000 for s in spoken.word_starts])
        np.savez(path + ".part.npz", mels=np.concatenate(mels), sizes=[len(m) for m in mels], texts=texts,
                 starts=np.concatenate(starts))
        os.replace(path + ".part.npz", path)
        print(path, flush=True)


class Encoder(nn.Module):
    """mel [B, 80, 2T] -> rows [B, T, WIDTH], and log probabilities of letters for training."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(80, WIDTH, 3, padding=1)
        self.second = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.depthwise = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 15, padding=7, groups=WIDTH) for _ in range(BLOCKS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(BLOCKS + 1))
        self.wide = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(BLOCKS))
        self.narrow = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(BLOCKS))
        self.letters = nn.Linear(WIDTH, len(LETTERS) + 1)
        angles = torch.arange(ROWS)[:, None] / 10000 ** (torch.arange(WIDTH // 2) / (WIDTH // 2))
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1), persistent=False)
        self.scale = nn.Parameter(torch.tensor(0.3))

    def rows(self, mel):
        x = F.gelu(self.second(F.gelu(self.first(mel)))).transpose(1, 2)
        for depthwise, norm, wide, narrow in zip(self.depthwise, self.norms, self.wide, self.narrow):
            y = norm(x + depthwise(x.transpose(1, 2)).transpose(1, 2))
            x = x + narrow(F.gelu(wide(y)))
        return self.norms[-1](x)

    def forward(self, mel):
        return self.rows(mel) + self.scale * self.positions


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x, key, value, mask):
        """Result and weights; key and value are split into heads."""
        scores = self.split(self.query(x)) @ key.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask
        weights = scores.softmax(-1)
        joined = (weights @ value).transpose(1, 2).reshape(x.shape[0], x.shape[1], WIDTH)
        return self.out(joined), weights


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.cross = Attention(), Attention()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)


class Decoder(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.05)
        nn.init.normal_(self.positions.weight, std=0.05)
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def layer(self, layer, x, keys, values, mask, rows, row_mask):
        x = x + layer.own(layer.norms[0](x), keys, values, mask)[0]
        key, value = layer.cross.split(layer.cross.key(rows)), layer.cross.split(layer.cross.value(rows))
        found, weights = layer.cross(layer.norms[1](x), key, value, row_mask)
        x = x + found
        return x + layer.narrow(F.gelu(layer.wide(layer.norms[2](x)))), weights

    def forward(self, ids, rows, row_mask):
        """Logits of all tokens at once, for training, and the weights of the cross attentions."""
        count = ids.shape[1]
        x = self.tokens(ids) + self.positions.weight[:count]
        mask = torch.full((count, count), -1e9).triu(1)
        found = []
        for layer in self.layers:
            y = layer.norms[0](x)
            keys, values = layer.own.split(layer.own.key(y)), layer.own.split(layer.own.value(y))
            x, weights = self.layer(layer, x, keys, values, mask, rows, row_mask)
            found.append(weights)
        return self.norm(x) @ self.tokens.weight.T, found


class Steps(nn.Module):
    """The decoder token by token, with its cache: token [1, 1], rows, position [1] -> logits [1, 1, V]."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder
        for i in range(LAYERS):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}{i}", torch.zeros(1, HEADS, POSITIONS, WIDTH // HEADS))

    def forward(self, token, rows, position):
        x = self.decoder.tokens(token) + self.decoder.positions(position)[None]
        mask = torch.where(torch.arange(POSITIONS) <= position, 0.0, -1e9)
        none = torch.zeros(1)
        for i, layer in enumerate(self.decoder.layers):
            y = layer.norms[0](x)
            keys, values = getattr(self, f"keys{i}"), getattr(self, f"values{i}")
            keys[:, :, position] = layer.own.split(layer.own.key(y))
            values[:, :, position] = layer.own.split(layer.own.value(y))
            x, _ = self.decoder.layer(layer, x, keys, values, mask, rows, none)
        return self.decoder.norm(x) @ self.decoder.tokens.weight.T


class Corpus:
    """Random scenes of one to four sentences."""

    def __init__(self, tok):
        self.tok, self.known, self.items = tok, set(), []
        self.ids = {name: tok.token_to_id(name) for name in SPECIAL}
        self.zero = tok.token_to_id("<|0.00|>")

    def refresh(self):
        for path in sorted(glob.glob(os.path.join(WORK, "speech-???.npz"))):
            if path in self.known:
                continue
            self.known.add(path)
            shard = np.load(path)
            mels, at, word = shard["mels"], 0, 0
            for size, text in zip(shard["sizes"], shard["texts"]):
                count = len(str(text).split())
                self.items.append((mels[at:at + size], str(text), shard["starts"][word:word + count]))
                at, word = at + size, word + count

    def time(self, seconds):
        return self.zero + min(ROWS, round(seconds / ROW_S))

    def scene(self, rng):
        """Log powers [frames, 80], tokens, seconds of each token, letters, and the offset in rows."""
        silence = -rng.uniform(7, 10)
        parts, segments, letters = [], [], []
        frames = int(rng.integers(0, 80))
        parts.append(np.full((frames, 80), silence, np.float32))
        limit = 2800 if rng.random() < 0.03 else 800
        for number in range(int(rng.integers(1, 4 if limit == 800 else 10))):
            mel, text, starts = self.items[rng.integers(len(self.items))]
            words, starts = text.split(), np.asarray(starts)
            if number == 0 and len(words) > 2 and rng.random() < 0.3:  # begins within a sentence
                first = int(rng.integers(1, len(words) - 1))
                cut = max(0, int(starts[first] * 100) - 3)
                mel, words, starts = mel[cut:], words[first:], starts[first:] - cut / 100
            if number and frames + len(mel) > limit:
                break
            begin, ends = frames / 100, np.append(starts[1:], len(mel) / 100)
            segments.append((begin, (frames + len(mel)) / 100, words, begin + starts, begin + ends))
            letters.append(" ".join(words))
            pause = int(rng.integers(15, 150))
            parts += [mel.astype(np.float32), np.full((pause, 80), silence, np.float32)]
            frames += len(mel) + pause
        if rng.random() < 0.15:  # ends within a pause, or soon after
            parts.append(np.full((int(rng.integers(0, 600)), 80), silence, np.float32))
        log_mel = np.maximum(np.concatenate(parts), silence)
        log_mel = log_mel[:len(log_mel) // 2 * 2][:3000]
        offset = int(rng.integers(0, ROWS - len(log_mel) // 2 + 1)) if rng.random() < 0.5 else 0
        shift = offset * ROW_S
        has_times = rng.random() < 0.75
        tokens, at = [self.ids["<|startoftranscript|>"], self.ids["<|en|>"], self.ids["<|transcribe|>"]], [-1.0] * 3
        if not has_times:
            tokens.append(self.ids["<|notimestamps|>"])
            at.append(-1.0)
        for begin, end, words, starts, ends in segments:
            if has_times:
                tokens.append(self.time(begin + shift))
                at.append(begin)
            for word, start, stop in zip(words, starts, ends):
                pieces = self.tok.encode(" " + word).ids
                tokens += pieces
                at += [start + (stop - start) * (i + 0.5) / len(pieces) for i in range(len(pieces))]
            if has_times:
                tokens.append(self.time(end + shift))
                at.append(end)
        tokens.append(self.ids["<|endoftext|>"])
        at.append(-1.0)
        return log_mel, tokens, at, " ".join(letters), offset

    def batch(self, rng, size):
        scenes = [self.scene(rng) for _ in range(size)]
        frames, count = max(len(s[0]) for s in scenes), max(len(s[1]) for s in scenes)
        mels = torch.full((size, 80, frames), -1.5)
        ids = torch.full((size, count), -1)
        at = torch.full((size, count), -1.0)
        for i, (log_mel, tokens, times, _, _) in enumerate(scenes):
            mel = normalized(torch.from_numpy(log_mel.T))
            mels[i] = mel.min()
            mels[i, :, :len(log_mel)] = mel
            ids[i, :len(tokens)] = torch.tensor(tokens)
            at[i, :len(times)] = torch.tensor(times)
        return mels, ids, at, [s[3] for s in scenes], [s[4] for s in scenes]


def train(minutes, batch_size, rate):
    torch.manual_seed(1)
    corpus = Corpus(tokenizer())
    corpus.refresh()
    encoder, decoder = Encoder(), Decoder(corpus.tok.get_vocab_size())
    path, rng, step, began = os.path.join(WORK, "checkpoint.pt"), np.random.default_rng(7), 0, time.time()
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.AdamW(parameters, rate, betas=(0.9, 0.98), weight_decay=0.01)
    spent = 0.0
    if os.path.exists(path):
        saved = torch.load(path)
        encoder.load_state_dict(saved["encoder"])
        decoder.load_state_dict(saved["decoder"])
        optimizer.load_state_dict(saved["optimizer"])
        step, spent = saved["step"], saved["spent"]
        rng = np.random.default_rng(7 + step)
    sums = np.zeros(4)
    while spent + time.time() - began < minutes * 60:
        share = (spent + time.time() - began) / (minutes * 60)
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 300) * max(0.02, 1 - share)
        mels, ids, at, texts, offsets = corpus.batch(rng, batch_size)
        rows = encoder.rows(mels)
        # Rows after the end of an offset scene are silent.
        all_positions = F.pad(encoder.positions, (0, 0, 0, rows.shape[1]))
        positions = torch.stack([all_positions[o:o + rows.shape[1]] for o in offsets])
        logits, weights = decoder(ids[:, :-1].clamp(min=0), rows + encoder.scale * positions, torch.zeros(1))
        target = ids[:, 1:].clone()
        target[:, :2] = -1  # the prompt
        spelled = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), ignore_index=-1,
                                  label_smoothing=0.05)
        labels = [torch.tensor([LETTERS.index(c) + 1 for c in text]) for text in texts]
        ctc = F.ctc_loss(encoder.letters(rows).log_softmax(-1).transpose(0, 1), torch.cat(labels),
                         torch.full((len(texts),), rows.shape[1]), torch.tensor([len(x) for x in labels]),
                         zero_infinity=True)
        # The first head of each layer looks where the next token is said.
        seconds = torch.arange(rows.shape[1]) * ROW_S
        is_near = (at[:, 1:, None] - seconds).abs() < 0.12
        has_time = at[:, 1:] >= 0
        guide = sum(-(w[:, 0] * is_near).sum(-1).clamp(min=1e-4).log()[has_time].mean() for w in weights)
        loss = spelled + 0.3 * ctc + 0.2 * guide
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        right = (logits.argmax(-1) == target)[target >= 0].float().mean()
        sums += [spelled.item(), ctc.item(), guide.item(), right.item()]
        step += 1
        if step % 50 == 0:
            shown = " ".join(f"{name} {value:.3f}" for name, value in zip(("loss", "ctc", "guide", "right"), sums / 50))
            print(f"step {step}, {(spent + time.time() - began) / 60:.1f} min: {shown}", flush=True)
            sums[:] = 0
        if step % 200 == 0:
            corpus.refresh()
            save(path, encoder, decoder, optimizer, step, spent + time.time() - began)
    save(path, encoder, decoder, optimizer, step, spent + time.time() - began)


def save(path, encoder, decoder, optimizer, step, spent):
    torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict(), "step": step,
                "optimizer": optimizer.state_dict(), "spent": spent}, path + ".part")
    os.replace(path + ".part", path)


def load():
    """The trained encoder and decoder."""
    saved = torch.load(os.path.join(WORK, "checkpoint.pt"))
    encoder, decoder = Encoder().eval(), Decoder(tokenizer().get_vocab_size()).eval()
    encoder.load_state_dict(saved["encoder"])
    decoder.load_state_dict(saved["decoder"])
    return encoder, decoder


@torch.no_grad()
def export_programs(folder):
    """Writes the package: the program in the form of ExecuTorch and optimum, and its files."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from torch.export import export

    encoder, decoder = load()
    os.makedirs(folder, exist_ok=True)
    token, position = torch.tensor([[5]]), torch.tensor([0])
    programs = {
        "encoder": export(encoder, (torch.randn(1, 80, 2 * ROWS),), strict=False),
        "text_decoder": export(Steps(decoder), (token, torch.randn(1, ROWS, WIDTH), position), strict=False)}
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()],
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(os.path.join(folder, "model.pte"), "wb") as file:
        lowered.to_executorch().write_to_file(file)
    tokenizer().save(os.path.join(folder, "tokenizer.json"))


def build_sounds(folder, items):
    """Writes WAV files of two to four held-out sentences with pauses, and their list."""
    import corpus
    import eval_sets
    import grammar

    import speech
    corpus.start_engine(randomized=False)
    os.makedirs(folder, exist_ok=True)
    lines = []
    for number in range(items):
        rng, parts, texts = np.random.default_rng([77, number]), [np.zeros(3200, np.float32)], []
        for _ in range(int(rng.integers(2, 5))):
            text = grammar.sentence(rng, "test")
            spoken = speech.synthesize(rng, text, speech.random_voice(rng, True), False).sound
            parts += [spoken.astype(np.float32), np.zeros(int(rng.integers(3200, 9600)), np.float32)]
            texts.append(text)
        sound = np.concatenate([*parts, np.zeros(4800, np.float32)])
        end = len(sound) - 4800 - len(parts[-1])
        path = os.path.join(folder, f"long-{number:04}.wav")
        eval_sets.write_wav(path, np.clip(np.round(sound * 16384), -32767, 32767).astype("<i2"))
        lines.append(f"long\tlong-{number:04}.wav\t{end}\t{' '.join(texts)}\n")
    with open(os.path.join(folder, "list.tsv"), "w") as file:
        file.writelines(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    data = commands.add_parser("data")
    data.add_argument("--shards", type=int, default=40)
    data.add_argument("--seed", type=int, default=1)
    training = commands.add_parser("train")
    training.add_argument("--minutes", type=float, default=60)
    training.add_argument("--batch", type=int, default=16)
    training.add_argument("--rate", type=float, default=2e-3)
    commands.add_parser("export").add_argument("folder")
    sounds = commands.add_parser("sounds")
    sounds.add_argument("folder")
    sounds.add_argument("--items", type=int, default=500)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.command == "data":
        build_data(arguments.shards, arguments.seed)
    elif arguments.command == "export":
        export_programs(arguments.folder)
    elif arguments.command == "sounds":
        build_sounds(arguments.folder, arguments.items)
    else:
        train(arguments.minutes, arguments.batch, arguments.rate)
