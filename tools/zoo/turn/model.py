"""Network of the turn detector: the last two seconds of sound to the probability that a turn has
ended.
"""
import numpy as np
import torch
from corpus import WINDOW
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from models import MelPower, mel_filterbank
from speech import SAMPLE_RATE

# An analysis window of 60 ms has three hops.
HOP, WINDOW_HOPS = 320, 3
# Rows and columns of the DFT.
DFT = (32, 32)
MELS = 40
# Single bins, 62 to 550 Hz, that resolve the harmonics of a voice.
PITCH_BINS = range(4, 36)
BANDS = MELS + len(PITCH_BINS)
FLOOR = 1e-6


def filterbank():
    """Returns the mel filters and the single bins: [bands, DFT bins]."""
    size = DFT[0] * DFT[1]
    return np.concatenate([mel_filterbank(MELS, 60, 7600, size), np.eye(size // 2 + 1)[list(PITCH_BINS)]])


class Block(nn.Module):
    """Inverted bottleneck with a residual connection: depthwise, expand, project."""

    def __init__(self, width, taps, dilation, inner):
        super().__init__()
        self.depthwise = nn.Conv1d(width, width, taps, padding=taps // 2 * dilation, dilation=dilation, groups=width,
                                   bias=False)
        self.depthwise_norm = nn.BatchNorm1d(width)
        self.expand, self.expand_norm = nn.Conv1d(width, inner, 1, bias=False), nn.BatchNorm1d(inner)
        self.project = nn.Conv1d(inner, width, 1)

    def forward(self, x):
        y = F.relu(self.expand_norm(self.expand(self.depthwise_norm(self.depthwise(x)))))
        return x + self.project(y)

    def fold_batch_norm(self):
        """Folds the normalizations into the convolutions before them."""
        self.depthwise, self.depthwise_norm = fuse_conv_bn_eval(self.depthwise, self.depthwise_norm), nn.Identity()
        self.expand, self.expand_norm = fuse_conv_bn_eval(self.expand, self.expand_norm), nn.Identity()


class TurnDetector(nn.Module):
    """Turn detector: sound f32[1, 32000] -> prob f32[1, 1]."""
    STEPS = WINDOW // HOP - WINDOW_HOPS + 1
    WIDTH, INNER, TAPS, DILATIONS = 64, 128, 5, (1, 2, 4, 8)
    POOLING_HEADS = 4
    SILENCE_MS = 200

    def __init__(self):
        super().__init__()
        self.power = MelPower(*DFT, WINDOW_HOPS * HOP, self.STEPS, BANDS, filters=filterbank())
        self.input_layer = nn.Conv1d(BANDS, self.WIDTH, 1, bias=False)
        self.input_norm = nn.BatchNorm1d(self.WIDTH)
        self.blocks = nn.ModuleList(Block(self.WIDTH, self.TAPS, d, self.INNER) for d in self.DILATIONS)
        self.attention = nn.Conv1d(self.WIDTH, self.POOLING_HEADS, 1)
        self.output_layer = nn.Linear(self.POOLING_HEADS * self.WIDTH, 1)

    def features(self, power):
        """Returns log powers [batch, STEPS, bands] minus their mean over time, which removes level
        and microphone.
        """
        x = torch.log(power + FLOOR)
        return (x - x.mean(1, keepdim=True)) * 0.4

    def logits(self, features):
        x = F.relu(self.input_norm(self.input_layer(features.transpose(1, 2))))
        for block in self.blocks:
            x = block(x)
        x = F.relu(x)
        weights = F.softmax(self.attention(x), 2)
        pooled = torch.bmm(weights, x.transpose(1, 2)).reshape(x.shape[0], self.POOLING_HEADS * self.WIDTH)
        return self.output_layer(pooled)

    def forward_batch(self, sounds, filters=None):
        """Returns the logits of sounds [batch, WINDOW].

        `filters` are those of `MelPower.forward_fft`.
        """
        windows = sounds.unfold(1, WINDOW_HOPS * HOP, HOP)
        return self.logits(self.features(self.power.forward_fft(windows, filters)))[:, 0]

    def forward(self, sound):
        hops = sound.reshape(WINDOW // HOP, HOP)
        windows = torch.cat([hops[k:k + self.STEPS] for k in range(WINDOW_HOPS)], 1)
        power = self.power(windows).reshape(1, self.STEPS, BANDS)
        return torch.sigmoid(self.logits(self.features(power)))

    def fold_batch_norm(self):
        """Folds all normalizations, for inference."""
        self.input_layer, self.input_norm = fuse_conv_bn_eval(self.input_layer, self.input_norm), nn.Identity()
        for block in self.blocks:
            block.fold_batch_norm()
        return self

    @staticmethod
    def example_inputs():
        return (torch.randn(1, WINDOW) * 0.05,)

    @classmethod
    def constants(cls):
        return {"sample_rate": SAMPLE_RATE, "window_size": WINDOW, "silence_ms": cls.SILENCE_MS}


def load(path):
    """Loads a trained detector."""
    model = TurnDetector()
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()
