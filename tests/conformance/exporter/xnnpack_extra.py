"""Programs for XNNPACK with types and sizes that the suite lacks: 4-bit weights per channel and per group, fp16, 1x1 convolutions, and computed weights and biases."""

import zlib

import torch
from executorch.backends.test.suite.flow import TestFlow
from executorch.backends.test.suite.flows.xnnpack import XNNPACK_DYNAMIC_INT8_PER_CHANNEL_TEST_FLOW, XNNPACK_TEST_FLOW
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import get_symmetric_quantization_config
from executorch.backends.xnnpack.test.tester import Quantize, Tester, ToEdgeTransformAndLower
from torch import nn
from torchao.quantization.granularity import PerGroup
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.utils import unwrap_tensor_subclass

from .exported import export

# Rows, inputs, outputs, group size, bias.
LINEARS = [(1, 32, 2, 32, True), (2, 32, 17, 32, False), (17, 64, 92, 32, True), (31, 128, 128, 64, False), (1, 96, 70, 96, True), (5, 256, 33, 32, True)]


# Sizes of the input, outputs, bias.
COMPUTED_LINEARS = [((3, 32), 16, True), ((1, 5), 1, True), ((2, 9, 7), 33, True), ((40, 17), 70, True), ((4, 64), 3, False), ((6,), 4, True)]


class ComputedTester(Tester):
    """Passes the weights and biases of linear layers to XNNPACK as arguments."""

    def to_edge_transform_and_lower(self):
        """Lowers with the partitioner that leaves weights out of the delegate."""
        partitioner = XnnpackPartitioner(force_non_static_weights_for_f32_linear=True)
        return super().to_edge_transform_and_lower(ToEdgeTransformAndLower([partitioner]))


class DynamicTester(Tester):
    """Delegates dynamically quantized operators to XNNPACK."""

    def to_edge_transform_and_lower(self):
        """Lowers with the partitioner for dynamic quantization."""
        partitioner = XnnpackPartitioner(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT, per_op_mode=True)
        return super().to_edge_transform_and_lower(ToEdgeTransformAndLower([partitioner]))


def grouped(group: int) -> TestFlow:
    """Flow for linear layers with 4-bit weights and one scale per group."""

    def tester(model, inputs):
        quantize_(model, Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(group)))
        unwrap_tensor_subclass(model)
        return DynamicTester(model, inputs)

    return TestFlow("xnnpack", backend="xnnpack", tester_factory=tester)


def by_channel() -> TestFlow:
    """Flow for linear layers with 4-bit weights and one scale per output channel."""
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True, weight_qmin=-8, weight_qmax=7)
    return TestFlow("xnnpack", backend="xnnpack", tester_factory=DynamicTester, quantize=True, quantize_stage_factory=lambda: Quantize(quantization_config=config))


def linears(name: str, flow_of) -> list[dict]:
    """Linear layers of several sizes."""
    made = []
    for rows, inputs, outputs, group, bias in LINEARS:
        case = f"{name}_{rows}x{inputs}x{outputs}_{group}"
        torch.manual_seed(zlib.crc32(case.encode()))
        model = nn.Linear(inputs, outputs, bias=bias).eval()
        made.append(export(case, model, (torch.randn(rows, inputs),), False, flow=flow_of(group)))
    return made


def halves() -> list[dict]:
    """Layers in fp16."""
    modules = {
        "linear": (nn.Linear(40, 24), (3, 40)),
        "conv": (nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU()), (1, 3, 9, 9)),
        "depthwise": (nn.Conv2d(8, 8, 3, padding=1, groups=8), (1, 8, 7, 7)),
        "pool": (nn.MaxPool2d(2), (1, 4, 8, 8)),
        "average": (nn.AvgPool2d(2), (1, 4, 8, 8)),
        "gates": (nn.Sequential(nn.Sigmoid(), nn.Hardswish()), (2, 30)),
        "softmax": (nn.Softmax(dim=-1), (3, 17)),
        "more": (nn.Sequential(nn.Linear(16, 16), nn.LeakyReLU(0.1), nn.Linear(16, 5)), (2, 16)),
    }
    made = []
    for name, (model, sizes) in modules.items():
        torch.manual_seed(zlib.crc32(name.encode()))
        made.append(export(f"half_{name}", model.eval().half(), (torch.randn(sizes).half(),), False, flow=XNNPACK_TEST_FLOW))
    return made


