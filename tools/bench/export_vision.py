"""Exports public vision models with random weights, and what their own post-processing finds.

    python tools/bench/export_vision.py FOLDER [NAME]...

Needs torch, torchvision, executorch, ultralytics (AGPL: a tool of this script only), transformers, scipy and pillow.
Writes for each model NAME a folder `NAME` with its export as users have it, `image.png`, and `expected.json`; and
beside it `NAME_xnnpack.pte` with `NAME_input.npy` and `NAME_output.npy`, for `afferent-bench models FOLDER`. The test
`nodes/vision/tests/public_models.rs` reads the folders if `AFFERENT_VISION_MODELS` is FOLDER.

Random detectors find nothing. The last layer of each head is scaled so that some scores pass the threshold.
"""
import argparse
import json
import pathlib
import shutil

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from PIL import Image

WIDTH, HEIGHT = 810, 540
SCORE, OVERLAP = 0.25, 0.7


def draw_image():
    """Shapes over waves."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    image = np.stack([127 + 60 * np.sin(x / a + y / b) for a, b in ((37, 61), (83, -47), (-29, 53))], 2)
    for _ in range(24):
        cx, cy, size = rng.uniform(0, WIDTH), rng.uniform(0, HEIGHT), rng.uniform(15, 90)
        inside = (np.abs(x - cx) < size) & (np.abs(y - cy) < size * rng.uniform(.4, 1))
        image[inside] = rng.uniform(0, 255, 3)
    return Image.fromarray(image.clip(0, 255).astype(np.uint8))


def lower(model, example):
    with torch.no_grad():
        exported = torch.export.export(model, (example,))
    return to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch().buffer


def outputs_of(model, example):
    with torch.no_grad():
        found = model(example)
    return found


def save_for_bench(folder, name, program, example, first):
    (folder / f"{name}_xnnpack.pte").write_bytes(program)
    np.save(folder / f"{name}_input.npy", example.contiguous().numpy())
    np.save(folder / f"{name}_output.npy", first.numpy())


def rows(boxes, scores, labels):
    return [{"box": [round(v, 3) for v in box], "score": round(score, 5), "label": str(label)}
            for box, score, label in zip(boxes.tolist(), scores.tolist(), labels)]


def normalize_statistics(model, example):
    """Gives batch normalizations the statistics of the example, so that activations have a scale."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None
    model.train()
    with torch.no_grad():
        model(example.repeat(2, 1, 1, 1) + 0.05 * torch.randn(2, *example.shape[1:]))
    model.eval()


def yolo(name, folder, image):
    from ultralytics import YOLO
    from ultralytics.data.augment import LetterBox
    from ultralytics.utils.nms import non_max_suppression
    from ultralytics.utils.ops import scale_boxes
    wrapper = YOLO(f"{name}.yaml")
    model, size = wrapper.model, 640
    # Without rounding to whole values: random networks enlarge it.
    pixels = LetterBox((size, size), auto=False)(image=np.asarray(image, np.float32))
    example = torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None].float() / 255
    normalize_statistics(model, example)
    head = model.model[-1]
    branches = [getattr(head, part, None) for part in ("cv3", "one2one_cv3")]
    for branch in [layer[-1] for branch in branches if branch is not None for layer in branch]:
        seen = []
        handle = branch.register_forward_hook(lambda _, __, output: seen.append(output))
        outputs_of(model, example)
        handle.remove()
        logits = (seen[0] - branch.bias[:, None, None]).flatten()
        # One of a thousand scores passes.
        branch.weight.data *= 2 / float(logits.kthvalue(int(logits.numel() * 0.999)).values)
        branch.bias.data.fill_(-3.0)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    wrapper.ckpt_path = str(work / f"{name}.pt")
    wrapper.model.pt_path = wrapper.ckpt_path
    exported = pathlib.Path(wrapper.export(format="executorch", imgsz=size, device="cpu"))
    target = folder / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(exported, target)
    (program,) = target.glob("*.pte")
    from executorch.runtime import Runtime
    method = Runtime.get().load_program(str(program)).load_method("forward")
    first = method.execute([example.contiguous()])[0].clone()
    # Boxes of the model in PyTorch.
    import copy
    plain = copy.deepcopy(wrapper.model).eval().fuse()
    for module in plain.modules():
        if hasattr(module, "export"):
            module.export, module.format = True, "executorch"
    with torch.no_grad():
        found = plain(example)
    found = found[0] if isinstance(found, (tuple, list)) else found
    print(f"{name}: runtime differs from PyTorch by {float((first - found).abs().max()):.2e}", flush=True)
    kept = non_max_suppression(found, SCORE, OVERLAP, max_det=100)[0]
    boxes = scale_boxes((size, size), kept[:, :4].clone(), (HEIGHT, WIDTH))
    labels = [wrapper.names[int(index)] for index in kept[:, 5]]
    save_for_bench(folder, name, program.read_bytes(), example, found)
    return {"task": "detection", "found": rows(boxes, kept[:, 4], labels)}


