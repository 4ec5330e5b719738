"""Walks through three rendered rooms with 30 objects: test data of the scene memory.

    python tools/zoo/vision/walks.py FOLDER SEED...      writes walks with these seeds

A walk is a video, the trajectory of its camera in the format of TUM (time, position, quaternion of
`world_from_camera`), and a JSON file with the objects. The world has z up and the floor at zero; the
camera looks along its z axis, with y down. The rooms lie one after the other along x.
"""
import json
import os
import sys

import avi
import numpy as np
import paths  # noqa: F401
import room_scenes

RATE, WIDTH, HEIGHT, QUALITY = 5, 240, 180, 58
FIELD_OF_VIEW = 67
ROOMS, SECONDS_OF_A_ROOM, PITCH_OF_ROOMS = 3, 20, 10.0
LABELS_OF_A_ROOM = ["table", "table", "chair", "chair", "lamp", "box", "ball", "book", "bottle", "can"]
# Height of the eyes, and the distance at which the walker stops before an object, in meters.
EYES, NEAR = 1.45, 1.3
# Least number of rays (four per pixel) and least part of an object that are visible if it is seen in an image, and
# least number of such images. Rooms with an object that is seen in fewer are drawn again.
MIN_RAYS, MIN_VISIBLE, MIN_IMAGES = 224, .3, 8
# Axes of the world from those of a room (y down).
TURN = np.array([[0, 0, 1.], [-1, 0, 0], [0, -1, 0]])


def draw_room(rng):
    """Draws a room in which all objects have found a position."""
    labels = [room_scenes.LABELS.index(label) for label in LABELS_OF_A_ROOM]
    while True:
        room = room_scenes.draw_room(rng, labels)
        if len(named(room)) == len(labels):
            return room


def named(room):
    """Returns the objects that have a class, with their indices."""
    return [(i, o) for i, o in enumerate(room.objects) if o.label != room_scenes.NO_CLASS]


def smooth(values, width):
    """Moving average with reflected ends."""
    kernel = np.hanning(width + 2)[1:-1]
    padded = np.pad(values, ((width, width), (0, 0)), "edge")
    return np.stack([np.convolve(column, kernel / kernel.sum(), "same") for column in padded.T], 1)[width:-width]


def middle(placed):
    """Returns the middle of an object."""
    low, high = bounds(placed)
    return (low + high) / 2


def bounds(placed):
    """Returns the lowest and highest coordinates of an object."""
    c, s = np.cos(placed.yaw), np.sin(placed.yaw)
    lows, highs = [], []
    for kind, (x, y, z), half, _ in placed.parts:
        center = placed.bottom + [c * x + s * z, y, -s * x + c * z]
        half = np.array(half, float)
        if kind == room_scenes.SPHERE:
            half[:] = half[0]
        elif kind == room_scenes.CYLINDER:
            half[2] = half[0]
        else:
            half[[0, 2]] = [abs(c) * half[0] + abs(s) * half[2], abs(s) * half[0] + abs(c) * half[2]]
        lows.append(center - half)
        highs.append(center + half)
    return np.min(lows, 0), np.max(highs, 0)


def path(room, rng):
    """Positions and points looked at, for each image: around the room, with a look at each object."""
    targets = [middle(o) for _, o in named(room)]
    targets.sort(key=lambda target: np.arctan2(target[0], target[2]))
    count = SECONDS_OF_A_ROOM * RATE
    positions, looks = np.zeros((count, 3)), np.zeros((count, 3))
    for i in range(count):
        target = targets[min(int(i / count * len(targets)), len(targets) - 1)]
        # From the side of the middle of the room, at a distance.
        away = -target[[0, 2]] + rng.normal(0, .25, 2)
        away /= max(np.linalg.norm(away), 1e-3)
        flat = target[[0, 2]] + away * (NEAR + .35 * np.sin(i * .37))
        flat = np.clip(flat, -room.half[[0, 2]] + .35, room.half[[0, 2]] - .35)
        positions[i] = [flat[0], room.half[1] - EYES, flat[1]]
        looks[i] = target
    positions, looks = smooth(positions, 3 * RATE), smooth(looks, RATE)
    positions[:, 1] += .02 * np.sin(np.arange(count) * 2.1)
    return positions, looks


