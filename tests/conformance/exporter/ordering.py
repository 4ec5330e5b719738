"""Cases of operators that the official runtime lacks: sorting, searching, scans, sets, complex numbers, determinants."""

import itertools

import torch

from .record import Out, Recorder
from .recorded import ATEN, BF16, C64, C128, F16, F32, F64, I8, I16, I32, I64, SPECIAL, TOLERANCE, U8, random

INTS = (U8, I8, I16, I32, I64)
FLOATS = (F32, F64, F16, BF16)
NAN, INF = float("nan"), float("inf")
SHAPES = [((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 4), -2), ((), 0), ((0, 3), 0), ((3, 0), 1), ((4, 1), 1)]


def some(shape, dtype):
    """Tensor with equal elements, and NaN and infinities if the dtype has them."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape).bool()
    x = torch.randint(0, 5, shape).to(dtype)
    if dtype.is_floating_point and x.numel() > 4:
        flat = x.flatten()
        flat[torch.randperm(x.numel())[:3]] = torch.tensor([NAN, INF, -INF]).to(dtype)
        x = flat.view(shape)
    return x


def distinct(shape, dtype):
    """Tensor of different elements, so that indices are specified."""
    return torch.randperm(torch.Size(shape).numel()).view(shape).to(dtype)


def sorting(c: Recorder):
    """sort, kthvalue and mode."""
    for dtype in (*FLOATS, *INTS, torch.bool):
        for (shape, dim), descending in itertools.product(SHAPES, (False, True)):
            x = some(shape, dtype)
            values, indices = torch.sort(x, dim=dim, descending=descending, stable=True)
            c("aten::sort.values_stable", x, True, dim, descending, Out(values), Out(indices))
        x = some((3, 6), dtype)
        values, indices = torch.sort(x, dim=1, stable=True)
        c("aten::sort.values", x, 1, False, Out(values), Out(indices))
        c("aten::sort.values_stable", x, None, 1, False, Out(values), Out(indices))
    x = random(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    for dim in (0, 1, 3):
        values, indices = torch.sort(x, dim=dim)
        c("aten::sort.values", x, dim, False, Out(values, [0, 2, 3, 1]), Out(indices, [0, 2, 3, 1]), note="channels_last")
    for dtype in (F32, F64, F16, I8, I32, I64):
        for shape, dim in [((7,), 0), ((3, 5), 1), ((2, 3, 4), -2), ((), 0), ((0, 3), 1)]:
            x = distinct(shape, dtype)
            size = x.shape[dim] if x.dim() else 1
            for k, keep in itertools.product({1, size}, (False, True)):
                values, indices = torch.kthvalue(x, k, dim, keep)
                c("aten::kthvalue.values", x, k, dim, keep, Out(values), Out(indices))
            if x.numel():
                x = some(shape, dtype).nan_to_num(0) if dtype in FLOATS else some(shape, dtype)
                values, _ = torch.mode(x, dim, True)
                last = (x == values).to(I64) * (torch.arange(size).view([-1 if d == dim % x.dim() else 1 for d in range(x.dim())]) if x.dim() else 0)
                c("aten::mode.values", x, dim, True, Out(values), Out(last.amax(dim, keepdim=True)))
    x = torch.tensor([[NAN, 1.0, INF, 0.0], [2.0, NAN, NAN, -INF]])
    for k in (1, 2):
        values, indices = torch.kthvalue(x, k, 1)
        c("aten::kthvalue.values", x, k, 1, False, Out(values), Out(indices), note="NaN is greatest")


def searching(c: Recorder):
    """searchsorted and bucketize."""
    for dtype, (right, short) in itertools.product((F32, F64, F16, I32, I64, U8), itertools.product((False, True), repeat=2)):
        bounds = torch.tensor([0, 1, 1, 3, 4]).to(dtype)
        x = torch.tensor([[0, 1, 2], [3, 4, 7]]).to(dtype)
        kinds = {"out_int32": short, "right": right}
        c("aten::bucketize.Tensor_out", x, bounds, short, right, Out(torch.bucketize(x, bounds, **kinds)))
        c("aten::searchsorted.Tensor_out", bounds, x, short, right, None, None, Out(torch.searchsorted(bounds, x, **kinds)))
        rows = torch.stack([bounds, bounds * 2])
        c("aten::searchsorted.Tensor_out", rows, x, short, right, None, None, Out(torch.searchsorted(rows, x, **kinds)))
        for number in (1, 2, 0.5) if dtype in FLOATS else (1, 2):
            c("aten::bucketize.Scalar_out", number, bounds, short, right, Out(torch.bucketize(number, bounds, **kinds)))
            c("aten::searchsorted.Scalar_out", bounds, number, short, right, None, None, Out(torch.searchsorted(bounds, number, **kinds)))
    bounds, x = random(2, 3, 6), random(2, 3, 4)
    sorter = bounds.argsort(-1)
    for side in ("left", "right"):
        y = torch.searchsorted(bounds, x, side=side, sorter=sorter)
        c("aten::searchsorted.Tensor_out", bounds, x, False, side == "right", side, sorter, Out(y))
    x = torch.tensor([NAN, INF, -INF, 0.0])
    for bounds in (torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.0, INF, NAN]), torch.zeros(0)):
        for right in (False, True):
            c("aten::bucketize.Tensor_out", x, bounds, False, right, Out(torch.bucketize(x, bounds, right=right)), note="special values")
    c("aten::bucketize.Tensor_out", torch.tensor(1.5), torch.tensor([1.0, 2.0]), False, False, Out(torch.bucketize(torch.tensor(1.5), torch.tensor([1.0, 2.0]))), note="0-d")
    c("aten::bucketize.Tensor_out", torch.zeros(2, 0), torch.tensor([1.0]), False, False, Out(torch.zeros(2, 0, dtype=I64)), note="empty")


def scans(c: Recorder):
    """cumprod, cummax and cummin."""
    for dtype in (*FLOATS, *INTS, torch.bool):
        for shape, dim in SHAPES:
            x = some(shape, dtype)
            for name in ("cummax", "cummin"):
                values, indices = getattr(torch, name)(x, dim)
                c(f"aten::{name}.out", x, dim, Out(values), Out(indices))
            y = random(*shape, low=-2, high=2).to(dtype) if dtype in FLOATS else x
            result = torch.cumprod(y, dim)
            c("aten::cumprod.out", y, dim, None, Out(result), **TOLERANCE.get(result.dtype, {}))
        x = some((2, 6), dtype)
        c("aten::cumprod.out", x, 1, F64, Out(torch.cumprod(x, 1, dtype=F64)), **TOLERANCE[F64])


def scatters(c: Recorder):
    """scatter_reduce."""
    for dtype, reduce, include in itertools.product((F32, F64, F16, I8, I32, I64), ("sum", "prod", "mean", "amax", "amin"), (True, False)):
        for shape, index, dim in [((4, 5), torch.tensor([[0, 1], [2, 3], [1, 1], [3, 0]]), 1), ((4, 5), torch.tensor([[0, 1, 1], [0, 3, 1]]), 0), ((5,), torch.tensor([4, 4, 4, 0]), -1), ((), torch.tensor(0), 0), ((3,), torch.zeros(0, dtype=I64), 0)]:
            x, source = some(shape, dtype), some(index.shape, dtype) - 1
            result = torch.scatter_reduce(x, dim, index, source, reduce, include_self=include)
            c("aten::scatter_reduce.two_out", x, dim, index, source, reduce, include, Out(result), **TOLERANCE.get(dtype, {}))


def sets(c: Recorder):
    """_unique2, histc, tril_indices, triu_indices and views of another dtype."""
    for dtype, (inverse, counts) in itertools.product((F32, F64, F16, U8, I32, I64, torch.bool), itertools.product((False, True), repeat=2)):
        for shape in ((9,), (2, 5), (), (0,), (2, 0)):
            x = some(shape, dtype)
            results = ATEN._unique2(x, True, inverse, counts)
            c("aten::_unique2.out", x, True, inverse, counts, *map(Out, results))
    for name, size, offset in itertools.product(("tril", "triu"), ((3, 3), (2, 5), (4, 2), (0, 3), (3, 0)), (0, 1, -1, 9, -9)):
        for dtype in (I32, I64):
            result = getattr(torch, f"{name}_indices")(*size, offset, dtype=dtype)
            c(f"aten::{name}_indices.out", *size, offset, Out(result))
    for dtype in (F32, F64):
        x = random(50, dtype=dtype)
        for bins, low, high in ((5, 0, 0), (7, -1.5, 2), (1, 0, 1), (4, 2, 2)):
            c("aten::histc.out", x, bins, low, high, Out(torch.histc(x, bins, low, high)))
        c("aten::histc.out", torch.full((2, 3), 2.0, dtype=dtype), 3, 0, 0, Out(torch.histc(torch.full((2, 3), 2.0, dtype=dtype), 3, 0, 0)))
        c("aten::histc.out", torch.tensor([1, 2, NAN, 3.0, 5, 0], dtype=dtype), 4, 1, 3, Out(torch.histc(torch.tensor([1, 2, NAN, 3.0, 5, 0], dtype=dtype), 4, 1, 3)))
    for a, b in itertools.product((F32, I32, F16, I8, F64, I64), repeat=2):
        x = random(3, 8, dtype=a) if a in FLOATS else random(3, 8, dtype=I8).to(a)
        c("aten::view_copy.dtype_out", x, b, Out(x.view(b)))


def special_functions(c: Recorder):
    """lgamma and erfinv."""
    for dtype in (*FLOATS, *INTS, torch.bool):
        x = torch.cat([random(67, low=-6, high=9), SPECIAL[:-3]]).to(dtype) if dtype in FLOATS else torch.tensor([0, 1, 2, 3, 5]).to(dtype)
        y = torch.lgamma(x)
        c("aten::lgamma.out", x, Out(y), **TOLERANCE[y.dtype] | ({"atol": 2e-5} if y.dtype == F32 else {}))
        x = torch.cat([random(67, low=-1, high=1), SPECIAL[:-3], torch.tensor([1.0, -1.0, 0.9999, -0.99999])]).to(dtype) if dtype in FLOATS else torch.tensor([0, 1]).to(dtype)
        y = torch.erfinv(x)
        c("aten::erfinv.out", x, Out(y), **TOLERANCE[y.dtype])


def complex_tensors(c: Recorder):
    """view_as_complex_copy, complex, polar and _fft_c2c."""
    for dtype, result in ((F32, C64), (F64, C128)):
        for shape in ((3, 2), (2, 3, 2), (2,), (0, 2)):
            x = random(*shape, dtype=dtype)
            c("aten::view_as_complex_copy.out", x, Out(torch.view_as_complex(x).clone()))
        for left, right in (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2,))):
            a, b = random(*left, dtype=dtype), random(*right, dtype=dtype)
            c("aten::complex.out", a, b, Out(torch.complex(a, b)))
            c("aten::polar.out", a, b, Out(torch.polar(a, b)), **TOLERANCE[dtype])
        tolerance = {"atol": 2e-5, "rtol": 1e-4} if dtype == F32 else {"atol": 1e-11, "rtol": 1e-10}
        shapes = [((n,), [0]) for n in (1, 2, 3, 5, 8, 11, 17, 30, 37, 64)] + [((3, 4, 5), d) for d in ([0], [1], [2], [0, 1], [2, 0], [0, 1, 2])]
        for (shape, dims), forward in itertools.product(shapes, (True, False)):
            x = random(*shape, dtype=result)
            for norm in (0, 1, 2):
                c("aten::_fft_c2c.out", x, dims, norm, forward, Out(ATEN._fft_c2c(x, dims, norm, forward).contiguous()), **tolerance)


def determinants(c: Recorder):
    """_linalg_det and _linalg_slogdet."""
    for dtype, shape in itertools.product((F32, F64), ((3, 3), (2, 4, 4), (1, 1), (0, 0), (2, 3, 1, 1), (0, 2, 2))):
        x = random(*shape, dtype=dtype)
        det, lu, pivots = ATEN._linalg_det(x)
        order = [*range(x.dim() - 2), x.dim() - 1, x.dim() - 2]
        tolerance = {"atol": 1e-4, "rtol": 1e-4} if dtype == F32 else {"atol": 1e-11, "rtol": 1e-10}
        c("aten::_linalg_det.result", x, Out(det), Out(lu, order), Out(pivots), **tolerance)
        c("aten::_linalg_slogdet.sign", x, *[Out(y, order) if y.dim() == x.dim() and y.shape == x.shape else Out(y) for y in ATEN._linalg_slogdet(x)], **tolerance)
    x = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    det, lu, pivots = ATEN._linalg_det(x)
    c("aten::_linalg_det.result", x, Out(det), Out(lu), Out(pivots), note="singular")


def forward_bags(c: Recorder):
    """_embedding_bag_forward_only."""
    indices = torch.tensor([1, 2, 4, 5, 4, 0, 3, 3])
    for dtype, mode, last, padding in itertools.product(FLOATS, (0, 1, 2), (False, True), (-1, 4)):
        weight = random(6, 3, dtype=dtype)
        args = (weight, indices, torch.tensor([0, 2, 2, 5]), False, mode, False, None, last, padding)
        tolerance = TOLERANCE[dtype] | ({"atol": 0.05} if dtype == BF16 else {"atol": 0.01} if dtype == F16 else {})
        c("aten::_embedding_bag_forward_only.out", *args, *map(Out, ATEN._embedding_bag_forward_only(*args)), **tolerance)


FAMILIES = [sorting, searching, scans, scatters, sets, special_functions, complex_tensors, determinants, forward_bags]
