"""Writes the files of this folder: what other implementations make of the values in tests/oracles.rs and
tests/router.

    python3 -m venv /tmp/ros && /tmp/ros/bin/pip install \
        rosbags==0.11.9 zenoh-ros2-sdk==0.1.8 pamoja-ros2==0.2.0 mcap-ros2-support==0.6.0
    /tmp/ros/bin/python nodes/ros2/tests/data/make.py
"""

from pathlib import Path

import numpy as np
import pamoja.ros2
from mcap_ros2._dynamic import generate_dynamic
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from zenoh_ros2_sdk import attachment, entity, keyexpr, qos, utils

HERE = Path(__file__).parent
STORE = get_typestore(Stores.ROS2_JAZZY)
AUDIO = {
    "audio_common_msgs/msg/AudioData": "uint8[] data",
    "audio_common_msgs/msg/AudioDataStamped": "std_msgs/Header header\nAudioData audio",
}
for name, fields in AUDIO.items():
    STORE.register(get_types_from_msg(fields, name))


def make(message, /, **fields):
    return STORE.types[message](**fields)


def header(frame_id):
    stamp = make("builtin_interfaces/msg/Time", sec=-5, nanosec=999999999)
    return make("std_msgs/msg/Header", stamp=stamp, frame_id=frame_id)


def xyz(name, x, y, z):
    return make(f"geometry_msgs/msg/{name}", x=x, y=y, z=z)


