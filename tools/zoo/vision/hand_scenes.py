"""Random hands: poses, skeletons, and the cones, camera and light of a rendered image.

The skeleton has the 21 landmarks of MediaPipe. Its own frame has y towards the fingers and z out of
the back of the hand, in meters, so that the thumb of a left hand is at positive x. Images are not
mirrored: a right hand is the right hand of a person.
"""
import ctypes
import dataclasses

import native
import numpy as np
from backgrounds import SKINS

LANDMARKS = 21
# Landmarks of the palm that a palm detector predicts, as in MediaPipe: wrist, the four knuckles from
# the index finger on, base and knuckle of the thumb.
PALM = [0, 5, 9, 13, 17, 1, 2]
TIPS = [4, 8, 12, 16, 20]
MAX_CONES = 128
# Landmarks of a hand that its forearm may hide.
MAX_HIDDEN = 4
SKIN, FINGERTIP, FABRIC = range(3)
CONE = np.dtype([("a", "3f4"), ("b", "3f4"), ("ra", "f4"), ("rb", "f4"), ("back", "3f4"), ("color", "3f4"),
                 ("part", "f4")])
SETTING = np.dtype([("focal", "f4"), ("center", "2f4"), ("light", "3f4"), ("fill", "3f4"), ("light_color", "3f4"),
                    ("ambient", "3f4"), ("fill_level", "f4"), ("shininess", "f4"), ("specular", "f4"),
                    ("texture", "f4"), ("texture_scale", "f4"), ("texture_offset", "f4")])

# Index to little finger: knuckle positions, phalanx lengths, joint radii, in meters.
KNUCKLES = np.array([[.026, .092, .0], [.004, .096, .003], [-.016, .090, .001], [-.034, .079, -.003]])
PHALANGES = np.array([[.043, .025, .021], [.047, .029, .022], [.044, .027, .022], [.035, .020, .019]])
RADII = np.array([[.0100, .0090, .0082, .0068], [.0102, .0092, .0083, .0070], [.0096, .0086, .0078, .0066],
                  [.0085, .0075, .0068, .0058]])
THUMB_RADII = np.array([.0165, .0135, .0108, .0085])
BONES = [(1, 2), (2, 3), (3, 4)] + [(5 + 4 * f + j, 6 + 4 * f + j) for f in range(4) for j in range(3)]
# Gestures: flexion (0 to 1) of the two joints of each finger from the index on; of the thumb
# opposition and the flexion of two joints.
STRAIGHT, CURLED = (0, 0), (.95, .95)
GESTURES = {
    "open": ([STRAIGHT] * 4, (.1, 0, 0)),
    "fist": ([CURLED] * 4, (.7, .5, .6)),
    "point": ([(0, .05)] + [CURLED] * 3, (.7, .5, .6)),
    "victory": ([STRAIGHT, STRAIGHT, CURLED, CURLED], (.8, .5, .6)),
    "thumb_up": ([CURLED] * 4, (0, 0, 0)),
    "pinch": ([(.55, .50), (.35, .3), (.25, .25), (.2, .2)], (.75, .25, .3)),
    "ok": ([(.6, .55), (.1, .1), (.05, .05), (0, .05)], (.75, .25, .3)),
    "horns": ([STRAIGHT, CURLED, CURLED, STRAIGHT], (.7, .5, .6)),
    "four": ([STRAIGHT] * 4, (.9, .5, .5)),
    "call": ([CURLED] * 3 + [STRAIGHT], (0, 0, 0)),
    "relaxed": ([(.25, .3), (.3, .35), (.35, .4), (.4, .4)], (.35, .2, .2)),
    "grab": ([(.5, .55)] * 4, (.6, .2, .3)),
    "three": ([STRAIGHT, STRAIGHT, STRAIGHT, CURLED], (.85, .5, .6)),
}


def rotation(axis, angle):
    """Returns the matrix of a rotation about an axis."""
    x, y, z = axis / np.linalg.norm(axis)
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * skew + (1 - np.cos(angle)) * skew @ skew


def random_rotation(rng):
    w, x, y, z = (q := rng.normal(size=4)) / np.linalg.norm(q)
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                     [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                     [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])


