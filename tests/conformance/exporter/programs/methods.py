"""Programs with several methods, and methods that return constants."""

import torch
from torch import nn
from torch.export import export

from ..program import Case, Program, lower, program


class Coder(nn.Module):
    """Two methods over one weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def encode(self, x):
        return x @ self.weight

    def decode(self, y):
        return torch.tanh(y @ self.weight.T)

    def forward(self, x):
        return self.decode(self.encode(x))


class Method(nn.Module):
    """Module with a method of another module as its forward."""

    def __init__(self, owner: nn.Module, name: str):
        super().__init__()
        self.owner = owner
        self.name = name

    def forward(self, *args):
        return getattr(self.owner, self.name)(*args)


@program
def several_methods():
    """Three methods that share a constant."""
    model = Coder()
    x, y = torch.randn(2, 4), torch.randn(3, 6)
    exported = {name: export(Method(model, name), (arg,)) for name, arg in (("forward", x), ("encode", x), ("decode", y))}
    cases = [Case((x,)), Case((x,), method="encode"), Case((y,), method="decode"), Case((x,))]
    return Program("forward, encode and decode share a weight", model, lower(exported, None), cases)


@program
def constant_methods():
    """Metadata: plans without instructions."""
    constants = {"get_dim": 7, "get_rate": 0.5, "use_cache": True, "get_stop_ids": [1, 2, 3], "get_name": "afferent", "get_pair": (4, 2.5, "x"),
                 "get_negative": -9223372036854775808, "get_table": torch.arange(6, dtype=torch.float32).reshape(2, 3), "get_dtype": torch.float16}
    cases = [Case((torch.ones(2),))]
    for name, value in constants.items():
        flat = list(value) if isinstance(value, (list, tuple)) else [5 if value is torch.float16 else value]
        cases.append(Case(method=name, expected=flat))
    model = nn.ReLU()
    return Program("int, float, bool, list, string, tuple, tensor and dtype constants", model, lower(model, (torch.ones(2),), methods=constants), cases)
