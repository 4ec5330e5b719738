"""Cases of comparisons and logic."""

import torch

from .data import ALL, BOOL, CHANNELS_LAST, F32, I32, I64, SPECIAL, U8, channels_last
from .binary import MIXED, SHAPES


def collect(c):
    """eq to logical_xor."""
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        for a, b in SHAPES:
            c(name + ".Tensor_out", c.random(a), c.random(b), loose=a == (2, 1))
        for dtype in ALL:
            value = c.random((6,), dtype)
            c(name + ".Tensor_out", value, torch.cat([value[:3], c.random((3,), dtype)]))
            for number in (1, 0.5):
                c(name + ".Scalar_out", torch.cat([value, torch.ones(1, dtype=dtype)]), number)
        for a, b in MIXED:
            c(name + ".Tensor_out", c.random((4,), a), c.random((4,), b))
        c(name + ".Tensor_out", SPECIAL.repeat_interleave(3), torch.tensor([0.0, float("nan"), float("inf")]).repeat(len(SPECIAL)), note="special values")
        c(name + ".Tensor_out", channels_last(c.random((1, 3, 2, 2))), channels_last(c.random((1, 3, 2, 2))), order=CHANNELS_LAST)
        for number in (0, float("nan"), float("inf"), True, -1):
            c(name + ".Scalar_out", SPECIAL, number, note="special values")
        c(name + ".Scalar_out", c.random((0, 2)), 1)
        c(name + ".Scalar_out", c.random(()), 0)
        c(name + ".Scalar_out", torch.tensor([2**53 + 1, 2**53], dtype=I64), 2**53, note="integers compare exactly")
    for name in ("logical_and", "logical_or", "logical_xor"):
        for a, b in SHAPES:
            c(name + ".out", c.random(a, BOOL), c.random(b, BOOL))
        for dtype in ALL:
            c(name + ".out", c.random((5,), dtype), torch.tensor([0, 1, 2, 0, 1]).to(dtype))
        c(name + ".out", c.random((4,), I32), c.random((4,), F32), note="mixed dtypes")
        c(name + ".out", c.random((4,), U8), c.random((4,), BOOL), note="mixed dtypes")
        c(name + ".out", SPECIAL, SPECIAL.flip(0), note="special values")
