"""Programs of one Vulkan operator each, for operators that no network of `vulkan.py` uses."""

import torch
from torch import nn

from .vulkan import NETWORKS, compiled


class One(nn.Module):
    """Calls a function with the inputs and then its constants."""

    def __init__(self, function, constants):
        super().__init__()
        self.function = function
        for index, constant in enumerate(constants):
            self.register_buffer(f"constant_{index}", constant)

    def forward(self, *inputs):
        return self.function(*inputs, *self.buffers())


def operator(name, inputs, constants=(), quantum=0.0, rtol=1e-5):
    """Decorator: registers a function of inputs and constants, which `inputs` and `constants` make."""

    def register(function):
        def build():
            made = constants() if callable(constants) else constants
            return compiled(f"operator {name}", One(function, made), inputs(), quantum=quantum, rtol=rtol)

        NETWORKS[f"op_{name}"] = build
        return function

    return register


def nibbles(*sizes):
    """Random packed weights of four bits."""
    return torch.randint(0, 256, sizes, dtype=torch.uint8)


et_vk, decomposed = torch.ops.et_vk, torch.ops.quantized_decomposed


@operator("rotary", lambda: (torch.randn(1, 5, 2, 8), torch.randn(1, 5, 1, 8)), lambda: (torch.randn(5, 4), torch.randn(5, 4)))
def rotary(q, k, cosines, sines):
    return et_vk.apply_rotary_emb(q, k, cosines, sines)


@operator("rotary_hf", lambda: (torch.randn(1, 3, 2, 8), torch.randn(1, 3, 1, 8)), lambda: (torch.randn(9, 8), torch.randn(9, 8)))
def rotary_hf(q, k, cosines, sines):
    return et_vk.apply_rotary_emb_hf(q, k, cosines, sines, 2)


@operator("rotary_interleaved", lambda: (torch.randn(2, 6, 8),), lambda: (torch.randn(1, 6, 4, 2),))
def rotary_interleaved(x, angles):
    return et_vk.apply_rotary_emb_interleaved(x, angles)


@operator("sdpa", lambda: (torch.randn(1, 2, 5, 8), torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8), torch.randn(1, 1, 5, 7)))
def sdpa(q, k, v, mask):
    return et_vk.sdpa(q, k, v, mask, 0.3)


@operator("embedding_4bit", lambda: (torch.randint(0, 10, (2, 3)),), lambda: (nibbles(10, 16), torch.rand(10, 2) + 0.1))
def embedding_4bit(indices, weight, scales):
    return decomposed.embedding_4bit.dtype(weight, scales, None, -8, 7, indices, dtype=torch.float32)


@operator("embedding_q4gsw", lambda: (torch.randint(0, 10, (2, 3)),), lambda: (nibbles(10, 32), torch.rand(10, 2) + 0.1))
def embedding_q4gsw(indices, weight, scales):
    return et_vk.embedding_q4gsw(weight, scales, 32, indices, False)


@operator("embedding_q4gsw_linear", lambda: (torch.randint(0, 10, (2, 3)),), lambda: (nibbles(10, 32), torch.rand(10, 2) + 0.1))
def embedding_q4gsw_linear(indices, weight, scales):
    return et_vk.embedding_q4gsw(weight, scales, 32, indices, True)


@operator("addmm", lambda: (torch.randn(5), torch.randn(3, 4), torch.randn(4, 5)))
def addmm(bias, a, b):
    return torch.addmm(bias, a, b, beta=0.5, alpha=2.0)


@operator("q8ta_relu", lambda: (torch.randn(1, 4, 6, 6),), quantum=0.015 / 2)
def q8ta_relu(x):
    x = decomposed.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8)
    return decomposed.dequantize_per_tensor(et_vk.q8ta_relu(x, 0.02, 3, 0.015, -128), 0.015, -128, -128, 127, torch.int8)


@operator("q8ta_pixel_shuffle", lambda: (torch.randn(1, 8, 3, 5),), quantum=0.03 / 2)
def q8ta_pixel_shuffle(x):
    x = decomposed.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8)
    y = et_vk.q8ta_pixel_shuffle(x, 0.02, 3, 1 / 0.03, -5, 2)
    return decomposed.dequantize_per_tensor(y, 0.03, -5, -128, 127, torch.int8)


@operator("div_mode", lambda: (torch.randn(3, 4) * 5, torch.rand(3, 4) + 0.5))
def div_mode(a, b):
    return torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc")


@operator("batch_norm", lambda: (torch.randn(1, 4, 5, 5),), lambda: (torch.randn(4), torch.randn(4), torch.randn(4), torch.rand(4) + 0.5))
def batch_norm(x, weight, bias, mean, variance):
    return torch.ops.aten._native_batch_norm_legit_no_training(x, weight, bias, mean, variance, 0.1, 1e-5)[0]


