"""Cases of all elementwise operators: dtypes, pairs of dtypes, dim orders, lengths with a vector tail, special values."""

import torch

from .data import ALL, BOOL, CHANNELS_LAST, F16, F32, F64, I32, I64, SPECIAL, U8, channels_last, limits
from .unary import BOOL_RESULT, FLOAT_RESULT, LIMITED, SAME_RESULT

TAIL = 67  # four vectors of 16 elements, and 3 elements
LONG = 1031
INNER_FIRST = [2, 0, 1]

PLAIN = ["add.out", "sub.out", "mul.out", "maximum.out", "minimum.out", "atan2.out", "bitwise_and.Tensor_out", "bitwise_or.Tensor_out", "bitwise_xor.Tensor_out",
         "logical_and.out", "logical_or.out", "logical_xor.out"] + [f"{name}.Tensor_out" for name in ("eq", "ne", "lt", "le", "gt", "ge")]
DIVISIONS = [("div.out", {}), ("div.out_mode", {"rounding_mode": "floor"}), ("div.out_mode", {"rounding_mode": "trunc"}), ("div.out_mode", {"rounding_mode": None}),
             ("floor_divide.out", {}), ("remainder.Tensor_out", {}), ("fmod.Tensor_out", {})]


def grid(c, shape, dtype=F32):
    """Random tensor. Floating-point elements are multiples of 1/16, which makes long cases compressible."""
    value = c.random(shape, dtype)
    return ((value * 16).round() / 16).to(dtype) if dtype.is_floating_point else value


def inner_first(tensor: torch.Tensor) -> torch.Tensor:
    """The same 3-D tensor with the last dimension outermost in memory."""
    return tensor.permute(2, 0, 1).contiguous().permute(1, 2, 0)


def collect(c):
    """Unary operators, binary operators, outputs of other dtypes, where and clamp."""
    for name in FLOAT_RESULT + SAME_RESULT + BOOL_RESULT:
        unary(c, name)
    for name in PLAIN:
        binary(c, name, {}, False)
    for name, options in DIVISIONS:
        binary(c, name, options, True)
    binary(c, "pow.Tensor_Tensor_out", {}, True)
    outputs(c)
    choices(c)


def unary(c, name):
    """Unary operator: all dtypes with a vector tail, extremes, three dim orders, a long case."""
    op = name + ".out"
    for dtype in ALL:
        c.attempt(op, grid(c, (TAIL,), dtype))
        c.attempt(op, c.random((), dtype))
        c.attempt(op, c.random((0,), dtype))
        if dtype.is_floating_point:
            extremes = torch.tensor([torch.finfo(dtype).max, -torch.finfo(dtype).max, torch.finfo(dtype).tiny, torch.finfo(dtype).eps, 0.0, -0.0, float("nan"), float("inf"), -float("inf")], dtype=dtype)
            c.attempt(op, extremes[2:] if name in LIMITED else extremes, note="extremes")
        elif dtype != BOOL:
            c.attempt(op, limits(dtype) if name not in LIMITED else limits(dtype)[2:4], note="extremes")
    c(op, grid(c, (LONG,)))
    c(op, inner_first(grid(c, (2, 3, 5))), order=INNER_FIRST, note="permuted")
    c(op, channels_last(grid(c, (2, 3, 4, 5))), order=CHANNELS_LAST, note="channels_last")


def operand(c, shape, dtype, nonzero):
    """Second operand. With `nonzero`, integers are positive: no division by zero, no overflow by -1."""
    value = grid(c, shape, dtype)
    if not nonzero:
        return value
    if dtype == BOOL:
        return torch.ones(shape, dtype=BOOL)
    if not dtype.is_floating_point:
        value = value.abs() % 5
    return value + (value == 0).to(dtype)