def draw_pose(rng):
    """Draws flexion of fingers (4, 2) and thumb (3), a gesture or a blend of two, with noise."""
    names = list(GESTURES)
    fingers, thumb = (np.array(part, float) for part in GESTURES[names[rng.integers(len(names))]])
    if rng.random() < 0.5:
        other, weight = GESTURES[names[rng.integers(len(names))]], rng.random()
        fingers = fingers * (1 - weight) + np.array(other[0]) * weight
        thumb = thumb * (1 - weight) + np.array(other[1]) * weight
    fingers, thumb = fingers + rng.normal(0, .07, (4, 2)), thumb + rng.normal(0, .08, 3)
    if rng.random() < 0.2:
        fingers = rng.random((4, 1)) * .95 + rng.normal(0, .15, (4, 2))
    return np.clip(fingers, -.12, 1.08), np.clip(thumb, -.1, 1.1)


@dataclasses.dataclass
class Skeleton:
    """Landmarks, joint radii, and directions of the back of each joint, of a left hand.

    `size` is the factor that the average size was multiplied by.
    """
    points: np.ndarray
    radii: np.ndarray
    backs: np.ndarray
    size: float


def _bend_finger(points, backs, first, start, direction, back, lengths, angles):
    """Sets the joints of a finger from landmark `first` on. Positive angles bend to the palm."""
    points[first] = start
    side = np.cross(direction, back)
    for j, (length, angle) in enumerate(zip(lengths, angles), 1):
        turn = rotation(side, -angle)
        direction, back = turn @ direction, turn @ back
        points[first + j] = points[first + j - 1] + direction * length
        backs[first + j] = back


def draw_skeleton(rng, pose):
    """Draws a hand of random proportions in a pose."""
    fingers, thumb = pose
    width, length, thickness = rng.uniform(.9, 1.12), rng.uniform(.92, 1.1), rng.uniform(.88, 1.22)
    spread = rng.normal(.35, .45)
    knuckles = KNUCKLES * [width, 1, 1]
    knuckles[:, 2] -= np.array([0, 0, 0, .004]) * rng.uniform(0, 2)
    points, radii, backs = np.zeros((LANDMARKS, 3)), np.zeros(LANDMARKS), np.zeros((LANDMARKS, 3))
    radii[0] = .021
    for f in range(4):
        splay = (.16, .03, -.10, -.24)[f] * spread * (1 - .75 * max(fingers[f, 0], 0)) + rng.normal(0, .03)
        angles = fingers[f, 0] * 1.55, fingers[f, 1] * 1.85, fingers[f, 1] * 1.15 * rng.uniform(.75, 1.1)
        direction = np.array([np.sin(splay), np.cos(splay), 0])
        _bend_finger(points, backs, 5 + 4 * f, knuckles[f], direction, np.array([0, 0, 1.]), PHALANGES[f] * length,
                     angles)
        radii[5 + 4 * f:9 + 4 * f] = RADII[f] * thickness
    # Opposition swings the thumb from the side to the front of the palm; its nail faces sideways.
    yaw = np.radians(50 - 28 * thumb[0] + rng.normal(0, 5))
    pitch = np.radians(-12 - 52 * thumb[0] + rng.normal(0, 5))
    direction = np.array([np.sin(yaw) * np.cos(pitch), np.cos(yaw) * np.cos(pitch), np.sin(pitch)])
    nail = np.array([.55, -.25, .8])
    nail -= direction * (nail @ direction)
    _bend_finger(points, backs, 1, np.array([.022 * width, .022, -.006]), direction, nail / np.linalg.norm(nail),
                 np.array([.044, .033, .027]) * length, (0, thumb[1] * .9, thumb[2] * 1.2))
    radii[1:5] = THUMB_RADII * thickness
    size = rng.uniform(.88, 1.12)
    return Skeleton(points * size, radii * size, backs, size)


class Cones:
    """Cones of a scene, in the axes of the camera."""

    def __init__(self):
        self.rows = []

    def add(self, a, b, ra, rb, color, part=SKIN, back=(0, 0, 1)):
        self.rows.append((tuple(a), tuple(b), ra, rb, tuple(back), tuple(color), part))

    def array(self):
        return np.array(self.rows[:MAX_CONES], CONE)


