"""Cases of the operators of the Cortex-M backend, computed by the reference operators of its exporter."""

import itertools
import math

import executorch.backends.cortex_m.passes  # noqa: F401  (defines cortex_m)
import torch
from executorch.backends.cortex_m.passes.passes_utils import quantize_multiplier_aot

from .record import Out, Recorder

OPS, I8, I16, I32 = torch.ops.cortex_m, torch.int8, torch.int16, torch.int32
LAST = [0, 2, 3, 1]


def full(*shape, dtype=I8):
    """Random numbers of the whole range; the first two are its ends."""
    info = torch.iinfo(dtype)
    x = torch.randint(info.min, info.max + 1, shape, dtype=I32).to(dtype)
    if x.numel() > 1:
        x.view(-1)[0], x.view(-1)[1] = info.min, info.max
    return x


def image(*shape):
    """Random image with channels last in memory."""
    return full(*shape).to(memory_format=torch.channels_last)


def empty():
    """Scratch memory of no size."""
    return Out(torch.empty(0, dtype=I8))


def scales(channels: int, low: float, high: float):
    """Multipliers and shifts of random ratios of scales."""
    pairs = [quantize_multiplier_aot(low + (high - low) * torch.rand(()).item()) for _ in range(channels)]
    return torch.tensor([m for m, _ in pairs], dtype=I32), torch.tensor([s for _, s in pairs], dtype=I32)


def nhwc(x):
    """Sizes N, H, W, C of an image, row-major."""
    return x.permute(0, 2, 3, 1).contiguous()


def both_layouts(c: Recorder, name: str, x, args: tuple, scratches: int = 1, expected=None):
    """Records an operator on images, and its form with sizes N, H, W, C."""
    empties = [torch.empty(0, dtype=I8)] * scratches
    y = expected if expected is not None else getattr(OPS, name)(x, *args, *empties)
    c(f"cortex_m::{name}.out", x, *args, *[empty()] * scratches, Out(y, LAST))
    c(f"cortex_m::{name}_nhwc.out", nhwc(x), *args, *[empty()] * scratches, Out(nhwc(y)))


def spread(kernel, dilation):
    """Kernel with zeros between its taps. PyTorch has no dilated convolution of integers."""
    filters, height, width, last = kernel.shape
    y = torch.zeros(filters, (height - 1) * dilation[0] + 1, (width - 1) * dilation[1] + 1, last, dtype=kernel.dtype)
    y[:, :: dilation[0], :: dilation[1]] = kernel
    return y


def convolution(name: str, x, args: tuple):
    """Expected result of a convolution."""
    kernel, bias, stride, pad, dilation, *rest = args
    return getattr(OPS, name)(x, spread(kernel, dilation), bias, stride, pad, [1, 1], *rest, torch.empty(0, dtype=I8))


def cortex_quantize(c: Recorder):
    """quantize_per_tensor and dequantize_per_tensor."""
    x = torch.cat([torch.randn(40) * 20, torch.tensor([0.0, -0.0, 0.25, 0.75, 1.25, -0.25, 1e30, -1e30, math.inf, -math.inf, math.nan])])
    for scale, zero, low, high in [(0.5, 3, -128, 127), (torch.tensor(0.0371).item(), -128, -128, 127), (torch.tensor(0.117).item(), 127, -100, 90)]:
        args = (x, scale, zero, low, high, I8)
        c("cortex_m::quantize_per_tensor.out", *args, Out(OPS.quantize_per_tensor(*args)))
        args = (full(17), scale, zero, low, high, I8)
        c("cortex_m::dequantize_per_tensor.out", *args, Out(OPS.dequantize_per_tensor(*args)))
    args = ((torch.randn(2, 3, 4, 2) * 9).to(memory_format=torch.channels_last), 0.1, 7, -128, 127, I8)
    c("cortex_m::quantize_per_tensor.out", *args, Out(OPS.quantize_per_tensor(*args), LAST))


