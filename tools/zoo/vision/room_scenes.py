"""Random rooms with objects of eight classes, and views into them.

World coordinates: y down, in meters, with the origin in the middle of the room.
"""
import dataclasses

import native
import numpy as np

LABELS = ["ball", "book", "bottle", "box", "can", "chair", "lamp", "table"]
# Doors, windows and posters: no class.
NO_CLASS = -1
BOX, SPHERE, CYLINDER = range(3)
PATTERNS = 5
MAX_OBJECTS = 24
PRIMITIVE = np.dtype([("kind", "f4"), ("center", "3f4"), ("half", "3f4"), ("yaw", "f4"), ("color", "3f4"),
                      ("pattern", "f4"), ("frequency", "f4"), ("offset", "f4")])
OBJECT = np.dtype([("first", "i4"), ("count", "i4"), ("center", "3f4"), ("radius", "f4")])
VIEW = np.dtype([("focal", "f4"), ("center", "2f4"), ("turn", "(3,3)f4"), ("position", "3f4"), ("light", "3f4"),
                 ("ambient", "f4"), ("light_level", "f4")])
EXTENT = np.dtype([("visible", "i4"), ("covered", "i4"), ("box", "4i4")])


def _material(rng, low=.05, frequency=(3, 14), plain=.5):
    """Draws color, pattern, frequency and offset."""
    pattern = 0 if rng.random() < plain else rng.integers(1, PATTERNS)
    return rng.uniform(low, 1, 3) ** 1.5, pattern, rng.uniform(*frequency), rng.uniform(0, 99)


@dataclasses.dataclass
class Placed:
    """Object: class, position of its bottom, parts (kind, offset, half, material)."""
    label: int
    bottom: np.ndarray
    yaw: float
    parts: list
    # Height of the surface that things can stand on; 0 for none.
    surface: float = 0.0
    # Radius of the footprint.
    reach: float = 0.0


def _ball(rng):
    radius = rng.uniform(.06, .2)
    return [(SPHERE, (0, -radius, 0), (radius,) * 3, _material(rng))], radius


def _book(rng):
    half = np.array([rng.uniform(.07, .12), rng.uniform(.012, .03), rng.uniform(.1, .16)])
    cover, pages = _material(rng), (np.full(3, rng.uniform(.6, .9)), 3, 40, 0)
    parts = [(BOX, (0, -half[1], 0), half * [.97, .8, .97], pages)]
    parts += [(BOX, (0, y, 0), half * [1, .15, 1], cover) for y in (-half[1] * .15, -half[1] * 1.85)]
    parts.append((BOX, (-half[0], -half[1], 0), half * [.05, 1, 1], cover))
    return parts, half[2]


def _bottle(rng):
    radius, height, material = rng.uniform(.03, .05), rng.uniform(.09, .14), _material(rng)
    neck = radius * rng.uniform(.3, .45)
    parts = [(CYLINDER, (0, -height, 0), (radius, height, radius), material),
             (SPHERE, (0, -2 * height, 0), (radius * .98,) * 3, material),
             (CYLINDER, (0, -2 * height - radius * 1.3, 0), (neck, radius * .9, neck), material),
             (CYLINDER, (0, -2 * height - radius * 2.2, 0), (neck * 1.2, .012, neck * 1.2), _material(rng, plain=1))]
    if rng.random() < .6:
        parts.append((CYLINDER, (0, -height, 0), (radius * 1.02, height * .45, radius), _material(rng, .3)))
    return parts, radius


def _box(rng):
    half = rng.uniform(.07, .25, 3) * rng.uniform(.6, 1.2)
    return [(BOX, (0, -half[1], 0), half, _material(rng))], max(half[0], half[2])


def _can(rng):
    radius, height = rng.uniform(.033, .06), rng.uniform(.05, .09)
    metal = (np.full(3, rng.uniform(.4, .8)), 0, 1, 0)
    parts = [(CYLINDER, (0, -height, 0), (radius, height * .94, radius), _material(rng, plain=.4))]
    parts += [(CYLINDER, (0, y, 0), (radius * .96, .006, radius), metal) for y in (-height * .03, -height * 1.97)]
    return parts, radius


