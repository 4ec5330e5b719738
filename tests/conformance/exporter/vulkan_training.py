"""Programs for Vulkan with the operators of a training: gradients, cross-entropy, AdamW and quantization of updated weights."""

import contextlib

import torch
import torch._higher_order_ops.auto_functionalize as functionalization
from executorch.backends.vulkan import custom_ops_lib  # noqa: F401 (registers the operators)
from torch import nn

from .vulkan import NETWORKS, accepting_all_types, compiled
from .vulkan_operators import One, nibbles

GROUP = 16  # weights that share a scale
PACKED = [f"et_vk.{name}.default" for name in ("linear_q4gsw", "linear_q4gsw_backward", "q4gsw_requant")]

et_vk = torch.ops.et_vk


@contextlib.contextmanager
def lowering():
    """Lets the exporter lower operators with packed weights, and AdamW, whose results are its arguments."""
    accepts = functionalization.can_auto_functionalize
    functionalization.can_auto_functionalize = lambda operator: operator is et_vk.adamw_step.default or accepts(operator)
    try:
        with accepting_all_types(*PACKED):
            yield
    finally:
        functionalization.can_auto_functionalize = accepts


def training(build):
    """Decorator: registers a function that returns a note, a module and the inputs of its runs."""

    def lowered():
        note, module, *runs = build()
        with lowering():
            # Without this option, the blob has the changed buffers as outputs and the program has not.
            return compiled(note, module, *runs, options={"alias_buffer_mutations": True})

    NETWORKS[f"op_{build.__name__}"] = lowered
    return build


def scales(columns: int, rows: int) -> torch.Tensor:
    """Scales of weights `[rows, columns]`."""
    return torch.rand(-(-columns // GROUP), rows) * 0.1 + 0.05


@training
def linear_q4gsw_backward():
    function = lambda d, weight, scales: et_vk.linear_q4gsw_backward(d, weight, scales, GROUP)
    return "gradient of the input of a 4-bit linear", One(function, (nibbles(12, 24), scales(48, 12))), (torch.randn(2, 3, 12),)


@training
def linear_dW():
    return "gradient of the weights of a linear", One(et_vk.linear_dW, ()), (torch.randn(2, 7, 10), torch.randn(2, 7, 18))


@training
def q4gsw_requant():
    return "4-bit weights", One(lambda x, scales: et_vk.q4gsw_requant(x, scales, GROUP), (scales(48, 6),)), (torch.randn(6, 48),)


@training
def q4gsw_requant_odd():
    return "4-bit weights with odd rows", One(lambda x, scales: et_vk.q4gsw_requant(x, scales, GROUP), (scales(37, 6),)), (torch.randn(6, 37),)


@training
def fused_ce():
    labels = [torch.tensor(x, dtype=torch.int32) for x in ([3, -1, 0, 98, 7], [-1, -1, -1, 5, -1])]
    return "cross-entropy and its gradient", One(lambda x, y: et_vk.fused_ce(x, y, 4.0), ()), *((torch.randn(5, 99), y) for y in labels)


def step(parameter, m, v, gradient):
    """First step of AdamW."""
    return et_vk.adamw_step(parameter, m, v, gradient, 1e-2, 0.9, 0.99, 1e-8, 0.1, 1 - 0.9, 1 - 0.99)


class State(nn.Module):
    """Updates its parameter with the gradient of each run."""

    def __init__(self):
        super().__init__()
        for name in ("p", "m", "v"):
            self.register_buffer(name, torch.randn(3, 7) if name == "p" else torch.zeros(3, 7))

    def forward(self, gradient):
        step(self.p, self.m, self.v, gradient)
        return self.p * 2.0, self.m + 0.0, self.v + 0.0


@training
def adamw_step():
    return "three steps of AdamW", State(), *((torch.randn(3, 7),) for _ in range(3))


@training
def adamw_step_of_results():
    function = lambda p, m, v, gradient: step(p * 2.0, m + 0.0, v + 0.0, gradient)
    return "a step of AdamW with tensors that other operators write", One(function, ()), (torch.randn(9), torch.randn(9) / 8, torch.rand(9) / 8, torch.randn(9))


class Classifier(nn.Module):
    """A linear with 4-bit weights that trains itself: forward, loss, gradients, AdamW on floating-point weights."""

    def __init__(self, classes=8, features=32):
        super().__init__()
        self.register_buffer("weight", torch.randn(classes, features) * 0.2)
        self.register_buffer("m", torch.zeros(classes, features))
        self.register_buffer("v", torch.zeros(classes, features))
        self.register_buffer("scales", scales(features, classes))

    def forward(self, x, labels):
        packed = et_vk.q4gsw_requant(self.weight, self.scales, GROUP)
        loss, d_logits = et_vk.fused_ce(et_vk.linear_q4gsw(x, packed, self.scales, GROUP), labels, 6.0)
        d_x = et_vk.linear_q4gsw_backward(d_logits, packed, self.scales, GROUP)
        step(self.weight, self.m, self.v, et_vk.linear_dW(d_logits, x))
        return loss, d_x, self.weight * 1.0


@training
def training_step():
    labels = torch.randint(0, 8, (6,), dtype=torch.int32)
    return "five steps of a training", Classifier(), *((torch.randn(6, 32), labels) for _ in range(5))
