"""Exchanges every message type with other implementations of ROS 2, in both directions.

`echo.yaml` sends what it receives. zenoh-ros2-sdk publishes messages and receives the answers; an
answer must have the bytes that rosbags makes of the expected message, and an attachment of 33 bytes.
pamoja-ros2 makes the keys, and reads numbers.

    python3 -m venv /tmp/ros && /tmp/ros/bin/pip install \
        rosbags==0.11.9 zenoh-ros2-sdk==0.1.8 pamoja-ros2==0.2.0
    cargo build -p afferent --features ros2
    /tmp/ros/bin/python nodes/ros2/tests/peers/echo.py target/debug/afferent
"""

import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pamoja.ros2
import zenoh
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

HERE = Path(__file__).parent
MESSAGES = 5
LIMIT_S = 20
STORE = get_typestore(Stores.ROS2_JAZZY)
for name, fields in {
    "audio_common_msgs/msg/AudioData": "uint8[] data",
    "audio_common_msgs/msg/AudioDataStamped": "std_msgs/Header header\nAudioData audio",
}.items():
    STORE.register(get_types_from_msg(fields, name))


def make(message, /, **fields):
    return STORE.types[message](**fields)


def stamp(number):
    return make("builtin_interfaces/msg/Time", sec=int(time.time()), nanosec=number)


def header(number, frame_id):
    return make("std_msgs/msg/Header", stamp=stamp(number), frame_id=frame_id)


def xyz(name, x, y, z):
    return make(f"geometry_msgs/msg/{name}", x=x, y=y, z=z)


