"""Measures the shipped vision models on new rendered data, and updates their model.yaml.

Needs the programs in pipelines/models only. Programs that are not there are skipped.
"""
import argparse
import os
import shlex
import subprocess
import tempfile
import time

import caption_scenes
import captioner
import depth
import hand
import hand_crops
import numpy as np
import objects
import palm
import palm_scenes
import room_views
import text_crops
import text_detector
import text_pages
import text_recognizer
import text_regions
import torch
import yaml
from backgrounds import Bank
from packages import CARDS
from paths import MODELS, ROOT
from PIL import Image
from room_scenes import LABELS

from cards import is_available, write_card

SEED = 90501
COMPARED_ITEMS = 4
TIMED_CALLS = 30
BATCH = 64
CALLS_OF_A_PROCESS = 100
# Skew and blur of the conditions of the recognizer, and the height of a line in its image.
CONDITIONS = {"clean": (0.0, 0.0, (24, 33)), "low_detail": (0.0, 0.0, (14, 20)),
              "blurred_and_skewed": (1.0, 1.2, (18, 33))}
FIELD_OF_VIEW_NOTE = "views of new rooms with horizontal fields of view of 63 to 71 degrees"
MEASURED_ON = {
    "hand": "New rendered crops. pck: landmarks with an error below a fifth of the box of the landmarks; median_error "
            "is relative to the box, too. An eighth of the crops has no hand.",
    "palm": "New rendered scenes with up to two hands. average_precision at an overlap of one half; recall and "
            "false_per_image at the threshold; point_error is the mean relative to the box.",
    "depth": f"{FIELD_OF_VIEW_NOTE.capitalize()}.",
    "objects": f"{FIELD_OF_VIEW_NOTE.capitalize()}. Average precision at an overlap of one half. Objects of "
               "which less than 30 % or 25 pixels are visible are ignored.",
    "text_detector": "New scenes of 640 x 480 with fonts and words that are not in the training data. Lines with "
                     "capitals of less than 6 pixels, and those cut off, are ignored. end_to_end_cer: error rate of "
                     "the characters that text_recognizer reads in the boxes that were found.",
    "captioner": "Views of new rooms, with up to five questions that have a certain answer about each, every question "
                 "without the ones before it. Share of the answers that are right in all words; captions are those of "
                 "what is in the image.",
    "text_recognizer": "Lines in fonts and with words that are not in the training data. cer: edits per character.",
}


# Methods that take the image, where it is not `forward`.
METHODS = {"captioner": "vision_encoder"}
MAX_ANSWER = 24


class Program:
    """A program of a package on the official runtime."""

    def __init__(self, name, variant):
        from executorch.runtime import Runtime
        self.path = os.path.join(MODELS, name, f"{name}_{variant}.pte")
        self.program = Runtime.get().load_program(self.path)
        self.method = self.program.load_method(METHODS.get(name, "forward"))

    def __call__(self, x):
        """Returns the outputs for one input (1, channels, height, width)."""
        return [output.clone() for output in self.method.execute([x.contiguous()])]

    def run_all(self, inputs):
        """Returns the outputs for inputs (n, channels, height, width)."""
        return [torch.cat(parts) for parts in zip(*(self(row[None]) for row in inputs))]


