"""Networks compiled for Vulkan, with random weights and small sizes."""

import contextlib
import copy
import functools
import zlib
from collections.abc import Callable

import torch
import torch.nn.functional as F
import torchvision.models as tv
from executorch.backends.vulkan import op_registry, utils
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.vulkan.patterns.pattern_registry import fusable_patterns
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.dialects._ops import ops as exir_ops
from torch import nn
from torch.export import Dim, export

from .program import Case, Program, run_eager

NETWORKS: dict[str, Callable[[], Program]] = {}

for entry in fusable_patterns.values():
    if entry.get_graphs_fn:
        entry.get_graphs_fn = functools.cache(entry.get_graphs_fn)  # the exporter makes the patterns again for each program


def network(build: Callable[[], Program]) -> Callable[[], Program]:
    """Decorator: registers a function as the builder of the network with its name."""
    NETWORKS[build.__name__] = build
    return build


@contextlib.contextmanager
def accepting_all_types(*names: str):
    """Lets the partitioner take operators whose registered dtypes lack those of their packed weights."""
    operators = [functools.reduce(getattr, name.split("."), exir_ops.edge) for name in names]
    found = [op_registry.vulkan_supported_ops[operator] for operator in operators]
    types = [(features.inputs_dtypes, features.outputs_dtypes) for features in found]
    try:
        for features in found:
            features.inputs_dtypes = features.outputs_dtypes = utils.DtypeSetList(utils.ALL_T)
        yield
    finally:
        for features, (inputs, outputs) in zip(found, types):
            features.inputs_dtypes, features.outputs_dtypes = inputs, outputs


def to_edge(exported, options=None):
    """Edge program of an exported program, compiled for Vulkan."""
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=False)
    return to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner(options or {})], compile_config=config)


def lower(exported, options=None):
    """Lowers an exported program for Vulkan."""
    return to_edge(exported, options).to_executorch()


def compiled(note, model, *inputs, shapes=None, options=None, rtol=1e-5, eager=None, quantum=0.0) -> Program:
    """Network with one case for each of `inputs`. `rtol` is relative to the largest expected value."""
    if isinstance(model, nn.Module) and not isinstance(model, torch.fx.GraphModule):
        model.eval()
    eager = eager or copy.deepcopy(model)
    exported = export(model, inputs[0], dynamic_shapes=shapes, strict=False)
    built = Program(note, eager, lower(exported, options), [Case(x, atol=0, rtol=0) for x in inputs], backend="VulkanBackend")
    built.relative, built.quantum = rtol, quantum
    return built


def build(name: str) -> Program:
    """Builds a network with its own seed, its bytes and its expected outputs."""
    torch.manual_seed(zlib.crc32(name.encode()))
    built = NETWORKS[name]()
    built.name, built.pte = name, bytes(built.lowered.buffer)
    for case in built.cases[1:]:
        case.fresh = False
    run_eager(built)
    for case in built.cases:
        largest = max((x.double().abs().nan_to_num(posinf=0).max().item() for x in case.expected if x.numel()), default=0.0)
        case.atol = built.relative * largest
    return built


def calibrated(model: nn.Module, *sizes: int) -> nn.Module:
    """The model with batch statistics of random inputs."""
    model.train()
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(4, *sizes))
    return model.eval()


def quantized(model: nn.Module, *inputs: torch.Tensor) -> nn.Module:
    """The model with int8 weights and activations."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(export(model.eval(), inputs, strict=False).module(check_guards=False), quantizer)
    with torch.no_grad():
        prepared(*[torch.randn_like(x) for x in inputs])
        prepared(*inputs)
    return convert_pt2e(prepared)


def output_scale(model: torch.fx.GraphModule) -> float:
    """Quantization step of the output."""
    output = next(iter(model.graph.find_nodes(op="output"))).args[0]
    output = output[0] if isinstance(output, (tuple, list)) else output
    return float(output.args[1])


def int8(note: str, model: nn.Module, *inputs: torch.Tensor) -> Program:
    """Quantized network: all elements within a step, 999 of 1,000 equal."""
    model = quantized(model, *inputs)
    return compiled(note, model, inputs, quantum=output_scale(model) / 2)


class Residual(nn.Module):
    """Basic block of ResNet."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.short = nn.Identity() if i == o and stride == 1 else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


