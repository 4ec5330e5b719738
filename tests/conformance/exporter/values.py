"""JSON values and NPY files of Python and PyTorch values."""

import gzip
import math
from pathlib import Path

import numpy
import torch

DTYPES = {
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bool: "bool",
    torch.bfloat16: "bf16",
    torch.uint16: "u16",
    torch.complex32: "c32",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


def compressed(text: str) -> bytes:
    """Text compressed by gzip; deterministic."""
    return gzip.compress(text.encode(), 9, mtime=0)


def double(value: float):
    """JSON number, or the string for a value without a JSON representation."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def dim_order(tensor: torch.Tensor) -> list[int]:
    """Dim order of a tensor: dimensions from outermost to innermost in memory. A contiguous tensor has the default order."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return list(range(tensor.dim()))
    return list(tensor.dim_order())


def memory_array(tensor: torch.Tensor, order: list[int]) -> numpy.ndarray:
    """Elements in memory order; bf16 and complex32 as raw bits."""
    tensor = tensor.detach().permute(order).contiguous()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    if tensor.dtype == torch.complex32:
        tensor = tensor.view(torch.int32)
    return tensor.numpy()


def tensor_json(tensor: torch.Tensor, order: list[int]) -> dict:
    """JSON of a tensor without its data."""
    described = {"dtype": DTYPES[tensor.dtype], "sizes": list(tensor.shape)}
    if order != list(range(tensor.dim())):
        described["dim_order"] = order
    return described


def inline_tensor(tensor: torch.Tensor) -> dict:
    """JSON of a tensor with its bytes, little endian and in memory order, in hexadecimal."""
    return filed_value(tensor, None)["tensor"]


def filed_value(value, path: Path | None, order: list[int] | None = None) -> dict:
    """JSON of an input or output of a program. A tensor is written to the NPY file `path`, or inline."""
    if isinstance(value, torch.Tensor):
        order = order or dim_order(value)
        if path is None:
            return {"tensor": {**tensor_json(value, order), "data": memory_array(value, order).tobytes().hex()}}
        numpy.save(path, memory_array(value, order))
        return {"tensor": {**tensor_json(value, order), "file": path.name}}
    if value is None:
        return {"none": True}
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, float):
        return {"double": double(value)}
    if isinstance(value, str):
        return {"str": value}
    raise TypeError(f"no JSON value for {type(value).__name__}")
