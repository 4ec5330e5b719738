"""Cases of quantization, Fourier transforms, complex numbers, gradients, and pools that the official runtime lacks."""

import itertools

import torch
from executorch.exir.passes import _quant_patterns_and_replacements  # noqa: F401  (defines the embeddings)
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (defines quantized_decomposed)

from .record import Out, Recorder

QUANTIZED, ATEN = torch.ops.quantized_decomposed, torch.ops.aten
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, U8, I16, U16, I32, I64 = torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.int64
C32, C64, C128 = torch.complex32, torch.complex64, torch.complex128
NAMES = {F16: "f16", BF16: "bf16", F32: "f32", F64: "f64", I8: "i8", U8: "u8", I16: "i16", U16: "u16", I32: "i32", I64: "i64", C32: "c32", C64: "c64", C128: "c128", torch.bool: "bool"}
RANGES = {I8: (-128, 127), U8: (0, 255), I16: (-32768, 32767), U16: (0, 65535), I32: (-(2**31), 2**31 - 1)}
TOLERANCE = {F16: {"atol": 1e-4, "rtol": 2e-3}, BF16: {"atol": 1e-3, "rtol": 1.6e-2}, F32: {"atol": 1e-5, "rtol": 1e-5}, F64: {"atol": 1e-11, "rtol": 1e-10}}
SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 0.25, 0.75, -0.25, 1e30, -1e30, 1.0])


def random(*shape, dtype=F32, low=-3.0, high=3.0):
    """Random tensor."""
    if dtype.is_complex:
        return torch.complex(random(*shape, dtype=F64), random(*shape, dtype=F64)).to(dtype)
    if dtype.is_floating_point:
        return (torch.rand(shape, dtype=F64) * (high - low) + low).to(dtype)
    low, high = RANGES[dtype]
    return torch.randint(max(low, -1000), min(high, 1000) + 1, shape).to(dtype)


def quantize(c: Recorder):
    """quantize_* and dequantize_*, per tensor, per channel and per token."""
    name = "quantized_decomposed::quantize_per_"
    for dtype, (low, high) in RANGES.items():
        safe = (low, min(high, 2**24))
        # The cast of NaN to i32 depends on the processor.
        x = torch.cat([random(20, low=-9, high=9), SPECIAL[dtype == I32 :]])
        for scale, zero, source in [(0.1, 3, F32), (0.5, 0, F16), (0.037, 11, BF16)]:
            args = (x.to(source), scale, zero, *safe, dtype)
            c(name + "tensor.out", *args, Out(QUANTIZED.quantize_per_tensor(*args)))
    args = (random(2, 3), torch.tensor([0.1], dtype=F64), torch.tensor([4]), -20, 20, I8)
    c(name + "tensor.Tensor_out", *args, Out(QUANTIZED.quantize_per_tensor(*args)))
    for shape, axis in [((3, 4), 0), ((3, 4), 1), ((2, 3, 2, 2), 1), ((5,), 0), ((2, 0, 3), 1), ((2, 3, 2), -1)]:
        n = shape[axis]
        scales, zeros = torch.rand(n, dtype=F64) + 0.01, torch.randint(-5, 6, (n,))
        args = (random(*shape), scales, zeros, axis, -100, 100, I8)
        c(name + "channel.out", *args, Out(QUANTIZED.quantize_per_channel(*args)))
        q = random(*shape, dtype=I8)
        for some, out in [(zeros, None), (None, None), (zeros, F16), (zeros, F64)]:
            args = (q, scales, some, axis, -128, 127, I8)
            c("quantized_decomposed::dequantize_per_channel.out", *args, out, Out(QUANTIZED.dequantize_per_channel(*args, out_dtype=out)), **({"rtol": 1e-3} if out == F16 else {}))
    x = random(2, 3, 2, 4).contiguous(memory_format=torch.channels_last)
    args = (x, torch.tensor([0.1, 0.2, 0.3], dtype=F64), torch.tensor([0, 1, 2]), 1, 0, 255, U8)
    c(name + "channel.out", *args, Out(QUANTIZED.quantize_per_channel(*args), [0, 2, 3, 1]), note="channels_last")
    for shape in [(3, 5), (2, 2, 4), (4,), (0, 3)]:
        scales, zeros = torch.rand((*shape[:-1], 1), dtype=F64) + 0.01, torch.randint(-5, 6, (*shape[:-1], 1))
        for source in (F32, F16):
            args = (random(*shape, dtype=source), scales, zeros, -128, 127, I8)
            c(name + "token.out", *args, Out(QUANTIZED.quantize_per_token(*args)))
        args = (random(*shape, dtype=I8), scales, zeros, -128, 127, I8, F32)
        c("quantized_decomposed::dequantize_per_token.out", *args, Out(QUANTIZED.dequantize_per_token(*args)))
    name = "quantized_decomposed::dequantize_per_tensor"
    for dtype, out in itertools.product(RANGES, (None, F16, BF16, F64)):
        args = (random(9, dtype=dtype), 0.1, 7, *RANGES[dtype], dtype)
        c(name + ".out", *args, out, Out(QUANTIZED.dequantize_per_tensor(*args, out_dtype=out)))
    args = (random(2, 3, dtype=U8), torch.tensor([0.1], dtype=F64), torch.tensor([4]), 0, 255, U8)
    c(name + ".Tensor_out", *args, None, Out(QUANTIZED.dequantize_per_tensor(*args)))


