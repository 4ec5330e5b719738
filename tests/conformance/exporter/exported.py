"""Exports modules like ExecuTorch's test suite, with compressible inputs and weights, and writes archives."""

import json
import zlib
from pathlib import Path

import numpy
import torch
from executorch.backends.test.harness.stages import StageType
from executorch.backends.test.suite.flows.portable import PORTABLE_TEST_FLOW
from executorch.exir._serialize import _deserialize_pte_binary
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from torch.utils import _pytree as pytree

from .values import compressed, dim_order, inline_tensor, memory_array, tensor_json

INPUT_STEP, WEIGHT_STEP = 1 / 64, 1 / 256
SUM_BLOCK, MAX_ELEMENTS = 16, 2048  # longer outputs are given as sums of SUM_BLOCK contiguous elements
MAX_ARCHIVE_BYTES = 2**20
TOLERANCES = {torch.float16: (1e-3, 2e-3), torch.bfloat16: (1e-2, 1.6e-2)}


def on_grid(function):
    """Wraps a random function: its results become multiples of INPUT_STEP."""
    def rounded(*args, **kwargs):
        value = function(*args, **kwargs)
        return (value / INPUT_STEP).round() * INPUT_STEP if value.is_floating_point() else value
    return rounded


def use_grid() -> None:
    """Makes PyTorch's random numbers multiples of INPUT_STEP. Full mantissas would double the archive sizes."""
    for name in ("rand", "randn", "rand_like", "randn_like"):
        setattr(torch, name, on_grid(getattr(torch, name)))


def export(name: str, model: torch.nn.Module, inputs: tuple, random_inputs: bool, dynamic_shapes=None, flow=PORTABLE_TEST_FLOW) -> dict:
    """Exports one program of a flow: `pte`, `inputs`, `expected` and `official`, or `failed` with the step and `why`.

    A quantized program has `quantum`, the quantization step of its results, and is expected to match the official runtime.
    A program that a quantizing flow leaves in floating point has `unchanged` only.
    """
    torch.manual_seed(zlib.crc32(name.encode()))
    made, step = {"name": name}, "eager"
    try:
        with torch.no_grad():
            for weight in model.parameters():
                if weight.is_floating_point():
                    weight.copy_((weight / WEIGHT_STEP).round() * WEIGHT_STEP)
        model(*inputs)
        tester = flow.tester_factory(model, inputs)
        if flow.quantize:
            step = "quantize"
            tester.quantize(flow.quantize_stage_factory())
            if not is_quantized(tester.get_artifact(StageType.QUANTIZE)):
                return made | {"unchanged": True}
        step = "export"
        tester.export(tester._get_default_stage(StageType.EXPORT, dynamic_shapes=dynamic_shapes))
        step = "lower"
        tester.to_edge_transform_and_lower()
        tester.to_executorch()
        tester.serialize()
        made["pte"] = bytes(tester.get_artifact())
        step = "reference"
        made["inputs"] = next(tester.generate_random_inputs()) if random_inputs else inputs
        outputs, _ = tester._calculate_reference_output(tester.stages[StageType.EXPORT].artifact, made["inputs"])
        made["expected"] = laid_out(made["pte"], pytree.tree_leaves(outputs))
        if flow.quantize:
            step = "official runtime"
            made["expected"] = run_official(made)
            made["quantum"] = quantum(tester.stages[StageType.EXPORT].artifact)
        else:
            made["official"] = official(made)
            if flow.is_delegated and made["official"]:
                made["expected"] = run_official(made)  # the compiled form has less information than the module: its Gelu is always exact
    except Exception as error:
        made |= {"failed": step, "why": f"{type(error).__name__}: {error}".splitlines()[0]}
    return made