@dataclasses.dataclass
class Hand:
    """Hand in the axes of the camera: landmarks in meters, and the rotation of its frame."""
    points: np.ndarray
    skeleton: Skeleton
    turn: np.ndarray
    is_right: bool

    @property
    def mirror(self):
        return np.array([-1. if self.is_right else 1., 1, 1])


def turned_hand(skeleton, is_right, turn):
    """Returns a hand around the origin, with its own frame turned by `turn`."""
    # From y up and z to the camera, to the axes of the camera.
    turn = np.diag([1., -1, -1]) @ turn
    hand = Hand(skeleton.points, skeleton, turn, is_right)
    hand.points = (skeleton.points * hand.mirror) @ turn.T
    hand.points -= hand.points.mean(0)
    return hand


def draw_hand(rng, turn):
    """Draws a hand of random pose and side around the origin."""
    skeleton, is_right = draw_skeleton(rng, draw_pose(rng)), bool(rng.random() < 0.5)
    return turned_hand(skeleton, is_right, turn)


def upright_turn(rng):
    """Draws the rotation of a hand whose fingers point up, more or less."""
    if rng.random() < 0.6:
        yaw = rng.uniform(-np.pi, np.pi)
    else:
        yaw = rng.normal(0, .5) + np.pi * (rng.random() < 0.5)
    pitch = rng.normal(0, .55)
    return rotation(np.array([1., 0, 0]), pitch) @ rotation(np.array([0, 1., 0]), yaw)


def _add_palm(cones, hand, skin):
    """Adds the palm, which consists of thick cones from the wrist to the knuckles."""
    points, radii = hand.points, hand.skeleton.radii
    size = np.linalg.norm(points[9] - points[0]) / .096
    back, inward = hand.turn @ [0, 0, 1.], hand.turn @ [0, 0, -.004 * size]
    side = hand.turn @ (hand.mirror * [size, 0, 0])
    wrist = points[0]

    def add(a, b, ra, rb):
        cones.add(a, b, ra, rb, skin, back=back)

    for f, (offset, radius) in enumerate(((.013, .017), (.003, .018), (-.007, .0175), (-.016, .016))):
        knuckle = 5 + 4 * f
        add(wrist + side * offset * .9 + (points[9] - wrist) * .12, points[knuckle] + inward, radius * size,
            radii[knuckle] * 1.18)
        if f < 3:
            add(points[knuckle] + inward, points[knuckle + 4] + inward, radii[knuckle] * 1.05,
                radii[knuckle + 4] * 1.05)
    add(wrist + side * .010, points[2], .0185 * size, radii[2] * 1.02)
    add(points[1], (points[5] + wrist) / 2 + inward, .0175 * size, .013 * size)
    add(points[2], points[5] * .75 + wrist * .25, radii[2] * .8, .010 * size)


def _hidden_by_arm(points, wrist, elbow, radius):
    """Returns how many points the forearm hides from the origin."""
    axis = wrist + np.linspace(.2, 1, 16)[:, None] * (elbow - wrist)
    rays = points / np.linalg.norm(points, axis=1, keepdims=True)
    along = rays @ axis.T
    gap = np.linalg.norm(axis[None] - along[..., None] * rays[:, None], axis=2)
    return int(((gap < radius) & (along < np.linalg.norm(points, axis=1)[:, None])).any(1).sum())


def _draw_arm(rng, hand, size):
    """Draws the direction of a forearm that hides few landmarks."""
    wrist, along = hand.points[0], hand.turn @ [0, -1., 0]
    for _ in range(8):
        arm = rotation(random_rotation(rng)[0], rng.normal(0, .35)) @ along
        if _hidden_by_arm(hand.points, wrist, wrist + arm * .26 * size, .06 * size) <= MAX_HIDDEN:
            return arm
        # Away from the camera.
        along = along + [0, 0, .25]
        along /= np.linalg.norm(along)
    return along


