"""Writes sample videos with ground truth: hands, a room, views of rooms, signs with text, and a walk through rooms.

Each is a Motion JPEG AVI in pipelines/assets, with a JSON line for each image. The first line
describes the video: rate, size, focal length, and what does not change. Arguments are names of videos;
without any, all are written.
"""
import json
import os
import sys

import avi
import caption_scenes
import hand_scenes
import numpy as np
import room_scenes
import room_views
import text_lines
import text_pages
import walks
from backgrounds import Bank
from paths import ASSETS
from PIL import Image, ImageDraw, ImageFilter

SEED = 90601
WIDTH, HEIGHT, SECONDS = 320, 240, 10
HAND_RATE, ROOM_RATE, TEXT_RATE, VIEW_RATE = 15, 12, 8, 4
GESTURES = ["open", "fist", "point", "victory", "thumb_up", "ok", "three", "pinch", "open"]
FIELD_OF_VIEW = 67
DEPTH_EVERY = 12
# Seeds of the look of the arms and of the background.
HAND_LOOK, BACKGROUND = 19, 109
COLORS = [((255, 255, 255), (20, 110, 60)), ((250, 240, 240), (180, 30, 30)), ((20, 20, 30), (240, 236, 220)),
          ((250, 210, 40), (20, 30, 80))]
SIGNS = [["EXIT", "Room 204"], ["Fire extinguisher", "Check 12/2027"], ["Please close", "the door"],
         ["Bus 42", "10:35  Harbor"]]


def rounded(values, digits=2):
    return np.round(np.asarray(values, float), digits).tolist()


def smooth(x):
    x = np.clip(x, 0, 1)
    return x * x * (3 - 2 * x)


def write(name, images, rate, quality, header, rows):
    """Writes a video and its ground truth."""
    path = os.path.join(ASSETS, name)
    avi.write(f"{path}.avi", images, rate, quality)
    height, width = images[0].shape[:2]
    with open(f"{path}.jsonl", "w") as file:
        for row in [{"video": f"{name}.avi", "rate": rate, "width": width, "height": height, **header}, *rows]:
            file.write(json.dumps(row) + "\n")
    print(f"{name}: {len(images)} images, {os.path.getsize(f'{path}.avi')} bytes, "
          f"{os.path.getsize(f'{path}.jsonl')} bytes of ground truth", flush=True)


def hand_pose(time):
    """Returns the pose at a time: gestures with a pause at each."""
    step = time / SECONDS * (len(GESTURES) - 1)
    first = min(int(step), len(GESTURES) - 2)
    weight = smooth((step - first - .35) / .5)
    (fingers_a, thumb_a), (fingers_b, thumb_b) = (hand_scenes.GESTURES[GESTURES[first + k]] for k in (0, 1))
    return (np.array(fingers_a, float) * (1 - weight) + np.array(fingers_b) * weight,
            np.array(thumb_a, float) * (1 - weight) + np.array(thumb_b) * weight)


def hand_at(time, is_right, focal):
    """Returns a hand that moves in the image. The left one enters after 4 s and leaves after 8 s."""
    phase = 0.0 if is_right else 1.3
    skeleton = hand_scenes.draw_skeleton(np.random.default_rng([SEED, is_right]), hand_pose((time + 4 * phase) % 10))
    roll, yaw = .35 * np.sin(.9 * time + phase), .5 * np.sin(.7 * time + 2 * phase)
    turn = hand_scenes.rotation(np.array([0, 0, 1.]), roll) @ hand_scenes.rotation(np.array([0, 1., 0]), yaw + np.pi)
    hand = hand_scenes.turned_hand(skeleton, is_right, turn)
    x, y = (-80 if is_right else 85) + 28 * np.sin(.8 * time + phase), 10 + 22 * np.sin(1.1 * time)
    if not is_right:
        x += 260 * (1 - smooth((time - 4) / .8) + smooth((time - 7.5) / .8))
    depth = .48 + .06 * np.sin(.6 * time + phase)
    hand.points = hand.points + np.array([x / focal, y / focal, 1]) * depth
    return hand


