"""Measures the shipped voice and writes the figures into its model.yaml."""
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
import networks
import package
import phones
import sentences
import speaking
import spelling
from cards import write_card
from corpus import RATE, WORK

DB = 20 / np.log(10)
ROOT = os.path.join(sentences.HERE, "../../..")
READ_BACK = 500
SILENCE_BEFORE, SILENCE_AFTER = RATE * 3 // 10, RATE * 8 // 10
SAMPLES = [
    "Hello, I am your assistant. What can I do for you?",
    "It is 7:30 pm, and the timer for the pasta has 12 minutes left.",
    "Today in Seattle it will be cloudy, with a high of 64 degrees.",
    "I turned on the lights in the kitchen and set them to 40%.",
    "Sorry, I don't know where your keys are.",
    "Did you mean the lamp in the office, or the one in the bedroom?",
    "Your appointment with Doctor Miller is on Tuesday the 3rd of March at 9:15.",
    "The quick brown fox jumps over the lazy dog!",
    "125 plus 275 is 400.",
    "Good night, Sophie. Sleep well, and see you tomorrow.",
]


def write_wav(path, sound):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(sound, -1, 1) * 32767).round().astype("<i2").tobytes())


def read_wav(path):
    with wave.open(path) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32767


def likeness(speaker, items):
    """Distances from the teacher with the teacher's durations, and of the durations, over the speech of test clauses."""
    distances, lengths, pitches, heard, voicing = [], [], [], [], []
    for item in items:
        inner = np.arange(1, len(item.tokens) - 1)
        hidden, seconds = speaker.encode(item.tokens, item.features)
        lengths.append(np.abs(seconds - item.seconds)[inner])
        spectrum = speaker.decode(hidden, item.seconds)
        pitch = speaking.pitch_of_spectrum(spectrum)
        sound = torch.from_numpy(speaker.sound(spectrum, pitch))
        teacher = torch.from_numpy(item.sound.astype(np.float32) / 32767)
        token, _ = networks.placed(item.seconds)
        speech = (token > 0) & (token < len(item.tokens) - 1)
        apart = (corpus.mel_of(sound) - corpus.mel_of(teacher)).numpy()[speech] * DB
        distances.append(np.sqrt((apart ** 2).mean(1)))
        both = (pitch > 0) & (item.pitch > 0)
        pitches.append(np.abs(pitch - item.pitch)[both])
        again = corpus.pitch_of(sound).numpy()
        heard.append(np.abs(again - item.pitch)[(again > 0) & (item.pitch > 0)])
        voicing.append(((pitch > 0) != (item.pitch > 0))[speech])
    mean = {name: float(np.concatenate(values).mean()) for name, values in
            (("distance", distances), ("length", lengths), ("pitch", pitches), ("heard", heard), ("voicing", voicing))}
    return {"clauses": len(items), "spectral_distance_db": round(mean["distance"], 2), "duration_error_ms": round(mean["length"] * 1000, 2),
            "pitch_error_hz": round(mean["pitch"], 2), "pitch_error_of_sound_hz": round(mean["heard"], 2),
            "voicing_errors": round(mean["voicing"], 4)}


def words(speaker):
    """How the speller reads words kept from its training, and forms of the dictionary's words."""
    lexicon, _ = corpus.load("lexicon")
    kept = sorted(word for word in spelling.kept_words() if word in lexicon and word not in phones.WEAK and len(word) > 1)
    edits = total = right = 0
    for word in kept:
        found, true = speaker.spell(word), lexicon[word]
        edits, total, right = edits + distance(found, true), total + len(true), right + (found == true)
    return {"words": len(kept), "right": round(right / len(kept), 4), "phone_errors": round(edits / total, 4)}


