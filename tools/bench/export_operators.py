"""Exports the programs of `afferent-bench operators`: many methods of one or a few operators.

    python tools/bench/export_operators.py FOLDER [GROUP]...

Needs torch and executorch. Inputs and weights are random, from a fixed seed. A group is `large`
(portable kernels, tensors of a common model), `tiny` (portable kernels, a few elements: the cost of
a call) or `xnnpack` (delegated layers). Writes for each group `GROUP.pte`, with one method for each
entry, and `GROUP.json`, an object from the name of a method to the files of its inputs.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import nn

r = torch.randn


class Call(nn.Module):
    """A function as a module. Named tuples, which the exporter rejects, become plain ones."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        result = self.function(*inputs)
        return tuple(result) if isinstance(result, tuple) else result


def ints(high, *sizes):
    return torch.randint(0, high, sizes)


class Lookup(nn.Module):
    """Rows of a table of low-bit weights with one scale for each group of 32."""

    def __init__(self, bits):
        super().__init__()
        self.bits = bits
        packed = 128 * bits // 8
        self.register_buffer("weight", torch.randint(0, 256, (1000, packed), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(1000, 4) + 0.5)

    def forward(self, indices):
        operators = torch.ops.quantized_decomposed
        low = -(1 << (self.bits - 1))
        high = (1 << (self.bits - 1)) - 1
        call = operators.embedding_4bit if self.bits == 4 else operators.embedding_2bit
        return call(self.weight, self.scales, None, low, high, indices)


def put(x, index, values):
    y = x * 1.0
    y[index] = values
    return y


def cond(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def large():
    window = torch.hann_window(400)
    return {
        "rfft_100x512": (lambda x: torch.view_as_real(torch.fft.rfft(x)), r(100, 512)),
        "rfft_100x400": (lambda x: torch.view_as_real(torch.fft.rfft(x)), r(100, 400)),
        "irfft_100x512": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), r(100, 512)),
        "stft_16k_400": (
            lambda x: torch.view_as_real(torch.stft(x, 400, 160, window=window, return_complex=True)),
            r(16000),
        ),
        "up_nearest_32x64": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), r(1, 32, 64, 64)),
        "up_bilinear_16x64": (
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            r(1, 16, 64, 64),
        ),
        "up_bilinear_ac": (
            lambda x: F.interpolate(x, size=(128, 128), mode="bilinear", align_corners=True),
            r(1, 16, 64, 64),
        ),
        "bilinear_aa": (
            lambda x: F.interpolate(x, size=(56, 56), mode="bilinear", antialias=True),
            r(1, 3, 112, 112),
        ),
        "grid_sample": (
            lambda x, g: F.grid_sample(x, torch.tanh(g), align_corners=False),
            r(1, 16, 32, 32),
            r(1, 32, 32, 2),
        ),
        "layer_norm": (nn.LayerNorm(256), r(100, 256)),
        "group_norm": (nn.GroupNorm(8, 32), r(1, 32, 28, 28)),
        "softmax": (lambda x: x.softmax(-1), r(8, 128, 128)),
        "log_softmax": (lambda x: x.log_softmax(-1), r(4, 32000)),
        "topk40_32000": (lambda x: torch.topk(x, 40), r(1, 32000)),
        "argmax_32000": (lambda x: x.argmax(-1), r(1, 32000)),
        "max_dim": (lambda x: x.max(1), r(256, 256)),
        "cumsum_16000": (lambda x: x.cumsum(-1), r(1, 16000)),
        "cat_dim2": (lambda x, y: torch.cat([x, y], 2), r(1, 8, 128, 16), r(1, 8, 1, 16)),
        "permute_0213": (lambda x: x.permute(0, 2, 1, 3).contiguous(), r(1, 128, 8, 32)),
        "transpose_last": (lambda x: x.transpose(1, 2).contiguous(), r(1, 256, 256)),
        "nchw_nhwc": (lambda x: x.permute(0, 2, 3, 1).contiguous(), r(1, 32, 64, 64)),
        "gather": (lambda x, i: x.gather(1, i), r(64, 256), ints(256, 64, 64)),
        "index_rows": (lambda x, i: x[i], r(1000, 64), ints(1000, 100)),
        "index_put_rows": (put, r(100, 64), torch.randperm(100)[:50], r(50, 64)),
        "scatter_add": (lambda x, i, v: x.scatter_add(0, i, v), r(64, 256), ints(64, 64, 256), r(64, 256)),
        "where_bcast": (lambda c, x: torch.where(c > 0, x, -1e9), r(1, 1, 128, 128), r(1, 8, 128, 128)),
        "masked_fill": (lambda x, c: x.masked_fill(c > 0, -1e9), r(1, 8, 128, 128), r(1, 1, 128, 128)),
        "add_bcast_mid": (lambda x, y: x + y, r(1, 32, 28, 28), r(1, 32, 1, 1)),
        "add_same": (lambda x, y: x + y, r(1, 32, 28, 28), r(1, 32, 28, 28)),
        "mul_scalar": (lambda x: x * 0.125, r(1, 32, 28, 28)),
        "div": (lambda x, y: x / y, r(1, 32, 28, 28), r(1, 32, 28, 28)),
        "pow2": (lambda x: x**2, r(1, 32, 28, 28)),
        "pow_frac": (lambda x: (x.abs() + 0.1) ** 0.3, r(1, 32, 28, 28)),
        "pow_tensor": (lambda x, y: (x.abs() + 0.1) ** y, r(100, 256), r(100, 256)),
        "exp": (torch.exp, r(1, 32, 28, 28)),
        "log": (lambda x: torch.log(x.abs() + 1e-3), r(1, 32, 28, 28)),
        "sin": (torch.sin, r(1, 32, 28, 28)),
        "tanh": (torch.tanh, r(1, 32, 28, 28)),
        "erf": (torch.erf, r(1, 32, 28, 28)),
        "gelu": (F.gelu, r(1, 32, 28, 28)),
        "sigmoid": (torch.sigmoid, r(1, 32, 28, 28)),
        "rsqrt_mean": (
            lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
            r(128, 256),
        ),
        "mean_hw": (lambda x: x.mean((2, 3)), r(1, 32, 28, 28)),
        "mean_mid": (lambda x: x.mean(1), r(1, 32, 28, 28)),
        "sum_all": (lambda x: x.sum(), r(1, 32, 28, 28)),
        "var": (lambda x: x.var(-1), r(100, 256)),
        "clamp": (lambda x: x.clamp(-1, 1), r(1, 32, 28, 28)),
        "gt_scalar": (lambda x: x > 0.5, r(1, 32, 28, 28)),
        "to_i64": (lambda x: x.long(), r(1, 32, 28, 28)),
        "to_f16": (lambda x: x.half(), r(1, 32, 28, 28)),
        "i64_add": (lambda x, y: x + y, ints(99, 25088), ints(99, 25088)),
        "pad_const": (lambda x: F.pad(x, (1, 1, 1, 1)), r(1, 32, 28, 28)),
        "pad_reflect": (lambda x: F.pad(x, (200, 200), mode="reflect"), r(1, 1, 16000)),
        "slice_last": (lambda x: x[..., 3:20], r(1, 32, 28, 28)),
        "flip": (lambda x: x.flip(-1), r(1, 32, 28, 28)),
        "roll": (lambda x: x.roll(3, -1), r(1, 32, 28, 28)),
        "repeat": (lambda x: x.repeat(4, 1), r(16, 64)),
        "expand_kv": (lambda x: x[:, :, None].expand(1, 2, 4, 64, 32).reshape(1, 8, 64, 32), r(1, 2, 64, 32)),
        "stack": (lambda x, y: torch.stack([x, y], -1), r(100, 256), r(100, 256)),
        "split3": (lambda x: x.split(64, -1), r(100, 192)),
        "embedding": (nn.Embedding(1000, 256), ints(1000, 1, 128)),
        "embedding_4bit": (Lookup(4), ints(1000, 128)),
        "embedding_2bit": (Lookup(2), ints(1000, 128)),
        "bmm": (lambda x, y: x @ y, r(8, 64, 64), r(8, 64, 64)),
        "mm": (lambda x, y: x @ y, r(128, 256), r(256, 128)),
        "mv_row": (lambda x, y: x @ y, r(1, 512), r(512, 512)),
        "sdpa": (F.scaled_dot_product_attention, r(1, 4, 128, 64), r(1, 4, 128, 64), r(1, 4, 128, 64)),
        "maxpool3s2": (lambda x: F.max_pool2d(x, 3, 2, 1), r(1, 64, 56, 56)),
        "avgpool2": (lambda x: F.avg_pool2d(x, 2), r(1, 64, 56, 56)),
        "conv3x3": (nn.Conv2d(32, 32, 3, padding=1), r(1, 32, 28, 28)),
        "conv_first": (nn.Conv2d(3, 16, 3, 2, 1), r(1, 3, 112, 112)),
        "conv_grouped": (nn.Conv2d(32, 32, 3, padding=1, groups=8), r(1, 32, 14, 14)),
        "conv_dilated": (nn.Conv2d(16, 16, 3, padding=6, dilation=6), r(1, 16, 28, 28)),
        "dwconv3x3": (nn.Conv2d(32, 32, 3, padding=1, groups=32), r(1, 32, 28, 28)),
        "dwconv3x3_mult2": (nn.Conv2d(32, 64, 3, padding=1, groups=32), r(1, 32, 28, 28)),
        "dwconv3x3_dil2": (nn.Conv2d(32, 32, 3, padding=2, dilation=2, groups=32), r(1, 32, 28, 28)),
        "conv1d_k31_dw": (nn.Conv1d(64, 64, 31, padding=15, groups=64), r(1, 64, 100)),
        "convT2": (nn.ConvTranspose2d(32, 16, 2, 2), r(1, 32, 14, 14)),
        "convT4s2_dw": (nn.ConvTranspose2d(32, 32, 4, 2, 1, groups=32), r(1, 32, 14, 14)),
        "unfold_im2col": (lambda x: F.unfold(x, 3, padding=1), r(1, 8, 32, 32)),
        "linspace_arange": (lambda x: torch.arange(1000) * 0.5 + x, r(1)),
        "tril_mask": (lambda x: torch.tril(x @ x), r(128, 128)),
        "nonzero": (lambda x: (x > 0).nonzero(), r(64, 64)),
        "any_dim": (lambda x: (x > 0).any(-1), r(256, 256)),
        "fp16_add": (lambda x, y: x + y, r(1, 32, 56, 56).half(), r(1, 32, 56, 56).half()),
        "fp16_mm": (lambda x, y: x @ y, r(128, 256).half(), r(256, 128).half()),
        "fp16_softmax": (lambda x: x.softmax(-1), r(128, 128).half()),
        "logsumexp": (lambda x: x.logsumexp(-1), r(100, 256)),
        "round_rem": (lambda x: torch.remainder(torch.round(x * 10), 3.0), r(100, 256)),
        "where_rowcond_196": (lambda c, x: torch.where(c > 0, x, 0.0), r(1, 1, 196, 1), r(1, 6, 196, 196)),
        "sdpa_mask_196": (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m > 0),
            *(r(1, 3, 196, 64) for _ in range(3)),
            r(196, 196),
        ),
        "sdpa_causal_196": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            *(r(1, 3, 196, 64) for _ in range(3)),
        ),
        "lstm_cell": (nn.LSTMCell(16, 16), r(1, 16), (r(1, 16), r(1, 16))),
    }


