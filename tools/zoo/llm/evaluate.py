"""Measures the shipped programs on our runtime, compares them with the official runtime, and
updates model.yaml.
"""
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
from dialogues import LOCATION, MEMORIES, Speaker, fact_sentence
from items import draw_items

from cards import is_available, write_card

SEED, MAX_NEW_TOKENS = 90001, 80
# Turns between telling and asking for a fact.
MIN_GAP_TURNS, MAX_GAP_TURNS = 3, 6
BINARY = export.ROOT / "target" / "release" / "afferent"
TOOLS = {tool["name"]: tool["arguments"] for tool in export.CHAT["tools"]}
# Range of each argument of the timer.
TIMER_RANGES = {unit: range(low, high + 1) for unit, text in TOOLS["set_timer"].items()
                for low, high in [map(int, text.split(" to "))]}
COMPARED_ITEMS = 25
MEASURED_ON = (
    "Generated dialogues with greedy decoding; an item is correct if the whole answer or call equals the "
    "expected text. known_phrasings: phrasings of training with names, things, locations, rooms, and numbers "
    "from twenty on that are held out from training. new_phrasings: templates held out from training, half of "
    "them in held-out frames. calls: a tool call is valid if it is JSON with the name of a tool and arguments "
    "of that tool in their ranges; correct if it equals the expected one. tool_results_answered: answers to "
    "tool results. memory: a fact is told, and asked for after three to six turns of other topics; the model "
    "generates all answers, and the tool does not find the thing. understood: the answer to the telling was "
    "as expected.")


class Generator:
    """Process that runs a program on our runtime and answers one prompt after the other."""

    def __init__(self, binary, file):
        self.tokenizer = tokens.load(export.PACKAGE / "tokenizer.json")
        command = [binary, "model", "generate", export.PACKAGE / file, "--tokenizer", export.PACKAGE / "tokenizer.json",
                   "--prompts", "--max-new", str(MAX_NEW_TOKENS)]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.prefill, self.decode = [], []

    def generate(self, prompt):
        """Returns the answer with its special tokens, without the end token."""
        self.process.stdin.write(json.dumps(prompt) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} exited with status {self.process.wait()}")
        answer = json.loads(line)
        self.prefill.append(answer["prefill_tokens_per_s"])
        if answer["decode_tokens_per_s"]:
            self.decode.append(answer["decode_tokens_per_s"])
        text = self.tokenizer.decode(answer["tokens"], skip_special_tokens=False)
        return text.removesuffix(tokens.END)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def is_valid_call(text):
    """Returns true if a call is JSON with the name of a tool and valid arguments."""
    try:
        call = json.loads(text.removeprefix(tokens.CALL))
        name, arguments = call["name"], call["arguments"]
    except (ValueError, KeyError, TypeError):
        return False
    if set(call) != {"name", "arguments"} or name not in TOOLS or not set(arguments) <= set(TOOLS[name]):
        return False
    if name == "set_timer":
        return bool(arguments) and all(isinstance(value, int) and value in TIMER_RANGES[unit]
                                       for unit, value in arguments.items())
    if name == "set_light":
        return set(arguments) == {"room", "state"} and arguments["state"] in ("on", "off") and bool(arguments["room"])
    return set(arguments) == set(TOOLS[name]) and all(arguments.values())


def share(correct, count):
    return {"share": round(correct / count, 4), "items": count}


def measure_items(generator, kind, count, errors):
    """Measures items of a kind.

    Returns the share, the generated calls, and the correctness of expected calls.
    """
    items = draw_items(kind, count, SEED)
    answers = [generator.generate(item.prompt) for item in items]
    correct = [answer == item.expected for item, answer in zip(items, answers)]
    calls = [answer for answer in answers if answer.startswith(tokens.CALL)]
    expected_calls = [ok for item, ok in zip(items, correct) if item.expected.startswith(tokens.CALL)]
    errors += [(kind, item.intent, item.user, answer, item.expected)
               for item, answer, ok in zip(items, answers, correct) if not ok]
    return share(sum(correct), count), calls, expected_calls


