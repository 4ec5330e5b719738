"""Programs with dynamic shapes, views and dim orders."""

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from torch import nn
from torch.export import Dim

from ..program import Case, program, simple


class Dynamic(nn.Module):
    """Network with a dynamic number of rows."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)

    def forward(self, x):
        y = torch.relu(self.layer(x))
        return y.reshape(-1, 3), y.sum(dim=0), torch.cat([x, x + 1], dim=0)


@program
def dynamic_shape():
    """One dimension with an upper bound."""
    built = simple("first dimension from 1 to 8", Dynamic(), (torch.randn(8, 4),), (torch.randn(1, 4),), (torch.randn(5, 4),),
                   shapes={"x": {0: Dim("rows", min=1, max=8)}})
    built.cases.append(Case((torch.randn(9, 4),), error="InvalidArgument", note="more rows than the bound"))
    built.cases.append(Case((torch.randn(3, 4),), note="runs on after an error"))
    return built


@program
def dynamic_two():
    """Two dimensions with upper bounds."""
    def mix(x, y):
        z = x @ y
        return torch.softmax(z, dim=-1), z.transpose(0, 1).reshape(-1), x.shape[0] * 2
    a, b = Dim("a", min=1, max=6), Dim("b", min=2, max=5)
    return simple("two bounded dimensions and a size as output", mix, (torch.randn(6, 3), torch.randn(3, 5)),
                  (torch.randn(1, 3), torch.randn(3, 2)), (torch.randn(4, 3), torch.randn(3, 4)), shapes=({0: a}, {1: b}))


@program
def dynamic_conv():
    """Image of dynamic size with an upper bound."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    h, w = Dim("h", min=4, max=12), Dim("w", min=4, max=12)
    return simple("height and width from 4 to 12", model, (torch.randn(1, 1, 12, 12),), (torch.randn(1, 1, 4, 9),), (torch.randn(1, 1, 11, 5),),
                  shapes=({2: h, 3: w},))


@program
def nonzero():
    """Data-dependent shape, bounded by the number of elements."""
    return simple("nonzero; the exporter gives its result the dim order (1, 0)", torch.nonzero,
                  (torch.tensor([[1, 0, 2], [0, 0, 3]]),), (torch.zeros(2, 3, dtype=torch.int64),), (torch.ones(2, 3, dtype=torch.int64),))


@program
def nonzero_add():
    """Arithmetic with a tensor of dim order (1, 0) and a scalar."""
    return simple("the official runtime refuses the add: its dim orders differ", lambda x: torch.nonzero(x) + 1,
                  (torch.tensor([[1, 0, 2], [0, 0, 3]]),), (torch.zeros(2, 3, dtype=torch.int64),), (torch.ones(2, 3, dtype=torch.int64),))


@program
def view_static():
    """Views that memory planning removes."""
    return simple("static views leave no instruction", lambda x: (x.reshape(4, 3) + 1).reshape(2, 6) * 2, (torch.randn(12),))


@program
def view_dynamic():
    """Views of dynamic tensors stay as et_view."""
    return simple("executorch_prim::et_view with a size that is computed", lambda x: (x.reshape(-1) + 1).reshape(x.shape[0], 2, 2) * 2,
                  (torch.randn(6, 4),), (torch.randn(2, 4),), (torch.randn(5, 4),), shapes=({0: Dim("rows", min=1, max=6)},))


@program
def view_copy():
    """Views kept as copies."""
    return simple("remove_view_copy=False keeps aten::view_copy.out", lambda x: (x.reshape(4, 3) + 1).reshape(2, 6) * 2, (torch.randn(12),),
                  config=ExecutorchBackendConfig(remove_view_copy=False))


@program
def channels_last():
    """A channels_last input and convolutions that keep its dim order."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 1)).to(memory_format=torch.channels_last)
    return simple("dim order (0, 2, 3, 1) from input to output", model, (torch.randn(2, 3, 6, 4).to(memory_format=torch.channels_last),))


@program
def dim_order_copy():
    """Changes of dim order inside a program."""
    def change(x):
        y = x.to(memory_format=torch.channels_last)
        y = y + y
        return y, y.to(memory_format=torch.contiguous_format) + 1, y.clone(), x.to(torch.float64), torch.zeros(2, 3)
    return simple("dim_order_ops::_to_dim_order_copy and _clone_dim_order", change, (torch.randn(1, 3, 4, 2),))


@program
def dim_order_number():
    """A channels_last tensor times a scalar."""
    return simple("the number is a 0-D tensor, whose dim order is empty", lambda x: x * 2, (torch.randn(1, 3, 4, 2).to(memory_format=torch.channels_last),))


@program
def legacy_dim_order():
    """The same without dim_order operators, as older exporters wrote it."""
    return simple("aten::_to_copy and aten::clone with memory formats", lambda x: (x.to(torch.float64), x.clone(), torch.zeros(2, 3)), (torch.randn(1, 3, 4, 2),),
                  compile_config=EdgeCompileConfig(_skip_dim_order=True))


def unplanned(alloc_input: bool, alloc_output: bool):
    """Config for inputs and outputs in memory of the caller."""
    return ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(alloc_graph_input=alloc_input, alloc_graph_output=alloc_output))


@program
def unplanned_input():
    """Inputs without planned memory."""
    return simple("alloc_graph_input=False", Dynamic(), (torch.randn(8, 4),), (torch.randn(3, 4),), shapes={"x": {0: Dim("rows", min=1, max=8)}},
                  config=unplanned(False, True))


@program
def unplanned_output():
    """Outputs without planned memory: the caller must bind it."""
    return simple("alloc_graph_output=False", nn.Linear(4, 6), (torch.randn(2, 4),), (torch.randn(2, 4),), config=unplanned(True, False))


@program
def unplanned_both():
    """Inputs and outputs without planned memory."""
    return simple("alloc_graph_input=False and alloc_graph_output=False", Dynamic(), (torch.randn(8, 4),), (torch.randn(3, 4),),
                  shapes={"x": {0: Dim("rows", min=1, max=8)}}, config=unplanned(False, False))
