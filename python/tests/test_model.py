"""Programs on NumPy arrays, against PyTorch."""

import threading

import numpy as np
import pytest

import afferent


def test_every_type_goes_in_and_out(data, expected):
    model = afferent.Model(data / "types.pte")
    inputs = [expected[f"types_in_{index}"] for index in range(4)]
    outputs = model.run(*inputs)
    assert len(outputs) == 6
    for index, output in enumerate(outputs):
        wanted = expected[f"types_out_{index}"]
        assert output.dtype == wanted.dtype and output.shape == wanted.shape
        np.testing.assert_array_equal(output, wanted)


def test_methods_tell_shapes_types_and_bounds(data):
    model = afferent.Model(data / "rows.pte")
    forward = model.methods["forward"]
    assert forward["inputs"] == [{"shape": (16, 5), "dtype": "float32", "is_dynamic": True}]
    package = afferent.Model(data.parents[2] / "pipelines/models/vad")
    assert package.package["task"] == "voice_activity"
    assert package.metadata["sample_rate"] == 16000


def test_lists_and_strided_arrays_are_converted(data, expected):
    model = afferent.Model(data / "rows.pte")
    rows, wanted = expected["rows_in"], expected["rows_out"]
    np.testing.assert_allclose(model.run(rows), wanted, rtol=1e-6)
    np.testing.assert_allclose(model(rows.tolist()), wanted, rtol=1e-6)
    strided = np.repeat(rows, 2, axis=1)[:, ::2]
    assert not strided.flags.c_contiguous
    np.testing.assert_allclose(model.run(strided), wanted, rtol=1e-6)
    np.testing.assert_allclose(model.run(rows[:3]), wanted[:3], rtol=1e-6)


def test_outputs_are_not_changed_by_later_runs(data):
    model = afferent.Model(data / "rows.pte")
    first = model.run(np.zeros((1, 5), np.float32))
    kept = first.copy()
    model.run(np.arange(5, dtype=np.float32).reshape(1, 5))
    np.testing.assert_array_equal(first, kept)


def test_state_is_kept_until_reset(data):
    model, ones = afferent.Model(data / "counter.pte"), np.ones(3, np.float32)
    assert [model.run(ones)[0] for _ in range(3)] == [1.0, 2.0, 3.0]
    model.reset()
    assert model.run(ones)[0] == 1.0


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "forward takes 1 input, not 0"),
        ((np.zeros((2, 5)),), 'input 0 is an array of float64, but the method takes float32: use x.astype("float32")'),
        ((np.zeros((2, 5), "S1"),), "an array of |S1 cannot be a tensor"),
    ],
)
def test_wrong_arguments_are_named(data, inputs, message):
    model = afferent.Model(data / "rows.pte")
    with pytest.raises(afferent.ArgumentError) as caught:
        model.run(*inputs)
    assert str(caught.value) == message


def test_wrong_sizes_and_files_are_named(data, tmp_path):
    model = afferent.Model(data / "rows.pte")
    with pytest.raises(afferent.ModelError, match="17.*16") as caught:
        model.run(np.zeros((17, 5), np.float32))
    assert caught.value.code == "Run"
    with pytest.raises(afferent.ArgumentError, match="no method \"decode\"; the program has forward"):
        model.run(np.zeros((1, 5), np.float32), method="decode")
    damaged = tmp_path / "damaged.pte"
    damaged.write_bytes((data / "rows.pte").read_bytes()[:200])
    with pytest.raises(afferent.ModelError, match="damaged.pte"):
        afferent.Model(damaged)
    with pytest.raises(afferent.ModelError, match="missing.pte"):
        afferent.Model(tmp_path / "missing.pte")


def test_profiles_name_instructions(data, expected):
    model = afferent.Model(data / "rows.pte")
    output, times = model.profile(expected["rows_in"], runs=3)
    np.testing.assert_allclose(output, expected["rows_out"], rtol=1e-6)
    assert times[0]["calls"] == 3 and "softmax" in times[0]["name"]
    assert model.etdump(expected["rows_in"])[8:12] == b"ED00"


def test_threads_share_a_model(data, expected):
    model, wrong = afferent.Model(data / "rows.pte"), []

    def run():
        for _ in range(200):
            if not np.allclose(model.run(expected["rows_in"]), expected["rows_out"]):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong
