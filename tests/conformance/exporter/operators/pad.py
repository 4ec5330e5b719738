"""Cases of reflection and replication padding."""

from .data import ALL, BOOL, channels_last

PADS = {1: ([1, 2], [0, 1], [2, 0], [0, 0]), 2: ([1, 2, 1, 0], [0, 0, 2, 1], [2, 2, 2, 2]), 3: ([1, 2, 1, 0, 0, 1], [1, 1, 1, 1, 1, 1])}


def collect(c):
    """reflection_pad and replication_pad over one to three dimensions."""
    for kind in ("reflection", "replication"):
        for rank, pads in PADS.items():
            op = f"{kind}_pad{rank}d.out"
            for pad in pads:
                c(op, c.random((2, 2, *(3, 4, 5)[:rank])), pad)
                c(op, c.random((2, *(5, 3, 4)[:rank])), pad, note="no batch")
            for dtype in ALL[1:]:
                c.attempt(op, c.random((1, 1, *(3,) * rank), dtype), pads[0])
            c.attempt(op, c.random((0, 2, *(3,) * rank)), pads[0])
            if kind == "replication":
                c(op, c.random((1, 1, *(1,) * rank)), pads[0], note="one element")
                c(op, c.random((1, 2, *(6,) * rank)), [-1, -2] + [0, 0] * (rank - 1), note="cuts")
            if rank == 2:
                c(op, channels_last(c.random((1, 3, 4, 4))), pads[0], note="channels_last to contiguous")