def pixels() -> list[dict]:
    """Dynamically quantized 1x1 convolutions. XNNPACK quantizes the input of some of them per pixel."""
    modules = {
        "plain": nn.Conv2d(6, 4, 1),
        "dilation": nn.Conv2d(6, 4, 1, dilation=2),
        "no_bias": nn.Conv2d(6, 35, 1, bias=False),
        "stride": nn.Conv2d(6, 4, 1, stride=2),
        "padding": nn.Conv2d(6, 4, 1, padding=1),
        "groups": nn.Conv2d(6, 4, 1, groups=2),
        "transposed": nn.ConvTranspose2d(6, 4, 1),
        "chain": nn.Sequential(nn.Conv2d(6, 8, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(4, 5, 1)),
    }
    made = []
    for name, model in modules.items():
        torch.manual_seed(zlib.crc32(name.encode()))
        made.append(export(f"pixel_{name}", model.eval(), (torch.randn(2, 6, 7, 5),), False, flow=XNNPACK_DYNAMIC_INT8_PER_CHANNEL_TEST_FLOW))
    return made


class Recurrent(nn.Module):
    """LSTM with two linear layers, as in the tests of ExecuTorch."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8, 1, batch_first=True)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))

    def forward(self, x):
        """Log-probabilities after the last step."""
        return torch.log_softmax(self.layers(self.lstm(x)[0][:, -1, :]), dim=1)


class Computed(nn.Module):
    """Linear layer whose operands are computed from the inputs, with an activation."""

    def __init__(self, activation: nn.Module, bias: str):
        super().__init__()
        self.activation, self.bias = activation, bias
        self.constant = nn.Parameter(torch.linspace(-1, 1, 6))

    def forward(self, x, weight, bias):
        """The bias is `"computed"`, `"constant"` or `"none"`."""
        chosen = {"computed": bias * 2, "constant": self.constant, "none": None}[self.bias]
        return self.activation(nn.functional.linear(x + 1, weight * 0.5, chosen))


def computed() -> list[dict]:
    """Linear layers whose weights and bias are no constants of the delegate."""
    flow = TestFlow("xnnpack", backend="xnnpack", tester_factory=ComputedTester)
    modules = {}
    for sizes, outputs, bias in COMPUTED_LINEARS:
        modules["x".join(map(str, [*sizes, outputs]))] = (nn.Linear(sizes[-1], outputs, bias=bias), (torch.randn(sizes),))
    modules["relu"] = (nn.Sequential(nn.Linear(9, 5), nn.ReLU()), (torch.randn(4, 9),))
    modules["hardswish"] = (nn.Sequential(nn.Linear(9, 5), nn.Hardswish()), (torch.randn(4, 9),))
    modules["half"] = (nn.Linear(20, 12).half(), (torch.randn(3, 20).half(),))
    modules["lstm"] = (Recurrent(), (torch.randn(1, 5, 8),))
    for bias in ("computed", "constant", "none"):
        operands = (torch.randn(7, 11), torch.randn(6, 11), torch.randn(6))
        modules[f"{bias}_bias"] = (Computed(nn.ReLU6(), bias), operands)
    made = []
    for name, (model, inputs) in modules.items():
        made.append(export(f"computed_{name}", model.eval(), inputs, False, flow=flow))
    return made


ARCHIVES = {
    "linear_computed": computed,
    "linear_4_bits_by_channel": lambda: linears("by_channel", lambda _: by_channel()),
    "linear_4_bits_grouped": lambda: linears("grouped", grouped),
    "half": halves,
    "pixels_8_bits_dynamic": pixels,
}