def simulated_result(call, rng, location):
    """Returns the result of a tool call; where_is returns `location`."""
    if '"get_time"' in call:
        return json.dumps({"time": f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}", "day": "sunday"})
    return json.dumps({LOCATION: location} if '"where_is"' in call else {"ok": True})


def run_turn(generator, rng, dialogue, user, location="on the table"):
    """Generates the answer to `user`, with a tool call if the model makes one.

    Returns the answer and the dialogue extended by the turn.
    """
    dialogue += f"{tokens.USER} {user}{tokens.END}{tokens.ASSISTANT}"
    answer = generator.generate(dialogue)
    if answer.startswith(tokens.CALL):
        result = simulated_result(answer, rng, location)
        dialogue += f"{answer}{tokens.END}{tokens.RESULT}{result}{tokens.END}{tokens.ASSISTANT}"
        answer = generator.generate(dialogue)
    return answer, f"{dialogue}{answer}{tokens.END}"


def measure_memory(generator, split, count, errors):
    """Measures recall of a told fact after turns of other topics, over all facts and over
    understood ones.
    """
    rng, correct, understood, kept = random.Random(f"memory {split} {SEED}"), 0, 0, 0
    for _ in range(count):
        speaker = Speaker(rng, split, unseen=True)
        kind = rng.choices(list(MEMORIES), MEMORIES.values())[0]
        key = speaker.new_key(kind)
        turns = tell_turns(speaker, kind, key)
        length = len(turns) + rng.randint(MIN_GAP_TURNS, MAX_GAP_TURNS)
        speaker.phraser.split = "train"
        while len(turns) < length:
            turns += other_turns(speaker, kind, key)
        question_intent = f"ask_{kind}" if kind != LOCATION else "where"
        speaker.phraser.split = split if speaker.has_phrasing(question_intent) else "train"
        expected, question = f" {fact_sentence(kind, key, speaker.known[kind, key])}", speaker.ask(kind, key)[0]
        dialogue = tokens.BEGIN + f"{tokens.SYSTEM} {export.INSTRUCTIONS}{tokens.END}"
        answers = []
        for turn in turns:
            answer, dialogue = run_turn(generator, rng, dialogue, turn.user)
            answers.append(answer)
        # The tool does not know the location, so the answer is the told one.
        answer, _ = run_turn(generator, rng, dialogue, question.user, location=None)
        is_understood = answers[0] == f" {turns[0].answer}"
        correct += answer == expected
        understood += is_understood
        kept += is_understood and answer == expected
        if answer != expected:
            errors.append((f"kept {split}", kind, f"{turns[0].user} ... {question.user}", answer, expected))
    return share(correct, count) | {"understood": round(understood / count, 4),
                                    "share_of_understood": round(kept / max(understood, 1), 4)}


def other_turns(speaker, kind, key):
    """Draws turns that do not mention a fact."""
    intents = {f"tell_{kind}", f"ask_{kind}", *(("where",) if kind == LOCATION else ())}
    while True:
        known, turns = dict(speaker.known), speaker.any_turns()
        if not any(turn.intent in intents and key in turn.answer for turn in turns):
            return turns
        speaker.known = known


def tell_turns(speaker, kind, key):
    """Returns the turn that tells a fact, with a phrasing of the split if it has one."""
    if not speaker.has_phrasing(f"tell_{kind}"):
        speaker.phraser.split = "train"
    return speaker.tell(kind, key)


def compare(binary, file):
    """Compares logits and greedy tokens of our runtime with those of the official runtime."""
    import torch
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (registers the operators)
    from executorch.extension.pybindings import portable_lib
    from executorch.kernels import quantized  # noqa: F401  (registers the embeddings)
    module = portable_lib._load_for_executorch(str(export.PACKAGE / file))
    tokenizer, worst, largest, same = tokens.load(export.PACKAGE / "tokenizer.json"), 0.0, 0.0, 0
    for item in draw_items("test", COMPARED_ITEMS, SEED + 1):
        ids = np.array([tokenizer.encode(item.prompt, add_special_tokens=False).ids])
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            np.save(folder / "tokens.npy", ids)
            np.save(folder / "position.npy", np.zeros(1, np.int64))
            subprocess.run([binary, "model", "run", export.PACKAGE / file, "--input", folder / "tokens.npy", "--input",
                            folder / "position.npy", "--output-dir", folder, "--repeat", "1", "--warmup", "0"],
                           check=True, capture_output=True)
            ours = np.load(folder / "output_0.npy").reshape(-1)
        theirs = module.run_method("forward", (torch.from_numpy(ids), torch.zeros(1, dtype=torch.long)))[0]
        theirs = theirs.reshape(-1, len(ours))[-1].numpy()
        worst, largest = max(worst, float(np.abs(ours - theirs).max())), max(largest, float(np.abs(theirs).max()))
        same += int(ours.argmax() == theirs.argmax())
    return {"largest_difference_of_logits": float(f"{worst:.2g}"), "largest_logit": round(largest, 2),
            "same_token": f"{same} of {COMPARED_ITEMS}"}


def measure(binary, file, count, show):
    if export.VARIANTS[file][0] == "portable":
        # The same network, only slower: its answers are not measured again.
        return {"official_runtime": compare(binary, file)}
    generator, errors = Generator(binary, file), []
    known, calls, expected_known = measure_items(generator, "slots", count, errors)
    new, calls_of_new, expected_new = measure_items(generator, "test", count, errors)
    calls += calls_of_new
    quality = {
        "known_phrasings": known, "new_phrasings": new,
        "calls_valid": share(sum(map(is_valid_call, calls)), len(calls)),
        "calls_correct_known_phrasings": share(sum(expected_known), len(expected_known)),
        "calls_correct_new_phrasings": share(sum(expected_new), len(expected_new)),
        "tool_results_answered": measure_items(generator, "results", max(20, count // 2), errors)[0],
        "memory_known_phrasings": measure_memory(generator, "train", count, errors),
        "memory_new_phrasings": measure_memory(generator, "test", max(20, count // 2), errors),
        "prefill_tokens_per_s": round(statistics.median(generator.prefill)),
        "decode_tokens_per_s": round(statistics.median(generator.decode)),
    }
    generator.close()
    for row in errors[:: max(1, len(errors) // show)] if show else []:
        print("  ", *row, sep=" | ", flush=True)
    return quality | {"official_runtime": compare(binary, file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=list(export.VARIANTS), help="programs of the package")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="path of the built afferent")
    parser.add_argument("--count", type=int, default=1000,
                        help="items of each kind; half as many dialogues for memory with new phrasings")
    parser.add_argument("--show", type=int, default=0, help="print about this many wrong answers")
    arguments = parser.parse_args()
    content = yaml.safe_load((export.PACKAGE / "model.yaml").read_text())
    quality = content["quality"] or {}
    quality |= {"measured_with": "tools/zoo/llm/evaluate.py", "measured_on": MEASURED_ON}
    programs = quality.setdefault("programs", {})
    for file in arguments.files:
        programs.pop(file, None)
        if not is_available(export.PACKAGE, file, "measurement of this program"):
            continue
        programs[file] = measure(arguments.binary, file, arguments.count, arguments.show)
        print(file, json.dumps(programs[file], indent=1), flush=True)
    content["quality"] = quality
    write_card(export.PACKAGE, content)


if __name__ == "__main__":
    main()