def make_hands():
    setting = hand_scenes.draw_setting(np.random.default_rng(SEED))
    focal = WIDTH / 2 / np.tan(np.radians(FIELD_OF_VIEW) / 2)
    setting["focal"], setting["center"], setting["texture"] = focal, (WIDTH / 2, HEIGHT / 2), .05
    setting["light_color"], setting["ambient"], setting["light"] = .9, .4, (-.4, -.6, -.7)
    background = Image.fromarray(Bank(np.random.default_rng(BACKGROUND), 1, WIDTH).images[0][:HEIGHT])
    background = np.asarray(background.filter(ImageFilter.GaussianBlur(3)))
    images, rows = [], []
    for i in range(SECONDS * HAND_RATE):
        time, cones, hands = i / HAND_RATE, hand_scenes.Cones(), []
        for is_right in (True, False):
            hand = hand_at(time, is_right, focal)
            points = hand_scenes.project(hand.points, setting)
            hand_scenes.add_hand(np.random.default_rng([SEED, HAND_LOOK, is_right]), cones, hand)
            inside = ((points > 0) & (points < [WIDTH, HEIGHT])).all(1).mean()
            if inside > .5:
                hands.append({"side": "right" if is_right else "left", "inside": round(float(inside), 2),
                              "landmarks": rounded(points, 1),
                              "world_m": rounded((hand.points - hand.points.mean(0)) / hand.skeleton.size, 4)})
        images.append(hand_scenes.render(cones, setting, background.copy()))
        rows.append({"image": i, "time_s": round(time, 4), "hands": hands})
    write("hands", images, HAND_RATE, 70, {"focal": round(focal, 2)}, rows)


