"""Measures the shipped voice and updates its model.yaml."""
import argparse
import json
import os
import subprocess
import sys
import time
import wave

import numpy as np
import torch
import yaml
from scipy.signal import resample_poly

import corpus
import g2p
import networks
import package
import phones
import sentences
import synthesizer
from language import language
from cards import is_available, write_card
from corpus import SAMPLE_RATE, WORK

DB = 20 / np.log(10)
ROOT = os.path.join(sentences.HERE, "../../..")
READ_BACK_SENTENCES, READ_BACK_SEED = 500, 90001
SILENCE_BEFORE, SILENCE_AFTER = SAMPLE_RATE * 3 // 10, SAMPLE_RATE * 8 // 10
# Clauses compared between our runtime and the official one, and between the variants.
COMPARED_CLAUSES, COMPARED_VARIANT_CLAUSES = 100, 20
MEASURED_ON = (
    "Clauses of sentence templates and random word strings held out from training, synthesized by the "
    f"teacher, {language.ABOUT_VOICE}. The spectral distance is the root mean square over 80 mel "
    "bands in dB, averaged over hops of 10 ms with speech, with the durations of the teacher; pitch over hops "
    "that are voiced in both.")

def write_wav(path, sound):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes((np.clip(sound, -1, 1) * 32767).round().astype("<i2").tobytes())


def read_wav(path):
    with wave.open(path) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32767


def teacher_distance(voice, items):
    """Measures the distance from the teacher: durations, and with its durations spectrum, pitch and
    voicing.
    """
    spectral, durations, pitches, sound_pitches, voicing = [], [], [], [], []
    for item in items:
        inner = np.arange(1, len(item.tokens) - 1)
        hidden, seconds = voice.encode(item.tokens, item.features)
        durations.append(np.abs(seconds - item.seconds)[inner])
        spectrum = voice.decode(hidden, item.seconds)
        pitch = synthesizer.predicted_pitch(spectrum)
        sound = torch.from_numpy(voice.vocode(spectrum, pitch))
        teacher = torch.from_numpy(item.sound.astype(np.float32) / 32767)
        token, _ = networks.expand_durations(item.seconds)
        speech = (token > 0) & (token < len(item.tokens) - 1)
        difference_db = (corpus.log_mel(sound) - corpus.log_mel(teacher)).numpy()[speech] * DB
        spectral.append(np.sqrt((difference_db ** 2).mean(1)))
        pitches.append(np.abs(pitch - item.pitch)[(pitch > 0) & (item.pitch > 0)])
        sound_pitch = corpus.estimate_pitch(sound).numpy()
        sound_pitches.append(np.abs(sound_pitch - item.pitch)[(sound_pitch > 0) & (item.pitch > 0)])
        voicing.append(((pitch > 0) != (item.pitch > 0))[speech])

    def mean(values):
        return float(np.concatenate(values).mean())
    return {"clauses": len(items), "spectral_distance_db": round(mean(spectral), 2),
            "duration_error_ms": round(mean(durations) * 1000, 2), "pitch_error_hz": round(mean(pitches), 2),
            "pitch_error_of_sound_hz": round(mean(sound_pitches), 2), "voicing_error_rate": round(mean(voicing), 4)}


def g2p_accuracy(voice):
    """Measures the G2P network on held-out words."""
    lexicon, _ = corpus.load("lexicon")
    words = sorted(word for word in g2p.held_out_words()
                   if word in lexicon and word not in language.WEAK and len(word) > 1)
    edits = total = correct = 0
    for word in words:
        predicted, truth = voice.to_phones(word), lexicon[word]
        edits, total = edits + edit_distance(predicted, truth), total + len(truth)
        correct += predicted == truth
    return {"words": len(words), "correct": round(correct / len(words), 4), "phone_error_rate": round(edits / total, 4)}


