"""Synthesizes clauses with the shipped program on the official runtime, window by window as the
node does.
"""
import os

import numpy as np
import torch
from executorch.runtime import Runtime

import excitation
import g2p
import networks
import phones
from corpus import HOP, LEAD_S, MELS, SAMPLE_RATE, TAIL_S
from package import HOPS, PACKAGE, STEPS, TOKENS

CONTEXT = phones.CONTEXT
SILENT_BAND = -2.0
NOISE_SEED = 1


def read_lexicon():
    """Reads lexicon.txt of the package: words, index of each phone, names of the columns of the G2P
    network.
    """
    with open(os.path.join(PACKAGE, "lexicon.txt")) as file:
        lines = [line.split("\t") for line in file.read().splitlines()]
    symbols = {name: i + 2 for i, name in enumerate(lines[1][1].split(" "))}
    return {line[0]: line[1].split(" ") for line in lines[3:]}, symbols, [""] + lines[2][1].split(" ")


def node_noise(first, hops):
    """Returns the noise of the node: SplitMix64 with a seed for each hop."""
    hop = (np.arange(first, first + hops).astype(np.int64)).view(np.uint64)
    with np.errstate(over="ignore"):
        state = np.uint64(NOISE_SEED) ^ (hop * np.uint64(0xd6e8feb86659fd93))
        steps = np.arange(1, 2 * networks.BINS + 1, dtype=np.uint64).reshape(-1, 1)
        mixed = state + steps * np.uint64(0x9e3779b97f4a7c15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        mixed ^= mixed >> np.uint64(31)
    uniform = (mixed >> np.uint64(40)).astype(np.float32) / (1 << 24)
    return (uniform - 0.5) * np.float32(excitation.NOISE_AMPLITUDE * 12 ** 0.5)


class Synthesizer:
    """A variant of the package."""

    def __init__(self, variant="xnnpack"):
        self.program = Runtime.get().load_program(os.path.join(PACKAGE, f"tts_{variant}.pte"))
        self.methods = {name: self.program.load_method(name) for name in ("forward", "spectrum", "sound", "spell")}
        self.words, self.symbols, self.columns = read_lexicon()

    def run(self, method, *inputs):
        outputs = self.methods[method].execute([torch.from_numpy(np.ascontiguousarray(x)) for x in inputs])
        return [output.numpy().copy() for output in outputs]

    def to_phones(self, word):
        """Returns the phones of a word by the G2P network."""
        ids = np.zeros((1, networks.MAX_WORD_LETTERS), np.int64)
        ids[0, :len(word)] = g2p.letter_ids(word)
        best = self.run("spell", ids, (ids > 0).astype(np.float32)[:, None])[0][0, :2 * len(word)].argmax(1)
        return [self.columns[b] for i, b in enumerate(best) if b and (i == 0 or b != best[i - 1])]

    def tokens(self, clause):
        lexicon = {word: self.words[word] if word in self.words else self.to_phones(word) for word in clause.words}
        return phones.clause_tokens(phones.clause_phones(clause.words, lexicon), self.symbols)

    def encode(self, tokens, features):
        """Returns the hidden vector of each token, [HIDDEN, tokens], and its duration in seconds.
        """
        hidden, seconds = np.zeros((networks.HIDDEN, len(tokens)), np.float32), np.zeros(len(tokens), np.float32)
        start = done = 0
        while done < len(tokens):
            inside = min(TOKENS, len(tokens) - start)
            until = start + inside if start + inside == len(tokens) else start + inside - CONTEXT
            ids, rows = np.zeros((1, TOKENS), np.int64), np.zeros((1, TOKENS, phones.FEATURES), np.float32)
            ids[0, :inside] = [token.phone for token in tokens[start:start + inside]]
            rows[0, :inside] = features[start:start + inside]
            mask = (np.arange(TOKENS) < inside).astype(np.float32)[None, None]
            window_hidden, window_seconds = self.run("forward", ids, rows, mask)
            hidden[:, done:until] = window_hidden[0, :, done - start:until - start]
            seconds[done:until] = window_seconds[0, done - start:until - start]
            done, start = until, max(0, until - CONTEXT)
        return hidden, seconds

    def decode(self, hidden, seconds):
        """Returns the spectrum of the decoder: [MELS + 2, hops]."""
        token, positions = networks.expand_durations(seconds)
        of_hop = np.concatenate([hidden[:, token], positions.T])
        rows, hops = of_hop.shape
        expanded = of_hop.reshape(rows, hops // 2, 2).transpose(2, 0, 1).reshape(2 * rows, hops // 2)
        payload, parts = STEPS - 2 * CONTEXT, []
        for first in range(-CONTEXT, hops // 2 - CONTEXT, payload):
            steps = np.arange(first, first + STEPS)
            inside = (steps >= 0) & (steps < hops // 2)
            window = np.where(inside, expanded[:, steps.clip(0, hops // 2 - 1)], 0).astype(np.float32)
            spectrum = self.run("spectrum", window[None], inside.astype(np.float32)[None, None])[0][0]
            parts.append(spectrum[:, 2 * CONTEXT:2 * (CONTEXT + payload)])
        return np.concatenate(parts, 1)[:, :hops]

    def vocode(self, spectrum, pitch):
        """Returns the sound of a spectrum and a pitch in hertz."""
        hops, payload, parts = len(pitch), HOPS - 2 * CONTEXT, []
        log_pitch, voiced = networks.pitch_features(pitch)
        condition = np.concatenate([spectrum[:MELS], log_pitch[None], voiced[None]])
        silent = np.array([SILENT_BAND] * MELS + [0, 0], np.float32)
        pulses = excitation.pulses(pitch)
        for first in range(-CONTEXT, hops - CONTEXT, payload):
            at = np.arange(first, first + HOPS)
            inside = (at >= 0) & (at < hops)
            window = np.where(inside, condition[:, at.clip(0, hops - 1)], silent[:, None]).astype(np.float32)
            pulse_spectra = excitation.pulse_spectra(*pulses, first, HOPS)
            sound = self.run("sound", window[None], pulse_spectra[None], node_noise(first, HOPS)[None])[0][0]
            parts.append(sound[CONTEXT:CONTEXT + payload].reshape(-1))
        return np.concatenate(parts)[:hops * HOP].clip(-1, 1)

    def synthesize(self, clause):
        """Returns the sound of a clause."""
        tokens = self.tokens(clause)
        hidden, seconds = self.encode(tokens, phones.token_features(tokens, clause.mark))
        seconds[0], seconds[-1] = LEAD_S, TAIL_S
        hops = int(np.ceil(seconds.sum(dtype=np.float64) * SAMPLE_RATE / HOP / 2 - 1e-6)) * 2
        seconds[-1] = hops * HOP / SAMPLE_RATE - seconds[:-1].sum(dtype=np.float64)
        spectrum = self.decode(hidden, seconds)
        return self.vocode(spectrum, predicted_pitch(spectrum))


def predicted_pitch(spectrum):
    """Returns the pitch in hertz that the decoder predicts, 0 where unvoiced."""
    hertz = networks.PITCH_CENTER_HZ * np.exp((spectrum[-2] / networks.PITCH_SCALE).clip(-1, 1.5))
    return np.where(spectrum[-1] > 0, hertz, 0).astype(np.float32)
