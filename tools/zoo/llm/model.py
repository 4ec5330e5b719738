"""A small Llama for training: the arithmetic and the names of weights are those of the official one, without a cache."""
import torch
from torch import nn
from torch.nn import functional as F

CONTEXT = 512
LAYERS = 6
ROPE_BASE = 10000.0


def shape(vocabulary, layers=LAYERS):
    """The parameters of the model as the official exporter reads them."""
    return {"dim": 192, "n_layers": layers, "n_heads": 6, "n_kv_heads": 6, "hidden_dim": 512, "vocab_size": vocabulary,
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


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, cosines, sines):
        query, key, value = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        query, key = rotate(query, cosines, sines), rotate(key, cosines, sines)
        # Its backward pass is three times as fast in f32 as in bf16 where there is no AMX.
        seen = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), is_causal=True)
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
    """Tokens [B, T] to logits [B, T, V]; the output's weights are those of the embedding."""

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

    def forward(self, tokens):
        return F.linear(self.hidden(tokens), self.tok_embeddings.weight)


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
