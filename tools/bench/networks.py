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


def whisper(width, layers):
    """Configuration of a Whisper."""
    from transformers import WhisperConfig

    return WhisperConfig(
        d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width,
    )


def whisper_encoder(*size):
    """Encoder of Whisper on 30 s of features."""
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    encoder = WhisperEncoder(whisper(*size)).eval()
    return Selected(encoder, lambda x: x.last_hidden_state), (torch.randn(1, 80, 3000),)


class WhisperStep(torch.nn.Module):
    """Decoder of Whisper on the embedding of one token and the rows of the encoder. As in the public
    exports for CPUs, it computes the keys and values of the rows."""

    def __init__(self, config):
        super().__init__()
        from transformers.models.whisper.modeling_whisper import WhisperDecoder

        self.decoder = WhisperDecoder(config)

    def forward(self, embedding, rows):
        x = self.decoder(inputs_embeds=embedding, encoder_hidden_states=rows, use_cache=False)
        return x.last_hidden_state @ self.decoder.embed_tokens.weight.T


def whisper_step(*size):
    config = whisper(*size)
    return WhisperStep(config).eval(), (torch.randn(1, 1, config.d_model), torch.randn(1, 1500, config.d_model))


def whisper_mel():
    """Features of 30 s of sound by the preprocessor of ExecuTorch."""
    from executorch.extension.audio.mel_spectrogram import WhisperAudioProcessor

    return WhisperAudioProcessor(feature_size=80).eval(), (torch.randn(480_000),)


def parakeet_encoder():
    """Encoder of Parakeet TDT 0.6B on 10 s of features."""
    from transformers import ParakeetEncoder, ParakeetEncoderConfig

    config = ParakeetEncoderConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=8, intermediate_size=4096, num_mel_bins=128,
    )
    return Selected(ParakeetEncoder(config).eval(), lambda x: x.last_hidden_state), (torch.randn(1, 1000, 128),)


def smolvlm_vision():
    """Vision encoder of SmolVLM 256M, 512 pixels."""
    from transformers import SiglipVisionConfig, SiglipVisionModel

    config = SiglipVisionConfig(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, image_size=512,
        patch_size=16, vision_use_head=False,
    )
    model = SiglipVisionModel(config).eval()
    return Selected(model, lambda x: x.last_hidden_state), (torch.randn(1, 3, 512, 512),)


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
    "whisper_mel": whisper_mel,
    "whisper_tiny_encoder": lambda: whisper_encoder(384, 4),
    "whisper_tiny_step": lambda: whisper_step(384, 4),
    "whisper_base_encoder": lambda: whisper_encoder(512, 6),
    "whisper_base_step": lambda: whisper_step(512, 6),
    "parakeet_encoder": parakeet_encoder,
    "smolvlm_vision": smolvlm_vision,
}
