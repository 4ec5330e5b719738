"""Writer of Motion JPEG in AVI."""
import io
import struct

from PIL import Image


def _chunk(name, content):
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def _list(name, *chunks):
    return _chunk(b"LIST", name + b"".join(chunks))


def write(path, images, rate, quality):
    """Writes RGB images (height, width, 3) at `rate` per second."""
    frames = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality, subsampling="4:2:0")
        frames.append(file.getvalue())
    height, width = images[0].shape[:2]
    largest, count = max(map(len, frames)), len(frames)
    has_index = 0x10
    header = struct.pack("<14I", 1000000 // rate, largest * rate, 0, has_index, count, 0, 1, largest, width, height,
                         0, 0, 0, 0)
    stream = struct.pack("<4s4sIHHIIIIIIII4H", b"vids", b"MJPG", 0, 0, 0, 0, 1, rate, 0, count, largest, 0xffffffff, 0,
                         0, 0, width, height)
    bitmap = struct.pack("<IiiHH4sIiiII", 40, width, height, 1, 24, b"MJPG", width * height * 3, 0, 0, 0, 0)
    movie, index, offset = [], [], 4
    for frame in frames:
        movie.append(_chunk(b"00dc", frame))
        index.append(struct.pack("<4sIII", b"00dc", 0x10, offset, len(frame)))
        offset += len(movie[-1])
    content = b"AVI " + _list(b"hdrl", _chunk(b"avih", header),
                              _list(b"strl", _chunk(b"strh", stream), _chunk(b"strf", bitmap)))
    content += _list(b"movi", *movie) + _chunk(b"idx1", b"".join(index))
    with open(path, "wb") as file:
        file.write(_chunk(b"RIFF", content))
