"""Model cards of the vision packages, without programs and figures."""
import caption_program
import hand
import objects
import palm
import text_detector
import text_lines
import text_regions
from room_scenes import LABELS

ONLY_RENDERED = "Trained and measured on rendered images only; figures say nothing about real ones."


def image(width, height, resize, resampling, color="rgb", mean=0.0, std=1.0, **more):
    """Returns the section on the input."""
    return {"size": [width, height], "resize": resize, **more, "color": color, "scale": 1 / 255,
            "mean": [mean] * 3, "std": [std] * 3, "resampling": resampling}


CARDS = {
    "hand": {
        "task": "hand_landmarks", "contract": "hand_landmarks",
        "image": image(hand.SIZE, hand.SIZE, "stretch", "bilinear"),
        "labels": ["left", "right"], "decision": {"threshold": 0.5},
        "data": "rendered hands",
        "limits": [
            ONLY_RENDERED,
            "The crop is a square around the hand, turned so that the middle knuckle is above the wrist.",
            "right is the right hand of a person in an image that is not mirrored. MediaPipe assumes a mirrored one.",
            "Coordinates in meters are those of a hand of average size.",
            "Landmarks outside of the crop are not found. A hand that holds another hand was never rendered.",
        ],
    },
    "palm": {
        "task": "palm_detection", "contract": "mediapipe_palm",
        "image": image(palm.SIZE, palm.SIZE, "letterbox", "antialias_bilinear", pad=0),
        "decision": {"threshold": palm.THRESHOLD},
        "data": "rendered hands before procedural backgrounds",
        "limits": [ONLY_RENDERED, "Hands with a palm of less than a twelfth of the image are not found.",
                   "At most two hands were in an image of training."],
    },
    "depth": {
        "task": "depth", "contract": "metric_depth",
        "image": image(160, 128, "stretch", "antialias_bilinear"),
        "data": "rendered rooms",
        "limits": [ONLY_RENDERED, "Depth is in meters for images of 4:3 with a horizontal field of view of 67 degrees, "
                   "the middle of the range of training (63 to 71). It scales with the focal length.",
                   "The camera was 1.3 to 1.65 m above the floor, in rooms of 3 to 6 m with a height of 2.3 to 2.9 m. "
                   "At another height, all depths are off by a factor."],
    },
    "objects": {
        "task": "detection", "contract": "ultralytics",
        "image": image(objects.WIDTH, objects.HEIGHT, "letterbox", "antialias_bilinear", pad=objects.PAD),
        "labels": LABELS, "decision": {"threshold": objects.THRESHOLD},
        "data": "rendered rooms",
        "limits": [ONLY_RENDERED, "The objects are made of boxes, spheres and cylinders in any color."],
    },
    "captioner": {
        "task": "image_text", "contract": "vlm",
        "image": image(objects.WIDTH, objects.HEIGHT, "letterbox", "antialias_bilinear", pad=objects.PAD),
        "tokenizer": "tokenizer.json", "chat": caption_program.CHAT,
        "data": "rendered rooms and dialogues about them (the first 611 steps: also questions without a certain "
                "answer)",
        "limits": [
            ONLY_RENDERED,
            "It knows questions such as: what do you see; is there a table; what color is the table; what is on the "
            "left.",
            "Answers name at most two of eight kinds of objects in six colors. The color is that of the largest part, "
            "and gray is also white and black.",
            "Its encoder is the network of `objects`, which was not trained further.",
            "Small objects are often missed. Without a certain answer, it gives one of the likely ones.",
        ],
    },
    "text_detector": {
        "task": "text_detection", "contract": "db_probability",
        "image": image(text_detector.WIDTH, text_detector.HEIGHT, "letterbox", "antialias_bilinear", mean=0.5, std=0.5,
                       pad=114),
        "decision": {"threshold": text_regions.THRESHOLD},
        "data": "texts in fonts of Debian over procedural backgrounds",
        "limits": [ONLY_RENDERED, "Lines turned by more than about 20 degrees, or with capitals of less than 6 pixels, "
                   "are not found."],
    },
    "text_recognizer": {
        "task": "text_recognition", "contract": "ctc_characters",
        "image": image(320, 32, "letterbox", "antialias_bilinear", color="gray", mean=0.5, std=0.5, pad=127.5),
        "labels": list(text_lines.CHARACTERS),
        "data": "texts in fonts of Debian",
        "limits": [ONLY_RENDERED, "English words, numbers and codes in 95 characters, in seven families of fonts.",
                   "The line is at the left, 32 pixels high, and narrowed if it is longer than 320 pixels.",
                   "Characters of the same shape in a font (I and l, O and 0) are told apart by their neighbors only."],
    },
}
FIELDS = ["afferent_model", "name", "task", "contract", "image", "tokenizer", "chat", "variants", "labels", "decision",
          "license", "provenance", "quality", "limits"]


def card(name, variants, seed, steps):
    """Returns the content of model.yaml."""
    entry = CARDS[name]
    content = entry | {
        "afferent_model": 1, "name": name, "variants": variants, "license": "Apache-2.0", "quality": {},
        "provenance": f"Trained from random weights on {entry['data']} by tools/zoo: "
                      f"`python tools/zoo/vision/train.py {name} --seed {seed}`, {steps} steps.",
    }
    return {key: content[key] for key in FIELDS if key in content}
