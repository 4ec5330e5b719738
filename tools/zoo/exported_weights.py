"""Reads weights from programs, to continue a training without its checkpoints."""
import json
import math
import os
import re
import subprocess
import tempfile

import executorch.data.bin
import numpy as np
import torch
from executorch.backends.xnnpack import serialization
from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import ScalarType


def read_constants(path, method="forward"):
    """Yields the f32 constants of a method of a program outside of delegates, in order of their first use."""
    if not path.exists():
        raise SystemExit(f"{path} does not exist; the scripts of tools/zoo write it when they export the package")
    program = deserialize_pte_binary(path.read_bytes()).program
    plan = next(plan for plan in program.execution_plan if plan.name == method)
    indices = []
    for instruction in plan.chains[0].instructions:
        for index in getattr(instruction.instr_args, "args", ()):
            tensor = plan.values[index].val
            is_constant = getattr(tensor, "data_buffer_idx", 0) and not tensor.allocation_info
            if is_constant and tensor.scalar_type == ScalarType.FLOAT and index not in indices:
                indices.append(index)
    for index in indices:
        tensor = plan.values[index].val
        count = math.prod(tensor.sizes)
        values = np.frombuffer(program.constant_buffer[tensor.data_buffer_idx].storage, np.float32, count)
        yield torch.from_numpy(values.reshape(tensor.sizes).copy())


def assign_by_shape(names, shapes, values):
    """Assigns each value to the next name in order if its shape matches, and skips it otherwise."""
    names, state = list(names), {}
    for value in values:
        if names and tuple(value.shape) == tuple(shapes[names[0]]):
            state[names.pop(0)] = value
    if names:
        raise SystemExit(f"the program has no constant for {names[0]} of shape {tuple(shapes[names[0]])}")
    return state


def read_xnnpack_graphs(path):
    """Yields the graph of each XNNPACK delegate of the first method of a program, in the order of their calls, with
    a function that reads a constant."""
    file = deserialize_pte_binary(path.read_bytes())
    schema = os.path.join(list(serialization.__path__)[0], "schema.fbs")
    flatc = os.path.join(list(executorch.data.bin.__path__)[0], "flatc")
    for delegate in file.program.execution_plan[0].delegates:
        blob = bytes(file.program.backend_delegate_data[delegate.processed.index].data)
        header = XNNHeader.from_bytes(blob[:XNNHeader.EXPECTED_LENGTH])
        with tempfile.TemporaryDirectory() as folder:
            graph = os.path.join(folder, "graph.bin")
            with open(graph, "wb") as out:
                out.write(blob[header.flatbuffer_offset:header.flatbuffer_offset + header.flatbuffer_size])
            subprocess.run([flatc, "--json", "--strict-json", "--raw-binary", "-o", folder, schema, "--", graph],
                           check=True)
            with open(os.path.join(folder, "graph.json")) as text:
                # flatc writes infinity in a form that JSON does not have.
                content = json.loads(re.sub(r":\s*(-?)inf\b", r": \1Infinity", text.read()))

        def constant(index, dtype, content=content):
            key = content["constant_data"][index]["named_key"]
            data = file.named_data.buffers[file.named_data.pte_data[key].buffer_index]
            return torch.from_numpy(np.frombuffer(data, dtype).copy())

        yield content, constant


def read_xnnpack_graph(path):
    """Returns the graph of the first XNNPACK delegate of a program, and a function that reads a constant."""
    return next(read_xnnpack_graphs(path))


def read_xnnpack_convolutions(path):
    """Yields weight and bias of each f32 convolution of an XNNPACK program, in the order of their calls."""
    content, constant = read_xnnpack_graph(path)

    def value(value_id):
        found = next(v["xvalue_union"] for v in content["xvalues"] if v["xvalue_union"].get("id_out", 0) == value_id)
        return constant(found["constant_buffer_idx"], np.float32), found["dims"]

    for node in content["xnodes"]:
        if node["xnode_union_type"] == "XNNConv2d":
            (weight, dims), (bias, _) = (value(node["xnode_union"][name]) for name in ("filter_id", "bias_id"))
            yield weight.reshape(dims).permute(0, 3, 1, 2).contiguous(), bias


def read_xnnpack_layers(path):
    """Yields weight and bias of each convolution and linear layer of an XNNPACK program as floats, in the order of
    their calls. Weights may be f32 or int8; layers without a bias are products with a constant, and left out."""
    content, constant = read_xnnpack_graph(path)
    values = {}
    for entry in content["xvalues"]:
        entry = entry["xvalue_union"]
        values[entry.get("tensor_value", entry).get("id_out", 0)] = entry

    def floats(value_id, dtype):
        value = values[value_id]
        if "quant_params" not in value:
            return constant(value["constant_buffer_idx"], np.float32).reshape(value["dims"])
        tensor, scales = value["tensor_value"], constant(value["quant_params"]["scale_buffer_idx"], np.float32)
        integers = constant(tensor["constant_buffer_idx"], dtype).float().reshape(tensor["dims"])
        return integers * scales.reshape([-1] + [1] * (integers.dim() - 1))

    for node in content["xnodes"]:
        layer = node["xnode_union"]
        if node["xnode_union_type"] in ("XNNConv2d", "XNNFullyConnected") and layer["bias_id"] in values:
            weight = floats(layer["filter_id"], np.int8)
            weight = weight.permute(0, 3, 1, 2).contiguous() if weight.dim() == 4 else weight
            yield weight, floats(layer["bias_id"], np.int32)