def cortex_elementwise(c: Recorder):
    """Sums, products, quotients, tables, minimum and maximum."""
    shapes = [((7,), (7,)), ((2, 3), (2, 3)), ((0, 3), (0, 3))]
    pairs = [(full(*a), full(*b)) for a, b in shapes] + [(image(2, 5, 3, 4), image(2, 5, 3, 4)), (image(1, 5, 3, 4), image(1, 5, 1, 1)), (image(1, 5, 1, 1), image(2, 5, 3, 4))]
    for (a, b), (zero_a, zero_b, zero, low, high) in itertools.product(pairs, [(0, 0, 0, -128, 127), (-128, 127, 5, -128, 127), (17, -3, -128, -128, 100)]):
        order = LAST if a.dim() == 4 else None
        left, right, out = (quantize_multiplier_aot(s) for s in (0.5 * torch.rand(()).item() + 0.01, 0.5, 2.0 ** -20 * (0.3 + torch.rand(()).item())))
        args = (a, zero_a, *left, b, zero_b, *right, zero, *out, low, high)
        c("cortex_m::quantized_add.out", *args, Out(OPS.quantized_add(*args), order))
        args = (a, zero_a, b, zero_b, zero, *quantize_multiplier_aot(0.0001 + 0.02 * torch.rand(()).item()))
        c("cortex_m::quantized_mul.out", *args, Out(OPS.quantized_mul(*args), order))
    for a, b in pairs[:4]:
        order = LAST if a.dim() == 4 else None
        for dtype, scale in ((I8, 3.7), (I8, 0.5), (I16, 40.25)):
            divisor = b.to(dtype, copy=True)
            divisor[..., :1] = -100
            args = (a.to(dtype), 3, divisor, -100, 1, scale)
            c("cortex_m::quantized_div.out", *args, Out(OPS.quantized_div(*args), order))
    for x in (full(300), image(1, 3, 4, 5), full(0)):
        table = full(256)
        c("cortex_m::quantized_activation.out", x, table, Out(OPS.quantized_activation(x, table), LAST if x.dim() == 4 else None))
    broadcast = [((5,), (5,)), ((2, 3, 4), (3, 1)), ((2, 1, 4), (3, 1)), ((3,), (1,)), ((2, 0), (1,)), ((), (2, 2))]
    for name, (a, b) in itertools.product(("minimum", "maximum"), broadcast):
        args = (full(*a), full(*b))
        c(f"cortex_m::{name}.out", *args, Out(getattr(torch, name)(*args)))
    args = (image(2, 3, 4, 5), image(2, 3, 4, 5))
    c("cortex_m::minimum.out", *args, Out(torch.minimum(*args), LAST))


def cortex_matrix(c: Recorder):
    """Linear layers and batched matrix products."""
    for shape, channels in [((1, 9), 4), ((3, 16), 5), ((2, 3, 7), 1), ((1, 64), 12), ((1, 1), 2), ((0, 4), 3)]:
        for offset, filter_offset, out_offset, low, high in [(128, 0, -128, -128, 127), (-127, 0, 11, -100, 100), (5, -7, 0, -128, 127)]:
            x, w = full(*shape), full(channels, shape[-1])
            bias = torch.randint(-20000, 20000, (channels,), dtype=I32)
            multiplier, shift = quantize_multiplier_aot(0.0005 + 0.004 * torch.rand(()).item())
            for some, sums in ((bias, None), (None, None), (None, bias.reshape(1, channels) * 3)):
                args = (x, w, some, sums, offset, filter_offset, out_offset, [multiplier], [shift], high, low)
                y = OPS.quantized_linear(*args[:2], some, sums, *args[4:])
                c("cortex_m::quantized_linear.out", *args, Out(y))
    for batch, rows, columns, inner in [(1, 1, 1, 1), (2, 3, 4, 5), (3, 2, 5, 16)]:
        for left_zero, right_zero, zero in [(0, 0, 0), (128, -5, 3), (-100, 127, -20)]:
            args = (full(batch, rows, inner), left_zero, full(batch, columns, inner), right_zero, zero, *quantize_multiplier_aot(0.003))
            c("cortex_m::quantized_batch_matmul.out", *args, empty(), Out(OPS.quantized_batch_matmul(*args, torch.empty(0))))


