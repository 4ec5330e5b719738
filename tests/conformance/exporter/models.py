"""Whole models: the modules of ExecuTorch's tests, its examples, and the models of its test suite with fewer channels."""

import zlib
from functools import partial

import torch
import torchvision.models as vision
from executorch.examples.models import mlperf_tiny, toy_model
from executorch.exir.tests import control_flow_models, dynamic_shape_models, models, test_memory_planning, transformer
from executorch.exir.tests.asr_joiner import ASRJoiner
from torch.export import Dim
from torchvision.models import convnext, efficientnet, maxvit, regnet, swin_transformer

from . import runtime_models
from .exported import WEIGHT_STEP, export

UNIQUE_WEIGHTS = 1024  # longer weights repeat, which keeps the archives small


class Encoder(torch.nn.Module):
    """Encoder of the tests' transformer."""

    def __init__(self):
        super().__init__()
        self.inner = transformer.Transformer()

    def forward(self, tokens):
        return self.inner.encode(tokens)


def narrow_convnext():
    blocks = [convnext.CNBlockConfig(8, 16, 1), convnext.CNBlockConfig(16, 24, 2), convnext.CNBlockConfig(24, None, 1)]
    return vision.ConvNeXt(blocks, layer_scale=0.5, num_classes=10)


def narrow_efficientnet():
    fused, plain = efficientnet.FusedMBConvConfig, efficientnet.MBConvConfig
    blocks = [fused(1, 3, 1, 8, 8, 1), fused(4, 3, 2, 8, 16, 1), plain(4, 3, 2, 16, 24, 2), plain(6, 5, 2, 24, 32, 1)]
    return vision.EfficientNet(blocks, dropout=0.2, num_classes=10, last_channel=64)


def narrow_regnet():
    return vision.RegNet(regnet.BlockParams([1, 1, 2, 1], [8, 16, 24, 32], [8] * 4, [1.0] * 4, [2] * 4, 0.25), num_classes=10, stem_width=8)


def narrow_swin():
    return vision.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10,
                                  block=swin_transformer.SwinTransformerBlockV2, downsample_layer=swin_transformer.PatchMergingV2)


def narrow_maxvit():
    return maxvit.MaxVit((32, 32), 8, 4, [16, 32], [1, 1], 8, 0.0, num_classes=10)


IMAGE_MODELS = {
    "convnext": (narrow_convnext, 32, True),
    "densenet": (lambda: vision.DenseNet(4, (2, 2, 2, 2), 8, num_classes=10), 32, True),
    "efficientnet": (narrow_efficientnet, 32, True),
    "maxvit": (narrow_maxvit, 32, False),
    "mnasnet": (lambda: vision.MNASNet(0.25, 10), 32, True),
    "mobilenet_v2": (lambda: vision.mobilenet_v2(width_mult=0.25, num_classes=10), 32, True),
    "mobilenet_v3_small": (lambda: vision.mobilenet_v3_small(width_mult=0.25, num_classes=10), 32, True),
    "regnet": (narrow_regnet, 32, True),
    "shufflenet_v2": (lambda: vision.ShuffleNetV2([2, 2, 2], [8, 16, 32, 64, 128], 10), 32, True),
    "squeezenet": (lambda: vision.squeezenet1_1(num_classes=10), 48, True),
    "swin_v2": (narrow_swin, 32, False),  # with dynamic sizes, the exporter plans views with other lengths than their sources
    "vit": (lambda: vision.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=10), 32, False),
}

OF_TESTS = [models.TensorItem, models.Repeat, models.ModelWithUnusedArg, models.MLP, partial(models.MLP, 4, 3), models.Mul, models.ElementwiseAdd, models.BasicSinMax,
            partial(models.Emformer, 8, 4, 4, 4, 16, 24), control_flow_models.FTCondBasic, control_flow_models.FTCondDynShape, control_flow_models.FTCondDeadCode,
            control_flow_models.FTMapBasic, control_flow_models.FTMapDynShape, test_memory_planning.ToyModelForMemPlanning, test_memory_planning.ModelWithDifferentTensorSizes,
            test_memory_planning.LinearsWithDifferentSizeAndViewOps, test_memory_planning.ModuleReturnTwo, test_memory_planning.ModuleListArg,
            test_memory_planning.MapModel, test_memory_planning.MultiMapModel]
OF_EXAMPLES = [toy_model.AddModule, toy_model.AddMulModule, toy_model.Conv1dModule, toy_model.LinearModule, toy_model.MulModule, toy_model.SdpaModule, toy_model.SoftmaxModule]
TINY = {"deep_autoencoder": mlperf_tiny.DeepAutoEncoderModel, "ds_cnn": mlperf_tiny.DSCNNKWSModel, "mobilenet_v1_025": mlperf_tiny.MobileNetV1025Model, "resnet8": mlperf_tiny.ResNet8Model}


