"""Exports Llama checkpoints with `executorch.extension.llm.export`, and runs them in PyTorch."""

import json
import os
import pathlib
import shutil
import tempfile

import torch
from executorch.examples.models.llama.export_llama_lib import export_llama
from executorch.extension.llm.export.config.llm_config import LlmConfig, DtypeOverride, ModelType


def greedy(model, tokens, until, limit, margin=0.0):
    """Greedy decoding after `tokens`, with a model without KV cache that returns logits of all positions.

    Stops before a token whose logit exceeds the second-best logit by at most `margin`.
    """
    tokens, found = list(tokens), []
    with torch.no_grad():
        while len(found) < limit:
            best = model(torch.tensor([tokens]))[0, -1].topk(2)
            if best.values[0] - best.values[1] <= margin:
                break
            token = int(best.indices[0])
            tokens.append(token)
            found.append(token)
            if token in until:
                break
    return found


def save(model, shape, folder):
    """Saves a checkpoint in the format of the official export."""
    (folder / "params.json").write_text(json.dumps(shape))
    torch.save(model.state_dict(), folder / "checkpoint.pth")


def export(folder, target, context, begin, end, *, cache=True, custom=False, dynamic=True, full=False, dtype="fp32", xnnpack=False, quantized=False, vulkan=False):
    """Exports the checkpoint in `folder` to the program `target`."""
    config = LlmConfig()
    config.base.model_class = ModelType.llama2
    config.base.params = str(folder / "params.json")
    config.base.checkpoint = str(folder / "checkpoint.pth")
    config.base.metadata = json.dumps({"get_bos_id": begin, "get_eos_ids": end})
    config.model.use_kv_cache = cache
    config.model.use_sdpa_with_kv_cache = custom
    config.model.enable_dynamic_shape = dynamic
    config.model.dtype_override = DtypeOverride(dtype)
    config.debug.generate_full_logits = full
    config.export.max_seq_length = config.export.max_context_length = context
    config.backend.xnnpack.enabled = config.backend.xnnpack.extended_ops = xnnpack
    config.backend.vulkan.enabled = config.backend.vulkan.force_fp16 = vulkan
    if quantized:
        config.quantization.qmode = "8da4w"
        config.quantization.group_size = 32
        config.quantization.use_hqq = False
        config.quantization.embedding_quantize = "4,32"
    with tempfile.TemporaryDirectory() as written:
        config.export.output_dir = written
        config.export.output_name = target.name
        before = os.getcwd()
        os.chdir(written)
        try:
            export_llama(config)
        finally:
            os.chdir(before)
        found = next(path for path in pathlib.Path(written).rglob("*.pte"))
        shutil.move(found, target)
    print(f"{target.name}: {target.stat().st_size} bytes", flush=True)
