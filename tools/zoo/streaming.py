"""Runs shipped programs window by window, and decides as the nodes do."""
import os

import numpy as np
import torch

import data
from models import LogMel, Vad, WakeWord
from speech import RATE

MODELS = os.path.join(data.ROOT, "pipelines", "models")
STEP_S = LogMel.WINDOW / RATE


class Stream:
    """A shipped program fed window by window through the official runtime."""

    def __init__(self, name, variant="portable"):
        from executorch.runtime import Runtime
        self.program = Runtime.get().load_program(os.path.join(MODELS, name, f"{name}_{variant}.pte"))
        self.method = self.program.load_method("forward")

    def __call__(self, *inputs):
        return self.method.execute(list(inputs))


def windows(sound, size, context):
    """Each window of new samples with the context before it, as tensors of one row."""
    padded = torch.from_numpy(np.concatenate([np.zeros(context, np.float32), sound]))
    for i in range(len(sound) // size):
        yield padded[i * size:(i + 1) * size + context].unsqueeze(0)


def vad_probabilities(program, sound):
    state, found = torch.zeros(2, 1, Vad.HIDDEN), []
    for x in windows(sound, Vad.WINDOW, Vad.CONTEXT):
        probability, state = (t.clone() for t in program(x, state))
        found.append(float(probability))
    return np.array(found)


def wake_scores(features, program, sound):
    state, found = torch.zeros(1, WakeWord.WIDTH, WakeWord.PAST), []
    for x in windows(sound, LogMel.WINDOW, LogMel.CONTEXT):
        scores, state = (t.clone() for t in program(features(x)[0], state))
        found.append(scores[0].numpy())
    return np.array(found)


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
