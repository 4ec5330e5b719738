"""A small Llama for training, without a cache.

Arithmetic and weight names are those of the official one.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT = 512
LAYERS, WIDTH = 12, 192
ROPE_BASE = 10000.0
# The export quantizes weights to 4 bits, with one scale for each group.
GROUP_SIZE, QUANT_LEVELS = 32, 16
# Queries of one attention block.
QUERY_BLOCK = 128


def shape(vocabulary, layers=LAYERS):
    """Returns the parameters of the model in the format of the official exporter."""
    return {"dim": WIDTH, "n_layers": layers, "n_heads": 6, "n_kv_heads": 6, "hidden_dim": 512,
            "vocab_size": vocabulary, "norm_eps": 1e-5, "rope_theta": ROPE_BASE}


class RmsNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


def rope_tables(width, length=CONTEXT):
    """Returns cosines and sines of the rotary position embedding, one for each pair of values of a
    head.
    """
    frequencies = ROPE_BASE ** -(torch.arange(0, width, 2).float() / width)
    angles = torch.outer(torch.arange(length).float(), frequencies)
    return angles.cos(), angles.sin()


def apply_rope(x, cosines, sines):
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    rotated = torch.stack((even * cosines - odd * sines, even * sines + odd * cosines), -1)
    return rotated.flatten(-2).to(x.dtype)


class CausalAttention(torch.autograd.Function):
    """Causal attention by blocks of queries.

    For training on a CPU: PyTorch's attention is not optimized for heads of 32 values there.
    """

    @staticmethod
    def forward(ctx, query, key, value):
        query = query / math.sqrt(query.shape[-1])
        probabilities, outputs = [], []
        for start in range(0, query.shape[-2], QUERY_BLOCK):
            block = query[..., start:start + QUERY_BLOCK, :]
            stop = start + block.shape[-2]
            scores = (block @ key[..., :stop, :].transpose(-1, -2)).float()
            mask = torch.ones(stop - start, stop - start, dtype=torch.bool).triu(1)
            scores[..., start:].masked_fill_(mask, -math.inf)
            probabilities.append(torch.softmax(scores, -1).to(query.dtype))
            outputs.append(probabilities[-1] @ value[..., :stop, :])
        ctx.save_for_backward(query, key, value, *probabilities)
        return torch.cat(outputs, -2)

    @staticmethod
    def backward(ctx, grad):
        query, key, value, *probabilities = ctx.saved_tensors
        grad_query, grad_key, grad_value = (torch.zeros(x.shape) for x in (query, key, value))
        for start, p in zip(range(0, query.shape[-2], QUERY_BLOCK), probabilities):
            stop = start + p.shape[-2]
            block = grad[..., start:stop, :].to(p.dtype)
            grad_value[..., :stop, :] += p.transpose(-1, -2) @ block
            grad_p = (block @ value[..., :stop, :].transpose(-1, -2)).float()
            grad_scores = torch._softmax_backward_data(grad_p, p.float(), -1, torch.float32).to(p.dtype)
            grad_query[..., start:stop, :] = grad_scores @ key[..., :stop, :]
            grad_key[..., :stop, :] += grad_scores.transpose(-1, -2) @ query[..., start:stop, :]
        grad_query /= math.sqrt(query.shape[-1])
        return grad_query.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype)


# Not compiled: it would be recompiled for each length.
causal_attention = torch.compiler.disable(CausalAttention.apply)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, cosines, sines):
        query, key, value = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        query, key = apply_rope(query, cosines, sines), apply_rope(key, cosines, sines)
        output = causal_attention(query, key, value)
        return self.wo(output.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.attention = Attention(s["dim"], s["n_heads"])
        self.feed_forward = FeedForward(s["dim"], s["hidden_dim"])
        self.attention_norm, self.ffn_norm = RmsNorm(s["dim"], s["norm_eps"]), RmsNorm(s["dim"], s["norm_eps"])

    def forward(self, x, cosines, sines):
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """Tokens [B, T] to logits [B, T, V], or [N, V] of the N positions of a mask [B, T].

    The output projection shares the weights of the embedding.
    """

    def __init__(self, s):
        super().__init__()
        self.tok_embeddings = nn.Embedding(s["vocab_size"], s["dim"])
        self.layers = nn.ModuleList(Layer(s) for _ in range(s["n_layers"]))
        self.norm = RmsNorm(s["dim"], s["norm_eps"])
        cosines, sines = rope_tables(s["dim"] // s["n_heads"])
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        for name, weights in self.named_parameters():
            if weights.dim() == 2:
                nn.init.normal_(weights, 0, 0.04)

    def hidden(self, tokens):
        x = self.tok_embeddings(tokens)
        length = tokens.shape[1]
        for layer in self.layers:
            x = layer(x, self.cosines[:length], self.sines[:length])
        return self.norm(x)

    def forward(self, tokens, mask=None):
        hidden = self.hidden(tokens)
        return F.linear(hidden if mask is None else hidden[mask], self.tok_embeddings.weight)


def grow(model, s):
    """Returns a deeper model that computes the same: the output projections of added layers are
    zero.
    """
    larger, state = Llama(s), model.state_dict()
    last = None
    for index, layer in enumerate(larger.layers):
        source = index * len(model.layers) // len(larger.layers)
        layer.load_state_dict(model.layers[source].state_dict())
        if source == last:
            nn.init.zeros_(layer.attention.wo.weight)
            nn.init.zeros_(layer.feed_forward.w2.weight)
        last = source
    larger.tok_embeddings.weight.data.copy_(state["tok_embeddings.weight"])
    larger.norm.weight.data.copy_(state["norm.weight"])
    return larger


def fake_quantize(weights):
    """Returns a matrix with the rounding of the 4-bit export."""
    groups = weights.detach().unflatten(-1, (-1, GROUP_SIZE))
    scale = (groups.abs().amax(-1, keepdim=True) / ((QUANT_LEVELS - 1) / 2)).clamp_min(1e-9)
    return (groups / scale).round_().clamp_(-QUANT_LEVELS // 2, QUANT_LEVELS // 2 - 1).mul_(scale).flatten(-2)