def edit_distance(predicted, truth):
    """Returns the Levenshtein distance of two lists."""
    row = list(range(len(truth) + 1))
    for i, a in enumerate(predicted, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(truth, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def variant_difference(items):
    """Returns the largest difference of the sound of the two variants on the official runtime."""
    xnnpack, portable = synthesizer.Synthesizer("xnnpack"), synthesizer.Synthesizer("portable")
    return float(max(np.abs(xnnpack.synthesize(item.clause) - portable.synthesize(item.clause)).max()
                     for item in items))


def run_bench(arguments, *more):
    command = [arguments.bench, *more, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def synthesize_texts(arguments, name, texts):
    """Synthesizes texts with the module of the node on our runtime.

    Returns WAV files and measured times.
    """
    folder = os.path.join(WORK, name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "list.txt")
    with open(path, "w") as file:
        file.write("\n".join(texts) + "\n")
    table = run_bench(arguments, "tts", "--model", package.PACKAGE, path, "--output", folder)[0]["rows"][0]
    return [os.path.join(folder, f"{i + 1:04}.wav") for i in range(len(texts))], table


def measure_our_runtime(arguments, items):
    """Measures times on our runtime, and the difference of its sound from that of the official one.
    """
    texts = [item.clause.text() for item in items]
    paths, table = synthesize_texts(arguments, "said", texts)
    voice = synthesizer.Synthesizer("xnnpack")
    differences = []
    # Our text normalization reads "pm" as two letters, the clauses as one word.
    comparable = [(path, item) for path, item in zip(paths, items) if "pm" not in item.clause.words]
    for path, item in comparable[:COMPARED_CLAUSES]:
        ours, official = read_wav(path), voice.synthesize(item.clause)
        differences.append(float(np.abs(ours[:len(official)] - official).max()))
    times = {"sentences": int(table["sentences"]), "sound_s": table["sound s"], "real_time_factor": table["real time"],
             "first_chunk_ms_median": table["first chunk ms, median"], "first_chunk_ms_p95": table["95 %"],
             "first_chunk_ms_max": table["longest"]}
    return times, {"clauses": len(differences), "largest_difference_of_sound": max(differences)}


def assistant_sentences(count):
    """Returns distinct sentences of the test split of asr/grammar.py."""
    sys.path.append(os.path.join(sentences.HERE, "../asr"))
    import grammar
    rng, drawn = np.random.default_rng(READ_BACK_SEED), {}
    while len(drawn) < count:
        drawn[grammar.sentence(rng, "test", False)] = None
    return list(drawn)


def read_back(arguments):
    """Measures the word error rate of the recognizer on the teacher and on the voice, with and
    without its decoder.
    """
    texts = assistant_sentences(READ_BACK_SENTENCES)
    paths, _ = synthesize_texts(arguments, "read", texts)
    folder = os.path.dirname(paths[0])
    engine, lines = phones.espeak(), []
    for i, text in enumerate(texts):
        teacher = resample_poly(engine.say(text + ".")[0], 320, 441).astype(np.float32) * corpus.GAIN
        for name, sound in (("teacher", teacher), ("voice", read_wav(paths[i]))):
            file = f"{name}-{i + 1:04}.wav"
            loud = np.flatnonzero(np.abs(sound) > 0.003)
            sound = sound[loud[0]:loud[-1] + 1]
            write_wav(os.path.join(folder, file), np.pad(sound, (SILENCE_BEFORE, SILENCE_AFTER)))
            lines.append(f"{name}\t{file}\t{SILENCE_BEFORE + len(sound)}\t{text}")
    path = os.path.join(folder, "heard.tsv")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    result = {"sentences": len(texts)}
    for name, more in (("with_decoder", []), ("greedy", ["--set", "lexicon=false"])):
        command = [arguments.recognizer or arguments.bench, "asr", path, "--json", *more]
        command += ["--model", arguments.recognizer_package]
        rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]["rows"]
        result[name] = {row["set"]: row["WER %"] for row in rows}
    return result


def write_samples(arguments):
    """Writes ten sentences as WAV files."""
    paths, _ = synthesize_texts(arguments, "samples", language.SAMPLES)
    print("\n".join(f"{os.path.normpath(path)}: {text}" for path, text in zip(paths, language.SAMPLES)))


def measure(arguments):
    with open(os.path.join(package.PACKAGE, "model.yaml")) as file:
        card = yaml.safe_load(file)
    if not arguments.only_read_back:
        card["quality"] = measure_sound(arguments)
    if arguments.read_back or arguments.only_read_back:
        card["quality"]["word_error_rate_read_back"] = read_back(arguments)
        print(card["quality"]["word_error_rate_read_back"], flush=True)
    write_card(package.PACKAGE, card)


def measure_sound(arguments):
    if not os.path.exists(os.path.join(WORK, "test.pickle")):
        corpus.build(arguments.seed, ["test"])
    items = corpus.load("test")[:arguments.items]
    voice = synthesizer.Synthesizer("xnnpack")
    start = time.time()
    quality = {"measured_with": "tools/zoo/tts/evaluate.py", "measured_on": MEASURED_ON}
    quality["distance_from_teacher"] = teacher_distance(voice, items)
    print(quality["distance_from_teacher"], f"{time.time() - start:.0f} s", flush=True)
    quality["g2p_of_held_out_words"] = g2p_accuracy(voice)
    print(quality["g2p_of_held_out_words"], flush=True)
    if is_available(package.PACKAGE, "tts_portable.pte", "xnnpack_portable_difference"):
        quality["xnnpack_portable_difference"] = variant_difference(items[:COMPARED_VARIANT_CLAUSES])
        print(quality["xnnpack_portable_difference"], flush=True)
    if arguments.bench:
        quality["our_runtime"], quality["official_runtime"] = measure_our_runtime(arguments, items)
        print(quality["our_runtime"], quality["official_runtime"], flush=True)
    return quality


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=600, help="number of test clauses")
    parser.add_argument("--seed", type=int, default=1, help="seed of the test clauses, if they do not exist yet")
    parser.add_argument("--bench", default=os.path.join(ROOT, "target/release/afferent-bench"),
                        help="path of afferent-bench; empty to skip measurements on our runtime")
    parser.add_argument("--read-back", action="store_true",
                        help="also measure the word error rate of the recognizer on the voice and the teacher")
    parser.add_argument("--only-read-back", action="store_true", help="measure the word error rate only")
    parser.add_argument("--recognizer", help="afferent-bench that runs the recognizer, if not the same")
    parser.add_argument("--recognizer-package", default=os.path.join(ROOT, "pipelines", "models", "asr"),
                        help="package of the recognizer")
    parser.add_argument("--samples", action="store_true", help="write ten sample sentences only")
    torch.set_num_threads(1)
    given = parser.parse_args()
    write_samples(given) if given.samples else measure(given)
