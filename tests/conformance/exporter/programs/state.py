"""Programs with state in mutable buffers."""

import copy

import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch import nn
from torch.export import export

from ..program import Case, Program, lower, program
from .methods import Method


class Counter(nn.Module):
    """Sums its inputs over calls."""

    def __init__(self, start=0.0):
        super().__init__()
        self.register_buffer("total", torch.full((3,), start))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.total.add_(x)
        self.calls.add_(1)
        return self.total * 1.0, self.calls + 0

    def peek(self):
        return self.total + 0, self.calls + 0


def stateful(note, model, calls, **options):
    """Program with calls in order, then one call of a fresh instance."""
    cases = [Case(args) for args in calls] + [Case(calls[0], fresh=True, note="a fresh instance starts over")]
    return Program(note, copy.deepcopy(model), lower(model, calls[0], **options), cases)


@program
def counter():
    """Buffers without initial value."""
    return stateful("mutable buffers without initial value start at zero", Counter(), [(torch.randn(3),) for _ in range(3)])


@program
def counter_initialized():
    """A buffer with an initial value in the mutable segment."""
    return stateful("mutable buffer `total` with an initial value", Counter(start=2.5), [(torch.randn(3),) for _ in range(3)],
                    config=ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["total"])]))


@program
def counter_named():
    """Buffers with names."""
    return stateful("emit_mutable_buffer_names: fully_qualified_name is set", Counter(), [(torch.randn(3),) for _ in range(2)],
                    config=ExecutorchBackendConfig(emit_mutable_buffer_names=True))


@program
def returned_buffer():
    """The mutated buffer itself is an output."""
    class Accumulate(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.total += x
            return self.total
    return stateful("the output is the mutated buffer", Accumulate(), [(torch.randn(4),) for _ in range(3)])


class Cache(nn.Module):
    """KV cache that is written by position."""

    def __init__(self, whole=False):
        super().__init__()
        self.whole = whole
        self.register_buffer("keys", torch.zeros(1, 8, 2, 4))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, position, k, q):
        if self.whole:
            torch.ops.aten.index_put_(self.keys, [None, position], k)
        else:
            self.keys[:, position] = k
        self.last.copy_(q)
        scores = torch.einsum("bshd,bhd->bhs", self.keys, q.expand(1, 2, 4))
        return scores, self.keys[:, :4] * 1.0, self.last * 2


@program
def kv_cache():
    """index_put into a buffer."""
    calls = [(torch.tensor([i]), torch.randn(1, 1, 2, 4), torch.randn(4)) for i in (0, 1, 5)]
    return stateful("positions are written to a cache with index_put", Cache(), calls)


class SliceCache(nn.Module):
    """Sliding window: slice_scatter into buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.zeros(2, 6))
        self.register_buffer("table", torch.zeros(5, 3))

    def forward(self, x, row, rows):
        kept = self.window[:, 2:].clone()
        self.window[:, :4] = kept
        self.window[:, 4:] = x
        self.table.index_copy_(0, row, rows)
        return self.window.sum(dim=1), self.table + 1


@program
def sliding_window():
    """slice_scatter and index_copy into buffers."""
    calls = [(torch.randn(2, 2), torch.tensor([i, 4]), torch.randn(2, 3)) for i in (0, 3, 1)]
    return stateful("a sliding window (slice_scatter) and index_copy", SliceCache(), calls)


class Shared(nn.Module):
    """State that one method writes and another one reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x)
        return self.total - x

    def peek(self, x):
        return self.total * x


@program
def shared_state():
    """Two methods on one set of mutable buffers."""
    model = Shared()
    x = torch.randn(3)
    exported = {name: export(Method(model, name), (x,)) for name in ("forward", "peek")}
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True), emit_mutable_buffer_names=True)
    note = "share_mutable_buffers: the state has its own memory, at the same offset in both methods"
    calls = [Case((x,)), Case((x,), method="peek"), Case((x,)), Case((x,), method="peek"), Case((x,), method="peek", fresh=True)]
    return Program(note, model, lower(exported, None, config=config), calls)


@program
def kv_cache_reinplaced():
    """In-place operators, as the reinplace pass leaves them."""
    calls = [(torch.tensor([i]), torch.randn(1, 1, 2, 4), torch.randn(4)) for i in (0, 1, 5)]
    return stateful("run_reinplace_pass: index_put_ instead of index_put and copy_", Cache(whole=True), calls, config=ExecutorchBackendConfig(run_reinplace_pass=True))
