"""Cases of factories, casts, topk and sort."""

import torch

from .data import ALL, BF16, BOOL, CHANNELS_LAST, F16, F32, F64, FLOATS, I32, I64, I8, INF, NAN, SPECIAL, U8, channels_last


def collect(c):
    """full to sort."""
    for dtype in ALL:
        c("full.out", [2, 3], 1, out=dtype)
        c.attempt("full_like.out", c.random((2, 2), dtype), 1)
        c("fill.Scalar_out", c.random((2, 2), dtype), 1)
        c("fill.Tensor_out", c.random((2, 2), dtype), torch.tensor(1, dtype=dtype))
        c("zeros.out", [2, 2], out=dtype)
        c("ones.out", [2, 2], out=dtype)
        c("scalar_tensor.out", 1, out=dtype)
    for value in (2.5, -3, True, INF, NAN):
        c("full.out", [3], value, out=F32)
        c("full_like.out", c.random((3,)), value)
        c("fill.Scalar_out", c.random((3,)), value)
        c("scalar_tensor.out", value, out=F32)
        c("scalar_tensor.out", value, out=F64)
    c("fill.Scalar_out", c.random((3,), I64), 2**40)
    c("fill.Tensor_out", c.random((3,)), torch.tensor(7), note="converts")
    for size in ([], [0], [0, 3], [1, 2, 3]):
        c("full.out", size, 0.5, out=F32)
        c("zeros.out", size, out=F32)
        c("ones.out", size, out=F32)
        c("full_like.out", c.random(size), 0.5)
    c("zeros.out", [2, 3], out=F32, loose=True)
    for size in ([0], [0, 3]):
        c("empty.out", size, out=F32, note="the sizes are all that is defined", loose=True)
        c("_empty_dim_order.out", size, result=torch.empty(size), note="the sizes are all that is defined", loose=True)
    aranges(c)
    conversions(c)
    best(c)


def aranges(c):
    """arange with start, end, step."""
    for args in [(0, 5, 1), (2, 9, 3), (5, 0, -2), (0, 0, 1), (0.0, 1.0, 0.25), (1, 4.5, 1), (-1.5, 1.5, 0.7), (10, 0, -3)]:
        for dtype in (F32, F64, I64, I32):
            if dtype in (F32, F64) or all(isinstance(x, int) for x in args):
                c("arange.start_out", *args, result=torch.arange(*args, dtype=dtype))
    for dtype in (F16, BF16, U8, I8):
        c("arange.start_out", 0, 10, 3, result=torch.arange(0, 10, 3, dtype=dtype))
    for end in (5, 0, 3.5):
        for dtype in (F32, I64) if isinstance(end, int) else (F32,):
            c("arange.out", end, result=torch.arange(end, dtype=dtype))


def conversions(c):
    """_to_copy and the dim_order operators: all pairs of dtypes."""
    fractions = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 100.25, 0.1])
    for source in ALL:
        positive = source == U8
        for target in ALL:
            x = (fractions.abs() if positive or target == U8 else fractions).to(source)
            for op in ("_to_copy.out", "_to_dim_order_copy.out"):
                options = {"dim_order": [0]} if "order" in op else {}
                convert(c, op, x, target, None, **options)
    convert(c, "_to_copy.out", SPECIAL, F16, None)
    convert(c, "_to_copy.out", SPECIAL, BF16, None)
    convert(c, "_to_copy.out", SPECIAL, BOOL, None)
    convert(c, "_to_copy.out", torch.tensor([300, -129, 256, 2**31]), I8, None)
    image = c.random((2, 3, 2, 4))
    for op in ("_to_dim_order_copy.out", "_clone_dim_order.out"):
        convert(c, op, image, F32, CHANNELS_LAST, dim_order=CHANNELS_LAST)
        convert(c, op, channels_last(image), F32, None, dim_order=[0, 1, 2, 3])
        convert(c, op, channels_last(image), F32, CHANNELS_LAST, dim_order=CHANNELS_LAST)
        convert(c, op, c.random(()), F32, None, dim_order=[])
        convert(c, op, c.random((0, 3)), F32, None, dim_order=[0, 1])
        convert(c, op, c.random((2, 3)), F32, None, dim_order=[0, 1], loose=True)
        convert(c, op, image, F32, None, dim_order=None)
        convert(c, op, channels_last(image), F32, CHANNELS_LAST, dim_order=None, note="no dim order given: the input's is kept")
    convert(c, "_to_dim_order_copy.out", image, F16, CHANNELS_LAST, dim_order=CHANNELS_LAST)
    for dtype in ALL:
        convert(c, "_clone_dim_order.out", c.random((2, 3), dtype), dtype, None, dim_order=[0, 1])


def convert(c, op, x, target, order, **options):
    """Case of a cast, computed by `to` of PyTorch."""
    c(op, x, result=x.to(target), order=order, **options)


def best(c):
    """topk and sort."""
    for k, dim in [(2, 0), (3, 1), (1, -1), (0, 1), (5, 1)]:
        for largest in (True, False):
            c("topk.values", c.random((4, 5)), k, dim, largest)
    for dtype in [F64, F16, BF16, I64, I32, I8, U8]:
        numbers = torch.randperm(8, generator=c.generator).to(dtype)
        c("topk.values", numbers, 3)
        c("sort.values", numbers)
    c("topk.values", torch.tensor([1.0, NAN, INF, -INF, 0.0]), 4, note="NaN is the largest")
    c("topk.values", torch.tensor([1.0, NAN, INF, -INF, 0.0]), 4, 0, False, note="NaN is the largest")
    c("topk.values", c.random(()), 1)
