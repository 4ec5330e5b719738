"""Decoders like Llama with caches of keys and values, compiled for Vulkan as ExecuTorch's export of Llama does."""

import copy

import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
from executorch.extension.llm.export.export_passes import RemoveRedundantTransposes
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.examples.models.llama.source_transformation.custom_kv_cache import replace_kv_cache_with_custom_kv_cache
from executorch.examples.models.llama.source_transformation.sdpa import replace_sdpa_with_custom_op
from torch.export import Dim, export
from torch.nn.attention import SDPBackend, sdpa_kernel

from .program import Case, Program
from .vulkan import NETWORKS

WORDS, CONTEXT = 64, 32
PREFILLS, SINGLE_TOKENS = (5, 1, 3), 20


def decoder(**options) -> torch.nn.Module:
    """Decoder with two layers and official operators for attention and its caches."""
    arguments = ModelArgs(
        dim=64, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=WORDS, hidden_dim=64, max_seq_len=CONTEXT, max_context_len=CONTEXT, use_kv_cache=True,
        use_sdpa_with_kv_cache_op=True, enable_dynamic_shape=True, **options,
    )
    model = construct_transformer(arguments).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 1.0 if weight.dim() == 1 else 0.0, 0.2)
    return replace_kv_cache_with_custom_kv_cache(replace_sdpa_with_custom_op(model))


def compiled(note: str, model: torch.nn.Module, rtol: float, options: dict | None = None) -> Program:
    """Decoder with one case for each of its steps: several tokens, single tokens, and the first steps of a new instance."""
    tokens = torch.randint(0, WORDS, (1, CONTEXT))
    inputs = lambda start, end: (tokens[:, start:end], {"input_pos": torch.tensor([start])})
    shapes = ({1: Dim("tokens", max=CONTEXT - 1)}, {"input_pos": {0: 1}})
    eager = copy.deepcopy(model)
    with sdpa_kernel([SDPBackend.MATH]), torch.no_grad():
        again = lambda module: export(module, inputs(0, 3), dynamic_shapes=shapes, strict=True).run_decompositions({})
        exported = again(RemoveRedundantTransposes()(again(model).module()).graph_module)
    partitioner = VulkanPartitioner({"require_dynamic_shapes": True, **(options or {})})
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner], compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True))
    planning = MemoryPlanningPass(alloc_graph_input=False)
    lowered = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning, sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass()))
    steps, at = [], 0
    for count in PREFILLS + (1,) * SINGLE_TOKENS:
        steps.append(Case(inputs(at, at + count), atol=0, rtol=0))
        at += count
    # A new instance has empty caches: the same tokens in other steps.
    steps += [Case(inputs(0, 7), atol=0, rtol=0, fresh=True), Case(inputs(7, 8), atol=0, rtol=0)]
    built = Program(note, eager, lowered, steps, backend="VulkanBackend")
    built.relative, built.quantum = rtol, 0.0
    return built


def quantized(config) -> torch.nn.Module:
    """The decoder with 4-bit weights in groups of 32."""
    from torchao.quantization.quant_api import quantize_

    model = decoder()
    quantize_(model, config)
    return model


def llama() -> Program:
    return compiled("decoder with caches", decoder(), 1e-5)


def llama_f16() -> Program:
    # The constants are in half precision: the weights of the module are those of the program.
    return compiled("the same in half precision", decoder().half().float(), 2e-3, {"force_fp16": True})


def llama_4w() -> Program:
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import IntxWeightOnlyConfig

    return compiled("the same with 4-bit weights", quantized(IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))), 1e-5)


def llama_8da4w() -> Program:
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
    return compiled("the same with 4-bit weights and dynamic int8 activations", quantized(config), 1e-5)


for made in (llama, llama_f16, llama_4w, llama_8da4w):
    NETWORKS[made.__name__] = made
