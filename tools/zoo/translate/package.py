"""Writes the package translate: the program, the tokenizer and model.yaml."""
import argparse
import os
import shutil

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, export
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerAxis, quantize_

import model
import train
from cards import variant_entry, write_card

PACKAGE = os.path.join(os.path.dirname(model.WORK), "../../../pipelines/models/translate")
FILE = "translate_8da8w.pte"
LIMITS = [
    "English to Spanish, and only sentences of a home assistant such as those of tools/zoo/translate/phrases: "
    "234 templates. Any other sentence is translated into one of these, with confidence.",
    "Words that are not in the phrases are not translated or copied, names included.",
    "English in lower case without punctuation, as from the recognizer asr, with numbers in words.",
    "European Spanish, without a choice between formal and informal address.",
    "All sentences are generated from templates of one author; there is no measurement with people.",
]


def quantized():
    """The trained translator with 8-bit weights of the linear layers."""
    tokenizer = model.tokenizer()
    translator = model.Translator(tokenizer.get_vocab_size()).eval()
    translator.load_state_dict(torch.load(train.WEIGHTS, weights_only=True))
    quantize_(translator, Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8,
                                                                weight_granularity=PerAxis(0)),
              lambda module, name: isinstance(module, nn.Linear))
    return translator, tokenizer


@torch.no_grad()
def write_program(path):
    translator, tokenizer = quantized()
    count = Dim("count", min=2, max=model.POSITIONS)
    rows = torch.randn(1, 5, model.WIDTH)
    programs = {
        "encoder": export(model.Encoder(translator), (torch.tensor([[5, 6, 7]]),), dynamic_shapes=({1: count},),
                          strict=False),
        "text_decoder": export(model.Steps(translator), (torch.tensor([[1]]), rows, torch.tensor([0])),
                               dynamic_shapes=({}, {1: count}, {}), strict=False)}
    constants = {"decoder_start_token_id": tokenizer.token_to_id(model.START),
                 "get_eos_id": tokenizer.token_to_id(model.END), "get_max_seq_len": model.POSITIONS,
                 "get_vocab_size": tokenizer.get_vocab_size()}
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()], constant_methods=constants,
                                          compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


def build(seed):
    os.makedirs(PACKAGE, exist_ok=True)
    write_program(os.path.join(PACKAGE, FILE))
    shutil.copyfile(os.path.join(model.WORK, "tokenizer.json"), os.path.join(PACKAGE, "tokenizer.json"))
    write_card(PACKAGE, {
        "afferent_model": 1, "name": "translate", "task": "translation", "contract": "seq2seq",
        "tokenizer": "tokenizer.json", "variants": [variant_entry(PACKAGE, FILE, "XnnpackBackend", "8da8w")],
        "license": "Apache-2.0",
        "provenance": "Trained from random weights on generated sentence pairs by tools/zoo: "
                      f"`python tools/zoo/translate/make.py --seed {seed}`.",
        "quality": {}, "limits": LIMITS})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    build(parser.parse_args().seed)
