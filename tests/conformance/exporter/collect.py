"""Operator cases: arguments in the order of the `.out` schema, expected values from the functional operator."""

import json
import zlib
from pathlib import Path

import torch

from .values import DTYPES, compressed, dim_order, double, inline_tensor, tensor_json

TOLERANCES = {torch.float64: (1e-10, 1e-9), torch.float32: (1e-6, 1e-5), torch.float16: (1e-4, 2e-3), torch.bfloat16: (1e-3, 1.6e-2)}
NAMESPACES = (torch.ops.aten, torch.ops.dim_order_ops)


def packet(name: str):
    """Namespace and operator packet of a name in functions.yaml."""
    space, _, base = name.split(".")[0].rpartition("::")
    if not space:
        space = "dim_order_ops" if base in ("_to_dim_order_copy", "_clone_dim_order", "_empty_dim_order") else "aten"
    return space, getattr(getattr(torch.ops, space), base)


def base_name(name: str) -> str:
    """Name without namespace and overload."""
    return name.split("::")[-1].split(".")[0]


def overload(name: str):
    """Namespace and overload of a name such as `add.out` or `copy_`."""
    space, found = packet(name)
    return space, getattr(found, name.partition(".")[2] or "default")


def functional(name: str):
    """Functional overload of the same operator with the same inputs; None for factories."""
    _, given = overload(name)
    inputs = [(a.name, str(a.type)) for a in given._schema.arguments if not a.is_out]
    for other in packet(name)[1].overloads():
        schema = getattr(packet(name)[1], other)._schema
        arguments = [(a.name, str(a.type)) for a in schema.arguments]
        if arguments == inputs and not any(a.alias_info and a.alias_info.is_write for a in schema.arguments):
            return getattr(packet(name)[1], other)
    return None


def encode(kind: str, value):
    """JSON of one argument of the schema type `kind`."""
    if kind.startswith("Optional["):
        return {"none": True} if value is None else encode(kind[9:-1], value)
    if kind == "Tensor":
        return {"tensor": inline_tensor(value)}
    if kind.startswith("List[") and "Tensor" in kind:
        return {"tensors": [x if x is None else inline_tensor(x) for x in value]}
    if kind == "number":
        return {"scalar": number(value)}
    if kind == "ScalarType":
        return {"dtype": DTYPES[value]}
    if kind == "MemoryFormat":
        return {"int": {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2}[value]}
    if kind.startswith("List["):
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        plural = {"int": "ints", "float": "doubles", "bool": "bools"}[kind[5:-1]]
        return {plural: [double(x) for x in items] if plural == "doubles" else items}
    if kind == "float":
        return {"double": double(float(value))}
    return {{"int": "int", "SymInt": "int", "bool": "bool", "str": "str"}[kind]: value}


def number(value) -> dict:
    """JSON of a Python number."""
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"double": double(value)}


