"""The turn detector's network: from the last two seconds of sound to the chance that a turn has ended."""
import numpy as np
import torch
from pauses import WINDOW
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from models import MelPower, mel_matrix
from speech import RATE

HOP, PARTS = 320, 3         # a window of 60 ms is three hops
DFT = (32, 32)
MELS = 40
# Single bins, 62 to 550 Hz, in which the harmonics of a voice can be told apart.
BINS = range(4, 36)
FLOOR = 1e-6


def filters():
    """Mel bands, and below them the bins that show the pitch: [bands, DFT bins]."""
    size = DFT[0] * DFT[1]
    return np.concatenate([mel_matrix(MELS, 60, 7600, size), np.eye(size // 2 + 1)[list(BINS)]])


class Block(nn.Module):
    """A depthwise and two pointwise convolutions around which the input passes."""

    def __init__(self, width, taps, dilation, inner):
        super().__init__()
        self.depth = nn.Conv1d(width, width, taps, padding=taps // 2 * dilation, dilation=dilation, groups=width, bias=False)
        self.depth_norm = nn.BatchNorm1d(width)
        self.up, self.up_norm = nn.Conv1d(width, inner, 1, bias=False), nn.BatchNorm1d(inner)
        self.down = nn.Conv1d(inner, width, 1)

    def forward(self, x):
        y = F.relu(self.up_norm(self.up(self.depth_norm(self.depth(x)))))
        return x + self.down(y)

    def fold(self):
        """Put the norms into the convolutions before them."""
        self.depth, self.depth_norm = fuse_conv_bn_eval(self.depth, self.depth_norm), nn.Identity()
        self.up, self.up_norm = fuse_conv_bn_eval(self.up, self.up_norm), nn.Identity()


class Turn(nn.Module):
    """sound f32[1, 32000] -> prob f32[1, 1]."""
    STEPS = WINDOW // HOP - PARTS + 1
    WIDTH, INNER, TAPS, DILATIONS = 64, 128, 5, (1, 2, 4, 8)
    SILENCE_MS = 200

    def __init__(self):
        super().__init__()
        self.power = MelPower(*DFT, PARTS * HOP, self.STEPS, MELS + len(BINS), filters=filters())
        self.enter = nn.Conv1d(MELS + len(BINS), self.WIDTH, 1, bias=False)
        self.enter_norm = nn.BatchNorm1d(self.WIDTH)
        self.blocks = nn.ModuleList(Block(self.WIDTH, self.TAPS, d, self.INNER) for d in self.DILATIONS)
        self.weigh = nn.Conv1d(self.WIDTH, 4, 1)
        self.out = nn.Linear(4 * self.WIDTH, 1)

    def features(self, power):
        """[batch, STEPS, bands], without what stays the same: level, microphone."""
        x = torch.log(power + FLOOR)
        return (x - x.mean(1, keepdim=True)) * 0.4

    def logits(self, features):
        x = F.relu(self.enter_norm(self.enter(features.transpose(1, 2))))
        for block in self.blocks:
            x = block(x)
        x = F.relu(x)
        weights = F.softmax(self.weigh(x), 2)
        pooled = torch.bmm(weights, x.transpose(1, 2)).reshape(x.shape[0], 4 * self.WIDTH)
        return self.out(pooled)

    def in_training(self, sounds, filters=None):
        """Logits of sounds [batch, WINDOW]; filters as for MelPower."""
        windows = sounds.unfold(1, PARTS * HOP, HOP)
        return self.logits(self.features(self.power.in_batch(windows, filters)))[:, 0]

    def forward(self, sound):
        hops = sound.reshape(WINDOW // HOP, HOP)
        windows = torch.cat([hops[k:k + self.STEPS] for k in range(PARTS)], 1)
        power = self.power(windows).reshape(1, self.STEPS, MELS + len(BINS))
        return torch.sigmoid(self.logits(self.features(power)))

    def fold(self):
        """The same without norms, for a trained one."""
        self.enter, self.enter_norm = fuse_conv_bn_eval(self.enter, self.enter_norm), nn.Identity()
        for block in self.blocks:
            block.fold()
        return self

    @staticmethod
    def example():
        return (torch.randn(1, WINDOW) * 0.05,)

    @classmethod
    def constants(cls):
        return {"sample_rate": RATE, "window_size": WINDOW, "silence_ms": cls.SILENCE_MS}


def load(path):
    """A trained detector."""
    model = Turn()
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()
