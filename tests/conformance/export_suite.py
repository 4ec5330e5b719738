"""Exports ExecuTorch's operator suite to data/suite, its XNNPACK flows to data/xnnpack..., and whole models to data/models: export_suite.py [NAME]..."""

import logging
import sys
import warnings
from functools import partial
from pathlib import Path

import torch

from exporter import models, suite, xnnpack_extra
from exporter.exported import use_grid, write

DATA = Path(__file__).parent / "data"


def main(names: list[str]) -> None:
    """Exports the named archives or folders, such as `suite/add` or `models`, or all. Prints export errors and differences of the official runtime."""
    torch.set_num_threads(1)
    use_grid()
    total = 0
    archives = {f"suite/{module.removeprefix('test_')}": partial(suite.collect, module) for module in suite.modules()}
    for flow in suite.DELEGATED:
        archives |= {f"{flow.name}/{module.removeprefix('test_')}": partial(suite.collect_delegated, module, flow) for module in suite.modules()}
    archives |= {f"xnnpack_extra/{name}": make for name, make in xnnpack_extra.ARCHIVES.items()}
    archives |= {f"models/{name}": make for name, make in models.ARCHIVES.items()}
    for path, make in archives.items():
        if names and path not in names and path.split("/")[0] not in names:
            continue
        made = make()
        exported = [x for x in made if "failed" not in x]
        size = write(made, DATA / f"{path}.json.gz") if exported else 0
        total += len(exported)
        print(f"{path}: {len(exported)} of {len(made)} programs, {size} bytes", flush=True)
        for x in made:
            if text := x.get("why") or x.get("official"):
                print(f"  {x['name']}: {x.get('failed', 'official runtime')}: {text}", flush=True)
    print(f"{total} programs")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main(sys.argv[1:])