@network
def resnet18():
    c = 6
    blocks = [Residual(c, c, 1), Residual(c, c, 1)]
    for stage in (1, 2, 3):
        blocks += [Residual(c * stage, c * (stage + 1), 2), Residual(c * (stage + 1), c * (stage + 1), 1)]
    stem = [nn.Conv2d(3, c, 7, 2, 3, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * c, 10))
    return compiled("ResNet18 with 6 channels", calibrated(model, 3, 64, 64), (torch.randn(1, 3, 64, 64),))


@network
def denoise():
    body = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.ReLU(), nn.Conv2d(8, 3, 3, 1, 1), nn.Sigmoid())
    return compiled("two convolutions, with an output as large as the input", body, (torch.rand(1, 3, 24, 32),))


@network
def device_memory():
    """A program whose exporter planned memory of a device and copies to and from it."""
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    inputs = (torch.randn(2, 8),)
    partitioner = VulkanPartitioner()
    partitioner.delegation_spec.compile_specs.append(CompileSpec("target_device", b"cuda:0"))
    exported = export(model, inputs, strict=False)
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    built = Program("memory of a device", model, edge.to_executorch(), [Case(inputs, atol=0, rtol=0)], backend="VulkanBackend")
    built.relative, built.quantum = 1e-5, 0.0
    return built


def mobile_v2():
    settings = [[1, 8, 1, 1], [6, 8, 2, 2], [6, 12, 2, 2], [6, 16, 1, 2]]
    model = tv.MobileNetV2(num_classes=10, width_mult=1.0, inverted_residual_setting=settings)
    model.features[0][0] = nn.Conv2d(3, 32, 3, 2, 1, bias=False)
    model.features[-1] = nn.Sequential(nn.Conv2d(16, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU6())
    model.classifier = nn.Linear(64, 10)
    return calibrated(model, 3, 32, 32)


@network
def mobilenet_v2():
    return compiled("MobileNetV2 with few channels", mobile_v2(), (torch.randn(1, 3, 32, 32),))


@network
def mobilenet_v2_f16():
    return compiled("the same in half precision", mobile_v2(), (torch.randn(1, 3, 32, 32),), options={"force_fp16": True}, rtol=2e-3)


@network
def mobilenet_v2_int8():
    return int8("static int8 MobileNetV2", mobile_v2(), torch.randn(1, 3, 32, 32))


@network
def mobilenet_v3():
    from torchvision.models.mobilenetv3 import InvertedResidualConfig

    b = lambda i, k, e, o, se, a, s: InvertedResidualConfig(i, k, e, o, se, a, s, 1, 1.0)
    settings = [b(8, 3, 8, 8, True, "RE", 2), b(8, 3, 16, 8, False, "RE", 1), b(8, 5, 24, 16, True, "HS", 2), b(16, 5, 32, 16, True, "HS", 1)]
    model = tv.MobileNetV3(settings, 32, num_classes=10)
    return compiled("MobileNetV3 with few channels", calibrated(model, 3, 32, 32), (torch.randn(1, 3, 32, 32),))


@network
def efficientnet():
    from torchvision.models.efficientnet import MBConvConfig

    settings = [MBConvConfig(1, 3, 1, 8, 8, 1), MBConvConfig(4, 3, 2, 8, 8, 2), MBConvConfig(4, 5, 2, 8, 16, 1)]
    model = tv.EfficientNet(settings, 0.2, num_classes=10, last_channel=32)
    return compiled("EfficientNet with few channels", calibrated(model, 3, 32, 32), (torch.randn(1, 3, 32, 32),))


@network
def vit():
    model = tv.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10)
    nn.init.normal_(model.heads.head.weight)
    return compiled("vision transformer with two layers", model, (torch.randn(1, 3, 32, 32),))


