"""Configurations of ExecuTorch's own tests for Vulkan and WebGPU: sizes and parameters from the installed package, with inputs of our own."""

import contextlib
import copy
import io
import itertools
import json
import unittest.mock
import zlib
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from . import exported, vulkan
from .values import compressed

MAX_ELEMENTS = 200_000  # of all tensors of a configuration
PACK_ELEMENTS = 1_000_000  # of the inputs of a program
PERIOD, STEP = 257, 1 / 16  # long tensors repeat, and floating-point numbers are multiples of STEP, so that archives are small
SMALLEST_TOLERANCE = 5e-7  # of means near zero
CONSTANTS = {"weight", "bias", "running_mean", "running_var", "scales"}
WITH_PACKED_WEIGHTS = ["aten._weight_int8pack_mm.default"]
EXPLICIT = {"aten.index_select.default", "aten.gather.default", "aten.embedding.default"}
POSITIVE = {"aten.sqrt.default", "aten.rsqrt.default", "aten.log10.default", "aten.pow.Tensor_Scalar"}
DTYPES = {"at::kFloat": torch.float32, "at::kHalf": torch.float16, "at::kInt": torch.int32, "at::kBool": torch.bool, "at::kChar": torch.int8}
FLOAT_AND_HALF = ["at::kFloat", "at::kHalf"]


@dataclass
class Part:
    """One configuration: module, inputs of its runs, upper bounds of their sizes, and the results if they are not those of the module."""

    name: str
    module: torch.nn.Module
    runs: list[tuple]
    upper: tuple | None = None
    shapes: object = None
    expected: list | None = None
    lowered: object = None
    strict: bool = False

    def constants(self) -> list:
        """Tensors of the module."""
        return list(self.module.state_dict().values())

    def is_static(self) -> bool:
        """True if the configuration may share a program."""
        return self.shapes is None and self.lowered is None and len(self.runs) == 1

    def results(self, run: int) -> list:
        """Expected results."""
        if self.expected is not None:
            return self.expected
        with torch.no_grad():
            results = pytree.tree_leaves(self.module(*copy.deepcopy(self.runs[run])))
        # Views of eager PyTorch are copies in programs.
        return [x.contiguous() if isinstance(x, torch.Tensor) else x for x in results]


@dataclass
class Refused:
    """A configuration without a program, and why."""

    name: str
    reason: str


class Pack(torch.nn.Module):
    """Calls several modules, each with its own inputs: one program for many configurations."""

    def __init__(self, parts: list[Part]):
        super().__init__()
        self.parts = torch.nn.ModuleList(part.module for part in parts)
        self.counts = [len(part.runs[0]) for part in parts]
        self.training = False

    def forward(self, *inputs):
        inputs = iter(inputs)
        return tuple(module(*itertools.islice(inputs, n)) for module, n in zip(self.parts, self.counts))


