"""Which phrasings training draws: those that the model got wrong when it last met them are drawn more often."""
import itertools

import torch

from dialogues import INTENTS

# The weight of a core whose answer is known, of one that was not met yet, and the most that a core weighs.
KNOWN, NEW, MOST = 0.1, 1.0, 2.0


class Drill:
    """A weight for each core of training."""

    def __init__(self, weights=None):
        counts = {name: len(intent.cores["train"]) for name, intent in INTENTS.items()}
        parts = (torch.full((sum(counts.values()),), NEW) if weights is None else weights).split(list(counts.values()))
        self.weights = {name: part.tolist() for name, part in zip(counts, parts)}
        self.sums = {}

    def state(self):
        """All weights, for a checkpoint."""
        return torch.tensor([*itertools.chain(*self.weights.values())])

    def draw(self, rng, intent):
        """The place of a core among those of its intent."""
        if intent not in self.sums:
            self.sums[intent] = list(itertools.accumulate(self.weights[intent]))
        sums = self.sums[intent]
        return rng.choices(range(len(sums)), cum_weights=sums)[0]

    def update(self, cores, losses):
        """What answers to utterances of these cores lost, in nats."""
        for (intent, at), loss in zip(cores, losses):
            self.weights[intent][at] = min(KNOWN + loss, MOST)
            self.sums.pop(intent, None)
