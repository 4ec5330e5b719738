"""Corpus of the teacher voice: tokens of clauses with durations, sound, mel spectrum and pitch."""
import argparse
import os
import pickle
from typing import NamedTuple

import numpy as np
import torch
from scipy.signal import resample_poly

import phones
import sentences
from language import language

WORK = os.path.join(sentences.HERE, "../work", language.PACKAGE)
SAMPLE_RATE, HOP = 16000, 160
# Silence before and after a clause.
LEAD_S, TAIL_S = 0.05, 0.08
GAIN = 0.5
MEL_WINDOW, MEL_FFT, MELS, MEL_LOW_HZ, MEL_HIGH_HZ, MEL_FLOOR = 512, 1024, 80, 50, 7900, 1e-4
PITCH_WINDOW, PITCH_FFT, PITCH_LOW_HZ, PITCH_HIGH_HZ = 640, 2048, 60, 180
# Minimum autocorrelation and RMS of voiced sound; fraction of the maximum that the first peak
# needs.
MIN_VOICED_CORRELATION, MIN_VOICED_RMS, FIRST_PEAK_FRACTION = 0.55, 0.003, 0.88
TRAIN_CLAUSES, TEST_CLAUSES = 6000, 600


class Item(NamedTuple):
    """Clause of the teacher.

    Sound is int16 at 16 kHz; tokens, features and seconds are per token, the rest per hop.
    """
    clause: sentences.Clause
    tokens: list
    features: np.ndarray
    seconds: np.ndarray
    sound: np.ndarray
    mel: np.ndarray
    pitch: np.ndarray


