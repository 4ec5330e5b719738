"""Programs for the file format: segments, external data, delegates."""

import copy

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir._serialize import _deserialize_pte_binary, _serialize_pte_binary
from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer
from executorch.exir.passes.external_constants_pass import delegate_external_constants_pass_unlifted
from executorch.exir.schema import FreeCall, Instruction, TensorShapeDynamism
from torch import nn
from torch.export import export

from ..program import Case, Program, program, simple


def network():
    """A small network with four constants."""
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


@program
def external_constants():
    """All constants in a PTD file."""
    return simple("external_constants=True: constants by name from model.ptd", network(), (torch.randn(3, 4),), config=ExecutorchBackendConfig(external_constants=True))


@program
def external_partly():
    """Some constants in a PTD file, some in the program."""
    def external_file(node):
        return "model" if "weight" in node.name else None
    return simple("weights in model.ptd, biases in the program", network(), (torch.randn(3, 4),), config=ExecutorchBackendConfig(external_constants=external_file))


@program
def same_constants():
    """Equal constants are stored once. An empty constant has no bytes."""
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.arange(5.0))
            self.register_buffer("b", torch.arange(5.0))
            self.register_buffer("scalar", torch.tensor(3.0))
            self.register_buffer("empty", torch.zeros(0, 5))

        def forward(self, x):
            return x + self.a, x * self.b, x - self.scalar, torch.cat([x.unsqueeze(0), self.empty])
    return simple("equal, scalar and empty constants", Twice(), (torch.randn(5),))


@program
def constant_buffer():
    """The layout of older files: constants within the flatbuffer, no extended header."""
    built = simple("constants inline in Program.constant_buffer, no segments, no extended header", network(), (torch.randn(3, 4),))
    file = _deserialize_pte_binary(bytes(built.lowered.buffer))
    built.pte = bytes(_program_to_flatbuffer(file.program, constant_tensor_alignment=16).data)
    return built


@program
def aligned_segments():
    """Segments with larger alignments."""
    return simple("segment_alignment=4096, constant_tensor_alignment=64", network(), (torch.randn(3, 4),),
                  config=ExecutorchBackendConfig(segment_alignment=4096, constant_tensor_alignment=64))


@program
def stack_traces():
    """Debug information beside the instructions."""
    return simple("emit_stacktrace=True: Chain.stacktrace is filled", network(), (torch.randn(3, 4),), config=ExecutorchBackendConfig(emit_stacktrace=True))


def delegated(note, model=None, **options):
    """The network with one delegate."""
    model = model or network().eval()
    inputs = (torch.randn(3, 4),)
    eager = copy.deepcopy(model)
    exported = export(model, inputs)
    if options.pop("external", False):
        tagged = exported.module()
        delegate_external_constants_pass_unlifted(tagged, lambda node: "model")
        exported = export(tagged, inputs, strict=True)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch(ExecutorchBackendConfig(**options))
    return Program(note, eager, lowered, [Case(inputs)], backend="XnnpackBackend")


@program
def xnnpack():
    """A delegate, with its constants as named data."""
    return delegated("one XnnpackBackend delegate; its constants are named data")


@program
def xnnpack_external():
    """A delegate whose constants are blobs in a PTD file."""
    return delegated("one XnnpackBackend delegate; its constants are in model.ptd", external=True)


@program
def xnnpack_inline():
    """A delegate blob within the flatbuffer."""
    return delegated("one XnnpackBackend delegate, its blob inline in backend_delegate_data", extract_delegate_segments=False)


@program
def unknown_backend():
    """Delegate of an unknown backend."""
    built = delegated("one delegate of the backend NoSuchBackend")
    built.backend, built.load_error = "", "NotFound"
    file = _deserialize_pte_binary(bytes(built.lowered.buffer))
    file.program.execution_plan[0].delegates[0].id = "NoSuchBackend"
    built.pte = bytes(_serialize_pte_binary(file, extract_delegate_segments=True))
    return built


@program
def unknown_operator():
    """Kernel call of an unknown operator."""
    built = simple("one call of aten::no_such_operator.out", network(), (torch.randn(3, 4),))
    built.load_error = "OperatorMissing"
    file = _deserialize_pte_binary(bytes(built.lowered.buffer))
    file.program.execution_plan[0].operators[-1].name = "aten::no_such_operator"
    built.pte = bytes(_serialize_pte_binary(file, extract_delegate_segments=True))
    return built


@program
def dynamic_unbound():
    """Tensor without planned memory, freed after its last use."""
    built = simple("shape_dynamism DYNAMIC_UNBOUND and FreeCall, which today's exporter does not write", network(), (torch.randn(3, 4),))
    file = _deserialize_pte_binary(bytes(built.lowered.buffer))
    plan = file.program.execution_plan[0]
    hidden = plan.chains[0].instructions[-2].instr_args.args[-1]
    plan.values[hidden].val.shape_dynamism = TensorShapeDynamism.DYNAMIC_UNBOUND
    plan.values[hidden].val.allocation_info = None
    plan.chains[0].instructions.append(Instruction(FreeCall(value_index=hidden)))
    built.pte = bytes(_serialize_pte_binary(file))
    return built


@program
def bundled():
    """A program with test inputs and expected outputs in a .bpte file."""
    inputs = (torch.randn(3, 4),)
    built = simple("model.bpte holds the program, one test case and its expected output", network(), inputs)
    test = MethodTestCase(inputs=list(inputs), expected_outputs=[built.eager(*inputs).detach()])
    suite = MethodTestSuite(method_name="forward", test_cases=[test])
    built.bpte = bytes(serialize_from_bundled_program_to_flatbuffer(BundledProgram(built.lowered, [suite])))
    return built
