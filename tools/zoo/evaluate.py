"""Measures the shipped programs on unseen voices, texts and noises, and writes every number to model.yaml."""
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
from models import LogMel, Vad, WakeWord, multiplications
from speech import ACTIVE_LEVEL, RATE
from streaming import (MODELS, STEP_S, Program, ShippedVad, ShippedWakeWord, WholeVad, WholeWakeWord, decide,
                       windows)

SEED = 90001
NOISY_DB = 10
NOISES = [*sounds.TEST_NOISES, "babble"]
BABBLE_TALKERS = 8
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LARGEST_DIFFERENCE = 1e-4
whole = False
EARLY_S, LATE_S = 0.3, 1.0      # an event this long before or after a phrase's end belongs to it
UNSEEN = ("Synthetic speech: 12 voice variants in 2 accents, sentence templates and a seventh of the words, none "
          "of them in training; noises are at a signal-to-noise ratio over the active speech, babble is 8 talkers.")
MEASURED_ON = {
    "vad": UNSEEN + (" A window of 512 samples is speech if half of it is active in the clean dry sound: within "
                     "30 dB of the utterance's loudest 10 ms, pauses under 100 ms counting as speech. Streams of "
                     "20 s with pauses of 0.2 to 2 s, peaks at -45 to -3 dBFS."),
    "wake_word": UNSEEN + (" Streams of 60 s; a phrase is found if its event comes from 0.3 s before to 1 s after "
                           "its end; delays count from that end. stop and go stand between pauses of at least 0.5 s. "
                           "other_speech has none of the words stop, go, afferent; embedded has them, or parts of "
                           "them, inside sentences; alike are short sound-alikes; short is one or two words."),
}


def vad_detector():
    return WholeVad() if whole else ShippedVad()


def wake_detector():
    return WholeWakeWord() if whole else ShippedWakeWord()


def noise(rng, kind, count):
    if kind == "babble":
        voices = [data.speak(rng, "sentence", True, False).sound for _ in range(12)]
        return sounds.babble(rng, count, voices, BABBLE_TALKERS)
    return sounds.TEST_NOISES[kind](rng, count)


def add_noise(rng, sound, kind, snr_db):
    if kind == "clean":
        return sound
    return sound + noise(rng, kind, len(sound)) * ACTIVE_LEVEL * 10 ** (-snr_db / 20)


def at_peak(rng, sound, level_db):
    """As 16-bit sound with the given peak level."""
    return data.quantised(rng, sound / (np.abs(sound).max() + 1e-9) * 10 ** (level_db / 20))


def drawn(rng, kinds, chances, in_room):
    def draw():
        while True:
            kind = rng.choice(kinds, p=chances)
            try:
                return kind, data.speak(rng, kind, unseen=True, in_room=in_room)
            except ValueError:
                continue
    return draw


# Voice activity

def f1(found, truth):
    hits = np.sum(found & truth)
    precision, recall = hits / max(1, found.sum()), hits / max(1, truth.sum())
    return {"f1": float(2 * precision * recall / max(1e-9, precision + recall)),
            "precision": float(precision), "recall": float(recall), "windows": len(truth)}


def measure_vad(condition, kind, snr_db, in_room, level_db, threshold, seconds, seed):
    """F1 of windows over streams of 20 s with pauses of 0.2 to 2 s."""
    rng, detect = np.random.default_rng(seed), vad_detector()
    size = int(20 * RATE) // Vad.WINDOW
    found, truth = [], []
    for _ in range(int(seconds / 20)):
        draw = drawn(rng, ["sentence", "short"], [0.8, 0.2], in_room)
        scene = data.lay(rng, size * Vad.WINDOW, draw, lambda: rng.uniform(0.2, 2))
        level = rng.uniform(-45, -3) if level_db is None else level_db
        x = at_peak(rng, add_noise(rng, scene.sound, kind, snr_db), level)
        found.append(detect(x) >= threshold)
        truth.append(data.vad_target(scene.active, size) > 0.5)
    return condition, f1(np.concatenate(found), np.concatenate(truth))


