"""Programs with all dtypes."""

import torch
from torch import nn

from ..program import program, simple


def float_program(dtype, atol, rtol):
    """Small network with one floating-point dtype."""
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4), nn.Softmax(dim=-1)).to(dtype)
    return simple(f"a small network in {dtype}", model, (torch.randn(3, 6).to(dtype),), atol=atol, rtol=rtol)


@program
def network_bf16():
    """A network in bf16."""
    return float_program(torch.bfloat16, 1e-2, 1.6e-2)


@program
def network_f16():
    """A network in f16."""
    return float_program(torch.float16, 2e-3, 2e-3)


@program
def network_f64():
    """A network in f64."""
    return float_program(torch.float64, 1e-7, 1e-7)


def integers(dtype):
    """Wrapping arithmetic with one integer dtype."""
    def compute(x, y):
        return x + y, x * y - 3, torch.maximum(x, y), x.sum(), x > y, torch.where(x > y, x, y), x.to(torch.float32) / 3, x // 3
    low, high = (0, 256) if dtype == torch.uint8 else (-128, 128)
    x, y = torch.randint(low, high, (2, 9), dtype=dtype), torch.randint(low, high, (2, 9), dtype=dtype)
    return simple(f"arithmetic of {dtype}, wrapping over", compute, (x, y), atol=1e-6)


@program
def int_u8():
    """Arithmetic of u8."""
    return integers(torch.uint8)


@program
def int_i8():
    """Arithmetic of i8."""
    return integers(torch.int8)


@program
def int_i16():
    """Arithmetic of i16."""
    return integers(torch.int16)


@program
def int_i32():
    """Arithmetic of i32."""
    return integers(torch.int32)


@program
def int_i64():
    """Arithmetic of i64."""
    return integers(torch.int64)


@program
def bools():
    """Logic."""
    def compute(x, y):
        return x & y, x | y, ~x, torch.logical_xor(x, y), x.any(), x.all(), x.sum(), torch.where(x, 1.5, 2.5)
    return simple("logic of bool tensors", compute, (torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])))


@program
def mixed():
    """Type promotion."""
    def compute(i, f, h, b):
        return i + f, f * h, i * b, i / 2, i * 2.5, b + 1, h + 1.5, torch.cat([i.to(torch.float32), f])
    return simple("promotion between i32, f32, f16 and bool", compute,
                  (torch.tensor([1, -2, 3], dtype=torch.int32), torch.randn(3), torch.randn(3).half(), torch.tensor([True, False, True])), atol=1e-3, rtol=1e-3)