def quaternion(x, y, z, w):
    return make("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w)


def octets(data):
    return np.frombuffer(bytes(data), dtype=np.uint8)


def png(width, height, pixels):
    """A grayscale image without filters."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[y * width :][:width] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def image(number):
    return make(
        "sensor_msgs/msg/Image",
        header=header(number, "camera"),
        height=480,
        width=640,
        encoding="bgr8",
        is_bigendian=0,
        step=1930,
        data=octets((at * at // 7 + number) & 0xFF for at in range(480 * 1930)),
    )


def compressed(number):
    pixels = bytes((at * 7 + number) & 0xFF for at in range(32 * 16))
    return make(
        "sensor_msgs/msg/CompressedImage",
        header=header(number, "camera"),
        format="mono8; png compressed ",
        data=octets(png(32, 16, pixels)),
    )


def imu(number):
    unknown = np.zeros(9)
    return make(
        "sensor_msgs/msg/Imu",
        header=header(number, "imu_link"),
        orientation=quaternion(0.0, 0.0, 0.0, 1.0),
        orientation_covariance=np.array([-1.0] + 8 * [0.0]),
        angular_velocity=xyz("Vector3", 0.25, -0.0, float(number)),
        angular_velocity_covariance=unknown,
        linear_acceleration=xyz("Vector3", 0.0, 0.5, 9.8125),
        linear_acceleration_covariance=unknown,
    )


def text(number):
    return make("std_msgs/msg/String", data=f"text \u2713 {number}")


def pose(number):
    position, orientation = xyz("Point", 0.1, -2.0, float(number)), quaternion(0.0, 0.6, 0.0, 0.8)
    return make(
        "geometry_msgs/msg/PoseStamped",
        header=header(number, "map"),
        pose=make("geometry_msgs/msg/Pose", position=position, orientation=orientation),
    )


def points(number):
    values = np.arange(4000, dtype="<f4") / 7 + number
    return make(
        "sensor_msgs/msg/PointCloud2",
        header=header(number, "lidar"),
        height=1,
        width=1000,
        fields=[
            make("sensor_msgs/msg/PointField", name=name, offset=4 * at, datatype=7, count=1)
            for at, name in enumerate(["x", "y", "z", "intensity"])
        ],
        is_bigendian=False,
        point_step=16,
        row_step=16000,
        data=octets(values.tobytes()),
        is_dense=True,
    )


def audio(number):
    samples = (np.arange(320) * 100 - 16000 + number).astype("<i2")
    data = make("audio_common_msgs/msg/AudioData", data=octets(samples.tobytes()))
    return make(
        "audio_common_msgs/msg/AudioDataStamped", header=header(number, "microphone"), audio=data
    )


def tf(number):
    def transform(parent, child):
        value = make(
            "geometry_msgs/msg/Transform",
            translation=xyz("Vector3", 0.1, -2.5, float(number)),
            rotation=quaternion(0.5, -0.5, 0.5, -0.5),
        )
        return make(
            "geometry_msgs/msg/TransformStamped",
            header=header(number, parent),
            child_frame_id=child,
            transform=value,
        )

    transforms = [transform("map", "odom"), transform("odom", "base_link")]
    return make("tf2_msgs/msg/TFMessage", transforms=transforms)


TOPICS = {
    "image": image,
    "compressed": compressed,
    "imu": imu,
    "text": text,
    "pose": pose,
    "points": points,
    "audio": audio,
    "tf": tf,
}


def wait_for(what, condition):
    end = time.time() + LIMIT_S
    while not condition():
        assert time.time() < end, f"timeout: {what}"
        time.sleep(0.05)


def encode(message):
    return bytes(STORE.serialize_cdr(message, message.__msgtype__))


def same_image(found, sent):
    """True if two compressed images have the same pixels; the compressors differ."""

    def pixels(message):
        data, idat, at = bytes(message.data), b"", 8
        while at < len(data):
            (length,) = struct.unpack(">I", data[at : at + 4])
            if data[at + 4 : at + 8] == b"IDAT":
                idat += data[at + 8 :][:length]
            at += length + 12
        rows, result, before = zlib.decompress(idat), [], [0] * 32
        for y in range(16):
            kind, row = rows[y * 33], list(rows[y * 33 + 1 :][:32])
            for x in range(32):
                left, up = row[x - 1] if x else 0, before[x]
                corner = before[x - 1] if x else 0
                guess = left + up - corner
                near = min((left, up, corner), key=lambda value: abs(guess - value))
                row[x] = (row[x] + [0, left, up, (left + up) // 2, near][kind]) & 0xFF
            result.append(row)
            before = row
        return result

    return pixels(found) == pixels(sent) and (found.header, found.format) == (
        sent.header,
        sent.format,
    )


def check(topic, message, session, port):
    """Sends messages of one type and checks the answers."""
    from zenoh_ros2_sdk import ROS2Publisher, ROS2Subscriber

    name = message(0).__msgtype__
    type_hash = STORE.hash_rihs01(name)
    definition, _ = STORE.generate_msgdef(name, ros_version=2)
    options = {
        "msg_definition": definition,
        "type_hash": type_hash,
        "router_port": port,
        "domain_id": 0,
    }
    raw, decoded = queue.Queue(), queue.Queue()
    key = pamoja.ros2.entity_key(0, f"/out/{topic}", name, type_hash)
    listener = session.declare_subscriber(key, raw.put)
    subscriber = ROS2Subscriber(f"/out/{topic}", name, decoded.put, **options)
    publisher = ROS2Publisher(f"/in/{topic}", name, **options)
    wait_for("subscriber", lambda: publisher.pub.matching_status.matching)
    gids = set()
    for number in range(MESSAGES):
        sent = message(number)
        fields = {field: getattr(sent, field) for field in sent.__dataclass_fields__}
        fields.pop("__msgtype__", None)
        publisher.publish(**fields)
        sample = raw.get(timeout=LIMIT_S)
        payload, attachment = sample.payload.to_bytes(), sample.attachment.to_bytes()
        assert len(attachment) == 33, attachment
        sequence, sent_ns, length = struct.unpack("<qqB", attachment[:17])
        assert (sequence, length) == (number + 1, 16), attachment
        assert abs(sent_ns - time.time_ns()) < 10_000_000_000
        gids.add(attachment[17:])
        answer = decoded.get(timeout=LIMIT_S)
        if topic == "compressed":
            assert same_image(STORE.deserialize_cdr(payload, name), sent)
        else:
            assert payload == encode(sent), f"{topic}: {payload.hex()} {encode(sent).hex()}"
        # The types of the SDK are its own.
        assert repr(answer) == repr(STORE.deserialize_cdr(payload, name)), answer
        if topic == "pose":
            # The numbers follow the stamp and the frame `map`.
            reader = pamoja.ros2.CdrReader(payload[:4] + payload[20:])
            numbers = [reader.read_f64() for _ in range(7)]
            assert numbers == [0.1, -2.0, float(number), 0.0, 0.6, 0.0, 0.8], numbers
    assert len(gids) == 1
    listener.undeclare()
    subscriber.close()
    publisher.close()
    print(f"{name:<42} {MESSAGES} messages, {len(encode(message(0))):>7} bytes: same both ways")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def open_session(mode, role, port):
    config = zenoh.Config()
    config.insert_json5("mode", f'"{mode}"')
    config.insert_json5(f"{role}/endpoints", f'["tcp/127.0.0.1:{port}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    return zenoh.open(config)


def main(afferent):
    port = free_port()
    router = open_session("router", "listen", port)
    session = open_session("client", "connect", port)
    environment = dict(os.environ, ROUTER=f"tcp/127.0.0.1:{port}", ROS_DOMAIN_ID="0")
    graph = subprocess.Popen([afferent, "run", HERE / "echo.yaml"], env=environment)

    def tokens():
        return [str(reply.ok.key_expr) for reply in session.liveliness().get("@ros2_lv/0/**")]

    try:
        # A node and an endpoint for each of the 16 nodes.
        wait_for("tokens of the graph", lambda: len(tokens()) == 32)
        print(f"{len(tokens())} liveliness tokens")
        for topic, message in TOPICS.items():
            check(topic, message, session, port)
        graph.send_signal(signal.SIGINT)
        assert graph.wait(LIMIT_S) == 0
        wait_for("end of the tokens", lambda: not tokens())
        print("no tokens after the end of the graph")
    finally:
        graph.kill()
        session.close()
        router.close()


if __name__ == "__main__":
    main(sys.argv[1])
