"""Reads weights from portable programs, to continue a training without its checkpoints."""
import math

import numpy as np
import torch
from executorch.exir._serialize._program import deserialize_pte_binary


def read_constants(path, method="forward"):
    """Yields the f32 constants of a method of a portable program, in order of their first use."""
    if not path.exists():
        raise SystemExit(f"{path} does not exist; the scripts of tools/zoo write it when they export the package")
    program = deserialize_pte_binary(path.read_bytes()).program
    plan = next(plan for plan in program.execution_plan if plan.name == method)
    indices = []
    for instruction in plan.chains[0].instructions:
        for index in getattr(instruction.instr_args, "args", ()):
            tensor = plan.values[index].val
            if getattr(tensor, "data_buffer_idx", 0) and not tensor.allocation_info and index not in indices:
                indices.append(index)
    for index in indices:
        tensor = plan.values[index].val
        count = math.prod(tensor.sizes)
        values = np.frombuffer(program.constant_buffer[tensor.data_buffer_idx].storage, np.float32, count)
        yield torch.from_numpy(values.reshape(tensor.sizes).copy())


def assign_by_shape(names, shapes, values):
    """Assigns each value to the next name in order if its shape matches, and skips it otherwise."""
    names, state = list(names), {}
    for value in values:
        if names and tuple(value.shape) == tuple(shapes[names[0]]):
            state[names.pop(0)] = value
    if names:
        raise SystemExit(f"the program has no constant for {names[0]} of shape {tuple(shapes[names[0]])}")
    return state
