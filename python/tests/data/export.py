"""Exports the programs of these tests with PyTorch and ExecuTorch, and the outputs of PyTorch:
``python export.py`` writes `*.pte` and `expected.npz`."""

import numpy as np
import torch
from executorch.exir import to_edge_transform_and_lower
from torch.export import Dim, export


class Types(torch.nn.Module):
    """One output of each type."""

    def forward(self, x, i, b, h):
        return x * 2.0, i + 1, torch.logical_not(b), h + h, (x > 0.5), x.to(torch.bfloat16)


class Counter(torch.nn.Module):
    """A model with a state: the sum of its inputs so far."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 1.0


class Copy(torch.nn.Module):
    """The least work on an input of 1 kB."""

    def forward(self, x):
        return x + 1.0


class Rows(torch.nn.Module):
    """Rows of any number."""

    def forward(self, x):
        return torch.softmax(x, dim=-1)


def write(name, module, inputs, dynamic=None):
    program = to_edge_transform_and_lower(export(module, inputs, dynamic_shapes=dynamic))
    with open(f"{name}.pte", "wb") as file:
        program.to_executorch().write_to_file(file)


def main():
    torch.manual_seed(1)
    x = torch.rand(2, 3)
    types = (x, torch.arange(4), torch.tensor([True, False]), torch.rand(5).half())
    write("types", Types(), types)
    write("counter", Counter(), (torch.ones(3),))
    write("copy_1kb", Copy(), (torch.rand(256),))
    rows = torch.rand(7, 5)
    write("rows", Rows(), (rows,), {"x": {0: Dim("rows", min=1, max=16)}})
    arrays = {f"types_in_{index}": value.numpy() for index, value in enumerate(types)}
    for index, value in enumerate(Types()(*types)):
        is_bf16 = value.dtype == torch.bfloat16
        arrays[f"types_out_{index}"] = (value.float() if is_bf16 else value).numpy()
    arrays["rows_in"], arrays["rows_out"] = rows.numpy(), Rows()(rows).numpy()
    np.savez("expected.npz", **arrays)


main()