def cortex_convolution(c: Recorder):
    """Convolutions, depthwise and transposed ones too."""
    convs = [
        ((1, 3, 5, 6), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1]), ((2, 4, 6, 5), (6, 1, 1, 4), [1, 1], [0, 0], [1, 1]), ((1, 8, 4, 4), (3, 1, 1, 8), [2, 2], [0, 0], [1, 1]),
        ((1, 4, 7, 6), (8, 3, 2, 2), [2, 1], [0, 1], [2, 1]), ((1, 1, 12, 6), (5, 10, 4, 1), [2, 2], [5, 1], [1, 1]), ((2, 6, 4, 3), (6, 2, 3, 2), [1, 1], [1, 2], [1, 2]), ((1, 16, 3, 3), (7, 1, 1, 16), [1, 1], [0, 0], [1, 1]),
    ]
    for shape, kernel, stride, pad, dilation in convs:
        for offset, out_offset, low, high in [(128, -128, -128, 127), (-127, 20, -70, 70)]:
            channels = kernel[0]
            bias = torch.randint(-9000, 9000, (channels,), dtype=I32) if offset > 0 else None
            multipliers, shifts = scales(channels, 0.0005, 0.005)
            args = (full(*kernel), bias, stride, pad, dilation, offset, out_offset, multipliers, shifts, low, high)
            x = image(*shape)
            both_layouts(c, "quantized_conv2d", x, args, expected=convolution("quantized_conv2d", x, args))
    multipliers, shifts = scales(2, 3.0, 30.0)
    both_layouts(c, "quantized_conv2d", image(1, 2, 2, 2), (full(2, 1, 1, 2), None, [1, 1], [0, 0], [1, 1], 0, 0, multipliers, shifts, -128, 127))
    depthwise = [((1, 4, 5, 6), 1, (3, 3), [1, 1], [1, 1], [1, 1]), ((2, 6, 5, 4), 1, (2, 3), [2, 1], [1, 0], [1, 1]), ((1, 3, 6, 6), 2, (3, 2), [1, 2], [2, 1], [2, 1]), ((1, 8, 3, 3), 1, (5, 5), [1, 1], [2, 2], [1, 1]), ((1, 1, 4, 4), 4, (2, 2), [1, 1], [0, 0], [1, 1])]
    for shape, multiple, kernel, stride, pad, dilation in depthwise:
        for offset, out_offset, low, high in [(128, -128, -128, 127), (-127, 20, -70, 70)]:
            channels = shape[1] * multiple
            bias = torch.randint(-9000, 9000, (channels,), dtype=I32) if offset > 0 else None
            multipliers, shifts = scales(channels, 0.001, 0.01)
            args = (full(1, *kernel, channels), bias, stride, pad, dilation, multiple, offset, out_offset, multipliers, shifts, low, high)
            x = image(*shape)
            both_layouts(c, "quantized_depthwise_conv2d", x, args, expected=convolution("quantized_depthwise_conv2d", x, args))
    transposed = [((1, 3, 4, 5), (2, 3, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1]), ((2, 4, 3, 3), (5, 2, 2, 4), [2, 1], [0, 0], [0, 0], [1, 1]), ((1, 2, 3, 4), (3, 3, 2, 2), [1, 3], [1, 0], [0, 2], [2, 1])]
    for shape, kernel, stride, pad, more, dilation in transposed:
        channels = kernel[0]
        bias = torch.randint(-9000, 9000, (channels,), dtype=I32)
        multipliers, shifts = scales(channels, 0.0005, 0.005)
        args = (full(*kernel), bias, stride, pad, more, dilation, 128, -20, multipliers, shifts, -128, 120)
        both_layouts(c, "quantized_transpose_conv2d", image(*shape), args, scratches=2)


