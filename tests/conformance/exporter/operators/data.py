"""Dtypes and special values of the operator cases."""

import torch

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, I16, I32, I64, U8, BOOL = torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool

FLOATS = [F32, F64, F16, BF16]
INTS = [I32, I64, I16, I8, U8]
ALL = FLOATS + INTS + [BOOL]

INF, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor([NAN, INF, -INF, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-40, 3e38, -3e38, 100.0, -100.0, 88.8])
CHANNELS_LAST = [0, 2, 3, 1]


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor in channels_last format."""
    return tensor.contiguous(memory_format=torch.channels_last)


def limits(dtype: torch.dtype) -> torch.Tensor:
    """Smallest and largest integers of a dtype, 0 and 1."""
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.min + 1, 0, 1, info.max - 1, info.max], dtype=dtype)
