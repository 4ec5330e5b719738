"""Exports the program of `afferent-bench call --long`: 200 instructions, each adds four elements.

    python tools/bench/export_calls.py FILE.pte

Needs torch and executorch.
"""

import sys
from pathlib import Path

import torch
from executorch.exir import to_edge


class Adds(torch.nn.Module):
    """Each addition uses the result of the previous one, so that none is eliminated."""

    def forward(self, x, y):
        for _ in range(200):
            x = x + y
        return x


def main(path: Path) -> None:
    exported = torch.export.export(Adds(), (torch.zeros(4), torch.zeros(4)))
    path.write_bytes(to_edge(exported).to_executorch().buffer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
