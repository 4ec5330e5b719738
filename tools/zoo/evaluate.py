"""Measures the shipped programs on held-out voices, texts and noises, and updates model.yaml."""
import argparse
import concurrent.futures
import os
import time

import numpy as np
import torch
import yaml

import data
import sounds
from cards import write_card
from listening import Listening
from models import LogMel, Vad, WakeWord, macs_per_call
from speech import ACTIVE_RMS, SAMPLE_RATE
from streaming import (MODELS, STEP_S, OfflineVad, OfflineWakeWord, Program, StreamingVad, StreamingWakeWord,
                       detect_events, windows)

SEED = 90001
NOISY_SNR_DB = 10
NOISES = [*sounds.TEST_NOISES, "babble"]
BABBLE_TALKERS = 8
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MAX_DIFFERENCE = 1e-4
is_offline = is_int8 = False
# A detection within this time before or after the end of a phrase belongs to the phrase.
EARLY_S, LATE_S = 0.3, 1.0
HELD_OUT = ("Synthetic speech: 12 voice variants in 2 accents, sentence templates and a seventh of the words, all held "
            "out from training. Noise is at a signal-to-noise ratio over the active speech; babble is 8 talkers.")
MEASURED_ON = {
    "vad": HELD_OUT + (" A window of 512 samples is speech if half of it is active in the clean dry sound: within "
                       "30 dB of the loudest 10 ms of the utterance, pauses under 100 ms counting as speech. Streams of "
                       "20 s with pauses of 0.2 to 2 s, peaks at -45 to -3 dBFS."),
    "wake_word": HELD_OUT + (" Streams of 60 s; a phrase is detected if its event comes from 0.3 s before to 1 s after "
                             "its end; delays count from that end. stop and go are between pauses of at least 0.5 s. "
                             "other_speech has none of the words stop, go, afferent; embedded has them, or parts of "
                             "them, inside sentences; confusable are short sound-alikes; short is one or two words."),
}


def create_vad():
    return OfflineVad() if is_offline else StreamingVad()


def create_wake_word():
    if is_int8:
        return Listening()
    return OfflineWakeWord() if is_offline else StreamingWakeWord()


def noise(rng, kind, count):
    if kind == "babble":
        voices = [data.draw_utterance(rng, "sentence", True, False).sound for _ in range(12)]
        return sounds.babble(rng, count, voices, BABBLE_TALKERS)
    return sounds.TEST_NOISES[kind](rng, count)


def add_noise(rng, sound, kind, snr_db):
    if kind == "clean":
        return sound
    return sound + noise(rng, kind, len(sound)) * ACTIVE_RMS * 10 ** (-snr_db / 20)


def at_peak(rng, sound, level_db):
    """Returns 16-bit sound with the given peak level."""
    return data.quantize_16bit(rng, sound / (np.abs(sound).max() + 1e-9) * 10 ** (level_db / 20))


def drawer(rng, kinds, probabilities, reverb):
    """Returns a function that draws test utterances, as `data.build_scene` takes it."""
    def draw():
        while True:
            kind = rng.choice(kinds, p=probabilities)
            try:
                return kind, data.draw_utterance(rng, kind, unseen=True, reverb=reverb)
            except ValueError:
                continue
    return draw


# VAD

def f1_score(predicted, truth):
    hits = np.sum(predicted & truth)
    precision, recall = hits / max(1, predicted.sum()), hits / max(1, truth.sum())
    return {"f1": float(2 * precision * recall / max(1e-9, precision + recall)),
            "precision": float(precision), "recall": float(recall), "windows": len(truth)}


def measure_vad(condition, kind, snr_db, reverb, level_db, threshold, seconds, seed):
    """Measures the F1 score of windows in streams of 20 s with pauses of 0.2 to 2 s."""
    rng, detect = np.random.default_rng(seed), create_vad()
    size = int(20 * SAMPLE_RATE) // Vad.WINDOW
    predicted, truth = [], []
    for _ in range(int(seconds / 20)):
        draw = drawer(rng, ["sentence", "short"], [0.8, 0.2], reverb)
        scene = data.build_scene(rng, size * Vad.WINDOW, draw, lambda: rng.uniform(0.2, 2))
        level = rng.uniform(-45, -3) if level_db is None else level_db
        x = at_peak(rng, add_noise(rng, scene.sound, kind, snr_db), level)
        predicted.append(detect(x) >= threshold)
        truth.append(data.vad_target(scene.active, size) > 0.5)
    return condition, f1_score(np.concatenate(predicted), np.concatenate(truth))


