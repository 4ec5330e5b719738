"""Whole scenes with up to two hands: training and test data of the palm detector."""
import numpy as np
from backgrounds import Bank
from hand_crops import PALM_MARGIN, upright_roll
from hand_scenes import (LANDMARKS, PALM, Cones, add_distractors, add_hand, draw_hand, draw_setting, project,
                         random_rotation, render, rotation, upright_turn)

SIZE = 128
MAX_HANDS = 2
# Side of the box of a palm relative to the image.
PALM_SIDES = (.09, .55)
BACKGROUNDS = 240
HAND = np.dtype([("points", "2f4", LANDMARKS), ("center", "2f4"), ("side", "f4"), ("is_ignored", "?")])
RECORD = np.dtype([("image", "u1", (SIZE, SIZE, 3)), ("hands", HAND, MAX_HANDS), ("count", "i2")])


def palm_square(points):
    """Returns center and side of the box of a palm in any orientation, from landmarks (x, y).

    The side is measured along and across the palm, so that it does not depend on the rotation.
    """
    roll = upright_roll(points)
    turn = np.array([[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]])
    upright = points[PALM] @ turn.T
    low, high = upright.min(0), upright.max(0)
    return (low + high) / 2 @ turn, (high - low).max() * PALM_MARGIN


def _draw_turn(rng):
    """Draws an orientation: mostly upright with some roll, else anything."""
    if rng.random() < .2:
        return random_rotation(rng)
    roll = rng.normal(0, .5) if rng.random() < .7 else rng.uniform(-np.pi, np.pi)
    return rotation(np.array([0, 0, 1.]), roll) @ upright_turn(rng)


def draw_scene(rng, bank, size=SIZE):
    """Draws a record."""
    record, cones, setting = np.zeros((), RECORD), Cones(), draw_setting(rng)
    setting["focal"], setting["center"] = size * rng.uniform(.8, 1.4), size / 2
    count = rng.choice(3, p=(.2, .5, .3))
    hands, attempts = [], 0
    while len(hands) < count and attempts < 20:
        attempts += 1
        hand = draw_hand(rng, _draw_turn(rng))
        side = size * np.exp(rng.uniform(*np.log(PALM_SIDES)))
        depth = .11 * setting["focal"] / side
        position = rng.uniform(.05, .95, 2) * size
        hand.points = hand.points + np.append((position - setting["center"]) / setting["focal"], 1) * depth
        if hand.points[:, 2].min() < .05:
            continue
        points = project(hand.points, setting)
        center, side = palm_square(points)
        if all(np.linalg.norm(center - other["center"]) > .9 * (side + other["side"]) for other in hands):
            inside = ((points[PALM] > 0) & (points[PALM] < size)).all(1).sum()
            hands.append(np.array((points, center, side, inside < 5 or side < .07 * size), HAND))
            add_hand(rng, cones, hand)
    if rng.random() < .35:
        depth = rng.uniform(.3, 1)
        middle = np.append((rng.uniform(0, 1, 2) * size - setting["center"]) / setting["focal"], 1) * depth
        add_distractors(rng, cones, middle + [0, 0, .2], int(rng.integers(1, 5)))
    record["count"] = len(hands)
    record["hands"][:len(hands)] = hands
    record["image"] = render(cones, setting, bank.cut(rng, size, size))
    return record


def draw_scenes(rng, count):
    """Draws records."""
    bank = Bank(rng, BACKGROUNDS, SIZE + 40)
    return np.stack([draw_scene(rng, bank) for _ in range(count)])
