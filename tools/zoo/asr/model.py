"""The recogniser's network: causal convolutions from log-mel features to letters, whole sounds and streaming."""
import torch
from spoken import BANDS, FLOOR
from torch import nn
from torch.nn import functional as F

from models import MelPower
from speech import HOP

# Label 0 is the blank of CTC.
LETTERS = "_ abcdefghijklmnopqrstuvwxyz'"
STACK = 3                   # hops of 10 ms in a step of the network
OFFSET, SCALE = 4.0, 0.25


def normalised(power):
    """Features of mel powers."""
    return (torch.log(power + FLOOR) + OFFSET) * SCALE


class Block(nn.Module):
    """Causal depthwise convolution and two linear layers, with a residual path."""

    def __init__(self, width, taps, inner):
        super().__init__()
        self.past = taps - 1
        self.depth = nn.Conv2d(width, width, (1, taps), groups=width, bias=False)
        self.up, self.up_norm = nn.Linear(width, inner, bias=False), nn.BatchNorm1d(inner)
        self.down, self.down_norm = nn.Linear(inner, width, bias=False), nn.BatchNorm1d(width)

    def whole(self, x):
        """[batch, steps, width] from a zero past."""
        seen = F.pad(x, (0, 0, self.past, 0)).permute(0, 2, 1).unsqueeze(2)
        with torch.autocast("cpu", enabled=False):
            y = self.depth(seen).squeeze(2).permute(0, 2, 1)
        y = F.relu(self.up_norm(self.up(y).flatten(0, 1)))
        y = self.down_norm(self.down(y)).float()
        return x + y.reshape(x.shape)


class Recogniser(nn.Module):
    """(sound f32[1, 240 + 1920], state f32[1, 192, 64]) -> (log-probabilities f32[1, 4, 29], state).

    A call hears 120 ms of new sound behind the last 15 ms of the old, and gives the labels of four
    steps of 30 ms; the state holds the past inputs of every block.
    """
    WIDTH, INNER, TAPS, BLOCKS = 192, 352, 9, 8
    STEPS, HOP, LENGTH = 4, HOP, 400
    CONTEXT = LENGTH - HOP
    WINDOW = STEPS * STACK * HOP
    PAST = (TAPS - 1) * BLOCKS

    def __init__(self, phones=1):
        super().__init__()
        self.power = MelPower(16, 32, self.LENGTH, self.STEPS * STACK, BANDS)
        self.enter, self.enter_norm = nn.Linear(BANDS * STACK, self.WIDTH, bias=False), nn.BatchNorm1d(self.WIDTH)
        self.blocks = nn.ModuleList(Block(self.WIDTH, self.TAPS, self.INNER) for _ in range(self.BLOCKS))
        self.out = nn.Linear(self.WIDTH, len(LETTERS))
        self.phones = nn.Linear(self.WIDTH, phones)

    def whole(self, features):
        """Features [batch, 3 * steps, 64] -> logits of letters and, from the middle, of phones."""
        batch = features.shape[0]
        x = features.reshape(batch, -1, BANDS * STACK)
        x = F.relu(self.enter_norm(self.enter(x).flatten(0, 1))).float().reshape(batch, -1, self.WIDTH)
        for block in self.blocks[:self.BLOCKS // 2]:
            x = block.whole(x)
        phones = self.phones(x)
        for block in self.blocks[self.BLOCKS // 2:]:
            x = block.whole(x)
        return self.out(F.relu(x)), phones


def folded(linear, norm):
    """Weight and bias of a linear layer and the normalisation behind it."""
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return linear.weight * scale[:, None], norm.bias - norm.running_mean * scale


def point(weight, bias):
    """A linear layer over the channels of [1, channels, 1, steps]."""
    layer = nn.Conv2d(weight.shape[1], weight.shape[0], 1)
    layer.weight.data, layer.bias.data = weight[:, :, None, None].contiguous(), bias.contiguous()
    return layer


class StreamingBlock(nn.Module):
    """A block for a few steps and the past that it is given."""

    def __init__(self, block):
        super().__init__()
        self.past, self.depth = block.past, block.depth
        self.up, self.down = point(*folded(block.up, block.up_norm)), point(*folded(block.down, block.down_norm))

    def forward(self, x, past):
        seen = torch.cat([past, x], 3)
        return x + self.down(F.relu(self.up(self.depth(seen)))), seen[:, :, :, seen.shape[3] - self.past:]


class Streaming(nn.Module):
    """The program: a trained recogniser for 120 ms of sound at a time."""

    def __init__(self, trained):
        super().__init__()
        self.power = MelPower(16, 32, trained.LENGTH, trained.STEPS * STACK, BANDS)
        self.enter = nn.Linear(BANDS * STACK, trained.WIDTH)
        self.enter.weight.data, self.enter.bias.data = folded(trained.enter, trained.enter_norm)
        self.blocks = nn.ModuleList(StreamingBlock(block) for block in trained.blocks)
        self.out = trained.out

    def forward(self, sound, state):
        count, steps, width = Recogniser.STEPS * STACK, Recogniser.STEPS, Recogniser.WIDTH
        windows = torch.cat([sound[:, i * HOP:i * HOP + Recogniser.LENGTH] for i in range(count)])
        features = normalised(self.power(windows)).reshape(steps, BANDS * STACK)
        x = torch.permute_copy(F.relu(self.enter(features)), (1, 0)).reshape(1, width, 1, steps)
        state = state.reshape(1, width, 1, Recogniser.PAST)
        start, kept = 0, []
        for block in self.blocks:
            x, past = block(x, state[:, :, :, start:start + block.past])
            kept.append(past)
            start += block.past
        half = len(kept) // 2
        state = torch.cat([torch.cat(kept[:half], 3), torch.cat(kept[half:], 3)], 3)
        x = torch.permute_copy(F.relu(x).reshape(width, steps), (1, 0))
        chances = F.log_softmax(self.out(x), 1).reshape(1, steps, len(LETTERS))
        return chances, state.reshape(1, width, Recogniser.PAST)

    @staticmethod
    def example():
        """Inputs of one call."""
        return (torch.randn(1, Recogniser.CONTEXT + Recogniser.WINDOW) * 0.1,
                torch.zeros(1, Recogniser.WIDTH, Recogniser.PAST))


def load(path):
    """A trained recogniser."""
    weights = torch.load(path, weights_only=True)
    model = Recogniser(len(weights["phones.bias"]))
    model.load_state_dict(weights)
    return model.eval()