def measure_no_speech(condition, kind, threshold, seconds, seed):
    """Measures the share of windows detected as speech in sound without speech."""
    rng, detect = np.random.default_rng(seed), create_vad()
    false_count = count = 0
    for _ in range(int(seconds / 20)):
        size = 20 * SAMPLE_RATE
        if kind == "silence":
            x = np.zeros(size, np.float32)
        else:
            x = {**sounds.TRAIN_NOISES, **sounds.TEST_NOISES}[kind](rng, size)
            x = at_peak(rng, x, rng.uniform(-45, -3))
        predicted = detect(x) >= threshold
        false_count, count = false_count + int(predicted.sum()), count + len(predicted)
    return condition, {"false_share": false_count / count, "windows": count}


def vad_tasks(fraction, threshold):
    seconds = max(40, 600 * fraction)
    rows = [("clean", "clean", 0, False, None)]
    rows += [(f"{k}_10db", k, NOISY_SNR_DB, False, None) for k in NOISES]
    rows += [("room_clean", "clean", 0, True, None), ("room_pink_10db", "pink", NOISY_SNR_DB, True, None)]
    rows += [(f"pink_10db_peak_{-level}dbfs", "pink", NOISY_SNR_DB, False, level) for level in (-45, -24, -3)]
    rows += [("pink_0db", "pink", 0, False, None)]
    tasks = [(measure_vad, *row, threshold, seconds, [SEED, 1, i]) for i, row in enumerate(rows)]
    kinds = ["silence", *sounds.TEST_NOISES, "clicks", "tones", "music"]
    return tasks + [(measure_no_speech, f"no_speech_{k}", k, threshold, seconds / 2, [SEED, 2, i])
                    for i, k in enumerate(kinds)]


# Wake word

def random_level(rng, x):
    """Returns 16-bit sound at a random level."""
    return data.quantize_16bit(rng, x * 10 ** (rng.uniform(-18, 6) / 20))


def score_stream(rng, detect, scene, kind, snr_db):
    return detect(random_level(rng, add_noise(rng, scene.sound, kind, snr_db)))


def match_events(streams, decision):
    """Matches detections with the phrases of streams of (scores, [(label, end in seconds)]).

    Returns recall and delays by phrase, and the number of other detections by phrase.
    """
    phrases = WakeWord.LABELS[1:]
    delays, items, other = {p: [] for p in phrases}, {p: 0 for p in phrases}, {p: 0 for p in phrases}
    for scores, truth in streams:
        events = detect_events(scores, decision)
        for label, end in truth:
            if end > len(scores) * STEP_S - LATE_S:
                continue
            items[label] += 1
            delays[label] += [at - end for name, at in events if name == label and -EARLY_S <= at - end <= LATE_S][:1]
        for name, at in events:
            other[name] += not any(name == label and -EARLY_S <= at - end <= LATE_S for label, end in truth)
    row = {p: {"recall": len(delays[p]) / items[p], "items": items[p],
               "delay_ms_median": float(np.median(delays[p])) * 1000 if delays[p] else None,
               "delay_ms_p95": float(np.percentile(delays[p], 95)) * 1000 if delays[p] else None}
           for p in phrases if items[p]}
    return row, other


def at_thresholds(streams, decision, describe):
    return {t: describe(*match_events(streams, decision | {"threshold": t})) for t in THRESHOLDS}


def measure_recall(condition, kind, snr_db, reverb, items, decision, seed):
    """Measures recall and delay by phrase in streams of 60 s of phrases and sentences."""
    rng, detect = np.random.default_rng(seed), create_wake_word()
    phrases = WakeWord.LABELS[1:]
    streams, counts = [], {p: 0 for p in phrases}
    while min(counts.values()) < items:
        draw = drawer(rng, phrases + ["sentence"], [0.27, 0.27, 0.27, 0.19], reverb)
        scene = data.build_scene(rng, 60 * SAMPLE_RATE, draw, lambda: rng.uniform(0.5, 1.5))
        truth = [(label, end / SAMPLE_RATE) for label, end in scene.events]
        streams.append((score_stream(rng, detect, scene, kind, snr_db), truth))
        for label, end in truth:
            counts[label] += end <= 60 - LATE_S
    row, other = match_events(streams, decision)
    row["other_events"] = sum(other.values())
    row["recall_at_threshold"] = at_thresholds(streams, decision,
                                               lambda r, _: {p: r[p]["recall"] for p in phrases})
    return condition, row


