"""Exports tiny models with random weights: one for each kind of cache, and programs of several methods.

    python runtime/text/tests/make_caches.py

Needs torch and executorch. Writes the programs `tests/data/cache_*.pte` and `tests/data/methods_*.pte`,
and `tests/data/caches.json`: tokens with the logits of PyTorch after the last of them.
"""

import json
import pathlib
import random

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass

DATA = pathlib.Path(__file__).parent / "data"
CONTEXT, VOCABULARY, WIDTH = 64, 40, 16
WINDOW, SLOTS = 8, 12


class Recurrent(torch.nn.Module):
    """Gated linear recurrence: the state is one vector, and positions are not used."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.gate, self.value, self.decay = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("state", torch.zeros(1, WIDTH))

    def forward(self, tokens, positions):
        x = self.embed(tokens[0])
        added = torch.sigmoid(self.gate(x)) * self.value(x)
        decay = torch.sigmoid(self.decay(x) + 2.0)
        # log_decay[t, s] is the decay of what step s added, at step t.
        total = torch.cumsum(torch.log(decay), 0)
        at = torch.arange(x.size(0))
        seen = (at[:, None] >= at[None, :])[:, :, None]
        log_decay = torch.where(seen, total[:, None] - total[None, :], torch.full([], -1e9))
        states = torch.exp(total) * self.state + (torch.exp(log_decay) * added[None, :]).sum(1)
        last = states[-1:]
        self.state.copy_(last)
        return self.head(last + x[-1:])


class Hybrid(Recurrent):
    """The same, with an embedding of the positions."""

    def __init__(self):
        super().__init__()
        self.embed_position = torch.nn.Embedding(CONTEXT, WIDTH)

    def forward(self, tokens, positions):
        return super().forward(tokens, positions) + self.head(self.embed_position(positions[-1:]))


class Attention(torch.nn.Module):
    """One layer of attention to the last `window` tokens, with a cache of `slots` of them."""

    def __init__(self, window, slots):
        super().__init__()
        self.window, self.slots = window, slots
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.embed_position = torch.nn.Embedding(CONTEXT, WIDTH)
        self.query, self.key, self.value = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("keys", torch.zeros(slots, WIDTH))
        self.register_buffer("values", torch.zeros(slots, WIDTH))
        # Position + 1 of the token in each slot; 0 is an empty slot.
        self.register_buffer("held", torch.zeros(slots, dtype=torch.long))

    def attend(self, tokens, positions):
        x = self.embed(tokens[0]) + self.embed_position(positions)
        slot = positions % self.slots
        self.keys.index_put_((slot,), self.key(x))
        self.values.index_put_((slot,), self.value(x))
        self.held.index_put_((slot,), positions + 1)
        distance = positions[:, None] + 1 - self.held[None, :]
        seen = (self.held[None, :] > 0) & (distance >= 0) & (distance < self.window)
        scores = torch.where(seen, self.query(x) @ self.keys.T, torch.full([], -1e9))
        return x + torch.softmax(scores, -1) @ self.values

    def forward(self, tokens, positions):
        return self.head(self.attend(tokens, positions)[-1:])


class Adapted(Attention):
    """Attention, and the same with a low-rank adapter of the head."""

    def __init__(self):
        super().__init__(CONTEXT, CONTEXT)
        self.down, self.up = torch.nn.Linear(WIDTH, 2), torch.nn.Linear(2, VOCABULARY)

    def adapted(self, tokens, positions):
        last = self.attend(tokens, positions)[-1:]
        return self.head(last) + self.up(self.down(last))


class Method(torch.nn.Module):
    """Makes a function of a model its `forward`."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, tokens, positions):
        return getattr(self.model, self.name)(tokens, positions)


def write(name, methods, shared=False, **more):
    """Exports `methods`: for each name a module, and the least and greatest number of tokens."""
    exported = {}
    for method, (module, least, most) in methods.items():
        inputs = (torch.zeros(1, least + (most > 1), dtype=torch.long), torch.arange(least + (most > 1)))
        count = torch.export.Dim("count", min=least, max=most) if most > 1 else None
        shapes = ({1: count}, {0: count}) if count else None
        with torch.no_grad():
            exported[method] = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes, strict=False)
    constants = {"get_max_seq_len": CONTEXT, "get_vocab_size": VOCABULARY, "use_kv_cache": True, **more}
    edge = to_edge_transform_and_lower(
        exported, constant_methods=constants, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False, share_mutable_buffers=shared)
    made = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning, emit_mutable_buffer_names=shared))
    target = DATA / name
    target.write_bytes(made.buffer)
    print(f"{name}: {target.stat().st_size} bytes", flush=True)


def logits(model, method="forward"):
    """Logits of PyTorch after token lists of several lengths, each from the initial state."""
    rng, cases = random.Random(4), []
    initial = {name: value.clone() for name, value in model.named_buffers()}
    for length in (1, 2, 7, 8, 9, 30):
        tokens = [rng.randrange(VOCABULARY) for _ in range(length)]
        for name, value in model.named_buffers():
            value.copy_(initial[name])
        with torch.no_grad():
            for at, token in enumerate(tokens):
                found = getattr(model, method)(torch.tensor([[token]]), torch.tensor([at]))
        cases.append({"tokens": tokens, "logits": [round(float(value), 6) for value in found[0]]})
    for name, value in model.named_buffers():
        value.copy_(initial[name])
    return cases


def main():
    torch.manual_seed(2)
    recurrent, hybrid, ring, adapted = Recurrent(), Hybrid(), Attention(WINDOW, SLOTS), Adapted()
    cases = {
        "cache_recurrent.pte": logits(recurrent), "cache_hybrid.pte": logits(hybrid), "cache_ring.pte": logits(ring),
        "methods_pair.pte": logits(adapted), "methods_lora.pte": logits(adapted, "adapted"),
    }
    (DATA / "caches.json").write_text(json.dumps(cases) + "\n")
    write("cache_recurrent.pte", {"forward": (recurrent, 1, 12)})
    write("cache_hybrid.pte", {"forward": (hybrid, 1, 12)})
    write("cache_ring.pte", {"forward": (ring, 1, SLOTS - WINDOW + 1)}, sliding_window=WINDOW)
    pair = {"prefill": (Method(adapted, "forward"), 2, 12), "decode": (Method(adapted, "forward"), 1, 1)}
    write("methods_pair.pte", pair, shared=True, get_max_prefill_chunk=10)
    both = {"base_forward": (Method(adapted, "forward"), 1, 12), "lora_forward": (Method(adapted, "adapted"), 1, 12)}
    write("methods_lora.pte", both, shared=True)


if __name__ == "__main__":
    main()
