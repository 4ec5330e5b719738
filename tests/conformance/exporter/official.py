"""Runs a conformance program on the official runtime and describes the differences from eager PyTorch."""

import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer, _load_program_from_buffer
from torch.utils import _pytree as pytree

from .program import Case, Program


def difference(case: Case, outputs: list) -> str:
    """Describes how the outputs of one case differ; empty if they do not."""
    if len(outputs) != len(case.expected):
        return f"{len(outputs)} outputs, expected {len(case.expected)}"
    for number, (actual, expected) in enumerate(zip(outputs, case.expected)):
        if not isinstance(expected, torch.Tensor):
            if actual != expected and not abs(actual - expected) <= case.atol:
                return f"output {number} is {actual!r}, expected {expected!r}"
            continue
        try:
            torch.testing.assert_close(actual, expected, atol=case.atol, rtol=case.rtol, equal_nan=True)
        except AssertionError as error:
            return f"output {number}: " + " ".join(str(error).split())
    return ""


class Instance:
    """Loaded program. Without external data, its methods share memory."""

    def __init__(self, built: Program):
        self.ptd = next(iter(built.ptd.values()), None)
        self.loaded = _load_for_executorch_from_buffer(built.pte, self.ptd) if self.ptd else _load_program_from_buffer(built.pte)
        self.methods = {}

    def run(self, case: Case) -> list:
        """Runs a method. It is loaded on first use."""
        inputs = tuple(pytree.tree_leaves((case.inputs, case.kwargs), is_leaf=lambda x: x is None))
        if self.ptd:
            return self.loaded.run_method(case.method, inputs)
        if case.method not in self.methods:
            self.methods[case.method] = self.loaded.load_method(case.method)
        return self.methods[case.method](inputs)


def run_official(built: Program) -> dict[int, str]:
    """Runs all cases in order, sets `official` of those that differ, and returns these."""
    instance = None
    for case in built.cases:
        error_expected = case.error or built.load_error
        try:
            if case.fresh:
                instance = Instance(built)
            outputs = instance.run(case)
        except Exception as error:
            if not error_expected:
                case.official = str(error).splitlines()[0]
            continue
        case.official = f"accepted, expected {error_expected}" if error_expected else difference(case, outputs)
    return {number: case.official for number, case in enumerate(built.cases) if case.official}
