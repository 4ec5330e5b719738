"""Crops around a hand, as the landmark model gets them: upright, with the hand in the middle."""
import numpy as np
from backgrounds import Bank
from hand_scenes import LANDMARKS, PALM, Cones, add_distractors, add_hand, draw_hand, draw_setting, project, render
from hand_scenes import rotation, upright_turn

SIZE = 112
RECORD = np.dtype([("image", "u1", (SIZE, SIZE, 3)), ("points", "f4", (LANDMARKS, 3)), ("world", "f4", (LANDMARKS, 3)),
                   ("is_right", "f4"), ("is_hand", "f4")])
NO_HAND = 0.12
BACKGROUNDS = 240
# Side of the box of a palm, relative to the extent of its landmarks.
PALM_MARGIN = 1.1
# Square around a hand, as in MediaPipe: relative to the box of the palm, shifted to the fingers by
# half of the box; and relative to the extent of the landmarks of the last image.
PALM_SCALE, PALM_SHIFT, LANDMARK_SCALE = 2.6, 0.5, 1.5


def palm_box(points):
    """Returns center and side of the box of a palm of upright landmarks (x, y)."""
    low, high = points[PALM].min(0), points[PALM].max(0)
    return (low + high) / 2, (high - low).max() * PALM_MARGIN


def palm_region(points):
    """Returns center and side of the crop that a palm detector leads to."""
    center, side = palm_box(points)
    return center - [0, PALM_SHIFT * side], PALM_SCALE * side


def landmark_region(points):
    """Returns center and side of the crop that the landmarks lead to."""
    low, high = points.min(0), points.max(0)
    return (low + high) / 2, (high - low).max() * LANDMARK_SCALE


def upright_roll(points):
    """Returns the angle that turns the line from the wrist to the middle knuckle up."""
    x, y = points[9] - points[0]
    return -np.arctan2(x, -y)


def draw_region(rng, points):
    """Draws center and side of a crop, with the errors of detection and tracking."""
    extent = (points.max(0) - points.min(0)).max()
    if rng.random() < 0.4:
        center, side = palm_region(points)
        # Fingers that point at the camera make a short palm, for which the crop is too small.
        side = max(side, extent * 1.15) * rng.uniform(.88, 1.15)
    else:
        center, side = landmark_region(points)
        side *= rng.uniform(.83, 1.27)
    return center + rng.normal(0, .06, 2) * extent, side


def _draw_placed_hand(rng):
    """Draws a hand before the camera, upright but for the error of a crop."""
    hand = draw_hand(rng, upright_turn(rng))
    distance = np.array([0, 0, rng.uniform(.28, .8)])
    points = hand.points + distance
    roll = upright_roll(points[:, :2] / points[:, 2:]) + rng.normal(0, .2)
    turn = rotation(np.array([0, 0, 1.]), roll)
    hand.points, hand.turn = points @ turn.T, turn @ hand.turn
    return hand


def _clutter(rng, cones, setting, middle):
    """Replaces the hand by something that is none. Returns the cones."""
    kind = rng.random()
    if kind < .4:
        return Cones()
    if kind < .7:
        sticks = Cones()
        add_distractors(rng, sticks, middle, int(rng.integers(2, 7)))
        return sticks
    # A hand that is mostly outside of the crop.
    axis = rng.integers(2)
    setting["center"][axis] += SIZE * rng.choice([-1, 1]) * rng.uniform(.75, 1)
    return cones


def draw_crop(rng, bank):
    """Draws a record."""
    record, cones, setting, hand = np.zeros((), RECORD), Cones(), draw_setting(rng), _draw_placed_hand(rng)
    add_hand(rng, cones, hand)
    center, side = draw_region(rng, hand.points[:, :2] / hand.points[:, 2:])
    setting["focal"] = SIZE / side
    setting["center"] = SIZE / 2 - center * setting["focal"]
    record["is_right"], record["is_hand"] = hand.is_right, rng.random() >= NO_HAND
    record["points"][:, :2] = project(hand.points, setting)
    # Depth relative to the wrist, in the scale of x and y.
    depths = hand.points[:, 2]
    record["points"][:, 2] = (depths - depths[0]) * setting["focal"] / depths.mean()
    record["world"] = (hand.points - hand.points.mean(0)) / hand.skeleton.size
    if not record["is_hand"]:
        cones = _clutter(rng, cones, setting, hand.points.mean(0))
    record["image"] = render(cones, setting, bank.cut(rng, SIZE, SIZE))
    return record


def draw_crops(rng, count):
    bank = Bank(rng, BACKGROUNDS, SIZE + 38)
    return np.stack([draw_crop(rng, bank) for _ in range(count)])
