"""Writes the JPEG images of this folder and their pixels, for src/image/jpeg.rs.

    pip install numpy pillow==13.0.0
    python graph/messages/tests/data/make.py
"""

from pathlib import Path

import numpy as np
import PIL.Image

HERE = Path(__file__).parent

rows, columns = np.mgrid[0:16, 0:24]
colors = np.stack([columns * 10, rows * 15, 255 - columns * 5 - rows * 5], axis=-1)
pixels = b""
for name, mode in (("colors", "RGB"), ("gray", "L")):
    image = PIL.Image.fromarray(colors.astype(np.uint8)).convert(mode)
    # Without chroma subsampling, decoders differ by rounding only.
    image.save(HERE / f"{name}.jpg", quality=90, subsampling=0)
    pixels += PIL.Image.open(HERE / f"{name}.jpg").tobytes()
(HERE / "pixels.bin").write_bytes(pixels)