def binary(c, op, options, nonzero):
    """Binary operator: all pairs of dtypes, also with a 0-D first operand, dim orders, a long case."""
    power = op.startswith("pow")
    for a in ALL:
        for b in ALL:
            c.attempt(op, c.random((3,), a), operand(c, (3,), b, nonzero), **options)
            c.attempt(op, c.random((), a), operand(c, (3,), b, nonzero), **options)
        c.attempt(op, grid(c, (TAIL,), a), operand(c, (TAIL,), a, nonzero), **options)
        c.attempt(op, grid(c, (5, TAIL // 3), a), operand(c, (TAIL // 3,), a, nonzero), **options)
        c.attempt(op, grid(c, (5, TAIL // 3), a), operand(c, (5, 1), a, nonzero), **options)
        c.attempt(op, c.random((0,), a), operand(c, (1,), a, nonzero), **options)
        if not a.is_floating_point and a != BOOL and not power:
            pairs = limits(a), torch.tensor([1, 2, 1, 3, 2, 1], dtype=a)
            c.attempt(op, *pairs, **options, note="extremes")
    if c.accepts(op, F32):
        c(op, grid(c, (LONG,)), operand(c, (LONG,), F32, nonzero), **options)
        c(op, inner_first(grid(c, (2, 3, 5))), inner_first(operand(c, (2, 3, 5), F32, nonzero)), **options, order=INNER_FIRST, note="permuted")
        c(op, channels_last(grid(c, (2, 3, 4, 5))), channels_last(operand(c, (2, 3, 4, 5), F32, nonzero)), **options, order=CHANNELS_LAST, note="channels_last")
        c(op, channels_last(grid(c, (2, 3, 2, 5))), operand(c, (), F32, nonzero), **options, order=CHANNELS_LAST, note="channels_last and a number")
        c(op, channels_last(grid(c, (2, 3, 2, 5))), channels_last(operand(c, (1, 3, 1, 1), F32, nonzero)), **options, order=CHANNELS_LAST, note="channels_last, one number a channel")


def outputs(c):
    """Outputs with another dtype than the result."""
    for op in ("add.out", "mul.out", "sub.out", "maximum.out", "minimum.out"):
        for a in (F32, I32, U8, BOOL):
            for out in (F64, F32, F16, torch.bfloat16, I64, I32, torch.int16):
                c.into(out, op, c.random((3,), a), c.random((3,), a))
    for op in ("div.out", "atan2.out"):
        for out in (F64, F16, torch.bfloat16):
            c.into(out, op, c.random((3,)), operand(c, (3,), I32, True))
    for op in ("eq.Tensor_out", "lt.Tensor_out", "logical_and.out", "logical_or.out"):
        for out in (F32, U8, I64, F16):
            c.into(out, op, c.random((5,)), c.random((5,)))
    for name in ("exp", "sqrt", "sigmoid", "tanh", "cos", "reciprocal"):
        for a in (F32, I32, BOOL):
            for out in (F64, F16, torch.bfloat16):
                c.into(out, name + ".out", c.random((3,), a))
    for name in ("isnan", "isinf", "logical_not"):
        for out in (F32, U8, I32):
            c.into(out, name + ".out", SPECIAL)


def choices(c):
    """where with all pairs of dtypes, clamp with tensors of all dtypes and some pairs."""
    condition = torch.tensor([True, False, True])
    for a in ALL:
        for b in ALL:
            c.attempt("where.self_out", condition, c.random((3,), a), c.random((3,), b))
            c.attempt("where.self_out", condition, c.random((), a), c.random((3,), b))
            c.attempt("clamp.Tensor_out", c.random((3,), a), c.random((3,), b), None)
        c("where.self_out", c.random((TAIL,), BOOL), grid(c, (TAIL,), a), grid(c, (TAIL,), a))
        c.attempt("clamp.out", grid(c, (TAIL,), a), 1, 2)
        c.attempt("clamp.out", c.random((5,), a), 0.5, None)
        c.attempt("clamp.Tensor_out", grid(c, (TAIL,), a), c.random((TAIL,), a), c.random((), a))
    c("where.self_out", c.random((LONG,), BOOL), grid(c, (LONG,)), grid(c, (LONG,)))
    c("where.self_out", channels_last(c.random((1, 3, 2, 4), BOOL)), channels_last(grid(c, (1, 3, 2, 4))), channels_last(grid(c, (1, 3, 2, 4))), order=CHANNELS_LAST)
    c("where.self_out", c.random((4,), BOOL), torch.tensor(2.5, dtype=F64), c.random((4,)), note="a 0-D tensor does not widen its category")
    c("where.self_out", c.random((4,), BOOL), torch.tensor(2, dtype=I64), c.random((4,), I32), note="a 0-D tensor does not widen its category")
