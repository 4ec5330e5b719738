"""The wake word in 8 bits for microcontrollers: `wake_word` as one step without a state."""
import argparse
import os
import pathlib

import numpy as np
import torch
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.exir import to_edge
from torch import nn
from torch.nn import functional as F
from torchao.quantization.pt2e.observer import FixedQParamsObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import data
import sounds
from cards import variant_entry, write_card
from export import CARDS
from exported_weights import assign_by_shape, read_constants
from listening import PROGRAM, feature_rows
from models import LogMel, WakeWord
from speech import ACTIVE_RMS, SAMPLE_RATE
from streaming import MODELS

# Quantization of the features, as mcu/wake computes them.
FEATURE_SCALE, FEATURE_ZERO_POINT = 0.0225, -19
TAPS = WakeWord.TAPS - 1


class Step(nn.Module):
    """One step of the wake word: (features [1, 160, 1, 1], past inputs of each block [1, 128, 1, 4]) ->
    (probabilities [1, 4], input of each block [1, 128, 1, 1]). The past inputs are chosen with the
    dilation of the block.
    """

    def __init__(self, wake):
        """Takes a `WakeWord` whose normalizations are folded."""
        super().__init__()
        self.input_layer = nn.Conv2d(wake.BANDS * wake.STEPS, wake.WIDTH, 1)
        self.input_layer.weight.data = wake.input_layer.weight.data[:, :, None, None].clone()
        self.input_layer.bias.data = wake.input_layer.bias.data.clone()
        self.depthwise, self.pointwise = nn.ModuleList(), nn.ModuleList()
        for block in wake.blocks:
            layer = nn.Conv2d(wake.WIDTH, wake.WIDTH, (1, wake.TAPS), groups=wake.WIDTH)
            layer.load_state_dict(block.depthwise.state_dict())
            self.depthwise.append(layer)
            self.pointwise.append(block.pointwise)
        self.output_layer = wake.output_layer

    def forward(self, features, *past):
        x, inputs = F.relu(self.input_layer(features)), []
        for depthwise, pointwise, taps in zip(self.depthwise, self.pointwise, past):
            inputs.append(x)
            y = F.relu(depthwise(torch.cat([taps, x], 3)))
            x = F.relu(x + pointwise(y))
        return torch.softmax(self.output_layer(x.flatten(1)), -1), *inputs


def channels_last(x):
    return x.to(memory_format=torch.channels_last)


def example():
    past = [torch.rand(1, WakeWord.WIDTH, 1, TAPS) for _ in WakeWord.DILATIONS]
    return tuple(channels_last(x) for x in (torch.randn(1, WakeWord.BANDS * WakeWord.STEPS, 1, 1), *past))


class History:
    """Past inputs of the blocks."""

    def __init__(self):
        self.rings = [[torch.zeros(1, WakeWord.WIDTH, 1, 1)] * (TAPS * d) for d in WakeWord.DILATIONS]

    def taps(self):
        return [channels_last(torch.cat(ring[::d], 3)) for ring, d in zip(self.rings, WakeWord.DILATIONS)]

    def add(self, inputs):
        self.rings = [ring[1:] + [x] for ring, x in zip(self.rings, inputs)]


def quantize(step, features):
    """Calibrates a step with the quantized feature rows of several sounds, i8 [rows, 40], and quantizes it."""
    prepared = prepare_pt2e(torch.export.export(step, example()).module(check_guards=False), CortexMQuantizer())
    with torch.no_grad():
        for rows in features:
            history = History()
            for run in runs(rows):
                _, *inputs = prepared(run, *history.taps())
                history.add(inputs)
    placeholder = next(node for node in prepared.graph.nodes if node.op == "placeholder" and node.target == "features")
    (user,) = placeholder.users
    fixed = FixedQParamsObserver(FEATURE_SCALE, FEATURE_ZERO_POINT, torch.int8, torch.per_tensor_affine, -128, 127)
    setattr(prepared, user.target, fixed)
    return convert_pt2e(prepared)


