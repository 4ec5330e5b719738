"""Programs with lists, optional arguments, several outputs and scalars."""

import torch
from torch import nn
from torch.export import Dim

from ..program import Case, Program, lower, program, simple


@program
def lists():
    """Tensor lists as inputs and outputs."""
    def compute(x, y, z):
        a, b, c = x.split([1, 2, 3], dim=1)
        u, v = y.unbind(0)
        return torch.cat([x, y, z, x], dim=0), torch.stack([x, y], dim=1), a + b.sum(dim=1, keepdim=True), c, torch.cat(z.split(1), dim=1), u * v
    return simple("cat, stack, split, split_with_sizes, unbind", compute, (torch.randn(2, 6), torch.randn(2, 6), torch.randn(2, 6)))


@program
def optional_lists():
    """Index lists with null entries."""
    def compute(x, i):
        return x[:, i], x[i, :, i], x[:, :, i] * 2
    return simple("aten::index.Tensor_out with None in its list", compute, (torch.randn(3, 4, 5), torch.tensor([2, 0, 1])))


@program
def two_outputs():
    """Operators with two outputs."""
    def compute(x):
        values, indices = x.max(dim=1)
        top, order = x.topk(2, dim=0)
        return values, indices, top, order, x.min(dim=0)[1], x.argmax()
    return simple("max, min and topk with values and indices", compute, (torch.randn(4, 5),))


class Nested(nn.Module):
    """Nested containers as inputs and outputs."""

    def forward(self, pair, named, *, scale):
        x, (y, z) = pair
        return {"sum": x + y, "rest": (z * scale, [named["b"] - named["a"], x])}, y * 2


@program
def nested():
    """Dictionaries, tuples and lists of inputs and outputs."""
    model = Nested()
    inputs = ((torch.randn(2), (torch.randn(2), torch.randn(3))), {"b": torch.randn(2), "a": torch.randn(2)})
    kwargs = {"scale": torch.tensor(2.0)}
    note = "inputs and outputs are flattened in order; an input is an output too"
    return Program(note, model, lower(model, inputs, kwargs=kwargs), [Case(inputs, kwargs)])


@program
def same_output():
    """One value returned twice, a constant returned, an input returned."""
    class Repeat(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("constant", torch.randn(3))

        def forward(self, x):
            y = x + 1
            return y, y, x, self.constant, 3, None, 1.5, True
    return simple("outputs: one value twice, the input, a constant, and numbers", Repeat(), (torch.randn(3),))


@program
def no_instruction():
    """Method that returns its input."""
    return simple("identity: no instruction at all", lambda x: x, (torch.randn(3),), (torch.randn(3),))


@program
def number_inputs():
    """Scalar inputs that are fixed at export."""
    def compute(x, n, f, b):
        return (x + f) * n if b else x
    built = simple("int, float and bool inputs are fixed at export", compute, (torch.randn(3), 2, 1.5, True))
    built.cases.append(Case((torch.randn(3), 3, 1.5, True), error="InvalidArgument", note="another int than at export"))
    return built


@program
def int_input():
    """Dynamic scalar input."""
    def compute(x, n):
        return x * n, x + (n - 1), n + 3
    return simple("a symbolic int input", compute, (torch.randn(3), 5), (torch.randn(3), 2), (torch.randn(3), 1000), shapes=({}, Dim.DYNAMIC))


@program
def item():
    """Scalar read from a tensor."""
    def compute(x, n):
        size = n.item()
        torch._check(size >= 1)
        torch._check(size <= 6)
        return x[:size] * 2, torch.ones(size, 2), size + 1
    return simple("_local_scalar_dense gives a size", compute, (torch.randn(6), torch.tensor(4)), (torch.randn(6), torch.tensor(1)), (torch.randn(6), torch.tensor(6)))


@program
def sizes():
    """Arithmetic with sizes."""
    def compute(x):
        n = x.shape[0]
        return n, n * 2 - 1, n // 2, n % 3, x.reshape(1, n * 2).repeat(1, 2), x.new_full((n + 1,), n / 2)
    return simple("executorch_prim arithmetic of a bounded size", compute, (torch.randn(6, 2),), (torch.randn(3, 2),), (torch.randn(5, 2),),
                  shapes=({0: Dim("n", min=2, max=6)},))


@program
def string_argument():
    """String argument."""
    return simple("gelu(tanh) and div with a rounding mode", lambda x, y: (nn.functional.gelu(x, approximate="tanh"), torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc")),
                  (torch.randn(6), torch.randn(6)))
