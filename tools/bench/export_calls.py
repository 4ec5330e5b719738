"""Exports the long method of `afferent-bench call`: export_calls.py FILE.pte

Needs torch and executorch. 200 additions of four numbers, one instruction each.
"""

import sys
from pathlib import Path

import torch
from executorch.exir import to_edge


class Adds(torch.nn.Module):
    """Each sum is added to the second number, so that none can be left out."""

    def forward(self, x, y):
        for _ in range(200):
            x = x + y
        return x


def main(path: Path) -> None:
    exported = torch.export.export(Adds(), (torch.zeros(4), torch.zeros(4)))
    path.write_bytes(to_edge(exported).to_executorch().buffer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
