"""Cases of reductions and cumulative sums."""

import torch

from .data import ALL, BF16, BOOL, F16, F32, F64, FLOATS, I32, I64, INF, INTS, NAN, SPECIAL, U8

DIMS = [[0], [1], [-1], [0, 2], [], None, [0, 1, 2]]
HALF = {"atol": 2e-2, "rtol": 2e-2}


def collect(c):
    """sum to cumsum."""
    sums(c)
    extremes(c)
    logic(c)
    for name in ("var.correction_out", "var.out"):
        variances(c, name)
    mean_variances(c)
    for name in ("prod.out", "prod.int_out"):
        products(c, name)
    for dim in (0, 1, -1):
        c("cumsum.out", c.random((3, 4)), dim)
        c("cumsum.out", c.random((2, 3, 2), I32), dim, note="i64 result")
    for dtype in (F64, F16, BF16, U8, BOOL, I64):
        c("cumsum.out", c.random((6,), dtype), 0, **(HALF if dtype in (F16, BF16) else {}))
    c("cumsum.out", c.random((4,), I32), 0, dtype=F32)
    c("cumsum.out", c.random(()), 0)
    c("cumsum.out", c.random((2, 0)), 1)
    c("cumsum.out", torch.tensor([1.0, INF, -INF, 2.0, NAN]), 0, note="special values")


def sums(c):
    """sum and mean over lists of dimensions."""
    for dim in DIMS:
        for keepdim in (False, True):
            c("sum.IntList_out", c.random((2, 3, 4)), dim, keepdim)
            c("mean.out", c.random((2, 3, 4)), dim, keepdim)
    for dtype in ALL:
        wide = HALF if dtype in (F16, BF16) else {}
        c("sum.IntList_out", c.random((3, 5), dtype), [1], **wide)
        c("sum.IntList_out", c.random((3, 5), dtype), [0], dtype=F32, **wide)
        c.attempt("mean.out", c.random((3, 5), dtype), [1], **wide)
        c("mean.out", c.random((3, 5), dtype), [0], dtype=F32)
        c.attempt("mean.dtype_out", c.random((3, 5), dtype), **wide)
        c("mean.dtype_out", c.random((3, 5), dtype), dtype=F64)
    for op in ("sum.IntList_out", "mean.out"):
        c(op, c.random(()), [0])
        c(op, c.random(()), None)
        c(op, c.random((2, 0, 3)), [1], note="over nothing")
        c(op, c.random((0, 3)), [1], note="empty result")
        c(op, torch.tensor([[1.0, INF], [INF, -INF], [NAN, 1.0]]), [1], note="special values")
        c(op, c.random((3, 300)), [1], atol=1e-4)


def extremes(c):
    """amax, amin, max, min, argmax, argmin."""
    special = torch.tensor([[1.0, NAN, 2.0], [INF, -INF, 0.0], [-0.0, 0.0, -0.0], [5.0, 5.0, 5.0]])
    for name in ("amax", "amin"):
        for dim in ([0], [1], [-1], [0, 2], []):
            for keepdim in (False, True):
                c(name + ".out", c.random((2, 3, 4)), dim, keepdim)
        for dtype in ALL[1:]:
            c(name + ".out", c.random((3, 4), dtype), [1])
        c(name + ".out", special, [1], note="special values")
        c(name + ".out", c.random(()), [])
        c(name + ".out", c.random((0, 3)), [1])
    for name in ("max", "min"):
        op = f"{name}.dim_{name}"
        for dim in (0, 1, -1):
            for keepdim in (False, True):
                c(op, c.random((3, 4)), dim, keepdim)
        for dtype in ALL[1:]:
            c(op, c.random((2, 4), dtype), 1)
            c(f"{name}.unary_out", c.random((2, 4), dtype))
        c(op, special, 1, note="NaN wins; the first of equals is found")
        c(op, c.random(()), 0)
        c(op, c.random((0, 3)), 1)
        c(f"{name}.unary_out", special)
        c(f"{name}.unary_out", c.random(()))
        c(f"{name}.unary_out", special[1:])
        c(f"arg{name}.out", special, 1, note="NaN wins; the first of equals is found")
        for dim in (None, 0, 1, -1):
            for keepdim in (False, True):
                c(f"arg{name}.out", c.random((3, 4)), dim, keepdim)
        for dtype in FLOATS[1:] + INTS:
            c(f"arg{name}.out", c.random((7,), dtype), 0)
        c(f"arg{name}.out", c.random(()), None)
        c(f"arg{name}.out", c.random((2, 3, 4)), 1)


