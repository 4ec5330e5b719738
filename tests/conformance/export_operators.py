"""Writes the operator cases to data/operators and prints a table of them: export_operators.py [NAME]..."""

import re
import shutil
import sys
import warnings
from pathlib import Path

import executorch
import torch
from executorch.exir import to_edge  # noqa: F401  (defines the dim_order operators)
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (defines llama and preprocess)

from exporter.collect import Collector, base_name
from exporter.operators import FAMILIES

OUTPUT = Path(__file__).parent / "data" / "operators"
OPTIMIZED_ONLY = {"linear.out"}
LANGUAGE_MODELS = {
    "llama::custom_sdpa.out", "llama::custom_quantized_sdpa.out", "llama::sdpa_with_kv_cache.out", "llama::update_cache.out",
    "llama::update_cache_with_indices.out", "llama::fast_hadamard_transform.out", "llama::quantized_moe_ffn.out", "llama::gated_delta_rule.out",
    "llama::channelwise_gated_delta_rule.out", "llama::fallback.out", "preprocess::tile_crop.out",
}


def registered() -> set[str]:
    """Operators of ExecuTorch's functions.yaml, of its optimized kernels and of its extension for language models."""
    text = (Path(list(executorch.__path__)[0]) / "kernels/portable/functions.yaml").read_text()
    return set(re.findall(r"^- (?:op: |func: dim_order_ops::)([\w.]+)", text, re.MULTILINE)) | OPTIMIZED_ONLY | LANGUAGE_MODELS


def main(bases: list[str]) -> None:
    """Collects all families, which keeps the cases independent of `bases`, and writes the operators in `bases`, or all."""
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
        if base_name(name) in sizes:
            print(f"| {name} | {len(cases)} | {sizes[base_name(name)]} |")
    print(f"\n{sum(sizes.values())} bytes in {len(sizes)} files, {sum(map(len, collector.cases.values()))} cases")
    print("skipped, not registered:", ", ".join(sorted(collector.missing)))
    for name, why in sorted(collector.rejected.items()):
        print(f"some dtypes rejected by PyTorch: {name}: {why}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))
