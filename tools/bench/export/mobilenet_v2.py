"""Exports MobileNetV2 with random weights, without delegate, to be loaded by `afferent-bench load`: mobilenet_v2.py FOLDER

Writes mobilenet_v2.pte (14 MB), and mobilenet_v2_external.pte whose weights are in mobilenet_v2_external.ptd.
Needs the Python packages torch 2.13, torchvision 0.28 and executorch 1.5.1 (CPU).
"""

import sys
from pathlib import Path

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from torch.export import export
from torchvision.models import mobilenet_v2


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = mobilenet_v2(weights=None).eval()
    exported = export(model, (torch.randn(1, 3, 224, 224),))
    for name, external in [("mobilenet_v2", False), ("mobilenet_v2_external", True)]:
        program = to_edge(exported).to_executorch(ExecutorchBackendConfig(external_constants=external))
        (folder / f"{name}.pte").write_bytes(program.buffer)
        if external:
            program.write_tensor_data_to_file(str(folder))
            (data,) = set(folder.glob("*.ptd")) - {folder / f"{name}.ptd"}
            data.rename(folder / f"{name}.ptd")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