class UNet(nn.Module):
    """U-Net with a transposed convolution and a bilinear resize."""

    def __init__(self, c):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.e1, self.e2, self.e3, self.pool = block(3, c), block(c, 2 * c), block(2 * c, 4 * c), nn.MaxPool2d(2)
        self.up, self.d2, self.d1, self.out = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), block(4 * c, 2 * c), block(3 * c, c), nn.Conv2d(c, 4, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(self.pool(a))
        c = self.e3(self.pool(b))
        d = self.d2(torch.cat([self.up(c), b], 1))
        d = F.interpolate(d, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.out(self.d1(torch.cat([d, a], 1)))


@network
def unet():
    return compiled("U-Net", calibrated(UNet(4), 3, 32, 32), (torch.randn(1, 3, 32, 32),))


@network
def unet_int8():
    return int8("static int8 U-Net", calibrated(UNet(4), 3, 32, 32), torch.randn(1, 3, 32, 32))


class Yolo(nn.Module):
    """Detector with a feature pyramid, fast spatial pooling and distances as distributions."""

    def __init__(self, c=4, classes=5):
        super().__init__()
        conv = lambda i, o, k=3, s=1: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), nn.SiLU())
        self.s1, self.s2, self.a, self.b, self.m = conv(3, c, 3, 2), conv(c, 2 * c, 3, 2), conv(c, c), conv(c, c), conv(4 * c, 2 * c, 1)
        self.s3, self.s4, self.v1, self.v2, self.f = conv(2 * c, 4 * c, 3, 2), conv(4 * c, 8 * c, 3, 2), conv(8 * c, 4 * c, 1), conv(16 * c, 8 * c, 1), conv(12 * c, 4 * c, 1)
        self.h1, self.h2, self.classes = nn.Conv2d(4 * c, 64 + classes, 1), nn.Conv2d(8 * c, 64 + classes, 1), classes
        self.register_buffer("steps", torch.arange(16.0))

    def forward(self, x):
        x = self.s2(self.s1(x))
        p, q = x.chunk(2, 1)
        a = self.a(q)
        x = self.m(torch.cat([p, q, a, self.b(a)], 1))
        p3 = self.s3(x)
        p4 = self.s4(p3)
        y = [self.v1(p4)]
        for _ in range(3):
            y.append(F.max_pool2d(y[-1], 5, 1, 2))
        p4 = self.v2(torch.cat(y, 1))
        q = self.f(torch.cat([F.interpolate(p4, scale_factor=2.0, mode="nearest"), p3], 1))
        box, score = torch.cat([self.h1(q).flatten(2), self.h2(p4).flatten(2)], 2).split((64, self.classes), 1)
        box = box.view(1, 4, 16, -1).softmax(2).permute(0, 1, 3, 2).matmul(self.steps.view(16, 1)).squeeze(-1)
        low, high = box.chunk(2, 1)
        return torch.cat([(high - low) / 2, low + high, score.sigmoid()], 1)


@network
def yolo():
    model = Yolo()
    model.train()
    with torch.no_grad():
        model(torch.randn(1, 3, 64, 64))
    return compiled("detector like YOLO", model.eval(), (torch.randn(1, 3, 64, 64),))


class Hand(nn.Module):
    """Landmark network: depthwise blocks with leaky functions and two heads."""

    def __init__(self, c=8):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, 2, 1)
        self.depthwise = nn.ModuleList(nn.Conv2d(c, c, 5, padding=2, groups=c) for _ in range(3))
        self.pointwise = nn.ModuleList(nn.Conv2d(c, c, 1) for _ in range(3))
        self.landmarks, self.presence = nn.Linear(c * 16, 63), nn.Linear(c * 16, 1)

    def forward(self, x):
        x = F.leaky_relu(self.stem(F.pad(x, (0, 1, 0, 1))), 0.1)
        for depthwise, pointwise in zip(self.depthwise, self.pointwise):
            x = F.leaky_relu(x + pointwise(depthwise(x)), 0.1)
            x = F.avg_pool2d(x, 2) if x.shape[-1] > 4 else x
        x = x.flatten(1)
        return self.landmarks(x) * 32, self.presence(x).sigmoid()


@network
def hand_landmarks():
    return compiled("landmarks of a hand", Hand(), (torch.randn(1, 3, 31, 31),))


class Conformer(nn.Module):
    """One block of a conformer."""

    def __init__(self, d=32):
        super().__init__()
        self.f1, self.f2 = (nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d)) for _ in range(2))
        self.norm, self.attention = nn.LayerNorm(d), nn.MultiheadAttention(d, 2, batch_first=True)
        self.cnorm, self.p1, self.dw = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 7, padding=3, groups=d)
        self.bn, self.p2, self.end = nn.BatchNorm1d(d), nn.Conv1d(d, d, 1), nn.LayerNorm(d)

    def forward(self, x):
        x = x + 0.5 * self.f1(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.p1(self.cnorm(x).transpose(1, 2)), 1)
        x = x + self.p2(F.silu(self.bn(self.dw(y)))).transpose(1, 2)
        return self.end(x + 0.5 * self.f2(x))


