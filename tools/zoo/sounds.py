"""Rooms and noise: impulse responses, noise, tones and music, and babble mixed from utterances."""
import numpy as np
from scipy.signal import fftconvolve, lfilter

from speech import SAMPLE_RATE


def normalize_rms(x):
    """Scales a sound to an RMS of one."""
    return (x / (np.sqrt((x ** 2).mean()) + 1e-9)).astype(np.float32)


def room_response(rng):
    """Returns a room impulse response: direct sound, six reflections, and a decay of 0.1 to 0.6 s.
    """
    decay = rng.uniform(0.1, 0.6)
    count = int(SAMPLE_RATE * min(decay, 0.5))
    tail = rng.standard_normal(count) * np.exp(-6.9 * np.arange(count) / SAMPLE_RATE / decay)
    tail[:int(0.002 * SAMPLE_RATE)] = 0
    for _ in range(6):
        tail[int(rng.uniform(0.001, 0.03) * SAMPLE_RATE)] += rng.uniform(-1, 1) * 4
    tail = lfilter([1], [1, -rng.uniform(0, 0.6)], tail)
    direct_db = rng.uniform(0, 14)
    tail *= np.sqrt(10 ** (-direct_db / 10) / (tail @ tail))
    tail[0] += 1
    return tail.astype(np.float32)


def reverberate(sound, response):
    return fftconvolve(sound, response).astype(np.float32)


def colored_noise(rng, count, slope):
    """Returns noise with power proportional to 1 / frequency^slope: 0 white, 1 pink, 2 brown."""
    spectrum = np.fft.rfft(rng.standard_normal(count))
    return normalize_rms(np.fft.irfft(spectrum / (np.arange(len(spectrum)) + 20.0) ** (slope / 2), count))


def shaped(rng, count):
    """Returns colored noise, neither white nor pink, with a random spectrum and slow level changes.
    """
    slope = rng.uniform(0.25, 0.8) if rng.random() < 0.5 else rng.uniform(1.2, 2.0)
    spectrum = np.fft.rfft(rng.standard_normal(count))
    bins = np.arange(len(spectrum))
    knots = np.linspace(0, len(bins), rng.integers(4, 12))
    shape_db = np.interp(bins, knots, rng.uniform(-12, 12, len(knots)))
    x = np.fft.irfft(spectrum * 10 ** (shape_db / 20) / (bins + 20.0) ** (slope / 2), count)
    if rng.random() < 0.5:
        points = np.arange(0, count + SAMPLE_RATE, int(rng.uniform(0.1, 1.5) * SAMPLE_RATE))
        x *= 10 ** (np.interp(np.arange(count), points, rng.uniform(-8, 4, len(points))) / 20)
    return normalize_rms(x)


def hum(rng, count):
    """Returns mains or motor hum with harmonics."""
    t = np.arange(count) / SAMPLE_RATE
    base = rng.uniform(45, 260) * (1 + 0.02 * np.sin(2 * np.pi * rng.uniform(0.1, 2) * t))
    phase = 2 * np.pi * np.cumsum(base) / SAMPLE_RATE
    x = sum(rng.uniform(0, 1) / k * np.sin(k * phase + rng.uniform(0, 6)) for k in range(1, rng.integers(3, 16)))
    return normalize_rms(x + 0.1 * shaped(rng, count))