def thin(x):
    """The tensor with few different values."""
    if not isinstance(x, torch.Tensor):
        return x
    if x.is_floating_point():
        rounded = (x / STEP).round() * STEP
        x = torch.where((rounded == 0) & (x != 0), x.sign() * STEP, rounded).to(x.dtype)
    if x.numel() > PERIOD:
        x = x.reshape(-1)[:PERIOD].repeat(-(-x.numel() // PERIOD))[: x.numel()].reshape(x.shape)
    return x.contiguous()


def evaluating(module: torch.nn.Module) -> torch.nn.Module:
    """The module in evaluation mode, which a converted module always is."""
    return module if isinstance(module, torch.fx.GraphModule) else module.eval()


def count(values) -> int:
    """Elements of the tensors among values."""
    return sum(x.numel() for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor))


def is_delegated(node) -> bool:
    """True if the device computes an output of an edge program."""
    while any(word in str(node.target) for word in ("getitem", "dim_order", "_to_copy")):
        node = node.args[0]
    return "executorch_call_delegate" in str(node.target)


def tolerance(x, inputs) -> float:
    """Allowed difference: relative to the largest element, 1e-5, or 2e-3 in half precision; none for integers."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or not x.numel():
        return 0.0
    is_half = any(isinstance(y, torch.Tensor) and y.dtype == torch.float16 for y in [x, *pytree.tree_leaves(inputs)])
    largest = x.double().abs().nan_to_num(posinf=0).max().item()
    return largest * 2e-3 if is_half else max(largest * 1e-5, SMALLEST_TOLERANCE)


def entries(family: str, parts: list[Part]) -> list[dict]:
    """JSON of configurations: one program, or several if the export of some fails or does not delegate them."""
    try:
        results = [[part.results(run) for run in range(len(part.runs))] for part in parts]
        if len(parts) == 1 and max(count(x) for x in results[0]) > MAX_ELEMENTS:
            return [{"program": parts[0].name, "refused": "large"}]
        lowered, kinds = lower(parts)
    except Exception as error:
        if len(parts) == 1:
            return [{"program": parts[0].name, "refused": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"}]
        half = len(parts) // 2
        return entries(family, parts[:half]) + entries(family, parts[half:])
    kinds, kept = iter(kinds), []
    for part, runs in zip(parts, results):
        outputs = list(itertools.islice(kinds, len(runs[0])))
        if outputs and all(outputs):
            kept.append(part)
    if len(kept) < len(parts):
        refused = [{"program": part.name, "refused": "the partitioner leaves it to the host"} for part in parts if part not in kept]
        return refused + (entries(family, kept) if kept else [])
    cases = []
    for run in range(len(parts[0].runs)):
        inputs = [x for part in parts for x in pytree.tree_leaves(part.runs[run], is_leaf=lambda x: x is None)]
        outputs = [{**exported.output(x), "of": part.name, "atol": tolerance(x, part.runs[run])} for part, runs in zip(parts, results) for x in runs[run]]
        cases.append({"inputs": [exported.value(x) for x in inputs], "expected": outputs})
    return [{"program": parts[0].name if len(parts) == 1 else f"{family}*{len(parts)}", "cases": cases, "pte": bytes(lowered.buffer).hex()}]


def lower(parts: list[Part]):
    """Program of the parts, unless the host computes an output, and for each of its outputs, true if the device computes it."""
    first = parts[0]
    if first.lowered is not None:
        delegates = first.lowered.executorch_program.execution_plan[0].delegates
        return first.lowered, itertools.repeat(any(d.id == "VulkanBackend" for d in delegates))
    module = first.module if len(parts) == 1 else Pack(parts)
    inputs = first.upper or tuple(x for part in parts for x in part.runs[0])
    options = {"require_dynamic_shapes": True} if first.shapes else None
    exported = torch.export.export(module, inputs, dynamic_shapes=first.shapes, strict=first.strict)
    with vulkan.accepting_all_types(*WITH_PACKED_WEIGHTS):
        edge = vulkan.to_edge(exported, options)
    outputs = next(iter(edge.exported_program().graph.find_nodes(op="output"))).args[0]
    kinds = [is_delegated(node) for node in outputs]
    # The host has no kernels for some operators.
    return edge.to_executorch() if all(kinds) else None, kinds


class Operator(torch.nn.Module):
    """Calls an operator. Arguments that are functions take constants of the module or the next inputs."""

    def __init__(self, operator, arguments, constants):
        super().__init__()
        self.operator, self.arguments = operator, arguments
        for key, value in constants.items():
            self.register_buffer(f"constant_{key}", value)

    def forward(self, *inputs):
        inputs, positional, named = iter(inputs), [], {}
        for argument in self.operator._schema.arguments:
            if argument.name not in self.arguments:
                continue
            value = self.arguments[argument.name]
            value = value(self, inputs) if callable(value) else value
            if argument.kwarg_only:
                named[argument.name] = value
            else:
                positional.append(value)
        return self.operator(*positional, **named)


@dataclass
class Arguments:
    """Arguments of an operator for one configuration."""

    name: str
    suite: object
    dtype: torch.dtype
    inputs: list = field(default_factory=list)
    constants: dict = field(default_factory=dict)

    def tensor(self, key: str, sizes):
        """Tensor with the sizes and the range of a configuration."""
        suite = self.suite
        kind = DTYPES[suite.arg_dtype[key]] if key in suite.arg_dtype else self.dtype
        low, high = suite.arg_data_range.get(key, suite.data_range)
        sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        if self.name == "aten.convolution.default" and key == "input":
            sizes = sizes[:2] + tuple(x if x <= 64 else x % 32 + 32 for x in sizes[2:])
        if torch.Size(sizes).numel() > MAX_ELEMENTS:
            raise MemoryError("large")
        generator = suite.arg_data_gen_fn.get(key, suite.data_gen)
        if generator == "make_seq_tensor":
            largest = 500 if kind == torch.float16 else 2039
            return torch.arange(1, 1 + torch.Size(sizes).numel()).remainder(largest).reshape(sizes).to(kind)
        if kind == torch.bool:
            return thin(torch.rand(sizes) > 0.5)
        if "randint" in generator or kind == torch.int8:
            return thin(torch.randint(int(low) if kind == torch.int8 else 1, int(high) if kind == torch.int8 else 20, sizes).to(kind))
        if (low, high) == (0, 1) and self.name not in POSITIVE:
            low, high = -3, 3
        x = (torch.rand(sizes) * (high - low) + low).to(kind)
        return x if high - low < 1 else thin(x)

    def argument(self, key: str, kind: str, data):
        """Value or function for the argument `key` of the operator."""
        if data in ("false", "true"):
            return data == "true"
        if "Tensor" not in kind or data is None:
            is_list = kind.startswith("List[int]") and isinstance(data, int)
            return [data] if is_list else list(data) if isinstance(data, tuple) else data
        if kind.startswith("List"):
            self.inputs += [self.tensor(key, sizes) for sizes in data]
            return lambda _, given, n=len(data): list(itertools.islice(given, n))
        is_explicit = self.name in EXPLICIT and key in ("index", "indices")
        x = torch.tensor(data) if is_explicit else self.tensor(key, data)
        if key in self.suite.prepacked_args or key in CONSTANTS:
            self.constants[key] = x
            return lambda module, _: getattr(module, f"constant_{key}")
        self.inputs.append(x)
        return lambda _, given: next(given)


def operator_parts():
    """Configurations of the operator tests for Vulkan, with the names of their operators."""
    from executorch.backends.vulkan.test.op_tests.cases import test_suites

    for name, suites in sorted(test_suites.items()):
        namespace, base, overload = name.split(".")
        operator = getattr(getattr(getattr(torch.ops, namespace), base), overload)
        for suite in suites if isinstance(suites, list) else [suites]:
            for number, configuration in enumerate(suite.input_cases):
                configuration = configuration if isinstance(configuration, tuple) else (configuration,)
                for dtype in suite.dtypes[:1] if suite.dtypes == FLOAT_AND_HALF and number else suite.dtypes:
                    label = f"{name}#" + "_".join(x for x in (suite.test_name_suffix, str(number), dtype[5:].lower()) if x)
                    made = Arguments(name, suite, DTYPES[dtype])
                    torch.manual_seed(zlib.crc32(label.encode()))
                    try:
                        arguments = {a.name: made.argument(a.name, str(a.type), data) for a, data in zip(operator._schema.arguments, configuration)}
                        yield base, Part(label, Operator(operator, arguments, made.constants).eval(), [tuple(made.inputs)])
                    except MemoryError:
                        yield base, Refused(label, "large")


def webgpu_parts():
    """Configurations of the operator tests for WebGPU, with the names of their operators."""
    from executorch.backends.webgpu.test.op_tests import cases  # noqa: F401 (registers the suites)
    from executorch.backends.webgpu.test.op_tests.generate_op_tests import _materialize
    from executorch.backends.webgpu.test.op_tests.test_suite import op_test_registry

    for name, suite in sorted(op_test_registry.items()):
        for number, case in enumerate(suite.cases):
            label = f"{name}#{case.name or number}"
            if case.heavy:
                yield name, Refused(label, "large")
                continue
            torch.manual_seed(zlib.crc32(label.encode()))
            module = evaluating(suite.module_factory(**case.construct))
            inputs = tuple(_materialize(x) for x in case.inputs)
            is_random = all(getattr(x, "gen", "randn") == "randn" for x in case.inputs)
            part = Part(label, module, [tuple(thin(x) for x in inputs) if is_random else inputs], shapes=case.dynamic_shapes)
            if case.export_inputs:
                part.upper = tuple(_materialize(x) for x in case.export_inputs)
            if case.golden_fn:
                with torch.no_grad():
                    part.expected = pytree.tree_leaves(case.golden_fn(module, part.runs[0]))
                    part.expected = [x.float() if x.dtype == torch.float64 else x for x in part.expected]
            yield name, part


def delegate_parts():
    """Networks of the tests of the delegate."""
    from executorch.backends.vulkan.test import test_vulkan_delegate as tests

    found = []

    class Recorder(tests.TestVulkanBackend):
        """Keeps the networks of a test in place of running them."""

        def lower_module_and_test_output(self, model, sample_inputs, *_, dynamic_shapes=None, test_inputs=None, expect_no_delegates=False, **__):
            if not expect_no_delegates:
                upper = sample_inputs if dynamic_shapes else None
                self.keep(evaluating(model), [sample_inputs, *(test_inputs or [])], shapes=dynamic_shapes, upper=upper, strict=dynamic_shapes is not None)

        def run_delegated_model_and_check_output(self, program, model, sample_inputs, *_, test_inputs=None, **__):
            self.keep(evaluating(model), [sample_inputs, *(test_inputs or [])], lowered=program)

        def check_vk_delegation(self, _):
            """The export of the configurations checks it."""

        def lower_unary_module_and_test_output(self, module):
            others = [(torch.randn(3, 2, 7, 9),), (torch.randn(6, 1, 5, 4),)]
            self.lower_module_and_test_output(module, (torch.randn(8, 3, 11, 9),), dynamic_shapes={"x": {0: torch.export.Dim("batch", max=8)}}, test_inputs=others)

        def keep(self, model, runs, **options):
            runs = [tuple(pytree.tree_map(thin, x) for x in run) for run in runs]
            found.append(Part(f"{name}#{len(found)}", copy.deepcopy(model), runs, **options))

    for test in unittest.defaultTestLoader.loadTestsFromTestCase(Recorder):
        name = test._testMethodName
        torch.manual_seed(zlib.crc32(name.encode()))
        # A test makes an instance of its class.
        with contextlib.redirect_stdout(io.StringIO()), unittest.mock.patch.object(tests, "TestVulkanBackend", Recorder):
            try:
                getattr(test, name)()
            except Exception as error:
                found.append(Refused(name, f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"))
    yield from (("tests", part) for part in found)


SOURCES = {"op": operator_parts, "webgpu": webgpu_parts, "delegate": delegate_parts}


def packs(parts: list[Part]):
    """Groups of configurations that share a program."""
    group, size = [], 0
    for part in parts:
        elements = count(part.runs) + count(part.constants())
        if not part.is_static():
            yield [part]
            continue
        if group and size + elements > PACK_ELEMENTS:
            yield group
            group, size = [], 0
        group.append(part)
        size += elements
    if group:
        yield group


def families(source: str, wanted: set[str]):
    """Families of a source: name, JSON of the configurations."""
    for family, parts in groupby(SOURCES[source](), lambda x: x[0]):
        if wanted and family not in wanted:
            continue
        made, fitting = [], []
        for _, part in parts:
            if isinstance(part, Part) and max(count(x) for x in [*part.runs, *part.constants()]) > MAX_ELEMENTS:
                part = Refused(part.name, "large")
            if isinstance(part, Refused):
                made.append({"program": part.name, "refused": part.reason})
            else:
                fitting.append(part)
        for group in packs(fitting):
            made += entries(family, group)
        yield family, made


def write(made: list[dict], path: Path) -> int:
    """Writes an archive and returns its size."""
    lines = ",\n".join(json.dumps(x, separators=(",", ":")) for x in made)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(compressed(f"[\n{lines}\n]\n"))
    return path.stat().st_size
