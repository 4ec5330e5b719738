"""Excitation of the vocoder: spectra of a pulse train at the pitch, and of noise."""
import numpy as np

from corpus import HOP, SAMPLE_RATE
from networks import BINS, FFT_SIZE, OVERLAP

# Pulse positions are multiples of a sample divided by this.
SUBSAMPLES = 64
PERIOD = FFT_SIZE * SUBSAMPLES
COSINE = np.cos(2 * np.pi * np.arange(PERIOD) / PERIOD).astype(np.float32)
NOISE_AMPLITUDE = 12.0


def pitch_per_sample(pitch):
    """Interpolates the pitch in hertz, one value for each hop, linearly to samples.

    Unvoiced hops are 0.
    """
    pitch = np.asarray(pitch, np.float64)
    before, after = np.concatenate([[0], pitch[:-1]]), np.concatenate([pitch[1:], [0]])
    first = np.where(before > 0, (before + pitch) / 2, pitch)
    last = np.where(after > 0, (after + pitch) / 2, pitch)
    position = (np.arange(HOP) + 0.5) / HOP
    return np.where(pitch[:, None] > 0, first[:, None] + (last - first)[:, None] * position, 0).reshape(-1)


def pulses(pitch):
    """Returns the positions of the pulses, in samples times SUBSAMPLES, and their amplitudes."""
    hertz = pitch_per_sample(pitch)
    phase = np.cumsum(hertz / SAMPLE_RATE)
    at = np.flatnonzero(np.floor(phase) > np.floor(np.concatenate([[0], phase[:-1]])))
    excess = (phase[at] - np.floor(phase[at])) / (hertz[at] / SAMPLE_RATE)
    positions = np.maximum(np.round((at + 1 - excess) * SUBSAMPLES), 0).astype(np.int64)
    return positions, np.sqrt(SAMPLE_RATE / hertz[at]).astype(np.float32)


def pulse_spectra(positions, amplitudes, first, hops):
    """Returns the spectra of windows centered on the hops from `first`: [2 BINS, hops], real parts
    first.
    """
    out = np.zeros((hops, 2 * BINS), np.float32)
    bins = np.arange(BINS)
    for part in range(OVERLAP):
        hop = positions // (HOP * SUBSAMPLES) + 1 - part
        inside = (hop >= first) & (hop < first + hops)
        offset = positions[inside] - (hop[inside] - 1) * HOP * SUBSAMPLES
        phase = offset[:, None] * bins % PERIOD
        weight = amplitudes[inside] * (0.5 - 0.5 * COSINE[offset])
        spectra = np.concatenate([COSINE[phase], -COSINE[(phase - PERIOD // 4) % PERIOD]], 1) * weight[:, None]
        np.add.at(out, hop[inside] - first, spectra)
    return out.T


def noise_spectra(rng, hops):
    """Returns noise with a standard deviation of NOISE_AMPLITUDE in the real and imaginary part of
    each bin.
    """
    return (rng.random((2 * BINS, hops), np.float32) - 0.5) * (NOISE_AMPLITUDE * 12 ** 0.5)
