"""Networks of the log-mel features, the VAD and the wake word."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SAMPLE_RATE = 16000


def mel_filterbank(bands, low_hz, high_hz, size):
    """Returns triangular mel filters over the size / 2 + 1 bins of a DFT: [bands, bins]."""
    def mel(hz):
        return 2595 * np.log10(1 + hz / 700)
    edges = 700 * (10 ** (np.linspace(mel(low_hz), mel(high_hz), bands + 2) / 2595) - 1)
    hz = np.arange(size // 2 + 1) * SAMPLE_RATE / size
    filters = np.zeros((bands, len(hz)))
    for i in range(bands):
        left, center, right = edges[i:i + 3]
        filters[i] = np.maximum(0, np.minimum((hz - left) / (center - left),
                                              (right - hz) / (right - center)))
        if filters[i].sum() == 0:
            filters[i, int(round(center * size / SAMPLE_RATE))] = 1
    return filters


def float_tensor(array):
    return torch.tensor(np.ascontiguousarray(array), dtype=torch.float32)


class MelPower(nn.Module):
    """Mel band powers of `count` windows of sound, by a DFT of size rows * columns in two matrix products.

    Sample n = columns * a + b and bin k = p + rows * q give
    X[k] = sum_b W32^(bq) W512^(bp) sum_a W16^(ap) x[n] (indices for 16 x 32). Only p <= rows / 2 is
    computed: the other bins of a real signal mirror these, and the mel matrix takes their power there.
    """

    def __init__(self, rows, columns, window, count, bands, low_hz=60, high_hz=7600, filters=None):
        """`filters` [bands, bins] replace the mel filters."""
        super().__init__()
        size, row_bins = rows * columns, rows // 2 + 1
        self.rows, self.columns, self.row_bins, self.padding = rows, columns, row_bins, size - window
        a, p = np.arange(rows), np.arange(row_bins)
        b, q = np.arange(columns), np.arange(columns)
        row_phase = -2 * np.pi * np.outer(a, p) / rows
        twiddle = -2 * np.pi * np.outer(b, p) / size
        column_phase = -2 * np.pi * np.outer(b, q) / columns
        c, s = np.cos(column_phase), np.sin(column_phase)
        row_dft = np.hstack([np.cos(row_phase), np.sin(row_phase)])
        self.register_buffer("window", float_tensor(np.hanning(window + 1)[:-1]), persistent=False)
        self.register_buffer("row_dft", float_tensor(row_dft), persistent=False)
        self.register_buffer("twiddle_cos", float_tensor(np.cos(twiddle)), persistent=False)
        self.register_buffer("twiddle_sin", float_tensor(np.sin(twiddle)), persistent=False)
        self.register_buffer("column_dft", float_tensor(np.block([[c, s], [-s, c]])), persistent=False)
        filters = mel_filterbank(bands, low_hz, high_hz, size) if filters is None else filters
        self.filters = float_tensor(filters.T)
        mel = np.zeros((row_bins * columns, bands))
        for i in range(row_bins):
            for j in range(columns):
                k = i + rows * j
                if k <= size // 2:
                    mel[i * columns + j] = filters[:, k]
                elif 0 < i < rows // 2:
                    mel[i * columns + j] = filters[:, size - k]
        self.register_buffer("mel", float_tensor(mel), persistent=False)
        self.register_buffer("zeros", torch.zeros(count, self.padding), persistent=False)

    def forward(self, windows):
        count = windows.shape[0]
        x = windows * self.window
        if self.padding:
            x = torch.cat([x, self.zeros], 1)
        x = torch.permute_copy(x.reshape(count, self.rows, self.columns), (0, 2, 1)).reshape(-1, self.rows)
        x = torch.mm(x, self.row_dft).reshape(count, self.columns, 2 * self.row_bins)
        re, im = x[:, :, :self.row_bins], x[:, :, self.row_bins:]
        x = torch.cat([re * self.twiddle_cos - im * self.twiddle_sin, re * self.twiddle_sin + im * self.twiddle_cos], 1)
        x = torch.mm(torch.permute_copy(x, (0, 2, 1)).reshape(-1, 2 * self.columns), self.column_dft)
        re, im = x[:, :self.columns], x[:, self.columns:]
        power = (re * re + im * im).reshape(count, self.row_bins * self.columns)
        return torch.mm(power, self.mel)

    def forward_fft(self, windows, filters=None):
        """Computes the same by torch.fft, for training.

        `filters` [batch, bins, bands] replace the mel filters.
        """
        spectrum = torch.fft.rfft(windows * self.window, self.rows * self.columns)
        return (spectrum.real ** 2 + spectrum.imag ** 2) @ (self.filters if filters is None else filters)


class LogMel(nn.Module):
    """Log-mel features: f32[1, 880] (240 context + 640 new samples) -> f32[1, 4, 40], one step each
    10 ms.
    """
    WINDOW, CONTEXT, HOP, ANALYSIS_WINDOW, BANDS = 640, 240, 160, 400, 40
    STEPS = WINDOW // HOP
    FLOOR, OFFSET, SCALE = 1e-6, 4.0, 0.25

    def __init__(self):
        super().__init__()
        self.power = MelPower(16, 32, self.ANALYSIS_WINDOW, self.STEPS, self.BANDS)

    def forward(self, x):
        windows = torch.cat([x[:, i * self.HOP:i * self.HOP + self.ANALYSIS_WINDOW] for i in range(self.STEPS)])
        return self.normalize(self.power(windows)).reshape(1, self.STEPS, self.BANDS)

    def normalize(self, power):
        return (torch.log(power + self.FLOOR) + self.OFFSET) * self.SCALE

    def forward_offline(self, sounds, filters=None):
        """Computes the features of whole sounds: [batch, samples] -> [batch, steps, 40]."""
        windows = F.pad(sounds, (self.CONTEXT, 0)).unfold(1, self.ANALYSIS_WINDOW, self.HOP)
        return self.normalize(self.power.forward_fft(windows, filters))


class Vad(nn.Module):
    """VAD with the interface of Silero VAD: (f32[1, 576], state f32[2, 1, 128]) -> (prob f32[1, 1],
    state).
    """
    WINDOW, CONTEXT, ANALYSIS_WINDOW, HOP, BANDS, WIDTH, HIDDEN = 512, 64, 256, 160, 32, 64, 128
    STEPS = 3
    FLOOR = 1e-7

    def __init__(self):
        super().__init__()
        self.power = MelPower(16, 16, self.ANALYSIS_WINDOW, self.STEPS, self.BANDS)
        self.conv1 = nn.Conv1d(self.BANDS, self.WIDTH, 3, padding=1)
        self.conv2 = nn.Conv1d(self.WIDTH, self.WIDTH, self.STEPS)
        self.lstm = nn.LSTM(self.WIDTH, self.HIDDEN, batch_first=True)
        self.output_layer = nn.Linear(self.HIDDEN, 1)

    def encode(self, x):
        """Encodes windows: [n, 576] -> [n, WIDTH]."""
        windows = torch.cat([x[:, i * self.HOP:i * self.HOP + self.ANALYSIS_WINDOW] for i in range(self.STEPS)], 1)
        return self.encode_power(self.power(windows.reshape(-1, self.ANALYSIS_WINDOW)))

    def encode_power(self, power):
        x = (torch.log(power + self.FLOOR) + 5.0) * 0.25
        x = x.reshape(-1, self.STEPS, self.BANDS).permute(0, 2, 1)
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return x.reshape(-1, self.WIDTH)

    def forward(self, x, state):
        state = state.reshape(2, self.HIDDEN)
        h, c = state[:1], state[1:]
        gates = (F.linear(self.encode(x), self.lstm.weight_ih_l0, self.lstm.bias_ih_l0)
                 + F.linear(h, self.lstm.weight_hh_l0, self.lstm.bias_hh_l0))
        n = self.HIDDEN
        forget = torch.sigmoid(gates[:, n:2 * n]) * c
        c = forget + torch.sigmoid(gates[:, :n]) * torch.tanh(gates[:, 2 * n:3 * n])
        h = torch.sigmoid(gates[:, 3 * n:]) * torch.tanh(c)
        return torch.sigmoid(self.output_layer(h)), torch.cat([h, c]).reshape(2, 1, n)

    def forward_offline(self, sounds):
        """Computes the logits of whole sounds from a zero state: [batch, samples] -> [batch,
        windows].
        """
        windows = F.pad(sounds, (self.CONTEXT, 0)).unfold(1, self.CONTEXT + self.WINDOW, self.WINDOW)
        x = self.encode_power(self.power.forward_fft(windows.unfold(2, self.ANALYSIS_WINDOW, self.HOP)))
        x, _ = self.lstm(x.reshape(len(sounds), -1, self.WIDTH))
        return self.output_layer(x)[:, :, 0]


class CausalDepthwiseConv(torch.autograd.Function):
    """Causal depthwise convolution with zero padding: [batch, steps, width], weights [taps, width].

    For training on a CPU, where conv1d is slow for this shape.
    """

    @staticmethod
    def forward(ctx, x, weights, dilation):
        count, past = x.shape[1], (len(weights) - 1) * dilation
        padded = F.pad(x, (0, 0, past, 0))
        ctx.save_for_backward(padded, weights)
        ctx.dilation = dilation
        y = padded[:, :count] * weights[0]
        for k in range(1, len(weights)):
            y.addcmul_(padded[:, k * dilation:k * dilation + count], weights[k])
        return y

    @staticmethod
    def backward(ctx, grad):
        (padded, weights), dilation = ctx.saved_tensors, ctx.dilation
        count, past = grad.shape[1], (len(weights) - 1) * dilation
        padded_grad = F.pad(grad, (0, 0, 0, past))
        grad_x = padded_grad[:, past:] * weights[0]
        grad_weights = [(grad * padded[:, :count]).sum((0, 1))]
        for k in range(1, len(weights)):
            grad_x.addcmul_(padded_grad[:, past - k * dilation:past - k * dilation + count], weights[k])
            grad_weights.append((grad * padded[:, k * dilation:k * dilation + count]).sum((0, 1)))
        return grad_x, torch.stack(grad_weights), None


def batch_norm_last(norm, x):
    """Applies a BatchNorm2d in training mode over the last dimension."""
    y = F.batch_norm(x.reshape(-1, x.shape[-1]), norm.running_mean, norm.running_var, norm.weight, norm.bias, True,
                     norm.momentum, norm.eps)
    return y.reshape(x.shape)


class Block(nn.Module):
    """Causal depthwise-separable convolution with a residual connection."""

    def __init__(self, width, taps, dilation):
        super().__init__()
        self.past = (taps - 1) * dilation
        self.depthwise = nn.Conv2d(width, width, (1, taps), groups=width, dilation=(1, dilation), bias=False)
        self.depthwise_norm = nn.BatchNorm2d(width)
        self.pointwise = nn.Conv2d(width, width, 1, bias=False)
        self.pointwise_norm = nn.BatchNorm2d(width)

    def forward(self, x, past):
        """Takes x [batch, width, 1, n] and its past inputs [batch, width, 1, self.past].

        Returns the output and the extended input.
        """
        extended = torch.cat([past, x], 3)
        y = F.relu(self.depthwise_norm(self.depthwise(extended)))
        return F.relu(x + self.pointwise_norm(self.pointwise(y))), extended

    def forward_train(self, x):
        """Processes whole sounds [batch, steps, width] from a zero state."""
        taps = self.depthwise.weight[:, 0, 0].T.contiguous()
        y = CausalDepthwiseConv.apply(x, taps, self.depthwise.dilation[1])
        y = F.relu(batch_norm_last(self.depthwise_norm, y))
        return F.relu(x + batch_norm_last(self.pointwise_norm, F.linear(y, self.pointwise.weight[:, :, 0, 0])))

    def fold_batch_norm(self):
        """Folds the normalizations into the convolutions, for inference."""
        self.depthwise = nn.utils.fuse_conv_bn_eval(self.depthwise, self.depthwise_norm)
        self.pointwise = nn.utils.fuse_conv_bn_eval(self.pointwise, self.pointwise_norm)
        self.depthwise_norm = self.pointwise_norm = nn.Identity()


class WakeWord(nn.Module):
    """Wake word scores: (features f32[1, 4, 40], state f32[1, 128, 40]) -> (probabilities f32[1,
    4], state).

    A call of 40 ms is one step of the network. The state holds the past inputs of all blocks.
    """
    LABELS = ["background", "hey afferent", "stop", "go"]
    BANDS, STEPS, WIDTH, TAPS = 40, 4, 128, 5
    DILATIONS = (1, 1, 2, 2, 4)
    PAST = (TAPS - 1) * sum(DILATIONS)

    def __init__(self):
        super().__init__()
        self.input_layer = nn.Linear(self.BANDS * self.STEPS, self.WIDTH)
        self.blocks = nn.ModuleList(Block(self.WIDTH, self.TAPS, d) for d in self.DILATIONS)
        self.output_layer = nn.Linear(self.WIDTH, len(self.LABELS))

    def logits(self, features, state):
        """Returns the logits [batch, steps, labels] of features [batch, 4 * steps, 40], and the
        next state.
        """
        batch = features.shape[0]
        x = features.reshape(batch, -1, self.BANDS * self.STEPS)
        x = F.relu(self.input_layer(x)).permute(0, 2, 1).reshape(batch, self.WIDTH, 1, -1)
        state = state.reshape(batch, self.WIDTH, 1, self.PAST)
        start, next_state = 0, []
        for block in self.blocks:
            x, extended = block(x, state[:, :, :, start:start + block.past])
            next_state.append(extended[:, :, :, extended.shape[3] - block.past:])
            start += block.past
        x = x.reshape(batch, self.WIDTH, -1).permute(0, 2, 1)
        return self.output_layer(x), torch.cat(next_state, 3).reshape(batch, self.WIDTH, self.PAST)

    def forward_train(self, features):
        """Returns the logits of whole sounds from a zero state, with batch statistics."""
        x = F.relu(self.input_layer(features.reshape(features.shape[0], -1, self.BANDS * self.STEPS)))
        for block in self.blocks:
            x = block.forward_train(x)
        return self.output_layer(x)

    def forward(self, features, state):
        logits, state = self.logits(features, state)
        return torch.softmax(logits.reshape(1, len(self.LABELS)), 1), state

    def initial_state(self, batch=1):
        """Returns a zero state, channels last."""
        return torch.zeros(batch, self.PAST, self.WIDTH).permute(0, 2, 1)

    def fold_batch_norm(self):
        for block in self.blocks:
            block.fold_batch_norm()
        return self


def macs_per_call():
    """Returns the multiply-adds in a call of each program, of matrix products and convolutions."""
    def mel(m, windows):
        return windows * (m.columns * m.rows * 2 * m.row_bins + m.row_bins * (2 * m.columns) ** 2
                          + m.row_bins * m.columns * m.mel.shape[1])
    features, vad, wake = LogMel(), Vad(), WakeWord()
    width, hidden = vad.WIDTH, vad.HIDDEN
    return {
        "log_mel": mel(features.power, features.STEPS),
        "vad": (mel(vad.power, vad.STEPS) + vad.STEPS * 3 * vad.BANDS * width + vad.STEPS * width * width
                + 4 * hidden * (width + hidden) + hidden),
        "wake_word": wake.WIDTH * (wake.BANDS * wake.STEPS + len(wake.DILATIONS) * (wake.TAPS + wake.WIDTH)
                                   + len(wake.LABELS)),
    }