class OurProgram:
    """A program of a package on our runtime, which has backends that the official wheel lacks."""

    def __init__(self, afferent, name, variant):
        self.afferent, self.path = afferent, os.path.join(MODELS, name, f"{name}_{variant}.pte")

    def run_all(self, inputs):
        """Returns the outputs for inputs (n, channels, height, width)."""
        parts = [self.run(inputs[at:at + CALLS_OF_A_PROCESS]) for at in range(0, len(inputs), CALLS_OF_A_PROCESS)]
        return [torch.cat(outputs) for outputs in zip(*parts)]

    def run(self, inputs):
        with tempfile.TemporaryDirectory() as folder:
            calls = []
            for at, row in enumerate(inputs):
                np.save(os.path.join(folder, f"x_{at}.npy"), row[None].numpy())
                calls += ["--next"] * bool(at) + ["--input", os.path.join(folder, f"x_{at}.npy")]
            subprocess.run([*self.afferent, "model", "run", self.path, *calls, "--output-dir", folder], check=True,
                           stdout=subprocess.DEVNULL, cwd=ROOT)
            folders = [os.path.join(folder, f"call_{at}") for at in range(len(inputs))]
            files = sorted(file for file in os.listdir(folders[0]) if file.startswith("output_"))
            return [torch.from_numpy(np.concatenate([np.load(os.path.join(call, file)) for call in folders]))
                    for file in files]


def rounded(figures):
    return {name: round(float(value), 4) for name, value in figures.items()}


def measure_hand(program, count):
    records = hand_crops.draw_crops(np.random.default_rng(SEED), count)
    inputs, *targets = hand.prepare(records)
    return rounded(hand.scores(program.run_all(inputs), *targets)), inputs


def measure_palm(program, count):
    records = palm_scenes.draw_scenes(np.random.default_rng(SEED), count)
    inputs, targets, states = palm.prepare(records)
    centers, _ = palm.anchors()
    outputs = [output.numpy() for output in program.run_all(inputs)]
    return rounded(palm.scores(outputs, targets.numpy(), states.numpy(), centers.numpy())), inputs


def measure_depth(program, count):
    inputs, target = depth.prepare(room_views.draw_views(np.random.default_rng(SEED), count))
    return rounded(depth.scores(program.run_all(inputs)[0], target)), inputs


def measure_objects(program, count):
    inputs, *targets = objects.prepare(room_views.draw_views(np.random.default_rng(SEED), count))
    precisions = objects.mean_average_precision(program.run_all(inputs)[0].numpy(), *(t.numpy() for t in targets))
    return rounded({"map_50": np.mean(precisions)} | dict(zip(LABELS, precisions))), inputs


def answer(rows, asked, ids, embed, decode):
    """Returns the tokens of the greedy answer to the question of the tokens `asked` about an image."""
    x, start, said = torch.cat([embed([ids[captioner.BEGIN], ids[captioner.USER]]), rows, embed(asked)], 1), 0, []
    while len(said) < MAX_ANSWER:
        positions = torch.arange(start, start + x.shape[1])
        token, start = int(decode(x, positions)[0, -1].argmax()), start + x.shape[1]
        if token == ids[captioner.END]:
            break
        said.append(token)
        x = embed([token])
    return said


def measure_captioner(program, count):
    records, dialogues = caption_scenes.draw_scenes(np.random.default_rng(SEED), count), captioner.Dialogues()
    inputs, rng, right = captioner.prepare(records["image"]).contiguous(), np.random.default_rng(SEED), {}
    embedding, decoder = (program.program.load_method(name) for name in ("token_embedding", "text_decoder"))
    embed = lambda tokens: embedding.execute([torch.tensor([tokens])])[0].clone()
    decode = lambda x, positions: decoder.execute([x.contiguous(), positions])[0]
    for image, record in zip(inputs, records):
        rows = program(image[None])[0]
        seen = record["seen"][:record["count"]]
        for question, expected in caption_scenes.draw_dialogue(rng, seen, captioner.TURNS):
            asked = dialogues.encode([(question, "")])[0]
            asked = asked[:asked.index(dialogues.ids[captioner.ASSISTANT]) + 1]
            said = dialogues.tokenizer.decode(answer(rows, asked, dialogues.ids, embed, decode)).strip()
            right.setdefault(caption_scenes.kind_of(question), []).append(said == expected)
    return rounded({"right": np.mean(sum(right.values(), []))}
                   | {kind: np.mean(right[kind]) for kind in sorted(right)}), inputs


