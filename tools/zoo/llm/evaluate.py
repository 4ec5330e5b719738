"""Measures the shipped programs on our runtime, compares them with the official one, and fills model.yaml."""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

import numpy as np
import yaml

import export
import tokens
from dialogues import MEMORIES, Speaker, sentence
from items import items

from cards import write_card

SEED, LONGEST, KEPT_OVER = 90001, 80, 3
BINARY = export.ROOT / "target" / "release" / "afferent"
TOOLS = {tool["name"]: tool["arguments"] for tool in export.CHAT["tools"]}
# What a timer takes of each unit.
LENGTHS = {unit: range(low, high + 1) for unit, text in TOOLS["set_timer"].items()
           for low, high in [map(int, text.split(" to "))]}
COMPARED = 25
MEASURED_ON = (
    "Generated dialogues, likeliest tokens; an item is right if the whole answer or call is as expected, text for text. "
    "known_phrasings: phrasings of training around names, things, places, rooms and numbers from twenty on that training "
    "never has. new_phrasings: templates that training never has, half of them in frames it never has. calls: an answer "
    "that calls a tool is valid if it is JSON with a tool's name and that tool's arguments in their ranges; right if it is "
    "the one expected. results_said: what a tool gave, said. kept: a fact is told and asked for after three to six turns "
    "of something else, of which the model makes all answers itself, and the tool finds no told thing; understood: the "
    "telling was answered as expected.")


class Answerer:
    """A program on our runtime, asked for one prompt after the other."""

    def __init__(self, binary, file):
        self.tokenizer = tokens.load(export.PACKAGE / "tokenizer.json")
        words = [binary, "model", "generate", export.PACKAGE / file, "--tokenizer", export.PACKAGE / "tokenizer.json",
                 "--prompts", "--max-new", str(LONGEST)]
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.prefill, self.decode = [], []

    def ask(self, prompt):
        """The answer with its special tokens, without the one that ends it."""
        self.process.stdin.write(json.dumps(prompt) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} ended with status {self.process.wait()}")
        found = json.loads(line)
        self.prefill.append(found["prefill_tokens_per_s"])
        if found["decode_tokens_per_s"]:
            self.decode.append(found["decode_tokens_per_s"])
        text = self.tokenizer.decode(found["tokens"], skip_special_tokens=False)
        return text.removesuffix(tokens.END)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def is_valid(text):
    """Whether a call is JSON with the name of a tool and arguments that the tool takes."""
    try:
        made = json.loads(text.removeprefix(tokens.CALL))
        name, arguments = made["name"], made["arguments"]
    except (ValueError, KeyError, TypeError):
        return False
    if set(made) != {"name", "arguments"} or name not in TOOLS or not set(arguments) <= set(TOOLS[name]):
        return False
    if name == "set_timer":
        return bool(arguments) and all(isinstance(value, int) and value in LENGTHS[unit] for unit, value in arguments.items())
    if name == "set_light":
        return set(arguments) == {"room", "state"} and arguments["state"] in ("on", "off") and bool(arguments["room"])
    return set(arguments) == set(TOOLS[name]) and all(arguments.values())


def share(right, count):
    return {"share": round(right / count, 4), "items": count}


def measure_items(answerer, kind, count, wrong):
    """Answers to items of a kind; and of the tool calls among them."""
    asked = items(kind, count, SEED)
    said = [answerer.ask(item.prompt) for item in asked]
    right = [text == item.expected for item, text in zip(asked, said)]
    calls = [text for text in said if text.startswith(tokens.CALL)]
    wanted = [ok for item, ok in zip(asked, right) if item.expected.startswith(tokens.CALL)]
    wrong += [(kind, item.intent, item.user, text, item.expected) for item, text, ok in zip(asked, said, right) if not ok]
    return share(sum(right), count), calls, wanted


