"""Cases of the remaining operators and overloads: embedding bags, shifts, scalars as first operands, device copies."""

import itertools

import torch

from .record import Out, Recorder
from .recorded import ATEN, BF16, C32, C64, C128, F16, F32, F64, I8, I16, I32, I64, SPECIAL, TOLERANCE, U8, random

INTS = (U8, I8, I16, I32, I64)
FLOATS = (F32, F64, F16, BF16)
LEAST = torch.tensor([-(2**31), -128, -1, 0, 1, 127, 2**31 - 1])


def bags(c: Recorder):
    """_embedding_bag: modes, offsets, per-sample weights, the last offset, padding, and edge cases."""
    indices = torch.tensor([1, 2, 4, 5, 4, 0, 3, 3])
    for dtype, mode, last, padding in itertools.product(FLOATS, (0, 1, 2), (False, True), (-1, 4)):
        weight = random(6, 3, dtype=dtype)
        for offsets in ([0, 2, 2, 5], [0, 8], [0, 0, 3, 8, 8]):
            bag(c, weight, indices, torch.tensor(offsets), mode, None, last, padding)
        if mode == 0:
            bag(c, weight, indices, torch.tensor([0, 3, 8]), mode, random(8, dtype=dtype), last, padding)
    for kinds in ((I32, I32), (I32, I64), (I64, I32)):
        bag(c, random(6, 3), indices.to(kinds[0]), torch.tensor([0, 3], dtype=kinds[1]), 1)
    for mode in (0, 1, 2):
        bag(c, random(6, 150), indices, torch.tensor([0, 5]), mode, note="a long row")
        bag(c, random(3, 6).t(), indices, torch.tensor([0, 5]), mode, note="contiguous columns")
        bag(c, random(6, 3), indices[:0], torch.tensor([0, 0]), mode, note="empty bags")
        bag(c, random(6, 0), indices, torch.tensor([0, 5]), mode, note="empty rows")
        bag(c, SPECIAL[:, None].clone(), torch.tensor([0, 1, 1, 0, 2, 5, 1, 2, 8, 8]), torch.tensor([0, 2, 4, 6, 8]), mode, note="special values")


def bag(c: Recorder, weight, indices, offsets, mode, sample_weights=None, last=False, padding=-1, note=""):
    """Case of _embedding_bag with its four results."""
    args = (weight, indices, offsets, False, mode, False, sample_weights, last, padding)
    # With skipped rows, PyTorch accumulates half types sequentially.
    tolerance = TOLERANCE[weight.dtype] | ({"atol": 0.05} if weight.dtype == BF16 else {"atol": 0.01} if weight.dtype == F16 else {})
    c("aten::_embedding_bag.out", *args, *map(Out, ATEN._embedding_bag(*args)), **tolerance, note=note)


def shifts(c: Recorder):
    """Shifts in both directions, by all kinds of amounts."""
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        op = getattr(ATEN, name)
        pairs = [(a, a) for a in INTS] + [(I32, I64), (I64, I8), (U8, I8), (I16, U8)]
        for a, b in pairs:
            x = LEAST.clamp(torch.iinfo(a).min, torch.iinfo(a).max).to(a)
            amounts = torch.tensor([0, 1, 3, 7, 8, 31, 63], dtype=b)
            c(f"aten::{name}.Tensor_out", x, amounts, Out(op(x, amounts)))
            c(f"aten::{name}.Tensor_out", x[:, None], amounts[:4], Out(op(x[:, None], amounts[:4])))
        for dtype in INTS:
            x = LEAST.clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max).to(dtype)
            for amount in (0, 2, 7):
                c(f"aten::{name}.Tensor_Scalar_out", x, amount, Out(op(x, amount)))
            amounts = torch.tensor([0, 1, 3, 6], dtype=dtype)
            for number in (1, 5, 100):
                c(f"aten::{name}.Scalar_Tensor_out", number, amounts, Out(op(number, amounts)))