def runs(rows):
    """Yields the features of each run, as the input of a step."""
    values = (torch.as_tensor(rows).float() - FEATURE_ZERO_POINT) * FEATURE_SCALE
    size = LogMel.STEPS * LogMel.BANDS
    for run in values.reshape(-1)[:len(values) // LogMel.STEPS * size].reshape(-1, size, 1, 1):
        yield channels_last(run[None])


def keep_8_bits(program):
    """Lets the inputs and outputs of an edge program be the quantized values, and drops unused constants."""
    graph = program.graph_module.graph
    taken, given = [], []       # scale and zero point of the inputs and outputs
    for node in list(graph.nodes):
        users = list(node.users)
        if node.op == "placeholder" and len(users) == 1 and is_call(users[0], "quantize_per_tensor"):
            taken.append(users[0].args[1:3])
            node.meta["val"] = users[0].meta["val"]
            users[0].replace_all_uses_with(node)
            graph.erase_node(users[0])
    output = graph.output_node()
    results = []
    for result in output.args[0]:
        while is_call(result, "quantize_per_tensor"):
            scales, result = result.args[1:3], result.args[0]
        results.append(result)
        given.append(scales)
    assert abs(taken[0][0] / FEATURE_SCALE - 1) < 1e-6 and taken[0][1] == FEATURE_ZERO_POINT, taken[0]
    assert taken[1:] == given[1:], "a past input has the scale of its origin"
    for spec, result in zip(program.graph_signature.output_specs, results):
        spec.arg.name = result.name
    output.args = (tuple(results),)
    graph.eliminate_dead_code()
    unused = [node for node in graph.nodes if node.op == "placeholder" and not node.users]
    names = {node.name for node in unused}
    assert not names & set(program.graph_signature.user_inputs), "every input is used"
    specs = program.graph_signature.input_specs
    specs[:] = [spec for spec in specs if spec.arg.name not in names]
    for node in unused:
        graph.erase_node(node)
    program.graph_module.recompile()


def is_call(node, name):
    """True for calls of the operator, and of the opposite one."""
    return node.op == "call_function" and name in str(node.target) and "cortex_m" in str(node.target)


def lower(converted):
    """Returns the program of a quantized step, for a Cortex-M4 or later."""
    edge = to_edge(torch.export.export(converted, example()), compile_config=cortex_m_edge_compile_config())
    passes = CortexMPassManager(edge.exported_program(), target_config=CortexMTargetConfig(cpu=CortexM.M4))
    program = passes.transform()
    keep_8_bits(program)
    edge._edge_programs["forward"] = program
    return edge.to_executorch()


def trained_weights():
    """Returns the weights of the wake word, with folded normalizations, from its portable program."""
    wake = WakeWord().eval().fold_batch_norm()
    shapes = {name: value.shape for name, value in wake.state_dict().items()}
    path = pathlib.Path(MODELS, "wake_word", "wake_word_portable.pte")
    wake.load_state_dict(assign_by_shape(shapes, shapes, read_constants(path)))
    return wake


def calibration_sounds(seed, count):
    """Yields sounds of eight seconds with wake phrases, other speech and noise, from voices of training."""
    rng = np.random.default_rng([seed, 7])
    kinds = WakeWord.LABELS[1:] + ["sentence", "confusable", "short"]
    for i in range(count):
        def draw():
            while True:
                kind = rng.choice(kinds)
                try:
                    return kind, data.draw_utterance(rng, kind)
                except ValueError:
                    continue
        x = data.build_scene(rng, 8 * SAMPLE_RATE, draw, lambda: rng.uniform(0.2, 0.8)).sound
        noise = list(sounds.TRAIN_NOISES.values())[i % len(sounds.TRAIN_NOISES)](rng, len(x))
        x = x + noise * ACTIVE_RMS * 10 ** (-rng.uniform(5, 40) / 20)
        yield data.quantize_16bit(rng, x * 10 ** (rng.uniform(-18, 6) / 20))


def card(seed, count):
    """Returns the content of model.yaml, without measurements."""
    folder, file = os.path.split(PROGRAM)
    return {
        "afferent_model": 1, "name": "wake_word_int8", "task": "keyword_spotting", "contract": "keyword_step_int8",
        "sample_rate": SAMPLE_RATE, "variants": [variant_entry(folder, file, "portable", "int8")],
        "labels": WakeWord.LABELS, "decision": CARDS["wake_word"]["decision"], "license": "Apache-2.0",
        "provenance": f"The weights of wake_word in 8 bits, calibrated with {count} sounds of eight seconds, by "
                      f"`python tools/zoo/mcu_wake_word.py --seed {seed} --sounds {count}`.",
        "quality": {},
        "limits": ["For microcontrollers: the node wake_word runs the package wake_word."]
                  + CARDS["wake_word"]["limits"],
    }


def export(seed, count):
    torch.set_num_threads(1)
    step = Step(trained_weights()).eval()
    converted = quantize(step, [feature_rows(sound) for sound in calibration_sounds(seed, count)])
    buffer = lower(converted).buffer
    os.makedirs(os.path.dirname(PROGRAM), exist_ok=True)
    with open(PROGRAM, "wb") as file:
        file.write(buffer)
    write_card(os.path.dirname(PROGRAM), card(seed, count))
    print(f"{PROGRAM}: {len(buffer)} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sounds", type=int, default=40, help="number of sounds of the calibration")
    arguments = parser.parse_args()
    export(arguments.seed, arguments.sounds)
