"""Training data in files of records, drawn from a seed when they are first used."""
import os

import numpy as np
from paths import WORK


class Shards:
    """Records of a data set and split. `draw(rng, count)` returns an array of `count` records."""

    def __init__(self, name, split, seed, draw, size=1024):
        self.folder, self.draw, self.size = os.path.join(WORK, "shards", f"{name}-{split}"), draw, size
        self.seed, self.open = [seed, sum(name.encode()), sum(split.encode())], {}

    def __getitem__(self, index):
        """Returns a shard, mapped into memory."""
        if index not in self.open:
            path = os.path.join(self.folder, f"{index:04d}.npy")
            if not os.path.exists(path):
                os.makedirs(self.folder, exist_ok=True)
                np.save(f"{path}.part.npy", self.draw(np.random.default_rng([*self.seed, index]), self.size))
                os.replace(f"{path}.part.npy", path)
            self.open[index] = np.load(path, mmap_mode="r")
        return self.open[index]

    def sample(self, rng, count, shards):
        """Draws `count` records from the first `shards` shards."""
        picked = rng.integers(shards * self.size, size=count)
        return np.stack([self[i // self.size][i % self.size] for i in picked])

    def first(self, count):
        """Returns the first `count` records."""
        shards = -(-count // self.size)
        return np.concatenate([self[i] for i in range(shards)])[:count]
