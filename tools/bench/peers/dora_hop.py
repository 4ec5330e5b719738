"""Runs dora on the workload of `afferent-bench hop` and prints the latencies as JSON.

    python tools/bench/peers/dora_hop.py PACKETS BYTES GAP_US

Needs `dora-rs` and `dora-rs-cli` in the environment of this Python. The dataflow has two Python
nodes, each in its own process. Prints a list with the latency of each packet in nanoseconds, from
just before sending until reception. The receiver sleeps between packets.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

WARMUP = 20
# Processes start at different times. Packets sent before the receiver listens are lost.
START_S = 2.0


def send(packets: int, size: int, gap_s: float) -> None:
    import pyarrow as pa
    from dora import Node

    node = Node()
    value = pa.array(bytes(size), type=pa.uint8())
    time.sleep(START_S)
    for _ in range(packets + WARMUP):
        time.sleep(gap_s)
        node.send_output("packet", value, {"sent_ns": time.monotonic_ns()})
    # Packets in flight are lost when their sender ends.
    time.sleep(START_S)


def receive(file: str) -> None:
    from dora import Node

    times = []
    for event in Node():
        if event["type"] == "INPUT":
            times.append(time.monotonic_ns() - event["metadata"]["sent_ns"])
    pathlib.Path(file).write_text(json.dumps(times))


def run(packets: str, size: str, gap_us: str) -> list[int]:
    """Runs a dataflow of a sender and a receiver, and returns the latencies."""
    gap_s = int(gap_us) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "times.json")

        def node(name: str, args: list[str], streams: dict) -> dict:
            line = " ".join([os.path.abspath(__file__), *args])
            return {"id": name, "path": sys.executable, "args": line, **streams}

        # With the default queue size dora drops packets on a loaded machine.
        stream = {"source": "sender/packet", "queue_size": int(packets) + WARMUP}
        graph = {
            "nodes": [
                node("sender", ["send", packets, size, str(gap_s)], {"outputs": ["packet"]}),
                node("receiver", ["receive", str(file)], {"inputs": {"packet": stream}}),
            ]
        }
        pathlib.Path(folder, "graph.yml").write_text(json.dumps(graph))
        dora = pathlib.Path(sys.executable).parent / "dora"
        limit_s = 4 * START_S + 4 * gap_s * (int(packets) + WARMUP) + 60
        command = [str(dora), "run", "graph.yml"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit_s)
        if not file.exists():
            sys.exit(f"dora measured nothing: {done.stderr or done.stdout}")
        times = json.loads(file.read_text())[WARMUP:]
        # On a loaded machine some packets are lost even with a large queue.
        print(f"dora delivered {len(times)} of {packets} packets", file=sys.stderr)
        if len(times) < int(packets) // 2:
            sys.exit(1)
        return times


def main(args: list[str]) -> None:
    match args:
        case ["send", packets, size, gap_s]:
            send(int(packets), int(size), float(gap_s))
        case ["receive", file]:
            receive(file)
        case [packets, size, gap_us]:
            print(json.dumps(run(packets, size, gap_us)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
