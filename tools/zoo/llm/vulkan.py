"""Adds the Vulkan variant to the package llm, with the weights of its program for XNNPACK: vulkan.py

The package has no checkpoint. The 4-bit weights of that program are multiplied with their scales and rounded to half
precision; activations are not quantized. The program is not in the repository.
"""
import math
import pathlib
import sys
import tempfile

import numpy as np
import torch
import yaml
from executorch.exir._serialize._program import deserialize_pte_binary

import tokens
from export import PACKAGE, llama_export, official_model
from model import CONTEXT, GROUP_SIZE, LAYERS, WIDTH, shape

from cards import variant_entry, write_card
from exported_weights import read_constants, read_xnnpack_graphs

NAME = "llm_vulkan.pte"
# Matrices of a layer in the order of their calls.
MATRICES = ["attention.wq", "attention.wk", "attention.wv", "attention.wo",
            "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"]
NORMS = ["attention_norm", "ffn_norm"]


def scaled(integers, scales):
    """Returns 4-bit integers times the scales of their groups."""
    return (integers.unflatten(-1, (-1, GROUP_SIZE)) * scales.unsqueeze(-1)).flatten(-2)


def read_matrices(path):
    """Yields the matrices of a program for XNNPACK, in the order of their calls."""
    for content, constant in read_xnnpack_graphs(path):
        values = {entry["xvalue_union"]["tensor_value"]["id_out"]: entry["xvalue_union"]
                  for entry in content["xvalues"] if "tensor_value" in entry["xvalue_union"]}
        for node in content["xnodes"]:
            if node["xnode_union_type"] == "XNNFullyConnected":
                value = values[node["xnode_union"]["filter_id"]]
                tensor = value["tensor_value"]
                data = constant(tensor["constant_buffer_idx"], np.uint8)
                integers = torch.stack((data & 15, data >> 4), -1).float().reshape(tensor["dims"]) - 8
                scales = constant(value["quant_params"]["scale_buffer_idx"], np.uint16).view(torch.bfloat16).float()
                yield scaled(integers, scales.reshape(len(integers), -1))


def read_embeddings(path):
    """Returns the token embeddings of a program: 4-bit integers in a byte, the even one in the high bits."""
    program = deserialize_pte_binary(path.read_bytes()).program
    plan = program.execution_plan[0]
    name = "quantized_decomposed::embedding_4bit"
    index = next(index for index, operator in enumerate(plan.operators) if operator.name == name)
    calls = (i.instr_args for i in plan.chains[0].instructions if getattr(i.instr_args, "op_index", None) == index)

    def constant(value, dtype):
        tensor = plan.values[value].val
        storage = program.constant_buffer[tensor.data_buffer_idx].storage
        return torch.from_numpy(np.frombuffer(storage, dtype, math.prod(tensor.sizes)).reshape(tensor.sizes).copy())

    weights, scales = next(calls).args[:2]
    data, scales = constant(weights, np.uint8), constant(scales, np.float32)
    integers = torch.stack((data >> 4, data & 15), -1).float().flatten(-2) - 8
    return scaled(integers, scales.reshape(len(integers), -1))


def checkpoint(path):
    """Returns the weights of a program by the names of the official model."""
    matrices = list(read_matrices(path))
    norms = [constant for constant in read_constants(path) if constant.shape == (WIDTH,)]
    expected = LAYERS * len(MATRICES) + 1, LAYERS * len(NORMS) + 1
    if (len(matrices), len(norms)) != expected:
        found = len(matrices), len(norms)
        raise SystemExit(f"{path.name} has {found} matrices and norms, but the network has {expected}")
    weights = {"tok_embeddings.weight": read_embeddings(path), "output.weight": matrices.pop(),
               "norm.weight": norms.pop()}
    for kind, names in ((matrices, MATRICES), (norms, NORMS)):
        for index, value in enumerate(kind):
            weights[f"layers.{index // len(names)}.{names[index % len(names)]}.weight"] = value
    return weights


def add():
    card = yaml.safe_load((PACKAGE / "model.yaml").read_text())
    tokenizer = tokens.load(PACKAGE / "tokenizer.json")
    s = shape(tokenizer.get_vocab_size())
    model = official_model(checkpoint(PACKAGE / card["variants"][0]["file"]), s)
    begin, end = tokenizer.token_to_id(tokens.BEGIN), tokenizer.token_to_id(tokens.END)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        llama_export.save(model, s, folder)
        llama_export.export(folder, PACKAGE / NAME, CONTEXT, begin, [end], custom=True, vulkan=True)
    entry = variant_entry(PACKAGE, NAME, "VulkanBackend", "fp16")
    card["variants"] = [v for v in card["variants"] if v["backend"] != "VulkanBackend"] + [entry]
    write_card(PACKAGE, card)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        raise SystemExit(__doc__)
    torch.manual_seed(1)
    add()
