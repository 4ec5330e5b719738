"""Measures the shipped translator, in text and in the pipeline live_translation.yaml, and updates its
model.yaml.
"""
import argparse
import json
import os
import subprocess
import wave

import numpy as np
import torch
import yaml

import model
import pairs
from cards import write_card
from package import FILE, PACKAGE

ZOO = os.path.dirname(pairs.HERE)
ROOT = os.path.dirname(os.path.dirname(ZOO))
PIPELINE = os.path.join(ROOT, "pipelines", "live_translation.yaml")
TEXTS, TEXT_SEED = 1000, 31
SPOKEN, SPOKEN_SEED, RATE = 50, 32, 16000
# Silence before the first sentence and after each one: a translation takes as long as its sentence.
LEAD_S, PAUSE_S = 0.5, 4.0
# Amplitude at which a sound begins.
AUDIBLE = 0.01
MEASURED_ON = (
    "Sentences of the templates that training does not contain. `spoken`: said by held-out voices of "
    "espeak-ng, through vad, asr, translate and tts of live_translation.yaml in real time; `right` are the "
    "sentences whose translation is that of the template, and the latency is the time from the end of the "
    "sentence in the input to the first sound of its translation in the output.")


def held_out(count, seed):
    """Distinct pairs of the test split."""
    rng, drawn = np.random.default_rng(seed), {}
    while len(drawn) < count:
        pair = pairs.pair(rng, "test")
        drawn[pair.english] = pair
    return list(drawn.values())


class Program:
    """The shipped program on the official runtime."""

    def __init__(self):
        from executorch.runtime import Runtime
        self.program = Runtime.get().load_program(os.path.join(PACKAGE, FILE))
        self.encoder, self.decoder = (self.program.load_method(name) for name in ("encoder", "text_decoder"))
        self.tokenizer = model.tokenizer()

    def translate(self, text):
        start, end = (self.tokenizer.token_to_id(name) for name in (model.START, model.END))
        ids = [*self.tokenizer.encode(text).ids, end]
        rows, tokens = self.encoder.execute([torch.tensor([ids])])[0].clone(), [start]
        while len(tokens) < model.POSITIONS:
            step = [torch.tensor([[tokens[-1]]]), rows, torch.tensor([len(tokens) - 1])]
            token = int(self.decoder.execute(step)[0][0, -1].argmax())
            if token == end:
                break
            tokens.append(token)
        return self.tokenizer.decode(tokens[1:])


def measure_text():
    program, wrong = Program(), []
    for pair in held_out(TEXTS, TEXT_SEED):
        if (found := program.translate(pair.english)) != pair.spanish:
            wrong.append((pair, found))
    for pair, found in wrong[:10]:
        print(f"  {pair.english} -> {found} (expected {pair.spanish})")
    return {"sentences": TEXTS, "right": round(1 - len(wrong) / TEXTS, 4)}


def write_speech(path, spoken):
    """Writes the sentences to a WAV file. Returns the end of each in seconds."""
    import corpus
    import eval_sets
    import speech
    corpus.start_engine(randomized=False)
    rng = np.random.default_rng(SPOKEN_SEED)
    parts, ends = [np.zeros(int(LEAD_S * RATE), np.float32)], []
    for pair in spoken:
        sound = speech.synthesize(rng, pair.english, speech.random_voice(rng, True), False).sound
        loud = np.flatnonzero(np.abs(sound) > AUDIBLE)
        parts.append(sound[:loud[-1] + 1].astype(np.float32))
        ends.append(sum(map(len, parts)) / RATE)
        parts.append(np.zeros(int(PAUSE_S * RATE), np.float32))
    eval_sets.write_wav(path, (np.concatenate(parts).clip(-1, 1) * 16384).round().astype("<i2"))
    return np.array(ends)


def read_captions(path):
    """The final transcripts and the translations: (seconds, text) each."""
    found = {"asr": [], "translate": []}
    with open(path) as file:
        for event in map(json.loads, file):
            if event.get("event", "final") == "final":
                found[event["node"]].append((event["t_s"], event["text"]))
    return found["asr"], found["translate"]


def measure_spoken(arguments):
    folder = os.path.join(model.WORK, "spoken")
    os.makedirs(folder, exist_ok=True)
    sound, said, captions = (os.path.join(folder, name) for name in ("english.wav", "spanish.wav", "captions.jsonl"))
    spoken = held_out(SPOKEN, SPOKEN_SEED)
    ends = write_speech(sound, spoken)
    settings = [f"sound.path={sound}", f"speaker.path={said}", f"captions.path={captions}", "captions.format=json",
                "voices.gains_db=resample: -120"]
    subprocess.run([arguments.afferent, "run", PIPELINE, *(word for s in settings for word in ("--set", s))],
                   check=True, stdout=subprocess.DEVNULL)
    heard, translations = read_captions(captions)
    with wave.open(said) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
        audible = np.flatnonzero(np.abs(samples) > AUDIBLE) / file.getframerate()
    limits = [*ends[1:], np.inf]
    right, heard_right, latencies = 0, 0, []
    for pair, end, limit in zip(spoken, ends, limits):
        texts = [text for at, text in translations if end - 0.5 <= at < limit - 0.5]
        words = [text for at, text in heard if end - 0.5 <= at < limit - 0.5]
        right += texts == [pair.spanish]
        heard_right += words == [pair.english]
        if texts != [pair.spanish]:
            print(f"  {pair.english} -> heard {words}, translated {texts} (expected {pair.spanish})")
        after = audible[(audible >= end) & (audible < limit)]
        latencies += [after[0] - end] if len(after) else []
    latencies = np.array(latencies)
    return {"sentences": SPOKEN, "heard_right": heard_right / SPOKEN, "right": right / SPOKEN,
            "first_sound_s": {"count": len(latencies), "median": round(float(np.median(latencies)), 3),
                              "p95": round(float(np.quantile(latencies, 0.95)), 3),
                              "max": round(float(latencies.max()), 3)}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--afferent", default=os.path.join(ROOT, "target/release/afferent"),
                        help="path of afferent; empty to measure text only")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with open(os.path.join(PACKAGE, "model.yaml")) as card_file:
        card = yaml.safe_load(card_file)
    quality = {"measured_with": "tools/zoo/translate/evaluate.py", "measured_on": MEASURED_ON, "text": measure_text()}
    print(quality["text"], flush=True)
    if given.afferent:
        quality["spoken"] = measure_spoken(given)
        print(quality["spoken"], flush=True)
    card["quality"] = quality
    write_card(PACKAGE, card)
