"""The networks of the voice: durations and spectrum from tokens, sound from spectrum, phones from letters."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

import phones
from corpus import HOP, MELS, RATE

MEL_MEAN, MEL_SCALE = -3.4, 2.9
PITCH_CENTRE_HZ, PITCH_SCALE = 100.0, 4.0
DURATION_UNIT_S = 0.05
HIDDEN = 160
PLACES = 4
STEP_HOPS = 2
SPECTRUM = 480
BINS = SPECTRUM // 2 + 1
OVERLAP = SPECTRUM // HOP


class Depthwise(nn.Conv1d):
    """A convolution of each row by itself, which is slower in half precision."""

    def forward(self, x):
        if torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                return super().forward(x.float())
        return super().forward(x)


class Block(nn.Module):
    """A depthwise and two pointwise convolutions around which the input passes."""

    def __init__(self, width, kernel, inner):
        super().__init__()
        self.depthwise = Depthwise(width, width, kernel, padding=kernel // 2, groups=width, bias=False)
        self.norm_in = nn.BatchNorm1d(width)
        self.widen = nn.Conv1d(width, inner, 1, bias=False)
        self.norm_inner = nn.BatchNorm1d(inner)
        self.narrow = nn.Conv1d(inner, width, 1)

    def forward(self, x):
        y = self.norm_in(self.depthwise(x))
        return x + self.narrow(F.relu(self.norm_inner(self.widen(y))))

    def fold(self):
        """Put the norms into the convolutions before them."""
        self.depthwise, self.norm_in = fuse_conv_bn_eval(self.depthwise, self.norm_in), nn.Identity()
        self.widen, self.norm_inner = fuse_conv_bn_eval(self.widen, self.norm_inner), nn.Identity()


class Encoder(nn.Module):
    """Tokens to what the decoder needs of each, and to durations in DURATION_UNIT_S."""

    def __init__(self, symbols, width=160, inner=320):
        super().__init__()
        self.phone = nn.Embedding(symbols, width)
        self.feature = nn.Linear(phones.FEATURES, width)
        self.blocks = nn.ModuleList(Block(width, 7, inner) for _ in range(4))
        self.out = nn.Conv1d(width, HIDDEN, 1)
        self.duration_block = Block(width, 5, 160)
        self.duration = nn.Conv1d(width, 1, 1)

    def forward(self, ids, features, mask):
        """ids i64[1, N], features f32[1, N, FEATURES], mask f32[1, 1, N] → f32[1, HIDDEN, N], f32[1, N]."""
        x = (self.phone(ids) + self.feature(features)).transpose(1, 2) * mask
        for block in self.blocks:
            x = block(x) * mask
        return self.out(x), F.relu(self.duration(F.relu(self.duration_block(x)))[:, 0])


class Decoder(nn.Module):
    """Expanded tokens, two hops a step, to mel bands, pitch and voicing of each hop."""

    def __init__(self, width=160, inner=288):
        super().__init__()
        self.into = nn.Conv1d(STEP_HOPS * (HIDDEN + PLACES), width, 1)
        self.blocks = nn.ModuleList(Block(width, 7, inner) for _ in range(5))
        self.out = nn.Conv1d(width, STEP_HOPS * (MELS + 2), 1)

    def forward(self, x, mask):
        """x f32[1, 2 (HIDDEN + PLACES), T / 2], mask f32[1, 1, T / 2] → f32[1, MELS + 2, T]."""
        x = self.into(x) * mask
        for block in self.blocks:
            x = block(x) * mask
        y = self.out(F.relu(x))
        batch, _, steps = y.shape
        return y.reshape(batch, STEP_HOPS, MELS + 2, steps).permute(0, 2, 3, 1).reshape(batch, MELS + 2, -1)


def synthesis_basis():
    """Inverse DFT and window of every bin, as a convolution over OVERLAP spectra: [HOP, 2 BINS, OVERLAP]."""
    n, k = np.arange(SPECTRUM), np.arange(BINS).reshape(-1, 1)
    window = np.hanning(SPECTRUM + 1)[:-1]
    twice = np.full((BINS, 1), 2.0)
    twice[0] = twice[-1] = 1
    sums = (window ** 2).reshape(OVERLAP, HOP).sum(0)
    scale = twice * window / np.tile(sums, OVERLAP) / SPECTRUM
    basis = np.concatenate([np.cos(2 * np.pi * k * n / SPECTRUM) * scale, -np.sin(2 * np.pi * k * n / SPECTRUM) * scale])
    # Output hop t is the first part of spectrum t, the second of t - 1, the third of t - 2.
    return torch.from_numpy(np.ascontiguousarray(basis.reshape(2 * BINS, OVERLAP, HOP)[:, ::-1].transpose(2, 0, 1)).astype(np.float32))


class Vocoder(nn.Module):
    """Filters the spectra of a pulse train and of noise, and turns them into sound."""

    def __init__(self, width=144, inner=288):
        super().__init__()
        self.into = nn.Conv1d(MELS + 2, width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width, 7, inner) for _ in range(4))
        self.out = nn.Conv1d(width, 3 * BINS, 1)
        self.register_buffer("basis", synthesis_basis())
        with torch.no_grad():
            self.out.weight *= 0.1
            self.out.bias.zero_()

    def forward(self, x, pulses, noise):
        """x f32[1, MELS + 2, T], pulses and noise f32[1, 2 BINS, T] → f32[1, T, HOP]."""
        x = self.into(x)
        for block in self.blocks:
            x = block(x)
        y = self.out(F.relu(x))
        y = y.float() if torch.is_autocast_enabled("cpu") else y
        voiced = torch.exp((y[:, :BINS] - 3).clamp(-12, 4))
        breath = torch.exp((y[:, BINS:2 * BINS] - 3).clamp(-12, 4))
        turn = y[:, 2 * BINS:]
        real, imaginary = torch.cos(turn) * voiced, torch.sin(turn) * voiced
        spectrum = torch.cat([pulses[:, :BINS] * real - pulses[:, BINS:] * imaginary + noise[:, :BINS] * breath,
                              pulses[:, :BINS] * imaginary + pulses[:, BINS:] * real + noise[:, BINS:] * breath], 1)
        return F.conv1d(spectrum, self.basis, padding=1).transpose(1, 2)


def placed(seconds):
    """For the middle of each hop: the token that it lies in, and where in it, [hops, PLACES]."""
    ends = np.cumsum(np.asarray(seconds, np.float64))
    hops = int(round(ends[-1] * RATE / HOP / STEP_HOPS)) * STEP_HOPS
    middle = (np.arange(hops) + 0.5) * HOP / RATE
    token = np.minimum(np.searchsorted(ends, middle, side="right"), len(ends) - 1)
    length = np.maximum(np.asarray(seconds, np.float64)[token], 1e-3)
    after, before = np.maximum(middle - (ends[token] - length), 0), np.maximum(ends[token] - middle, 0)
    return token, np.stack([np.minimum(after / length, 1), np.minimum(after, 0.2) * 10, np.minimum(before, 0.2) * 10,
                            np.minimum(length, 0.4) * 5], 1).astype(np.float32)


def pitch_feature(pitch):
    """Pitch in hertz, 0 for none, as the networks see it: on a scale of logarithms, and whether there is one."""
    voiced = pitch > 0
    return np.where(voiced, np.log(np.maximum(pitch, 50) / PITCH_CENTRE_HZ) * PITCH_SCALE, 0).astype(np.float32), voiced.astype(np.float32)


def condition(mel, pitch):
    """What the vocoder hears of the teacher: [MELS + 2, hops]."""
    value, voiced = pitch_feature(pitch)
    return np.concatenate([((mel.astype(np.float32) - MEL_MEAN) / MEL_SCALE).T, value[None], voiced[None]])


LETTERS = "abcdefghijklmnopqrstuvwxyz'"
LONGEST_WORD = 32


class Speller(nn.Module):
    """Letters to phones: two places a letter, each a phone with its stress or nothing, as in CTC."""

    def __init__(self, symbols, width=96, inner=192):
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS) + 1, width)
        self.blocks = nn.ModuleList(Block(width, 5, inner) for _ in range(5))
        self.out = nn.Conv1d(width, 2 * symbols, 1)

    def forward(self, ids, mask):
        """ids i64[1, L], 0 after the last letter, mask f32[1, 1, L] → scores f32[1, 2 L, symbols]."""
        x = self.letter(ids).transpose(1, 2) * mask
        for block in self.blocks:
            x = block(x) * mask
        y = self.out(F.relu(x)).transpose(1, 2)
        return y.reshape(y.shape[0], 2 * y.shape[1], -1)