def measure_false_alarms(condition, kinds, noisy, seconds, decision, seed):
    """Counts detections by label in streams of 60 s of speech without wake phrases."""
    rng, detect = np.random.default_rng(seed), create_wake_word()
    streams, utterances = [], []
    for i in range(int(seconds / 60)):
        draw_one = drawer(rng, kinds, None, rng.random() < 0.5)

        def draw():
            kind, clip = draw_one()
            utterances.append(kind)
            return kind, clip._replace(phrase_end=-1)
        scene = data.build_scene(rng, 60 * SAMPLE_RATE, draw, lambda: rng.uniform(0.3, 1.2))
        kind = NOISES[i % len(NOISES)] if noisy else "clean"
        streams.append((score_stream(rng, detect, scene, kind, rng.choice([10, 20])), []))
    _, counts = match_events(streams, decision)
    return condition, {"events": sum(counts.values()), "per_label": counts, "seconds": int(seconds),
                       "utterances": len(utterances),
                       "events_at_threshold": at_thresholds(streams, decision, lambda _, other: other)}


def wake_tasks(fraction, decision):
    items = max(20, round(500 * fraction))
    rows = [("clean", "clean", 0, False, items)]
    rows += [(f"{k}_10db", k, NOISY_SNR_DB, False, items // 4) for k in NOISES]
    rows += [("room_clean", "clean", 0, True, items // 4), ("room_pink_10db", "pink", NOISY_SNR_DB, True, items // 4)]
    tasks = [(measure_recall, *row, decision, [SEED, 3, i]) for i, row in enumerate(rows)]
    hour = max(120, round(30 * fraction) * 60)
    tasks += [(measure_false_alarms, f"other_speech_{n}_{part}", ["sentence"], n == "noisy", hour / 2, decision,
               [SEED, 4, n == "noisy", part]) for n in ("quiet", "noisy") for part in (1, 2)]
    seconds = max(60, round(10 * fraction) * 60)
    tasks += [(measure_false_alarms, f"{k}_{n}", [k], n == "noisy", seconds, decision, [SEED, 5, n == "noisy", i])
              for i, k in enumerate(("embedded", "confusable", "short")) for n in ("quiet", "noisy")]
    return tasks


def rounded(value):
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def init_worker(offline, int8):
    global is_offline, is_int8
    is_offline, is_int8 = offline, int8
    torch.set_num_threads(1)


def run_tasks(tasks, jobs):
    start, rows = time.time(), {}
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=init_worker, initargs=(is_offline, is_int8)) as workers:
        for future in concurrent.futures.as_completed([workers.submit(*t) for t in tasks]):
            condition, row = future.result()
            rows[condition] = rounded(row)
            print(f"{time.time() - start:5.0f} s  {condition}: {rows[condition]}", flush=True)
    return {t[1]: rows[t[1]] for t in tasks}


def pooled_recall(rows, names, label):
    """Returns the recall over several conditions."""
    items = sum(rows[n][label]["items"] for n in names)
    return {"recall": round(sum(rows[n][label]["recall"] * rows[n][label]["items"] for n in names) / items, 4),
            "items": items}


def vad_summary(rows, threshold):
    noisy = [rows[f"{k}_10db"] for k in NOISES]
    return {"f1_clean": rows["clean"]["f1"],
            "f1_10db_mean": round(float(np.mean([r["f1"] for r in noisy])), 4),
            "f1_10db_worst": min(r["f1"] for r in noisy), "threshold": threshold}


def wake_summary(rows):
    names = [f"{k}_10db" for k in NOISES]
    hour = [rows[n] for n in rows if n.startswith("other_speech")]
    return {"recall_clean": {p: pooled_recall(rows, ["clean"], p) for p in WakeWord.LABELS[1:]},
            "recall_10db": {p: pooled_recall(rows, names, p) for p in WakeWord.LABELS[1:]},
            "false_alarms": sum(r["events"] for r in hour),
            "false_alarm_seconds": sum(r["seconds"] for r in hour)}


def noisy_speech(seconds=180):
    rng = np.random.default_rng([SEED, 6])
    draw = drawer(rng, ["sentence", "hey afferent", "stop", "go"], None, False)
    x = data.build_scene(rng, seconds * SAMPLE_RATE, draw, lambda: rng.uniform(0.3, 1)).sound
    return data.quantize_16bit(rng, add_noise(rng, x, "pink", NOISY_SNR_DB))


def largest_difference(name, other=None):
    """Compares the portable program with the XNNPACK one, or with `other`, on three minutes of
    noisy speech.
    """
    x = noisy_speech()
    if name == "log_mel":
        portable, xnnpack = Program(name, "portable"), Program(name, "xnnpack")
        return max(float((portable(w)[0] - xnnpack(w)[0]).abs().max())
                   for w in windows(x, LogMel.WINDOW, LogMel.CONTEXT))
    streaming = StreamingVad if name == "vad" else StreamingWakeWord
    outputs = streaming()(x), (other or streaming("xnnpack"))(x)
    count = min(len(output) for output in outputs)
    return float(np.abs(outputs[0][:count] - outputs[1][:count]).max())


def log_mel_error(seconds=20):
    """Returns the largest difference of the shipped program from NumPy's rfft in double precision.
    """
    x = sounds.music(np.random.default_rng([SEED, 7]), seconds * SAMPLE_RATE) * 0.1
    model, program, worst = LogMel(), Program("log_mel", "portable"), 0.0
    matrix = model.power.filters.double().numpy()
    taper = np.hanning(LogMel.ANALYSIS_WINDOW + 1)[:-1]
    for w in windows(x, LogMel.WINDOW, LogMel.CONTEXT):
        sound = w[0].double().numpy()
        parts = np.stack([sound[i * LogMel.HOP:i * LogMel.HOP + LogMel.ANALYSIS_WINDOW] * taper
                          for i in range(LogMel.STEPS)])
        power = np.abs(np.fft.rfft(parts, 512)) ** 2 @ matrix
        truth = (np.log(power + LogMel.FLOOR) + LogMel.OFFSET) * LogMel.SCALE
        worst = max(worst, float(np.abs(program(w)[0][0].numpy() - truth).max()))
    return worst


def compare(summary):
    """Prints the recall of the package in 8 bits beside that of wake_word, from its card."""
    with open(os.path.join(MODELS, "wake_word", "model.yaml")) as file:
        f32 = yaml.safe_load(file)["quality"]["summary"]
    print(f"{'':24}{'f32':>8}{'int8':>8}")
    for row in ("recall_clean", "recall_10db"):
        for phrase, found in summary[row].items():
            print(f"{row + ' ' + phrase:<24}{f32[row][phrase]['recall']:8.4f}{found['recall']:8.4f}")
    print(f"{'false alarms':24}{f32['false_alarms']:8}{summary['false_alarms']:8}", flush=True)


def measure_int8(fraction, jobs, decision):
    rows = run_tasks(wake_tasks(fraction, decision), jobs)
    summary = wake_summary(rows)
    compare(summary)
    return {"measured_with": f"tools/zoo/evaluate.py --fraction {fraction:g}",
            "program": "wake_word_int8.pte with the code of the firmware on a host (mcu/wake)",
            "measured_on": MEASURED_ON["wake_word"], "summary": summary, "conditions": rows}


def measure(name, fraction, jobs, decision):
    if name == "wake_word_int8":
        return measure_int8(fraction, jobs, decision)
    quality = {"measured_with": f"tools/zoo/evaluate.py --fraction {fraction:g}" + " --offline" * is_offline,
               "multiply_adds_per_call": macs_per_call()[name],
               "xnnpack_portable_difference": float(f"{largest_difference(name):.2g}")}
    if name == "log_mel":
        return quality | {"numpy_difference": float(f"{log_mel_error():.2g}")}
    quality["program"] = f"{name}_portable.pte on executorch.runtime"
    if is_offline:
        difference = largest_difference(name, OfflineVad() if name == "vad" else OfflineWakeWord())
        if difference > MAX_DIFFERENCE:
            raise SystemExit(f"{name}: the shipped program differs from the trained weights by {difference:.2g}, "
                             f"more than {MAX_DIFFERENCE}")
        quality["program"] = (f"the trained weights on whole sounds; on three minutes of noisy speech they differ from "
                              f"{name}_portable.pte on executorch.runtime by at most {difference:.2g}")
    if name == "vad":
        rows = run_tasks(vad_tasks(fraction, decision["threshold"]), jobs)
        summary = vad_summary(rows, decision["threshold"])
    else:
        rows = run_tasks(wake_tasks(fraction, decision), jobs)
        summary = wake_summary(rows)
    return quality | {"measured_on": MEASURED_ON[name], "summary": summary, "conditions": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["log_mel", "vad", "wake_word"])
    parser.add_argument("--fraction", type=float, default=1.0, help="fraction of the test set, for quick tests")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--offline", action="store_true",
                        help="run the trained weights of tools/zoo/work on whole sounds, after comparing them with "
                             "the shipped programs")
    arguments = parser.parse_args()
    is_offline = arguments.offline
    torch.set_num_threads(1)
    for name in arguments.names:
        is_int8 = name == "wake_word_int8"
        path = os.path.join(MODELS, name, "model.yaml")
        with open(path) as file:
            content = yaml.safe_load(file)
        content["quality"] = measure(name, arguments.fraction, arguments.jobs, content.get("decision"))
        print(f"{name}: {content['quality'].get('summary', content['quality'])}", flush=True)
        write_card(os.path.join(MODELS, name), content)
