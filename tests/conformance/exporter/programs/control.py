"""Programs with branches and loops."""

import torch
from executorch.exir import EdgeCompileConfig
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch.export import Dim

from ..program import program, simple

LOOSE = EdgeCompileConfig(_check_ir_validity=False)


@program
def cond():
    """Both branches of a condition."""
    def choose(x):
        return torch.cond(x.sum() > 0, lambda x: x + x, lambda x: x * x - 1, [x])
    return simple("JumpFalseCall and MoveCall", choose, (torch.ones(3),), (-2 * torch.ones(3),), (torch.ones(3),), notes=("true", "false", "true again"))


@program
def cond_input():
    """Condition from an input, with two results."""
    def choose(flag, x, y):
        return torch.cond(flag, lambda x, y: (x + y, x - y), lambda x, y: (x * y, y.clone()), [x, y])
    x, y = torch.randn(4), torch.randn(4)
    return simple("a bool tensor decides; two results", choose, (torch.tensor(True), x, y), (torch.tensor(False), x, y))


@program
def cond_nested():
    """Nested condition with a result that is used after it."""
    def choose(x):
        def inner(x):
            return torch.cond(x.sum() > 10, lambda x: x - 10, lambda x: x + 1, [x])
        return torch.cond(x.sum() > 0, inner, lambda x: -x, [x]) * 2
    return simple("nested conditions", choose, (torch.full((2,), 6.0),), (torch.full((2,), 1.0),), (torch.full((2,), -1.0),))


@program
def cond_dynamic():
    """A condition over a dynamic shape."""
    def choose(x):
        return torch.cond(x.sum() > 4, lambda x: x + x + x, lambda x: x * x * x, [x])
    return simple("condition with a bounded dimension", choose, (torch.ones(8),), (torch.full((3,), 0.5),), (torch.ones(5),), shapes=({0: Dim("n", min=2, max=8)},))


@program
def cond_scalar():
    """A condition that is computed from scalars."""
    def choose(x, n):
        return torch.cond(x.shape[0] + n.item() > 6, lambda x: x + x, lambda x: x * x, [x])
    note = "the exporter writes the condition as the int 0; it is a bool at run time"
    cases = [(torch.full((size,), 3.0), torch.tensor(n)) for size, n in [(8, 1), (4, 1), (5, 2)]]
    return simple(note, choose, *cases, shapes=({0: Dim("n", min=2, max=8)}, {}))


@program
def cond_twice():
    """Two conditions with results that are used after both."""
    def choose(x):
        a = torch.cond(x.sum() > 0, lambda x: x + x, lambda x: x * x, [x])
        b = torch.cond(x.sum() > 10, lambda x: x - x, lambda x: x * 3, [x])
        return a + b, a * b
    note = "the branches of both conditions are planned into the same memory: MoveCall must copy the bytes, not the pointer"
    return simple(note, choose, (torch.full((2,), 2.0),), (torch.full((2,), -3.0),), (torch.full((2,), 7.0),))


@program
def map_rows():
    """Loop over rows."""
    def each(xs, y):
        return torch_map(lambda x, y: x + y * 2, xs, y) + xs
    return simple("a loop with a backward jump and et_copy_index", each, (torch.randn(4, 3), torch.randn(3)), (torch.randn(4, 3), torch.randn(3)),
                  compile_config=LOOSE)


@program
def map_dynamic():
    """Loop over a dynamic number of rows."""
    def each(xs, y):
        return torch_map(lambda x, y: torch.tanh(x) + y, xs, y)
    return simple("a loop of 2 to 6 turns", each, (torch.randn(6, 3), torch.randn(3)), (torch.randn(2, 3), torch.randn(3)), (torch.randn(5, 3), torch.randn(3)),
                  shapes=({0: Dim("n", min=2, max=6)}, {}), compile_config=LOOSE, notes=("", "fewer turns than before: the result shrinks", ""))


class Scan(nn.Module):
    """Running sum with all intermediate results."""

    def forward(self, xs):
        def step(carry, x):
            total = carry * 0.5 + x
            return total, total.clone()
        return torch_scan(step, torch.zeros_like(xs[0]), xs)


@program
def scan():
    """Loop with a carried value."""
    return simple("scan: aten::copy_ carries a value from turn to turn", Scan(), (torch.randn(5, 3),), (torch.randn(5, 3),), compile_config=LOOSE, strict=True)