def average(x, kernel, stride, pad, ceil):
    """Average pool as CMSIS-NN rounds it, half away from zero. The reference operator of the exporter rounds a quotient of floats."""
    wide = x.to(torch.float64)
    total = torch.nn.functional.avg_pool2d(wide, kernel, stride, pad, ceil, count_include_pad=False)
    ones = torch.nn.functional.avg_pool2d(torch.ones_like(wide), kernel, stride, pad, ceil, divisor_override=1)
    total, count = (total * ones).round().to(torch.int64), ones.round().to(torch.int64)
    half = torch.where(total > 0, count // 2, -(count // 2))
    return torch.div(total + half, count, rounding_mode="trunc").clamp(-128, 127).to(I8)


def cortex_pools(c: Recorder):
    """Average and max pools."""
    pools = [((1, 3, 6, 7), [2, 2], [2, 2], [0, 0]), ((2, 5, 5, 5), [3, 3], [1, 2], [1, 1]), ((1, 4, 25, 5), [24, 5], [24, 5], [0, 0]), ((1, 2, 4, 4), [4, 4], [4, 4], [0, 0])]
    for shape, kernel, stride, pad in pools:
        x = image(*shape)
        multiplier, shift = quantize_multiplier_aot(0.02)
        for ceil in (False, True):
            y = average(x, kernel, stride, pad, ceil).to(memory_format=torch.channels_last)
            args = (kernel, stride, pad, ceil, 5, multiplier, shift)
            assert (OPS.quantized_avg_pool2d(x, *args, torch.empty(0)).int() - y.int()).abs().max() <= 1
            both_layouts(c, "quantized_avg_pool2d", x, args, expected=y)
        both_layouts(c, "quantized_max_pool2d", x, (kernel, stride, pad, [1, 1], False, 3, 3, -90, 100), scratches=0)


def cortex_movement(c: Recorder):
    """Transpositions and paddings."""
    for shape, perm in [((2, 3), [1, 0]), ((2, 3, 4), [2, 0, 1]), ((1, 2, 3, 4), [0, 2, 3, 1]), ((2, 3, 4, 5), [3, 1, 0, 2]), ((5,), [0]), ((2, 0), [1, 0])]:
        x = full(*shape)
        c("cortex_m::transpose.out", x, perm, Out(OPS.transpose(x, perm)))
    for x, before, after in [(image(1, 3, 2, 4), [0, 1, 2, 3], [0, 2, 0, 1]), (full(2, 3, 2, 2), [1, 0, 2, 0], [0, 1, 0, 3]), (full(3, 2), [0, 0, 1, 2], [0, 0, 0, 1]), (image(2, 1, 3, 3), [0, 1, 1, 0], [0, 1, 1, 0]), (full(4), [0, 0, 0, 1], [0, 0, 0, 2])]:
        y = OPS.pad(x, before, after, -77)
        c("cortex_m::pad.out", x, before, after, -77, Out(y, LAST if x.dim() == 4 and not (x.is_contiguous() and x.shape[1] > 1) else None))


class Fixed:
    """Fixed-point softmax of gemmlowp, which CMSIS-NN has for 8-bit inputs, in integers of Python."""

    LOW, HIGH = -(2**31), 2**31 - 1

    @classmethod
    def high(cls, a, b):
        """Rounding doubling high product."""
        if a == b == cls.LOW:
            return cls.HIGH
        total = a * b + ((1 << 30) if (a < 0) == (b < 0) else 1 - (1 << 30))
        return abs(total) // 2**31 * (1 if total >= 0 else -1)

    @staticmethod
    def divide(x, exponent):
        """Quotient by a power of two, rounded half away from zero."""
        return (abs(x) + ((1 << exponent) >> 1) >> exponent) * (1 if x >= 0 else -1)

    @classmethod
    def times(cls, x, exponent):
        """Product with a power of two, saturated."""
        return max(cls.LOW, min(cls.HIGH, x << exponent))

    @classmethod
    def exp(cls, a):
        """exp of a negative number with five integer bits."""
        if a == 0:
            return cls.HIGH
        fraction = a % (1 << 24) - (1 << 24)
        x = (fraction << 5) + (1 << 28)
        x2 = cls.high(x, x)
        x3, x4 = cls.high(x2, x), cls.high(x2, x2)
        inner = cls.divide(cls.high(cls.divide(x4, 2) + x3, 715827883) + x2, 1)
        result = 1895147668 + cls.high(1895147668, x + inner)
        rest = fraction - a
        for bit, factor in zip(range(24, 31), (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)):
            if rest >> bit & 1:
                result = cls.high(result, factor)
        return result

    @classmethod
    def one_over_one_plus(cls, a):
        """1 / (1 + a) of a number from 0 to 1."""
        total = a + cls.HIGH
        half = int(math.copysign((abs(total) + 1) // 2, total))
        x = 1515870810 + cls.high(half, -1010580540)
        for _ in range(3):
            x += cls.times(cls.high(x, (1 << 29) - cls.high(half, x)), 2)
        return cls.times(x, 1)

    @classmethod
    def softmax(cls, row, multiplier, shift, diff_min):
        """Softmax of a list of integers."""
        exps = [cls.exp(cls.high(x - max(row) << shift, multiplier)) if x - max(row) >= diff_min else None for x in row]
        total = sum(cls.divide(e, 12) for e in exps if e is not None)
        headroom = 32 - total.bit_length()
        scale = cls.one_over_one_plus((total << headroom) - 2**31)
        return [-128 if e is None else max(-128, min(127, cls.divide(cls.high(scale, e), 12 - headroom + 23) - 128)) for e in exps]


def fixed_softmax(x, dim, multiplier, shift, diff_min):
    """Softmax along a dimension, with the bits of CMSIS-NN."""
    rows = x.movedim(dim, -1)
    y = [Fixed.softmax(row.tolist(), multiplier, shift, diff_min) for row in rows.reshape(-1, rows.shape[-1])]
    return torch.tensor(y, dtype=I8).reshape(rows.shape).movedim(-1, dim).contiguous()


def cortex_softmax(c: Recorder):
    """softmax: the bits of CMSIS-NN, which are within one step of the reference operator."""
    for shape, dim, scale in [((4, 12), -1, 0.06), ((16,), 0, 0.5), ((2, 3, 7), 2, 0.004), ((1, 1), 1, 0.1), ((3, 40), 1, 0.2), ((2, 5, 3), 1, 0.05)]:
        multiplier, shift = quantize_multiplier_aot(min(scale * (1 << 26), 2**31 - 1))
        diff_min = -math.floor(31 * 2.0 ** (26 - shift))
        x = full(*shape)
        y = fixed_softmax(x, dim, multiplier, shift, diff_min)
        args = (x, dim, 3, -128, multiplier, shift, diff_min)
        assert (OPS.softmax(*args).int() - y.int()).abs().max() <= 1
        c("cortex_m::softmax.out", *args, Out(y))


FAMILIES = [cortex_quantize, cortex_elementwise, cortex_matrix, cortex_convolution, cortex_pools, cortex_movement, cortex_softmax]
