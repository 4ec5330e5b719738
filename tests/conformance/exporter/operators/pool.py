"""Cases of pooling."""

import torch

from .data import BF16, CHANNELS_LAST, F16, F64, INF, NAN, channels_last


def collect(c):
    """max_pool2d_with_indices, avg_pool2d, _adaptive_avg_pool2d."""
    op = "max_pool2d_with_indices.out"
    for kernel, options in [([2, 2], {}), ([3, 3], {"stride": [2, 2], "padding": [1, 1]}), ([2], {"stride": [1]}), ([2, 3], {"dilation": [2, 1]}),
                            ([3, 3], {"stride": [2, 2], "ceil_mode": True}), ([3, 2], {"stride": [3, 1], "padding": [1, 0], "ceil_mode": True})]:
        c(op, c.random((1, 3, 7, 8)), kernel, **options)
        c(op, c.random((2, 5, 6)), kernel, **options, note="no batch")
        c(op, channels_last(c.random((1, 2, 7, 8))), kernel, **options, order=CHANNELS_LAST)
    for dtype in (F64, F16, BF16):
        c(op, c.random((1, 2, 4, 4), dtype), [2, 2])
    c.attempt(op, c.random((1, 2, 4, 4), torch.int64), [2, 2])
    c(op, torch.tensor([[[NAN, 1.0], [2.0, 3.0]], [[-INF, -INF], [-INF, -INF]], [[1.0, 1.0], [1.0, 1.0]]]), [2, 2], note="NaN wins; the first of equals is found")
    op = "avg_pool2d.out"
    for kernel, options in [([2, 2], {}), ([3, 3], {"stride": [2, 2], "padding": [1, 1]}), ([3, 3], {"stride": [2, 2], "padding": [1, 1], "count_include_pad": False}),
                            ([3, 2], {"stride": [2, 2], "ceil_mode": True}), ([2, 2], {"divisor_override": 3}), ([3], {"stride": [3], "padding": [1], "ceil_mode": True, "count_include_pad": False})]:
        c(op, c.random((1, 3, 7, 8)), kernel, **options)
        c(op, c.random((2, 5, 6)), kernel, **options, note="no batch")
        c(op, channels_last(c.random((1, 2, 7, 8))), kernel, **options, order=CHANNELS_LAST)
    for dtype in (F64, F16, BF16):
        c(op, c.random((1, 2, 4, 4), dtype), [2, 2])
    op = "_adaptive_avg_pool2d.out"
    for size in ([1, 1], [2, 3], [5, 4], [7, 9]):
        c(op, c.random((2, 3, 6, 7)), size)
        c(op, c.random((2, 5, 5)), size, note="no batch")
    c(op, channels_last(c.random((1, 3, 6, 4))), [3, 2], order=CHANNELS_LAST)
    for dtype in (F64, F16, BF16):
        c(op, c.random((1, 2, 5, 5), dtype), [2, 2])