def _legs(rng, x, z, height, material):
    thickness = rng.uniform(.015, .03)
    kind = CYLINDER if rng.random() < .5 else BOX
    half = (thickness, height / 2, thickness)
    return [(kind, (sx * (x - thickness), -height / 2, sz * (z - thickness)), half, material)
            for sx in (-1, 1) for sz in (-1, 1)]


def _chair(rng):
    side, height, back = rng.uniform(.18, .24), rng.uniform(.4, .5), rng.uniform(.18, .3)
    frame = _material(rng, plain=.7)
    seat = frame if rng.random() < .5 else _material(rng)
    parts = [(BOX, (0, -height, 0), (side, .02, side), seat),
             (BOX, (0, -height - back, side - .015), (side, back, .018), seat)]
    return parts + _legs(rng, side, side, height, frame), side


def _lamp(rng):
    height, radius = rng.uniform(.15, .35), rng.uniform(.08, .15)
    foot, shade = _material(rng, plain=.9), (rng.uniform(.7, 1, 3), 0, 1, 0)
    drum = radius * rng.uniform(.6, 1)
    top = ((SPHERE, (0, -2 * height - radius * .8, 0), (radius,) * 3, shade) if rng.random() < .35 else
           (CYLINDER, (0, -2 * height - drum * .7, 0), (radius, drum, radius), shade))
    return [(CYLINDER, (0, -.012, 0), (radius * .7, .012, radius), foot),
            (CYLINDER, (0, -height, 0), (.012, height, .012), foot), top], radius


def _table(rng):
    x, z, height, top = rng.uniform(.3, .65), rng.uniform(.25, .45), rng.uniform(.45, .75), _material(rng, plain=.6)
    legs = top if rng.random() < .5 else _material(rng, plain=.9)
    board = [(CYLINDER, (0, -height, 0), (x, .02, x), top)] if rng.random() < .2 else \
        [(BOX, (0, -height, 0), (x, .02, z), top)]
    if board[0][0] == CYLINDER:
        return board + [(CYLINDER, (0, -height / 2, 0), (.04, height / 2, .04), legs),
                        (CYLINDER, (0, -.015, 0), (x * .5, .015, x), legs)], x
    return board + _legs(rng, x, z, height, legs), max(x, z)


MAKERS = [_ball, _book, _bottle, _box, _can, _chair, _lamp, _table]
SMALL = [LABELS.index(name) for name in ("ball", "book", "bottle", "box", "can", "lamp")]
LARGE = [LABELS.index(name) for name in ("chair", "chair", "table", "table", "box", "lamp")]


@dataclasses.dataclass
class Room:
    """Room with its objects. `half` is half of its size."""
    half: np.ndarray
    materials: list
    objects: list
    light: np.ndarray
    ambient: float
    light_level: float

    def arrays(self):
        """Returns primitives and objects for the renderer."""
        primitives = [(BOX, (0, 0, 0), tuple(self.half), 0, *_flat(material)) for material in self.materials]
        objects = []
        for placed in self.objects:
            first, c, s = len(primitives), np.cos(placed.yaw), np.sin(placed.yaw)
            corners = []
            for kind, (x, y, z), half, material in placed.parts:
                center = placed.bottom + [c * x + s * z, y, -s * x + c * z]
                primitives.append((kind, tuple(center), tuple(half), placed.yaw, *_flat(material)))
                corners.append((center, np.linalg.norm(half) if kind != SPHERE else half[0]))
            middle = np.mean([center for center, _ in corners], 0)
            radius = max(np.linalg.norm(center - middle) + reach for center, reach in corners)
            objects.append((first, len(placed.parts), tuple(middle), radius))
        return np.array(primitives, PRIMITIVE), np.array(objects, OBJECT)


def _flat(material):
    color, pattern, frequency, offset = material
    return tuple(color), pattern, frequency, offset


