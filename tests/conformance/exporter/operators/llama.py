"""Cases of the operators of language models, and of tile_crop."""

import torch

from .data import BF16, F16, F32, F64, I8, I32, INF


def collect(c):
    """custom_sdpa to tile_crop."""
    sdpa(c)
    quantized_sdpa(c)
    caches(c)
    for x in (c.random((2, 3)), c.random((0, 3), I32)):
        c("llama::fallback.out", x, result=x)
    for dtype in (F32, F64, F16):
        for shape in [(1,), (3, 8), (2, 2, 32), (2, 28), (1, 112)]:
            x = c.random(shape, dtype)
            if dtype == F16:  # the official kernel rounds every partial sum
                c("llama::fast_hadamard_transform.out", x, result=torch.ops.llama.fast_hadamard_transform(x.float()).half())
            else:
                c.attempt("llama::fast_hadamard_transform.out", x, atol=1e-5)
    delta_rule(c)
    experts(c)
    for dtype in (F32, I8):
        for shape, side in [((3, 4, 6), 2), ((1, 3, 3), 3), ((2, 2, 4), 1)]:
            channels, height, width = shape
            x = c.random(shape, dtype)
            tiles = x.view(channels, height // side, side, width // side, side).permute(1, 3, 0, 2, 4)
            c("preprocess::tile_crop.out", x, side, result=tiles.reshape(-1, channels, side, side))


def reference(q, k, v, start, mask=None, causal=False, scale=None):
    """PyTorch's attention over the keys in use; positions are the second dimension."""
    used = k.shape[1] if mask is not None else start + q.shape[1]
    if causal:
        mask = torch.full((q.shape[1], used), -INF).triu(start + 1)
    heads = [x.transpose(1, 2).float() for x in (q, k[:, :used], v[:, :used])]
    repeat = heads[0].shape[1] // heads[1].shape[1]
    heads[1:] = [x.repeat_interleave(repeat, 1) for x in heads[1:]]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        out = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=mask, scale=scale)
    return out.transpose(1, 2).contiguous().to(q.dtype)


SHAPES = [(1, 1, 5, 2, 2, 4), (2, 3, 7, 4, 2, 8), (1, 20, 24, 2, 1, 3), (1, 1, 130, 1, 1, 4), (1, 34, 40, 1, 1, 2)]


def sdpa(c):
    """custom_sdpa and sdpa_with_kv_cache."""
    op = "llama::custom_sdpa.out"
    for batch, queries, keys, heads, key_heads, head_dim in SHAPES:
        q = c.random((batch, queries, heads, head_dim))
        k, v = (c.random((batch, keys, key_heads, head_dim)) for _ in range(2))
        for start in {0, keys - queries}:
            for causal in (False, True):
                c(op, q, k, v, start, None, 0.0, causal, None, result=reference(q, k, v, start, None, causal), rtol=1e-4, atol=1e-5)
        mask = c.random((queries, keys))
        mask[:, ::3] = -INF
        mask[:, -1] = 0.0
        c(op, q, k, v, 0, mask, 0.0, False, 0.3, result=reference(q, k, v, 0, mask, scale=0.3), rtol=1e-4, atol=1e-5)
    for dtype in (F16, BF16):
        q, k, v = (c.random((1, n, 2, 4), dtype, low=-1, high=1) for n in (3, 6, 6))
        c(op, q, k, v, 2, None, 0.0, True, None, result=reference(q, k, v, 2, None, True), atol=1e-2, rtol=1e-2)
    q, k, v = (c.random((1, n, 1, 4)) for n in (2, 3, 3))
    mask = torch.tensor([[-INF, -INF, -INF], [0.0, -INF, 1.0]])
    c(op, q, k, v, 0, mask, 0.0, False, None, result=reference(q, k, v, 0, mask).nan_to_num(0.0), note="a query without keys")
    for dtype in (F32, BF16):
        q = c.random((1, 2, 4, 4), dtype, low=-1, high=1)
        new = [c.random((1, 2, 2, 4), dtype, low=-1, high=1) for _ in range(2)]
        caches = [c.random((1, 6, 2, 4), dtype, low=-1, high=1) for _ in range(2)]
        after = [x.clone() for x in caches]
        for cache, x in zip(after, new, strict=True):
            cache[:, 3:5] = x
        close = {"atol": 1e-2, "rtol": 1e-2} if dtype == BF16 else {}
        c("llama::sdpa_with_kv_cache.out", q, *new, *caches, 3, 2, None, 0.0, True, None, result=reference(q, *after, 3, None, True), written=after, **close)


def quantized_sdpa(c):
    """custom_quantized_sdpa, in both layouts."""
    for heads_first in (False, True):
        for batch, queries, keys, heads, key_heads, head_dim in SHAPES[:3]:
            shapes = [(batch, queries, heads), (batch, keys, key_heads), (batch, keys, key_heads)]
            if heads_first:
                shapes = [(b, h, n) for b, n, h in shapes]
            numbers = [c.random((*s, head_dim), I8, low=-12, high=12) for s in shapes]
            zeros = [c.random((*s, 1), I8, low=-1, high=1) for s in shapes]
            scales = [c.random((*s, 1), low=0.002, high=0.02) for s in shapes]
            plain = [(n.float() - z.float()) * s for n, z, s in zip(numbers, zeros, scales, strict=True)]
            plain = [x.transpose(1, 2) for x in plain] if heads_first else plain
            out = reference(*plain, keys - queries, None, True)
            out = out.transpose(1, 2).contiguous() if heads_first else out
            pairs = [x for z, s in zip(zeros, scales, strict=True) for x in (z, s)]
            c("llama::custom_quantized_sdpa.out", *numbers, keys - queries, None, 0.0, True, None, *pairs, heads_first, result=out, atol=1e-5, rtol=1e-4)