class Collector:
    """Cases of all operators, by operator, with the random generator for their inputs."""

    def __init__(self, registered: set[str]):
        self.registered = registered
        self.cases: dict[str, list[dict]] = {}
        self.missing: set[str] = set()
        self.rejected: dict[str, str] = {}
        self.generator = torch.Generator()

    def __call__(self, name: str, *args, out=None, order=None, atol=None, rtol=None, note="", loose=False, capacity=None, result=None, written=(), **kwargs):
        """Adds one case.

        `out` is the dtype of a factory's output, `order` the dim order of the outputs, and `result` a given result or a tuple of results.
        `written` has the values of mutable arguments after the call.
        `loose` and `capacity` make the capacity of an output larger than its result.
        """
        if name not in self.registered:
            self.missing.add(name)
            return
        _, op = overload(name)
        results = list(result) if isinstance(result, tuple) else [result] if result is not None else self.run(name, op, args, kwargs, out)
        case = {"args": [], "expected": []}
        flat = list(written) + [x for r in results for x in (r if isinstance(r, (list, tuple)) else [r])]
        outputs = iter(results)
        for position, argument in enumerate(op._schema.arguments):
            if argument.is_out:
                case["args"].append(self.output(next(outputs), order, loose, capacity))
                continue
            value = kwargs[argument.name] if argument.name in kwargs else args[position] if position < len(args) else argument.default_value
            case["args"].append(encode(str(argument.real_type), value))
        case["expected"] = [inline_tensor(self.laid_out(x, order)) for x in flat]
        floating = [TOLERANCES[x.dtype] for x in flat if x.dtype in TOLERANCES]
        default = max(floating, default=(0, 0))
        case |= {"atol": default[0] if atol is None else atol, "rtol": default[1] if rtol is None else rtol}
        if note:
            case["note"] = note
        self.cases.setdefault(name, []).append(case)

    def run(self, name: str, op, args: tuple, kwargs: dict, out) -> list:
        """Results of PyTorch, one for each output argument."""
        if not any(a.is_out for a in op._schema.arguments):
            target = args[0].clone()
            op(target, *args[1:], **kwargs)
            return [target]
        if out is not None or functional(name) is None:
            result = torch.empty(0, dtype=out or args[0].dtype)
            op(*args, **kwargs, out=result)
            return [result]
        returned = functional(name)(*args, **kwargs)
        count = sum(a.is_out for a in op._schema.arguments)
        return list(returned) if count > 1 else [returned]

    def laid_out(self, tensor: torch.Tensor, order) -> torch.Tensor:
        """Tensor in dim order `order`, contiguous if it is None."""
        tensor = tensor.detach().resolve_conj().contiguous()
        if order is None or tensor.dim() != len(order):
            return tensor
        inverse = [order.index(d) for d in range(len(order))]
        return tensor.permute(order).contiguous().permute(inverse)

    def output(self, tensor, order, loose: bool, capacity) -> dict:
        """JSON of an output argument or of an output list."""
        if isinstance(tensor, (list, tuple)):
            return {"outs": [self.output(x, order, loose, capacity)["out"] for x in tensor]}
        plain = list(range(tensor.dim()))
        described = tensor_json(tensor, order if order and len(order) == tensor.dim() else plain)
        if loose:
            described["sizes"] = [n + 1 for n in described["sizes"]]
        if capacity:
            described["sizes"] = list(capacity)
        return {"out": described}

    def attempt(self, name: str, *args, **kwargs):
        """Adds a case unless PyTorch rejects it, as for some dtypes."""
        try:
            self(name, *args, **kwargs)
        except (RuntimeError, NotImplementedError, IndexError) as error:
            self.rejected.setdefault(name, str(error).splitlines()[0])

    def into(self, dtype, name: str, *args, **kwargs):
        """Adds a case with output dtype `dtype`, unless PyTorch rejects the cast of the result."""
        result = torch.empty(0, dtype=dtype)
        try:
            overload(name)[1](*args, **kwargs, out=result)
        except RuntimeError as error:
            self.rejected.setdefault(name, str(error).splitlines()[0])
            return
        atol, rtol = max(TOLERANCES[torch.float32], TOLERANCES.get(dtype, (0, 0)))  # PyTorch computes in f32 and converts
        self(name, *args, **kwargs, result=result, atol=atol, rtol=rtol, note=f"written as {DTYPES[dtype]}")

    def accepts(self, name: str, dtype) -> bool:
        """True if PyTorch accepts two tensors of this dtype."""
        try:
            self.run(name, overload(name)[1], (torch.ones(1, dtype=dtype), torch.ones(1, dtype=dtype)), {}, None)
        except RuntimeError:
            return False
        return True

    def random(self, shape, dtype=torch.float32, low=-3.0, high=3.0) -> torch.Tensor:
        """Random tensor; integers in a range that fits the dtype."""
        if dtype == torch.bool:
            return torch.rand(shape, generator=self.generator) < 0.5
        if dtype.is_floating_point:
            return (torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low).to(dtype)
        low = 0 if dtype == torch.uint8 else int(low * 10)
        return torch.randint(low, int(high * 10) + 1, shape, generator=self.generator).to(dtype)

    def seed(self, text: str):
        """Seeds the random generator for one family."""
        self.generator.manual_seed(zlib.crc32(text.encode()))

    def write(self, folder: Path, bases: set[str] | None = None) -> dict[str, int]:
        """Writes one archive for each operator name. Returns their sizes in bytes."""
        files: dict[str, list[str]] = {}
        for name, cases in self.cases.items():
            if bases and base_name(name) not in bases:
                continue
            space, _ = packet(name)
            lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
            files.setdefault(base_name(name), []).append(f'{{"operator": "{space}::{name.split("::")[-1]}", "cases": [\n{lines}\n]}}')
        folder.mkdir(parents=True, exist_ok=True)
        sizes = {}
        for base, texts in files.items():
            packed = compressed("[\n" + ",\n".join(texts) + "\n]\n")
            (folder / f"{base}.json.gz").write_bytes(packed)
            sizes[base] = len(packed)
        return sizes
