"""Runs the node of `brightness.py` on a video.

python brightness_graph.py [VIDEO]
"""

import pathlib
import sys

import afferent

here = pathlib.Path(__file__).parent
video = sys.argv[1] if len(sys.argv) > 1 else here.parents[1] / "pipelines/assets/room.avi"

graph = afferent.Graph.from_nodes(
    {
        "camera": {"use": "video_source", "params": {"path": video}},
        "brightness": {
            "use": "python",
            "params": {"file": here / "brightness.py", "change": 0.005},
            "in": "camera.images",
        },
    }
)
report = graph.run(virtual=True, on={"brightness.out": lambda message: print(f"{message.at:6.2f} s  {message.text}")})
node = next(node for node in report["nodes"] if node["name"] == "brightness")
print(f"{node['packets_in']} images, {node['call']['p50_ns'] / 1e6:.2f} ms each, there and back")
