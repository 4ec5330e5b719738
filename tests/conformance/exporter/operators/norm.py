"""Cases of softmax and norms."""

import torch

from .data import BF16, CHANNELS_LAST, F16, F32, F64, INF, NAN, channels_last


def collect(c):
    """_softmax to native_dropout."""
    for op in ("_softmax.out", "_log_softmax.out"):
        for shape in [(2, 5), (2, 3, 4), (1,), (40,)]:
            for dim in {0, len(shape) - 1, -1}:
                c(op, c.random(shape), dim, False)
        for dtype in (F64, F16, BF16):
            c(op, c.random((3, 4), dtype), 1, False)
        c(op, c.random(()), 0, False)
        c(op, c.random((0, 3)), 1, False)
        c(op, c.random((2, 0)), 1, False)
        c(op, torch.tensor([[1000.0, 999.0, -1000.0], [-INF, 0.0, 1.0], [-INF, -INF, -INF], [INF, 0.0, 1.0], [NAN, 0.0, 1.0]]), 1, False, note="special values")
    layer_norms(c)
    batch_norms(c)
    batch_statistics(c)
    for shape, groups in [((2, 6, 5), 3), ((1, 4, 2, 3), 2), ((2, 3, 4), 1), ((1, 4, 3), 4), ((2, 4), 2)]:
        n, channels = shape[:2]
        inner = torch.Size(shape[2:]).numel()
        for weight, bias in [(c.random((channels,)), c.random((channels,))), (None, None), (c.random((channels,)), None)]:
            c("native_group_norm.out", c.random(shape), weight, bias, n, channels, inner, groups, 1e-5)
    for dtype in (F64, F16, BF16):
        wide = {} if dtype == F64 else {"atol": 2e-2, "rtol": 2e-2}
        c("native_group_norm.out", c.random((2, 4, 3), dtype), c.random((4,), dtype), c.random((4,), dtype), 2, 4, 3, 2, 1e-5, **wide)
    for dtype in (F32, F64, F16, BF16):
        c("native_dropout.out", c.random((2, 3), dtype), 0.5, False)
    c("native_dropout.out", c.random((4,)), 0.0, True)
    c("native_dropout.out", c.random((4,)), 1.0, True, note="everything is dropped")


def batch_statistics(c):
    """_native_batch_norm_legit with running statistics and with the statistics of the batch."""
    for shape in [(2, 3), (2, 3, 4), (1, 3, 2, 5)]:
        for weight, bias in [(c.random((3,)), c.random((3,))), (None, None)]:
            x, mean, variance = c.random(shape), c.random((3,)), c.random((3,), low=0.1)
            given = torch.ops.aten._native_batch_norm_legit.default(x, weight, bias, mean, variance, False, 0.1, 1e-5)
            c("_native_batch_norm_legit.out", x, weight, bias, mean, variance, False, 0.1, 1e-5, result=given)
            c("_native_batch_norm_legit.no_stats_out", c.random(shape), weight, bias, True, 0.1, 1e-3)


def layer_norms(c):
    """native_layer_norm, with and without weight and bias."""
    op = "native_layer_norm.out"
    for shape, normal in [((2, 5), [5]), ((2, 3, 4), [3, 4]), ((2, 3, 4), [4]), ((4,), [4]), ((3, 33), [33]), ((0, 4), [4])]:
        for weight, bias in [(c.random(normal), c.random(normal)), (None, None), (c.random(normal), None), (None, c.random(normal))]:
            c(op, c.random(shape), normal, weight, bias, 1e-5)
    for dtype in (F64, F16, BF16):
        wide = {} if dtype == F64 else {"atol": 2e-2, "rtol": 2e-2}
        c(op, c.random((2, 6), dtype), [6], c.random((6,), dtype), c.random((6,), dtype), 1e-5, **wide)
    c(op, torch.full((2, 4), 3.0), [4], None, None, 1e-3, note="no variance")
    c(op, c.random((2, 4)) + 1000, [4], None, None, 1e-5, atol=1e-3, rtol=1e-3, note="a large mean needs two passes")
    c(op, torch.tensor([[1.0, NAN, 2.0], [3.0, 1.0, 2.0]]), [3], None, None, 1e-5, note="NaN stays in its row")


def batch_norms(c):
    """_native_batch_norm_legit_no_training, with two empty outputs."""
    op = "_native_batch_norm_legit_no_training.out"
    for shape in [(2, 3), (2, 3, 4), (1, 3, 2, 5), (0, 3, 2)]:
        for affine in (True, False):
            weight, bias = (c.random((3,)), c.random((3,))) if affine else (None, None)
            c(op, c.random(shape), weight, bias, c.random((3,)), c.random((3,), low=0.1), 0.1, 1e-5)
    c(op, channels_last(c.random((2, 3, 2, 3))), c.random((3,)), c.random((3,)), c.random((3,)), c.random((3,), low=0.1), 0.1, 1e-3, order=CHANNELS_LAST, note="channels_last")
    for dtype in (F64, F16, BF16):
        wide = {} if dtype == F64 else {"atol": 2e-2, "rtol": 2e-2}
        c.attempt(op, c.random((2, 3, 2), dtype), c.random((3,), dtype), c.random((3,), dtype), c.random((3,), dtype), c.random((3,), dtype, low=0.1), 0.1, 1e-5, **wide)