def _add_arm(rng, cones, hand, skin):
    """Adds the forearm, at times with a sleeve or a bracelet."""
    wrist, size = hand.points[0], np.linalg.norm(hand.points[9] - hand.points[0]) / .096
    back, side = hand.turn @ [0, 0, 1.], hand.turn @ (hand.mirror * [size, 0, 0])
    arm = _draw_arm(rng, hand, size)
    elbow = wrist + arm * .26 * size
    elbow[2] = max(elbow[2], .08)
    cones.add(wrist + side * .007, elbow + side * .014, .0195 * size, .030 * size, skin, back=back)
    cones.add(wrist - side * .009, elbow - side * .014, .0185 * size, .030 * size, skin, back=back)
    if rng.random() < .55:
        start = wrist + (elbow - wrist) * rng.uniform(.05, .5)
        cones.add(start, elbow, .036 * size * rng.uniform(.95, 1.4), .045 * size * rng.uniform(1, 1.4),
                  rng.random(3) ** 1.5 * .9, FABRIC)
    if rng.random() < .15:
        middle = wrist + arm * .035 * size
        cones.add(middle - side * .015, middle + side * .015, .023 * size, .023 * size, rng.random(3) * .5, FABRIC)


def add_hand(rng, cones, hand):
    """Adds a hand with its forearm, at times with something in the hand."""
    skin = SKINS[rng.integers(len(SKINS))] * rng.uniform(.8, 1.2) * [1, rng.uniform(.93, 1.07), rng.uniform(.9, 1.1)]
    backs = (hand.skeleton.backs * hand.mirror) @ hand.turn.T
    for a, b in BONES:
        cones.add(hand.points[a], hand.points[b], hand.skeleton.radii[a], hand.skeleton.radii[b], skin,
                  FINGERTIP if b in TIPS else SKIN, backs[b])
    _add_palm(cones, hand, skin)
    _add_arm(rng, cones, hand, skin)
    if rng.random() < .15:
        middle, along = hand.points[9] + hand.turn @ [0, 0, -.016], random_rotation(rng)[0]
        radius = rng.uniform(.004, .014)
        cones.add(middle - along * .1, middle + along * .1, radius, radius, rng.random(3), FABRIC)


def add_distractors(rng, cones, middle, count):
    """Adds sticks in colors of skin and fabric that are no hand."""
    for _ in range(count):
        color = SKINS[rng.integers(len(SKINS))] if rng.random() < 0.6 else rng.random(3)
        radii = rng.uniform(.006, .05, 2)
        # The hull of two spheres is a cone only if neither contains the other.
        a, b = middle + rng.uniform(-.12, .12, 3), middle + rng.uniform(-.15, .15, 3)
        if np.linalg.norm(b - a) > abs(radii[0] - radii[1]) + .005:
            cones.add(a, b, *radii, color, SKIN if rng.random() < 0.7 else FABRIC)


def draw_setting(rng):
    """Draws light and skin texture. The caller sets the camera."""
    setting = np.zeros((), SETTING)
    light, fill = rng.normal(size=3), rng.normal(size=3)
    light[2], light[1] = -abs(light[2]) - .2, light[1] - .6
    setting["light"], setting["fill"] = light / np.linalg.norm(light), fill / np.linalg.norm(fill)
    setting["light_color"] = rng.uniform(.55, 1.5) * (1 + rng.normal(0, .12, 3))
    setting["ambient"] = rng.uniform(.12, .6) * (1 + rng.normal(0, .1, 3))
    setting["fill_level"], setting["shininess"] = rng.uniform(0, .4), rng.uniform(8, 40)
    setting["specular"], setting["texture"] = rng.uniform(0, .22), rng.uniform(.03, .22)
    setting["texture_scale"], setting["texture_offset"] = rng.uniform(60, 260), rng.uniform(-50, 50)
    return setting


def render(cones, setting, background):
    """Renders cones over a background (height, width, 3), in place."""
    array, (height, width) = cones.array(), background.shape[:2]
    native.load("hands").render_hands(width, height, native.pointer(array), len(array), native.pointer(setting),
                                      native.pointer(background))
    return background


def project(points, setting):
    """Returns the pixels (x, y) of points."""
    return points[..., :2] / points[..., 2:] * setting["focal"] + setting["center"]


# ctypes passes sizes as C ints, and the structs of hands.c have no padding.
assert CONE.itemsize == 15 * ctypes.sizeof(ctypes.c_float) and SETTING.itemsize == 21 * ctypes.sizeof(ctypes.c_float)
