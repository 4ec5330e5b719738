"""Layers that the networks share."""
import torch
from torch import nn
from torch.nn import functional as F


def conv(inputs, outputs, kernel=3, stride=1, groups=1):
    """Convolution, batch normalization and ReLU."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.first = conv(inputs, outputs, 3, stride)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


def stage(inputs, outputs, blocks=2):
    """Residual blocks. The first halves the size."""
    return nn.Sequential(Residual(inputs, outputs, 2), *(Residual(outputs, outputs) for _ in range(blocks - 1)))


def upsample(x):
    """Doubles the size of a map. Of the interpolations, XNNPACK has the bilinear one only."""
    return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


def pool(x):
    """Returns the mean of each channel (n, channels)."""
    return x.mean((2, 3), keepdim=True).flatten(1)


def full(x):
    """Returns a tensor in full precision. No operation if it already is."""
    return x if x.dtype == torch.float32 else x.float()


def fold_batch_norm(network):
    """Folds each batch normalization into the convolution before it, in place, for inference."""
    network.eval()
    for module in network.modules():
        if not isinstance(module, nn.Sequential):
            continue
        for i in range(len(module) - 1):
            if isinstance(module[i], nn.Conv2d) and isinstance(module[i + 1], nn.BatchNorm2d):
                module[i] = torch.nn.utils.fuse_conv_bn_eval(module[i], module[i + 1])
                module[i + 1] = nn.Identity()
    return network
