"""Adds the Vulkan variant to vision packages, with the weights of their first program: vulkan.py [NAME]...

The shipped packages have no checkpoints. Weights of 8 bits are exact in half precision; those of 32 bits are
rounded. Only the program of `depth` is in the repository.
"""
import sys
from pathlib import Path

import depth
import hand
import objects
import palm
import torch
import yaml
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from layers import fold_batch_norm
from paths import MODELS
from torch import nn

from cards import variant_entry, write_card
from export import lower, write
from exported_weights import read_xnnpack_layers

NETWORKS = {"depth": (depth.DepthNetwork, (3, depth.HEIGHT, depth.WIDTH)),
            "hand": (hand.HandNetwork, (3, hand.SIZE, hand.SIZE)),
            "objects": (objects.ObjectsNetwork, (3, objects.HEIGHT, objects.WIDTH)),
            "palm": (palm.PalmNetwork, (3, palm.SIZE, palm.SIZE))}


def layers_in_call_order(network, example):
    """Returns the convolutions and linear layers of a network in the order of their calls."""
    order, hooks = [], []
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            hooks.append(module.register_forward_hook(lambda module, *_: order.append(module)))
    with torch.no_grad():
        network(example)
    for hook in hooks:
        hook.remove()
    return order


def load(name):
    """Returns a network with the weights of the first program of the package, and an example input."""
    build, size = NETWORKS[name]
    network, example = fold_batch_norm(build().eval()), torch.rand(1, *size)
    folder = Path(MODELS) / name
    card = yaml.safe_load((folder / "model.yaml").read_text())
    weights = list(read_xnnpack_layers(folder / card["variants"][0]["file"]))
    layers = layers_in_call_order(network, example)
    if len(weights) != len(layers):
        raise SystemExit(f"{name}: the program has {len(weights)} layers, but the network has {len(layers)}")
    for layer in layers:
        # Parallel layers are in any order.
        at = next((at for at, (weight, _) in enumerate(weights) if weight.shape == layer.weight.shape), None)
        if at is None:
            raise SystemExit(f"{name}: the program has no layer of the shape {tuple(layer.weight.shape)}")
        weight, bias = weights.pop(at)
        layer.weight.data, layer.bias = weight, nn.Parameter(bias)
    return network.eval(), example


def add(name):
    network, example = load(name)
    folder = Path(MODELS) / name
    buffer, operators = lower(network, (example,), None, [VulkanPartitioner({"force_fp16": True})])
    write(folder / f"{name}_vulkan.pte", buffer)
    calls = ", ".join(f"{operator} x{count}" for operator, count in sorted(operators.items()))
    print(f"{name}_vulkan.pte: {len(buffer)} bytes, {calls}", flush=True)
    card = yaml.safe_load((folder / "model.yaml").read_text())
    entry = variant_entry(str(folder), f"{name}_vulkan.pte", "VulkanBackend", "fp16")
    card["variants"] = [v for v in card["variants"] if v["backend"] != "VulkanBackend"] + [entry]
    write_card(str(folder), card)


if __name__ == "__main__":
    torch.manual_seed(1)
    for package in sys.argv[1:] or ["depth"]:
        add(package)
