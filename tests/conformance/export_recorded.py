"""Writes the cases of exporter/recorded.py to data/operators and prints how many there are: export_recorded.py"""

import warnings
from pathlib import Path

import torch

from exporter import recorded
from exporter.record import Recorder

OUTPUT = Path(__file__).parent / "data" / "operators"
FAMILIES = [recorded.quantize, recorded.choose, recorded.embedding, recorded.arithmetic, recorded.fourier, recorded.complex_numbers, recorded.pools, recorded.gradients]


def main() -> None:
    """Records all families, each from its own seed."""
    torch.set_num_threads(1)
    recorder = Recorder(recorded.NAMES)
    for seed, family in enumerate(FAMILIES):
        torch.manual_seed(seed)
        family(recorder)
    recorder.write(OUTPUT)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