def measure_quiet(condition, kind, threshold, seconds, seed):
    """Share of windows taken for speech where nobody speaks."""
    rng, detect = np.random.default_rng(seed), vad_detector()
    wrong = count = 0
    for _ in range(int(seconds / 20)):
        size = 20 * RATE
        if kind == "silence":
            x = np.zeros(size, np.float32)
        else:
            x = {**sounds.TRAIN_NOISES, **sounds.TEST_NOISES}[kind](rng, size)
            x = at_peak(rng, x, rng.uniform(-45, -3))
        found = detect(x) >= threshold
        wrong, count = wrong + int(found.sum()), count + len(found)
    return condition, {"false_share": wrong / count, "windows": count}


def vad_tasks(share, threshold):
    seconds = max(40, 600 * share)
    rows = [("clean", "clean", 0, False, None)]
    rows += [(f"{k}_10db", k, NOISY_DB, False, None) for k in NOISES]
    rows += [("room_clean", "clean", 0, True, None), ("room_pink_10db", "pink", NOISY_DB, True, None)]
    rows += [(f"pink_10db_peak_{-level}dbfs", "pink", NOISY_DB, False, level) for level in (-45, -24, -3)]
    rows += [("pink_0db", "pink", 0, False, None)]
    tasks = [(measure_vad, *row, threshold, seconds, [SEED, 1, i]) for i, row in enumerate(rows)]
    quiet = ["silence", *sounds.TEST_NOISES, "clicks", "tones", "music"]
    return tasks + [(measure_quiet, f"no_speech_{k}", k, threshold, seconds / 2, [SEED, 2, i]) for i, k in enumerate(quiet)]


# Wake word

def at_level(rng, x):
    """As 16-bit sound at a random level."""
    return data.quantised(rng, x * 10 ** (rng.uniform(-18, 6) / 20))


def score_stream(rng, detect, scene, kind, snr_db):
    return detect(at_level(rng, add_noise(rng, scene.sound, kind, snr_db)))


def tally(streams, decision):
    """Recall and delays per phrase over streams of (scores, [(label, end in seconds)]), and other events."""
    phrases = WakeWord.LABELS[1:]
    late, items, other = {p: [] for p in phrases}, {p: 0 for p in phrases}, {p: 0 for p in phrases}
    for scores, truth in streams:
        events = decide(scores, decision)
        for label, end in truth:
            if end > len(scores) * STEP_S - LATE_S:
                continue
            items[label] += 1
            late[label] += [at - end for name, at in events if name == label and -EARLY_S <= at - end <= LATE_S][:1]
        for name, at in events:
            other[name] += not any(name == label and -EARLY_S <= at - end <= LATE_S for label, end in truth)
    row = {p: {"recall": len(late[p]) / items[p], "items": items[p],
               "delay_ms_median": float(np.median(late[p])) * 1000 if late[p] else None,
               "delay_ms_p95": float(np.percentile(late[p], 95)) * 1000 if late[p] else None}
           for p in phrases if items[p]}
    return row, other


def at_thresholds(streams, decision, describe):
    return {t: describe(*tally(streams, decision | {"threshold": t})) for t in THRESHOLDS}


def measure_recall(condition, kind, snr_db, in_room, items, decision, seed):
    """Recall per phrase, and when it was found, over streams of 60 s of phrases and sentences."""
    rng, detect = np.random.default_rng(seed), wake_detector()
    phrases = WakeWord.LABELS[1:]
    streams, heard = [], {p: 0 for p in phrases}
    while min(heard.values()) < items:
        draw = drawn(rng, phrases + ["sentence"], [0.27, 0.27, 0.27, 0.19], in_room)
        scene = data.lay(rng, 60 * RATE, draw, lambda: rng.uniform(0.5, 1.5))
        truth = [(label, end / RATE) for label, end in scene.events]
        streams.append((score_stream(rng, detect, scene, kind, snr_db), truth))
        for label, end in truth:
            heard[label] += end <= 60 - LATE_S
    row, other = tally(streams, decision)
    row["other_events"] = sum(other.values())
    row["recall_at_threshold"] = at_thresholds(streams, decision,
                                               lambda r, _: {p: r[p]["recall"] for p in phrases})
    return condition, row


