"""Writes the package tts: lexicon, programs and model.yaml."""
import argparse
import collections
import os

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import nn

import corpus
import g2p
import networks
import phones
import sentences
from language import CODE, language
from cards import shipped_variants, variant_entry, write_card
from train import Acoustic

PACKAGE = os.path.join(sentences.HERE, "../../../pipelines/models", language.PACKAGE)
# Tokens, decoder steps and vocoder hops in a window of the program.
TOKENS, STEPS, HOPS = 64, 56, 80
VARIANTS = {"xnnpack": ("XnnpackBackend", lambda: [XnnpackPartitioner()]), "portable": ("portable", lambda: [])}
CARD = {
    "afferent_model": 1, "name": language.PACKAGE, "task": "text_to_speech", "contract": "afferent_tts",
    "sample_rate": corpus.SAMPLE_RATE, "language": CODE, "license": "Apache-2.0",
    "provenance": "Trained from random weights on synthetic speech of espeak-ng by tools/zoo/tts: "
                  "`python tools/zoo/tts/make.py --seed {seed}`.",
    "limits": [
        "One voice, which imitates a formant synthesizer and sounds like one.",
        *language.LIMITS,
        "A small G2P network pronounces words that are not in the lexicon; `quality` gives its error rate.",
        "Intonation follows the marks . , ? ! and the stress of words, not the meaning.",
        "The level is fixed. The pace can be set.",
    ],
}


