"""Views into rooms with depth and boxes: training and test data of the depth and object models."""
import numpy as np
from room_scenes import LABELS, NO_CLASS, draw_room, looking, render

WIDTH, HEIGHT = 160, 120
MAX_BOXES = 20
# Horizontal field of view in degrees. Depth in meters depends on it.
FIELD_OF_VIEW = (63, 71)
# Height of the camera in meters, as in a hand or on glasses. It gives the scale of a room.
CAMERA_HEIGHT = (1.3, 1.65)
# Objects that are smaller (rays of 4 per pixel) or more hidden are ignored: neither required nor
# counted as false.
MIN_RAYS, MIN_VISIBLE = 100, 0.3
BOX = np.dtype([("corners", "4f4"), ("label", "i2"), ("is_ignored", "?")])
RECORD = np.dtype([("image", "u1", (HEIGHT, WIDTH, 3)), ("depth", "f2", (HEIGHT, WIDTH)), ("boxes", BOX, MAX_BOXES),
                   ("count", "i2")])
VIEWS_OF_A_ROOM = 4


def draw_view(rng, room, width=WIDTH, height=HEIGHT):
    """Draws a view. Most look at an object, the others across the room."""
    focal = width / 2 / np.tan(np.radians(rng.uniform(*FIELD_OF_VIEW)) / 2)
    position = rng.uniform(-.75, .75, 3) * room.half
    position[1] = room.half[1] - rng.uniform(*CAMERA_HEIGHT)
    yaw, pitch = np.arctan2(-position[0], -position[2]) + rng.normal(0, .7), rng.normal(-.25, .2)
    if room.objects and rng.random() < 0.65:
        target = room.objects[rng.integers(len(room.objects))]
        x, y, z = target.bottom + [0, -.15, 0] - position
        yaw, pitch = np.arctan2(x, z) + rng.normal(0, .2), -np.arctan2(y, np.hypot(x, z)) + rng.normal(0, .12)
    return looking(position, yaw, np.clip(pitch, -1.1, .5), rng.normal(0, .05), focal, (width / 2, height / 2), room)


def boxes_of(room, extents):
    """Returns the boxes of the visible objects."""
    boxes = []
    for placed, extent in zip(room.objects, extents):
        if placed.label != NO_CLASS and extent["visible"]:
            is_ignored = extent["visible"] < MIN_RAYS or extent["visible"] < MIN_VISIBLE * extent["covered"]
            boxes.append((extent["box"], placed.label, is_ignored))
    return np.array(boxes[:MAX_BOXES], BOX)


def rendered_views(rng, count, views_of_a_room):
    """Yields rooms with image, depth and extents of their objects."""
    for i in range(count):
        if i % views_of_a_room == 0:
            room = draw_room(rng)
        depth = np.zeros(1)
        while depth.min() < .25:  # not inside of an object or right before one
            image, depth, extents = render(room, draw_view(rng, room), WIDTH, HEIGHT)
        yield room, image, depth, extents


def draw_views(rng, count):
    """Draws records."""
    records = np.zeros(count, RECORD)
    for record, (room, image, depth, extents) in zip(records, rendered_views(rng, count, VIEWS_OF_A_ROOM)):
        boxes = boxes_of(room, extents)
        record["image"], record["depth"], record["count"] = image, depth, len(boxes)
        record["boxes"][:len(boxes)] = boxes
    return records


assert len(LABELS) == 8