def measure_false_alarms(condition, kinds, noisy, seconds, decision, seed):
    """Events per label in speech that holds no phrase, in streams of 60 s."""
    rng, detect = np.random.default_rng(seed), wake_detector()
    streams, spoken = [], []
    for i in range(int(seconds / 60)):
        one = drawn(rng, kinds, None, rng.random() < 0.5)

        def draw():
            kind, said = one()
            spoken.append(kind)
            return kind, said._replace(end=-1)
        scene = data.lay(rng, 60 * RATE, draw, lambda: rng.uniform(0.3, 1.2))
        kind = NOISES[i % len(NOISES)] if noisy else "clean"
        streams.append((score_stream(rng, detect, scene, kind, rng.choice([10, 20])), []))
    _, counts = tally(streams, decision)
    return condition, {"events": sum(counts.values()), "per_label": counts, "seconds": int(seconds),
                       "utterances": len(spoken),
                       "events_at_threshold": at_thresholds(streams, decision, lambda _, other: other)}


def wake_tasks(share, decision):
    items = max(20, round(500 * share))
    rows = [("clean", "clean", 0, False, items)]
    rows += [(f"{k}_10db", k, NOISY_DB, False, items // 4) for k in NOISES]
    rows += [("room_clean", "clean", 0, True, items // 4), ("room_pink_10db", "pink", NOISY_DB, True, items // 4)]
    tasks = [(measure_recall, *row, decision, [SEED, 3, i]) for i, row in enumerate(rows)]
    hour = max(120, round(30 * share) * 60)
    tasks += [(measure_false_alarms, f"other_speech_{n}_{part}", ["sentence"], n == "noisy", hour / 2, decision,
               [SEED, 4, n == "noisy", part]) for n in ("quiet", "noisy") for part in (1, 2)]
    part = max(60, round(10 * share) * 60)
    tasks += [(measure_false_alarms, f"{k}_{n}", [k], n == "noisy", part, decision, [SEED, 5, n == "noisy", i])
              for i, k in enumerate(("embedded", "alike", "short")) for n in ("quiet", "noisy")]
    return tasks


def rounded(value):
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def use(flag):
    global whole
    whole = flag
    torch.set_num_threads(1)


def run(tasks, jobs):
    start, rows = time.time(), {}
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=use, initargs=(whole,)) as workers:
        for future in concurrent.futures.as_completed([workers.submit(*t) for t in tasks]):
            condition, row = future.result()
            rows[condition] = rounded(row)
            print(f"{time.time() - start:5.0f} s  {condition}: {rows[condition]}", flush=True)
    return {t[1]: rows[t[1]] for t in tasks}


def pooled(rows, names, label):
    """Recall over several conditions together."""
    items = sum(rows[n][label]["items"] for n in names)
    return {"recall": round(sum(rows[n][label]["recall"] * rows[n][label]["items"] for n in names) / items, 4),
            "items": items}


def summary_of_vad(rows, threshold):
    noisy = [rows[f"{k}_10db"] for k in NOISES]
    return {"f1_clean": rows["clean"]["f1"],
            "f1_10db_mean": round(float(np.mean([r["f1"] for r in noisy])), 4),
            "f1_10db_worst": min(r["f1"] for r in noisy), "threshold": threshold}


def summary_of_wake_word(rows):
    names = [f"{k}_10db" for k in NOISES]
    hour = [rows[n] for n in rows if n.startswith("other_speech")]
    return {"recall_clean": {p: pooled(rows, ["clean"], p) for p in WakeWord.LABELS[1:]},
            "recall_10db": {p: pooled(rows, names, p) for p in WakeWord.LABELS[1:]},
            "false_alarms": sum(r["events"] for r in hour),
            "false_alarm_seconds": sum(r["seconds"] for r in hour)}


def noisy_speech(seconds=180):
    rng = np.random.default_rng([SEED, 6])
    draw = drawn(rng, ["sentence", "hey afferent", "stop", "go"], None, False)
    x = data.lay(rng, seconds * RATE, draw, lambda: rng.uniform(0.3, 1)).sound
    return data.quantised(rng, add_noise(rng, x, "pink", NOISY_DB))


def largest_difference(name, other=None):
    """Between the portable program and the XNNPACK one, or another detector, on three noisy minutes."""
    x = noisy_speech()
    if name == "log_mel":
        one, two = Program(name, "portable"), Program(name, "xnnpack")
        return max(float((one(w)[0] - two(w)[0]).abs().max()) for w in windows(x, LogMel.WINDOW, LogMel.CONTEXT))
    shipped = ShippedVad if name == "vad" else ShippedWakeWord
    found = shipped()(x), (other or shipped("xnnpack"))(x)
    count = min(len(f) for f in found)
    return float(np.abs(found[0][:count] - found[1][:count]).max())


def log_mel_error(seconds=20):
    """Largest difference of the shipped program from NumPy's rfft in double precision."""
    x = sounds.music(np.random.default_rng([SEED, 7]), seconds * RATE) * 0.1
    model, program, worst = LogMel(), Program("log_mel", "portable"), 0.0
    matrix = model.power.filters.double().numpy()
    taper = np.hanning(LogMel.LENGTH + 1)[:-1]
    for w in windows(x, LogMel.WINDOW, LogMel.CONTEXT):
        sound = w[0].double().numpy()
        parts = np.stack([sound[i * 160:i * 160 + LogMel.LENGTH] * taper for i in range(LogMel.STEPS)])
        power = np.abs(np.fft.rfft(parts, 512)) ** 2 @ matrix
        truth = (np.log(power + LogMel.FLOOR) + LogMel.OFFSET) * LogMel.SCALE
        worst = max(worst, float(np.abs(program(w)[0][0].numpy() - truth).max()))
    return worst


def measure(name, share, jobs, decision):
    quality = {"measured_with": f"tools/zoo/evaluate.py --share {share:g}" + " --whole" * whole,
               "multiply_adds_per_call": multiplications()[name],
               "xnnpack_portable_difference": float(f"{largest_difference(name):.2g}")}
    if name == "log_mel":
        return quality | {"numpy_difference": float(f"{log_mel_error():.2g}")}
    quality["program"] = f"{name}_portable.pte through executorch.runtime"
    if whole:
        difference = largest_difference(name, WholeVad() if name == "vad" else WholeWakeWord())
        if difference > LARGEST_DIFFERENCE:
            raise SystemExit(f"{name}: the shipped program is not of these weights ({difference:.2g})")
        quality["program"] = (f"the exported model run on whole sounds; on three noisy minutes it differs from "
                              f"{name}_portable.pte through executorch.runtime by at most {difference:.2g}")
    if name == "vad":
        rows = run(vad_tasks(share, decision["threshold"]), jobs)
        summary = summary_of_vad(rows, decision["threshold"])
    else:
        rows = run(wake_tasks(share, decision), jobs)
        summary = summary_of_wake_word(rows)
    return quality | {"measured_on": MEASURED_ON[name], "summary": summary, "conditions": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["log_mel", "vad", "wake_word"])
    parser.add_argument("--share", type=float, default=1.0, help="part of the sound to measure, to try things")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--whole", action="store_true",
                        help="run the trained weights of tools/zoo/work on whole sounds, after comparing them with "
                             "the shipped programs")
    arguments = parser.parse_args()
    whole = arguments.whole
    torch.set_num_threads(1)
    for name in arguments.names:
        path = os.path.join(MODELS, name, "model.yaml")
        with open(path) as file:
            content = yaml.safe_load(file)
        content["quality"] = measure(name, arguments.share, arguments.jobs, content.get("decision"))
        print(f"{name}: {content['quality'].get('summary', content['quality'])}", flush=True)
        write_card(os.path.join(MODELS, name), content)
