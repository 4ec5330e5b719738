"""Networks of vision and language with random weights, for `export_models.py`.

Needs timm and transformers in addition. Where a size differs from the published network, the builder
says so.
"""

import torch
import torchvision

IMAGE = (3, 224, 224)


class Selected(torch.nn.Module):
    """Network that returns `select` of what the inner one returns."""

    def __init__(self, inner, select):
        super().__init__()
        self.inner, self.select = inner, select

    def forward(self, x):
        return self.select(self.inner(x))


class Embedded(torch.nn.Module):
    """Language model on embeddings, so that its only input is `f32`. Returns the hidden states."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, embeddings):
        return self.inner(inputs_embeds=embeddings, use_cache=False).last_hidden_state


def image():
    return (torch.randn(1, *IMAGE),)


def deeplabv3(weights=None):
    """DeepLabV3 on MobileNetV3-large."""
    model = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
        weights=weights, weights_backbone=None
    )
    return Selected(model, lambda maps: maps["out"])


def fpn(weights=None):
    """Feature pyramid of ResNet-18."""
    model = torchvision.models.detection.backbone_utils.resnet_fpn_backbone(
        backbone_name="resnet18", weights=weights, norm_layer=torch.nn.BatchNorm2d, trainable_layers=5
    )
    return Selected(model, lambda maps: tuple(maps.values()))


def swin():
    """Swin-T."""
    return torchvision.models.swin_t(weights=None).eval(), image()


def pvt():
    """PVTv2-B0."""
    import timm

    return timm.create_model("pvt_v2_b0", pretrained=False).eval(), image()


def dpt():
    """DPT with the width of ViT-S and half of the fusion channels."""
    from transformers import DPTConfig, DPTForDepthEstimation

    config = DPTConfig(
        image_size=224, hidden_size=384, num_attention_heads=6, intermediate_size=1536,
        neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=128, backbone_out_indices=[2, 5, 8, 11],
    )
    return Selected(DPTForDepthEstimation(config).eval(), lambda x: x.predicted_depth), image()


def depth_anything():
    """Depth Anything small, on 224 instead of 518 pixels."""
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    stages = {"out_indices": [3, 6, 9, 12], "apply_layernorm": True, "reshape_hidden_states": False}
    backbone = Dinov2Config(
        image_size=224, patch_size=14, hidden_size=384, num_attention_heads=6, **stages
    )
    config = DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=384, patch_size=14,
        neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64, head_hidden_size=32,
    )
    model = DepthAnythingForDepthEstimation(config).eval()
    return Selected(model, lambda x: x.predicted_depth), image()


def albert():
    """ALBERT base on 64 embeddings."""
    from transformers import AlbertConfig, AlbertModel

    config = AlbertConfig(
        hidden_size=768, num_attention_heads=12, intermediate_size=3072, vocab_size=64
    )
    return Embedded(AlbertModel(config, add_pooling_layer=False).eval()), (torch.randn(1, 64, 128),)


def qwen3():
    """12 layers of Qwen3 with width 256 on 64 embeddings, without a cache."""
    from transformers import Qwen3Config, Qwen3Model

    config = Qwen3Config(
        hidden_size=256, num_hidden_layers=12, num_attention_heads=8, num_key_value_heads=4,
        head_dim=32, intermediate_size=768, vocab_size=64,
    )
    return Embedded(Qwen3Model(config).eval()), (torch.randn(1, 64, 256),)


# Networks whose batch normalization needs statistics.
CALIBRATED = {
    "shufflenet": torchvision.models.shufflenet_v2_x1_0,
    "deeplabv3": deeplabv3,
    "fpn": fpn,
}
NETWORKS = {
    "swin": swin,
    "pvt": pvt,
    "dpt": dpt,
    "depth_anything": depth_anything,
    "albert": albert,
    "qwen3": qwen3,
}
