"""Asks the scene memory spoken questions: phrasings and voices that it was not made with.

    python tools/zoo/vision/ask_memory.py --afferent PROGRAM

Runs pipelines/scene_memory.yaml on its walk, once for each question. The phrasings are of the test split of the
questions of the language model (tools/zoo/llm/phrases/tools.txt), the voices those that no model was
trained with. An answer is right if it is about the object, and its direction is within 30 degrees of that of the
nearest such object, from the pose of the camera at the time of the answer: the camera may turn by 90 degrees in
half a second.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import paths

sys.path += [os.path.join(paths.ZOO, "asr"), os.path.join(paths.ZOO, "llm")]
QUESTIONS, SEED = 20, 7700
RIGHT_DEG = 30
# Time of the question, after all rooms were seen.
FIRST_S, LAST_S = 54, 57
LEAD_S, TAIL_S = 0.5, 2.0


def phrasings(split, kinds):
    """Returns the phrasings of a split, with the slot {thing}."""
    import phrases
    from phrasing import alternatives
    found = []
    for line in phrases.sections("tools.txt")["where"]:
        kind, _, template = line.partition(" ")
        if kind in kinds and phrases.split_of_core("where", line) == split:
            for text in alternatives(template):
                text = text.replace("{are}", "is").replace("{have}", "has")
                if "{thing}" in text and text.count("{") == 1:
                    found.append(text)
    return found


def draw_questions(objects, rng):
    texts = phrasings("test", ("q", "vp"))
    labels = sorted({thing["label"] for thing in objects})
    for text in rng.permutation(texts)[:QUESTIONS]:
        label = labels[rng.integers(len(labels))]
        yield text.replace("{thing}", label), label


def pose_at(trajectory, time):
    """Position and axis of view at a time."""
    row = trajectory[min(np.searchsorted(trajectory[:, 0], time), len(trajectory) - 1)]
    x, y, z, w = row[4:]
    ahead = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
    return row[1:4], ahead


def bearings(objects, label, trajectory, time):
    """Bearings of the objects of a class, positive to the right, the nearest first."""
    position, ahead = pose_at(trajectory, time)
    found = []
    for thing in objects:
        if thing["label"] == label:
            to = np.array(thing["middle_m"]) - position
            angle = np.arctan2(ahead[1], ahead[0]) - np.arctan2(to[1], to[0])
            found.append((np.hypot(*to[:2]), np.degrees((angle + np.pi) % (2 * np.pi) - np.pi)))
    return [bearing for _, bearing in sorted(found)]


def write_question(path, text, rng):
    """Writes a question. Returns its length in seconds."""
    import eval_sets
    import speech
    voice = speech.random_voice(rng, True)
    sound = speech.synthesize(rng, text, voice, False).sound
    silence = [np.zeros(int(seconds * speech.SAMPLE_RATE), np.float32) for seconds in (LEAD_S, TAIL_S)]
    sound = np.concatenate([silence[0], sound, silence[1]])
    eval_sets.write_wav(path, (sound.clip(-1, 1) * 16384).round().astype("<i2"))
    return voice, len(sound) / speech.SAMPLE_RATE - TAIL_S


def ask(program, sound, start, work):
    """Runs the graph with a question. Returns the events of its log."""
    log = os.path.join(work, "log.jsonl")
    settings = [f"sound.path={sound}", f"sound.start={start}s", f"memory.path={os.path.join(work, 'scene.memory')}",
                f"speaker.path={os.path.join(work, 'answer.wav')}", f"log.path={log}", "log.format=json"]
    command = [program, "run", os.path.join(paths.ROOT, "pipelines", "scene_memory.yaml"), "--virtual", "--quiet"]
    subprocess.run([*command, *(word for setting in settings for word in ("--set", setting))], check=True,
                   stdout=subprocess.DEVNULL)
    os.remove(os.path.join(work, "scene.memory"))
    with open(log) as file:
        return [json.loads(line) for line in file]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--afferent", required=True, metavar="PROGRAM")
    options = parser.parse_args()
    import corpus
    corpus.start_engine(randomized=False)
    rng = np.random.default_rng(SEED)
    with open(os.path.join(paths.ASSETS, "walk.json")) as file:
        objects = json.load(file)["objects"]
    trajectory = np.loadtxt(os.path.join(paths.ASSETS, "walk.txt"))
    right = 0
    for text, label in draw_questions(objects, rng):
        with tempfile.TemporaryDirectory() as work:
            sound, start = os.path.join(work, "question.wav"), int(rng.integers(FIRST_S, LAST_S))
            voice, length = write_question(sound, text, rng)
            events = ask(options.afferent, sound, start, work)
        heard = [event["text"] for event in events if event["node"] == "turns"]
        results = [event for event in events if event["node"] == "memory"]
        result = json.loads(results[0]["json"]) if results else {}
        time = results[0]["t_s"] if results else start + length
        expected = bearings(objects, label, trajectory, time)
        off = abs((result.get("bearing_deg", 999) - expected[0] + 180) % 360 - 180)
        is_right = result.get("thing") == label and off <= RIGHT_DEG
        right += is_right
        print(f"{'right' if is_right else 'WRONG'}  {text!r} ({voice}), heard {heard}: {result.get('phrase')} "
              f"[expected {expected[0]:.0f}°]", flush=True)
    print(f"{right} of {QUESTIONS} right (object and direction)")


if __name__ == "__main__":
    main()
