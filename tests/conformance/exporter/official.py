"""Runs a conformance program on the official ExecuTorch runtime and says where it differs from eager PyTorch."""

import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer, _load_program_from_buffer
from torch.utils import _pytree as pytree

from .program import Case, Program


def difference(case: Case, outputs: list) -> str:
    """What is wrong with the outputs of one case; empty when nothing is."""
    if len(outputs) != len(case.expected):
        return f"{len(outputs)} outputs, not {len(case.expected)}"
    for number, (actual, expected) in enumerate(zip(outputs, case.expected)):
        if not isinstance(expected, torch.Tensor):
            if actual != expected and not abs(actual - expected) <= case.atol:
                return f"output {number} is {actual!r}, not {expected!r}"
            continue
        try:
            torch.testing.assert_close(actual, expected, atol=case.atol, rtol=case.rtol, equal_nan=True)
        except AssertionError as error:
            return f"output {number}: " + " ".join(str(error).split())
    return ""


class Instance:
    """A loaded program; without external data its methods share their memory."""

    def __init__(self, built: Program):
        self.ptd = next(iter(built.ptd.values()), None)
        self.loaded = _load_for_executorch_from_buffer(built.pte, self.ptd) if self.ptd else _load_program_from_buffer(built.pte)
        self.methods = {}

    def run(self, case: Case) -> list:
        """Calls one method, which is loaded at first use."""
        inputs = tuple(pytree.tree_leaves((case.inputs, case.kwargs), is_leaf=lambda x: x is None))
        if self.ptd:
            return self.loaded.run_method(case.method, inputs)
        if case.method not in self.methods:
            self.methods[case.method] = self.loaded.load_method(case.method)
        return self.methods[case.method](inputs)


def run_official(built: Program) -> dict[int, str]:
    """Runs all cases in order, notes in each where the official runtime differs, and returns those."""
    instance = None
    for case in built.cases:
        wanted = case.error or built.load_error
        try:
            if case.fresh:
                instance = Instance(built)
            outputs = instance.run(case)
        except Exception as error:
            if not wanted:
                case.official = str(error).splitlines()[0]
            continue
        case.official = f"accepted instead of {wanted}" if wanted else difference(case, outputs)
    return {number: case.official for number, case in enumerate(built.cases) if case.official}
