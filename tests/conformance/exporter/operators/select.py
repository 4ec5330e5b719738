"""Cases of selection by index, stride or mask."""

import torch

from .data import ALL, BOOL, F32, I32, I64


def collect(c):
    """masked_select to repeat_interleave."""
    for dtype in ALL:
        x = c.random((3, 4), dtype)
        mask = torch.tensor([[True, False, True, False], [False, False, True, True], [True, True, False, False]])
        c("masked_select.out", x, mask, capacity=[12])
        c("masked_scatter.out", x, mask, c.random((12,), dtype))
        c("nonzero.out", x * (torch.arange(12).reshape(3, 4) % 2).to(dtype) if dtype != BOOL else x, capacity=[12, 2])
        c("narrow_copy.out", x, 1, 1, 2)
        c("diagonal_copy.out", x)
        c("unfold_copy.out", x, 1, 2, 1)
        c("as_strided_copy.out", x, [2, 3], [1, 2], 1)
    masks(c)
    for offset, a, b in [(1, 0, 1), (-1, 0, 1), (0, 1, 2), (0, -1, 0), (3, 0, 1), (7, 0, 2)]:
        c.attempt("diagonal_copy.out", c.random((2, 3, 4)), offset, a, b)
    for shape, dim, size, step in [((7,), 0, 3, 2), ((2, 6), 1, 2, 3), ((2, 6), -1, 6, 1), ((5, 2), 0, 1, 1), ((), 0, 1, 1), ((3, 0), 1, 0, 1)]:
        c.attempt("unfold_copy.out", c.random(shape), dim, size, step)
    for size, stride, offset in [([3], [2], None), ([2, 2], [0, 1], 3), ([], [], 5), ([0, 3], [1, 1], 0), ([2, 3, 2], [6, 2, 1], 0)]:
        c("as_strided_copy.out", c.random((12,)), size, stride, offset)
    for dim, start, length in [(0, 0, 4), (0, 2, 2), (1, 0, 0), (-1, 1, 3), (0, 4, 0), (1, -2, 2)]:
        c.attempt("narrow_copy.out", c.random((4, 5)), dim, start, length)
    for repeats in ([2, 0, 3], [1, 1], [], [0, 0]):
        for dtype in (I32, I64):
            c("repeat_interleave.Tensor_out", torch.tensor(repeats, dtype=dtype), capacity=[max(sum(repeats), 1)])
    c("repeat_interleave.Tensor_out", torch.tensor([1, 2]), output_size=3)


def masks(c):
    """Masks that broadcast, and masks of all or no elements."""
    for shape, mask in [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((), (2,)), ((0, 3), (3,)), ((4,), (4,))]:
        capacity = [torch.Size(torch.broadcast_shapes(shape, mask)).numel()]
        c("masked_select.out", c.random(shape), c.random(mask, BOOL), capacity=capacity)
        c("masked_select.out", c.random(shape), torch.zeros(mask, dtype=BOOL), capacity=capacity)
        c("masked_scatter.out", c.random(shape), c.random(mask, BOOL), c.random((12,)))
    for x in (torch.tensor(3.0), torch.tensor(0.0), torch.zeros(0, 2), torch.zeros(2, 3), torch.ones(5), torch.tensor([float("nan"), -0.0, 1e-45])):
        c("nonzero.out", x, capacity=[max(x.numel(), 1), x.dim()])
    c("nonzero.out", c.random((2, 3, 4), BOOL), capacity=[24, 3])
    c("masked_scatter.out", c.random((2, 3), F32), torch.ones(2, 3, dtype=BOOL), c.random((2, 3)))
