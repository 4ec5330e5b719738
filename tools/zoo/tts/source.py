"""What the vocoder filters: the spectra of a pulse for each period of the pitch, and of noise."""
import numpy as np

from corpus import HOP, RATE
from networks import BINS, OVERLAP, SPECTRUM

# Pulses lie at multiples of this part of a sample.
PARTS = 64
CIRCLE = SPECTRUM * PARTS
COSINE = np.cos(2 * np.pi * np.arange(CIRCLE) / CIRCLE).astype(np.float32)
NOISE_AMPLITUDE = 12.0


def per_sample(pitch):
    """Pitch in hertz of each sample: straight lines through the edges of the hops, which lie between neighbours."""
    pitch = np.asarray(pitch, np.float64)
    before, after = np.concatenate([[0], pitch[:-1]]), np.concatenate([pitch[1:], [0]])
    first = np.where(before > 0, (before + pitch) / 2, pitch)
    last = np.where(after > 0, (after + pitch) / 2, pitch)
    place = (np.arange(HOP) + 0.5) / HOP
    return np.where(pitch[:, None] > 0, first[:, None] + (last - first)[:, None] * place, 0).reshape(-1)


def pulses(pitch):
    """Where the pulses lie, in PARTS of a sample, and how strong each is."""
    hertz = per_sample(pitch)
    phase = np.cumsum(hertz / RATE)
    at = np.flatnonzero(np.floor(phase) > np.floor(np.concatenate([[0], phase[:-1]])))
    beyond = (phase[at] - np.floor(phase[at])) / (hertz[at] / RATE)
    return np.maximum(np.round((at + 1 - beyond) * PARTS), 0).astype(np.int64), np.sqrt(RATE / hertz[at]).astype(np.float32)


def pulse_spectra(where, strength, first, hops):
    """Spectra of the windows centred on the hops from `first`: [2 BINS, hops], real parts first."""
    out = np.zeros((hops, 2 * BINS), np.float32)
    bins = np.arange(BINS)
    for part in range(OVERLAP):
        hop = where // (HOP * PARTS) + 1 - part
        inside = (hop >= first) & (hop < first + hops)
        local = where[inside] - (hop[inside] - 1) * HOP * PARTS
        turn = local[:, None] * bins % CIRCLE
        weight = strength[inside] * (0.5 - 0.5 * COSINE[local])
        spectra = np.concatenate([COSINE[turn], -COSINE[(turn - CIRCLE // 4) % CIRCLE]], 1) * weight[:, None]
        np.add.at(out, hop[inside] - first, spectra)
    return out.T


def noise_spectra(rng, hops):
    """Noise of unit variance times NOISE_AMPLITUDE in every part of every bin."""
    return (rng.random((2 * BINS, hops), np.float32) - 0.5) * (NOISE_AMPLITUDE * 12 ** 0.5)
