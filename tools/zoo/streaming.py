"""Runs the shipped programs window by window, and detects wake words as the node does."""
import os

import numpy as np
import torch

import data
from models import LogMel, Vad, WakeWord
from speech import SAMPLE_RATE

MODELS = os.path.join(data.ROOT, "pipelines", "models")
STEP_S = LogMel.WINDOW / SAMPLE_RATE


class Program:
    """A shipped program on the official runtime."""

    def __init__(self, name, variant):
        from executorch.runtime import Runtime
        self.program = Runtime.get().load_program(os.path.join(MODELS, name, f"{name}_{variant}.pte"))
        self.method = self.program.load_method("forward")

    def __call__(self, *inputs):
        return [t.clone() for t in self.method.execute(list(inputs))]


def windows(sound, size, context):
    """Yields each window of new samples, preceded by its context, as f32[1, context + size]."""
    padded = torch.from_numpy(np.concatenate([np.zeros(context, np.float32), sound]))
    for i in range(len(sound) // size):
        yield padded[i * size:(i + 1) * size + context].unsqueeze(0)


class StreamingVad:
    """Speech probability of each window, from the shipped program."""

    def __init__(self, variant="portable"):
        self.program = Program("vad", variant)

    def __call__(self, sound):
        state, probabilities = torch.zeros(2, 1, Vad.HIDDEN), []
        for x in windows(sound, Vad.WINDOW, Vad.CONTEXT):
            probability, state = self.program(x, state)
            probabilities.append(float(probability))
        return np.array(probabilities)


class StreamingWakeWord:
    """Scores of each call, from the two shipped programs."""

    def __init__(self, variant="portable"):
        self.features, self.program = Program("log_mel", variant), Program("wake_word", variant)

    def __call__(self, sound):
        state, calls = torch.zeros(1, WakeWord.WIDTH, WakeWord.PAST), []
        for x in windows(sound, LogMel.WINDOW, LogMel.CONTEXT):
            scores, state = self.program(self.features(x)[0], state)
            calls.append(scores[0].numpy())
        return np.array(calls)


def load_trained(model, name):
    model.load_state_dict(torch.load(os.path.join(data.WORK, f"{name}.pt"), weights_only=True))
    return model.eval()


class OfflineVad:
    """Speech probability of each window, from the trained weights on the whole sound; much faster.
    """

    def __init__(self):
        self.model = load_trained(Vad(), "vad")

    @torch.no_grad()
    def __call__(self, sound):
        return self.model.forward_offline(torch.from_numpy(sound)[None])[0].sigmoid().numpy()


class OfflineWakeWord:
    """Scores of each call, from the trained weights on the whole sound; much faster."""

    def __init__(self):
        self.features, self.model = LogMel(), load_trained(WakeWord(), "wake_word")

    @torch.no_grad()
    def __call__(self, sound):
        features = self.features.forward_offline(torch.from_numpy(sound)[None])
        logits, _ = self.model.logits(features, self.model.initial_state())
        return logits[0].softmax(1).numpy()


def detect_events(scores, decision):
    """Returns the detections (label, time in seconds) in a sequence of scores, as the node does."""
    n = max(1, round(decision["smooth_ms"] / (STEP_S * 1000)))
    total = np.cumsum(np.concatenate([np.zeros((n, scores.shape[1])), scores]), 0)
    smoothed = (total[n:] - total[:-n]) / n
    refractory_s = decision["refractory_ms"] / 1000
    events = []
    for column, label in enumerate(WakeWord.LABELS):
        if column == 0:
            continue
        threshold, last = decision["threshold"], -np.inf
        if isinstance(threshold, dict):
            threshold = threshold[label]
        for i in np.flatnonzero(smoothed[:, column] >= threshold):
            at = (i + 1) * STEP_S
            if at - last >= refractory_s:
                events.append((label, at))
                last = at
    return events