def numbers(c: Recorder):
    """Overloads with a scalar, or with a tensor where others have a scalar."""
    for dtype in (*INTS, torch.bool):
        x = torch.tensor([0, 1, 2, 63, 85, 127]).to(dtype)
        for name, number in itertools.product(("bitwise_and", "bitwise_or", "bitwise_xor"), (0, 6, True)):
            c(f"aten::{name}.Scalar_Tensor_out", number, x, Out(getattr(ATEN, name).Scalar_Tensor(number, x)))
    for dtype in (*INTS, *FLOATS):
        tolerance = TOLERANCE.get(dtype, {})
        x, y = random(7, dtype=I8).to(dtype), random(7, dtype=I8).to(dtype)
        y = torch.where(y == 0, torch.ones_like(y), y)
        for number in (3, -2, 2.5) if dtype in FLOATS else (3,):
            result = ATEN.floor_divide.Scalar(x, number)
            c("aten::floor_divide.Scalar_out", x, number, Out(result), **TOLERANCE.get(result.dtype, {}))
            result = ATEN.remainder.Scalar_Tensor(number, y)
            c("aten::remainder.Scalar_Tensor_out", number, y, Out(result), **TOLERANCE.get(result.dtype, {}))
        for alpha in (1, 3):
            c("aten::rsub.Tensor_out", x, y, alpha, Out(ATEN.rsub.Tensor(x, y, alpha=alpha)), **tolerance)
        for shape in ((2, 3), (), (3,)):
            mask, value = torch.tensor([True, False, True]).expand(2, 3).clone(), torch.tensor(5, dtype=dtype)
            x = random(*shape, dtype=I8).to(dtype)
            c("aten::masked_fill.Tensor_out", x, mask, value, Out(ATEN.masked_fill.Tensor(x, mask, value)))
        for shape, diagonal in itertools.product(((3, 4), (2, 3, 3), (0, 3)), (0, 1, -2, 9)):
            x = random(*shape, dtype=I8).to(dtype)
            c("aten::triu.out", x, diagonal, Out(ATEN.triu(x, diagonal)))
    for dtype in (F32, F64):
        x = torch.cat([random(20, dtype=dtype, low=-2000, high=2000), SPECIAL.to(dtype)])
        for decimals in (0, 1, 3, -2):
            c("aten::round.decimals_out", x, decimals, Out(ATEN.round.decimals(x, decimals=decimals)), **TOLERANCE[dtype])


def functions(c: Recorder):
    """exp2 and hypot."""
    for dtype in (*FLOATS, *INTS, torch.bool):
        x = torch.cat([random(67), SPECIAL[:-3]]).to(dtype) if dtype in FLOATS else torch.tensor([0, 1, 2, 3, 5]).to(dtype)
        y = ATEN.exp2(x)
        c("aten::exp2.out", x, Out(y), **TOLERANCE[y.dtype])
    for dtype in FLOATS:
        x, y = random(67, dtype=dtype), random(67, dtype=dtype)
        c("aten::hypot.out", x, y, Out(ATEN.hypot(x, y)), **TOLERANCE[dtype])
        x, y = SPECIAL.repeat_interleave(4).to(dtype), torch.tensor([0.0, -1.0, float("nan"), float("inf")]).repeat(len(SPECIAL)).to(dtype)
        c("aten::hypot.out", x, y, Out(ATEN.hypot(x, y)), **TOLERANCE[dtype], note="special values")
        x, y = random(3, 1, dtype=dtype), random(4, dtype=dtype)
        c("aten::hypot.out", x, y, Out(ATEN.hypot(x, y)), **TOLERANCE[dtype])


def medians(c: Recorder):
    """median over all elements and along a dimension. Elements are distinct, because the index of equal ones is unspecified."""
    for dtype in (*INTS, *FLOATS):
        for shape, dim, keep in itertools.product(((7,), (3, 4), (2, 5, 3)), (0, -1), (False, True)):
            x = (torch.randperm(torch.Size(shape).numel()) - 5).to(dtype).reshape(shape)
            c("aten::median.dim_values", x, dim, keep, *map(Out, ATEN.median.dim(x, dim, keep)))
            c("aten::median.out", x, Out(ATEN.median(x)))
    nan = float("nan")
    for x in (torch.tensor([[1.0, nan, 3.0], [4.0, 0.5, -1.0]]), torch.tensor([[float("inf"), -float("inf"), 0.0]]), torch.randn(1, 300)):
        c("aten::median.dim_values", x, 1, False, *map(Out, ATEN.median.dim(x, 1)), note="special values")
        c("aten::median.out", x, Out(ATEN.median(x)), note="special values")
    for x in (torch.tensor(2.5), torch.empty(0), torch.randn(2, 3, 4).permute(2, 0, 1).contiguous()):
        c("aten::median.out", x, Out(ATEN.median(x)))
    c("aten::median.dim_values", torch.tensor(2.5), 0, False, *map(Out, ATEN.median.dim(torch.tensor(2.5), 0)))
    c("aten::median.dim_values", torch.empty(0, 3), 1, False, *map(Out, ATEN.median.dim(torch.empty(0, 3), 1)))


def copies(c: Recorder):
    """Device copies, complex numbers as pairs, and random tensors, whose sizes only are defined."""
    for dtype, shape in itertools.product((*INTS, *FLOATS, torch.bool), ((), (2, 3), (0, 2))):
        x = random(*shape, dtype=I8).to(dtype)
        c("et_copy::_h2d_copy.out", x, Out(x))
        c("et_copy::_d2h_copy.out", x, Out(x))
    for dtype, shape in itertools.product((C32, C64, C128), ((), (3,), (2, 3), (0, 2))):
        x = random(*shape, dtype=dtype)
        c("aten::view_as_real_copy.out", x, Out(torch.view_as_real(x)))
    for dtype, shape in itertools.product(FLOATS, ((0,), (0, 3), (2, 0))):
        for name in ("rand", "randn"):
            c(f"aten::{name}.out", list(shape), Out(torch.empty(shape, dtype=dtype)), note="the sizes are all that is defined")


FAMILIES = [bags, shifts, numbers, functions, copies, medians]