@network
def conformer():
    return compiled("block of a conformer", Conformer(), (torch.randn(1, 20, 32),))


class Whisper(nn.Module):
    """Encoder with a convolutional stem, and a decoder step with cross attention."""

    def __init__(self, d=32, words=50):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(16, d, 3, padding=1), nn.Conv1d(d, d, 3, 2, 1)
        self.encoder = nn.TransformerEncoderLayer(d, 2, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(d, 2, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.words, self.offsets = nn.Embedding(words, d), nn.Parameter(torch.randn(1, 10, d))

    def forward(self, sound, tokens):
        x = F.gelu(self.c2(F.gelu(self.c1(sound)))).transpose(1, 2) + self.offsets
        y = self.decoder(self.words(tokens), self.encoder(x))
        return y @ self.words.weight.T


@network
def whisper():
    model = Whisper()
    torch.backends.mha.set_fastpath_enabled(False)
    return compiled("encoder and decoder like Whisper", model, (torch.randn(1, 16, 20), torch.randint(0, 50, (1, 6))))


class Dynamic(nn.Module):
    """Network over a sequence of any length."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.n = nn.Linear(32, 48), nn.Linear(48, 32), nn.LayerNorm(32)

    def forward(self, x):
        y = self.b(F.gelu(self.a(self.n(x)))) + x
        return torch.softmax(y.reshape(x.shape[0] * x.shape[1], 32) * 0.5, -1)


@network
def dynamic_rows():
    rows = [(torch.randn(1, n, 32),) for n in (16, 2, 64, 7, 16)]
    return compiled("several lengths in one instance", Dynamic(), *rows, shapes=({1: Dim("s", min=2, max=64)},))


class Sizes(nn.Module):
    """Sizes that are products, quotients and differences."""

    def forward(self, x):
        n = x.shape[0]
        return x.reshape(n * 4, 2), torch.full((n // 2, 3), 1.5), torch.full((n - 1, 2), 2.5), x.unsqueeze(1).expand(n, 3, 8) + 1


@network
def dynamic_sizes():
    rows = [(torch.randn(n, 8),) for n in (12, 4, 31, 7)]
    return compiled("sizes that depend on an input", Sizes(), *rows, shapes=({0: Dim("n", min=4, max=32)},))


class Linears(nn.Module):
    """Two linears."""

    def __init__(self, bias=False):
        super().__init__()
        self.a, self.b = nn.Linear(64, 128, bias=bias), nn.Linear(128, 32, bias=bias)

    def forward(self, x):
        return self.b(F.silu(self.a(x)))


def linears(note, config, bias=False, rtol=1e-5):
    from torchao.quantization.quant_api import quantize_

    model = Linears(bias).eval()
    quantize_(model, config)
    return compiled(note, model, (torch.randn(1, 5, 64),), rtol=rtol)


@network
def linear_4w():
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import IntxWeightOnlyConfig

    return linears("4-bit weights", IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)))


@network
def linear_8da4w():
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
    return linears("4-bit weights and dynamic int8 activations", config, bias=True)


@network
def linear_8w():
    from torchao.quantization.granularity import PerAxis
    from torchao.quantization.quant_api import IntxWeightOnlyConfig

    return linears("int8 weights", IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)))


@network
def mlp_int8():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
    return int8("static int8 linears", model, torch.randn(4, 32))


class Moves(nn.Module):
    """Gathers, flips, grids, shuffles, searches and norms, with several outputs."""

    def forward(self, x, i):
        grid = torch.linspace(-1, 1, 32).view(1, 4, 4, 2).contiguous()
        moved = torch.flip(x, [3]), torch.gather(x.view(4, 64), 1, i), F.grid_sample(x, grid, align_corners=True)
        return *moved, F.pixel_shuffle(x, 2), x.argmax(-1), F.group_norm(x, 2)


@network
def moves():
    return compiled("operators that move elements", Moves(), (torch.randn(1, 4, 8, 8), torch.randint(0, 64, (4, 10))))
