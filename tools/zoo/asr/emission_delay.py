"""Measures the emission delay: time from the start and end of a word to its first and last letter.
"""
import argparse
import os

import corpus
import grammar
import model
import numpy as np
import torch
from paths import WORK
from train import clean_features

import speech
import voices
from speech import SAMPLE_RATE

SEED, MIN_WORDS, LEAD_SAMPLES = 60001, 600, 4000
STEP_S = model.STEP_HOPS * corpus.HOP / SAMPLE_RATE


def emitted_letters(logits):
    """Returns (letter, seconds) of each letter of the greedy output."""
    letters, last = [], 0
    for step, label in enumerate(logits.argmax(-1).tolist()):
        if label and label != last:
            letters.append((model.LABELS[label], (step + 0.5) * STEP_S))
        last = label
    return letters


def emitted_words(letters):
    """Returns (word, seconds of its first letter, seconds of its last letter)."""
    words, between = [], True
    for letter, at in letters:
        if letter == " ":
            between = True
        elif between:
            words.append([letter, at, at])
            between = False
        else:
            words[-1][0] += letter
            words[-1][2] = at
    return words


@torch.no_grad()
def measure(recognizer):
    """Returns the delays, in seconds, from starts and from ends of the words of correctly
    recognized utterances.
    """
    speech.engine = speech.Espeak(voices.build_data(WORK))
    rng = np.random.default_rng(SEED)
    start_delays, end_delays = [], []
    while len(start_delays) < MIN_WORDS:
        text = grammar.sentence(rng, "validation")
        utterance = speech.synthesize(rng, text, corpus.random_voice(rng, True), False)
        sound = np.concatenate([np.zeros(LEAD_SAMPLES, np.float32), utterance.sound])
        mels = torch.from_numpy(np.log(corpus.mel_power(sound) + corpus.POWER_FLOOR / 100)).float()
        logits, _ = recognizer(clean_features([mels]))
        words = emitted_words(emitted_letters(logits[0]))
        if " ".join(word for word, _, _ in words) != text or len(utterance.word_starts) != len(words):
            continue
        starts = [(LEAD_SAMPLES + s) / SAMPLE_RATE for s in utterance.word_starts]
        end = LEAD_SAMPLES + (int(np.flatnonzero(utterance.active)[-1]) + 1) * corpus.HOP
        ends = starts[1:] + [end / SAMPLE_RATE]
        start_delays += [first - start for (_, first, _), start in zip(words, starts)]
        end_delays += [last - end for (_, _, last), end in zip(words, ends)]
    return np.array(start_delays), np.array(end_delays)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="asr", help="name of the weights in tools/zoo/work/asr")
    arguments = parser.parse_args()
    for name, delays in zip(("start", "end"), measure(model.load(os.path.join(WORK, f"{arguments.name}.pt")))):
        print(f"{name}: median {np.median(delays) * 1000:.0f} ms, p10 {np.quantile(delays, 0.1) * 1000:.0f} ms, "
              f"p90 {np.quantile(delays, 0.9) * 1000:.0f} ms")
