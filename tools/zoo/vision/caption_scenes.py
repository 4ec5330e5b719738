"""Views into rooms with what they show, and dialogues about them: data of the captioner."""
import colorsys

import numpy as np
import room_views
from room_scenes import LABELS, NO_CLASS
from room_views import HEIGHT, WIDTH

COLORS = ["gray", "red", "yellow", "green", "blue", "purple"]
# Hues in degrees at which the names of `COLORS` after gray begin.
HUES = (340, 22, 70, 165, 260)
MIN_SATURATION = 0.25
# Nothing is asked that depends on a value closer to its limit: hue in degrees, saturation, position and
# distance as parts of the width, and the ratio of two sizes.
HUE_MARGIN, SATURATION_MARGIN, POSITION_MARGIN, SIZE_MARGIN = 8, 0.05, 0.025, 1.2
# Objects with fewer rays (4 per pixel), or more hidden, are neither named nor denied.
MIN_RAYS, MIN_VISIBLE, MAX_OBJECTS = 240, 0.4, 12
SIDES = ["on the left", "in the middle", "on the right"]
# Distance of two centers, as a part of the width, below which neither is left of the other.
NEAR = 0.08
# `color` is -1 if it is between two names.
SEEN = np.dtype([("label", "i1"), ("color", "i1"), ("x", "f4"), ("rays", "i4"), ("is_clear", "?")])
RECORD = np.dtype([("image", "u1", (HEIGHT, WIDTH, 3)), ("seen", SEEN, MAX_OBJECTS), ("count", "i1")])
VIEWS_OF_A_ROOM = 2

ASK_ALL = ["what do you see", "describe the room", "what is there", "what can you see"]
ASK_OBJECT = ["is there a {}", "can you see a {}", "do you see a {}"]
ASK_COLOR = ["what color is the {}", "which color has the {}"]
ASK_SIDE = ["what is {}", "what do you see {}"]


def color_of(placed):
    """Returns the index of the name of an object's color, that of its largest part; -1 if it is uncertain."""
    _, _, _, (color, *_) = max(placed.parts, key=lambda part: np.prod(part[2]))
    hue, saturation, _ = colorsys.rgb_to_hsv(*np.asarray(color, float) ** (1 / 2.2))
    if abs(saturation - MIN_SATURATION) < SATURATION_MARGIN:
        return -1
    if saturation < MIN_SATURATION:
        return 0
    turns = [(hue * 360 - start) % 360 for start in HUES]
    if min(min(turn, 360 - turn) for turn in turns) < HUE_MARGIN:
        return -1
    return 1 + int(np.argmin(turns))


def seen_in(room, extents):
    """Returns the visible objects of a view, the largest first."""
    seen = []
    for placed, extent in zip(room.objects, extents):
        if placed.label == NO_CLASS or extent["visible"] < 20:
            continue
        is_clear = extent["visible"] >= MIN_RAYS and extent["visible"] >= MIN_VISIBLE * extent["covered"]
        middle = (extent["box"][0] + extent["box"][2]) / 2 / WIDTH
        seen.append((placed.label, color_of(placed), middle, extent["visible"], is_clear))
    return np.array(sorted(seen, key=lambda one: -one[3])[:MAX_OBJECTS], SEEN)


def draw_scenes(rng, count):
    """Draws records."""
    records = np.zeros(count, RECORD)
    for record, (room, image, _, extents) in zip(records, room_views.rendered_views(rng, count, VIEWS_OF_A_ROOM)):
        seen = seen_in(room, extents)
        record["image"], record["count"], record["seen"][:len(seen)] = image, len(seen), seen
    return records


def name_of(one):
    return f"{COLORS[one['color']]} {LABELS[one['label']]}"


def side_of(one):
    """Returns the index of an object's side; -1 if it is uncertain."""
    if min(abs(one["x"] - 1 / 3), abs(one["x"] - 2 / 3)) < POSITION_MARGIN:
        return -1
    return min(int(one["x"] * 3), 2)


def largest(seen, count=1):
    """Returns the `count` largest objects, or less if there are less; None if that is uncertain."""
    # Without the objects that are too small to be named in place of a clear one.
    seen = seen[seen["rays"] * SIZE_MARGIN >= MIN_RAYS]
    first = seen[:count]
    is_next_smaller = first["rays"][:-1] >= seen["rays"][1:count] * SIZE_MARGIN
    if not (first["is_clear"].all() and is_next_smaller.all()):
        return None
    return None if len(seen) > count and first["rays"][-1] < seen["rays"][count] * SIZE_MARGIN else first


def caption(seen):
    """Returns the sentence that names the two largest objects; None if it is uncertain."""
    named = largest(seen, 2)
    if named is None or (named["color"] < 0).any():
        return None
    if len(named) == 0:
        return "an empty room."
    if len(named) == 1:
        return f"a {name_of(named[0])}."
    first, second = named
    distance = first["x"] - second["x"]
    if abs(abs(distance) - NEAR) < POSITION_MARGIN:
        return None
    relation = "near" if abs(distance) < NEAR else "left of" if distance < 0 else "right of"
    return f"a {name_of(first)} {relation} a {name_of(second)}."


def questions(seen, pick=lambda phrasings: phrasings[0]):
    """Yields a question about each object and side with its answer, where it is certain."""
    for label, name in enumerate(LABELS):
        own = seen[seen["label"] == label]
        ask, ask_color = pick(ASK_OBJECT).format(name), pick(ASK_COLOR).format(name)
        if len(own) == 0:
            yield ask, "no."
            yield ask_color, f"there is no {name}."
            continue
        # Objects of the class that are too small to be clear do not make it certain that there is none.
        first = largest(own)
        if first is None or len(first) == 0:
            continue
        if side_of(first[0]) >= 0:
            yield ask, f"yes, {SIDES[side_of(first[0])]}."
        if first[0]["color"] >= 0:
            yield ask_color, f"{COLORS[first[0]['color']]}."
    sides = np.array([side_of(one) for one in seen], int)
    for side, name in enumerate(SIDES):
        there = seen[(sides == side) | (sides < 0)]
        first = largest(there)
        if first is None or (len(first) == 0) != (len(there) == 0):
            continue
        if len(first) == 0 or side_of(first[0]) == side and first[0]["color"] >= 0:
            yield pick(ASK_SIDE).format(name), f"a {name_of(first[0])}." if len(first) else "nothing."


def kind_of(question):
    """Returns what a question is about."""
    if question in ASK_ALL:
        return "captions"
    return "colors" if "color" in question else "sides" if question.startswith("what") else "objects"


def draw_dialogue(rng, seen, turns):
    """Draws questions with their answers, none twice; two of three are about what is there."""
    pick = lambda phrasings: str(rng.choice(phrasings))
    pairs, drawn, whole = list(questions(seen, pick)), [], caption(seen)
    rng.shuffle(pairs)
    is_negative = np.array([answer in ("no.", "nothing.") or "is no" in answer for _, answer in pairs], int)
    groups = [[pair for pair, negative in zip(pairs, is_negative) if negative == which] for which in (0, 1)]
    if whole is not None and rng.random() < 0.7:
        drawn.append((pick(ASK_ALL), whole))
    while len(drawn) < turns and any(groups):
        which = int(rng.random() < 1 / 3)
        drawn.append((groups[which] or groups[1 - which]).pop())
    rng.shuffle(drawn)
    return [tuple(pair) for pair in drawn]
