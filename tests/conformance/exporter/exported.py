"""Exports modules as the official test suite does, with inputs and weights that compress, and packs them into archives."""

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
BLOCK, LONG = 16, 2048  # an output of more than LONG elements is given by the sums of BLOCK elements that lie together
LARGEST = 2**20  # bytes of an archive
TOLERANCES = {torch.float16: (1e-3, 2e-3), torch.bfloat16: (1e-2, 1.6e-2)}


def on_grid(function):
    """A source of random numbers whose results are multiples of INPUT_STEP."""
    def rounded(*args, **kwargs):
        value = function(*args, **kwargs)
        return (value / INPUT_STEP).round() * INPUT_STEP if value.is_floating_point() else value
    return rounded


def use_grid() -> None:
    """Makes PyTorch's random numbers multiples of INPUT_STEP; full mantissas would double the archives."""
    for name in ("rand", "randn", "rand_like", "randn_like"):
        setattr(torch, name, on_grid(getattr(torch, name)))


def export(name: str, model: torch.nn.Module, inputs: tuple, random_inputs: bool, dynamic_shapes=None, flow=PORTABLE_TEST_FLOW) -> dict:
    """One program of a flow: `pte`, `inputs`, `expected` and `official`, or `failed` with the step and `why`.

    A quantised program has `quantum`, the step of its results; what is expected are the results of the official runtime.
    Of one that the flow should quantise and leaves as it is, there is nothing but `unchanged`.
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
            if not is_quantised(tester.get_artifact(StageType.QUANTIZE)):
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
                made["expected"] = run_official(made)  # what is compiled says less than the module: any Gelu is the exact one
    except Exception as error:
        made |= {"failed": step, "why": f"{type(error).__name__}: {error}".splitlines()[0]}
    return made


def laid_out(pte: bytes, outputs: list) -> list:
    """The outputs, each tensor in the dim order that the program gives it: views of eager PyTorch are copies there."""
    plan = _deserialize_pte_binary(pte).program.execution_plan[0]
    found = []
    for x, index in zip(outputs, plan.outputs, strict=True):
        if isinstance(x, torch.Tensor):
            order = list(plan.values[index].val.dim_order)
            x = x.detach().clone().permute(order).contiguous().permute([order.index(d) for d in range(x.dim())])
        found.append(x)
    return found


def run_official(made: dict) -> list:
    """What the official runtime gives."""
    outputs = _load_for_executorch_from_buffer(made["pte"]).run_method("forward", tuple(pytree.tree_leaves(made["inputs"])))
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in outputs]


def is_quantised(module: torch.fx.GraphModule) -> bool:
    """Whether anything of a graph is quantised."""
    return any("quantize_" in str(node.target) for node in module.graph.nodes)


def quantum(exported) -> float:
    """The widest step between the numbers that a static quantisation can give, 0 if there is none."""
    steps = [node.args[1] for node in exported.graph.nodes if "dequantize_per_tensor.default" in str(node.target)]
    return max((float(step) for step in steps), default=0.0)


def delegates(pte: bytes) -> int:
    """How many parts of a program are delegated."""
    return len(_deserialize_pte_binary(pte).program.execution_plan[0].delegates)


def official(made: dict) -> str:
    """How the official runtime differs from eager PyTorch; empty if it does not."""
    try:
        for actual, expected in zip(run_official(made), made["expected"], strict=True):
            torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4, equal_nan=True)
    except (RuntimeError, AssertionError, ValueError) as error:
        return str(error).splitlines()[0]
    return ""


def value(item) -> dict:
    """An input or output in JSON."""
    if isinstance(item, torch.Tensor):
        return {"tensor": inline_tensor(item)}
    if item is None:
        return {"none": True}
    return {{bool: "bool", int: "int", float: "double"}[type(item)]: item}


def output(item) -> dict:
    """An expected output in JSON; a long one as sums, which keep every element in view at a sixteenth of the size."""
    if not isinstance(item, torch.Tensor) or item.numel() <= LONG or not item.is_floating_point():
        return value(item)
    order = dim_order(item)
    elements = memory_array(item.to(torch.float64), order).reshape(-1)
    sums = numpy.pad(elements, (0, -len(elements) % BLOCK)).reshape(-1, BLOCK).sum(1).astype("<f4")
    return {"tensor": {**tensor_json(item, order), "sums": sums.tobytes().hex()}}


def program(made: dict) -> dict:
    """The JSON of one exported program with its only case, or of one that is refused."""
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
    """Writes what was exported to an archive, programs first and their bytes last; returns its size. A large one becomes two, between tests."""
    lines = ",\n".join(json.dumps(program(x), separators=(",", ":")) for x in made)
    packed = compressed(f"[\n{lines}\n]\n")
    tests = [x["name"].split("#")[0] for x in made]
    half = next((at for at in range(len(made) // 2, len(made)) if tests[at] != tests[at - 1]), 0)
    if len(packed) > LARGEST and half:
        return write(made[:half], path) + write(made[half:], path.with_name(path.name.replace(".", "_more.", 1)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    return len(packed)