def measure_text_recognizer(program, count):
    quality = {}
    for name, (skew, blur, detail) in CONDITIONS.items():
        rng = np.random.default_rng(SEED)
        bank = Bank(rng, text_crops.BACKGROUNDS, 600)
        records = np.stack([text_crops.draw_crop(rng, "test", bank, skew, blur, detail) for _ in range(count)])
        inputs = text_recognizer.prepare(records)[0]
        read = [text_crops.decode(path) for path in program.run_all(inputs)[0].argmax(2).numpy()]
        expected = text_recognizer.texts(records)
        quality[name] = rounded({"cer": text_recognizer.character_error_rate(read, expected),
                                 "exact": np.mean([a == b for a, b in zip(read, expected)])})
    return quality, inputs


def cut_line(image, box):
    """Returns the input of the recognizer for a box in an RGB image."""
    width, height = np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[3] - box[0])
    columns = int(np.clip(round(text_crops.HEIGHT * width / height), 8, text_crops.WIDTH))
    corners = box[[0, 3, 2, 1]].ravel()
    gray = Image.fromarray((image @ text_crops.LUMA).astype(np.float32))
    line = gray.transform((columns * 2, text_crops.HEIGHT * 2), Image.Transform.QUAD, corners,
                          Image.Resampling.BILINEAR).resize((columns, text_crops.HEIGHT), Image.Resampling.BOX)
    record = np.zeros(1, text_crops.RECORD)
    record["image"][0, :, :columns], record["width"] = np.clip(np.asarray(line), 0, 255), columns
    return text_recognizer.prepare(record)[0]


def read_lines(image, lines, boxes, recognizer):
    """Returns the edits and characters of the lines whose boxes were found."""
    edits = characters = 0
    size = image.shape[1::-1]
    for line in lines:
        shared = [text_regions.polygon_overlap(box, line.corners, size) for box in boxes]
        if shared and max(shared) >= .5:
            path = recognizer(cut_line(image, boxes[int(np.argmax(shared))]))[0].argmax(2)[0].numpy()
            edits += text_recognizer.edit_distance(text_crops.decode(path), line.text)
            characters += len(line.text)
    return edits, characters


def measure_text_detector(program, count):
    rng, width, height = np.random.default_rng(SEED), text_detector.WIDTH, text_detector.HEIGHT
    bank, totals, inputs, reading = Bank(rng, 60, width + 60, has_letters=False), np.zeros(3), [], np.zeros(2)
    has_recognizer = os.path.exists(os.path.join(MODELS, "text_recognizer", "text_recognizer_xnnpack.pte"))
    recognizer = Program("text_recognizer", "xnnpack") if has_recognizer else None
    for _ in range(count):
        image, lines = text_pages.draw_page(rng, "test", bank, width, height)
        x = text_detector.prepare({"image": image[None], "label": np.zeros((1, 1, 1), np.uint8)})[0]
        boxes, _ = text_regions.find_boxes(program(x)[0][0, 0].numpy())
        visible = [text_pages.visible_fraction(line.corners, width, height) for line in lines]
        shown = [line for line, fraction in zip(lines, visible) if fraction > 0]
        ignored = [line.cap < text_pages.MIN_CAP or fraction < 1 for line, fraction in zip(lines, visible) if fraction]
        corners = [np.clip(line.corners, 0, [width, height]) for line in shown]
        totals += text_regions.match(boxes, corners, ignored, (width, height))
        if recognizer:
            read = [line for line, skipped in zip(shown, ignored) if not skipped]
            reading += read_lines(image, read, boxes, recognizer)
        inputs.append(x)
    precision, recall = totals[0] / max(totals[1], 1), totals[0] / max(totals[2], 1)
    figures = {"precision": precision, "recall": recall, "f1": 2 * precision * recall / max(precision + recall, 1e-9)}
    if recognizer:
        figures["end_to_end_cer"] = reading[0] / max(reading[1], 1)
    return rounded(figures), torch.cat(inputs[:BATCH])