def quaternion(turn):
    """Returns x, y, z, w of a rotation matrix."""
    w = np.sqrt(max(0, 1 + np.trace(turn))) / 2
    if w > .1:
        xyz = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / (4 * w)
        return np.array([*xyz, w])
    values, vectors = np.linalg.eigh(np.array([
        [turn[0, 0] - turn[1, 1] - turn[2, 2], 0, 0, 0],
        [turn[1, 0] + turn[0, 1], turn[1, 1] - turn[0, 0] - turn[2, 2], 0, 0],
        [turn[2, 0] + turn[0, 2], turn[2, 1] + turn[1, 2], turn[2, 2] - turn[0, 0] - turn[1, 1], 0],
        [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1], np.trace(turn)]]) / 3)
    return vectors[:, np.argmax(values)]


def walk_through(room, rng):
    """Renders a walk through a room. Returns images, positions, rotations, and how often each object is seen."""
    focal = WIDTH / 2 / np.tan(np.radians(FIELD_OF_VIEW) / 2)
    images, positions, turns = [], [], []
    seen = np.zeros(len(named(room)), int)
    for position, look in zip(*path(room, rng)):
        x, y, z = look - position
        view = room_scenes.looking(position, np.arctan2(x, z), -np.arctan2(y, np.hypot(x, z)), 0, focal,
                                   (WIDTH / 2, HEIGHT / 2), room)
        image, _, extents = room_scenes.render(room, view, WIDTH, HEIGHT)
        extents = extents[[i for i, _ in named(room)]]
        seen += (extents["visible"] >= MIN_RAYS) & (extents["visible"] >= MIN_VISIBLE * extents["covered"])
        images.append(image)
        positions.append(position)
        turns.append(view["turn"].astype(float))
    return images, positions, turns, seen


def draw(seed):
    """Renders a walk. Returns images, lines of the trajectory, and the objects."""
    rng = np.random.default_rng([seed, 1])
    images, lines, objects = [], [], []
    for number in range(ROOMS):
        seen = np.zeros(1)
        while seen.min() < MIN_IMAGES:
            room = draw_room(rng)
            shown, positions, turns, seen = walk_through(room, rng)
        origin = np.array([number * PITCH_OF_ROOMS, 0, room.half[1]])
        for (_, placed), count in zip(named(room), seen):
            low, high = bounds(placed)
            objects.append({"label": room_scenes.LABELS[placed.label], "room": number,
                            "middle_m": (TURN @ middle(placed) + origin).round(3).tolist(),
                            "size_m": abs(TURN @ (high - low)).round(3).tolist(), "images": int(count)})
        for position, turn in zip(positions, turns):
            pose = [*(TURN @ position + origin), *quaternion(TURN @ turn)]
            lines.append(f"{len(lines) / RATE:.6f} " + " ".join(f"{value:.5f}" for value in pose))
        images += shown
    return images, lines, objects


# Position of the camera on the headset (x ahead, y to the left, z up), as in headset_frames.yaml.
CAMERA_ON_HEADSET = np.array([.06, .03, .02])


def matrix(quaternion):
    x, y, z, w = quaternion
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                     [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


def headset_pose(camera):
    """Returns position and quaternion of the headset from those of its camera."""
    turn = matrix(camera[3:]) @ TURN.T
    return [*(camera[:3] - turn @ CAMERA_ON_HEADSET), *quaternion(turn)]


def write(path, walk):
    """Writes the files of a walk, also the trajectory of a headset that carries the camera."""
    images, lines, objects = walk
    with open(f"{path}_headset.txt", "w") as file:
        file.write("# time_s x y z qx qy qz qw: world_from_headset\n")
        for line in lines:
            time, *pose = line.split()
            file.write(" ".join([time, *(f"{value:.5f}" for value in headset_pose(np.array(pose, float)))]) + "\n")
    avi.write(f"{path}.avi", images, RATE, QUALITY)
    with open(f"{path}.txt", "w") as file:
        file.write("# time_s x y z qx qy qz qw: world_from_camera\n" + "\n".join(lines) + "\n")
    with open(f"{path}.json", "w") as file:
        rows = ",\n  ".join(json.dumps(row) for row in objects)
        file.write(f'{{"rate": {RATE}, "field_of_view_deg": {FIELD_OF_VIEW}, "objects": [\n  {rows}\n]}}\n')
    print(f"{path}: {len(images)} images, {os.path.getsize(f'{path}.avi')} bytes", flush=True)


if __name__ == "__main__":
    folder, *seeds = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for seed in seeds:
        write(os.path.join(folder, f"walk_{seed}"), draw(int(seed)))
