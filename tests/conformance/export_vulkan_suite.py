"""Exports the configurations of ExecuTorch's tests for Vulkan and WebGPU to data/vulkan_suite: export_vulkan_suite.py [SOURCE[.FAMILY]]..."""

import logging
import sys
import warnings
from pathlib import Path

import torch

from exporter import vulkan_suite

OUTPUT = Path(__file__).parent / "data" / "vulkan_suite"


def main(wanted: list[str]) -> None:
    """Exports the named sources or families, or all of them, and prints their numbers of configurations."""
    torch.set_num_threads(1)
    for source in vulkan_suite.SOURCES:
        names = {x.split(".", 1)[1] for x in wanted if x.startswith(f"{source}.")}
        if wanted and source not in wanted and not names:
            continue
        for family, made in vulkan_suite.families(source, names):
            size = vulkan_suite.write(made, OUTPUT / f"{source}_{family}.json.gz")
            exported = {x["of"] for entry in made if "cases" in entry for x in entry["cases"][0]["expected"]}
            refused = [entry for entry in made if "refused" in entry]
            print(f"{source}_{family}: {len(exported)} of {len(exported) + len(refused)} configurations, {size} bytes", flush=True)
            for entry in refused:
                print(f"  {entry['program']}: {entry['refused']}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main(sys.argv[1:])