def quaternion(x, y, z, w):
    return make("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w)


def octets(count):
    return np.arange(count, dtype=np.uint8)


def floats(first, count):
    return np.arange(first, first + count, dtype=np.float64)


def transform(parent, child, x):
    value = make(
        "geometry_msgs/msg/Transform",
        translation=xyz("Vector3", x, -2.5, 1e300),
        rotation=quaternion(0.5, -0.5, 0.5, -0.5),
    )
    return make(
        "geometry_msgs/msg/TransformStamped",
        header=header(parent),
        child_frame_id=child,
        transform=value,
    )


def messages():
    yield make("std_msgs/msg/String", data="")
    yield make("std_msgs/msg/String", data="h\u00e9llo")
    yield make(
        "sensor_msgs/msg/Image",
        header=header("camera"),
        height=2,
        width=3,
        encoding="rgb8",
        is_bigendian=0,
        step=11,
        data=octets(22),
    )
    yield make(
        "sensor_msgs/msg/CompressedImage", header=header(""), format="jpeg", data=octets(5)
    )
    yield make(
        "sensor_msgs/msg/Imu",
        header=header("imu_link"),
        orientation=quaternion(0.0, 0.0, 0.0, 1.0),
        orientation_covariance=floats(-1, 9),
        angular_velocity=xyz("Vector3", 0.25, -0.0, 3.0),
        angular_velocity_covariance=floats(10, 9),
        linear_acceleration=xyz("Vector3", 0.0, 0.0, 9.8125),
        linear_acceleration_covariance=floats(20, 9),
    )
    field = "sensor_msgs/msg/PointField"
    yield make(
        "sensor_msgs/msg/PointCloud2",
        header=header("l"),
        height=1,
        width=2,
        fields=[
            make(field, name="x", offset=0, datatype=7, count=1),
            make(field, name="intensity", offset=4, datatype=2, count=1),
        ],
        is_bigendian=False,
        point_step=5,
        row_step=10,
        data=octets(10),
        is_dense=True,
    )
    for distortion in (floats(0, 5), floats(0, 0)):
        yield make(
            "sensor_msgs/msg/CameraInfo",
            header=header("cam"),
            height=480,
            width=640,
            distortion_model="plumb_bob" if len(distortion) else "",
            d=distortion,
            k=floats(1, 9),
            r=floats(2, 9),
            p=floats(3, 12),
            binning_x=1,
            binning_y=2,
            roi=make(
                "sensor_msgs/msg/RegionOfInterest",
                x_offset=1,
                y_offset=2,
                height=3,
                width=4,
                do_rectify=True,
            ),
        )
    pose = make(
        "geometry_msgs/msg/Pose",
        position=xyz("Point", 1.0, 2.0, 3.0),
        orientation=quaternion(0.0, 0.0, 1.0, 0.0),
    )
    yield make("geometry_msgs/msg/PoseStamped", header=header("map"), pose=pose)
    yield make("tf2_msgs/msg/TFMessage", transforms=[])
    yield make(
        "tf2_msgs/msg/TFMessage",
        transforms=[transform("map", "odom", 1.0), transform("odometry", "b", 2.0)],
    )
    yield make(
        "audio_common_msgs/msg/AudioDataStamped",
        header=header("mic"),
        audio=make("audio_common_msgs/msg/AudioData", data=octets(3)),
    )


def write_messages():
    lines = []
    for message in messages():
        name = message.__msgtype__
        little, big = (
            bytes(STORE.serialize_cdr(message, name, little_endian=order)) for order in (True, False)
        )
        # A second implementation reads the bytes and writes them again to the same value.
        definition, _ = STORE.generate_msgdef(name, ros_version=2)
        short = name.replace("/msg/", "/")
        decoder = generate_dynamic(short, definition)[short]
        assert repr(decoder(little)) == repr(decoder(big)), name
        lines.append(f"{name} {little.hex()} {big.hex()}\n")
    (HERE / "messages.txt").write_text("".join(lines))


# `char` is left out: rosidl_adapter turns it into `uint8`, and both implementations do not.
CASES = {
    "a/msg/Primitives": "bool a;byte b;uint8 c;float32 d;float64 e;int8 f;uint8 g;int16 h;uint16 i;"
    "int32 j;uint32 k;int64 l;uint64 m;string n",
    "a/msg/Arrays": "bool[2] a;byte[] b;float64[9] c;string[] d;string[3] e;uint8[] f",
    "a/msg/Strings": "string<=10 a;string<=7[] b;string<=6[4] c",
    "a/msg/Bounded": "float64[<=3] a;string[<=2] b;Empty[<=5] c;string<=6[<=4] d",
    "a/msg/Empty": "",
    "a/msg/Nested": "Empty empty;b/Inner[] inner;Strings[2] strings;std_msgs/Header header",
    "b/msg/Inner": "builtin_interfaces/Time stamp;a/Empty[3] empty",
    "std_msgs/msg/Header": "builtin_interfaces/Time stamp;string frame_id",
    "builtin_interfaces/msg/Time": "int32 sec;uint32 nanosec",
}


def needed(name, found):
    """Definitions of a message and of the messages in it."""
    found[name] = CASES[name].replace(";", "\n")
    for line in found[name].splitlines():
        package, _, base = line.split()[0].split("[")[0].rpartition("/")
        nested = f"{package or name.split('/')[0]}/msg/{base}"
        if nested in CASES and nested not in found:
            needed(nested, found)
    return found


def write_hashes():
    for name, fields in CASES.items():
        if name not in STORE.types:
            STORE.register(get_types_from_msg(fields.replace(";", "\n"), name))
    lines = []
    for name in CASES:
        type_hash = STORE.hash_rihs01(name)
        found = needed(name, {})
        own = found.pop(name)
        # zenoh-ros2-sdk 0.1.8 does not parse bounded sequences, and adds no member to an empty
        # message inside of another one.
        if "[<=" not in own and "Empty" not in own + "".join(found.values()):
            other = utils.compute_type_hash_from_msg(name, own, found)
            assert type_hash == other, (name, type_hash, other)
        lines.append(f"{name} {type_hash} {CASES[name]}\n")
    (HERE / "hashes.txt").write_text("".join(lines))


def write_keys():
    """Keys, tokens and an attachment for a publisher of images."""
    name, topic = "sensor_msgs/msg/Image", "/camera/image_raw"
    type_hash = STORE.hash_rihs01(name)
    dds = utils.ros2_to_dds_type(name)
    key = keyexpr.topic_keyexpr(7, topic, dds, type_hash)
    assert key == pamoja.ros2.entity_key(7, topic, name, type_hash), key
    node = entity.NodeEntity(
        domain_id=7, session_id="a1b2c3", node_id=1, node_name="afferent", namespace="/robot"
    )
    best_effort = qos.QosProfile(reliability=qos.QosReliability.BEST_EFFORT, history_depth=5)
    endpoint = entity.EndpointEntity(
        node=node,
        entity_id=2,
        kind=entity.EntityKind.PUBLISHER,
        name=topic,
        dds_type_name=dds,
        type_hash=type_hash,
        qos=best_effort.encode(),
    )
    beside = attachment.Attachment(sequence_id=1, timestamp_ns=1 << 60, gid=bytes(range(16)))
    lines = [
        key,
        keyexpr.node_liveliness_keyexpr(node),
        keyexpr.endpoint_liveliness_keyexpr(endpoint),
        beside.to_bytes().hex(),
    ]
    (HERE / "keys.txt").write_text("\n".join(lines) + "\n")


def write_payloads():
    """Messages that nodes publish for the values in tests/router.rs."""
    unknown = np.zeros(9)
    no_estimate = np.array([-1.0] + 8 * [0.0])
    field = "sensor_msgs/msg/PointField"
    points = np.array([[1.0, -2.5, 1e-42], [0.1, np.inf, -0.0]], dtype="<f4")
    samples = np.array([0, -32768, 32767, 1234], dtype="<i2")
    values = [
        make(
            "sensor_msgs/msg/Imu",
            header=header("imu_link"),
            orientation=quaternion(0.0, 0.0, 0.0, 1.0),
            orientation_covariance=no_estimate,
            angular_velocity=xyz("Vector3", 0.25, -0.0, 3.0),
            angular_velocity_covariance=unknown,
            linear_acceleration=xyz("Vector3", 0.0, 0.0, 9.8125),
            linear_acceleration_covariance=unknown,
        ),
        make(
            "sensor_msgs/msg/PointCloud2",
            header=header("lidar"),
            height=1,
            width=2,
            fields=[
                make(field, name=name, offset=4 * at, datatype=7, count=1)
                for at, name in enumerate("xyz")
            ],
            is_bigendian=False,
            point_step=12,
            row_step=24,
            data=np.frombuffer(points.tobytes(), dtype=np.uint8),
            is_dense=False,
        ),
        make(
            "audio_common_msgs/msg/AudioDataStamped",
            header=header("mic"),
            audio=make(
                "audio_common_msgs/msg/AudioData",
                data=np.frombuffer(samples.tobytes(), dtype=np.uint8),
            ),
        ),
    ]
    lines = []
    for value in values:
        name = value.__msgtype__
        lines.append(f"{name} {bytes(STORE.serialize_cdr(value, name)).hex()}\n")
    (HERE / "payloads.txt").write_text("".join(lines))


write_messages()
write_hashes()
write_keys()
write_payloads()