def distance(found, true):
    """Least number of edits between two lists."""
    row = list(range(len(true) + 1))
    for i, a in enumerate(found, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(true, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def agreement(items):
    """Largest difference of the sound of the two variants on the official runtime."""
    one, two = speaking.Speaker("xnnpack"), speaking.Speaker("portable")
    return float(max(np.abs(one.say(item.clause) - two.say(item.clause)).max() for item in items))


def bench(arguments, *more):
    return json.loads(subprocess.run([arguments.bench, *more, "--json"], check=True, capture_output=True, text=True).stdout)


def speak_all(arguments, name, texts, *more):
    """Sounds of texts by the node's own module on our runtime, and its table of times."""
    folder = os.path.join(WORK, name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "list.txt")
    with open(path, "w") as file:
        file.write("\n".join(texts) + "\n")
    table = bench(arguments, "tts", "--model", package.PACKAGE, path, "--output", folder, *more)[0]["rows"][0]
    return [os.path.join(folder, f"{i + 1:04}.wav") for i in range(len(texts))], table


def times(arguments, items):
    """Cost on our runtime, and how far its sound is from that of the official one."""
    texts = [item.clause.text() for item in items]
    paths, table = speak_all(arguments, "said", texts)
    speaker = speaking.Speaker("xnnpack")
    apart = []
    # The product reads "pm" as two words, letter by letter, these clauses as one.
    same = [(path, item) for path, item in zip(paths, items) if "pm" not in item.clause.words]
    for path, item in same[:100]:
        ours, theirs = read_wav(path), speaker.say(item.clause)
        apart.append(float(np.abs(ours[:len(theirs)] - theirs).max()))
    return {"sentences": int(table["sentences"]), "sound_s": table["sound s"], "real_time": table["real time"],
            "first_chunk_ms_median": table["first chunk ms, median"], "first_chunk_ms_95": table["95 %"],
            "first_chunk_ms_longest": table["longest"]}, {"clauses": len(apart), "largest_difference_of_sound": max(apart)}


def assistant_sentences(count):
    """Sentences of the recogniser's test that its vocabulary has whole, each once."""
    sys.path.append(os.path.join(sentences.HERE, "../asr"))
    import grammar
    rng, found = np.random.default_rng(90001), {}
    while len(found) < count:
        found[grammar.sentence(rng, "test", False)] = None
    return list(found)


def read_back(arguments):
    """Word error rates of the recogniser on the teacher, who reads text, and on the voice, with its decoder and without."""
    texts = assistant_sentences(READ_BACK)
    ours, _ = speak_all(arguments, "read", texts)
    folder = os.path.dirname(ours[0])
    engine, lines = phones.espeak(), []
    for i, text in enumerate(texts):
        teacher = resample_poly(engine.say(text + ".")[0], 320, 441).astype(np.float32) * corpus.GAIN
        for name, sound in (("teacher", teacher), ("voice", read_wav(ours[i]))):
            file = f"{name}-{i + 1:04}.wav"
            loud = np.flatnonzero(np.abs(sound) > 0.003)
            sound = sound[loud[0]:loud[-1] + 1]
            write_wav(os.path.join(folder, file), np.pad(sound, (SILENCE_BEFORE, SILENCE_AFTER)))
            lines.append(f"{name}\t{file}\t{SILENCE_BEFORE + len(sound)}\t{text}")
    path = os.path.join(folder, "heard.tsv")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    found = {"sentences": len(texts)}
    for name, more in (("with_decoder", []), ("greedy", ["--set", "lexicon=false"])):
        command = [arguments.recogniser or arguments.bench, "asr", path, "--json", *more]
        command += ["--model", arguments.recogniser_package]
        rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]["rows"]
        found[name] = {row["set"]: row["WER %"] for row in rows}
    return found


def samples(arguments):
    """Ten sentences as WAV files."""
    paths, _ = speak_all(arguments, "samples", SAMPLES)
    print("\n".join(f"{os.path.normpath(path)}: {text}" for path, text in zip(paths, SAMPLES)))


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
    speaker = speaking.Speaker("xnnpack")
    start = time.time()
    quality = {"measured_with": "tools/zoo/tts/evaluate.py",
               "measured_on": "Clauses of sentence templates and random word strings that training never saw, said by the teacher, espeak-ng's "
                              "American voice. The spectral distance is the root mean square over 80 mel bands of 10 ms, in dB, its mean over "
                              "speech, with the teacher's durations; pitch where both have one."}
    quality["likeness"] = likeness(speaker, items)
    print(quality["likeness"], f"{time.time() - start:.0f} s", flush=True)
    quality["spelling_of_unknown_words"] = words(speaker)
    quality["xnnpack_portable_difference"] = agreement(items[:20])
    print(quality["spelling_of_unknown_words"], quality["xnnpack_portable_difference"], flush=True)
    if arguments.bench:
        quality["on_our_runtime"], quality["official_runtime"] = times(arguments, items)
        print(quality["on_our_runtime"], quality["official_runtime"], flush=True)
    return quality


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=600, help="test clauses")
    parser.add_argument("--seed", type=int, default=1, help="of the clauses, where they are not made yet")
    parser.add_argument("--bench", default=os.path.join(ROOT, "target/release/afferent-bench"), help="afferent-bench; empty to leave our runtime out")
    parser.add_argument("--read-back", action="store_true", help="let the recogniser read the voice and the teacher")
    parser.add_argument("--only-read-back", action="store_true", help="keep the other figures")
    parser.add_argument("--recogniser", help="another afferent-bench for the recogniser")
    parser.add_argument("--recogniser-package", default=os.path.join(ROOT, "pipelines", "models", "asr"), help="of the recogniser")
    parser.add_argument("--samples", action="store_true", help="only write ten samples")
    torch.set_num_threads(1)
    given = parser.parse_args()
    samples(given) if given.samples else measure(given)
