"""Exports the language models of `afferent-bench generate`: Llama with 33 and 134 million random weights,
SmolLM2 135M and Qwen3 0.6B.

    python tools/bench/export_llama.py FOLDER [NAME]...

Needs torch and executorch. All programs have a KV cache of 512 tokens in mutable buffers,
`llama::custom_sdpa`, and a dynamic prompt length. Writes for each model NAME:

- `NAME.pte` without a delegate;
- `NAME_xnnpack.pte` with XNNPACK in fp32;
- `NAME_bf16.pte` with XNNPACK in fp32 and weights rounded to bf16, as in published models;
- `NAME_8da4w.pte` with XNNPACK, 4-bit weights in groups of 32, and 8-bit activations.

A NAME argument selects a model or a single file.
"""

import argparse
import pathlib
import sys
import tempfile

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "runtime" / "text" / "tests"))
import llama_export  # noqa: E402

SHAPES = {
    "llama_33m": dict(dim=512, n_layers=8, n_heads=8, n_kv_heads=8, hidden_dim=1344, vocab_size=8192, norm_eps=1e-5),
    "llama_134m": dict(dim=768, n_layers=12, n_heads=12, n_kv_heads=12, hidden_dim=2048, vocab_size=32000, norm_eps=1e-5),
    "smollm2_135m": dict(dim=576, n_layers=30, n_heads=9, n_kv_heads=3, hidden_dim=1536, vocab_size=49152, norm_eps=1e-5),
    "qwen3_0.6b": dict(dim=1024, n_layers=28, n_heads=16, n_kv_heads=8, head_dim=128, hidden_dim=3072,
                       vocab_size=151936, norm_eps=1e-6, use_qk_norm=True, qk_norm_before_rope=True,
                       rope_theta=1e6),
}
CONTEXT = 512
FORMS = {
    "": {},
    "_xnnpack": {"xnnpack": True},
    "_8da4w": {"xnnpack": True, "quantized": True},
    "_bf16": {"xnnpack": True},  # last, because it rounds the weights
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    wanted = lambda name, form: not arguments.names or {name, name + form} & set(arguments.names)
    for name, shape in SHAPES.items():
        torch.manual_seed(0)
        model = construct_transformer(ModelArgs(**shape, max_seq_len=CONTEXT, max_context_len=CONTEXT)).eval()
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            llama_export.save(model, shape, folder)
            for form, options in FORMS.items():
                if form == "_bf16":
                    llama_export.save(model.bfloat16().float(), shape, folder)
                if wanted(name, form):
                    target = arguments.folder.resolve() / f"{name}{form}.pte"
                    llama_export.export(folder, target, CONTEXT, 1, [2], custom=True, **options)


if __name__ == "__main__":
    main()
