"""Operator cases with explicit arguments of the schema, outputs included."""

import json
from pathlib import Path

import torch

from .values import compressed, dim_order, double, inline_tensor, tensor_json


class Out:
    """Output argument with its expected value."""

    def __init__(self, value: torch.Tensor, order: list[int] | None = None):
        self.value = value.detach().resolve_conj().resolve_neg()
        self.order = order or list(range(value.dim()))

    def expected(self) -> dict:
        """JSON of the value in the dim order of the output."""
        inverse = [self.order.index(d) for d in range(len(self.order))]
        return inline_tensor(self.value.permute(self.order).contiguous().permute(inverse))


def argument(value, names: dict) -> dict:
    """JSON of one argument."""
    if isinstance(value, Out):
        return {"out": tensor_json(value.value, value.order)}
    if isinstance(value, torch.Tensor):
        return {"tensor": inline_tensor(value)}
    if value is None:
        return {"none": True}
    if isinstance(value, torch.dtype):
        return {"dtype": names[value]}
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, float):
        return {"double": double(value)}
    if isinstance(value, str):
        return {"str": value}
    if value and isinstance(value[0], bool):
        return {"bools": list(value)}
    return {"ints": list(value)}


class Recorder:
    """Cases of all operators, by operator with its namespace."""

    def __init__(self, names: dict):
        self.names = names
        self.cases: dict[str, list[dict]] = {}

    def __call__(self, operator: str, *args, atol=0.0, rtol=0.0, note=""):
        """Adds one case."""
        case = {"args": [argument(x, self.names) for x in args], "expected": [x.expected() for x in args if isinstance(x, Out)]}
        case |= {"atol": atol, "rtol": rtol} | ({"note": note} if note else {})
        self.cases.setdefault(operator, []).append(case)

    def write(self, folder: Path) -> None:
        """Writes one archive for each operator without its overload, and prints the number of its cases."""
        files: dict[str, list[str]] = {}
        for operator, cases in self.cases.items():
            lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
            space, name = operator.split(".")[0].split("::")
            files.setdefault(f"{space}.{name}", []).append(f'{{"operator": "{operator}", "cases": [\n{lines}\n]}}')
            print(f"| {operator} | {len(cases)} |")
        for base, texts in files.items():
            (folder / f"{base}.json.gz").write_bytes(compressed("[\n" + ",\n".join(texts) + "\n]\n"))
