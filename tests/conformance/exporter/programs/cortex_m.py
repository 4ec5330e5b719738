"""Networks of 8 bits for microcontrollers, by the official flow of the Cortex-M backend."""

import torch
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.examples.models.mlperf_tiny.ds_cnn import DSCNNKWS
from executorch.exir import to_edge
from torch import nn
from torch.export import export
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchvision.models import mobilenet_v2

from ..cortex_m import average, fixed_softmax
from ..program import Case, Program, program


class Reference(torch.fx.Interpreter):
    """Runs the reference operators of the exporter, but averages and softmax with the rounding of CMSIS-NN."""

    def call_function(self, target, args, kwargs):
        name = str(target)
        if "quantized_avg_pool2d" in name:
            x, kernel, stride, pad, ceil, *_ = args
            return average(x, kernel, stride, pad, ceil).to(memory_format=torch.channels_last)
        if "cortex_m.softmax" in name or "cortex_m::softmax" in name:
            x, dim, _, _, multiplier, shift, diff_min = args
            return fixed_softmax(x, dim, multiplier, shift, diff_min)
        return super().call_function(target, args, kwargs)


def quantized(note: str, model: nn.Module, cpu: CortexM, calibration: list, inputs: list) -> Program:
    """Program for a processor. The expected outputs are those of the reference operators of the exporter, bit for bit."""
    example = (calibration[0],)
    prepared = prepare_pt2e(export(model.eval(), example).module(check_guards=False), CortexMQuantizer())
    for x in calibration:
        prepared(x)
    edge = to_edge(export(convert_pt2e(prepared), example), compile_config=cortex_m_edge_compile_config())
    passes = CortexMPassManager(edge.exported_program(), target_config=CortexMTargetConfig(cpu=cpu))
    edge._edge_programs["forward"] = passes.transform()
    reference = Reference(edge.exported_program().module())
    with torch.no_grad():
        cases = [Case((x,), atol=0.0, rtol=0.0, expected=pytree.tree_leaves(reference.run(x))) for x in inputs]
    return Program(note, None, edge.to_executorch(), cases)


def spectrogram() -> torch.Tensor:
    """Random features of one second."""
    return (torch.rand(1, 1, 49, 10) * 2 - 1).to(memory_format=torch.channels_last)


def settle(model: nn.Module) -> nn.Module:
    """Random statistics and biases of the batch normalizations, so that no channel is constant."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.2, 0.2)
            layer.running_var.uniform_(0.1, 0.4)
            nn.init.uniform_(layer.bias, -0.5, 0.5)
    return model


def keyword_spotter(cpu: CortexM) -> Program:
    """DS-CNN of MLPerf Tiny with random weights and statistics."""
    model = settle(DSCNNKWS())
    calibration = [spectrogram() for _ in range(8)]
    return quantized(f"DS-CNN keyword spotter of MLPerf Tiny in int8, for a {cpu.name}", model, cpu, calibration, [spectrogram(), spectrogram(), torch.full_like(spectrogram(), 1.0)])


@program
def cortex_m4_keyword_spotter():
    """Scratch memory and biases as the DSP code of CMSIS-NN reads them."""
    return keyword_spotter(CortexM.M4)


@program
def cortex_m55_keyword_spotter():
    """Scratch memory and kernel sums as the MVE code of CMSIS-NN reads them."""
    return keyword_spotter(CortexM.M55)


@program
def cortex_m4_mlp():
    """Digit classifier."""
    model = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10))
    inputs = [torch.rand(1, 784) for _ in range(6)]
    return quantized("784-32-16-10 in int8, for an M4", model, CortexM.M4, inputs, [torch.rand(1, 784), torch.zeros(1, 784)])


@program
def cortex_m55_mobilenet_v2():
    """Width 0.35, images of 96 pixels, two classes: the size of a person detector."""
    model = settle(mobilenet_v2(width_mult=0.35, num_classes=2))

    def image():
        return torch.rand(1, 3, 96, 96).to(memory_format=torch.channels_last)

    note = "MobileNetV2 of width 0.35 with random weights in int8, for an M55"
    return quantized(note, model, CortexM.M55, [image() for _ in range(4)], [image()])


class Layers(nn.Module):
    """Layers that the other networks lack."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up = nn.ConvTranspose2d(8, 6, 2, stride=2)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = x + torch.sigmoid(self.depth(x))
        x = torch.nn.functional.max_pool2d(x, 2)
        x = torch.nn.functional.avg_pool2d(torch.tanh(self.up(x)), 2)
        return torch.softmax(self.head(x.mean((2, 3))), -1)


@program
def cortex_m55_layers():
    """Sums, tables, transposed convolution, both pools, softmax."""

    def image():
        return torch.randn(1, 3, 12, 16).to(memory_format=torch.channels_last)

    return quantized("convolutions, sum, sigmoid, tanh, pools, mean and softmax in int8, for an M55", Layers(), CortexM.M55, [image() for _ in range(4)], [image(), image()])
