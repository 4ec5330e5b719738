"""Cases of convolutions."""

from .data import BF16, CHANNELS_LAST, F16, F64, channels_last


def conv(c, x, w, bias=True, stride=1, padding=0, dilation=1, transposed=False, output_padding=0, groups=1, **options):
    """Case of a convolution. A number applies to all dimensions."""
    rank = x.dim() - 2
    def per_dim(value):
        return list(value) if isinstance(value, tuple) else [value] * rank
    channels = w.shape[1] * groups if transposed else w.shape[0]
    b = c.random((channels,), x.dtype) if bias else None
    options.setdefault("atol", 1e-5)
    c("convolution.out", x, w, b, per_dim(stride), per_dim(padding), per_dim(dilation), transposed, per_dim(output_padding), groups, **options)


def collect(c):
    """1-D and 2-D convolutions, forward and transposed."""
    for bias in (True, False):
        conv(c, c.random((1, 2, 8)), c.random((3, 2, 3)), bias)
        conv(c, c.random((2, 3, 5, 6)), c.random((4, 3, 3, 3)), bias)
    conv(c, c.random((2, 2, 9)), c.random((3, 2, 4)), stride=2, padding=1)
    conv(c, c.random((1, 4, 9)), c.random((6, 2, 3)), padding=2, dilation=2, groups=2)
    conv(c, c.random((1, 4, 7)), c.random((4, 1, 3)), padding=1, groups=4, note="depthwise")
    conv(c, c.random((1, 3, 7)), c.random((3, 2, 3)), transposed=True, stride=2, padding=1, output_padding=1)
    conv(c, c.random((1, 4, 5)), c.random((4, 3, 3)), transposed=True, groups=2, dilation=2)
    conv(c, c.random((1, 3, 7, 6)), c.random((2, 3, 3, 2)), stride=(2, 1), padding=(1, 0), dilation=(1, 2))
    conv(c, c.random((1, 4, 6, 6)), c.random((8, 1, 3, 3)), padding=1, groups=4)
    conv(c, c.random((1, 4, 6, 6)), c.random((4, 1, 3, 3)), padding=1, groups=4, stride=2, note="depthwise")
    conv(c, c.random((2, 6, 4, 4)), c.random((4, 3, 1, 1)), groups=2, note="pointwise in groups")
    conv(c, c.random((1, 5, 3, 4)), c.random((7, 5, 1, 1)), note="pointwise")
    conv(c, c.random((1, 2, 3, 3)), c.random((2, 2, 3, 3)), padding=3, note="more padding than kernel")
    conv(c, c.random((1, 3, 4, 3)), c.random((3, 2, 3, 3)), transposed=True, stride=(2, 3), padding=1, output_padding=(1, 2))
    conv(c, c.random((1, 4, 3, 3)), c.random((4, 2, 2, 2)), transposed=True, groups=2, bias=False)
    conv(c, c.random((2, 2, 3, 3)), c.random((2, 3, 3, 3)), transposed=True, dilation=2, padding=2)
    conv(c, c.random((0, 3, 5, 6)), c.random((4, 3, 3, 3)), note="empty batch")
    conv(c, c.random((1, 1, 1, 1)), c.random((1, 1, 1, 1)))
    conv(c, c.random((1, 9, 5, 6)), c.random((10, 9, 3, 3), low=-0.2, high=0.2), padding=1, loose=True)
    for extra in ({}, {"stride": 2, "padding": 1}, {"groups": 4}):
        w = c.random((4, 4 // extra.get("groups", 1), 3, 3))
        conv(c, channels_last(c.random((2, 4, 5, 6))), channels_last(w), order=CHANNELS_LAST, note="channels_last", **extra)
    conv(c, channels_last(c.random((1, 4, 3, 3))), channels_last(c.random((4, 2, 3, 3))), transposed=True, stride=2, order=CHANNELS_LAST, note="channels_last")
    for dtype in (F64, F16, BF16):
        wide = {} if dtype == F64 else {"atol": 3e-2, "rtol": 2e-2}
        conv(c, c.random((1, 3, 5, 5), dtype), c.random((2, 3, 3, 3), dtype), padding=1, **wide)
        conv(c, c.random((1, 3, 6), dtype), c.random((3, 2, 3), dtype), transposed=True, **wide)
