"""Modules like those of the tests of ExecuTorch's runtime (`test/models`), which its package omits."""

import torch
from torch.export import Dim


class Basic(torch.nn.Module):
    """Maximum of the sine."""

    def forward(self, x):
        return x.sin().max()


class Index(torch.nn.Module):
    """Advanced indexing with a slice."""

    def forward(self, x):
        return x[1::2, torch.tensor([1, 2])]


class IntBool(torch.nn.Module):
    """Scalars among the inputs."""

    def forward(self, x, y: int, z: bool):
        return x + y + int(z)


class NoOp(torch.nn.Module):
    """Inputs as outputs."""

    def forward(self, x, y):
        return x, y


class Add(torch.nn.Module):
    """Sum with a factor."""

    def forward(self, x, y, alpha: float):
        return torch.add(x, y, alpha=alpha)


class DynamicCat(torch.nn.Module):
    """Concatenation with a constant row."""

    def forward(self, x):
        return torch.cat((x, torch.ones(1, 4)))


class AddMul(torch.nn.Module):
    """Product and sum with constants."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.full((2, 2), 3.0), torch.full((2, 2), 2.0)

    def forward(self, x):
        return self.a * x + self.b


class Tokens(torch.nn.Module):
    """Linear layer on tokens, with integer positions added."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, tokens, positions):
        return (self.linear(tokens.float()).long() + positions).float()


class Loss(torch.nn.Module):
    """Linear layer with a loss."""

    def __init__(self):
        super().__init__()
        self.linear, self.loss = torch.nn.Linear(3, 3), torch.nn.CrossEntropyLoss()

    def forward(self, x, y):
        return self.loss(self.linear(x).softmax(dim=0), y)


def all_of_them() -> list[tuple]:
    """Name, module, inputs and dynamic shapes of each module."""
    square, half = (torch.randn(2, 2), torch.randn(2, 2)), (torch.randn(2, 2).half(), torch.randn(2, 2).half())
    tokens = torch.tensor([[7, 93, 41]])
    return [
        ("ModuleBasic", Basic, (torch.randn(100),), None), ("ModuleIndex", Index, (torch.randn(10, 10, 10),), None),
        ("ModuleIntBool", IntBool, (torch.ones(1), 1, True), None), ("ModuleNoOp", NoOp, square, None), ("ModuleAdd", Add, (*square, 1.0), None),
        ("ModuleAddHalf", Add, (*half, 1.0), None), ("ModuleDynamicCat", DynamicCat, (torch.randn(3, 4),), ({0: Dim("rows", max=3)},)),
        ("ModuleAddMul", AddMul, (torch.ones(2, 2),), None), ("ModuleLinear", lambda: torch.nn.Linear(3, 3), (torch.randn(3),), None),
        ("ModuleKVCacheInputPos", Tokens, (tokens, torch.tensor([5])), None),
        ("ModuleKVCacheCachePos", Tokens, (tokens, torch.arange(3)), None), ("ModuleLoss", Loss, (torch.randn(3), torch.tensor([1.0, 0.0, 0.0])), None),
    ]