MEASURES = {"hand": (measure_hand, 2000), "palm": (measure_palm, 1000), "depth": (measure_depth, 600),
            "objects": (measure_objects, 1000), "captioner": (measure_captioner, 150),
            "text_recognizer": (measure_text_recognizer, 1000),
            "text_detector": (measure_text_detector, 150)}


def run_ours(afferent, name, path, x):
    """Returns the outputs on our runtime."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(os.path.join(folder, "x.npy"), x.numpy())
        method = METHODS.get(name, "forward")
        subprocess.run([*afferent, "model", "run", path, "--method", method, "--input", os.path.join(folder, "x.npy"),
                        "--output-dir", folder], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        files = sorted(name for name in os.listdir(folder) if name.startswith("output_"))
        return [torch.from_numpy(np.load(os.path.join(folder, name))) for name in files]


def significant(value):
    return float(f"{value:.1e}")


def largest_difference(a, b):
    return max(float((x.reshape(-1) - y.reshape(-1)).abs().max()) for x, y in zip(a, b))


def call_ms(program, x):
    """Returns the least processor time of a call."""
    times = []
    for _ in range(TIMED_CALLS):
        start = time.process_time()
        program(x)
        times.append(time.process_time() - start)
    return round(min(times) * 1000, 2)


def measure_vulkan(name, count, afferent):
    """Returns the figures of the Vulkan variant, on our runtime with the feature `vulkan`."""
    run, default = MEASURES[name]
    program = OurProgram(afferent, name, "vulkan")
    return {"items": count or default, **run(program, count or default)[0], "bytes": os.path.getsize(program.path)}


def measure(name, count, afferent):
    run, default = MEASURES[name]
    quality = {"measured_with": "tools/zoo/vision/evaluate.py", "measured_on": MEASURED_ON[name]}
    programs, folder = {}, os.path.join(MODELS, name)
    for variant in ("xnnpack", "int8"):
        if is_available(folder, f"{name}_{variant}.pte", f"{name} {variant}"):
            program = programs[variant] = Program(name, variant)
            figures, inputs = run(program, count or default)
            quality[variant] = {"items": count or default, **figures, "call_ms_official": call_ms(program, inputs[:1]),
                                "bytes": os.path.getsize(program.path)}
    compared = inputs[:COMPARED_ITEMS]
    if "xnnpack" in programs and is_available(folder, f"{name}_portable.pte", "xnnpack_portable_difference"):
        portable = Program(name, "portable")
        quality["xnnpack_portable_difference"] = significant(max(
            largest_difference(portable(x[None]), programs["xnnpack"](x[None])) for x in compared))
    if afferent:
        quality["difference_from_official_runtime"] = {
            variant: significant(max(
                largest_difference(run_ours(afferent, name, program.path, x[None]), program(x[None]))
                for x in compared))
            for variant, program in programs.items()}
    return quality


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[], help=", ".join(CARDS))
    parser.add_argument("--items", type=int)
    parser.add_argument("--afferent", default="cargo run --release -q -p afferent --",
                        help="command of afferent; empty to leave our runtime out")
    parser.add_argument("--vulkan", action="store_true",
                        help="measure only the Vulkan variant, with the feature `vulkan` of afferent, and keep the rest")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for package in arguments.names or MEASURES:
        folder = os.path.join(MODELS, package)
        with open(os.path.join(folder, "model.yaml")) as file:
            content = yaml.safe_load(file)
        command = shlex.split(arguments.afferent)
        if arguments.vulkan:
            content["quality"]["vulkan"] = measure_vulkan(package, arguments.items, command)
        else:
            content["quality"] = measure(package, arguments.items, command)
        write_card(folder, content)
        for key, row in content["quality"].items():
            print(f"{package}: {key}: {row}", flush=True)
