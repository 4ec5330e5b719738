"""Writes the operator cases to data/operators and prints what they hold: export_operators.py [NAME]..."""

import re
import shutil
import sys
import warnings
from pathlib import Path

import executorch
import torch
from executorch.exir import to_edge  # noqa: F401  (defines the dim_order operators)

from exporter.collect import Collector
from exporter.operators import FAMILIES

OUTPUT = Path(__file__).parent / "data" / "operators"
OPTIMIZED_ONLY = {"linear.out"}


def registered() -> set[str]:
    """The names that ExecuTorch's functions.yaml registers, and those that only its optimized kernels have."""
    text = (Path(list(executorch.__path__)[0]) / "kernels/portable/functions.yaml").read_text()
    return set(re.findall(r"^- (?:op: |func: dim_order_ops::)([\w.]+)", text, re.MULTILINE)) | OPTIMIZED_ONLY


def main(bases: list[str]) -> None:
    """Collects all families, so that each case is the same whatever was asked for, and writes the asked operators."""
    torch.set_num_threads(1)
    collector = Collector(registered())
    for family in FAMILIES:
        collector.seed(family.__name__)
        family.collect(collector)
    if not bases:
        shutil.rmtree(OUTPUT, ignore_errors=True)
    sizes = collector.write(OUTPUT, set(bases))
    print("| operator | cases | bytes of its file |\n|---|---|---|")
    for name, cases in sorted(collector.cases.items()):
        if name.split(".")[0] in sizes:
            print(f"| {name} | {len(cases)} | {sizes[name.split('.')[0]]} |")
    print(f"\n{sum(sizes.values())} bytes in {len(sizes)} files, {sum(map(len, collector.cases.values()))} cases")
    print("left out, not registered:", ", ".join(sorted(collector.missing)))
    for name, why in sorted(collector.refused.items()):
        print(f"some dtypes refused by PyTorch: {name}: {why}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))
