"""Program of the captioner: `vision_encoder`, `token_embedding` and `text_decoder`, as optimum exports them."""
import captioner
import torch
from captioner import CONTEXT, HEADS, VOCABULARY, WIDTH
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (XNNPACKQuantizer,
                                                                     get_symmetric_quantization_config)
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

# Most tokens of a call.
MAX_TOKENS = 128
CHAT = {"begin": captioner.BEGIN, "user": f"{captioner.USER}{{image}} {{text}}{captioner.END}",
        "answer": captioner.ASSISTANT, "end": captioner.END}


class Maps(nn.Module):
    """The convolutions of the encoder."""

    def __init__(self, features):
        super().__init__()
        self.features = features

    def forward(self, image):
        return self.features.maps(image)


class VisionEncoder(nn.Module):
    """Image f32[1, 3, 128, 160] from 0 to 1 to rows f32[1, 40, 96]."""

    def __init__(self, features, vision):
        super().__init__()
        self.maps, self.features, self.vision = Maps(features), features, vision

    def forward(self, image):
        return self.vision(self.features.joined(image, *self.maps(image)))


class TextDecoder(nn.Module):
    """Rows f32[1, n, 96] at positions i64[n] to logits f32[1, n, 384]. Keys and values are kept."""

    def __init__(self, decoder):
        super().__init__()
        self.layers, self.norm = decoder.layers, decoder.norm
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = nn.Parameter(decoder.embed.weight.detach().clone())
        self.register_buffer("cos", decoder.cos.clone())
        self.register_buffer("sin", decoder.sin.clone())
        for number in range(len(self.layers)):
            self.register_buffer(f"keys_{number}", torch.zeros(CONTEXT, WIDTH))
            self.register_buffer(f"values_{number}", torch.zeros(CONTEXT, WIDTH))

    def kept(self, name, rows, positions):
        """Stores rows [1, heads, n, d] at their positions. Returns all rows of the cache."""
        cache = getattr(self, name)
        cache.index_put_((positions,), rows.transpose(1, 2).reshape(-1, WIDTH))
        return cache.view(1, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, rows, positions):
        x, cos, sin = rows, self.cos[positions], self.sin[positions]
        mask = torch.where(torch.arange(CONTEXT)[None] <= positions[:, None], 0.0, -1e9)
        for number, layer in enumerate(self.layers):
            y = layer.norm(x)
            query, key = (captioner.turned(layer.heads(part(y)), cos, sin) for part in (layer.query, layer.key))
            keys = self.kept(f"keys_{number}", key, positions)
            values = self.kept(f"values_{number}", layer.heads(layer.value(y)), positions)
            x = layer.feed(x + layer.attend(query, keys, values, mask))
        return self.head(self.norm(x))


def in_maps(node):
    """True for the operations of `Maps`, and for constants."""
    modules = [name for name, _ in node.meta.get("nn_module_stack", {}).values()]
    return not modules or "maps" in modules


def quantizer_of_linears():
    """Returns a quantizer with int8 weights, and activations that are quantized when they are computed."""
    dynamic = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    return XNNPACKQuantizer().set_module_type(nn.Linear, dynamic)


def quantized(module, calls, shapes, quantizers):
    """Quantizes a module, calibrated with the inputs `calls`."""
    for quantizer in quantizers:
        module = prepare_pt2e(export(module, calls[0], dynamic_shapes=shapes, strict=True).module(), quantizer)
        with torch.no_grad():
            for inputs in calls:
                module(*inputs)
        module = convert_pt2e(module)
    return module


def build(network, features, images, is_int8):
    """Returns the program of a trained `Captioner` as bytes. `images` are for the calibration."""
    count = Dim("count", min=1, max=MAX_TOKENS)
    images = images.contiguous()
    encoder, decoder = VisionEncoder(features, network.vision).eval(), TextDecoder(network.decoder).eval()
    calls = [(torch.randn(1, 4, WIDTH), torch.arange(4))]
    shapes = ({1: count}, {0: count})
    if is_int8:
        static = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
        static.set_filter_function(in_maps)
        encoder = quantized(encoder, [(image[None],) for image in images], None, (static, quantizer_of_linears()))
        decoder = quantized(decoder, calls, shapes, (quantizer_of_linears(),))
    programs = {
        "vision_encoder": export(encoder, (images[:1],), strict=True),
        "token_embedding": export(network.decoder.embed, (torch.zeros(1, 4, dtype=torch.long),),
                                  dynamic_shapes=({1: count},), strict=True),
        "text_decoder": export(decoder, calls[0], dynamic_shapes=shapes, strict=True),
    }
    ids = captioner.Dialogues().ids
    constants = {"get_max_seq_len": CONTEXT, "get_vocab_size": VOCABULARY, "use_kv_cache": True, "modality": "vision",
                 "get_eos_id": ids[captioner.END], "image_token_id": ids[captioner.IMAGE]}
    lowered = to_edge_transform_and_lower(programs, constant_methods=constants,
                                          partitioner={name: [XnnpackPartitioner()] for name in programs},
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    return lowered.to_executorch().buffer
