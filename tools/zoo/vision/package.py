"""Writes the package of a vision model: programs and model.yaml.

Packages list the int8 program of the models that QUANTIZED names, and the XNNPACK program of the
others. The rest is written beside the package.
"""
import argparse
import os
import shutil

import caption_program
import caption_scenes
import captioner
import numpy as np
import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (XNNPACKQuantizer,
                                                                     get_symmetric_quantization_config)
from layers import fold_batch_norm
from packages import CARDS, card
from paths import MODELS, WORK
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from train import load_task
from training import load_network

from cards import variant_entry, write_card
from export import lower, write

# Partitioners and backend of each variant.
VARIANTS = {
    "xnnpack": ("XnnpackBackend", "fp32", lambda: [XnnpackPartitioner()]),
    "int8": ("XnnpackBackend", "int8", lambda: [XnnpackPartitioner()]),
    "vulkan": ("VulkanBackend", "fp32", lambda: [VulkanPartitioner()]),
    "portable": ("portable", "fp32", lambda: []),
}
# Models whose accuracy the int8 program keeps (see `quality` of the cards).
QUANTIZED = ("captioner", "depth", "hand", "text_recognizer")
CALIBRATION_RECORDS = 128


def example_input(name):
    size = CARDS[name]["image"]["size"]
    return torch.randn(1, 1 if CARDS[name]["image"]["color"] == "gray" else 3, size[1], size[0])


class Features(torch.nn.Module):
    """The part of a network that is quantized."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network.features(x)


class Halves(torch.nn.Module):
    """A network in two parts: the quantized one, and the rest."""

    def __init__(self, network):
        super().__init__()
        self.quantized, self.rest = Features(network), network

    def forward(self, x):
        return self.rest.outputs(*self.quantized(x))


def is_quantized(node):
    """True for the operations of `Features`, and for constants."""
    modules = [name for name, _ in node.meta.get("nn_module_stack", {}).values()]
    return not modules or "quantized" in modules


def quantize(network, task):
    """Returns the network with int8 weights and activations of `features`, calibrated on training
    data.
    """
    height, width = example_input(task.NAME).shape[2:]
    inputs = task.prepare(task.shards.first(CALIBRATION_RECORDS))[0]
    # The program of the text detector is larger than the images of its training.
    inputs = inputs.repeat(1, 1, -(-height // inputs.shape[2]), -(-width // inputs.shape[3]))[..., :height, :width]
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    quantizer.set_filter_function(is_quantized)
    prepared = prepare_pt2e(torch.export.export(Halves(network), (inputs[:1],), strict=True).module(), quantizer)
    with torch.no_grad():
        for row in inputs:
            prepared(row[None])
    return convert_pt2e(prepared)


def write_captioner(task, folder):
    """Writes the programs and the tokenizer of the captioner."""
    network, rng = load_network(task), np.random.default_rng([task.seed, CALIBRATION_RECORDS])
    images = captioner.prepare(caption_scenes.draw_scenes(rng, CALIBRATION_RECORDS)["image"])
    for variant in ("xnnpack", "int8"):
        buffer = caption_program.build(network, task.features, images, variant == "int8")
        write(os.path.join(folder, f"captioner_{variant}.pte"), buffer)
        print(f"captioner_{variant}.pte: {len(buffer)} bytes", flush=True)
    shutil.copyfile(os.path.join(WORK, "captioner-tokenizer.json"), os.path.join(folder, "tokenizer.json"))


def write_programs(task, folder):
    """Writes the programs of a model with one method."""
    name, network = task.NAME, fold_batch_norm(load_network(task))
    for variant, (_, precision, partitioners) in VARIANTS.items():
        module = quantize(network, task) if precision == "int8" else network
        buffer, operators = lower(module, (example_input(name),), None, partitioners())
        write(os.path.join(folder, f"{name}_{variant}.pte"), buffer)
        print(f"{name}_{variant}.pte: {len(buffer)} bytes, "
              + ", ".join(f"{op} x{n}" for op, n in sorted(operators.items())), flush=True)


def build(name, seed):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    task, folder = load_task(name, seed), os.path.join(MODELS, name)
    os.makedirs(folder, exist_ok=True)
    (write_captioner if name == "captioner" else write_programs)(task, folder)
    shipped = ("int8",) if name in QUANTIZED else ("xnnpack",)
    entries = [variant_entry(folder, f"{name}_{variant}.pte", *VARIANTS[variant][:2]) for variant in shipped]
    steps = torch.load(os.path.join(WORK, f"{name}-checkpoint.pt"), weights_only=True)["step"]
    write_card(folder, card(name, entries, seed, steps))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(CARDS))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for package in arguments.names:
        build(package, arguments.seed)