def choose(c: Recorder):
    """choose_qparams."""
    inputs = [random(3, 5), random(4, low=1, high=5), random(4, low=-5, high=-1), torch.zeros(3), torch.tensor([1e-9, 0.0]), random(2, 3, dtype=F16), random(2, 3, dtype=BF16), random(1, 7, low=-1e3)]
    for x in inputs:
        for low, high in ((-128, 127), (0, 255), (0, 15)):
            scale, zero = QUANTIZED.choose_qparams(x, low, high, 1e-5, I8)
            c("quantized_decomposed::choose_qparams.Tensor_out", x, low, high, 1e-5, I8, Out(scale), Out(zero))
        scale, zero = QUANTIZED.choose_qparams_per_token_asymmetric(x, I8)
        c("quantized_decomposed::choose_qparams_per_token_asymmetric.out", x, I8, Out(scale), Out(zero))


def embedding(c: Recorder):
    """Embeddings with 8, 4 and 2 bits."""
    for name, dtype, bits in [("embedding_byte", I8, 8), ("embedding_byte", U8, 8), ("embedding_4bit", U8, 4), ("embedding_2bit", U8, 2)]:
        low, high = (0, 255) if dtype == U8 and bits == 8 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for groups, params in [(1, F32), (2, F32), (4, F16), (1, BF16)]:
            weight = random(5, 8 * bits // 8, dtype=dtype)
            shape = (5,) if groups == 1 else (5, groups)
            scales = random(*shape, dtype=params, low=0.1, high=1)
            for zeros in (None, random(*shape, dtype=params).round()):
                if bits == 8 and zeros is None and dtype == U8:
                    continue
                for indices in (torch.tensor([4, 0, 2]), torch.tensor([[1, 1], [3, 0]])):
                    args = (weight, scales, zeros, low, high, indices)
                    op = getattr(QUANTIZED, name)
                    tolerance = TOLERANCE[params]
                    c(f"quantized_decomposed::{name}.out", *args, Out(op(*args)), **tolerance)
                args = (weight, scales, zeros, low, high, torch.tensor([[1, 1], [3, 0]]))
                c(f"quantized_decomposed::{name}.dtype_out", *args, F32, Out(op(*args, dtype=F32)), **tolerance)


def arithmetic(c: Recorder):
    """add, mixed_mm and mixed_linear, computed from their definitions: PyTorch has only the schemas."""
    for dtype, shapes in itertools.product((U8, I8, I16, I32, I64), [((5,), (5,)), ((2, 3), (3,))]):
        a, b = (random(*shape, dtype=I8 if dtype == I64 else dtype).abs().to(dtype) % 100 for shape in shapes)
        total = (a.double() - 3).mul(0.5).float() + (b.double() - 1).mul(0.25).float()
        result = (torch.round(total * 4) + 2).clamp(0, 120).to(dtype)
        c("quantized_decomposed::add.out", a, 0.5, 3, 0, 127, b, 0.25, 1, 0, 127, 0.25, 2, 0, 120, Out(result))
    for dtype in (F32, F16, BF16, F64):
        x, weight = random(3, 7, dtype=dtype), random(7, 5, dtype=I8)
        scales = random(7, dtype=dtype, low=0.01, high=0.1)
        tolerance = {"rtol": TOLERANCE[dtype]["rtol"], "atol": 1e-3 if dtype == F64 else 0.3 if dtype == BF16 else 0.05 if dtype == F16 else 1e-4}
        c("quantized_decomposed::mixed_mm.out", x, weight, scales, None, Out((x.double() @ (weight.double() * scales.double()[:, None])).to(dtype)), **tolerance)
        weight = random(5, 7, dtype=I8)
        for shape in ((5,), (5, 2), (5, 7)):
            scales = random(*shape, dtype=dtype, low=0.01, high=0.1)
            wide = scales.double()[:, None] if len(shape) == 1 else scales.double().repeat_interleave(-(-7 // shape[1]), 1)[:, :7]
            c("quantized_decomposed::mixed_linear.out", x, weight, scales, None, None, Out((x.double() @ (weight.double() * wide).T).to(dtype)), **tolerance)


def fourier(c: Recorder):
    """_fft_r2c and _fft_c2r."""
    for dtype, tolerance in ((F32, {"atol": 2e-5, "rtol": 1e-4}), (F64, {"atol": 1e-11, "rtol": 1e-10})):
        shapes = [((n,), [0]) for n in (1, 2, 3, 4, 8, 12, 17, 30, 37, 64)] + [((3, 4, 5), d) for d in ([0], [1], [2], [0, 1], [2, 0], [0, 1, 2])]
        for shape, dims in shapes:
            if dtype == F64 and len(shape) > 2:
                continue
            x = random(*shape, dtype=dtype)
            for norm, onesided in [(0, True), (1, True), (2, False)]:
                y = ATEN._fft_r2c(x, dims, norm, onesided).contiguous()
                c("aten::_fft_r2c.out", x, dims, norm, onesided, Out(y), **tolerance)
            half = random(*ATEN._fft_r2c(x, dims, 0, True).shape, dtype=C64 if dtype == F32 else C128)
            for norm in (0, 1, 2):
                y = ATEN._fft_c2r(half.clone(), dims, norm, shape[dims[-1]]).contiguous()
                c("aten::_fft_c2r.out", half, dims, norm, shape[dims[-1]], Out(y), **tolerance)


def complex_numbers(c: Recorder):
    """Arithmetic with complex numbers."""
    for dtype, part in ((C64, F32), (C128, F64)):
        a, b, tolerance = random(2, 3, dtype=dtype), random(3, dtype=dtype), TOLERANCE[part]
        c("aten::add.out", a, b, 2, Out(a + 2 * b), **tolerance)
        c("aten::mul.out", a, b, Out(a * b), **tolerance)
        c("aten::div.out", a, b, Out(a / b), **tolerance)
        c("aten::abs.out", a, Out(a.abs()), **tolerance)
        c("aten::_conj_physical.out", a, Out(a.conj().resolve_conj()))
        for dims, keep in (([0], False), ([1], True), ([0, 1], False)):
            c("aten::sum.IntList_out", a, dims, keep, None, Out(a.sum(dims, keepdim=keep)), **tolerance)
        a, b = random(2, 3, 4, dtype=dtype), random(2, 4, 2, dtype=dtype)
        c("aten::bmm.out", a, b, Out(torch.bmm(a, b)), **tolerance)
        c("dim_order_ops::_to_dim_order_copy.out", a, False, [0, 1, 2], Out(a.clone()))
        c("dim_order_ops::_to_dim_order_copy.out", a, False, [0, 1, 2], Out(a.real.clone()), note="the real part")
        c("dim_order_ops::_to_dim_order_copy.out", a.real.clone(), False, [0, 1, 2], Out(a.real.clone().to(dtype)))


def pools(c: Recorder):
    """1-D, 3-D and adaptive pools, and the gradient of a max pool."""
    for kernel, stride, pad, ceil, count in [(2, [], 0, False, True), (3, [2], 1, False, False), (3, [2], 1, True, True)]:
        for shape in ((2, 9), (1, 2, 8)):
            x = random(*shape)
            c("aten::avg_pool1d.out", x, [kernel], stride, [pad], ceil, count, Out(ATEN.avg_pool1d(x, [kernel], stride, [pad], ceil, count)), atol=1e-6, rtol=1e-6)
        for shape, dtype in (((2, 5, 6, 7), F32), ((1, 2, 4, 5, 6), F32), ((1, 1, 4, 4, 4), F64)):
            x = random(*shape, dtype=dtype)
            for divisor in (None, 5):
                y = ATEN.avg_pool3d(x, [kernel], stride, [pad], ceil, count, divisor)
                c("aten::avg_pool3d.out", x, [kernel], stride, [pad], ceil, count, divisor, Out(y), **TOLERANCE[dtype])
            for dilation in (1, 2) if kernel == 2 else (1,):
                y, indices = ATEN.max_pool3d_with_indices(x, [kernel], stride, [pad], [dilation], ceil)
                c("aten::max_pool3d_with_indices.out", x, [kernel], stride, [pad], [dilation], ceil, Out(y), Out(indices))
        for shape, dtype in (((2, 7, 8), F32), ((1, 2, 6, 7), F32), ((1, 1, 5, 5), F16), ((1, 1, 5, 5), F64)):
            x = random(*shape, dtype=dtype)
            y, indices = ATEN.max_pool2d_with_indices(x, [kernel], stride, [pad], [1], ceil)
            grad = random(*y.shape, dtype=dtype)
            args = (grad, x, [kernel], stride, [pad], [1], ceil, indices)
            c("aten::max_pool2d_with_indices_backward.grad_input", *args, Out(ATEN.max_pool2d_with_indices_backward(*args)), **TOLERANCE[dtype])
    for shape, sizes in [((2, 3, 4, 5), ([1, 1, 1], [2, 3, 2], [3, 4, 5], [4, 5, 7])), ((1, 2, 4, 4, 6), ([2, 2, 2],))]:
        for size in sizes:
            x = random(*shape)
            c("aten::_adaptive_avg_pool3d.out", x, size, Out(ATEN._adaptive_avg_pool3d(x, size)), atol=1e-6, rtol=1e-6)
            y, indices = ATEN.adaptive_max_pool3d(x, size)
            c("aten::adaptive_max_pool3d.out", x, size, Out(y), Out(indices))
            x = random(*shape[1:])
            y, indices = ATEN.adaptive_max_pool2d(x, size[1:])
            c("aten::adaptive_max_pool2d.out", x, size[1:], Out(y), Out(indices))
            x = random(*shape[2:])
            c("aten::adaptive_avg_pool1d.out", x, size[2:], Out(ATEN.adaptive_avg_pool1d(x, size[2:])), atol=1e-6, rtol=1e-6)


def gradients(c: Recorder):
    """convolution_backward."""
    settings = [
        ((2, 3, 8), (4, 3, 3), [2], [1], [1], False, [0], 1), ((1, 4, 7), (4, 2, 2), [1], [0], [2], False, [0], 2),
        ((2, 3, 5, 6), (4, 3, 3, 2), [2, 1], [1, 0], [1, 2], False, [0, 0], 1), ((1, 4, 5, 5), (4, 1, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 4),
        ((1, 2, 3, 4, 4), (2, 2, 2, 2, 2), [1, 1, 1], [0, 1, 0], [1, 1, 1], False, [0, 0, 0], 1),
        ((2, 4, 5), (4, 3, 3), [2], [1], [1], True, [1], 2), ((1, 2, 3, 4), (2, 3, 2, 3), [2, 2], [0, 1], [1, 1], True, [0, 1], 1),
    ]
    for shape, kernel, stride, pad, dilation, transposed, more, groups in settings:
        for dtype in (F32, F64) if groups == 2 else (F32,):
            x, w = random(*shape, dtype=dtype), random(*kernel, dtype=dtype)
            y = ATEN.convolution(x, w, None, stride, pad, dilation, transposed, more, groups)
            grad = random(*y.shape, dtype=dtype)
            args = (grad, x, w, [y.shape[1]], stride, pad, dilation, transposed, more, groups, [True, True, True])
            c("aten::convolution_backward.out", *args, *map(Out, ATEN.convolution_backward(*args)), **TOLERANCE[dtype] | {"atol": 1e-4 if dtype == F32 else 1e-10})
