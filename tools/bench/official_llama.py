#!/usr/bin/env python3
"""Runs a language model on the official runtime, as a peer of `afferent-bench generate`.

    afferent-bench generate FOLDER --peer tools/bench/official_llama.py

Needs torch and executorch 1.5. A call from Python takes a few microseconds more than from C++. The
XNNPACK of the wheel has no AMX kernels.
"""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("model")
parser.add_argument("--prompt", type=int, default=128)
parser.add_argument("--new", type=int, default=33)
parser.add_argument("--threads", type=int, default=1)
arguments = parser.parse_args()
# Libraries read these variables when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(arguments.threads)

import torch  # noqa: E402
from executorch.extension.llm.custom_ops import custom_ops  # noqa: E402,F401  (registers the operators)
from executorch.extension.pybindings import portable_lib  # noqa: E402
from executorch.kernels import quantized  # noqa: E402,F401  (registers the embeddings)


def memory(name):
    """Field `name` of the memory of this process, in MiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024


def main():
    torch.set_num_threads(arguments.threads)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # the peak begins here
    before = memory("VmRSS")
    portable_lib._unsafe_reset_threadpool(arguments.threads)
    module = portable_lib._load_for_executorch(arguments.model)

    def run(tokens, position):
        inputs = (torch.tensor([tokens]), torch.tensor([position]))
        return int(module.run_method("forward", inputs)[0].reshape(-1, width)[-1].argmax())

    prompt = [(3 + 37 * at) % 8000 for at in range(arguments.prompt)]
    width = int(module.run_method("get_vocab_size", ())[0])
    run(prompt, 0)  # the first run of a program packs and allocates
    start = time.perf_counter()
    tokens = [run(prompt, 0)]
    prefill = time.perf_counter() - start
    start = time.perf_counter()
    while len(tokens) < arguments.new:
        tokens.append(run([tokens[-1]], arguments.prompt + len(tokens) - 1))
    decode = time.perf_counter() - start
    growth = memory("VmHWM") - before
    print(json.dumps({"prefill_us": prefill * 1e6, "decode_us": decode * 1e6, "tokens": tokens,
                      "growth_mib": growth}))


if __name__ == "__main__":
    main()