def tiny():
    x = r(2, 4)
    y = r(2, 4)
    unary = {
        "add_scalar": lambda x: x + 1,
        "mul_scalar": lambda x: x * 0.5,
        "sub_rs": lambda x: 1 - x,
        "div_scalar": lambda x: x / 3,
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "exp": torch.exp,
        "rsqrt": lambda x: torch.rsqrt(x),
        "gelu": F.gelu,
        "clamp": lambda x: x.clamp(-1, 1),
        "pow2": lambda x: x**2,
        "neg": torch.neg,
        "softmax": lambda x: x.softmax(-1),
        "mean": lambda x: x.mean(-1),
        "sum": lambda x: x.sum(-1),
        "amax": lambda x: x.amax(-1),
        "argmax": lambda x: x.argmax(-1),
        "max_dim": lambda x: x.max(-1),
        "var": lambda x: x.var(-1),
        "any": lambda x: (x > 0).any(-1),
        "cumsum": lambda x: x.cumsum(-1),
        "topk": lambda x: x.topk(2),
        "slice": lambda x: x[:, 1:3],
        "select": lambda x: x[:, 1],
        "permute": lambda x: x.permute(1, 0).contiguous(),
        "expand": lambda x: x[:, None].expand(2, 3, 4) * 1.0,
        "split": lambda x: x.split(2, -1),
        "unsqueeze": lambda x: x.unsqueeze(1) + 1,
        "view": lambda x: (x + 1).view(8),
        "pad": lambda x: F.pad(x, (1, 1)),
        "flip": lambda x: x.flip(-1),
        "roll": lambda x: x.roll(1, -1),
        "repeat": lambda x: x.repeat(2, 1),
        "constant_full": lambda x: torch.full((2, 4), 2.0) + x,
        "arange": lambda x: torch.arange(4) + x,
        "where": lambda x: torch.where(x > 0, x, 0.0),
        "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
        "gt": lambda x: x > 0.5,
        "logical_and": lambda x: (x > 0) & (x < 1),
        "to_int": lambda x: x.int(),
        "tril": lambda x: torch.tril(x + 1),
        "up_nearest": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="nearest"),
        "maxpool": lambda x: F.max_pool2d(x[None, None], 2),
        "cond": cond,
    }
    index = torch.tensor([1, 0])
    row = torch.tensor([[1, 0, 2, 1], [0, 0, 3, 3]])
    others = {
        "add": (lambda x, y: x + y, x, y),
        "bcast_add": (lambda x, y: x + y, x, r(4)),
        "bcast_mul_col": (lambda x, y: x * y, x, r(2, 1)),
        "mul_int": (lambda x: x * 2, ints(9, 2, 4)),
        "add_int_scalar": (lambda x: x + 1, ints(9, 2, 4)),
        "div_floor": (lambda x: x // 2, ints(9, 2, 4)),
        "eq": (lambda x, y: x == y, x, y),
        "layer_norm": (nn.LayerNorm(4), x),
        "linear": (nn.Linear(4, 4), x),
        "mm": (lambda x, y: x @ y, x, r(4, 3)),
        "bmm": (lambda x, y: x @ y, r(2, 2, 4), r(2, 4, 2)),
        "conv1d": (nn.Conv1d(2, 2, 3, padding=1), r(1, 2, 4)),
        "conv2d": (nn.Conv2d(1, 2, 3, padding=1), r(1, 1, 4, 4)),
        "cat": (lambda x, y: torch.cat([x, y], 1), x, y),
        "stack": (lambda x, y: torch.stack([x, y]), x, y),
        "gather": (lambda x, i: x.gather(1, i), x, row),
        "index": (lambda x, i: x[i], x, index),
        "index_put": (put, x, index, y),
        "index_select": (lambda x, i: x.index_select(0, i), x, index),
        "scatter": (lambda x, i: x.scatter(1, i, 0.0), x, row),
        "embedding": (nn.Embedding(8, 4), index),
        "to_float": (lambda x: x.float(), ints(9, 2, 4)),
    }
    return {name: (function, x.abs() if name == "rsqrt" else x) for name, function in unary.items()} | others


def xnnpack():
    conv, conv1d = nn.Conv2d, nn.Conv1d
    transposed, transposed1d = nn.ConvTranspose2d, nn.ConvTranspose1d
    return {
        "conv_first_3_16_s2": (conv(3, 16, 3, 2, 1), r(1, 3, 224, 224)),
        "patch4_3_96": (conv(3, 96, 4, 4), r(1, 3, 224, 224)),
        "patch14_3_384": (conv(3, 384, 14, 14), r(1, 3, 224, 224)),
        "conv1x1_16_64": (conv(16, 64, 1), r(1, 16, 56, 56)),
        "conv1x1_s2": (conv(64, 128, 1, 2), r(1, 64, 28, 28)),
        "conv3x3_64": (conv(64, 64, 3, padding=1), r(1, 64, 28, 28)),
        "conv3x3_dil6": (conv(64, 64, 3, padding=6, dilation=6), r(1, 64, 28, 28)),
        "conv_g32_resnext": (conv(128, 128, 3, padding=1, groups=32), r(1, 128, 28, 28)),
        "conv_g2": (conv(32, 32, 3, padding=1, groups=2), r(1, 32, 28, 28)),
        "conv_3out": (conv(32, 3, 3, padding=1), r(1, 32, 64, 64)),
        "conv_1out": (conv(32, 1, 1), r(1, 32, 64, 64)),
        "dw3": (conv(96, 96, 3, padding=1, groups=96), r(1, 96, 28, 28)),
        "dw5_s2": (conv(96, 96, 5, 2, 2, groups=96), r(1, 96, 28, 28)),
        "dw7_convnext": (conv(96, 96, 7, padding=3, groups=96), r(1, 96, 56, 56)),
        "dw3_mult2": (conv(32, 64, 3, padding=1, groups=32), r(1, 32, 28, 28)),
        "dw1x5": (conv(64, 64, (1, 5), padding=(0, 2), groups=64), r(1, 64, 28, 28)),
        "dw3_dil2": (conv(96, 96, 3, padding=2, dilation=2, groups=96), r(1, 96, 28, 28)),
        "dw_k31_conv1d": (conv1d(144, 144, 31, padding=15, groups=144), r(1, 144, 100)),
        "conv1d_80_384": (conv1d(80, 384, 3, padding=1), r(1, 80, 1000)),
        "conv1d_k10_s5": (conv1d(1, 64, 10, 5), r(1, 1, 16000)),
        "convT_2x2": (transposed(32, 16, 2, 2), r(1, 32, 28, 28)),
        "convT_4x4s2": (transposed(32, 16, 4, 2, 1), r(1, 32, 28, 28)),
        "convT_3x3s2_op1": (transposed(32, 16, 3, 2, 1, output_padding=1), r(1, 32, 28, 28)),
        "convT_dw4": (transposed(32, 32, 4, 2, 1, groups=32), r(1, 32, 28, 28)),
        "convT1d_4s2": (transposed1d(64, 32, 4, 2, 1), r(1, 64, 200)),
        "linear_196": (nn.Linear(384, 1536), r(196, 384)),
        "linear_1": (nn.Linear(512, 1536), r(1, 512)),
        "linear_1_to_3": (nn.Linear(512, 3), r(1, 512)),
        "linear_in4": (nn.Linear(4, 64), r(1000, 4)),
        "softmax196": (lambda x: x.softmax(-1), r(6, 196, 196)),
        "bmm": (lambda x: x @ x.transpose(1, 2), r(6, 196, 64)),
        "gelu": (F.gelu, r(196, 1536)),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), r(196, 1536)),
        "hardswish": (F.hardswish, r(1, 96, 56, 56)),
        "silu": (F.silu, r(1, 96, 56, 56)),
        "elu": (F.elu, r(1, 96, 56, 56)),
        "tanh": (torch.tanh, r(1, 96, 56, 56)),
        "exp_log": (lambda x: (x.exp() + 1).log(), r(1, 96, 56, 56)),
        "se_mul": (lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)), r(1, 96, 28, 28)),
        "add4": (lambda x: (x + 1) * x - x * 0.5, r(1, 96, 56, 56)),
        "maxpool3s2": (lambda x: F.max_pool2d(x, 3, 2, 1), r(1, 64, 56, 56)),
        "avgpool3s2": (lambda x: F.avg_pool2d(x, 3, 2, 1), r(1, 64, 56, 56)),
        "up_bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), r(1, 64, 32, 32)),
        "cat_ch": (lambda x: torch.cat([x * 2, x + 1, x], 1), r(1, 32, 56, 56)),
        "permute_heads": (lambda x: (x * 2).view(1, 196, 6, 64).permute(0, 2, 1, 3), r(1, 196, 384)),
        "slice_mid": (lambda x: (x * 2)[:, :, 5:50, 3:40], r(1, 32, 56, 56)),
        "pad": (lambda x: F.pad(x * 2, (1, 1, 1, 1)), r(1, 32, 56, 56)),
        "rms": (lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6), r(128, 512)),
        "prelu": (nn.PReLU(96), r(1, 96, 56, 56)),
    }


GROUPS = {"large": large, "tiny": tiny, "xnnpack": xnnpack}


def export(group, folder):
    torch.manual_seed(0)
    programs, files = {}, {}
    for name, (function, *inputs) in GROUPS[group]().items():
        module = function if isinstance(function, nn.Module) else Call(function)
        with torch.no_grad():
            programs[name] = torch.export.export(module.eval(), tuple(inputs))
        files[name] = []
        for at, tensor in enumerate(torch.utils._pytree.tree_leaves(inputs)):
            files[name].append(f"{group}_{name}_{at}.npy")
            np.save(folder / files[name][-1], tensor.numpy())
    partitioners = {name: [XnnpackPartitioner()] for name in programs} if group == "xnnpack" else None
    edge = to_edge_transform_and_lower(programs, partitioner=partitioners)
    (folder / f"{group}.pte").write_bytes(edge.to_executorch().buffer)
    (folder / f"{group}.json").write_text(json.dumps(files, indent=1))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for group in sys.argv[2:] or GROUPS:
        export(group, folder)


if __name__ == "__main__":
    main()
