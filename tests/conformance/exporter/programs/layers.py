"""Programs of common layers."""

import torch
from torch import nn
from torch.nn import functional as F

from ..program import program, simple


@program
def add():
    """One kernel call, to measure its overhead."""
    return simple("one aten::add.out on four numbers", lambda x, y: x + y, (torch.randn(4), torch.randn(4)))


@program
def linear():
    """addmm with a transposed weight."""
    return simple("a linear layer with bias", nn.Linear(6, 5), (torch.randn(3, 6),))


@program
def linear_no_bias():
    """mm with a transposed weight, on a 3-D input."""
    return simple("a linear layer without bias on three dimensions", nn.Linear(6, 5, bias=False), (torch.randn(2, 3, 6),))


@program
def mlp():
    """Linear layers with common activations and norms."""
    model = nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 8),
        nn.GELU(approximate="tanh"), nn.SiLU(), nn.Linear(8, 4), nn.Softmax(dim=-1),
    )
    return simple("linear, relu, layer norm, gelu, silu, softmax", model, (torch.randn(3, 8),), (10 * torch.randn(3, 8),))


class ConvNet(nn.Module):
    """Several kinds of convolutions, norms and pools."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.depth = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8, bias=False)
        self.group = nn.Conv2d(8, 8, (1, 3), padding=(0, 1), groups=2)
        self.head = nn.Linear(8, 5)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2.0)
            self.norm.weight.uniform_(0.5, 2.0)
            self.norm.bias.normal_()

    def forward(self, x):
        x = F.relu6(self.norm(self.stem(x)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = F.hardswish(self.depth(x)) + self.group(x)
        x = F.avg_pool2d(x, 2, stride=1, padding=1, count_include_pad=False)
        return self.head(x.mean(dim=(2, 3))), F.adaptive_avg_pool2d(x, (2, 2)), x.amax(dim=1)


@program
def conv_net():
    """Small network for images."""
    return simple("conv2d (stride, padding, dilation, groups), batch norm, pools, mean", ConvNet(), (torch.randn(2, 3, 16, 20),))


@program
def conv1d():
    """1-D convolutions, as for audio."""
    model = nn.Sequential(
        nn.Conv1d(2, 6, 5, stride=2, padding=2), nn.ELU(), nn.Conv1d(6, 6, 3, dilation=3, padding=3, groups=3), nn.LeakyReLU(0.1),
        nn.ConvTranspose1d(6, 3, 4, stride=2, padding=1, output_padding=1), nn.GroupNorm(3, 3), nn.Tanh(),
    )
    return simple("conv1d, conv_transpose1d, group norm", model, (torch.randn(1, 2, 24),))


@program
def conv_transpose2d():
    """Upsampling by transposed convolution and by interpolation."""
    model = nn.Sequential(nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, groups=2), nn.Upsample(scale_factor=2, mode="nearest"),
                          nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.PixelShuffle(2))
    return simple("conv_transpose2d, nearest and bilinear upsampling, pixel shuffle", model, (torch.randn(1, 4, 3, 5),))


@program
def lstm():
    """A recurrent layer, unrolled by the exporter."""
    return simple("nn.LSTM over six steps, with its states", nn.LSTM(4, 8, batch_first=True),
                  (torch.randn(1, 6, 4), (torch.randn(1, 1, 8), torch.randn(1, 1, 8))))


@program
def gru():
    """Bidirectional recurrent layer."""
    return simple("two-way nn.GRU over four steps", nn.GRU(3, 5, bidirectional=True), (torch.randn(4, 2, 3),))


class Attention(nn.Module):
    """Transformer block with a causal mask."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


@program
def attention():
    """Scaled dot product attention, decomposed."""
    return simple("causal self-attention with residual", Attention(), (torch.randn(2, 5, 16),))


class Lookup(nn.Module):
    """Lookup of table rows by index."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6, padding_idx=0)

    def forward(self, ids, rows):
        found = self.table(ids)
        return found, torch.index_select(found, 1, rows), torch.gather(found, 1, ids.unsqueeze(-1) % 3), found[:, rows]


@program
def embedding():
    """Indexing with integer tensors."""
    return simple("embedding, index_select, gather, index", Lookup(), (torch.tensor([[1, 0, 10], [4, 4, 2]]), torch.tensor([2, 0])))
