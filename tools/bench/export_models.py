"""Exports the models of `afferent-bench models` and `load`: MobileNetV2 and ResNet18, with and without XNNPACK.

    python tools/bench/export_models.py FOLDER

Needs torch, torchvision and executorch. Weights are random, from a fixed seed; the statistics of
batch normalisation are measured on noise, so that activations keep the scale that they have in a
trained model. Writes for each model NAME: `NAME.pte` for portable kernels, `NAME_xnnpack.pte`,
`NAME_input.npy` and what PyTorch gives for it, `NAME_output.npy`; and the portable program with its
weights in a data file, `NAME_external.pte` and `NAME_external.ptd`.
"""

import argparse
import pathlib
import shutil
import tempfile

import numpy as np
import torch
import torchvision
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

MODELS = {"mobilenet_v2": torchvision.models.mobilenet_v2, "resnet18": torchvision.models.resnet18}
IMAGE = (3, 224, 224)


def calibrated(build):
    """The model with random weights, in evaluation mode, and an input."""
    torch.manual_seed(0)
    model = build(weights=None)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the mean over all batches
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.5, 0.5)
    model.train()
    with torch.no_grad():
        for _ in range(2):
            model(torch.randn(4, *IMAGE))
    return model.eval(), torch.randn(1, *IMAGE)


def export(name, build, folder):
    model, image = calibrated(build)
    with torch.no_grad():
        output = model(image)
        exported = torch.export.export(model, (image,))
    np.save(folder / f"{name}_input.npy", image.numpy())
    np.save(folder / f"{name}_output.npy", output.numpy())
    for suffix, partitioners in [("", None), ("_xnnpack", [XnnpackPartitioner()])]:
        edge = to_edge_transform_and_lower(exported, partitioner=partitioners)
        (folder / f"{name}{suffix}.pte").write_bytes(edge.to_executorch().buffer)
    edge = to_edge_transform_and_lower(exported)
    program = edge.to_executorch(ExecutorchBackendConfig(external_constants=True))
    (folder / f"{name}_external.pte").write_bytes(program.buffer)
    with tempfile.TemporaryDirectory() as written:
        program.write_tensor_data_to_file(written)
        (data,) = pathlib.Path(written).iterdir()
        shutil.move(data, folder / f"{name}_external.ptd")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, build in MODELS.items():
        export(name, build, folder)


if __name__ == "__main__":
    main()