def make_room():
    """A walk around a table, with boxes and poses; depth once a second in millimeters."""
    rng = np.random.default_rng(SEED)
    room = room_scenes.draw_room(rng, [7, 5, 6, 3, 0, 2, 4, 1, 3, 0])
    focal = WIDTH / 2 / np.tan(np.radians(FIELD_OF_VIEW) / 2)
    folder = os.path.join(ASSETS, "room_depth")
    os.makedirs(folder, exist_ok=True)
    placed = [(i, o) for i, o in enumerate(room.objects) if o.label != room_scenes.NO_CLASS]
    things = [{"object": i, "label": room_scenes.LABELS[o.label], "bottom_m": rounded(o.bottom, 3)} for i, o in placed]
    images, rows = [], []
    for i in range(SECONDS * ROOM_RATE):
        time = i / ROOM_RATE
        angle = .35 + time * .42
        position = np.array([np.sin(angle) * room.half[0] * .62, room.half[1] - 1.45 - .04 * np.sin(time),
                             np.cos(angle) * room.half[2] * .62])
        yaw, pitch = angle + np.pi + .35 * np.sin(.9 * time), -.42 + .05 * np.sin(.7 * time)
        view = room_scenes.looking(position, yaw, pitch, .0, focal, (WIDTH / 2, HEIGHT / 2), room)
        image, depth, extents = room_scenes.render(room, view, WIDTH, HEIGHT)
        boxes = []
        for k, o in placed:
            if extents[k]["visible"]:
                fraction = extents[k]["visible"] / extents[k]["covered"]
                boxes.append({"object": k, "label": room_scenes.LABELS[o.label], "box": extents[k]["box"].tolist(),
                              "visible": round(float(fraction), 3), "pixels": int(extents[k]["visible"]) // 4})
        row = {"image": i, "time_s": round(time, 4), "position_m": rounded(position, 4),
               "world_from_camera": rounded(view["turn"], 5), "boxes": boxes,
               "depth_m": dict(zip(("nearest", "median", "farthest"),
                                   rounded([depth.min(), np.median(depth), depth.max()], 3)))}
        if i % DEPTH_EVERY == 0:
            row["depth"] = f"room_depth/{i:04d}.png"
            small = np.clip(depth[1::2, 1::2] * 1000, 0, 65535).astype(np.uint16)
            Image.fromarray(small).save(os.path.join(ASSETS, row["depth"]), optimize=True)
        images.append(image)
        rows.append(row)
    header = {"focal": round(focal, 2), "labels": room_scenes.LABELS, "depth_unit_m": 0.001, "objects": things}
    write("room", images, ROOM_RATE, 70, header, rows)


def panned(view, angle):
    """Returns a view that is turned to the right by `angle`."""
    turned, c, s = view.copy(), np.cos(angle), np.sin(angle)
    turned["turn"] = view["turn"] @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    return turned


def seen_in_view(room, view):
    """Returns the objects that the images of training would show."""
    small, factor = view.copy(), room_views.WIDTH / WIDTH
    small["focal"], small["center"] = view["focal"] * factor, view["center"] * factor
    _, depth, extents = room_scenes.render(room, small, room_views.WIDTH, room_views.HEIGHT)
    return caption_scenes.seen_in(room, extents) if depth.min() >= .25 else None


def make_views():
    """A view of a room in each second, in which the camera pans, with the answers to questions."""
    rng, images, rows = np.random.default_rng(SEED), [], []
    for second in range(SECONDS):
        captions = {None}
        while len(captions) > 1 or None in captions:
            room = room_scenes.draw_room(rng)
            view = room_views.draw_view(rng, room, WIDTH, HEIGHT)
            views = [panned(view, .04 * (k / VIEW_RATE - .5)) for k in range(VIEW_RATE)]
            seen = [seen_in_view(room, one) for one in views]
            captions = {None if one is None else caption_scenes.caption(one) for one in seen}
        for k in range(VIEW_RATE):
            answers = {caption_scenes.ASK_ALL[0]: caption_scenes.caption(seen[k])}
            rows.append({"image": len(images), "time_s": len(images) / VIEW_RATE,
                         "answers": answers | dict(caption_scenes.questions(seen[k]))})
            images.append(room_scenes.render(room, views[k], WIDTH, HEIGHT)[0])
    write("views", images, VIEW_RATE, 70, {}, rows)


def draw_signs(rng):
    """Draws a wall of 1280 x 960 with signs. Returns image and lines."""
    height, width = 960, 1280
    image = np.broadcast_to([176., 170, 160], (height, width, 3)) + rng.normal(0, 3, (height, width, 1))
    image, lines = image.astype(np.float32), []
    for k, texts in enumerate(SIGNS):
        font = text_lines.load_font(("liberation/LiberationSerif-Bold.ttf", "freefont/FreeSansBold.ttf",
                                     "dejavu/DejaVuSansMono.ttf", "freefont/FreeSans.ttf")[k], 44)
        ink, paper = COLORS[k]
        center = np.array([405 + 470 * (k % 2), 310 + 340 * (k // 2)])
        panel = Image.fromarray(image.clip(0, 255).astype(np.uint8))
        ImageDraw.Draw(panel).rectangle([*(center - [215, 105]), *(center + [215, 105])], paper)
        image[:] = np.asarray(panel)
        for j, text in enumerate(texts):
            mask, baseline, cap = text_lines.text_mask(text, font)
            start = center + np.array([-mask.shape[1] / 2, -50 + 78 * j + 30 - baseline])
            text_pages.paste(image, mask, np.array(ink), np.column_stack([np.eye(2), start]))
            h, w = mask.shape
            lines.append(text_pages.Line(text, start + [[0, 0], [w, 0], [w, h], [0, h]], baseline - cap))
    return image.clip(0, 255).astype(np.uint8), lines


def make_text():
    """A camera that moves over a wall with signs."""
    wall, lines = draw_signs(np.random.default_rng(SEED))
    wall = Image.fromarray(wall)
    images, rows = [], []
    for i in range(SECONDS * TEXT_RATE):
        time = i / TEXT_RATE
        zoom, roll = 2.25 - .45 * np.sin(.6 * time), .07 * np.sin(.8 * time)
        center = np.array([640 + 130 * np.sin(.63 * time), 480 + 80 * np.sin(1.1 * time + .5)])
        turn = zoom * np.array([[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]])
        shift = center - turn @ [WIDTH / 2, HEIGHT / 2]
        matrix = np.column_stack([turn, shift])
        # Twice the size and back, so that no pixel is skipped.
        double = np.column_stack([turn / 2, shift])
        image = wall.transform((WIDTH * 2, HEIGHT * 2), Image.Transform.AFFINE, double.ravel(),
                               Image.Resampling.BILINEAR).resize((WIDTH, HEIGHT), Image.Resampling.BOX)
        texts = []
        for line in lines:
            corners = (line.corners - matrix[:, 2]) @ np.linalg.inv(turn).T
            fraction = text_pages.visible_fraction(corners, WIDTH, HEIGHT)
            if fraction > 0:
                texts.append({"text": line.text, "corners": rounded(corners, 1), "visible": round(float(fraction), 2)})
        images.append(np.asarray(image))
        rows.append({"image": i, "time_s": round(time, 4), "texts": texts})
    write("signs", images, TEXT_RATE, 75, {}, rows)


def make_walk():
    walks.write(os.path.join(ASSETS, "walk"), walks.draw(SEED))


MAKERS = {"hands": make_hands, "room": make_room, "views": make_views, "signs": make_text, "walk": make_walk}

if __name__ == "__main__":
    os.makedirs(ASSETS, exist_ok=True)
    for chosen in sys.argv[1:] or MAKERS:
        MAKERS[chosen]()


assert abs(room_views.FIELD_OF_VIEW[0] + room_views.FIELD_OF_VIEW[1] - 2 * FIELD_OF_VIEW) < 1