def _put(rng, label, room_half, others):
    """Draws an object on the floor or on a table; None if there is no free position."""
    parts, reach = MAKERS[label](rng)
    tables = [other for other in others if other.surface]
    on_table = label in SMALL and tables and rng.random() < .6
    for _ in range(12):
        if on_table:
            table = tables[rng.integers(len(tables))]
            spread = max(table.reach * .6 - reach * .5, .02)
            x, z = rng.uniform(-spread, spread, 2) * [1, .6]
            c, s = np.cos(table.yaw), np.sin(table.yaw)
            bottom = table.bottom + [c * x + s * z, -table.surface, -s * x + c * z]
            level = [other for other in others if abs(other.bottom[1] - bottom[1]) < .05]
        else:
            x, z = (rng.uniform(-1, 1, 2) * np.maximum(room_half[[0, 2]] - reach - .05, .1))
            bottom, level = np.array([x, room_half[1], z]), [o for o in others if o.bottom[1] == room_half[1]]
        if all(np.hypot(*(bottom - other.bottom)[[0, 2]]) > (reach + other.reach) * .9 for other in level):
            surface = -min(y for _, (_, y, _), _, _ in parts) + .02 if label == LABELS.index("table") else 0.0
            return Placed(label, bottom, rng.uniform(0, 2 * np.pi), parts, surface, reach)
    return None


def _decoration(rng, half):
    """Draws a poster, window or door: a flat box on a wall."""
    side, sign = rng.integers(2), rng.choice([-1, 1])
    size = np.array([rng.uniform(.2, .6), rng.uniform(.2, .6), .02])
    y = rng.uniform(-.5, .1)
    if rng.random() < .3:
        size[:2], y = (rng.uniform(.35, .5), min(1.0, half[1] * .85)), 0.0
        y = half[1] - size[1]
    along = rng.uniform(-.7, .7) * half[2 if side == 0 else 0]
    center = np.array([sign * half[0], y, along] if side == 0 else [along, y, sign * half[2]])
    material = _material(rng, frequency=(1.5, 10), plain=.4)
    return Placed(NO_CLASS, center, np.pi / 2 if side == 0 else 0.0, [(BOX, (0, 0, 0), size, material)])


def draw_room(rng, objects=None):
    """Draws a room. Labels of the objects are drawn unless they are given."""
    half = np.array([rng.uniform(1.4, 3), rng.uniform(1.15, 1.45), rng.uniform(1.4, 3)])
    materials = [_material(rng, .35, (.8, 5)), _material(rng, .15, (.8, 5), .3), _material(rng, .6, (.8, 5), .8)]
    light = rng.uniform(-.7, .7, 3) * half
    light[1] = -half[1] + rng.uniform(.1, .5)
    room = Room(half, materials, [], light, rng.uniform(.15, .5), rng.uniform(.35, .9))
    if objects is None:
        objects = [*rng.choice(LARGE, rng.integers(3, 7)), *rng.choice(SMALL, rng.integers(5, 12))]
    # Tables first, so that things can stand on them.
    for label in sorted(objects, key=lambda label: LABELS[label] != "table"):
        if placed := _put(rng, label, half, room.objects):
            room.objects.append(placed)
    room.objects += [_decoration(rng, half) for _ in range(rng.integers(0, 5))]
    return room


def looking(position, yaw, pitch, roll, focal, center, room):
    """Returns a view. Yaw 0 looks along z; a positive pitch looks up."""
    view = np.zeros((), VIEW)
    cy, sy, cp, sp, cr, sr = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch), np.cos(roll), np.sin(roll)
    view["turn"] = (np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]]) @ np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
                    @ np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]]))
    view["position"], view["focal"], view["center"] = position, focal, center
    view["light"], view["ambient"], view["light_level"] = room.light, room.ambient, room.light_level
    return view


def render(room, view, width, height):
    """Returns RGB image, depth map and extents of the objects."""
    primitives, objects = room.arrays()
    image, depth = np.zeros((height, width, 3), np.uint8), np.zeros((height, width), np.float32)
    extents = np.zeros(len(objects), EXTENT)
    native.load("rooms").render_room(width, height, native.pointer(primitives), native.pointer(objects), len(objects),
                                     native.pointer(view), native.pointer(image), native.pointer(depth),
                                     native.pointer(extents))
    return image, depth, extents


assert PRIMITIVE.itemsize == 4 * 14 and OBJECT.itemsize == 4 * 6 and VIEW.itemsize == 4 * 20 and EXTENT.itemsize == 24
