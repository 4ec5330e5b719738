"""Networks of the voice: acoustic model (tokens to spectrum), vocoder (spectrum to sound), G2P
(letters to phones).
"""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

import phones
from language import language
from corpus import HOP, MELS, SAMPLE_RATE

MEL_MEAN, MEL_SCALE = -3.4, 2.9
PITCH_CENTER_HZ, PITCH_SCALE = 100.0, 4.0
# Unit of the durations that the encoder is trained on.
DURATION_UNIT_S = 0.05
HIDDEN = 160
# Features of the position of a hop in its token.
POSITION_FEATURES = 4
# Hops in one step of the decoder.
STEP_HOPS = 2
FFT_SIZE = 480
BINS = FFT_SIZE // 2 + 1
OVERLAP = FFT_SIZE // HOP


class Depthwise(nn.Conv1d):
    """Depthwise convolution that stays in fp32 under autocast, where it is faster."""

    def forward(self, x):
        if torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                return super().forward(x.float())
        return super().forward(x)


class Block(nn.Module):
    """Inverted bottleneck with a residual connection: depthwise, expand, project."""

    def __init__(self, width, kernel, inner):
        super().__init__()
        self.depthwise = Depthwise(width, width, kernel, padding=kernel // 2, groups=width, bias=False)
        self.depthwise_norm = nn.BatchNorm1d(width)
        self.expand = nn.Conv1d(width, inner, 1, bias=False)
        self.expand_norm = nn.BatchNorm1d(inner)
        self.project = nn.Conv1d(inner, width, 1)

    def forward(self, x):
        y = self.depthwise_norm(self.depthwise(x))
        return x + self.project(F.relu(self.expand_norm(self.expand(y))))

    def fold_batch_norm(self):
        """Folds the normalizations into the convolutions before them."""
        self.depthwise, self.depthwise_norm = fuse_conv_bn_eval(self.depthwise, self.depthwise_norm), nn.Identity()
        self.expand, self.expand_norm = fuse_conv_bn_eval(self.expand, self.expand_norm), nn.Identity()


class Encoder(nn.Module):
    """Tokens to hidden vectors and durations, in DURATION_UNIT_S."""

    def __init__(self, symbols, width=160, inner=320):
        super().__init__()
        self.phone_embedding = nn.Embedding(symbols, width)
        self.feature_layer = nn.Linear(phones.FEATURES, width)
        self.blocks = nn.ModuleList(Block(width, 7, inner) for _ in range(4))
        self.output_layer = nn.Conv1d(width, HIDDEN, 1)
        self.duration_block = Block(width, 5, 160)
        self.duration_layer = nn.Conv1d(width, 1, 1)

    def forward(self, ids, features, mask):
        """ids i64[1, N], features f32[1, N, FEATURES], mask f32[1, 1, N] -> f32[1, HIDDEN, N],
        f32[1, N].
        """
        x = (self.phone_embedding(ids) + self.feature_layer(features)).transpose(1, 2) * mask
        for block in self.blocks:
            x = block(x) * mask
        return self.output_layer(x), F.relu(self.duration_layer(F.relu(self.duration_block(x)))[:, 0])


class Decoder(nn.Module):
    """Expanded hidden vectors, STEP_HOPS in a step, to mel bands, pitch and voicing of each hop."""

    def __init__(self, width=160, inner=288):
        super().__init__()
        self.input_layer = nn.Conv1d(STEP_HOPS * (HIDDEN + POSITION_FEATURES), width, 1)
        self.blocks = nn.ModuleList(Block(width, 7, inner) for _ in range(5))
        self.output_layer = nn.Conv1d(width, STEP_HOPS * (MELS + 2), 1)

    def forward(self, x, mask):
        """x f32[1, 2 (HIDDEN + POSITION_FEATURES), T / 2], mask f32[1, 1, T / 2] -> f32[1, MELS +
        2, T].
        """
        x = self.input_layer(x) * mask
        for block in self.blocks:
            x = block(x) * mask
        y = self.output_layer(F.relu(x))
        batch, _, steps = y.shape
        return y.reshape(batch, STEP_HOPS, MELS + 2, steps).permute(0, 2, 3, 1).reshape(batch, MELS + 2, -1)


def synthesis_basis():
    """Returns the windowed inverse DFT with overlap-add, as a convolution over spectra: [HOP, 2
    BINS, OVERLAP].
    """
    n, k = np.arange(FFT_SIZE), np.arange(BINS).reshape(-1, 1)
    window = np.hanning(FFT_SIZE + 1)[:-1]
    multiplicity = np.full((BINS, 1), 2.0)
    multiplicity[0] = multiplicity[-1] = 1
    sums = (window ** 2).reshape(OVERLAP, HOP).sum(0)
    scale = multiplicity * window / np.tile(sums, OVERLAP) / FFT_SIZE
    phase = 2 * np.pi * k * n / FFT_SIZE
    basis = np.concatenate([np.cos(phase) * scale, -np.sin(phase) * scale])
    # Output hop t is the first part of spectrum t, the second of t - 1, and the third of t - 2.
    basis = basis.reshape(2 * BINS, OVERLAP, HOP)[:, ::-1].transpose(2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(basis).astype(np.float32))


class Vocoder(nn.Module):
    """Filters the spectra of a pulse train and of noise, and transforms them to sound."""

    def __init__(self, width=144, inner=288):
        super().__init__()
        self.input_layer = nn.Conv1d(MELS + 2, width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width, 7, inner) for _ in range(4))
        self.output_layer = nn.Conv1d(width, 3 * BINS, 1)
        self.register_buffer("basis", synthesis_basis())
        with torch.no_grad():
            self.output_layer.weight *= 0.1
            self.output_layer.bias.zero_()

    def forward(self, x, pulses, noise):
        """x f32[1, MELS + 2, T], pulses and noise f32[1, 2 BINS, T] -> f32[1, T, HOP]."""
        x = self.input_layer(x)
        for block in self.blocks:
            x = block(x)
        y = self.output_layer(F.relu(x))
        y = y.float() if torch.is_autocast_enabled("cpu") else y
        pulse_gain = torch.exp((y[:, :BINS] - 3).clamp(-12, 4))
        noise_gain = torch.exp((y[:, BINS:2 * BINS] - 3).clamp(-12, 4))
        phase = y[:, 2 * BINS:]
        real, imaginary = torch.cos(phase) * pulse_gain, torch.sin(phase) * pulse_gain
        spectrum = torch.cat([
            pulses[:, :BINS] * real - pulses[:, BINS:] * imaginary + noise[:, :BINS] * noise_gain,
            pulses[:, :BINS] * imaginary + pulses[:, BINS:] * real + noise[:, BINS:] * noise_gain], 1)
        return F.conv1d(spectrum, self.basis, padding=1).transpose(1, 2)


