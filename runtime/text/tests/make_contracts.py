"""Exports a tiny Llama with random weights once for each supported program interface.

    python runtime/text/tests/make_contracts.py

Needs torch and executorch. Writes the programs `tests/data/contract_*.pte`. Also writes
`tests/data/contracts.json`, the result of greedy decoding in PyTorch, in fp32 and without KV cache.
"""

import json
import pathlib
import random
import tempfile

import llama_export
import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.exir import ExecutorchBackendConfig, EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass

DATA = pathlib.Path(__file__).parent / "data"
CONTEXT, VOCABULARY = 24, 48
SHAPE = dict(dim=16, n_layers=1, n_heads=2, n_kv_heads=1, hidden_dim=32, vocab_size=VOCABULARY, norm_eps=1e-5)
FORMS = {
    "aten": {},
    "custom": {"custom": True},
    "static": {"dynamic": False},
    "no_cache": {"cache": False},
    "all_logits": {"full": True},
    "f16": {"dtype": "fp16"},
    "bf16": {"dtype": "bf16"},
}


def build(**more):
    torch.manual_seed(1)
    args = ModelArgs(**SHAPE, max_seq_len=CONTEXT, max_context_len=CONTEXT, generate_full_logits=True, **more)
    model = construct_transformer(args).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    torch.nn.init.normal_(model.tok_embeddings.weight)
    return model


class Positions(torch.nn.Module):
    """Interface of Hugging Face exports: one position for each token, and logits of all tokens."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, cache_position):
        return self.model(input_ids, {"input_pos": cache_position[:1]})


def export_positions(target, weights):
    model = build(use_kv_cache=True, enable_dynamic_shape=True)
    model.load_state_dict(weights, strict=False)
    count = torch.export.Dim("count", min=1, max=CONTEXT - 1)
    inputs = (torch.zeros(1, 3, dtype=torch.long), torch.arange(3))
    with torch.no_grad():
        exported = torch.export.export(Positions(model), inputs, dynamic_shapes=({1: count}, {0: count}))
    methods = {
        "get_max_seq_len": CONTEXT, "get_bos_id": 1, "get_eos_ids": [2], "get_vocab_size": VOCABULARY,
        "use_kv_cache": True, "enable_dynamic_shape": True,
    }
    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge_transform_and_lower(exported, constant_methods=methods, compile_config=config)
    planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    target.write_bytes(edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning)).buffer)
    print(f"{target.name}: {target.stat().st_size} bytes", flush=True)


def expected():
    """Greedy decoding in PyTorch. In half precision, stops where rounding could change the token."""
    rng, cases = random.Random(3), {}
    prompts = [[1] + [rng.randrange(3, VOCABULARY) for _ in range(length)] for length in (0, 1, 4, 12)]
    for name, dtype, margin in [("fp32", torch.float32, 0.0), ("fp16", torch.float16, 0.02), ("bf16", torch.bfloat16, 0.2)]:
        rounded = build().to(dtype).float()
        cases[name] = [
            {"prompt": prompt, "tokens": llama_export.greedy(rounded, prompt, set(), CONTEXT - len(prompt), margin)}
            for prompt in prompts
        ]
    return cases


def main():
    model = build()
    (DATA / "contracts.json").write_text(json.dumps(expected()) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        llama_export.save(model, SHAPE, folder)
        for name, options in FORMS.items():
            target = DATA / f"contract_{name}.pte"
            llama_export.export(folder, target, CONTEXT, 1, [2], **options)
    export_positions(DATA / "contract_positions.pte", model.state_dict())


if __name__ == "__main__":
    main()
