"""Writes every_field.pte with the ExecuTorch serializer. The program contains every field that the crate reads.

FlatBuffers omit fields with default values, and tests cannot overwrite an absent field. This script therefore
writes default values, too. The program is valid but not meaningful. Needs the PyPI package executorch 1.5.1.
"""

from pathlib import Path

import flatbuffers
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
from executorch.exir._serialize.data_serializer import DataEntry
from executorch.exir.scalar_type import ScalarType
from executorch.exir.schema import *
from executorch.exir.tensor_layout import TensorLayout

init = flatbuffers.Builder.__init__


def with_defaults(self, *args):
    init(self, *args)
    self.forceDefaults = True


flatbuffers.Builder.__init__ = with_defaults


def tensor(dtype, sizes, index=0, allocation=None, name=None, location=0, dynamism=0):
    extra = ExtraTensorInfo(0, name, TensorDataLocation(location)) if name else None
    if allocation is not None:
        allocation = AllocationDetails(allocation[0], allocation[1], 0)
    return Tensor(dtype, 0, sizes, list(range(len(sizes))), False, 0, index, allocation, TensorShapeDynamism(dynamism), extra)


F, B = ScalarType.FLOAT, ScalarType.BOOL
values = [
    tensor(F, [2, 3], allocation=(1, 8)),  # 0, an input
    tensor(F, [2, 3], 1),  # 1, a constant
    tensor(F, [2], 1, allocation=(2, 0), name="state"),  # 2, with an initial value
    tensor(F, [2, 3], allocation=(1, 8), dynamism=1),  # 3
    tensor(B, [], allocation=(1, 0)),  # 4
    tensor(F, [4], name="weight", location=1),  # 5
    tensor(F, [4], allocation=(1, 0), name="bias", location=1),  # 6
    tensor(F, [2, 3], dynamism=2),  # 7
    Null(), Int(7), Bool(True), Double(0.5), String("tanh"),  # 8..12
    IntList([9, 10, 8]), DoubleList([0.25, -1.0]), BoolList([True, False]),  # 13..15
    TensorList([0, 3]), OptionalTensorList([-1, 0, 8]),  # 16, 17
]
instructions = [
    KernelCall(0, [0, 1, 3, 3]), JumpFalseCall(4, 3), JumpFalseCall(10, 6), DelegateCall(0, [0, 3]),
    MoveCall(3, 0), FreeCall(7),
]
def plan(name):
    delegates = [
        BackendDelegate("First", BackendDelegateDataReference(DataLocation.INLINE, 0), [CompileSpec("level", b"\x02")]),
        BackendDelegate("Second", BackendDelegateDataReference(DataLocation.INLINE, 1), []),
    ]
    chain = Chain([], [], [Instruction(i) for i in instructions], None)
    return ExecutionPlan(
        name, ContainerMetadata("in", "out"), [EValue(v) for v in values], [0, 9], [3, 9], [chain],
        [Operator("aten::add", "out")], delegates, [0, 32, 8], [NonConstBufferDevice(1), NonConstBufferDevice(2)],
    )


program = Program(
    0, [plan("forward"), plan("encode")], [Buffer(b""), Buffer(bytes(range(24)))],
    [BackendDelegateInlineData(b"blob 0"), BackendDelegateInlineData(b"blob 1, longer")], [], SubsegmentOffsets(0, []), [],
)
named = NamedDataStoreOutput([b"first", b"second"], {"a": DataEntry(0, 1, None), "b": DataEntry(1, 1, None)}, {})
file = PTEFile(program, [Buffer(b""), Buffer(bytes(8))], named)
data = bytes(serialize_pte_binary(file, extract_delegate_segments=True, segment_alignment=16))
Path(__file__).with_name("every_field.pte").write_bytes(data)