def expand_durations(seconds):
    """Returns the token at the center of each hop, and the features of its position: [hops,
    POSITION_FEATURES].
    """
    ends = np.cumsum(np.asarray(seconds, np.float64))
    hops = int(round(ends[-1] * SAMPLE_RATE / HOP / STEP_HOPS)) * STEP_HOPS
    center = (np.arange(hops) + 0.5) * HOP / SAMPLE_RATE
    token = np.minimum(np.searchsorted(ends, center, side="right"), len(ends) - 1)
    length = np.maximum(np.asarray(seconds, np.float64)[token], 1e-3)
    since_start, until_end = np.maximum(center - (ends[token] - length), 0), np.maximum(ends[token] - center, 0)
    features = [np.minimum(since_start / length, 1), np.minimum(since_start, 0.2) * 10, np.minimum(until_end, 0.2) * 10,
                np.minimum(length, 0.4) * 5]
    return token, np.stack(features, 1).astype(np.float32)


def pitch_features(pitch):
    """Returns log pitch and voicing of a pitch in hertz, which is 0 where unvoiced."""
    voiced = pitch > 0
    log_pitch = np.where(voiced, np.log(np.maximum(pitch, 50) / PITCH_CENTER_HZ) * PITCH_SCALE, 0)
    return log_pitch.astype(np.float32), voiced.astype(np.float32)


def vocoder_input(mel, pitch):
    """Returns the input of the vocoder for mel bands and pitch of the teacher: [MELS + 2, hops]."""
    log_pitch, voiced = pitch_features(pitch)
    return np.concatenate([((mel.astype(np.float32) - MEL_MEAN) / MEL_SCALE).T, log_pitch[None], voiced[None]])


LETTERS = language.LETTERS
MAX_WORD_LETTERS = 32


class G2p(nn.Module):
    """Grapheme-to-phoneme network with CTC: two outputs for each letter, each a stressed phone or
    the blank.
    """

    def __init__(self, symbols, width=96, inner=192):
        super().__init__()
        self.letter_embedding = nn.Embedding(len(LETTERS) + 1, width)
        self.blocks = nn.ModuleList(Block(width, 5, inner) for _ in range(5))
        self.output_layer = nn.Conv1d(width, 2 * symbols, 1)

    def forward(self, ids, mask):
        """ids i64[1, L], 0 after the last letter, mask f32[1, 1, L] -> scores f32[1, 2 L, symbols].
        """
        x = self.letter_embedding(ids).transpose(1, 2) * mask
        for block in self.blocks:
            x = block(x) * mask
        y = self.output_layer(F.relu(x)).transpose(1, 2)
        return y.reshape(y.shape[0], 2 * y.shape[1], -1)
