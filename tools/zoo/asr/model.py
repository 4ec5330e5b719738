"""Network of the speech recognizer: causal convolutions from log-mel features to letters."""
import torch
from corpus import BANDS, POWER_FLOOR
from torch import nn
from torch.nn import functional as F

from models import MelPower
from speech import HOP

# Label 0 is the CTC blank.
LABELS = "_ abcdefghijklmnopqrstuvwxyz'"
# Hops of 10 ms that form one step of the network.
STEP_HOPS = 3
OFFSET, SCALE = 4.0, 0.25


def log_mel(power):
    """Returns the normalized features of mel powers."""
    return (torch.log(power + POWER_FLOOR) + OFFSET) * SCALE


class Block(nn.Module):
    """Causal inverted bottleneck with a residual connection: depthwise, expand, project."""

    def __init__(self, width, taps, inner):
        super().__init__()
        self.past = taps - 1
        self.depthwise = nn.Conv2d(width, width, (1, taps), groups=width, bias=False)
        self.expand, self.expand_norm = nn.Linear(width, inner, bias=False), nn.BatchNorm1d(inner)
        self.project, self.project_norm = nn.Linear(inner, width, bias=False), nn.BatchNorm1d(width)

    def forward(self, x):
        """Processes [batch, steps, width] from a zero state."""
        padded = F.pad(x, (0, 0, self.past, 0)).permute(0, 2, 1).unsqueeze(2)
        with torch.autocast("cpu", enabled=False):
            y = self.depthwise(padded).squeeze(2).permute(0, 2, 1)
        y = F.relu(self.expand_norm(self.expand(y).flatten(0, 1)))
        y = self.project_norm(self.project(y)).float()
        return x + y.reshape(x.shape)


class Recognizer(nn.Module):
    """Recognizer for training, on whole utterances. `StreamingRecognizer` is the exported form."""
    WIDTH, INNER, TAPS, BLOCKS = 192, 352, 9, 8
    STEPS, HOP, ANALYSIS_WINDOW = 4, HOP, 400
    CONTEXT = ANALYSIS_WINDOW - HOP
    WINDOW = STEPS * STEP_HOPS * HOP
    PAST = (TAPS - 1) * BLOCKS

    def __init__(self, phones=1):
        super().__init__()
        self.power = MelPower(16, 32, self.ANALYSIS_WINDOW, self.STEPS * STEP_HOPS, BANDS)
        self.input_layer = nn.Linear(BANDS * STEP_HOPS, self.WIDTH, bias=False)
        self.input_layer_norm = nn.BatchNorm1d(self.WIDTH)
        self.blocks = nn.ModuleList(Block(self.WIDTH, self.TAPS, self.INNER) for _ in range(self.BLOCKS))
        self.output_layer = nn.Linear(self.WIDTH, len(LABELS))
        self.phone_layer = nn.Linear(self.WIDTH, phones)

    def forward(self, features):
        """Returns the logits of labels, and of phones after half of the blocks.

        `features` are [batch, STEP_HOPS * steps, BANDS].
        """
        batch = features.shape[0]
        x = features.reshape(batch, -1, BANDS * STEP_HOPS)
        x = F.relu(self.input_layer_norm(self.input_layer(x).flatten(0, 1))).float().reshape(batch, -1, self.WIDTH)
        for block in self.blocks[:self.BLOCKS // 2]:
            x = block(x)
        phones = self.phone_layer(x)
        for block in self.blocks[self.BLOCKS // 2:]:
            x = block(x)
        return self.output_layer(F.relu(x)), phones


def fold_batch_norm(linear, norm):
    """Returns weight and bias of a linear layer with the normalization after it folded in."""
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return linear.weight * scale[:, None], norm.bias - norm.running_mean * scale


def pointwise_conv(weight, bias):
    """Returns a linear layer over the channels of [1, channels, 1, steps]."""
    layer = nn.Conv2d(weight.shape[1], weight.shape[0], 1)
    layer.weight.data, layer.bias.data = weight[:, :, None, None].contiguous(), bias.contiguous()
    return layer


class StreamingBlock(nn.Module):
    """Block with an explicit state: its past inputs."""

    def __init__(self, block):
        super().__init__()
        self.past, self.depthwise = block.past, block.depthwise
        self.expand = pointwise_conv(*fold_batch_norm(block.expand, block.expand_norm))
        self.project = pointwise_conv(*fold_batch_norm(block.project, block.project_norm))

    def forward(self, x, past):
        extended = torch.cat([past, x], 3)
        y = self.project(F.relu(self.expand(self.depthwise(extended))))
        return x + y, extended[:, :, :, extended.shape[3] - self.past:]


class StreamingRecognizer(nn.Module):
    """Exported recognizer: (sound f32[1, 240 + 1920], state f32[1, 192, 64]) -> (log probs f32[1,
    4, 29], state).

    A call takes 120 ms of new sound after 15 ms of context, and returns the labels of four steps of
    30 ms. The state holds the past inputs of all blocks.
    """

    def __init__(self, trained):
        super().__init__()
        self.power = MelPower(16, 32, trained.ANALYSIS_WINDOW, trained.STEPS * STEP_HOPS, BANDS)
        self.input_layer = nn.Linear(BANDS * STEP_HOPS, trained.WIDTH)
        weight, bias = fold_batch_norm(trained.input_layer, trained.input_layer_norm)
        self.input_layer.weight.data, self.input_layer.bias.data = weight, bias
        self.blocks = nn.ModuleList(StreamingBlock(block) for block in trained.blocks)
        self.output_layer = trained.output_layer

    def forward(self, sound, state):
        count, steps, width = Recognizer.STEPS * STEP_HOPS, Recognizer.STEPS, Recognizer.WIDTH
        windows = torch.cat([sound[:, i * HOP:i * HOP + Recognizer.ANALYSIS_WINDOW] for i in range(count)])
        features = log_mel(self.power(windows)).reshape(steps, BANDS * STEP_HOPS)
        x = torch.permute_copy(F.relu(self.input_layer(features)), (1, 0)).reshape(1, width, 1, steps)
        state = state.reshape(1, width, 1, Recognizer.PAST)
        start, next_state = 0, []
        for block in self.blocks:
            x, past = block(x, state[:, :, :, start:start + block.past])
            next_state.append(past)
            start += block.past
        half = len(next_state) // 2
        state = torch.cat([torch.cat(next_state[:half], 3), torch.cat(next_state[half:], 3)], 3)
        x = torch.permute_copy(F.relu(x).reshape(width, steps), (1, 0))
        log_probs = F.log_softmax(self.output_layer(x), 1).reshape(1, steps, len(LABELS))
        return log_probs, state.reshape(1, width, Recognizer.PAST)

    @staticmethod
    def example_inputs():
        return (torch.randn(1, Recognizer.CONTEXT + Recognizer.WINDOW) * 0.1,
                torch.zeros(1, Recognizer.WIDTH, Recognizer.PAST))


def load(path):
    """Loads a trained recognizer."""
    weights = torch.load(path, weights_only=True)
    model = Recognizer(len(weights["phone_layer.bias"]))
    model.load_state_dict(weights)
    return model.eval()
