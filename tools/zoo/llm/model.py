"""A small Llama for training: the arithmetic and the names of weights are those of the official one, without a cache."""
import math

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT = 512
LAYERS, WIDTH = 12, 192
ROPE_BASE = 10000.0
# The export rounds weights to four bits, in groups that share a scale.
GROUP, LEVELS = 32, 16
# So many queries are attended at once.
QUERIES = 128


def shape(vocabulary, layers=LAYERS):
    """The parameters of the model as the official exporter reads them."""
    return {"dim": WIDTH, "n_layers": layers, "n_heads": 6, "n_kv_heads": 6, "hidden_dim": 512, "vocab_size": vocabulary,
            "norm_eps": 1e-5, "rope_theta": ROPE_BASE}


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


def angles(width, length=CONTEXT):
    """Cosines and sines of the rotary position, one for each pair of values of a head."""
    rates = ROPE_BASE ** -(torch.arange(0, width, 2).float() / width)
    turned = torch.outer(torch.arange(length).float(), rates)
    return turned.cos(), turned.sin()


def rotate(x, cosines, sines):
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((even * cosines - odd * sines, even * sines + odd * cosines), -1)
    return turned.flatten(-2).to(x.dtype)


class Attend(torch.autograd.Function):
    """Causal attention by blocks of queries; forwards and back it takes half the time of PyTorch's, which is not made for
    heads of 32 values on a processor."""

    @staticmethod
    def forward(ctx, query, key, value):
        query = query / math.sqrt(query.shape[-1])
        shares, found = [], []
        for start in range(0, query.shape[-2], QUERIES):
            rows = query[..., start:start + QUERIES, :]
            stop = start + rows.shape[-2]
            scores = (rows @ key[..., :stop, :].transpose(-1, -2)).float()
            later = torch.ones(stop - start, stop - start, dtype=torch.bool).triu(1)
            scores[..., start:].masked_fill_(later, -math.inf)
            shares.append(torch.softmax(scores, -1).to(query.dtype))
            found.append(shares[-1] @ value[..., :stop, :])
        ctx.save_for_backward(query, key, value, *shares)
        return torch.cat(found, -2)

    @staticmethod
    def backward(ctx, gradient):
        query, key, value, *shares = ctx.saved_tensors
        of_query, of_key, of_value = (torch.zeros(x.shape) for x in (query, key, value))
        for start, share in zip(range(0, query.shape[-2], QUERIES), shares):
            stop = start + share.shape[-2]
            rows = gradient[..., start:stop, :].to(share.dtype)
            of_value[..., :stop, :] += share.transpose(-1, -2) @ rows
            of_share = (rows @ value[..., :stop, :].transpose(-1, -2)).float()
            of_scores = torch._softmax_backward_data(of_share, share.float(), -1, torch.float32).to(share.dtype)
            of_query[..., start:stop, :] = of_scores @ key[..., :stop, :]
            of_key[..., :stop, :] += of_scores.transpose(-1, -2) @ query[..., start:stop, :]
        of_query /= math.sqrt(query.shape[-1])
        return of_query.to(query.dtype), of_key.to(key.dtype), of_value.to(value.dtype)


# Compiled, it would be compiled for each length anew.
attend = torch.compiler.disable(Attend.apply)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, cosines, sines):
        query, key, value = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        query, key = rotate(query, cosines, sines), rotate(key, cosines, sines)
        seen = attend(query, key, value)
        return self.wo(seen.transpose(1, 2).flatten(-2))


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
        self.attention_norm, self.ffn_norm = Norm(s["dim"], s["norm_eps"]), Norm(s["dim"], s["norm_eps"])

    def forward(self, x, cosines, sines):
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """Tokens [B, T] to logits [B, T, V], or [N, V] of the N picked by a mask [B, T]; the embedding's weights give them."""

    def __init__(self, s):
        super().__init__()
        self.tok_embeddings = nn.Embedding(s["vocab_size"], s["dim"])
        self.layers = nn.ModuleList(Layer(s) for _ in range(s["n_layers"]))
        self.norm = Norm(s["dim"], s["norm_eps"])
        cosines, sines = angles(s["dim"] // s["n_heads"])
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

    def forward(self, tokens, picked=None):
        hidden = self.hidden(tokens)
        return F.linear(hidden if picked is None else hidden[picked], self.tok_embeddings.weight)


def grown(model, s):
    """A model of more layers that computes the same: a layer more gives nothing until it has learnt."""
    larger, state = Llama(s), model.state_dict()
    last = None
    for at, layer in enumerate(larger.layers):
        source = at * len(model.layers) // len(larger.layers)
        layer.load_state_dict(model.layers[source].state_dict())
        if source == last:
            nn.init.zeros_(layer.attention.wo.weight)
            nn.init.zeros_(layer.feed_forward.w2.weight)
        last = source
    larger.tok_embeddings.weight.data.copy_(state["tok_embeddings.weight"])
    larger.norm.weight.data.copy_(state["norm.weight"])
    return larger


def rounded(weights):
    """A matrix as the export stores it."""
    groups = weights.detach().unflatten(-1, (-1, GROUP))
    scale = (groups.abs().amax(-1, keepdim=True) / ((LEVELS - 1) / 2)).clamp_min(1e-9)
    return (groups / scale).round_().clamp_(-LEVELS // 2, LEVELS // 2 - 1).mul_(scale).flatten(-2)
