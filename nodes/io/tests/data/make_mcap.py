"""Writes `zstd.mcap` and `lz4.mcap`, with the writer and the C libraries of the Python package mcap.

    pip install mcap==1.3.1 pillow && python make_mcap.py

Topics with 40 images each, 40 ms apart: `/raw` (rgb8), `/depth` (16UC1, big-endian), `/jpeg`
(CompressedImage), and `/bayer` with an encoding that is not supported.
"""

import io
import struct
from pathlib import Path

from mcap.writer import CompressionType, Writer
from PIL import Image

WIDTH, HEIGHT, COUNT = 16, 8, 40


def cdr(*fields):
    """Little-endian CDR of integers (format, value), texts and bytes."""
    out = bytearray()
    for field in fields:
        if isinstance(field, str):
            text = field.encode() + b"\0"
            out += bytes(-len(out) % 4) + struct.pack("<I", len(text)) + text
        elif isinstance(field, bytes):
            out += bytes(-len(out) % 4) + struct.pack("<I", len(field)) + field
        else:
            kind, value = field
            out += bytes(-len(out) % struct.calcsize(kind)) + struct.pack("<" + kind, value)
    return b"\0\1\0\0" + bytes(out)


def raw(encoding, pixel, big_endian, data):
    stamp = [("i", 0), ("I", 0), "camera"]
    return cdr(*stamp, ("I", HEIGHT), ("I", WIDTH), encoding, ("B", big_endian), ("I", WIDTH * pixel), data)


def jpeg(value):
    file = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), (value, 0, 0)).save(file, "jpeg")
    return cdr(("i", 0), ("I", 0), "camera", "bgr8; jpeg compressed bgr8", file.getvalue())


def write(path, compression):
    with open(path, "wb") as file:
        writer = Writer(file, chunk_size=20_000, compression=compression)
        writer.start("", "make_mcap.py")
        schemas = {
            name: writer.register_schema(f"sensor_msgs/msg/{name}", "ros2msg", b"")
            for name in ["Image", "CompressedImage"]
        }
        channels = {
            topic: writer.register_channel(topic, "cdr", schemas[schema])
            for topic, schema in [
                ("/raw", "Image"), ("/depth", "Image"), ("/jpeg", "CompressedImage"), ("/bayer", "Image")
            ]
        }
        for number in range(COUNT):
            pixels = WIDTH * HEIGHT
            messages = {
                "/raw": raw("rgb8", 3, 0, bytes([3 * number, 1, 2]) * pixels),
                "/depth": raw("16UC1", 2, 1, struct.pack(">H", 5 * number) * pixels),
                "/jpeg": jpeg(6 * number),
                "/bayer": raw("bayer_rggb8", 1, 0, bytes(pixels)),
            }
            time = 1_000_000_000 + number * 40_000_000
            for topic, data in messages.items():
                writer.add_message(channels[topic], time, data, time)
        writer.finish()


folder = Path(__file__).parent
write(folder / "zstd.mcap", CompressionType.ZSTD)
write(folder / "lz4.mcap", CompressionType.LZ4)
