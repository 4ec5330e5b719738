"""Runs shipped programs window by window, and decides as the nodes do."""
import os

import numpy as np
import torch

import data
from models import LogMel, Vad, WakeWord
from speech import RATE

MODELS = os.path.join(data.ROOT, "pipelines", "models")
STEP_S = LogMel.WINDOW / RATE


class Program:
    """A shipped program, run through the official runtime."""

    def __init__(self, name, variant):
        from executorch.runtime import Runtime
        self.program = Runtime.get().load_program(os.path.join(MODELS, name, f"{name}_{variant}.pte"))
        self.method = self.program.load_method("forward")

    def __call__(self, *inputs):
        return [t.clone() for t in self.method.execute(list(inputs))]


def windows(sound, size, context):
    """Each window of new samples with the context before it, as tensors of one row."""
    padded = torch.from_numpy(np.concatenate([np.zeros(context, np.float32), sound]))
    for i in range(len(sound) // size):
        yield padded[i * size:(i + 1) * size + context].unsqueeze(0)


class ShippedVad:
    """Sound to probability per window, through the .pte."""

    def __init__(self, variant="portable"):
        self.program = Program("vad", variant)

    def __call__(self, sound):
        state, found = torch.zeros(2, 1, Vad.HIDDEN), []
        for x in windows(sound, Vad.WINDOW, Vad.CONTEXT):
            probability, state = self.program(x, state)
            found.append(float(probability))
        return np.array(found)


class ShippedWakeWord:
    """Sound to scores per call, through the two .pte."""

    def __init__(self, variant="portable"):
        self.features, self.program = Program("log_mel", variant), Program("wake_word", variant)

    def __call__(self, sound):
        state, found = torch.zeros(1, WakeWord.WIDTH, WakeWord.PAST), []
        for x in windows(sound, LogMel.WINDOW, LogMel.CONTEXT):
            scores, state = self.program(self.features(x)[0], state)
            found.append(scores[0].numpy())
        return np.array(found)


def trained(model, name):
    model.load_state_dict(torch.load(os.path.join(data.WORK, f"{name}.pt"), weights_only=True))
    return model.eval()


class WholeVad:
    """The same from the trained weights, a whole sound at a time, which is many times faster."""

    def __init__(self):
        self.model = trained(Vad(), "vad")

    @torch.no_grad()
    def __call__(self, sound):
        return self.model.whole(torch.from_numpy(sound)[None])[0].sigmoid().numpy()


class WholeWakeWord:
    """The same from the trained weights, a whole sound at a time, which is many times faster."""

    def __init__(self):
        self.features, self.model = LogMel(), trained(WakeWord(), "wake_word")

    @torch.no_grad()
    def __call__(self, sound):
        logits, _ = self.model.logits(self.features.whole(torch.from_numpy(sound)[None]), self.model.zero_state())
        return logits[0].softmax(1).numpy()


def decide(scores, decision):
    """Events (label, seconds) of a stream of scores, as the node decides."""
    n = max(1, round(decision["smooth_ms"] / (STEP_S * 1000)))
    total = np.cumsum(np.concatenate([np.zeros((n, scores.shape[1])), scores]), 0)
    smoothed = (total[n:] - total[:-n]) / n
    wait = decision["refractory_ms"] / 1000
    events = []
    for column, label in enumerate(WakeWord.LABELS):
        if column == 0:
            continue
        last = -np.inf
        for i in np.flatnonzero(smoothed[:, column] >= decision["threshold"]):
            at = (i + 1) * STEP_S
            if at - last >= wait:
                events.append((label, at))
                last = at
    return events
