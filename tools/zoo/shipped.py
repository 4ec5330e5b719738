"""Weights out of shipped programs, so that a training can go on from them when its checkpoints are gone."""
import math

import numpy as np
import torch
from executorch.exir._serialize._program import deserialize_pte_binary


def constants(path, method="forward"):
    """The f32 constants of a method of a portable program, in the order in which its instructions use them."""
    program = deserialize_pte_binary(path.read_bytes()).program
    plan = next(plan for plan in program.execution_plan if plan.name == method)
    seen = []
    for instruction in plan.chains[0].instructions:
        for at in getattr(instruction.instr_args, "args", ()):
            tensor = plan.values[at].val
            if getattr(tensor, "data_buffer_idx", 0) and not tensor.allocation_info and at not in seen:
                seen.append(at)
    for at in seen:
        tensor = plan.values[at].val
        count = math.prod(tensor.sizes)
        values = np.frombuffer(program.constant_buffer[tensor.data_buffer_idx].storage, np.float32, count)
        yield torch.from_numpy(values.reshape(tensor.sizes).copy())


def fill(names, shapes, values):
    """`values` by name: each goes to the next name, in order, of which it has the shape; others are passed over."""
    names, state = list(names), {}
    for value in values:
        if names and tuple(value.shape) == tuple(shapes[names[0]]):
            state[names.pop(0)] = value
    if names:
        raise SystemExit(f"the program does not have {names[0]} of {tuple(shapes[names[0]])}")
    return state
