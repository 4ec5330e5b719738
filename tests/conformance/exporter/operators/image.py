"""Cases of image resampling and pixel shuffling."""

from .data import ALL, BF16, CHANNELS_LAST, F16, F32, F64, I64, channels_last


def collect(c):
    """pixel_shuffle, upsample_nearest2d, upsample_bilinear2d."""
    for dtype in ALL:
        c("pixel_shuffle.out", c.random((1, 4, 2, 3), dtype), 2)
    for shape, factor in [((4, 2, 2), 2), ((2, 9, 1, 2), 3), ((1, 2, 2, 2), 1), ((2, 1, 8, 2, 1), 2), ((0, 4, 2, 2), 2)]:
        c("pixel_shuffle.out", c.random(shape), factor)
    op = "upsample_nearest2d.vec_out"
    for size, factors in [([4, 6], None), ([3, 2], None), ([7, 5], None), (None, [2.0, 2.0]), (None, [1.5, 0.5]), ([1, 1], None)]:
        c(op, c.random((1, 2, 3, 4)), size, factors)
        c(op, channels_last(c.random((1, 2, 3, 4))), size, factors, order=CHANNELS_LAST)
        for corners in (True, False):
            c("upsample_bilinear2d.vec_out", c.random((1, 2, 3, 4)), size, corners, factors)
            c("upsample_bilinear2d.vec_out", channels_last(c.random((1, 2, 3, 4))), size, corners, factors, order=CHANNELS_LAST)
    for dtype in (F64, F16, BF16):
        c(op, c.random((1, 1, 2, 3), dtype), [4, 5], None)
        c("upsample_bilinear2d.vec_out", c.random((1, 1, 2, 3), dtype), [4, 5], False, None)
    others(c)


def others(c):
    """pixel_unshuffle, antialiased upsampling, grid_sampler."""
    for dtype in ALL:
        c("pixel_unshuffle.out", c.random((1, 2, 4, 6), dtype), 2)
    for shape, factor in [((1, 4, 4), 4), ((2, 3, 3, 6), 3), ((2, 2, 1, 2, 2), 2)]:
        c("pixel_unshuffle.out", c.random(shape), factor)
    for size in ([4, 6], [3, 2], [2, 9], [1, 1]):
        for corners in (True, False):
            c("_upsample_bilinear2d_aa.out", c.random((1, 2, 5, 7)), size, corners)
    c("_upsample_bilinear2d_aa.out", c.random((1, 1, 4, 4)), [8, 8], False, 2.0, 2.0)
    grid = c.random((1, 3, 4, 2), low=-1.3, high=1.3)
    for interpolation in (0, 1, 2):
        for padding in (0, 1, 2):
            for corners in (True, False):
                c("grid_sampler_2d.out", c.random((1, 2, 4, 5)), grid, interpolation, padding, corners, atol=1e-5)
    c("grid_sampler_2d.out", c.random((2, 1, 3, 3), F64), c.random((2, 2, 2, 2), F64, low=-1.0, high=1.0), 0, 0, False)
    c("grid_sampler_2d.out", c.random((0, 1, 3, 3)), c.random((0, 2, 2, 2)), 0, 0, False)
