#!/usr/bin/env python3
"""Runs a program on the official runtime, as a peer of `afferent-bench`.

    afferent-bench attention FOLDER --peer tools/bench/official_runtime.py

The Python package has the operators of language models, which its C++ libraries lack. Needs torch and
executorch 1.5. A call from Python takes a few microseconds more than from C++.
"""

import argparse
import json
import os
import statistics
import time

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np
import torch
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (registers the operators)
from executorch.extension.pybindings import portable_lib


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    portable_lib._unsafe_reset_threadpool(arguments.threads)
    inputs = tuple(torch.from_numpy(np.load(path)) for path in arguments.input)
    start = time.perf_counter()
    module = portable_lib._load_for_executorch(arguments.model)
    loaded = time.perf_counter()
    times = []
    for call in range(arguments.warmup + arguments.repeat):
        begin = time.perf_counter()
        module.run_method("forward", inputs)
        if call >= arguments.warmup:
            times.append(time.perf_counter() - begin)
    print(json.dumps({"load_ms": (loaded - start) * 1e3, "median_us": statistics.median(times) * 1e6}))


if __name__ == "__main__":
    main()
