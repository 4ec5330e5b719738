"""Exports the models of `afferent-bench models` and `load`, for XNNPACK and some for portable kernels.

    python tools/bench/export_models.py FOLDER [NAME]...

Needs torch, torchvision, torchao and executorch; the models of `networks.py` also need timm and
transformers. Weights are random, from a fixed seed. The batch
normalization statistics are computed on noise, so that activations have a realistic scale. Writes
for each model NAME:

- `NAME_xnnpack.pte`, delegated to XNNPACK;
- `NAME_input.npy`, and `NAME_input_1.npy` and so on for further inputs;
- for `f32` models the output of PyTorch, `NAME_output.npy`; for `int8` models, which are compared
  with the official runtime, the scale of the last quantization, `NAME_quantum.npy`;
- for two models `NAME.pte` for portable kernels, and a variant with external weights,
  `NAME_external.pte` and `NAME_external.ptd`.
"""

import argparse
import pathlib
import shutil
import tempfile

import numpy as np
import torch
import torchvision
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from networks import CALIBRATED, IMAGE, NETWORKS


def calibrated(build):
    """Image model with random weights in evaluation mode, and an input."""
    model = build(weights=None)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # mean over all batches
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.5, 0.5)
    model.train()
    with torch.no_grad():
        for _ in range(2):
            model(torch.randn(4, *IMAGE))
    return model.eval(), (torch.randn(1, *IMAGE),)


def vit():
    """Vision transformer with 4 layers, width 192 and 196 patches."""
    model = torchvision.models.VisionTransformer(
        image_size=224, patch_size=16, num_layers=4, num_heads=3, hidden_dim=192, mlp_dim=768
    )
    torch.nn.init.normal_(model.heads.head.weight, std=0.05)
    return model.eval(), (torch.randn(1, *IMAGE),)


class Step(torch.nn.Module):
    """One step of a recurrent cell with 128 inputs and 256 hidden units, and a linear layer."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell(128, 256)
        self.head = torch.nn.Linear(256, 32)

    def forward(self, x, *state):
        state = self.cell(x, state if len(state) > 1 else state[0])
        hidden = state[0] if isinstance(state, tuple) else state
        return self.head(hidden), state


def step(cell, states):
    state = [torch.randn(1, 256) * 0.5 for _ in range(states)]
    return Step(cell).eval(), (torch.randn(1, 128), *state)


class Vad(torch.nn.Module):
    """One step of a voice activity detector like Silero VAD: spectrum of 576 samples, convolutions, LSTM."""

    def __init__(self):
        super().__init__()
        self.spectrum = torch.nn.Conv1d(1, 258, 256, stride=128, bias=False)
        sizes = [(129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)]
        self.encoder = torch.nn.ModuleList(
            torch.nn.Conv1d(before, after, 3, stride=stride, padding=1)
            for before, after, stride in sizes
        )
        self.cell = torch.nn.LSTMCell(128, 128)
        self.head = torch.nn.Linear(128, 1)

    def forward(self, x, hidden, memory):
        x = torch.nn.functional.pad(x, (0, 64), mode="constant")
        real, imaginary = self.spectrum(x.unsqueeze(1)).split(129, dim=1)
        x = torch.sqrt(real * real + imaginary * imaginary + 1e-6)
        for layer in self.encoder:
            x = torch.relu(layer(x))
        hidden, memory = self.cell(x.mean(2), (hidden, memory))
        return torch.sigmoid(self.head(torch.relu(hidden))), hidden, memory


def vad():
    state = [torch.randn(1, 128) * 0.5 for _ in range(2)]
    return Vad().eval(), (torch.randn(1, 576), *state)


IMAGES = {
    "mobilenet_v2": torchvision.models.mobilenet_v2,
    "mobilenet_v3_small": torchvision.models.mobilenet_v3_small,
    "resnet18": torchvision.models.resnet18,
}
PORTABLE = ["mobilenet_v2", "resnet18"]
MODELS = {
    name: lambda build=build: calibrated(build) for name, build in (IMAGES | CALIBRATED).items()
} | {
    "vit": vit,
    "lstm_step": lambda: step(torch.nn.LSTMCell, 2),
    "gru_step": lambda: step(torch.nn.GRUCell, 1),
    "vad_step": vad,
} | NETWORKS


def write(exported, path):
    # The complex spectrum of the mel features is not valid in the edge dialect, but runs.
    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()], compile_config=config)
    path.write_bytes(edge.to_executorch().buffer)


def save_inputs(inputs, name, folder):
    for at, tensor in enumerate(inputs):
        suffix = f"_{at}" if at else ""
        np.save(folder / f"{name}_input{suffix}.npy", tensor.numpy())


def export(name, folder):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    with torch.no_grad():
        output = model(*inputs)
        exported = torch.export.export(model, inputs)
    output = output[0] if isinstance(output, tuple) else output
    save_inputs(inputs, name, folder)
    np.save(folder / f"{name}_output.npy", output.numpy())
    write(exported, folder / f"{name}_xnnpack.pte")
    if name not in PORTABLE:
        return
    program = to_edge_transform_and_lower(exported).to_executorch()
    (folder / f"{name}.pte").write_bytes(program.buffer)
    edge = to_edge_transform_and_lower(exported)
    program = edge.to_executorch(ExecutorchBackendConfig(external_constants=True))
    (folder / f"{name}_external.pte").write_bytes(program.buffer)
    with tempfile.TemporaryDirectory() as written:
        program.write_tensor_data_to_file(written)
        (data,) = pathlib.Path(written).iterdir()
        shutil.move(data, folder / f"{name}_external.ptd")


def export_integers(name, folder):
    """Image model in `int8`: static activation scales, per-channel weight scales."""
    torch.manual_seed(0)
    model, inputs = calibrated(IMAGES[name])
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(model, inputs).module(), quantizer)
        for _ in range(4):
            prepared(torch.randn(1, *IMAGE))
        prepared(*inputs)
        exported = torch.export.export(convert_pt2e(prepared), inputs)
    last = next(iter(exported.graph.output_node().args[0]))
    assert "dequantize_per_tensor" in str(last.target), last.target
    save_inputs(inputs, f"{name}_int8", folder)
    np.save(folder / f"{name}_int8_quantum.npy", np.float32([last.args[1]]))
    write(exported, folder / f"{name}_int8_xnnpack.pte")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    names = [*MODELS, *(f"{name}_int8" for name in IMAGES)]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or names:
        if name.endswith("_int8"):
            export_integers(name.removesuffix("_int8"), arguments.folder)
        else:
            export(name, arguments.folder)


if __name__ == "__main__":
    main()
