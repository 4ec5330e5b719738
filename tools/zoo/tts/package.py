"""Writes the package of the voice: its dictionary, its programs, its model.yaml."""
import argparse
import collections
import os

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import nn

import corpus
import networks
import phones
import sentences
import spelling
from cards import file_row, write_card
from train import Acoustic

PACKAGE = os.path.join(sentences.HERE, "../../../pipelines/models/tts")
TOKENS, STEPS, HOPS = 64, 56, 80
VARIANTS = {"xnnpack": ("XnnpackBackend", lambda: [XnnpackPartitioner()]), "portable": ("portable", lambda: [])}
CARD = {
    "afferent_model": 1, "name": "tts", "task": "text_to_speech", "contract": "afferent_tts", "sample_rate": corpus.RATE,
    "license": "Apache-2.0",
    "provenance": "Trained from random weights on synthetic speech of espeak-ng by tools/zoo/tts: `python tools/zoo/tts/make.py --seed {seed}`.",
    "limits": [
        "One voice: it imitates a formant synthesiser, and sounds like one.",
        "American English; other languages are read as English.",
        "Words that the dictionary does not have are spelled by a small network, which errs: see words in quality.",
        "Homographs (read, lead, live, wind) have one pronunciation.",
        "Intonation follows the marks . , ? ! and the stress of words, not the meaning.",
        "The level and the pace of the speech are fixed; the pace can be set.",
    ],
}


class Timed(nn.Module):
    """The encoder, with durations in seconds."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, ids, features, mask):
        hidden, lengths = self.encoder(ids, features, mask)
        return hidden, lengths * networks.DURATION_UNIT_S


def weights(name):
    """The trained weights, or those of the last checkpoint."""
    path = os.path.join(corpus.WORK, f"{name}.pt")
    if os.path.exists(path):
        return torch.load(path, weights_only=True)
    print(f"{name}: not trained to its end, taking the checkpoint", flush=True)
    return torch.load(os.path.join(corpus.WORK, f"{name}-checkpoint.pt"), weights_only=True)["model"]


def folded(module):
    for part in module.modules():
        if isinstance(part, networks.Block):
            part.fold()
    return module


def trained():
    """(acoustic, vocoder, speller) with their norms folded."""
    lexicon, symbols = corpus.load("lexicon")
    models = {"acoustic": Acoustic(len(symbols) + 2), "vocoder": networks.Vocoder(),
              "speller": networks.Speller(len(spelling.stressed_symbols(lexicon)) + 1)}
    for name, model in models.items():
        model.load_state_dict(weights(name))
        folded(model.eval())
    return models["acoustic"], models["vocoder"], models["speller"]


def methods(acoustic, vocoder, speller):
    """(module, example inputs) of each method."""
    rows = networks.STEP_HOPS * (networks.HIDDEN + networks.PLACES)
    spectrum = (1, 2 * networks.BINS, HOPS)
    return {
        "forward": (Timed(acoustic.encoder), (torch.randint(1, 60, (1, TOKENS)), torch.rand(1, TOKENS, phones.FEATURES),
                                              torch.ones(1, 1, TOKENS))),
        "spectrum": (acoustic.decoder, (torch.randn(1, rows, STEPS), torch.ones(1, 1, STEPS))),
        "sound": (vocoder, (torch.randn(1, corpus.MELS + 2, HOPS), torch.randn(*spectrum), torch.randn(*spectrum))),
        "spell": (speller, (torch.randint(1, 27, (1, networks.LONGEST_WORD)), torch.ones(1, 1, networks.LONGEST_WORD))),
    }


def lower(parts, partitioners):
    """The program's bytes and how often each method calls each operator."""
    with torch.no_grad():
        exported = {name: torch.export.export(module.eval(), inputs, strict=True) for name, (module, inputs) in parts.items()}
    edge = to_edge_transform_and_lower(exported, partitioner={name: partitioners() for name in parts},
                                       constant_methods={"sample_rate": corpus.RATE, "hop_size": corpus.HOP})
    program = edge.to_executorch()
    operators = {}
    for plan in program.executorch_program.execution_plan:
        if plan.name in parts:
            counted = operators[plan.name] = collections.Counter()
            for instruction in plan.chains[0].instructions:
                call = instruction.instr_args
                if hasattr(call, "op_index"):
                    counted[plan.operators[call.op_index].name] += 1
                elif hasattr(call, "delegate_index"):
                    counted[f"delegate {plan.delegates[call.delegate_index].id}"] += 1
    return program.buffer, operators


def write_lexicon(lexicon, symbols, words):
    """lexicon.txt, in the form that nodes/speech/src/tts/lexicon.rs reads."""
    lines = ["phones\t" + " ".join(symbols), "columns\t" + " ".join(spelling.stressed_symbols(lexicon))]
    for word in sorted(words):
        before_vowel = phones.BEFORE_VOWEL.get(word)
        lines.append(f"{word}\t{' '.join(words[word])}" + (f"\t{before_vowel}" if before_vowel else ""))
    with open(os.path.join(PACKAGE, "lexicon.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")


def dictionary(lexicon, speller):
    """The words of the list, letters, and every form of them that the speller gets wrong."""
    names = [""] + list(spelling.stressed_symbols(lexicon))
    known = set(names)
    words = {letter: phones.pronounce(letter) for letter in networks.LETTERS[:-1]}
    words |= {word: lexicon[word] for word in {*sentences.word_list(), *phones.WEAK} if word in lexicon}
    forms = sorted(word for word in lexicon if word not in words and len(word) <= networks.LONGEST_WORD)
    read = spelling.read(speller, forms, names)
    words |= {form: lexicon[form] for form, found in zip(forms, read) if found != lexicon[form]}
    print(f"dictionary: {len(words)} words; the speller reads {sum(f == lexicon[w] for w, f in zip(forms, read))} of {len(forms)} forms")
    return {word: spelled for word, spelled in words.items() if spelled and set(spelled) <= known}


def card(seed):
    """model.yaml for the files as they are, not yet measured."""
    rows = [file_row(PACKAGE, f"tts_{variant}.pte", backend) for variant, (backend, _) in VARIANTS.items()]
    order = ["afferent_model", "name", "task", "contract", "sample_rate", "variants", "license", "provenance", "quality", "limits"]
    about = CARD | {"variants": rows, "provenance": CARD["provenance"].format(seed=seed), "quality": {}}
    return {key: about[key] for key in order}


def export(seed):
    os.makedirs(PACKAGE, exist_ok=True)
    lexicon, symbols = corpus.load("lexicon")
    acoustic, vocoder, speller = trained()
    write_lexicon(lexicon, symbols, dictionary(lexicon, speller))
    for variant, (_, partitioners) in VARIANTS.items():
        buffer, operators = lower(methods(acoustic, vocoder, speller), partitioners)
        with open(os.path.join(PACKAGE, f"tts_{variant}.pte"), "wb") as file:
            file.write(buffer)
        print(f"tts_{variant}.pte: {len(buffer)} bytes", flush=True)
        for method, counted in operators.items():
            print(f"  {method}: " + ", ".join(f"{op} x{n}" for op, n in sorted(counted.items())))
    write_card(PACKAGE, card(seed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    torch.set_num_threads(1)
    export(parser.parse_args().seed)