def logic(c):
    """any and all."""
    for name in ("any", "all"):
        for dtype in ALL:
            value = torch.tensor([[0, 1, 2], [0, 0, 0], [1, 1, 1]]).to(dtype)
            c(name + ".all_out", value)
            for dim in (0, -1):
                c(name + ".out", value, dim, dim == 0)
            c(name + ".dims_out", value, [1])
        for value in (torch.zeros(0), torch.zeros(2, 0), torch.tensor(NAN), torch.zeros(())):
            c(name + ".all_out", value)
        c(name + ".out", torch.zeros(2, 0), 1)
        for dim in (None, [0, 1], [0, 2], [-1]):
            for keepdim in (False, True):
                c(name + ".dims_out", c.random((2, 2, 3), BOOL), dim, keepdim)


def variances(c, name):
    """var with the divisor given by correction, or by unbiased."""
    def options(correct):
        return {"correction": correct} if "correction" in name else {"unbiased": bool(correct)}
    for dim in ([0], [1, 2], [-1]) + (() if "correction" not in name else (None,)):
        for correct in (0, 1):
            for keepdim in (False, True):
                c(name, c.random((2, 3, 4)), dim, keepdim=keepdim, **options(correct))
    for dtype in (F64, F16, BF16):
        c(name, c.random((4, 5), dtype), [1], **options(1), **(HALF if dtype in (F16, BF16) else {}))
    c(name, c.random((3, 1)), [1], **options(1), note="one element less one: NaN")
    c(name, c.random((3, 1)), [1], **options(0))
    c(name, c.random((3, 0)), [1], **options(0))
    c(name, torch.tensor([[1e4 + 1, 1e4 + 2, 1e4 + 3]]), [1], **options(1), note="needs two passes, or Welford")
    if "correction" in name:
        c(name, c.random((2, 5)), [1], correction=None)
        c(name, c.random((2, 5)), [1], correction=2)
        c(name, c.random((2, 5)), [1], correction=0.5)


def mean_variances(c):
    """var_mean over dimensions."""
    for dim in ([0], [1, 2], [-1], None):
        for correction in (0, 1, None, 2):
            for keepdim in (False, True):
                c("var_mean.correction_out", c.random((2, 3, 4)), dim, correction=correction, keepdim=keepdim)
    for dtype in (F64, F16, BF16):
        c("var_mean.correction_out", c.random((4, 5), dtype), [1], **(HALF if dtype in (F16, BF16) else {}))
    c("var_mean.correction_out", c.random((3, 1)), [1], note="one element less one: NaN")


def products(c, name):
    """prod over all, or over one dimension."""
    for dtype in ALL:
        args = (c.random((2, 4), dtype),) + ((1,) if "int" in name else ())
        c(name, *args, **(HALF if dtype in (F16, BF16) else {}))
        c(name, *args, dtype=F64)
    args = (0,) if "int" in name else ()
    c(name, torch.zeros(0, 3), *args)
    c(name, torch.tensor([INF, 0.0]), *args)
    c(name, torch.tensor([NAN, 0.0]), *args)
    c(name, c.random(()), *args)
    if args:
        for keepdim in (False, True):
            c(name, c.random((2, 3, 2)), -1, keepdim)