def clicks(rng, count):
    """Returns keyboard and impact sounds: short decaying bursts over faint noise."""
    x = 0.01 * rng.standard_normal(count)
    for _ in range(rng.integers(2, 6 * count // SAMPLE_RATE)):
        size = int(rng.uniform(0.001, 0.06) * SAMPLE_RATE)
        start = rng.integers(0, count - size)
        t = np.arange(size)
        burst = rng.standard_normal(size)
        if rng.random() < 0.5:
            burst += 3 * np.sin(2 * np.pi * rng.uniform(200, 5000) * t / SAMPLE_RATE)
        x[start:start + size] += burst * np.exp(-5 * t / size) * rng.uniform(0.2, 1)
    return normalize_rms(x)


def tones(rng, count):
    """Returns beeps, sweeps and two-tone signals."""
    x = np.zeros(count)
    at = 0
    while at < count:
        size = min(count - at, int(rng.uniform(0.05, 1.5) * SAMPLE_RATE))
        t = np.arange(size) / SAMPLE_RATE
        edge = np.minimum(1, np.minimum(np.arange(size), np.arange(size)[::-1]) / 160)
        for _ in range(rng.integers(1, 3)):
            hz = rng.uniform(150, 4000)
            sweep = rng.choice([0, 0, rng.uniform(-1, 1)]) * hz
            depth = rng.choice([0, rng.uniform(0, 0.05)]) * hz
            phase = 2 * np.pi * (hz * t + sweep * t * t / 2) + depth * np.sin(2 * np.pi * 6 * t)
            x[at:at + size] += np.sin(phase) * edge * rng.uniform(0.3, 1)
        at += size + int(rng.choice([0, rng.uniform(0.02, 0.8)]) * SAMPLE_RATE)
    return normalize_rms(x + 0.003 * rng.standard_normal(count))


def music(rng, count):
    """Returns chords, a melody with vibrato, and drums."""
    x = np.zeros(count)
    beat = rng.uniform(0.15, 0.6)
    root = rng.uniform(80, 250)
    scale = np.array([0, 2, 4, 5, 7, 9, 11, 12, 14, 16])
    for start in np.arange(0, count / SAMPLE_RATE - beat, beat):
        a = int(start * SAMPLE_RATE)
        size = min(count - a, int(beat * rng.choice([1, 1, 2, 4]) * SAMPLE_RATE))
        t = np.arange(size) / SAMPLE_RATE
        notes = [root * 2 ** (rng.choice(scale) / 12 + 1)]
        if rng.random() < 0.5:
            notes += [root * 2 ** (n / 12) for n in rng.choice(scale, 3)]
        edge = np.minimum(1, t / rng.uniform(0.003, 0.05)) * np.exp(-t * rng.uniform(0.2, 6))
        for hz in notes:
            vibrato = rng.choice([0, 0.4]) * np.sin(2 * np.pi * 5.5 * t)
            for k in range(1, rng.integers(2, 9)):
                x[a:a + size] += np.sin(2 * np.pi * hz * k * t + k * vibrato) * edge * rng.uniform(0.2, 1) / k
        if rng.random() < 0.4:
            drum = rng.standard_normal(min(size, 1600)) * np.exp(-np.arange(min(size, 1600)) / 300)
            x[a:a + len(drum)] += drum * rng.uniform(0.3, 1.5)
    return normalize_rms(x)


def machine(rng, count):
    """Returns the noise of a motor with ringing impacts. Test only."""
    t = np.arange(count) / SAMPLE_RATE
    rate = rng.uniform(8, 30)
    x = lfilter([1], [1, -1.6, 0.81], rng.standard_normal(count)) * (0.4 + np.abs(np.sin(np.pi * rate * t)))
    for start in np.arange(0.2, count / SAMPLE_RATE - 0.3, rng.uniform(0.3, 1.2)):
        a = int(start * SAMPLE_RATE)
        ring = np.sin(2 * np.pi * rng.uniform(900, 2600) * t[:3200]) * np.exp(-t[:3200] * 25)
        x[a:a + 3200] += 12 * ring
    return normalize_rms(x)


def rain(rng, count):
    """Returns the noise of rain: dense drops over broadband noise. Test only."""
    drops = np.zeros(count)
    positions = rng.integers(0, count, 60 * count // SAMPLE_RATE)
    np.add.at(drops, positions, rng.uniform(-1, 1, len(positions)))
    pole = 0.98 * np.exp(1j * 2 * np.pi * rng.uniform(1500, 4000) / SAMPLE_RATE)
    ringing = lfilter([1], [1, -2 * pole.real, abs(pole) ** 2], drops)
    return normalize_rms(normalize_rms(ringing) + 0.7 * colored_noise(rng, count, 0.5))


def babble(rng, count, utterances, talkers):
    """Mixes utterances, given as sounds, into babble of several talkers."""
    x = np.zeros(count, np.float32)
    for _ in range(talkers):
        at = -int(rng.integers(0, 2 * SAMPLE_RATE))
        while at < count:
            sound = utterances[rng.integers(len(utterances))]
            a, b = max(0, at), min(count, at + len(sound))
            if b > a:
                x[a:b] += sound[a - at:b - at]
            at += len(sound) + int(rng.uniform(0, 0.3) * SAMPLE_RATE)
    return normalize_rms(x)


TRAIN_NOISES = {"shaped": shaped, "hum": hum, "clicks": clicks, "tones": tones, "music": music}
TEST_NOISES = {"white": lambda rng, n: colored_noise(rng, n, 0), "pink": lambda rng, n: colored_noise(rng, n, 1),
               "machine": machine, "rain": rain}
