"""Cases of data movement."""

import torch

from .data import ALL, BOOL, CHANNELS_LAST, F32, I64, channels_last

WHOLE = {"clone": (), "alias_copy": (), "detach_copy": (), "lift_fresh_copy": (), "t_copy": ()}


def collect(c):
    """view_copy to flip."""
    for dtype in ALL:
        x = c.random((2, 3), dtype)
        for name in WHOLE:
            c(name + ".out", x)
        c("view_copy.out", x, [3, 2])
        c("permute_copy.out", x, [1, 0])
        c("transpose_copy.int_out", x, 0, 1)
        c("slice_copy.Tensor_out", x, 1, 0, 2)
        c("select_copy.int_out", x, 1, 2)
        c("cat.out", [x, x, c.random((1, 3), dtype)], 0)
        c("stack.out", [x, x], 1)
        c("expand_copy.out", c.random((1, 3), dtype), [2, 3])
        c("repeat.out", x, [1, 2])
        c("flip.out", x, [0, 1])
        c("roll.out", x, [1], [1])
        c("unsqueeze_copy.out", x, 0)
        c("copy.out", c.random((2, 3), dtype), x)
        c("copy_", c.random((2, 3), dtype), x)
        c("tril.out", x)
        c("constant_pad_nd.out", x, [1, 0], True if dtype == BOOL else 3)
    wholes(c)
    views(c)
    slices(c)
    joins(c)
    splits(c)
    repeats(c)
    triangles(c)


def wholes(c):
    """Copies of a whole tensor."""
    for name in WHOLE:
        for shape in [(), (4,), (0, 2)]:
            c(name + ".out", c.random(shape))
    c("t_copy.out", c.random((3, 1)), loose=True)
    c("clone.out", channels_last(c.random((1, 3, 2, 2))), memory_format=torch.preserve_format, order=CHANNELS_LAST)
    for op in ("copy.out", "copy_"):
        c(op, c.random((2, 3)), c.random((3,)), note="broadcasts")
        c(op, c.random((2, 3)), c.random(()), note="broadcasts")
        c(op, c.random((4,)), c.random((4,), I64), note="converts")
        c(op, c.random((4,), I64), c.random((4,)), note="converts")
        c(op, c.random((4,)), c.random((4,), torch.bfloat16), note="converts")
        c(op, c.random((4,), BOOL), c.random((4,)), note="converts")
        c(op, c.random((0,)), c.random((0,)))


def views(c):
    """Reshapes, permutations and expansions."""
    for shape, size in [((2, 6), [3, 4]), ((2, 6), [-1]), ((12,), [2, -1, 3]), ((), [1, 1]), ((1,), []), ((0, 3), [3, 0]), ((2, 3), [2, 3])]:
        c("view_copy.out", c.random(shape), size, loose=size == [3, 4])
    for shape, dims in [((2, 3, 4), [2, 0, 1]), ((2, 3, 4), [0, 2, 1]), ((2, 3, 4), [-1, 0, -2]), ((), []), ((5,), [0]), ((2, 3, 2, 2), [0, 2, 3, 1]), ((0, 2), [1, 0]), ((9, 17), [1, 0])]:
        c("permute_copy.out", c.random(shape), dims)
    for shape, a, b in [((2, 3, 4), 0, 2), ((2, 3, 4), -1, -2), ((2, 3), 1, 1), ((), 0, -1), ((0, 2), 0, 1)]:
        c("transpose_copy.int_out", c.random(shape), a, b)
    for shape, dim in [((1, 3, 1), 0), ((1, 3, 1), -1), ((2, 3), 0), ((), 0)]:
        c("squeeze_copy.dim_out", c.random(shape), dim)
    for shape, dims in [((1, 3, 1), [0, 2]), ((1, 3, 1), [-1]), ((1, 3, 1), []), ((2, 1), [0, 1]), ((1, 1), [0, 1])]:
        c("squeeze_copy.dims_out", c.random(shape), dims)
    for shape, dim in [((2, 3), 1), ((2, 3), -1), ((2, 3), 2), ((), 0), ((0,), -2)]:
        c("unsqueeze_copy.out", c.random(shape), dim)
    for shape, size in [((3,), [2, 3]), ((1, 3), [-1, 3]), ((2, 1, 3), [2, 4, 3]), ((), [2, 2]), ((2, 1), [3, 2, 5]), ((1,), [0])]:
        c("expand_copy.out", c.random(shape), size)


