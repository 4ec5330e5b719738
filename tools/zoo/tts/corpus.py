"""Clauses as the teacher says them: tokens with their durations, sound, mel spectrum, pitch."""
import argparse
import os
import pickle
from typing import NamedTuple

import numpy as np
import torch
from scipy.signal import resample_poly

import phones
import sentences

WORK = os.path.join(sentences.HERE, "../work/tts")
RATE, HOP = 16000, 160
LEAD_S, TAIL_S = 0.05, 0.08
GAIN = 0.5
MEL_WINDOW, MEL_FFT, MELS, MEL_LOW_HZ, MEL_HIGH_HZ, MEL_FLOOR = 512, 1024, 80, 50, 7900, 1e-4
PITCH_WINDOW, PITCH_FFT, PITCH_LOW_HZ, PITCH_HIGH_HZ = 640, 2048, 60, 180
TRAIN_CLAUSES, TEST_CLAUSES = 6000, 600


class Item(NamedTuple):
    """A clause of the teacher; sound is int16 at 16 kHz, the others are per token or per 10 ms."""
    clause: sentences.Clause
    tokens: list
    features: np.ndarray
    seconds: np.ndarray
    sound: np.ndarray
    mel: np.ndarray
    pitch: np.ndarray


def mel_matrix():
    """Triangles of equal width in mel over the bins of MEL_FFT."""
    def mel(f):
        return 2595 * np.log10(1 + f / 700)
    points = 700 * (10 ** (np.linspace(mel(MEL_LOW_HZ), mel(MEL_HIGH_HZ), MELS + 2) / 2595) - 1)
    bins = np.arange(MEL_FFT // 2 + 1) * RATE / MEL_FFT
    rise = (bins - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
    fall = (points[2:, None] - bins) / (points[2:] - points[1:-1])[:, None]
    weights = np.maximum(0, np.minimum(rise, fall))
    return torch.from_numpy((weights / weights.sum(1, keepdims=True)).astype(np.float32))


MEL_MATRIX = mel_matrix()


def windows(sound, window):
    """Windows centred on the middle of each 10 ms."""
    side = (window - HOP) // 2
    return torch.nn.functional.pad(sound, (side, window - HOP - side)).unfold(-1, window, HOP)


def mel_of(sound):
    """Logarithm of the mean magnitude in mel bands, [..., hops, MELS], of a float tensor."""
    spectrum = torch.fft.rfft(windows(sound, MEL_WINDOW) * torch.hann_window(MEL_WINDOW), MEL_FFT).abs()
    return torch.log(spectrum @ MEL_MATRIX.T + MEL_FLOOR)


def pitch_of(sound):
    """Fundamental in hertz per 10 ms by autocorrelation, 0 where there is none."""
    found = windows(sound, PITCH_WINDOW)
    found = found - found.mean(1, keepdim=True)
    window = torch.hann_window(PITCH_WINDOW)

    def correlation(x):
        return torch.fft.irfft(torch.fft.rfft(x, PITCH_FFT).abs() ** 2)[..., :PITCH_WINDOW // 2]
    power, of_window = correlation(found * window), correlation(window)
    c = power / (power[:, :1] + 1e-7) / (of_window / of_window[0])
    low, high = RATE // PITCH_HIGH_HZ, RATE // PITCH_LOW_HZ
    inside, best = c[:, low:high], c[:, low:high].max(1).values
    peak = (inside >= c[:, low - 1:high - 1]) & (inside >= c[:, low + 1:high + 1]) & (inside >= 0.88 * best[:, None])
    lag = peak.float().argmax(1) + low
    before, at, after = (c.gather(1, (lag + k)[:, None])[:, 0] for k in (-1, 0, 1))
    shift = (0.5 * (before - after) / (before - 2 * at + after - 1e-9)).clamp(-1, 1)
    voiced = (best > 0.55) & ((found ** 2).mean(1).sqrt() > 0.003)
    return torch.where(voiced, RATE / (lag + shift), torch.zeros(()))


def teacher_text(spelled, mark):
    """What espeak-ng is given, so that it says exactly these phones."""
    return "[[" + " ".join("|".join(word) for word in spelled) + "]]" + mark


def seconds_of(tokens, spelled, events, ends_at):
    """Durations of the tokens from the events of the teacher."""
    ours = [phones.split(phone)[0] for word in spelled for phone in word]
    spoken = [(at, phone.strip("_:;")) for at, phone in events if phone.strip("_:;")]
    last = spoken[-1][0]
    end = min([at for at, phone in events if at > last and not phone.strip("_:;")] + [ends_at])
    starts = phones.align(ours, [phone for _, phone in spoken])
    bounds = np.array([spoken[s][0] if s < len(spoken) else end for s in starts] + [end], np.float64)
    return bounds, np.maximum(np.diff(bounds), 0)


def listen(clause, lexicon, symbols):
    """The teacher's item of a clause."""
    spelled = phones.phrase(clause.words, lexicon)
    tokens = phones.tokens(spelled, symbols)
    engine = phones.espeak()
    raw, events = engine.say(teacher_text(spelled, clause.mark))
    bounds, lengths = seconds_of(tokens, spelled, events, len(raw))
    seconds = np.concatenate([[LEAD_S], lengths / engine.rate, [TAIL_S]])
    hops = int(np.ceil(seconds.sum() * RATE / HOP / 2)) * 2
    seconds[-1] = hops * HOP / RATE - seconds[:-1].sum()
    sound = resample_poly(raw, 320, 441).astype(np.float32) * GAIN
    shift = int(round(bounds[0] / engine.rate * RATE)) - int(LEAD_S * RATE)
    padded = np.concatenate([np.zeros(max(0, -shift), np.float32), sound[max(0, shift):], np.zeros(hops * HOP, np.float32)])
    sound = torch.from_numpy(padded[:hops * HOP])
    return Item(clause, tokens, phones.features(tokens, clause.mark), seconds.astype(np.float32),
                (sound.numpy() * 32767).clip(-32768, 32767).astype(np.int16),
                mel_of(sound).numpy().astype(np.float16), pitch_of(sound).numpy())


def symbols_of(lexicon):
    """Number of every phone: 0 is nothing, 1 is silence."""
    found = sorted({phones.split(phone)[0] for spelled in lexicon.values() for phone in spelled})
    return {phone: i + 2 for i, phone in enumerate(found)}


def build(seed, parts=("train", "test")):
    """Make and keep the dictionary and the clauses for training and test, or for one of them."""
    os.makedirs(WORK, exist_ok=True)
    torch.set_num_threads(1)
    words = sentences.inflected()
    lexicon = {word: phones.pronounce(word) for word in words}
    symbols = symbols_of(lexicon)
    keep(("lexicon", (lexicon, symbols)))
    seen = set()
    for part, count in (("train", TRAIN_CLAUSES), ("test", TEST_CLAUSES)):
        rng = np.random.default_rng([seed, part == "test"])
        items = []
        while len(items) < count:
            for clause in sentences.draw(rng, part == "test", words):
                if clause not in seen and all(word in lexicon for word in clause.words):
                    seen.add(clause)
                    items.append(listen(clause, lexicon, symbols) if part in parts else None)
        if part not in parts:
            continue
        keep((part, items))
        print(f"tts corpus: {part}: {len(items)} clauses, {sum(len(i.sound) for i in items) / RATE / 60:.0f} minutes", flush=True)


def keep(named):
    name, content = named
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
    # By its own name, so that what it keeps can be read from elsewhere.
    __import__("corpus").build(parser.parse_args().seed)
