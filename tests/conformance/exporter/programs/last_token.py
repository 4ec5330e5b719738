"""Programs for last-token slicing: they return one row, and need not compute the others."""

import torch
from executorch.exir import EdgeCompileConfig
from torch import nn
from torch.export import Dim

from ..program import program, simple

ROWS = Dim("rows", min=1, max=9)


class Gated(nn.Module):
    """End of a transformer layer, after an operator that mixes rows."""

    def __init__(self, result):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(4, 6, bias=False), nn.Linear(4, 6), nn.Linear(6, 4)
        self.scale = nn.Parameter(torch.randn(4))
        self.result = result

    def forward(self, x):
        x = x.cumsum(1)
        y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.scale
        gate = self.gate(y)
        inner = gate * torch.sigmoid(gate) * self.up(y)
        return self.result(x + self.down(inner), inner)


def gated(note, result, batch=1, rows=(9, 1, 4)):
    """Program of `Gated` with one case for each number of rows."""
    inputs = [(torch.randn(batch, count, 4),) for count in rows]
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.linear.default])
    return simple(note, Gated(result), *inputs, shapes={"x": {1: ROWS}}, compile_config=config)


@program
def last_row():
    """The last row, as in a language model."""
    return gated("the last of up to nine rows", lambda y, inner: y[:, -1])


@program
def last_row_and_inner():
    """An intermediate value is an output too."""
    return gated("the last row, and all rows of a value before it", lambda y, inner: (y[:, -1], inner))


@program
def last_row_and_all():
    """All rows are an output too."""
    return gated("the last row and all rows", lambda y, inner: (y[:, -1], y))


@program
def last_row_of_two():
    """Last rows of a batch, not at the end of memory."""
    return gated("the last row of each of two", lambda y, inner: y[:, -1], batch=2)


@program
def last_row_mixed():
    """Rows are mixed before the last one is taken."""
    return gated("the last of rows to which their mean is added", lambda y, inner: (y + y.mean(1, keepdim=True))[:, -1])


class Normal(nn.Module):
    """End of an image classifier, after an operator that mixes rows."""

    def __init__(self):
        super().__init__()
        self.norm_in, self.norm_out, self.layer = nn.LayerNorm(4), nn.LayerNorm(4), nn.Linear(4, 4)
        self.positions = nn.Parameter(torch.randn(1, 5, 4))

    def forward(self, x):
        x = x.cumsum(1)
        y = nn.functional.gelu(torch.sigmoid(self.layer(self.norm_in(x))))
        return self.norm_out(x + self.positions + y)[:, 0]


@program
def first_row():
    """The first row, with static sizes and a constant for each row."""
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.linear.default])
    return simple("the first of five rows", Normal(), *[(torch.randn(1, 5, 4),) for _ in range(2)], compile_config=config)


@program
def second_row():
    """A row other than the last."""
    return gated("the second of up to nine rows", lambda y, inner: y[:, 1], rows=(9, 2, 4))
