"""Loss-weighted sampling of phrasings: those with a high loss are drawn more often."""
import itertools

import torch

from dialogues import INTENTS

# A core weighs its last loss plus MIN_WEIGHT, at most MAX_WEIGHT; INITIAL_WEIGHT before its first
# loss.
MIN_WEIGHT, INITIAL_WEIGHT, MAX_WEIGHT = 0.1, 1.0, 2.0


class PhrasingSampler:
    """Sampling weight of each core of the train split."""

    def __init__(self, weights=None):
        counts = {name: len(intent.cores["train"]) for name, intent in INTENTS.items()}
        if weights is None:
            weights = torch.full((sum(counts.values()),), INITIAL_WEIGHT)
        self.weights = {name: part.tolist() for name, part in zip(counts, weights.split(list(counts.values())))}
        self.cumulative = {}

    def state(self):
        """Returns all weights, for a checkpoint."""
        return torch.tensor([*itertools.chain(*self.weights.values())])

    def draw(self, rng, intent):
        """Draws the index of a core of an intent."""
        if intent not in self.cumulative:
            self.cumulative[intent] = list(itertools.accumulate(self.weights[intent]))
        cumulative = self.cumulative[intent]
        return rng.choices(range(len(cumulative)), cum_weights=cumulative)[0]

    def update(self, cores, losses):
        """Sets the weights of cores from the losses, in nats, of the answers to their utterances.
        """
        for (intent, index), loss in zip(cores, losses):
            self.weights[intent][index] = min(MIN_WEIGHT + loss, MAX_WEIGHT)
            self.cumulative.pop(intent, None)