class EncoderInSeconds(nn.Module):
    """Encoder with durations in seconds."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, ids, features, mask):
        hidden, durations = self.encoder(ids, features, mask)
        return hidden, durations * networks.DURATION_UNIT_S


def load_weights(name):
    """Returns the trained weights, or those of the last checkpoint."""
    path = os.path.join(corpus.WORK, f"{name}.pt")
    if os.path.exists(path):
        return torch.load(path, weights_only=True)
    print(f"{name}: training is not complete; using the last checkpoint", flush=True)
    return torch.load(os.path.join(corpus.WORK, f"{name}-checkpoint.pt"), weights_only=True)["model"]


def fold_batch_norm(module):
    for part in module.modules():
        if isinstance(part, networks.Block):
            part.fold_batch_norm()
    return module


def load_trained():
    """Returns (acoustic, vocoder, g2p) with folded batch normalization."""
    lexicon, symbols = corpus.load("lexicon")
    models = {"acoustic": Acoustic(len(symbols) + 2), "vocoder": networks.Vocoder(),
              "g2p": networks.G2p(len(g2p.stressed_symbols(lexicon)) + 1)}
    for name, model in models.items():
        model.load_state_dict(load_weights(name))
        fold_batch_norm(model.eval())
    return models["acoustic"], models["vocoder"], models["g2p"]


def methods(acoustic, vocoder, g2p_network):
    """Returns (module, example inputs) of each method of the program."""
    rows = networks.STEP_HOPS * (networks.HIDDEN + networks.POSITION_FEATURES)
    spectrum = (1, 2 * networks.BINS, HOPS)
    letters = (1, networks.MAX_WORD_LETTERS)
    return {
        "forward": (EncoderInSeconds(acoustic.encoder),
                    (torch.randint(1, 60, (1, TOKENS)), torch.rand(1, TOKENS, phones.FEATURES),
                     torch.ones(1, 1, TOKENS))),
        "spectrum": (acoustic.decoder, (torch.randn(1, rows, STEPS), torch.ones(1, 1, STEPS))),
        "sound": (vocoder, (torch.randn(1, corpus.MELS + 2, HOPS), torch.randn(*spectrum), torch.randn(*spectrum))),
        "spell": (g2p_network, (torch.randint(1, 27, letters), torch.ones(1, 1, networks.MAX_WORD_LETTERS))),
    }


def lower(parts, partitioners):
    """Lowers all methods.

    Returns the bytes of the program and the number of calls of each operator by method.
    """
    with torch.no_grad():
        exported = {name: torch.export.export(module.eval(), inputs, strict=True)
                    for name, (module, inputs) in parts.items()}
    edge = to_edge_transform_and_lower(exported, partitioner={name: partitioners() for name in parts},
                                       constant_methods={"sample_rate": corpus.SAMPLE_RATE, "hop_size": corpus.HOP})
    program = edge.to_executorch()
    operators = {}
    for plan in program.executorch_program.execution_plan:
        if plan.name in parts:
            counts = operators[plan.name] = collections.Counter()
            for instruction in plan.chains[0].instructions:
                call = instruction.instr_args
                if hasattr(call, "op_index"):
                    counts[plan.operators[call.op_index].name] += 1
                elif hasattr(call, "delegate_index"):
                    counts[f"delegate {plan.delegates[call.delegate_index].id}"] += 1
    return program.buffer, operators


def write_lexicon(lexicon, symbols, words):
    """Writes lexicon.txt in the format of nodes/speech/src/tts/lexicon.rs."""
    lines = ["letters\t" + networks.LETTERS, "phones\t" + " ".join(symbols), "columns\t" + " ".join(g2p.stressed_symbols(lexicon))]
    for word in sorted(words):
        before_vowel = language.BEFORE_VOWEL.get(word)
        lines.append(f"{word}\t{' '.join(words[word])}" + (f"\t{' '.join(before_vowel)}" if before_vowel else ""))
    with open(os.path.join(PACKAGE, "lexicon.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")


def select_words(lexicon, g2p_network):
    """Returns the shipped lexicon: base words, letters, and the inflections that the G2P network
    gets wrong.
    """
    names = [""] + list(g2p.stressed_symbols(lexicon))
    known = set(names)
    words = {letter: phones.pronounce(letter) for letter in networks.LETTERS[:-1]}
    words |= {word: lexicon[word] for word in {*language.word_list(), *language.WEAK} if word in lexicon}
    inflections = sorted(word for word in lexicon if word not in words and len(word) <= networks.MAX_WORD_LETTERS)
    decoded = g2p.decode(g2p_network, inflections, names)
    words |= {word: lexicon[word] for word, pronunciation in zip(inflections, decoded)
              if pronunciation != lexicon[word]}
    correct = sum(pronunciation == lexicon[word] for word, pronunciation in zip(inflections, decoded))
    print(f"lexicon: {len(words)} words; the G2P network gets {correct} of {len(inflections)} inflections right")
    return {word: pronunciation for word, pronunciation in words.items()
            if pronunciation and set(pronunciation) <= known}


def card(seed):
    """Returns the content of model.yaml, without measurements."""
    variants = [variant_entry(PACKAGE, f"tts_{variant}.pte", backend) for variant, (backend, _) in VARIANTS.items()]
    order = ["afferent_model", "name", "task", "contract", "language", "sample_rate", "variants", "license", "provenance",
             "quality", "limits"]
    content = CARD | {"variants": shipped_variants(variants), "provenance": CARD["provenance"].format(seed=seed), "quality": {}}
    return {key: content[key] for key in order}


def export(seed):
    os.makedirs(PACKAGE, exist_ok=True)
    lexicon, symbols = corpus.load("lexicon")
    acoustic, vocoder, g2p_network = load_trained()
    write_lexicon(lexicon, symbols, select_words(lexicon, g2p_network))
    for variant, (_, partitioners) in VARIANTS.items():
        buffer, operators = lower(methods(acoustic, vocoder, g2p_network), partitioners)
        with open(os.path.join(PACKAGE, f"tts_{variant}.pte"), "wb") as file:
            file.write(buffer)
        print(f"tts_{variant}.pte: {len(buffer)} bytes", flush=True)
        for method, counts in operators.items():
            print(f"  {method}: " + ", ".join(f"{op} x{n}" for op, n in sorted(counts.items())))
    write_card(PACKAGE, card(seed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    torch.set_num_threads(1)
    export(parser.parse_args().seed)