@operator("affine_channel", lambda: (torch.randn(4, 8),), lambda: (torch.rand(4) * 0.1 + 0.01, torch.randint(-5, 5, (4,), dtype=torch.int32)))
def affine_channel(x, scales, zeros):
    from torchao.quantization.quant_primitives import quantize_affine

    y = quantize_affine(x, (1, 8), scales, zeros, torch.int8, -128, 127)
    return y


@operator("affine_tensor", lambda: (torch.randn(3, 8),), lambda: (torch.tensor([0.03]), torch.tensor([2], dtype=torch.int32)))
def affine_tensor(x, scale, zero):
    from torchao.quantization.quant_primitives import quantize_affine

    y = quantize_affine(x, (3, 8), scale, zero, torch.int8, -128, 127)
    return y


@operator("per_channel", lambda: (torch.randn(4, 8),), lambda: (torch.rand(4) * 0.1 + 0.01, torch.randint(-5, 5, (4,), dtype=torch.int64)))
def per_channel(x, scales, zeros):
    y = decomposed.quantize_per_channel(x, scales, zeros, 0, -128, 127, torch.int8)
    return y


@operator("per_token", lambda: (torch.randn(4, 8),))
def per_token(x):
    scales, zeros = decomposed.choose_qparams_per_token_asymmetric(x, torch.int8)
    y = decomposed.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
    return y


@operator("choose_qparams", lambda: (torch.randn(4, 8),))
def choose_qparams(x):
    scale, zero = decomposed.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
    y = decomposed.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
    return y


def int8(*sizes):
    return torch.randint(-128, 128, sizes, dtype=torch.int8)


@operator("dequantize_affine", lambda: (int8(4, 8),), lambda: (torch.rand(4) * 0.1 + 0.01, torch.randint(-5, 5, (4,), dtype=torch.int32)))
def dequantize_affine_channel(x, scales, zeros):
    from torchao.quantization.quant_primitives import dequantize_affine

    return dequantize_affine(x, (1, 8), scales, zeros, torch.int8, -128, 127)


@operator("dequantize_channel", lambda: (int8(4, 8),), lambda: (torch.rand(4) * 0.1 + 0.01, torch.randint(-5, 5, (4,), dtype=torch.int64)))
def dequantize_channel(x, scales, zeros):
    return decomposed.dequantize_per_channel(x, scales, zeros, 0, -128, 127, torch.int8)


@operator("dequantize_token", lambda: (int8(4, 8), torch.rand(4, 1) * 0.1 + 0.01, torch.randint(-5, 5, (4, 1), dtype=torch.int32)))
def dequantize_token(x, scales, zeros):
    return decomposed.dequantize_per_token(x, scales, zeros, -128, 127, torch.int8, torch.float32)


@operator("dequantize_tensor", lambda: (int8(4, 8), torch.tensor([0.03]), torch.tensor([5], dtype=torch.int32)))
def dequantize_tensor(x, scale, zero):
    return decomposed.dequantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)


def signed_nibbles(*sizes):
    return torch.randint(-8, 8, sizes, dtype=torch.int8)


class Quantized(nn.Module):
    """Linear with quantized weights in place of those of the module."""

    def __init__(self, weight, bias=None, scale=None):
        super().__init__()
        self.weight, self.scales = nn.Parameter(weight, requires_grad=False), nn.Parameter(torch.rand(len(weight)) * 0.01 + 0.001)
        self.zeros, self.bias = nn.Parameter(torch.zeros(len(weight), dtype=torch.int64), requires_grad=False), bias and nn.Parameter(torch.randn(len(weight)))
        self.scale = scale

    def forward(self, x):
        if self.scale:
            x = decomposed.quantize_per_tensor(x, self.scale, 3, -128, 127, torch.int8)
            x = decomposed.dequantize_per_tensor(x, self.scale, 3, -128, 127, torch.int8)
        weight = decomposed.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        return nn.functional.linear(x, weight, self.bias)


def quantized_linear(name, *arguments, rows=3):
    """Registers a linear with quantized weights."""
    NETWORKS[f"op_{name}"] = lambda: compiled(f"operator {name}", Quantized(arguments[0](12, 32), *arguments[1:]), (torch.randn(rows, 32),))


quantized_linear("int8pack_mm", int8)
quantized_linear("int8pack_mm_bias", int8, True, rows=1)
quantized_linear("linear_qcs4w", signed_nibbles)
quantized_linear("linear_qcs4w_bias", signed_nibbles, True, rows=1)
quantized_linear("linear_q8ta_q8csw", int8, None, 0.02)
quantized_linear("linear_q8ta_q8csw_bias", int8, True, 0.02, rows=1)


class Cache(nn.Module):
    """Writes a value to a cache and reads the cache."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 8, 2, 4))

    def forward(self, value, position):
        start = position[0].item()
        torch._check(start >= 0)
        torch.ops.llama.update_cache(value, self.cache, start)
        return self.cache * 2


def update_cache():
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401 (registers the operator)

    inputs = [(torch.randn(1, 2, 2, 4), torch.tensor([at])) for at in (0, 4, 1)]
    return compiled("operator update_cache", Cache(), *inputs)


NETWORKS["op_update_cache"] = update_cache
