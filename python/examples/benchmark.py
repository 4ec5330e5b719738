"""Times a program on random inputs: the run itself, and what Python adds. With the package
`executorch` in the same environment, also its own Python binding.

python benchmark.py [PROGRAM.pte] [RUNS]
"""

import pathlib
import statistics
import sys
import time

import numpy as np

import afferent


def random_inputs(specs):
    """Arrays as a method takes them; numbers are small, so that they may be indices, too."""
    generator = np.random.default_rng(1)
    for spec in specs:
        if spec["dtype"].startswith("float"):
            yield generator.random(spec["shape"], dtype=np.float32).astype(spec["dtype"])
        else:
            yield generator.integers(0, 2, spec["shape"]).astype(spec["dtype"])


def microseconds(run, runs):
    """Median time of a call, of five rounds."""
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(runs):
            run()
        rounds.append((time.perf_counter() - start) / runs * 1e6)
    return statistics.median(rounds)


def official(program, inputs):
    """A call by the binding of ExecuTorch, or None without it."""
    try:
        import torch
        from executorch.extension.pybindings.portable_lib import _load_for_executorch
    except ImportError:
        return None
    module = _load_for_executorch(str(program))
    tensors = tuple(torch.from_numpy(array) for array in inputs)
    return lambda: module.forward(tensors)


def main():
    here = pathlib.Path(__file__).parent
    program = sys.argv[1] if len(sys.argv) > 1 else here.parent / "tests/data/copy_1kb.pte"
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    model = afferent.Model(program)
    inputs = list(random_inputs(model.methods["forward"]["inputs"]))
    rust, python, binding = [], [], []
    peer = official(program, inputs)
    for _ in range(3):
        rust.append(statistics.median(model.time(*inputs, runs=runs)) * 1e6)
        python.append(microseconds(lambda: model.run(*inputs), runs))
        if peer is not None:
            binding.append(microseconds(peer, runs))
    rust, python = statistics.median(rust), statistics.median(python)
    print(f"run in Rust             {rust:9.2f} us")
    print(f"Model.run               {python:9.2f} us, overhead {python - rust:.2f} us")
    if peer is None:
        print("skipped: the binding of ExecuTorch, which is not installed")
    else:
        print(f"binding of ExecuTorch   {statistics.median(binding):9.2f} us")


main()
