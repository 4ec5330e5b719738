"""Exports networks compiled for Vulkan to data/vulkan and prints their sizes: export_vulkan.py [NAME]..."""

import json
import logging
import sys
import warnings
from pathlib import Path

import torch

from exporter.program import write
import exporter.vulkan_llama  # noqa: F401 (registers its programs)
import exporter.vulkan_operators  # noqa: F401 (registers its programs)
import exporter.vulkan_training  # noqa: F401 (registers its programs)
from exporter.vulkan import NETWORKS, build

OUTPUT = Path(__file__).parent / "data" / "vulkan"


def main(names: list[str]) -> int:
    """Builds and writes the named networks, or all of them."""
    torch.set_num_threads(1)
    failed = 0
    for name in names or list(NETWORKS):
        try:
            built = build(name)
            write(built, OUTPUT / name, is_inline=len(built.cases) > 5)
        except Exception as error:
            failed += 1
            print(f"{name}: NOT EXPORTED: {type(error).__name__}: {str(error)[:300]}", flush=True)
            if len(names) == 1:
                raise
            continue
        if built.quantum:
            path = OUTPUT / name / "cases.json"
            text = json.loads(path.read_text())
            for case in text["cases"]:
                case |= {"atol": 0.0, "quantum": built.quantum}
            path.write_text(json.dumps(text) + "\n")
        delegates = sum(len(plan.delegates) for plan in built.lowered.executorch_program.execution_plan)
        print(f"{name}: {len(built.pte)} bytes, {delegates} delegates", flush=True)
    return failed


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    sys.exit(main(sys.argv[1:]))
