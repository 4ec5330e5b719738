"""Measures how long after a word begins and ends its first and last letter appear, on voices kept from training."""
import argparse
import os

import grammar
import model
import numpy as np
import spoken
import torch
from paths import WORK
from train import clean_features

import speech
import voices
from speech import RATE

SEED, WORDS, LEAD = 60001, 600, 4000
STEP_S = model.STACK * spoken.HOP / RATE


def letters(logits):
    """(letter, seconds) of each letter that appears."""
    found, last = [], 0
    for step, label in enumerate(logits.argmax(-1).tolist()):
        if label and label != last:
            found.append((model.LETTERS[label], (step + 0.5) * STEP_S))
        last = label
    return found


def words(found):
    """(word, seconds of its first letter, of its last) of letters."""
    listed, between = [], True
    for letter, at in found:
        if letter == " ":
            between = True
        elif between:
            listed.append([letter, at, at])
            between = False
        else:
            listed[-1][0] += letter
            listed[-1][2] = at
    return listed


@torch.no_grad()
def measure(recogniser):
    """Seconds after the begin and after the end of each word, of utterances that are heard rightly."""
    speech._espeak = speech._Espeak(voices.folder(WORK))
    rng = np.random.default_rng(SEED)
    begins, ends = [], []
    while len(begins) < WORDS:
        text = grammar.sentence(rng, "tuning")
        said = speech.say(rng, text, spoken.random_voice(rng, True), False)
        sound = np.concatenate([np.zeros(LEAD, np.float32), said.sound])
        mels = torch.from_numpy(np.log(spoken.mel_power(sound) + 1e-8)).float()
        logits, _ = recogniser.whole(clean_features([mels]))
        heard = words(letters(logits[0]))
        if " ".join(w for w, _, _ in heard) != text or len(said.word_starts) != len(heard):
            continue
        starts = [(LEAD + s) / RATE for s in said.word_starts]
        stops = starts[1:] + [(LEAD + (int(np.flatnonzero(said.active)[-1]) + 1) * spoken.HOP) / RATE]
        begins += [first - start for (_, first, _), start in zip(heard, starts)]
        ends += [last - stop for (_, _, last), stop in zip(heard, stops)]
    return np.array(begins), np.array(ends)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="asr", help="of the weights in tools/zoo/work/asr")
    arguments = parser.parse_args()
    for what, seconds in zip(("begin", "end"), measure(model.load(os.path.join(WORK, f"{arguments.name}.pt")))):
        print(f"{what}: median {np.median(seconds) * 1000:.0f} ms, "
              f"a tenth below {np.quantile(seconds, 0.1) * 1000:.0f}, above {np.quantile(seconds, 0.9) * 1000:.0f}")
