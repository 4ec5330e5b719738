"""Finds objects in a video and draws the first image with its boxes: needs matplotlib.

python detect_objects.py [VIDEO] [OUTPUT.png]
"""

import pathlib
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import afferent

pipelines = pathlib.Path(__file__).parents[2] / "pipelines"
video = sys.argv[1] if len(sys.argv) > 1 else pipelines / "assets/room.avi"
output = sys.argv[2] if len(sys.argv) > 2 else "objects.png"

graph = afferent.Graph.from_nodes(
    {
        "camera": {"use": "video_source", "params": {"path": video}},
        "objects": {
            "use": "detect",
            "in": "camera.images",
            "params": {"model": pipelines / "models/objects"},
        },
    }
)
with graph.start(virtual=True, streams=["camera.images", "objects.detections"]) as run:
    image = run.stream("camera.images").get()
    found = run.stream("objects.detections").get()

figure, axes = plt.subplots()
axes.imshow(image.data, cmap="gray")
for detection in found.detections:
    box, best = detection.bbox, detection.results[0].hypothesis
    corner = (box.center.position.x - box.size_x / 2, box.center.position.y - box.size_y / 2)
    axes.add_patch(plt.Rectangle(corner, box.size_x, box.size_y, fill=False, color="tab:orange"))
    axes.text(*corner, f"{best.class_id} {best.score:.2f}", color="tab:orange")
figure.savefig(output, dpi=150)
print(f"{len(found.detections)} objects; wrote {output}")
