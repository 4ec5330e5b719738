"""Values of streams as Python objects."""

import numpy as np
import pytest

import afferent


def test_a_text_has_its_fields():
    message = afferent.text("hello", turn=3, at=1.5)
    assert (message.type, message.text, message.turn, message.is_last) == ("text/Text", "hello", 3, True)
    assert (message.at, message.at_ns, message.data) == (1.5, 1_500_000_000, None)
    assert message.fields() == {"turn": 3, "text": "hello", "is_last": True}
    with pytest.raises(AttributeError, match="text/Text has no field 'txt'|no field \"txt\"; it has turn, text"):
        message.txt


@pytest.mark.parametrize(
    ("shape", "dtype", "format"),
    [
        ((4, 6, 3), "uint8", "rgb8"),
        ((4, 6, 4), "uint8", "rgba8"),
        ((4, 6), "uint8", "mono8"),
        ((4, 6), "uint16", "mono16"),
        ((4, 6), "float32", "32FC1"),
    ],
)
def test_images_round_trip(shape, dtype, format):
    pixels = np.random.default_rng(1).integers(0, 200, shape).astype(dtype)
    message = afferent.image(pixels, frame_id="camera")
    assert (message.format, message.width, message.height) == (format, 6, 4)
    assert message.data.dtype == pixels.dtype and not message.data.flags.writeable
    np.testing.assert_array_equal(message.data, pixels)


def test_arrays_borrow_the_packet():
    message = afferent.image(np.zeros((100, 100, 3), np.uint8))
    first, second = message.data, message.data
    assert first.ctypes.data == second.ctypes.data
    del message
    assert first.sum() == 0


def test_audio_has_channels_and_samples():
    block = afferent.audio(np.array([0, 16384, -32768], np.int16), 16000)
    assert block.sample_rate_hz == 16000
    np.testing.assert_array_equal(block.data, [[0.0, 0.5, -1.0]])


def test_nested_fields_are_read_and_written():
    transform = {
        "at_ns": 5,
        "frame_id": "world",
        "child_frame_id": "camera",
        "translation_m": (1, 2, 3),
        "rotation_xyzw": (0, 0, 0, 1),
    }
    message = afferent.Message("spatial/Transforms", transforms=[transform])
    found = message.transforms[0]
    assert (found.frame_id, found.translation_m) == ("world", (1.0, 2.0, 3.0))
    again = afferent.Message("spatial/Transforms", **message.fields())
    assert again.fields() == message.fields()


def test_every_payload_type_has_fields():
    types = afferent.payload_types()
    assert "text/Text" in types and len(types) > 30
    made = 0
    for name in types:
        try:
            message = afferent.Message(name)
        except afferent.MessageError as error:
            # A type whose fields cannot all be empty says which one.
            assert name in str(error)
            continue
        again = afferent.Message(name, data=message.data, **message.fields())
        assert repr(again.fields()) == repr(message.fields())
        made += 1
    assert made > 20


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: afferent.Message("text/Txt"), 'there is no payload type "text/Txt"'),
        (lambda: afferent.Message("text/Text", txt="a"), "there is no field txt; the fields are turn, text, is_last"),
        (lambda: afferent.Message("text/Text", turn="a"), "the field turn is u64, not 'a'"),
        (lambda: afferent.Message("text/Text", data=np.zeros(3)), "text/Text has no data, only fields"),
        (
            lambda: afferent.Message("spatial/Imu", acceleration_m_s2=(1, 2)),
            "the field acceleration_m_s2 has 3 values, not 2",
        ),
        (lambda: afferent.Message("vision/Image", data=np.zeros((2, 2), np.uint8)), "format \"\" is none of"),
    ],
)
def test_wrong_messages_are_named(create, message):
    with pytest.raises(afferent.MessageError) as caught:
        create()
    assert message in str(caught.value)
