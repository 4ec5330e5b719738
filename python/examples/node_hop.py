"""Times a hop from one node in Python to the next, by the size of the arrays that a NumPy program fills
for each message: its own array, which is copied, or one that it fills where the receiver reads it.

python node_hop.py [MESSAGES]
"""

import pathlib
import statistics
import sys
import tempfile
import textwrap

import afferent

CODE = """
    import time

    import numpy as np

    import afferent

    class Sender(afferent.Node):
        out = afferent.Out("vision/Image")
        width = afferent.Param(32, "Pixels in a row.", range=(1, 4096))
        height = afferent.Param(32, "Rows.", range=(1, 4096))
        messages = afferent.Param(200, "Messages.", range=(1, 1_000_000))
        shared = afferent.Param(False, "Fill shared memory.")

        def open(self):
            self.sent = 0
            self.pixels = np.empty((self.height, self.width), np.uint8)

        def process(self, cx):
            if self.sent == self.messages:
                return cx.end()
            self.sent += 1
            shape = self.pixels.shape
            pixels = cx.empty(shape, np.uint8) if self.shared else self.pixels
            pixels.fill(self.sent % 250)
            # The time of the send travels in the name of the frame.
            cx.send(self.out, pixels, at=self.sent / 100, frame_id=str(time.monotonic_ns()))
            cx.resume_at(cx.now + 0.01)

    class Receiver(afferent.Node):
        image = afferent.In("vision/Image")
        out = afferent.Out("text/Text")

        def process(self, cx):
            received = time.monotonic_ns()
            assert cx.image.data[0, 0] == cx.image.data[-1, -1]
            cx.send(self.out, str(received - int(cx.image.frame_id)))

        def finish(self, cx):
            with open("/proc/self/status") as status:
                lines = dict(line.split(":", 1) for line in status)
            # The shared memory is that of the messages.
            own = int(lines["VmRSS"].split()[0]) - int(lines["RssShmem"].split()[0])
            cx.send(self.out, f"memory {own}")
"""


def hop(folder, width, height, messages, shared):
    """Median time of a hop in milliseconds, and memory of the receiver in megabytes."""
    file = folder / "nodes.py"
    file.write_text(textwrap.dedent(CODE))
    size = {"width": width, "height": height, "messages": messages, "shared": shared}
    graph = afferent.Graph.from_nodes(
        {
            "sender": {"use": "python", "params": {"file": file, "class": "Sender", **size}},
            "receiver": {
                "use": "python",
                "params": {"file": file, "class": "Receiver"},
                "in": "sender.out",
            },
        }
    )
    lines = []
    graph.run(on={"receiver.out": lambda message: lines.append(message.text)})
    times = [int(line) / 1e6 for line in lines[:-1]]
    # The first messages touch new memory.
    return statistics.median(times[len(times) // 5 :]), int(lines[-1].split()[1]) / 1e3


def main():
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        for width, height in ((32, 32), (640, 480), (1920, 3240)):
            size = (pathlib.Path(folder), width, height, messages)
            (own, _), (shared, memory) = hop(*size, False), hop(*size, True)
            print(
                f"{width * height / 1e6:6.3f} MB: {own:.3f} ms, filled in shared memory {shared:.3f} ms;"
                f" memory of a node {memory:.0f} MB"
            )


main()
