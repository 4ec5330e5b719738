"""Writes the cases of exporter/recorded.py to data/operators and prints their numbers: export_recorded.py [FAMILY]..."""

import sys
import warnings
from pathlib import Path

import torch

from exporter import cortex_m, ordering, recorded, remaining
from exporter.record import Recorder

OUTPUT = Path(__file__).parent / "data" / "operators"
FAMILIES = [recorded.quantize, recorded.choose, recorded.embedding, recorded.arithmetic, recorded.fourier, recorded.complex_numbers, recorded.pools, recorded.gradients, *remaining.FAMILIES, *ordering.FAMILIES, *cortex_m.FAMILIES]


def main(names: list[str]) -> None:
    """Records the named families, or all, each with its own seed."""
    torch.set_num_threads(1)
    recorder = Recorder(recorded.NAMES)
    for seed, family in enumerate(FAMILIES):
        if names and family.__name__ not in names:
            continue
        torch.manual_seed(seed)
        family(recorder)
    recorder.write(OUTPUT)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
