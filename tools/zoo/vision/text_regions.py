"""Boxes of text from a probability map, as in PaddleOCR: threshold, dilation, rotated box, growth."""
import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError
from text_pages import UNCLIP

THRESHOLD, BOX_THRESHOLD, MIN_SIDE = 0.3, 0.5, 3


def min_area_box(points):
    """Returns the rotated box of least area around points: top left, top right, and so on."""
    try:
        hull = points[ConvexHull(points).vertices]
    except QhullError:  # on a line
        hull = points
    edges = np.diff(np.vstack([hull, hull[:1]]), axis=0)
    best = None
    for angle in np.unique(np.round(np.arctan2(edges[:, 1], edges[:, 0]) % (np.pi / 2), 6)):
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        low, high = (hull @ turn.T).min(0), (hull @ turn.T).max(0)
        if best is None or np.prod(high - low) < best[0]:
            best = np.prod(high - low), turn, low, high
    _, turn, (x0, y0), (x1, y1) = best
    return order(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) @ turn)


def order(corners):
    """Returns the corners of a box clockwise, from the one at the top left on."""
    center = corners.mean(0)
    corners = corners[np.argsort(np.arctan2(*(corners - center).T[::-1]))]
    return np.roll(corners, -int((corners - center).sum(1).argmin()), 0)


def grow(corners, ratio=UNCLIP):
    """Returns a box that is larger on each side by area * ratio / perimeter."""
    along, down = corners[1] - corners[0], corners[3] - corners[0]
    width, height = max(np.linalg.norm(along), 1e-6), max(np.linalg.norm(down), 1e-6)
    distance = width * height * ratio / (2 * (width + height))
    a, d = along / width * distance, down / height * distance
    return corners + np.array([-a - d, a - d, a + d, d - a])


def find_boxes(probability):
    """Returns boxes (n, 4, 2) in pixels of a map (height, width), and their scores."""
    mask = ndimage.binary_dilation(probability > THRESHOLD, np.ones((2, 2)))
    labels, _ = ndimage.label(mask, np.ones((3, 3)))
    boxes, scores = [], []
    for i, part in enumerate(ndimage.find_objects(labels), 1):
        inside = labels[part] == i
        y, x = np.nonzero(inside)
        y, x = y + part[0].start, x + part[1].start
        # Corners of the pixels.
        points = np.concatenate([np.stack([x + dx, y + dy], 1) for dx in (0, 1) for dy in (0, 1)]).astype(float)
        box, score = min_area_box(points), float(probability[part][inside].mean())
        if min(np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[3] - box[0])) < MIN_SIDE or score < BOX_THRESHOLD:
            continue
        boxes.append(grow(box))
        scores.append(score)
    return np.array(boxes).reshape(-1, 4, 2), np.array(scores)


def polygon_overlap(a, b, size):
    """Returns the intersection over union of two polygons, measured on a grid of pixels."""
    masks = []
    for polygon in (a, b):
        image = Image.new("1", size)
        ImageDraw.Draw(image).polygon([tuple(point) for point in polygon], 1)
        masks.append(np.asarray(image))
    return (masks[0] & masks[1]).sum() / max((masks[0] | masks[1]).sum(), 1)


def match(found, expected, ignored, size):
    """Returns counts of hits, of found boxes and of expected boxes at an overlap of one half. Found
    boxes on ignored ones do not count.
    """
    hits, taken, count = 0, set(), 0
    for box in found:
        shared = [polygon_overlap(box, other, size) if k not in taken else 0.0 for k, other in enumerate(expected)]
        best = int(np.argmax(shared)) if shared else -1
        if best >= 0 and shared[best] >= .5 and not ignored[best]:
            taken.add(best)
            hits, count = hits + 1, count + 1
        elif not any(ignored[k] and polygon_overlap(box, other, size) > .1 for k, other in enumerate(expected)):
            count += 1
    return hits, count, int((~np.asarray(ignored, bool)).sum())