def slices(c):
    """Slices and selections, and their scatters."""
    for dim, start, end, step in [(0, 1, 3, 1), (0, None, None, 2), (1, -2, None, 1), (-1, 0, 100, 3), (0, -100, 2, 1), (0, 3, 1, 1), (1, 1, -1, 1), (0, 4, 9, 1), (0, 0, 2**63 - 1, 1)]:
        x = c.random((4, 5))
        c("slice_copy.Tensor_out", x, dim, start, end, step)
        part = torch.ops.aten.slice_copy.Tensor(x, dim, start, end, step)
        c("slice_scatter.out", x, c.random(part.shape), dim, start, end, step)
    for dtype in (I64, BOOL, torch.float16):
        c("slice_scatter.out", c.random((4, 3), dtype), c.random((2, 3), dtype), 0, 1, 3)
        c("select_scatter.out", c.random((4, 3), dtype), c.random((4,), dtype), 1, 2)
    c("slice_scatter.out", c.random((4, 3)), c.random((1, 3)).expand(2, 3), 0, 1, 3)
    for shape, dim, index in [((3, 4), 0, 2), ((3, 4), 1, -1), ((2, 3, 4), -2, 1), ((4,), 0, 0)]:
        x = c.random(shape)
        c("select_copy.int_out", x, dim, index)
        c("select_scatter.out", x, c.random(x.select(dim, index).shape), dim, index)
    c("slice_copy.Tensor_out", c.random((0, 3)), 0, 0, 2)
    c("select_copy.int_out", c.random((3, 0)), 0, 1)


def joins(c):
    """cat and stack."""
    for dim in (0, 1, -1):
        sizes = [(2, 3), (1, 3)] if dim == 0 else [(2, 3), (2, 1), (2, 2)]
        c("cat.out", [c.random(s) for s in sizes], dim)
        c("stack.out", [c.random((2, 3)) for _ in range(3)], dim)
    c("cat.out", [c.random((3,))], 0)
    c("cat.out", [c.random((0,)), c.random((2, 3)), c.random((0, 3))], 0, note="an empty 1-D tensor is skipped")
    c("cat.out", [c.random((2,)), c.random((3,), I64), c.random((1,), BOOL)], 0, note="promotes to f32")
    c("cat.out", [c.random((2,), torch.int32), c.random((3,), I64)], 0, note="promotes to i64")
    c("cat.out", [c.random((1,)) for _ in range(20)], 0)
    c("cat.out", [channels_last(c.random((1, 2, 2, 2))), channels_last(c.random((1, 3, 2, 2)))], 1, order=CHANNELS_LAST)
    c("stack.out", [c.random(()), c.random(())], 0)
    c("stack.out", [c.random((0,)), c.random((0,))], 0)
    c("stack.out", [c.random((2,)), c.random((2,), I64)], 0, note="promotes to f32")


def splits(c):
    """split_copy, split_with_sizes_copy, unbind_copy."""
    for dtype in (F32, I64, BOOL, torch.bfloat16):
        c("split_copy.Tensor_out", c.random((5, 2), dtype), 2)
        c("split_with_sizes_copy.out", c.random((5, 2), dtype), [1, 4])
        c("unbind_copy.int_out", c.random((3, 2), dtype))
    for size, dim in [(2, 1), (3, -1), (10, 0), (1, 1)]:
        c("split_copy.Tensor_out", c.random((2, 5)), size, dim)
    for sizes, dim in [([2, 1, 2], 1), ([0, 5], -1), ([2], 0), ([1, 1], 0)]:
        c("split_with_sizes_copy.out", c.random((2, 5)), sizes, dim)
    for shape, dim in [((3, 2), 1), ((2, 3, 2), -2), ((2,), 0), ((2, 0), 0)]:
        c("unbind_copy.int_out", c.random(shape), dim)


def repeats(c):
    """repeat, flip, roll, padding."""
    for shape, times in [((2, 3), [2, 1]), ((3,), [2, 2]), ((2, 3), [1, 1, 2]), ((), [3]), ((2,), [0]), ((1, 2), [3, 2])]:
        c("repeat.out", c.random(shape), times)
    for shape, dims in [((2, 3), [0]), ((2, 3), [-1]), ((2, 3, 2), [0, 2]), ((4,), []), ((), []), ((0, 2), [1])]:
        c("flip.out", c.random(shape), dims)
    for shape, shifts, dims in [((2, 3), [1], [0]), ((2, 3), [-1, 2], [0, 1]), ((5,), [7], [0]), ((2, 3), [2], []), ((0, 3), [1], [1]), ((4,), [0], [0])]:
        c("roll.out", c.random(shape), shifts, dims)
    for shape, pad in [((2, 3), [1, 2]), ((2, 3), [0, 1, 2, 0]), ((2, 3), [-1, 1]), ((1, 2, 2, 2), [1, 1, 1, 1, 1, 0]), ((2, 3), []), ((0, 2), [1, 1]), ((2, 3), [-1, -1, 1, 1])]:
        c("constant_pad_nd.out", c.random(shape), pad, 1.5)
    c("constant_pad_nd.out", c.random((2, 3)), [1, 1])
    c("constant_pad_nd.out", c.random((2, 3)), [1, 1], -2, note="an int into f32")
    c("constant_pad_nd.out", channels_last(c.random((1, 2, 2, 3))), [1, 0, 0, 1], order=CHANNELS_LAST)


def triangles(c):
    """tril and triu."""
    for name in ("tril.out", "triu.out"):
        for shape in [(3, 4), (4, 3), (2, 3, 3), (1, 1), (0, 3)]:
            for diagonal in (0, 1, -1, 5, -5):
                c(name, c.random(shape), diagonal)
