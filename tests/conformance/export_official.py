"""Writes data/official.json, the operators of the official runtime with their dtypes: export_official.py SOURCES

SOURCES is a checkout of ExecuTorch. The operators come from its yaml files, the dtypes from the type switches of its kernels.
A dtype is that of the first tensor of a call. A kernel without a type switch copies bytes and supports all dtypes.
"""

import json
import re
import sys
from pathlib import Path

import yaml

OUTPUT = Path(__file__).parent / "data" / "official.json"
LISTS = ["portable/functions.yaml", "portable/et_copy_ops.yaml", "optimized/optimized.yaml", "quantized/quantized.yaml"]
REAL, HALVES, COMPLEX = ["u8", "i8", "i16", "i32", "i64", "f32", "f64"], ["f16", "bf16"], ["c32", "c64", "c128"]
GROUPS = {
    "REAL": REAL, "REALB": [*REAL, "bool"], "REALHBF16": REAL + HALVES, "REALHBBF16": [*REAL, *HALVES, "bool"], "INT": REAL[:5], "INTB": [*REAL[:5], "bool"],
    "FLOAT": ["f32", "f64"], "FLOATH": ["f16", "f32", "f64"], "FLOATHBF16": ["f32", "f64", *HALVES], "COMPLEX": COMPLEX[1:], "COMPLEXH": COMPLEX,
    "ALL": [*REAL, *HALVES, "bool", *COMPLEX], "ANY": [*REAL, *HALVES, "bool", *COMPLEX, "u16", "u32", "u64"],
}
PATTERNS = {
    "comparison_": "REALHBBF16", "logical_tensor": "REALHBBF16", "bitwise_": "INTB", "UNARY_UFUNC_REALHBBF16": "REALHBBF16", "UNARY_UFUNC_REALHBF16": "REALHBF16",
    "unary_ufunc_realhbbf16": "REALHBBF16", "unary_ufunc_realhbf16": "REALHBF16", "realhbbf16_to_floathbf16": "REALHBBF16",
}
# Dtypes of the first tensor for files that also switch on other tensors, or without a recognizable switch.
OVERRIDES = {
    "add": {"quantized": "INT"}, "quantize": {"quantized": "FLOATH"}, "embedding": {"portable": "ANY", "quantized": "BYTES"}, "embedding_byte": {"quantized": "BYTES"},
    "bitwise_not": {"portable": "INTB"}, "repeat_interleave": {"portable": "INDICES"}, "index_select": {"portable": "ANY"}, "arange": {"portable": "REALHBF16"}, "view_as_real_copy": {"portable": "COMPLEXH"},
    "fft_r2c": {"optimized": "FLOAT"}, "fft_c2r": {"optimized": "COMPLEX"}, "choose_qparams": {"quantized": "SINGLE"}, "dequantize": {"quantized": "STORED"},
    "embedding2b": {"quantized": "BYTE"}, "embedding4b": {"quantized": "BYTE"}, "mixed_mm": {"quantized": "MIXED"}, "mixed_linear": {"quantized": "MIXED"},
    "div": {"portable": ["REALHBBF16", "COMPLEX"]}, "clamp": {"portable": "REALHBBF16"}, "masked_select": {"portable": "ANY"}, "native_dropout": {"portable": "FLOATHBF16"},
    "mean": {"portable": "FLOATHBF16"}, "round": {"portable": "REALHBF16"}, "logit": {"portable": "REALHBBF16"}, "atan2": {"portable": "REALHBBF16"},
    "avg_pool2d": {"portable": ["FLOATHBF16", "LONG"]}, "_adaptive_avg_pool2d": {"portable": ["FLOATHBF16", "LONG"]}, "mm": {"portable": "REALHBF16", "optimized": "REALHBF16"}, "linear": {"optimized": "REALHBF16"}, "log_softmax": {"optimized": "FLOATHBF16"},
    "where": {"portable": "CONDITION", "optimized": "CONDITION"},
    "copy": {"portable": "REALHBBF16"}, "_to_dim_order_copy": {"portable": ["REALHBBF16", "COMPLEXH"]}, "abs": {"portable": ["REALHBF16", "COMPLEXH"]},
    "_conj_physical": {"portable": "COMPLEXH"}, "masked_fill": {"portable": "REALHBBF16"}, "grid_sampler_2d": {"portable": "FLOATHBF16", "optimized": "FLOATHBF16"},
    "upsample_bilinear2d_aa": {"portable": "FLOATHBF16"}, "upsample_bilinear2d": {"portable": "FLOATHBF16"},
}
GROUPS |= {"BYTES": ["u8", "i8"], "BYTE": ["u8"], "INDICES": ["i32", "i64"], "SINGLE": ["f32"], "STORED": ["u8", "i8", "i16", "i32", "u16"], "MIXED": ["f16", "f32"], "LONG": ["i64"], "CONDITION": ["u8", "bool"]}

# Only the overload `.out` of these supports complex dtypes.
COMPLEX_OUT = ("aten::add", "aten::mul", "aten::div")


def names(path: Path) -> dict[str, str]:
    """Operators of a yaml file with their C++ functions."""
    found = {}
    for entry in yaml.safe_load(path.read_text()):
        name = entry.get("op") or entry["func"].split("(")[0]
        function = entry["kernels"][0]["kernel_name"].split("::")[-1]
        found[name if "::" in name else f"aten::{name}"] = function
    return found


def dtypes(file: Path) -> list[str]:
    """Dtypes that the kernels of a C++ file support."""
    part, base, text = file.parts[-3], file.stem.removeprefix("op_"), file.read_text()
    override = OVERRIDES.get(base, {}).get(part)
    if override:
        groups = override if isinstance(override, list) else [override]
    else:
        groups = re.findall(r"(?:ET_SWITCH_|SupportedTensorDtypes::)([A-Z0-9]+?)(?:_TYPES)?\b", text)
        groups += [group for pattern, group in PATTERNS.items() if pattern in text]
    supported = {dtype for group in groups for dtype in GROUPS.get(group, [])}
    return [dtype for dtype in GROUPS["ANY"] if dtype in supported or not supported]


def main(sources: str) -> None:
    """Writes the operators of all kernel lists."""
    kernels, result = Path(sources) / "kernels", {}
    for path in LISTS:
        files = {file: file.read_text() for file in sorted((kernels / path).parent.glob("cpu/op_*.cpp"))}
        result[path] = {}
        for name, function in sorted(names(kernels / path).items()):
            candidates = [file for file, text in files.items() if re.search(rf"\b{function}\(", text)]
            base = name.split("::")[1].split(".")[0]
            candidates = candidates or [file for file in files if file.stem == f"op_{base}"]
            candidates.sort(key=lambda file: -len(re.findall(rf"\b{function}\(", files[file])))
            supported = dtypes(candidates[0]) if candidates else []
            is_real = name.split(".")[0] in COMPLEX_OUT and not name.endswith(".out")
            result[path][name] = " ".join(dtype for dtype in supported if not (is_real and dtype in COMPLEX))
    lists = [f'"{path}": {{\n' + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}" for path, found in result.items()]
    OUTPUT.write_text("{\n" + ",\n".join(lists) + "\n}\n")
    print({path: len(found) for path, found in result.items()})


if __name__ == "__main__":
    main(sys.argv[1])
