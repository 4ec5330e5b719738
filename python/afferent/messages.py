"""Messages of the common payload types."""

from typing import Optional

import numpy as np

from ._afferent import Message

#: Pixel formats by number of channels and type of elements.
_FORMATS = {
    (1, "uint8"): "mono8",
    (3, "uint8"): "rgb8",
    (4, "uint8"): "rgba8",
    (1, "uint16"): "mono16",
    (1, "float32"): "32FC1",
}


def text(value: str, *, turn: int = 0, is_last: bool = True, at: Optional[float] = None) -> Message:
    """A `text/Text`."""
    return Message("text/Text", at=at, turn=turn, text=value, is_last=is_last)


def audio(samples, rate: int, *, at: Optional[float] = None) -> Message:
    """An `audio/Block` of samples at `rate` Hz: an array of one channel, or of channels and samples, with
    a full scale of ±1. Integers of 16 bits are converted.
    """
    samples = np.asarray(samples)
    if samples.dtype == np.int16:
        samples = samples.astype(np.float32) / 32768.0
    samples = np.atleast_2d(samples).astype(np.float32, copy=False)
    return Message("audio/Block", at=at, data=samples, sample_rate_hz=rate)


def image(
    pixels, *, format: Optional[str] = None, frame_id: str = "", at: Optional[float] = None
) -> Message:
    """A `vision/Image` of an array of rows. Its format is rgb8, rgba8, mono8, mono16 or 32FC1 by the shape
    and the type; OpenCV has `format="bgr8"`.
    """
    pixels = np.asarray(pixels)
    return Message(
        "vision/Image", at=at, data=pixels, frame_id=frame_id, **image_fields(pixels, format)
    )


def image_fields(pixels: np.ndarray, format: Optional[str] = None) -> dict:
    """Fields of an image of an array of rows: its format by the shape and the type, and its meaning."""
    if format is None:
        channels = pixels.shape[2] if pixels.ndim == 3 else 1
        format = _FORMATS.get((channels, pixels.dtype.name))
        if format is None or pixels.ndim not in (2, 3):
            shapes = ", ".join(f"{count} × {dtype}" for count, dtype in _FORMATS)
            raise ValueError(
                f"an image of shape {pixels.shape} and type {pixels.dtype} has no format; rows "
                f"of pixels have {shapes}"
            )
    return {"format": format, **_MEANING}


#: Fields of an image that say how its pixels are meant, as those of a new image.
_MEANING = {"matrix": "bt601", "range": "full", "to_source": (1, 0, 0, 0, 1, 0)}
