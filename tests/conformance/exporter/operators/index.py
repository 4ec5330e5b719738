"""Cases of gather, scatter and advanced indexing."""

import torch

from .data import ALL, BOOL, CHANNELS_LAST, F32, I32, I64, channels_last


def random_indices(c, shape, high, dtype=I64):
    """Random indices below a bound."""
    return torch.randint(0, high, shape, generator=c.generator).to(dtype)


def collect(c):
    """embedding to scatter_add."""
    for dtype in ALL:
        c("embedding.out", c.random((5, 3), dtype), random_indices(c, (2, 2), 5))
        c("index_select.out", c.random((4, 3), dtype), 0, random_indices(c, (5,), 4))
        c("gather.out", c.random((3, 4), dtype), 1, random_indices(c, (3, 2), 4))
        c("index.Tensor_out", c.random((4, 3), dtype), [random_indices(c, (2,), 4)])
        c("scatter.src_out", c.random((3, 4), dtype), 0, torch.tensor([[2, 0, 1, 2]]), c.random((1, 4), dtype))
        c("scatter.value_out", c.random((3, 4), dtype), 1, random_indices(c, (3, 2), 4), True if dtype == BOOL else 7)
        c.attempt("scatter_add.out", c.random((3, 4), dtype), 0, random_indices(c, (2, 4), 3), c.random((2, 4), dtype))
        c("masked_fill.Scalar_out", c.random((2, 3), dtype), c.random((3,), BOOL), True if dtype == BOOL else 2)
    c("embedding.out", c.random((5, 3)), random_indices(c, (4,), 5, I32))
    c("embedding.out", c.random((5, 3)), random_indices(c, (), 5))
    c("embedding.out", c.random((5, 3)), random_indices(c, (0,), 5), note="no index")
    c("embedding.out", c.random((5, 1)), random_indices(c, (2, 1, 3), 5), 2, True, loose=True)
    for dim in (0, 1, -1):
        c("index_select.out", c.random((3, 4, 3)), dim, random_indices(c, (2,), 3))
        c("gather.out", c.random((3, 4, 3)), dim, random_indices(c, (2, 3, 2), 3))
    c("index_select.out", c.random((3, 4)), 1, random_indices(c, (2,), 4, I32))
    c("index_select.out", c.random(()), 0, torch.tensor([0]))
    c("index_select.out", c.random((3, 4)), 0, random_indices(c, (0,), 3))
    c("gather.out", c.random(()), 0, torch.tensor(0))
    c("gather.out", c.random((3,)), 0, torch.tensor([], dtype=I64))
    index(c)
    put(c)
    scatters(c)


def index(c):
    """index.Tensor with null entries, masks and broadcasting."""
    op = "index.Tensor_out"
    x = c.random((3, 4, 5))
    i, j = random_indices(c, (2,), 3), random_indices(c, (2,), 3)
    for indices in [[i, j], [None, i], [None, None, i], [i, None, j], [i.unsqueeze(1), random_indices(c, (3,), 4)], [random_indices(c, (2, 2), 3)], [i, j, j],
                    [torch.tensor(1), None, torch.tensor([2])], [i - 3], [random_indices(c, (2,), 3, I32)], [None, None]]:
        c.attempt(op, x, indices)
    c(op, x, [torch.tensor([True, False, True])], note="mask")
    c(op, x, [None, torch.tensor([True, False, False, True])], note="mask")
    c(op, x, [c.random((3, 4), BOOL)], note="mask of two dimensions", capacity=[12, 5])
    c(op, x, [torch.zeros(3, dtype=BOOL)], note="empty mask", capacity=[3, 4, 5])
    c(op, c.random((4,)), [random_indices(c, (0,), 4)])
    c(op, x, [torch.tensor([True, True, False]), random_indices(c, (2,), 4)], note="mask and index")


def put(c):
    """index_put, functional and in-place."""
    x, i = c.random((3, 4, 2)), torch.tensor([2, 0])
    for op in ("index_put.out", "index_put_"):
        c(op, x, [i], c.random((2, 4, 2)))
        c(op, x, [i], c.random(()), False)
        c(op, x, [None, i], c.random((3, 2, 2)))
        c(op, x, [i, torch.tensor([1, 3])], c.random((2, 2)))
        c(op, x, [torch.tensor([1, 1, 1])], c.random((1, 4, 2)), True, note="accumulates")
        c(op, x, [i - 3], c.random((4, 2)), note="negative indices, broadcast values")
        c(op, x, [None, None, torch.tensor([1])], c.random((3, 4, 1)))
        for dtype in ALL:
            c(op, c.random((4,), dtype), [torch.tensor([3, 1])], c.random((2,), dtype))
        c(op, x, [torch.tensor([True, False, True])], c.random((2, 4, 2)), note="mask")
        c(op, x, [x > 0], torch.tensor(0.0), note="mask of the whole")
        c(op, x, [torch.tensor([], dtype=I64)], c.random((0, 4, 2)))


def scatters(c):
    """scatter and masked_fill: shapes and dimensions."""
    for dim in (0, 1, -1):
        where = torch.stack([torch.randperm(3, generator=c.generator) for _ in range(4)], 1 if dim == 0 else 0)
        x = c.random((3, 4) if dim == 0 else (4, 3))
        c("scatter.src_out", x, dim, where, c.random(where.shape))
        c("scatter_add.out", x, dim, torch.zeros_like(where), c.random(where.shape), note="all to one index")
        c("scatter.value_out", x, dim, where[:2, :2], -1.5)
    c("scatter.src_out", c.random((3,)), 0, torch.tensor([], dtype=I64), c.random((0,)))
    c("scatter.src_out", c.random(()), 0, torch.tensor(0), c.random(()))
    c("scatter_add.out", c.random(()), 0, torch.tensor(0), c.random(()))
    c("scatter.value_out", c.random((2, 3), I32), 1, torch.tensor([[0], [2]]), 5)
    for shape, mask in [((2, 3), (2, 3)), ((2, 3), (2, 1)), ((3,), (2, 3)), ((), ()), ((0, 2), (2,))]:
        c("masked_fill.Scalar_out", c.random(shape), c.random(mask, BOOL), float("-inf"))
    c("masked_fill.Scalar_out", channels_last(c.random((1, 2, 2, 2))), channels_last(c.random((1, 2, 2, 2), BOOL)), 0, order=CHANNELS_LAST)
    c("masked_fill.Scalar_out", c.random((4,)), c.random((4,), BOOL), 3)
