"""Cases of arithmetic with two tensors, or a tensor and a scalar."""

import torch

from .data import ALL, BF16, BOOL, CHANNELS_LAST, F16, F32, F64, FLOATS, I8, I16, I32, I64, INTS, SPECIAL, U8, channels_last, limits

MIXED = [(I32, F32), (F32, I64), (F16, F32), (BF16, F16), (U8, I8), (I16, I32), (BOOL, I32), (BOOL, BOOL), (F64, F32), (I64, BF16), (BOOL, F32)]
SHAPES = [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (4,)), ((2, 0), (2, 1)), ((1,), (1,)), ((3, 1, 2), (4, 1)), ((37,), (37,))]


def pairs(c, op, options=({},), ints=True, nonzero=False, specials=True):
    """Common pairs: shapes, dtypes, mixed dtypes, special values."""
    def other(shape, dtype):
        value = c.random(shape, dtype)
        return value + (value == 0).to(dtype) if nonzero and dtype != BOOL else value
    for option in options:
        for a, b in SHAPES:
            c(op, c.random(a), other(b, F32), **option, loose=a == (2, 1))
        for dtype in (ALL[1:] if ints else FLOATS[1:]):
            c.attempt(op, c.random((5,), dtype), other((5,), dtype), **option)
        for a, b in MIXED:
            c.attempt(op, c.random((4,), a), other((4,), b), **option)
            c.attempt(op, c.random((4,), b), other((), a), **option, note="a 0-D tensor does not widen its category")
        if specials:
            c(op, SPECIAL.repeat_interleave(4), torch.tensor([0.0, -0.0, float("nan"), 2.0]).repeat(len(SPECIAL)), **option, note="special values")
        c(op, channels_last(c.random((1, 3, 2, 2))), channels_last(other((1, 3, 2, 2), F32)), **option, order=CHANNELS_LAST)


def collect(c):
    """add to atan2."""
    for name in ("add", "sub"):
        pairs(c, name + ".out")
        c(name + ".out", c.random((4,)), c.random((4,)), alpha=2.5)
        c(name + ".out", c.random((4,), I32), c.random((4,), I32), alpha=-3)
        for dtype in (I8, I32, I64):
            c.attempt(name + ".out", limits(dtype), limits(dtype), note="wraps")
        scalars(c, name + ".Scalar_out")
        c(name + ".Scalar_out", c.random((3,)), 2, 3)
    scalars(c, "rsub.Scalar_out")
    c("rsub.Scalar_out", c.random((3,)), 2, 3)
    pairs(c, "mul.out")
    c("mul.out", limits(I32), limits(I32), note="wraps")
    scalars(c, "mul.Scalar_out")
    pairs(c, "div.out")
    scalars(c, "div.Scalar_out")
    for mode in ("floor", "trunc", None):
        if mode:
            pairs(c, "div.out_mode", ({"rounding_mode": mode},), nonzero=True)
        c("div.out_mode", c.random((4,), I32), c.random((4,), low=0.1), rounding_mode=mode)
        for value in (2, -3, 0.7, -2.5):
            c("div.Scalar_mode_out", c.random((6,)), value, rounding_mode=mode)
            c("div.Scalar_mode_out", c.random((6,), I32), value, rounding_mode=mode)
    pairs(c, "floor_divide.out", nonzero=True)
    for name in ("remainder", "fmod"):
        pairs(c, name + ".Tensor_out", nonzero=True)
        scalars(c, name + ".Scalar_out", nonzero=True)
    for name in ("maximum", "minimum"):
        pairs(c, name + ".out")
    for name in ("atan2", "hypot"):
        pairs(c, name + ".out")
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        integers(c, name)
    powers(c)
    where(c)


def scalars(c, op, nonzero=False):
    """A tensor and a scalar."""
    for value in (2, -3, 0.5, -1.5, True, 1e10) + (() if nonzero else (0, float("nan"), float("inf"))):
        c.attempt(op, c.random((2, 3)), value)
        c.attempt(op, c.random((4,), I32), value)
    for dtype in (F64, F16, BF16, I64, I16, I8, U8, BOOL):
        for value in (3, 0.25):
            c.attempt(op, c.random((4,), dtype), value)
    c(op, c.random((0,)), 2)
    c(op, SPECIAL, 2, note="special values")


def integers(c, name):
    """Bitwise operators."""
    for dtype in [*INTS, BOOL]:
        c(name + ".Tensor_out", c.random((2, 3), dtype), c.random((3,), dtype))
        c(name + ".Scalar_out", c.random((5,), dtype), True if dtype == BOOL else 13)
    c(name + ".Tensor_out", c.random((4,), U8), c.random((4,), I8), note="promotes to i16")
    c(name + ".Tensor_out", c.random((4,), BOOL), c.random((4,), I32))
    c(name + ".Scalar_out", c.random((4,), BOOL), 6, note="promotes to i64")
    c(name + ".Tensor_out", c.random((0, 2), I32), c.random((2,), I32))


def powers(c):
    """pow with a tensor or a scalar as base and exponent."""
    for dtype in FLOATS:
        c("pow.Tensor_Tensor_out", c.random((2, 3), dtype, low=0.1), c.random((3,), dtype))
        for exponent in (2, 3, 0.5, -1, 0, -2.0, 1.7):
            c("pow.Tensor_Scalar_out", c.random((4,), dtype, low=0.1), exponent)
        c("pow.Scalar_out", 2, c.random((4,), dtype))
    c("pow.Tensor_Tensor_out", SPECIAL.repeat_interleave(5), torch.tensor([0.0, -1.0, float("nan"), 2.0, 0.5]).repeat(len(SPECIAL)), note="special values")
    for exponent in (2, 3, -1, 0.5):
        values = SPECIAL if exponent != 0.5 else SPECIAL[(SPECIAL > -1e30) & (SPECIAL != 0)]  # pow and sqrt differ for the others
        c("pow.Tensor_Scalar_out", values, exponent, note="special values")
    for dtype in INTS:
        c("pow.Tensor_Tensor_out", c.random((4,), dtype), torch.tensor([0, 1, 2, 3], dtype=dtype))
        c("pow.Tensor_Scalar_out", c.random((4,), dtype), 3)
        c("pow.Tensor_Scalar_out", c.random((4,), dtype), 2.5, note="promotes to f32")
        c("pow.Scalar_out", 3, torch.tensor([0, 1, 2, 3], dtype=dtype))
        c("pow.Scalar_out", 1.5, torch.tensor([0, 1, 2, 3], dtype=dtype))
    c("pow.Tensor_Tensor_out", c.random((4,), I32), c.random((4,), F32, low=0.0))
    c("pow.Scalar_out", 1, SPECIAL, note="special values")


def where(c):
    """where."""
    for a, b in [(F32, F32), (F64, F64), (F16, F16), (BF16, BF16), (I64, I64), (I8, I8), (U8, U8), (BOOL, BOOL), (I32, F32), (F16, F32), (BOOL, I16)]:
        c("where.self_out", c.random((2, 3), BOOL), c.random((2, 3), a), c.random((2, 3), b))
        c("where.self_out", c.random((2, 1), BOOL), c.random((3,), a), c.random((), b))
    c("where.self_out", c.random((0, 3), BOOL), c.random((3,)), c.random((1,)))
    c("where.self_out", c.random((4,), U8) > 5, SPECIAL[:4], SPECIAL[4:8])
