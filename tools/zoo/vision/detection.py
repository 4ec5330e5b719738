"""Boxes: overlap, non-maximum suppression, average precision. Boxes are corners x0, y0, x1, y1."""
import numpy as np

RECALLS = np.linspace(0, 1, 101)


def overlaps(a, b):
    """Returns the intersection over union of boxes (n, 4) and (m, 4)."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.clip(high - low, 0, None), 2)
    area_a, area_b = np.prod(a[:, 2:] - a[:, :2], 1), np.prod(b[:, 2:] - b[:, :2], 1)
    return both / np.maximum(area_a[:, None] + area_b[None] - both, 1e-9)


def suppress(boxes, scores, limit):
    """Returns the indices of the boxes that remain, the most probable first."""
    order, kept = np.argsort(-scores, kind="stable"), []
    while len(order):
        kept.append(order[0])
        order = order[1:][overlaps(boxes[order[:1]], boxes[order[1:]])[0] <= limit]
    return np.array(kept, int)


def decode_rows(output, threshold, limit):
    """Decodes f32[4 + classes, boxes] (center, size, scores). Returns boxes, labels, scores."""
    scores, labels = output[4:].max(0), output[4:].argmax(0)
    picked = scores >= threshold
    center, half = output[:2, picked].T, output[2:4, picked].T / 2
    boxes, labels, scores = np.concatenate([center - half, center + half], 1), labels[picked], scores[picked]
    kept = []
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        kept.append(own[suppress(boxes[own], scores[own], limit)])
    kept = np.concatenate(kept) if kept else np.zeros(0, int)
    kept = kept[np.argsort(-scores[kept], kind="stable")]
    return boxes[kept], labels[kept], scores[kept]


def average_precision(found, expected, overlap=0.5):
    """Returns the average precision of one class over images, interpolated at 101 recalls.

    `found` has boxes and scores of each image, `expected` boxes and whether they are ignored: they
    may be found, but need not be.
    """
    rows, count = [], sum(int((~ignored).sum()) for _, ignored in expected)
    for (boxes, scores), (targets, ignored) in zip(found, expected):
        taken = np.zeros(len(targets), bool)
        shared = overlaps(boxes, targets) if len(targets) else np.zeros((len(boxes), 0))
        for i in np.argsort(-scores, kind="stable"):
            free = np.where(taken | ignored, -1, shared[i])
            best = int(free.argmax()) if len(targets) else -1
            if best >= 0 and free[best] >= overlap:
                taken[best] = True
                rows.append((scores[i], 1))
            elif not (ignored & (shared[i] >= overlap * 0.6)).any():
                rows.append((scores[i], 0))
    if not rows or not count:
        return 0.0 if count else float("nan")
    hits = np.array(sorted(rows, key=lambda row: -row[0]))[:, 1]
    recall, precision = hits.cumsum() / count, hits.cumsum() / np.arange(1, len(hits) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    index = np.searchsorted(recall, RECALLS)
    return float(np.where(index < len(precision), precision[np.minimum(index, len(precision) - 1)], 0).mean())