def write_package(folder, name, program, fields):
    target = folder / name
    target.mkdir(exist_ok=True)
    (target / "model.pte").write_bytes(program)
    manifest = {"afferent_model": 1, "name": name, "contract": "", "license": "none", "provenance": "random weights",
                "variants": [{"file": "model.pte", "backend": "XnnpackBackend", "precision": "fp32"}]} | fields
    (target / "model.yaml").write_text(json.dumps(manifest) + "\n")


class Outputs(torch.nn.Module):
    """Model of transformers with a tuple of the named outputs."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, image):
        found = self.model(image)
        return tuple(getattr(found, name) for name in self.names)


IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def normalized(image, size, mode):
    """The image in another size, resized as Pillow does, but without rounding to whole values."""
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    pixels = torch.nn.functional.interpolate(pixels, size[::-1], mode=mode, antialias=True).clamp(0, 1)
    mean, std = torch.tensor(IMAGENET["mean"]), torch.tensor(IMAGENET["std"])
    return ((pixels - mean[:, None, None]) / std[:, None, None]).contiguous()


def yolos(name, folder, image):
    """YOLOS-tiny, with the outputs of DETR."""
    from transformers import YolosConfig, YolosForObjectDetection
    size, labels = (512, 384), [f"class {i}" for i in range(20)]
    config = YolosConfig(hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768,
                         image_size=[size[1], size[0]], num_detection_tokens=100, num_labels=len(labels),
                         use_mid_position_embeddings=False)
    model = Outputs(YolosForObjectDetection(config).eval(), ("logits", "pred_boxes")).eval()
    last = model.model.class_labels_classifier.layers[-1]
    torch.nn.init.normal_(last.weight, std=6)
    example = normalized(image, size, "bilinear")
    program = lower(model, example)
    logits, boxes = outputs_of(model, example)
    write_package(folder, name, program, {"task": "detection", "labels": labels,
                  "image": {"resize": "stretch", "resampling": "antialias_bilinear", **IMAGENET}})
    save_for_bench(folder, name, program, example, logits)
    # As post_process_object_detection of the image processor.
    scores, classes = logits.softmax(-1)[0, :, :-1].max(-1)
    kept = (scores > SCORE).nonzero()[:, 0]
    kept = kept[scores[kept].argsort(descending=True, stable=True)]
    center, extent = boxes[0, kept, :2], boxes[0, kept, 2:]
    corners = torch.cat([center - extent / 2, center + extent / 2], 1) * torch.tensor([WIDTH, HEIGHT] * 2)
    corners = corners.clamp(min=0).minimum(torch.tensor([WIDTH, HEIGHT] * 2))
    return {"task": "detection", "found": rows(corners, scores[kept], [labels[i] for i in classes[kept]])}


def efficientnet_b0(name, folder, image):
    import torchvision
    model = torchvision.models.efficientnet_b0(weights=None)
    weights = torchvision.models.EfficientNet_B0_Weights.IMAGENET1K_V1
    example = weights.transforms()(image)[None].contiguous()
    normalize_statistics(model, example)
    torch.nn.init.normal_(model.classifier[-1].weight, std=0.3)
    program = lower(model.eval(), example)
    logits = outputs_of(model, example)
    # 224 of 256 pixels, cubic.
    write_package(folder, name, program, {"task": "classification",
                  "image": {"resize": "crop", "crop_fraction": 0.875, "resampling": "antialias_bicubic", **IMAGENET}})
    save_for_bench(folder, name, program, example, logits)
    scores, classes = logits.softmax(1)[0].sort(descending=True, stable=True)
    return {"task": "classification", "classes": [[str(int(c)), round(float(s), 6)] for c, s in zip(classes[:5], scores)]}


def depth_anything(name, folder, image):
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation
    size = (378, 252)
    torch.manual_seed(1)
    model = Outputs(DepthAnythingForDepthEstimation(DepthAnythingConfig()).eval(), ("predicted_depth",)).eval()
    example = normalized(image, size, "bicubic")
    program = lower(model, example)
    depth, = outputs_of(model, example)
    write_package(folder, name, program, {"task": "depth", "contract": "inverse_depth"})
    save_for_bench(folder, name, program, example, depth)
    return {"task": "depth", "size": list(depth.shape[1:]), "depth": [float(f"{v:.6g}") for v in depth.flatten().tolist()]}


MODELS = {"yolo11n": yolo, "yolo26n": yolo, "yolos_tiny": yolos, "efficientnet_b0": efficientnet_b0,
          "depth_anything_small": depth_anything}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=list(MODELS), metavar="NAME")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    image = draw_image()
    for name in arguments.names:
        torch.manual_seed(3)
        expected = MODELS[name](name, arguments.folder.resolve(), image)
        expected |= {"score": SCORE, "iou": OVERLAP}
        (arguments.folder / name / "expected.json").write_text(json.dumps(expected) + "\n")
        image.save(arguments.folder / name / "image.png")
        print(f"{name}: {len(expected.get('found', []))} objects", flush=True)


if __name__ == "__main__":
    main()
