"""Programs of ExecuTorch's operator suite: all tests of a flow, all programs of a test."""

import importlib
import itertools
import pkgutil
import unittest
import zlib

import torch
from executorch.backends.test.suite import operators
from executorch.backends.test.suite.flows import xnnpack
from executorch.backends.test.suite.flows.portable import PORTABLE_TEST_FLOW

from .exported import delegates, export

DELEGATED = [
    xnnpack.XNNPACK_TEST_FLOW,
    xnnpack.XNNPACK_DYNAMIC_INT8_PER_CHANNEL_TEST_FLOW,
    xnnpack.XNNPACK_STATIC_INT8_PER_CHANNEL_TEST_FLOW,
    xnnpack.XNNPACK_STATIC_INT8_PER_TENSOR_TEST_FLOW,
]


class Runner:
    """Replacement of the suite's runner: exports the programs of a test, and continues after a failure."""

    def __init__(self, name: str, flow):
        self.name, self._flow, self.made = name, flow, []

    def lower_and_run_model(self, model, inputs, generate_random_test_inputs=True, dynamic_shapes=None):
        """Exports a program of the test."""
        name = f"{self.name}#{len(self.made)}"
        self.made.append(export(name, model, inputs, generate_random_test_inputs, dynamic_shapes, self._flow))


def modules() -> list[str]:
    """Files of the suite."""
    return sorted(module.name for module in pkgutil.iter_modules(operators.__path__))


def axis(mark) -> list[tuple[str, dict]]:
    """Values of a `parametrize` mark with their pytest labels."""
    names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
    ids, found = mark.kwargs.get("ids"), []
    for number, given in enumerate(mark.args[1]):
        values = given if len(names) > 1 else (given,)
        label = (ids(values[0]) if callable(ids) else ids[number]) if ids else "-".join(map(str, values))
        found.append((str(label), dict(zip(names, values))))
    return found


def tests(module: str):
    """Tests of a file: name with parameters, function, parameters."""
    found = vars(importlib.import_module(f"{operators.__name__}.{module}"))
    for name, function in sorted(found.items()):
        if not name.startswith("test") or not callable(function):
            continue
        marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
        for combination in itertools.product(*(axis(mark) for mark in reversed(marks))):
            label = "-".join(label for label, _ in combination)
            yield f"{name}[{label}]" if label else name, function, {k: v for _, values in combination for k, v in values.items()}


def collect(module: str, flow=PORTABLE_TEST_FLOW) -> list[dict]:
    """Exports all programs of a file."""
    made = []
    for name, function, parameters in tests(module):
        torch.manual_seed(zlib.crc32(name.encode()))
        torch._dynamo.reset()
        runner = Runner(name, flow)
        try:
            function(runner, **parameters)
        except unittest.SkipTest as reason:
            runner.made.append({"name": name, "failed": "skipped by the suite", "why": str(reason)})
        made += runner.made
    return made


def collect_delegated(module: str, flow) -> list[dict]:
    """Exports the programs of a file that have a delegate and, in a quantizing flow, are quantized."""
    changed = (x for x in collect(module, flow) if "unchanged" not in x)
    return [x for x in changed if "failed" in x or delegates(x["pte"])]