def laid_out(pte: bytes, outputs: list) -> list:
    """Outputs in the dim orders of the program, where views of eager PyTorch are copies."""
    plan = _deserialize_pte_binary(pte).program.execution_plan[0]
    found = []
    for x, index in zip(outputs, plan.outputs, strict=True):
        if isinstance(x, torch.Tensor):
            order = list(plan.values[index].val.dim_order)
            x = x.detach().clone().permute(order).contiguous().permute([order.index(d) for d in range(x.dim())])
        found.append(x)
    return found


def run_official(made: dict) -> list:
    """Outputs of the official runtime."""
    outputs = _load_for_executorch_from_buffer(made["pte"]).run_method("forward", tuple(pytree.tree_leaves(made["inputs"])))
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in outputs]


def is_quantized(module: torch.fx.GraphModule) -> bool:
    """True if a graph has a quantized part."""
    return any("quantize_" in str(node.target) for node in module.graph.nodes)


def quantum(exported) -> float:
    """Largest quantization step of the outputs of static quantization; 0 without static quantization."""
    steps = [node.args[1] for node in exported.graph.nodes if "dequantize_per_tensor.default" in str(node.target)]
    return max((float(step) for step in steps), default=0.0)


def delegates(pte: bytes) -> int:
    """Number of delegates of a program."""
    return len(_deserialize_pte_binary(pte).program.execution_plan[0].delegates)


def official(made: dict) -> str:
    """Describes how the official runtime differs from eager PyTorch; empty if it does not."""
    try:
        for actual, expected in zip(run_official(made), made["expected"], strict=True):
            torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4, equal_nan=True)
    except (RuntimeError, AssertionError, ValueError) as error:
        return str(error).splitlines()[0]
    return ""


def value(item) -> dict:
    """JSON of an input or output."""
    if isinstance(item, torch.Tensor):
        return {"tensor": inline_tensor(item)}
    if item is None:
        return {"none": True}
    return {{bool: "bool", int: "int", float: "double"}[type(item)]: item}


def output(item) -> dict:
    """JSON of an expected output. A long one is given as sums, which depend on every element at 1/16 of the size."""
    if not isinstance(item, torch.Tensor) or item.numel() <= MAX_ELEMENTS or not item.is_floating_point():
        return value(item)
    order = dim_order(item)
    elements = memory_array(item.to(torch.float64), order).reshape(-1)
    sums = numpy.pad(elements, (0, -len(elements) % SUM_BLOCK)).reshape(-1, SUM_BLOCK).sum(1).astype("<f4")
    return {"tensor": {**tensor_json(item, order), "sums": sums.tobytes().hex()}}


def program(made: dict) -> dict:
    """JSON of one exported program with its only case, or of an export error."""
    if "failed" in made:
        return {"program": made["name"], "refused": f"{made['failed']}: {made['why']}"}
    tolerances = [TOLERANCES.get(x.dtype, (1e-5, 1e-5)) for x in made["expected"] if isinstance(x, torch.Tensor)]
    atol, rtol = max(tolerances, default=(0, 0))
    case = {"method": "forward", "fresh": True, "inputs": [value(x) for x in pytree.tree_leaves(made["inputs"])],
            "expected": [output(x) for x in made["expected"]], "atol": atol, "rtol": rtol}
    if made.get("quantum"):
        case["quantum"] = made["quantum"]
    if made.get("official"):
        case["official"] = made["official"]
    return {"program": made["name"], "cases": [case], "pte": made["pte"].hex()}


def write(made: list[dict], path: Path) -> int:
    """Writes programs to an archive and returns its size. A large archive is split in two, between tests."""
    lines = ",\n".join(json.dumps(program(x), separators=(",", ":")) for x in made)
    packed = compressed(f"[\n{lines}\n]\n")
    tests = [x["name"].split("#")[0] for x in made]
    split = next((at for at in range(len(made) // 2, len(made)) if tests[at] != tests[at - 1]), 0)
    if len(packed) > MAX_ARCHIVE_BYTES and split:
        return write(made[:split], path) + write(made[split:], path.with_name(path.name.replace(".", "_more.", 1)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    return len(packed)