def seeded(name: str, make):
    """Result of `make` with its own seed. Long weights repeat, and batch norms get random statistics."""
    torch.manual_seed(zlib.crc32(name.encode()))
    made = make()
    for module in made.modules() if isinstance(made, torch.nn.Module) else []:
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.copy_((torch.randn_like(module.running_mean) / 8))
            module.running_var.copy_(0.5 + torch.rand_like(module.running_var))
    with torch.no_grad():
        for weight in made.parameters() if isinstance(made, torch.nn.Module) else []:
            if weight.numel() > UNIQUE_WEIGHTS:
                flat = ((weight.flatten()[:UNIQUE_WEIGHTS] / WEIGHT_STEP).round() * WEIGHT_STEP).repeat(-(-weight.numel() // UNIQUE_WEIGHTS))
                weight.copy_(flat[:weight.numel()].reshape(weight.shape))
    return made


def of_tests() -> list[dict]:
    """Modules of ExecuTorch's tests."""
    made = []
    for make in OF_TESTS:
        name = getattr(make, "func", make).__name__ + ("" if not isinstance(make, partial) else "".join(f"_{x}" for x in make.args))
        module = seeded(name, make)
        shapes = module.get_dynamic_shape() if hasattr(module, "get_dynamic_shape") else None
        made.append(export(name, module, module.get_random_inputs(), False, shapes))
    made.append(export("Transformer.encode", seeded("encode", Encoder), (torch.tensor([[1, 4, 2, 9, 0]]),), False))
    joiner = partial(ASRJoiner, D=16)
    made.append(export("ASRJoiner", seeded("joiner", joiner), (torch.rand(1, 1, 16), torch.tensor([1]), torch.rand(10, 1, 16), torch.tensor([1] * 10)), False))
    return made


def of_examples() -> list[dict]:
    """ExecuTorch's toy models, and an LSTM."""
    made = []
    for make in OF_EXAMPLES:
        module = seeded(make.__name__, make)
        made.append(export(make.__name__, module, module.get_example_inputs(), False))
    lstm = seeded("LSTM", lambda: torch.nn.LSTM(10, 20, 2))
    made.append(export("LSTM", lstm, (torch.randn(5, 3, 10), (torch.randn(2, 3, 20), torch.randn(2, 3, 20))), False))
    return made


def of_exir() -> list[dict]:
    """Parts of the models of `exir`'s tests."""
    x, y = torch.randn(4, 6), torch.randn(2, 3, 4)
    parts = [("Identity", models.Identity, (x,)), ("Reshape", models.Reshape, (x, (3, 8))), ("Transpose", models.Transpose, (x, 0, 1)), ("NoOp", models.NoOp, (x,)),
              ("BatchMatrixMultiplication", models.BatchMatrixMultiplication, (y, torch.randn(2, 4, 5))),
              ("BatchMatrixMultiplication_True", partial(models.BatchMatrixMultiplication, True), (y, torch.randn(2, 5, 4))),
              ("TensorSplit", models.TensorSplit, (x, 3)), ("TensorSplitWithSizes", models.TensorSplitWithSizes, (x, 4, 1)),
              ("FeedForwardBlock", partial(models.FeedForwardBlock, 6, 12), (x,)), ("MultiLayerPerceptron", partial(models.MultiLayerPerceptron, 6, 12, 16, 8, 3), (x,)),
              ("BatchNormModel", dynamic_shape_models.BatchNormModel, (torch.randn(2, 3, 5, 5),)),
              ("MultiplePoolsToyModel", test_memory_planning.MultiplePoolsToyModel, (torch.ones(1),))]
    return [export(name, seeded(name, make).eval(), inputs, False) for name, make, inputs in parts]


def of_runtime() -> list[dict]:
    """Modules of the tests of ExecuTorch's runtime."""
    return [export(name, seeded(name, make), inputs, False, shapes) for name, make, inputs, shapes in runtime_models.all_of_them()]


def tiny(name: str) -> list[dict]:
    """Model of MLPerf Tiny."""
    eager = seeded(name, TINY[name])
    return [export(name, seeded(name, eager.get_eager_model), eager.get_example_inputs(), False)]


def image_model(name: str) -> list[dict]:
    """Model of the test suite with fewer channels, with a fixed image size and with dynamic sizes."""
    make, size, is_dynamic = IMAGE_MODELS[name]
    inputs = (torch.randn(1, 3, size, size),)
    made = [export(name, seeded(name, make).eval(), inputs, False)]
    if is_dynamic:
        sizes = {2: 16 * Dim("height", min=1, max=4), 3: 16 * Dim("width", min=1, max=4)}
        made.append(export(f"{name}, dynamic", seeded(name, make).eval(), inputs, False, (sizes,)))
    return made


# Archives of models, with the functions that export them.
ARCHIVES = {"of_tests": of_tests, "of_exir": of_exir, "of_runtime": of_runtime, "of_examples": of_examples}
ARCHIVES |= {name: partial(tiny, name) for name in TINY} | {name: partial(image_model, name) for name in IMAGE_MODELS}