def caches(c):
    """update_cache, update_cache_with_indices."""
    for dtype in (F32, I8, BF16):
        value, cache = c.random((2, 2, 1, 3), dtype), c.random((2, 5, 1, 3), dtype)
        nothing = torch.zeros(1, dtype=dtype)
        for start in (0, 3):
            after = cache.clone()
            after[:, start : start + 2] = value
            c("llama::update_cache.out", value, cache, start, result=nothing, written=[after])
        indices, after = torch.tensor([[4, 0], [1, 2]]), cache.clone()
        for batch, row in enumerate(indices):
            after[batch, row] = value[batch]
        c("llama::update_cache_with_indices.out", value, cache, 0, indices, result=nothing, written=[after])


def delta_rule(c):
    """gated_delta_rule under both names, with decays of both ranks, shared keys, and more than one chunk of 32."""
    for op in ("llama::gated_delta_rule.out", "llama::channelwise_gated_delta_rule.out"):
        for batch, heads, key_heads, time, k, v in [(1, 1, 1, 1, 2, 3), (2, 4, 2, 5, 3, 2), (1, 2, 2, 35, 4, 4), (1, 1, 1, 0, 2, 2)]:
            query, key = c.random((batch, heads, time, k), low=-1, high=1), c.random((batch, key_heads, time, k), low=-1, high=1)
            key = torch.nn.functional.normalize(key, dim=-1)
            value, beta = c.random((batch, key_heads, time, v)), c.random((batch, key_heads, time), low=0, high=1)
            state = c.random((batch, key_heads, k, v))
            for decay in (c.random((batch, key_heads, time), low=0.2, high=1), c.random((batch, key_heads, time, k), low=0, high=1)):
                out = recurrence(query, key, value, decay, beta, state)
                c(op, query, key, value, decay, beta, state, result=tuple(out), atol=1e-4, rtol=1e-4)


def recurrence(query, key, value, decay, beta, state):
    """The delta rule in float64, step by step."""
    query, key, value, decay, beta, state = (x.double() for x in (query, key, value, decay, beta, state))
    decay, group = decay if decay.dim() == 4 else decay.unsqueeze(-1), query.shape[1] // key.shape[1]
    out = torch.zeros(*query.shape[:3], value.shape[3], dtype=torch.float64)
    for t in range(query.shape[2]):
        state = state * decay[:, :, t, :, None]
        error = (value[:, :, t] - torch.einsum("bhkv,bhk->bhv", state, key[:, :, t])) * beta[:, :, t, None]
        state = state + torch.einsum("bhk,bhv->bhkv", key[:, :, t], error)
        out[:, :, t] = torch.einsum("bhkv,bhk->bhv", state.repeat_interleave(group, 1), query[:, :, t])
    return [out.float(), state.float()]


def experts(c):
    """quantized_moe_ffn with both score functions and several sizes and bit widths."""
    for bits, (tokens, count, activated, hidden, dim, group) in [(4, (3, 4, 2, 32, 32, 32)), (8, (1, 3, 1, 16, 32, 16)), (4, (2, 2, 2, 48, 16, 16))]:
        x, gate = c.random((tokens, dim)), c.random((count, dim), low=-0.5, high=0.5)
        up, up_packed = weights(c, count, 2 * hidden, dim, group, bits)
        down, down_packed = weights(c, count, dim, hidden, group, bits)
        for scoring, bias in [("sigmoid", c.random((count,))), ("sigmoid", torch.empty(0)), ("softmax", torch.empty(0))]:
            scores = x @ gate.T
            if scoring == "sigmoid":
                scores = scores.sigmoid()
                best = (scores + bias if bias.numel() else scores).topk(activated).indices
                expert_weights = scores.gather(1, best)
                expert_weights = expert_weights / expert_weights.sum(1, keepdim=True) * 2.5
            else:
                best = scores.topk(activated).indices
                expert_weights = scores.gather(1, best).softmax(1)
            out = torch.zeros(tokens, dim)
            for token in range(tokens):
                for weight, expert in zip(expert_weights[token], best[token], strict=True):
                    u, g = (up[expert] @ x[token]).chunk(2)
                    out[token] += weight * (down[expert] @ (torch.nn.functional.silu(u) * g))
            c("llama::quantized_moe_ffn.out", x, gate, bias, up_packed, down_packed, activated, count, hidden, dim, group, bits, scoring, 2.5, result=out, atol=1e-4, rtol=1e-4)


def weights(c, count, rows, columns, group, bits):
    """Dequantized matrices, and the same matrices in torchao's packed format (8 rows, 16 columns, 2 halves)."""
    numbers = c.random((count, rows, columns), I8, low=-0.8, high=0.7)
    scales = c.random((count, rows, columns // group), low=0.01, high=0.05)
    blobs = []
    for matrix, scale in zip(numbers, scales, strict=True):
        parts = [torch.tensor([6712, 1, bits, 0, 0, 8, 16, 2] + [0] * 8, dtype=I32).view(torch.uint8)]
        for row in range(0, rows, 8):
            for at in range(0, columns, group):
                block = matrix[row : row + 8, at : at + group]
                chunks = block.view(8, group // 8, 8).transpose(0, 1).reshape(-1, 2, 16)
                low, high = (chunks + 8).view(torch.uint8).unbind(1)
                parts.append(low | high << 4 if bits == 4 else chunks.contiguous().view(torch.uint8))
                parts += [scale[row : row + 8, at // group].contiguous().view(torch.uint8), block.int().sum(1, dtype=I32).view(torch.uint8)]
        blobs.append(torch.cat([part.flatten() for part in parts]))
    return numbers.float() * scales.repeat_interleave(group, 2), torch.stack(blobs)
