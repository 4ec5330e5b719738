#!/usr/bin/env python3
"""Exports the shipped voice activity detector as ONNX for `afferent-bench vad`.

    python tools/bench/export_vad.py VAD.onnx

The model has the inputs and outputs of Silero VAD and the weights of pipelines/models/vad. Needs the
packages of tools/zoo, and onnxscript.
"""
import argparse
import pathlib
import sys

import onnx
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools" / "zoo"))
from exported_weights import assign_by_shape, read_constants  # noqa: E402
from models import Vad  # noqa: E402

NAMES = ["conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "lstm.weight_ih_l0", "lstm.bias_ih_l0",
         "lstm.weight_hh_l0", "lstm.bias_hh_l0", "output_layer.weight", "output_layer.bias"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    vad = Vad().eval()
    shapes = {name: weights.shape for name, weights in vad.named_parameters()}
    state = assign_by_shape(NAMES, shapes, read_constants(ROOT / "pipelines/models/vad/vad_portable.pte"))
    vad.load_state_dict(state, strict=False)
    inputs = (torch.zeros(1, Vad.CONTEXT + Vad.WINDOW), torch.zeros(2, 1, Vad.HIDDEN))
    torch.onnx.export(vad, inputs, arguments.output, input_names=["input", "state"], output_names=["output", "stateN"],
                      dynamo=True, external_data=False)
    model = onnx.load(arguments.output)
    # Silero VAD has an input for the sample rate.
    model.graph.input.append(onnx.helper.make_tensor_value_info("sr", onnx.TensorProto.INT64, []))
    onnx.save(model, arguments.output)


if __name__ == "__main__":
    main()