def mel_filterbank():
    """Returns triangular mel filters over the bins of MEL_FFT, each with a sum of one."""
    def mel(f):
        return 2595 * np.log10(1 + f / 700)
    points = 700 * (10 ** (np.linspace(mel(MEL_LOW_HZ), mel(MEL_HIGH_HZ), MELS + 2) / 2595) - 1)
    bins = np.arange(MEL_FFT // 2 + 1) * SAMPLE_RATE / MEL_FFT
    rise = (bins - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
    fall = (points[2:, None] - bins) / (points[2:] - points[1:-1])[:, None]
    weights = np.maximum(0, np.minimum(rise, fall))
    return torch.from_numpy((weights / weights.sum(1, keepdims=True)).astype(np.float32))


MEL_FILTERS = mel_filterbank()


def centered_windows(sound, window):
    """Returns windows centered on the middle of each hop."""
    side = (window - HOP) // 2
    return torch.nn.functional.pad(sound, (side, window - HOP - side)).unfold(-1, window, HOP)


def log_mel(sound):
    """Returns the log magnitudes of the mel bands of a float tensor: [..., hops, MELS]."""
    spectrum = torch.fft.rfft(centered_windows(sound, MEL_WINDOW) * torch.hann_window(MEL_WINDOW), MEL_FFT).abs()
    return torch.log(spectrum @ MEL_FILTERS.T + MEL_FLOOR)


def estimate_pitch(sound):
    """Estimates the pitch of each hop in hertz by autocorrelation; 0 where unvoiced."""
    windows = centered_windows(sound, PITCH_WINDOW)
    windows = windows - windows.mean(1, keepdim=True)
    window = torch.hann_window(PITCH_WINDOW)

    def autocorrelation(x):
        return torch.fft.irfft(torch.fft.rfft(x, PITCH_FFT).abs() ** 2)[..., :PITCH_WINDOW // 2]
    power, window_power = autocorrelation(windows * window), autocorrelation(window)
    c = power / (power[:, :1] + 1e-7) / (window_power / window_power[0])
    low, high = SAMPLE_RATE // PITCH_HIGH_HZ, SAMPLE_RATE // PITCH_LOW_HZ
    inside, best = c[:, low:high], c[:, low:high].max(1).values
    is_peak = ((inside >= c[:, low - 1:high - 1]) & (inside >= c[:, low + 1:high + 1])
               & (inside >= FIRST_PEAK_FRACTION * best[:, None]))
    lag = is_peak.float().argmax(1) + low
    # Parabolic interpolation of the peak.
    before, at, after = (c.gather(1, (lag + k)[:, None])[:, 0] for k in (-1, 0, 1))
    shift = (0.5 * (before - after) / (before - 2 * at + after - 1e-9)).clamp(-1, 1)
    voiced = (best > MIN_VOICED_CORRELATION) & ((windows ** 2).mean(1).sqrt() > MIN_VOICED_RMS)
    return torch.where(voiced, SAMPLE_RATE / (lag + shift), torch.zeros(()))


def teacher_text(pronunciations, mark):
    """Returns the text for espeak-ng that produces exactly these phones."""
    return "[[" + " ".join("|".join(word) for word in pronunciations) + "]]" + mark


def phone_durations(pronunciations, events, end_sample):
    """Returns phone boundaries and durations in samples, from the phoneme events of the teacher."""
    expected = [phones.split_stress(phone)[0] for word in pronunciations for phone in word]
    spoken = [(at, phone.strip("_:;")) for at, phone in events if phone.strip("_:;")]
    last = spoken[-1][0]
    end = min([at for at, phone in events if at > last and not phone.strip("_:;")] + [end_sample])
    starts = phones.align(expected, [phone for _, phone in spoken])
    bounds = np.array([spoken[s][0] if s < len(spoken) else end for s in starts] + [end], np.float64)
    return bounds, np.maximum(np.diff(bounds), 0)


def teacher_item(clause, lexicon, symbols):
    """Synthesizes a clause with the teacher and analyzes it."""
    pronunciations = phones.clause_phones(clause.words, lexicon)
    tokens = phones.clause_tokens(pronunciations, symbols)
    engine = phones.espeak()
    raw, events = engine.say(teacher_text(pronunciations, clause.mark))
    bounds, durations = phone_durations(pronunciations, events, len(raw))
    seconds = np.concatenate([[LEAD_S], durations / engine.rate, [TAIL_S]])
    hops = int(np.ceil(seconds.sum() * SAMPLE_RATE / HOP / 2)) * 2
    seconds[-1] = hops * HOP / SAMPLE_RATE - seconds[:-1].sum()
    sound = resample_poly(raw, 320, 441).astype(np.float32) * GAIN
    shift = int(round(bounds[0] / engine.rate * SAMPLE_RATE)) - int(LEAD_S * SAMPLE_RATE)
    padded = np.concatenate([np.zeros(max(0, -shift), np.float32), sound[max(0, shift):],
                             np.zeros(hops * HOP, np.float32)])
    sound = torch.from_numpy(padded[:hops * HOP])
    return Item(clause, tokens, phones.token_features(tokens, clause.mark), seconds.astype(np.float32),
                (sound.numpy() * 32767).clip(-32768, 32767).astype(np.int16),
                log_mel(sound).numpy().astype(np.float16), estimate_pitch(sound).numpy())


def phone_symbols(lexicon):
    """Returns the index of each phone; 0 is padding, 1 is silence."""
    symbols = sorted({phones.split_stress(phone)[0] for pronunciation in lexicon.values() for phone in pronunciation})
    return {phone: i + 2 for i, phone in enumerate(symbols)}


def build(seed, splits=("train", "test")):
    """Builds and saves the lexicon and the clauses of the given splits, if they do not exist yet."""
    splits = [split for split in splits if not os.path.exists(os.path.join(WORK, f"{split}.pickle"))]
    if not splits:
        return
    os.makedirs(WORK, exist_ok=True)
    torch.set_num_threads(1)
    words = language.inflected_words()
    lexicon = {word: phones.pronounce(word) for word in words}
    symbols = phone_symbols(lexicon)
    save("lexicon", (lexicon, symbols))
    seen = set()
    for split, count in (("train", TRAIN_CLAUSES), ("test", TEST_CLAUSES)):
        rng = np.random.default_rng([seed, split == "test"])
        items = []
        while len(items) < count:
            for clause in sentences.draw(rng, split, words):
                if clause not in seen and all(word in lexicon for word in clause.words):
                    seen.add(clause)
                    items.append(teacher_item(clause, lexicon, symbols) if split in splits else None)
        if split not in splits:
            continue
        save(split, items)
        minutes = sum(len(item.sound) for item in items) / SAMPLE_RATE / 60
        print(f"tts corpus: {split}: {len(items)} clauses, {minutes:.0f} minutes", flush=True)


def save(name, content):
    path = os.path.join(WORK, f"{name}.pickle")
    with open(path + ".part", "wb") as file:
        pickle.dump(content, file, protocol=5)
    os.replace(path + ".part", path)


def load(name):
    with open(os.path.join(WORK, f"{name}.pickle"), "rb") as file:
        return pickle.load(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    # Imported under its own name, not as __main__, so that other scripts can unpickle the items.
    __import__("corpus").build(parser.parse_args().seed)