def result_of(call, rng, place):
    """What a tool gives back; that of places gives `place`."""
    if '"get_time"' in call:
        return json.dumps({"time": f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}", "day": "sunday"})
    return json.dumps({"place": place} if '"where_is"' in call else {"ok": True})


def talk(answerer, rng, asked, user, place="on the table"):
    """What the model says to `user` after the dialogue `asked`, and the dialogue with it."""
    asked += f"{tokens.USER} {user}{tokens.END}{tokens.ASSISTANT}"
    said = answerer.ask(asked)
    if said.startswith(tokens.CALL):
        asked += f"{said}{tokens.END}{tokens.RESULT}{result_of(said, rng, place)}{tokens.END}{tokens.ASSISTANT}"
        said = answerer.ask(asked)
    return said, f"{asked}{said}{tokens.END}"


def measure_memory(answerer, part, count, wrong):
    """How often a fact is still known after three to six turns of something else, and how often of those facts whose
    telling was answered as expected."""
    rng, right, told, kept = random.Random(f"memory {part} {SEED}"), 0, 0, 0
    for _ in range(count):
        speaker = Speaker(rng, part, unseen=True)
        kind = rng.choices(list(MEMORIES), MEMORIES.values())[0]
        key = speaker.new_key(kind)
        turns = tellable(speaker, kind, key)
        length = len(turns) + rng.randint(KEPT_OVER, 6)
        speaker.phraser.part = "train"
        while len(turns) < length:
            turns += aside(speaker, kind, key)
        speaker.phraser.part = part if speaker.can(f"ask_{kind}" if kind != "place" else "where") else "train"
        expected, question = f" {sentence(kind, key, speaker.known[kind, key])}", speaker.ask(kind, key)[0]
        asked = tokens.BEGIN + f"{tokens.SYSTEM} {export.INSTRUCTIONS}{tokens.END}"
        answers = []
        for turn in turns:
            said, asked = talk(answerer, rng, asked, turn.user)
            answers.append(said)
        # The tool has not seen the thing: what was told is what is known.
        said, _ = talk(answerer, rng, asked, question.user, place=None)
        understood = answers[0] == f" {turns[0].answer}"
        right += said == expected
        told += understood
        kept += understood and said == expected
        if said != expected:
            wrong.append((f"kept {part}", kind, f"{turns[0].user} ... {question.user}", said, expected))
    return share(right, count) | {"understood": round(told / count, 4), "share_of_understood": round(kept / max(told, 1), 4)}


def aside(speaker, kind, key):
    """Turns that say nothing of a fact."""
    intents = {f"tell_{kind}", f"ask_{kind}", *(("where",) if kind == "place" else ())}
    while True:
        known, turns = dict(speaker.known), speaker.any_turns()
        if not any(turn.intent in intents and key in turn.answer for turn in turns):
            return turns
        speaker.known = known


def tellable(speaker, kind, key):
    """The turn that tells a fact, with a phrasing of the speaker's part where there is one."""
    if not speaker.can(f"tell_{kind}"):
        speaker.phraser.part = "train"
    return speaker.tell(kind, key)


def compare(binary, file):
    """Largest difference of logits between our runtime and the official one, and whether they choose the same tokens."""
    import torch
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (registers the operators)
    from executorch.extension.pybindings import portable_lib
    from executorch.kernels import quantized  # noqa: F401  (registers the embeddings)
    module = portable_lib._load_for_executorch(str(export.PACKAGE / file))
    tokenizer, worst, largest, same = tokens.load(export.PACKAGE / "tokenizer.json"), 0.0, 0.0, 0
    for item in items("test", COMPARED, SEED + 1):
        ids = np.array([tokenizer.encode(item.prompt, add_special_tokens=False).ids])
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            np.save(folder / "tokens.npy", ids)
            np.save(folder / "at.npy", np.zeros(1, np.int64))
            subprocess.run([binary, "model", "run", export.PACKAGE / file, "--input", folder / "tokens.npy", "--input",
                            folder / "at.npy", "--output-dir", folder, "--repeat", "1", "--warmup", "0"],
                           check=True, capture_output=True)
            ours = np.load(folder / "output_0.npy").reshape(-1)
        theirs = module.run_method("forward", (torch.from_numpy(ids), torch.zeros(1, dtype=torch.long)))[0]
        theirs = theirs.reshape(-1, len(ours))[-1].numpy()
        worst, largest = max(worst, float(np.abs(ours - theirs).max())), max(largest, float(np.abs(theirs).max()))
        same += int(ours.argmax() == theirs.argmax())
    return {"largest_difference_of_logits": float(f"{worst:.2g}"), "largest_logit": round(largest, 2),
            "same_token": f"{same} of {COMPARED}"}


def measure(binary, file, count, show):
    if export.VARIANTS[file][0] == "portable":
        # Its answers are those of the same network, slowly.
        return {"official_runtime": compare(binary, file)}
    answerer, wrong = Answerer(binary, file), []
    known, calls, wanted = measure_items(answerer, "slots", count, wrong)
    new, calls_of_new, wanted_of_new = measure_items(answerer, "test", count, wrong)
    calls += calls_of_new
    found = {
        "known_phrasings": known, "new_phrasings": new, "calls_valid": share(sum(map(is_valid, calls)), len(calls)),
        "calls_right_known_phrasings": share(sum(wanted), len(wanted)),
        "calls_right_new_phrasings": share(sum(wanted_of_new), len(wanted_of_new)),
        "results_said": measure_items(answerer, "results", max(20, count // 2), wrong)[0],
        "kept_known_phrasings": measure_memory(answerer, "train", count, wrong),
        "kept_new_phrasings": measure_memory(answerer, "test", max(20, count // 2), wrong),
        "prefill_tokens_per_s": round(statistics.median(answerer.prefill)),
        "decode_tokens_per_s": round(statistics.median(answerer.decode)),
    }
    answerer.close()
    for row in wrong[:: max(1, len(wrong) // show)] if show else []:
        print("  ", *row, sep=" | ", flush=True)
    return found | {"official_runtime": compare(binary, file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=list(export.VARIANTS), help="programs of the package")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="the built afferent")
    parser.add_argument("--count", type=int, default=1000, help="items of each kind; half as many dialogues with new phrasings")
    parser.add_argument("--show", type=int, default=0, help="print so many wrong answers")
    arguments = parser.parse_args()
    content = yaml.safe_load((export.PACKAGE / "model.yaml").read_text())
    quality = content["quality"] or {}
    quality |= {"measured_with": "tools/zoo/llm/evaluate.py", "measured_on": MEASURED_ON}
    for file in arguments.files:
        quality.setdefault("programs", {})[file] = measure(arguments.binary, file, arguments.count, arguments.show)
        print(file, json.dumps(quality["programs"][file], indent=1), flush=True)
    content["quality"] = quality
    write_card(export.PACKAGE, content)


if __name__ == "__main__":
    main()
