"""Program of one kernel call from an operator case, for the official runtime."""

import math

import numpy
import torch
from executorch.exir._serialize import _PTEFile, _serialize_pte_binary
from executorch.exir.schema import (
    AllocationDetails, Bool, BoolList, Buffer, Chain, ContainerMetadata, Double, DoubleList, EValue, ExecutionPlan, Instruction, Int, IntList,
    KernelCall, Null, Operator, OptionalTensorList, Program, String, SubsegmentOffsets, Tensor, TensorList, TensorShapeDynamism,
)
from executorch.exir.tensor import scalar_type_enum

from .values import DTYPES

TORCH = {name: dtype for dtype, name in DTYPES.items()}


def tensor_of(described: dict) -> torch.Tensor:
    """Tensor of an operator case."""
    dtype = TORCH[described["dtype"]]
    order = described.get("dim_order", list(range(len(described["sizes"]))))
    data = torch.from_numpy(numpy.frombuffer(bytearray(bytes.fromhex(described["data"])), dtype=numpy.uint8)) if described["data"] else torch.empty(0, dtype=torch.uint8)
    flat = data.view(dtype) if data.numel() else torch.empty(0, dtype=dtype)
    return flat.reshape([described["sizes"][d] for d in order]).permute([order.index(d) for d in range(len(order))])


class OneCall:
    """Program of one instruction. Input tensors become its inputs."""

    def __init__(self, operator: str, args: list[dict]):
        self.values, self.inputs, self.tensors, self.outputs = [], [], [], []
        self.used = 0
        self.optional_lists = operator.startswith("aten::index")
        ids = [self.argument(arg) for arg in args]
        name, _, overload = operator.partition(".")
        ids.append(self.returned(ids))
        call = Instruction(KernelCall(op_index=0, args=ids))
        plan = ExecutionPlan(
            name="forward", container_meta_type=ContainerMetadata("", ""), values=self.values, inputs=self.inputs, outputs=self.outputs,
            chains=[Chain(inputs=[], outputs=[], instructions=[call], stacktrace=None)], operators=[Operator(name=name, overload=overload)],
            delegates=[], non_const_buffer_sizes=[0, self.used + 16],
        )
        program = Program(version=0, execution_plan=[plan], constant_buffer=[Buffer(storage=b"")], backend_delegate_data=[], segments=[],
                          constant_segment=SubsegmentOffsets(segment_index=0, offsets=[]), mutable_data_segments=None)
        self.pte = bytes(_serialize_pte_binary(_PTEFile(program=program, mutable_data=None, named_data=None)))

    def returned(self, ids: list[int]) -> int:
        """Last value of the kernel call, as the exporter writes it: the output, the list of outputs, or the first argument."""
        if not self.outputs:
            self.outputs.append(ids[0])
        if len(self.outputs) == 1:
            return self.outputs[0] if self.outputs[0] in ids else ids[-1]
        return self.add(TensorList(list(self.outputs)))

    def add(self, value) -> int:
        """Appends a value and returns its index."""
        self.values.append(EValue(value))
        return len(self.values) - 1

    def planned(self, described: dict, dynamism) -> int:
        """Appends a tensor with its own planned memory."""
        dtype = TORCH[described["dtype"]]
        order = described.get("dim_order", list(range(len(described["sizes"]))))
        allocation = AllocationDetails(memory_id=1, memory_offset_low=self.used, memory_offset_high=0)
        self.used += math.ceil(max(math.prod(described["sizes"]) * dtype.itemsize, 1) / 16) * 16
        return self.add(Tensor(scalar_type=scalar_type_enum(dtype), storage_offset=0, sizes=described["sizes"], dim_order=order, requires_grad=False,
                               layout=0, data_buffer_idx=0, allocation_info=allocation, shape_dynamism=dynamism))

    def tensor(self, described: dict) -> int:
        """Appends an input tensor."""
        index = self.planned(described, TensorShapeDynamism.STATIC)
        self.inputs.append(index)
        self.tensors.append(tensor_of(described))
        return index

    def argument(self, arg: dict) -> int:
        """Appends an argument of a case."""
        ((kind, value),) = arg.items()
        if kind == "scalar":
            return self.argument(value)
        if kind == "tensor":
            return self.tensor(value)
        if kind == "tensors":
            return self.add((OptionalTensorList if self.optional_lists else TensorList)([-1 if x is None else self.tensor(x) for x in value]))
        if kind == "out":
            self.outputs.append(self.planned(value, TensorShapeDynamism.DYNAMIC_BOUND))
            return self.outputs[-1]
        if kind == "outs":
            self.outputs += [self.planned(x, TensorShapeDynamism.DYNAMIC_BOUND) for x in value]
            return self.add(TensorList(list(self.outputs)))
        plain = {"none": lambda _: Null(), "int": Int, "bool": Bool, "str": String, "bools": BoolList, "double": lambda x: Double(float(x)),
                 "doubles": lambda x: DoubleList([float(y) for y in x]), "dtype": lambda x: Int(scalar_type_enum(TORCH[x]))}
        if kind == "ints":
            return self.add(IntList([self.add(Int(x)) for x in value]))
        return self.add(plain[kind](value))
