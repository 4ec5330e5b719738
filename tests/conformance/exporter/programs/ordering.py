"""Programs with operators that the official runtime lacks."""

import torch
from executorch.exir import EdgeCompileConfig
from torch.nn import functional as F

from ..program import program, simple

ANY_OPERATOR = EdgeCompileConfig(_check_ir_validity=False)


@program
def sorted_boxes():
    """sort.values, and advanced indexing with the result."""

    def keep(boxes, scores):
        scores, order = torch.sort(scores, descending=True)
        return boxes[order], scores, torch.argsort(boxes, dim=0, stable=True)

    return simple("boxes sorted by score", keep, (torch.rand(6, 4), torch.rand(6)), (torch.rand(6, 4), torch.tensor([1.0, 2, 1, 2, 1, 2])), compile_config=ANY_OPERATOR)


@program
def buckets():
    """bucketize, searchsorted, cummax and kthvalue."""

    def f(x, bounds):
        return torch.bucketize(x, bounds, right=True), torch.searchsorted(bounds, x), *torch.cummax(x, 1), *torch.kthvalue(x, 2, 1)

    return simple("positions in sorted bounds", f, (torch.randn(3, 5), torch.tensor([-1.0, 0.0, 0.5])), compile_config=ANY_OPERATOR)


@program
def unique():
    """_unique2 with outputs of dynamic size."""
    return simple("unique elements", lambda x: torch.unique(x, return_inverse=True, return_counts=True), (torch.randint(0, 4, (9,)),), (torch.zeros(9, dtype=torch.int64),), compile_config=ANY_OPERATOR)


@program
def rotary_complex():
    """view_as_complex_copy, polar and complex products."""

    def rotate(x, angles):
        x = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(x * torch.polar(torch.ones_like(angles), angles)).flatten(-2)

    return simple("rotary embedding with complex numbers", rotate, (torch.randn(2, 5, 8), torch.randn(5, 4)), compile_config=ANY_OPERATOR)


@program
def fft_2d():
    """_fft_c2c over two dimensions."""
    return simple("2-D Fourier transform", lambda x: torch.view_as_real(torch.fft.fft2(x)), (torch.randn(6, 10),), compile_config=ANY_OPERATOR)


@program
def scattered_mean():
    """scatter_reduce, cumprod and bits of floats."""

    def f(x, index, source):
        return x.scatter_reduce(0, index, source, "mean", include_self=False), x.cumprod(0), x.view(torch.int32)

    return simple("mean of scattered elements", f, (torch.randn(4, 3), torch.tensor([[0, 1, 3], [0, 1, 1]]), torch.randn(2, 3)), compile_config=ANY_OPERATOR)


@program
def bags():
    """_embedding_bag_forward_only."""
    return simple("mean of embeddings", lambda i, w: F.embedding_bag(i, w, mode="mean"), (torch.tensor([[0, 2], [5, 5]]), torch.randn(6, 3)), compile_config=ANY_OPERATOR)
