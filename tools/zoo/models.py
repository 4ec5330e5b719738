"""The three networks: log-mel features, voice activity, wake word."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

RATE = 16000


def mel_matrix(bands, low_hz, high_hz, size):
    """Triangular mel filters over the size/2+1 bins of a DFT: [bands, bins]."""
    def mel(hz):
        return 2595 * np.log10(1 + hz / 700)
    edges = 700 * (10 ** (np.linspace(mel(low_hz), mel(high_hz), bands + 2) / 2595) - 1)
    hz = np.arange(size // 2 + 1) * RATE / size
    filters = np.zeros((bands, len(hz)))
    for i in range(bands):
        left, centre, right = edges[i:i + 3]
        filters[i] = np.maximum(0, np.minimum((hz - left) / (centre - left),
                                              (right - hz) / (right - centre)))
        if filters[i].sum() == 0:
            filters[i, int(round(centre * size / RATE))] = 1
    return filters


def constant(array):
    return torch.tensor(np.ascontiguousarray(array), dtype=torch.float32)


class MelPower(nn.Module):
    """Mel band powers of count windows of sound, with a DFT of size rows x columns in two small steps.

    Sample n = columns*a + b and bin k = p + rows*q give
    X[k] = sum_b W32^(bq) W512^(bp) sum_a W16^(ap) x[n] (indices for 16 x 32). Only p <= rows/2 is
    computed: the other bins of a real signal mirror these, so the mel matrix takes their power there.
    """

    def __init__(self, rows, columns, window, count, bands, low_hz=60, high_hz=7600, filters=None):
        """Mel filters unless others are given, [bands, bins]."""
        super().__init__()
        size, kept = rows * columns, rows // 2 + 1
        self.rows, self.columns, self.kept, self.padding = rows, columns, kept, size - window
        a, p = np.arange(rows), np.arange(kept)
        b, q = np.arange(columns), np.arange(columns)
        first = -2 * np.pi * np.outer(a, p) / rows
        twiddle = -2 * np.pi * np.outer(b, p) / size
        second = -2 * np.pi * np.outer(b, q) / columns
        c, s = np.cos(second), np.sin(second)
        self.register_buffer("window", constant(np.hanning(window + 1)[:-1]), persistent=False)
        self.register_buffer("first", constant(np.hstack([np.cos(first), np.sin(first)])), persistent=False)
        self.register_buffer("cos", constant(np.cos(twiddle)), persistent=False)
        self.register_buffer("sin", constant(np.sin(twiddle)), persistent=False)
        self.register_buffer("second", constant(np.block([[c, s], [-s, c]])), persistent=False)
        filters = mel_matrix(bands, low_hz, high_hz, size) if filters is None else filters
        self.filters = constant(filters.T)
        mel = np.zeros((kept * columns, bands))
        for i in range(kept):
            for j in range(columns):
                k = i + rows * j
                if k <= size // 2:
                    mel[i * columns + j] = filters[:, k]
                elif 0 < i < rows // 2:
                    mel[i * columns + j] = filters[:, size - k]
        self.register_buffer("mel", constant(mel), persistent=False)
        self.register_buffer("zeros", torch.zeros(count, self.padding), persistent=False)

    def forward(self, windows):
        count = windows.shape[0]
        x = windows * self.window
        if self.padding:
            x = torch.cat([x, self.zeros], 1)
        x = torch.permute_copy(x.reshape(count, self.rows, self.columns), (0, 2, 1)).reshape(-1, self.rows)
        x = torch.mm(x, self.first).reshape(count, self.columns, 2 * self.kept)
        re, im = x[:, :, :self.kept], x[:, :, self.kept:]
        x = torch.cat([re * self.cos - im * self.sin, re * self.sin + im * self.cos], 1)
        x = torch.mm(torch.permute_copy(x, (0, 2, 1)).reshape(-1, 2 * self.columns), self.second)
        re, im = x[:, :self.columns], x[:, self.columns:]
        power = (re * re + im * im).reshape(count, self.kept * self.columns)
        return torch.mm(power, self.mel)

    def in_batch(self, windows, filters=None):
        """The same by torch.fft: faster for whole sounds; other filters [batch, bins, bands] may be given."""
        spectrum = torch.fft.rfft(windows * self.window, self.rows * self.columns)
        return (spectrum.real ** 2 + spectrum.imag ** 2) @ (self.filters if filters is None else filters)


class LogMel(nn.Module):
    """f32[1, 880] (240 context + 640 new samples) -> f32[1, 4, 40] log-mel features every 10 ms."""
    WINDOW, CONTEXT, HOP, LENGTH, BANDS = 640, 240, 160, 400, 40
    STEPS = WINDOW // HOP
    FLOOR, OFFSET, SCALE = 1e-6, 4.0, 0.25

    def __init__(self):
        super().__init__()
        self.power = MelPower(16, 32, self.LENGTH, self.STEPS, self.BANDS)

    def forward(self, x):
        windows = torch.cat([x[:, i * self.HOP:i * self.HOP + self.LENGTH] for i in range(self.STEPS)])
        return self.normalise(self.power(windows)).reshape(1, self.STEPS, self.BANDS)

    def normalise(self, power):
        return (torch.log(power + self.FLOOR) + self.OFFSET) * self.SCALE

    def whole(self, sounds, filters=None):
        """The same features of whole sounds [batch, samples] -> [batch, steps, 40]."""
        windows = F.pad(sounds, (self.CONTEXT, 0)).unfold(1, self.LENGTH, self.HOP)
        return self.normalise(self.power.in_batch(windows, filters))


class Vad(nn.Module):
    """The contract of Silero VAD: (f32[1, 576], state f32[2, 1, 128]) -> (prob f32[1, 1], state)."""
    WINDOW, CONTEXT, LENGTH, HOP, BANDS, WIDTH, HIDDEN = 512, 64, 256, 160, 32, 64, 128
    STEPS = 3
    FLOOR = 1e-7

    def __init__(self):
        super().__init__()
        self.power = MelPower(16, 16, self.LENGTH, self.STEPS, self.BANDS)
        self.near = nn.Conv1d(self.BANDS, self.WIDTH, 3, padding=1)
        self.all = nn.Conv1d(self.WIDTH, self.WIDTH, self.STEPS)
        self.lstm = nn.LSTM(self.WIDTH, self.HIDDEN, batch_first=True)
        self.out = nn.Linear(self.HIDDEN, 1)

    def encode(self, x):
        """Windows [n, 576] -> [n, WIDTH]."""
        windows = torch.cat([x[:, i * self.HOP:i * self.HOP + self.LENGTH] for i in range(self.STEPS)], 1)
        return self.compress(self.power(windows.reshape(-1, self.LENGTH)))

    def compress(self, power):
        x = (torch.log(power + self.FLOOR) + 5.0) * 0.25
        x = x.reshape(-1, self.STEPS, self.BANDS).permute(0, 2, 1)
        x = F.relu(self.all(F.relu(self.near(x))))
        return x.reshape(-1, self.WIDTH)

    def forward(self, x, state):
        state = state.reshape(2, self.HIDDEN)
        h, c = state[:1], state[1:]
        gates = (F.linear(self.encode(x), self.lstm.weight_ih_l0, self.lstm.bias_ih_l0)
                 + F.linear(h, self.lstm.weight_hh_l0, self.lstm.bias_hh_l0))
        n = self.HIDDEN
        keep = torch.sigmoid(gates[:, n:2 * n]) * c
        c = keep + torch.sigmoid(gates[:, :n]) * torch.tanh(gates[:, 2 * n:3 * n])
        h = torch.sigmoid(gates[:, 3 * n:]) * torch.tanh(c)
        return torch.sigmoid(self.out(h)), torch.cat([h, c]).reshape(2, 1, n)

    def whole(self, sounds):
        """Logits for whole sounds [batch, samples] -> [batch, windows], from a zero state."""
        windows = F.pad(sounds, (self.CONTEXT, 0)).unfold(1, self.CONTEXT + self.WINDOW, self.WINDOW)
        x = self.compress(self.power.in_batch(windows.unfold(2, self.LENGTH, self.HOP)))
        x, _ = self.lstm(x.reshape(len(sounds), -1, self.WIDTH))
        return self.out(x)[:, :, 0]


class Taps(torch.autograd.Function):
    """Causal depthwise convolution over [batch, steps, width] with zeros before it; weights [taps, width].

    For training: many times faster than conv1d on a processor.
    """

    @staticmethod
    def forward(ctx, x, weights, dilation):
        count, past = x.shape[1], (len(weights) - 1) * dilation
        seen = F.pad(x, (0, 0, past, 0))
        ctx.save_for_backward(seen, weights)
        ctx.dilation = dilation
        y = seen[:, :count] * weights[0]
        for k in range(1, len(weights)):
            y.addcmul_(seen[:, k * dilation:k * dilation + count], weights[k])
        return y

    @staticmethod
    def backward(ctx, gradient):
        (seen, weights), dilation = ctx.saved_tensors, ctx.dilation
        count, past = gradient.shape[1], (len(weights) - 1) * dilation
        later = F.pad(gradient, (0, 0, 0, past))
        of_x = later[:, past:] * weights[0]
        of_weights = [(gradient * seen[:, :count]).sum((0, 1))]
        for k in range(1, len(weights)):
            of_x.addcmul_(later[:, past - k * dilation:past - k * dilation + count], weights[k])
            of_weights.append((gradient * seen[:, k * dilation:k * dilation + count]).sum((0, 1)))
        return of_x, torch.stack(of_weights), None


def normalised(norm, x):
    """A BatchNorm2d over the last dimension, in training."""
    y = F.batch_norm(x.reshape(-1, x.shape[-1]), norm.running_mean, norm.running_var, norm.weight, norm.bias, True,
                     norm.momentum, norm.eps)
    return y.reshape(x.shape)


class Block(nn.Module):
    """Causal depthwise-separable convolution with a residual path."""

    def __init__(self, width, taps, dilation):
        super().__init__()
        self.past = (taps - 1) * dilation
        self.depth = nn.Conv2d(width, width, (1, taps), groups=width, dilation=(1, dilation), bias=False)
        self.depth_norm = nn.BatchNorm2d(width)
        self.point = nn.Conv2d(width, width, 1, bias=False)
        self.point_norm = nn.BatchNorm2d(width)

    def forward(self, x, past):
        """x [batch, width, 1, n] and its past [batch, width, 1, self.past] -> (y, extended input)."""
        seen = torch.cat([past, x], 3)
        y = F.relu(self.depth_norm(self.depth(seen)))
        return F.relu(x + self.point_norm(self.point(y))), seen

    def in_training(self, x):
        """Whole sounds [batch, steps, width] from a zero past."""
        taps = self.depth.weight[:, 0, 0].T.contiguous()
        y = F.relu(normalised(self.depth_norm, Taps.apply(x, taps, self.depth.dilation[1])))
        return F.relu(x + normalised(self.point_norm, F.linear(y, self.point.weight[:, :, 0, 0])))

    def fold(self):
        """Put the normalisations into the convolutions, for inference."""
        self.depth = nn.utils.fuse_conv_bn_eval(self.depth, self.depth_norm)
        self.point = nn.utils.fuse_conv_bn_eval(self.point, self.point_norm)
        self.depth_norm = self.point_norm = nn.Identity()


class WakeWord(nn.Module):
    """(features f32[1, 4, 40], state f32[1, 128, 40]) -> (probabilities f32[1, 4], state).

    One step of the network per call of 40 ms; the state holds the past inputs of every block.
    """
    LABELS = ["background", "hey afferent", "stop", "go"]
    BANDS, STEPS, WIDTH, TAPS = 40, 4, 128, 5
    DILATIONS = (1, 1, 2, 2, 4)
    PAST = (TAPS - 1) * sum(DILATIONS)

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(self.BANDS * self.STEPS, self.WIDTH)
        self.blocks = nn.ModuleList(Block(self.WIDTH, self.TAPS, d) for d in self.DILATIONS)
        self.out = nn.Linear(self.WIDTH, len(self.LABELS))

    def logits(self, features, state):
        """Features [batch, 4 * steps, 40] -> logits [batch, steps, labels] and the next state."""
        batch = features.shape[0]
        x = features.reshape(batch, -1, self.BANDS * self.STEPS)
        x = F.relu(self.enter(x)).permute(0, 2, 1).reshape(batch, self.WIDTH, 1, -1)
        state = state.reshape(batch, self.WIDTH, 1, self.PAST)
        start, kept = 0, []
        for block in self.blocks:
            x, seen = block(x, state[:, :, :, start:start + block.past])
            kept.append(seen[:, :, :, seen.shape[3] - block.past:])
            start += block.past
        x = x.reshape(batch, self.WIDTH, -1).permute(0, 2, 1)
        return self.out(x), torch.cat(kept, 3).reshape(batch, self.WIDTH, self.PAST)

    def in_training(self, features):
        """The logits of whole sounds from a zero state, normalised by their batch."""
        x = F.relu(self.enter(features.reshape(features.shape[0], -1, self.BANDS * self.STEPS)))
        for block in self.blocks:
            x = block.in_training(x)
        return self.out(x)

    def forward(self, features, state):
        logits, state = self.logits(features, state)
        return torch.softmax(logits.reshape(1, len(self.LABELS)), 1), state

    def zero_state(self, batch=1):
        """Channels last, which is faster in training."""
        return torch.zeros(batch, self.PAST, self.WIDTH).permute(0, 2, 1)

    def fold(self):
        for block in self.blocks:
            block.fold()
        return self


def multiplications():
    """Multiply-adds per call of each program, matrices and convolutions only."""
    def mel(m, windows):
        return windows * (m.columns * m.rows * 2 * m.kept + m.kept * (2 * m.columns) ** 2
                          + m.kept * m.columns * m.mel.shape[1])
    features, vad, wake = LogMel(), Vad(), WakeWord()
    width, hidden = vad.WIDTH, vad.HIDDEN
    return {
        "log_mel": mel(features.power, features.STEPS),
        "vad": (mel(vad.power, vad.STEPS) + vad.STEPS * 3 * vad.BANDS * width + vad.STEPS * width * width
                + 4 * hidden * (width + hidden) + hidden),
        "wake_word": wake.WIDTH * (wake.BANDS * wake.STEPS + len(wake.DILATIONS) * (wake.TAPS + wake.WIDTH)
                                   + len(wake.LABELS)),
    }
