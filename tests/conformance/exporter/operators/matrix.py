"""Cases of matrix products."""

from .data import ALL, BF16, F16, F32, F64, FLOATS, I32, I64

SIZES = [(2, 3, 4), (1, 1, 1), (5, 7, 3), (0, 3, 2), (2, 0, 3), (1, 17, 9), (9, 20, 18)]


def collect(c):
    """mm, bmm, addmm, linear."""
    for m, k, n in SIZES:
        c("mm.out", c.random((m, k)), c.random((k, n)), atol=1e-5)
        for batch in (1, 3):
            c("bmm.out", c.random((batch, m, k)), c.random((batch, k, n)), atol=1e-5)
        c("addmm.out", c.random((n,)), c.random((m, k)), c.random((k, n)), atol=1e-5)
        c("addmm.out", c.random((m, n)), c.random((m, k)), c.random((k, n)), beta=0.5, alpha=2, atol=1e-5)
        c("linear.out", c.random((m, k)), c.random((n, k)), c.random((n,)), atol=1e-5)
    c("bmm.out", c.random((0, 2, 3)), c.random((0, 3, 4)))
    c("addmm.out", c.random((1, 4)), c.random((3, 2)), c.random((2, 4)))
    c("addmm.out", c.random((3, 1)), c.random((3, 2)), c.random((2, 4)), loose=True)
    c("addmm.out", c.random((4,)) * float("nan"), c.random((3, 2)), c.random((2, 4)), beta=0, note="beta 0 ignores the first tensor, NaN too")
    c("linear.out", c.random((2, 3, 4)), c.random((5, 4)))
    c("linear.out", c.random((4,)), c.random((5, 4)), c.random((5,)), note="one dimension")
    c("linear.out", c.random((2, 1, 3, 4)), c.random((2, 4)), c.random((2,)), loose=True)
    for dtype in (F64, F16, BF16, I32, I64):
        wide = {"atol": 2e-2, "rtol": 2e-2} if dtype in (F16, BF16) else {}
        c("mm.out", c.random((3, 5), dtype), c.random((5, 2), dtype), **wide)
        c("bmm.out", c.random((2, 3, 5), dtype), c.random((2, 5, 2), dtype), **wide)
        c("addmm.out", c.random((2,), dtype), c.random((3, 5), dtype), c.random((5, 2), dtype), **wide)
        c("linear.out", c.random((3, 5), dtype), c.random((2, 5), dtype), c.random((2,), dtype), **wide)
    distances(c)


def distances(c):
    """_cdist_forward and _pdist_forward."""
    for p in (0.0, 1.0, 2.0, 3.5, float("inf")):
        for a, b in [((3, 4), (2, 4)), ((2, 3, 2), (2, 5, 2)), ((1, 3, 2), (4, 2, 2)), ((0, 3), (2, 3)), ((2, 0), (3, 0)), ((3, 19), (2, 19))]:
            c("_cdist_forward.out", c.random(a), c.random(b), p, 2 if p == 2.0 else None)
        for shape in [(4, 3), (1, 3), (0, 3), (3, 0), (5, 19)]:
            c("_pdist_forward.out", c.random(shape), p)
    c("_cdist_forward.out", c.random((3, 4), F64), c.random((2, 4), F64), 2.0, 2)
    c("_pdist_forward.out", c.random((3, 4), F64), 2.0)
