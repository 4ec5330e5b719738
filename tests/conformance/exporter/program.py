"""Conformance programs with their cases, and their output folders."""

import copy
import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from executorch.exir import to_edge
from torch.export import export
from torch.utils import _pytree as pytree

from .values import filed_value


@dataclass
class Case:
    """One call: inputs, and either the results of eager PyTorch, given values, or an error."""

    inputs: tuple = ()
    kwargs: dict = field(default_factory=dict)
    method: str = "forward"
    fresh: bool = False
    atol: float = 1e-5
    rtol: float = 1e-5
    note: str = ""
    expected: list | None = None
    error: str = ""
    official: str = ""


@dataclass
class Program:
    """Exported program, its eager module, and its cases in order."""

    note: str
    eager: torch.nn.Module | None
    lowered: object
    cases: list[Case]
    load_error: str = ""
    backend: str = ""
    pte: bytes = b""
    bpte: bytes = b""
    ptd: dict[str, bytes] = field(default_factory=dict)
    name: str = ""

    def plan(self, method: str):
        """Execution plan of a method."""
        plans = self.lowered.executorch_program.execution_plan
        return next(plan for plan in plans if plan.name == method)


BUILDERS: dict[str, Callable[[], Program]] = {}


def program(build: Callable[[], Program]) -> Callable[[], Program]:
    """Decorator: registers a function as the builder of the program with its name."""
    BUILDERS[build.__name__] = build
    return build


def lower(model, inputs, *, kwargs=None, shapes=None, config=None, compile_config=None, passes=None, strict=False, methods=None):
    """Lowers a module, or a dictionary of exported programs, for the portable kernels."""
    if not isinstance(model, dict):
        model = export(model, inputs, kwargs or {}, dynamic_shapes=shapes, strict=strict)
    edge = to_edge(model, constant_methods=methods, compile_config=compile_config)
    if passes:
        edge = edge.transform(passes)
    return edge.to_executorch(config)


def module(function: Callable) -> torch.nn.Module:
    """Module with `function` as its forward."""

    class Wrapped(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    return Wrapped()


def simple(note: str, model, *inputs: tuple, atol=1e-5, rtol=1e-5, notes=(), **options) -> Program:
    """Program of one method, exported with the first inputs, with one case for each of `inputs`."""
    if not isinstance(model, torch.nn.Module):
        model = module(model)
        options["shapes"] = options.get("shapes") and (options["shapes"],)
    model.eval()
    eager = copy.deepcopy(model)
    lowered = lower(model, inputs[0], **options)
    texts = list(notes) + [""] * len(inputs)
    return Program(note, eager, lowered, [Case(x, atol=atol, rtol=rtol, note=t) for x, t in zip(inputs, texts)])


def build(name: str) -> Program:
    """Builds a program with its own seed, its bytes and its expected outputs."""
    torch.manual_seed(zlib.crc32(name.encode()))
    built = BUILDERS[name]()
    built.name = name
    built.pte = built.pte or bytes(built.lowered.buffer)
    if not built.ptd and getattr(built.lowered, "_tensor_data", None):
        built.ptd = {k: bytes(v) for k, v in built.lowered._tensor_data.items()}
    run_eager(built)
    return built


def run_eager(built: Program) -> None:
    """Sets the expected outputs of the cases without given ones, by eager PyTorch."""
    instance = None
    for number, case in enumerate(built.cases):
        case.fresh = case.fresh or number == 0
        if case.fresh:
            instance = copy.deepcopy(built.eager)
        if case.expected is None and not case.error and not built.load_error:
            with torch.no_grad():
                inputs = copy.deepcopy(case.inputs)
                outputs = getattr(instance, case.method)(*inputs, **case.kwargs)
            case.expected = pytree.tree_leaves(outputs)
            case.expected = [x.clone() if isinstance(x, torch.Tensor) else x for x in case.expected]


def orders(plan, indices: list[int]) -> list[list[int] | None]:
    """Dim orders of values of a method."""
    found = []
    for index in indices:
        value = plan.values[index].val
        found.append(list(value.dim_order) if hasattr(value, "dim_order") else None)
    return found


def write(built: Program, folder: Path, is_inline: bool = False) -> None:
    """Writes the program, its tensors and cases.json to a new folder. Tensors are NPY files, or hexadecimal in cases.json."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "model.pte").write_bytes(built.pte)
    if built.bpte:
        (folder / "model.bpte").write_bytes(built.bpte)
    for data in built.ptd.values():
        (folder / "model.ptd").write_bytes(data)
    cases = []
    for number, case in enumerate(built.cases):
        plan = built.plan(case.method)
        inputs = pytree.tree_leaves((case.inputs, case.kwargs), is_leaf=lambda x: x is None)
        entry = {"method": case.method, "fresh": case.fresh}
        to = None if is_inline else folder
        entry["inputs"] = values(inputs, orders(plan, plan.inputs), to, f"{number}_in")
        if case.error:
            entry["error"] = case.error
        elif not built.load_error:
            entry["expected"] = values(case.expected, orders(plan, plan.outputs), to, f"{number}_out")
            entry |= {"atol": case.atol, "rtol": case.rtol}
        for key in ("note", "official"):
            if getattr(case, key):
                entry[key] = getattr(case, key)
        cases.append(entry)
    text = {"program": built.name, "note": built.note}
    for key in ("load_error", "backend"):
        if getattr(built, key):
            text[key] = getattr(built, key)
    lines = ",\n".join(json.dumps(case) for case in cases)
    (folder / "cases.json").write_text(json.dumps(text)[:-1] + f',\n"cases": [\n{lines}\n]}}\n')


def values(items: list, declared: list, folder: Path | None, stem: str) -> list[dict]:
    """JSON of inputs or outputs. Tensors are written to `stem`_N.npy in the folder, if there is one."""
    if len(items) != len(declared):
        raise ValueError(f"{stem}: {len(items)} values, but the method declares {len(declared)}")
    return [filed_value(x, folder and folder / f"{stem}_{i}.npy", order) for i, (x, order) in enumerate(zip(items, declared))]
