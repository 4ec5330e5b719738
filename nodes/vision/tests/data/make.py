"""Writes the expected results of this folder.

    pip install torch==2.13.0 torchvision==0.28.0
    python nodes/vision/tests/data/make.py
"""

import json
from pathlib import Path

import torch
from torchvision.ops import batched_nms, nms

HERE = Path(__file__).parent


def rounded(tensor):
    return [[round(value, 2) for value in row] for row in tensor.tolist()]


def write_suppression():
    """Non-maximum suppression, for src/boxes.rs."""
    torch.manual_seed(1)
    cases = []
    for count, overlap in [(0, 0.5), (1, 0.5), (12, 0.45), (40, 0.7), (40, 0.3), (80, 0.5)]:
        corner = torch.rand(count, 2) * 60
        boxes = torch.tensor(
            rounded(torch.cat([corner, corner + 5 + torch.rand(count, 2) * 40], 1))
        ).reshape(count, 4)
        # Some scores are equal.
        scores = (torch.rand(count) * 50).round() / 50
        classes = torch.randint(0, 3, (count,))
        # torchvision does not say which of equal scores comes first: give it the order.
        order = torch.sort(-scores, stable=True).indices
        kept = order[batched_nms(boxes[order], -torch.arange(count).float(), classes[order], overlap)]
        agnostic = order[nms(boxes[order], -torch.arange(count).float(), overlap)]
        cases.append(
            {
                "boxes": rounded(boxes),
                "scores": [round(score, 2) for score in scores.tolist()],
                "classes": classes.tolist(),
                "overlap": overlap,
                "kept": kept.tolist(),
                "kept_agnostic": agnostic.tolist(),
            }
        )
    (HERE / "suppression.json").write_text(json.dumps(cases) + "\n")


write_suppression()
