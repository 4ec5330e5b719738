"""Runs the operator cases on the official runtime and prints the differences from PyTorch: check_operators.py [NAME]..."""

import gzip
import json
import os
import sys
from pathlib import Path

import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

from exporter.one_call import OneCall, tensor_of

FOLDER = Path(__file__).parent / "data" / "operators"


def difference(operator: str, case: dict) -> str:
    """Describes how the official runtime differs in one case; empty if it does not."""
    call = OneCall(operator, case["args"])
    try:
        outputs = _load_for_executorch_from_buffer(call.pte).run_method("forward", tuple(call.tensors))
    except RuntimeError as error:
        return str(error).splitlines()[0]
    for actual, expected in zip(outputs, map(tensor_of, case["expected"][-len(outputs) :]), strict=True):
        try:
            torch.testing.assert_close(actual, expected, atol=case["atol"], rtol=case["rtol"], equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:160] + f" ... {actual.flatten()[:6].tolist()} for {expected.flatten()[:6].tolist()}"
    return ""


def run(operator: str, cases: list[dict], start: int) -> int:
    """Runs the cases from `start` on in a child process. Returns the index after the case that crashed it, or the number of cases."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for number in range(start, len(cases)):
            os.write(write, b"+")
            if text := difference(operator, cases[number]):
                print(f"{operator} case {number}: {text} [{cases[number].get('note', '')}]", flush=True)
        os._exit(0)
    os.close(write)
    next_case = start
    while chunk := os.read(read, 4096):
        next_case += len(chunk)
    os.close(read)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        return len(cases)
    print(f"{operator} case {next_case - 1}: the process crashed", flush=True)
    return next_case


def main(names: list[str]) -> None:
    """Runs the named archives, or all."""
    torch.set_num_threads(1)
    for path in [FOLDER / f"{name}.json.gz" for name in names] or sorted(FOLDER.glob("*.json.gz")):
        for entry in json.loads(gzip.decompress(path.read_bytes())):
            start = 0
            while start < len(entry["cases"]):
                start = run(entry["operator"], entry["cases"], start)


if __name__ == "__main__":
    main(sys.argv[1:])
