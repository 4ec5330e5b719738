"""Exports the programs of `afferent-bench attention`: attention in two variants, and layer norm.

    python tools/bench/export_attention.py FOLDER

Needs torch and executorch. Attention has 8 heads of size 64, 512 keys, and 1, 128 or 512 queries,
without a mask. `sdpa_custom_*` uses `llama::custom_sdpa`. `sdpa_aten_*` uses
`scaled_dot_product_attention`, which the exporter decomposes. `layer_norm` has 128 rows of 768.

Writes for each program NAME: `NAME.pte`, `NAME_xnnpack.pte` with the supported partitions delegated
to XNNPACK, the inputs `NAME_0.npy` and so on, and the output of PyTorch, `NAME_output.npy`.
"""

import argparse
import pathlib

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (defines llama::custom_sdpa)

HEADS, WIDTH, KEYS = 8, 64, 512


class Custom(torch.nn.Module):
    """Layout [batch, position, head, dim]. The queries are the last positions."""

    def __init__(self, queries):
        super().__init__()
        self.start = KEYS - queries

    def forward(self, q, k, v):
        return torch.ops.llama.custom_sdpa(q, k, v, self.start, None, 0.0, False, None)


class Aten(torch.nn.Module):
    """Layout [batch, head, position, dim]."""

    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def export(folder, name, model, inputs, expected):
    for at, tensor in enumerate(inputs):
        np.save(folder / f"{name}_{at}.npy", tensor.numpy())
    np.save(folder / f"{name}_output.npy", expected.numpy())
    exported = torch.export.export(model.eval(), inputs)
    config = EdgeCompileConfig(_check_ir_validity=False)
    for suffix, partitioners in [("", None), ("_xnnpack", [XnnpackPartitioner()])]:
        edge = to_edge_transform_and_lower(exported, partitioner=partitioners, compile_config=config)
        if suffix and "delegate" not in str(edge.exported_program().graph):
            continue
        (folder / f"{name}{suffix}.pte").write_bytes(edge.to_executorch().buffer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    with torch.no_grad():
        for queries in (1, 128, 512):
            q, k, v = (torch.randn(1, HEADS, n, WIDTH) for n in (queries, KEYS, KEYS))
            expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            export(folder, f"sdpa_aten_{queries}", Aten(), (q, k, v), expected)
            swapped = tuple(x.transpose(1, 2).contiguous() for x in (q, k, v))
            export(folder, f"sdpa_custom_{queries}", Custom(queries), swapped, expected.transpose(1, 2).contiguous())
        model, x = torch.nn.LayerNorm(768), torch.randn(128, 768)
        torch.nn.init.normal_(model.weight)
        torch.nn.init.normal_(model.bias)
        export(folder, "layer_norm", model, (x,), model(x))


if __name__ == "__main__":
    main()
