"""Graphs from Python."""

import asyncio
import os
import signal
import threading
import time

import numpy as np
import pytest

import afferent

@pytest.fixture
def echo():
    """A graph that takes texts."""
    return afferent.Graph.from_nodes(
        {
            "say": {"use": "app_source", "params": {"type": "text/Text"}},
            "log": {"use": "event_log", "in": "say.out", "params": {"path": os.devnull}},
        }
    )


def test_a_shipped_graph_runs_and_calls_back(repository):
    graph = afferent.Graph(repository / "pipelines/wake_word.yaml", set={"wake.threshold": 0.5})
    assert graph.nodes["wake"]["outputs"] == {"events": "speech/Keyword"}
    heard = []
    report = graph.run(on={"wake.events": heard.append}, virtual=True)
    assert [message.label for message in heard][:2] == ["hey afferent", "stop"]
    assert report["end"] == "complete" and len(report["nodes"]) == 6


def test_faults_have_locations(tmp_path):
    file = tmp_path / "graph.yaml"
    file.write_text("afferent: 1\nnodes:\n  log: {use: event_log, in: missing.out}\n")
    with pytest.raises(afferent.GraphError, match="graph.yaml:3") as caught:
        afferent.Graph(file)
    [fault] = [fault for fault in caught.value.faults if "missing" in fault["message"]]
    assert (fault["severity"], fault["line"], fault["file"]) == ("error", 3, str(file))


def test_texts_go_in_and_come_out(echo):
    with echo.start(streams=["say.out"]) as run:
        run.send("say", "one")
        run.send("say", afferent.text("two"), at=5.0)
        run.end_input("say")
        messages = list(run.stream("say.out"))
        assert [message.text for message in messages] == ["one", "two"]
        assert messages[1].at == 5.0
        assert run.wait(10)["end"] == "complete"
        assert run.is_ended
        with pytest.raises(afferent.MessageError, match="node say has ended"):
            run.send("say", "three")


def test_wrong_names_and_types_are_refused(echo):
    with echo.start() as run:
        with pytest.raises(afferent.MessageError, match="no node ear of kind app_source; it has say"):
            run.send("ear", "one")
        with pytest.raises(afferent.MessageError, match="node say sends text/Text, not audio/Block"):
            run.send("say", afferent.audio(np.zeros(10), 16000))
        with pytest.raises(afferent.ArgumentError, match='no output "say.text"; there are say.out'):
            run.stream("say.text")
        with pytest.raises(TimeoutError):
            run.stream("say.out").get(timeout=0.05)
        with pytest.raises(TimeoutError):
            run.wait(0.05)


def test_a_slow_reader_loses_the_oldest(echo):
    with echo.start() as run:
        stream = run.stream("say.out", capacity=2)
        for number in range(5):
            run.send("say", str(number))
        run.end_input()
        run.wait(10)
        assert [message.text for message in stream] == ["3", "4"]
        assert stream.dropped == 3


def test_messages_for_async_programs(echo):
    async def read():
        with echo.start() as run:
            texts = []
            task = asyncio.create_task(collect(run, texts))
            await asyncio.sleep(0.1)
            run.send("say", "hello")
            run.end_input()
            await task
            return texts

    async def collect(run, texts):
        async for message in run.messages("say.out"):
            texts.append(message.text)

    assert asyncio.run(read()) == ["hello"]


def test_an_exception_of_a_callback_is_raised_by_wait(echo):
    def fail(message):
        raise KeyError(message.text)

    with pytest.raises(KeyError, match="one"):
        with echo.start(on={"say.out": fail}) as run:
            run.send("say", "one")
            run.end_input()
            run.wait(10)


def test_ctrl_c_ends_a_wait(echo):
    # A shell may have started the tests without Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with echo.start() as run:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            run.wait(10)
        assert not run.is_ended


def test_recordings_are_read_as_arrays(repository, tmp_path):
    graph = afferent.Graph.from_nodes(
        {"camera": {"use": "test_pattern", "params": {"count": 3, "width": 32, "height": 16}}}
    )
    output = "camera." + next(iter(graph.nodes["camera"]["outputs"]))
    file = tmp_path / "run.mcap"
    sent = []
    graph.run(on={output: sent.append}, virtual=True, record=file)
    recording = afferent.Recording(file)
    assert recording.streams[output]["packets"] == 3 and recording.cut is None
    read = recording.read(output)
    assert [message.at for message in read] == [message.at for message in sent]
    for message, original in zip(read, sent):
        np.testing.assert_array_equal(message.data, original.data)
    assert len(recording.read(output, limit=1)) == 1
    with pytest.raises(afferent.RecordingError, match='no stream "camera.x"'):
        recording.read("camera.x")
    with pytest.raises(afferent.RecordingError, match="missing.mcap"):
        afferent.Recording(tmp_path / "missing.mcap")


def test_a_forked_process_is_told(echo):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            echo.start()
            os.write(write, b"started")
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    text = b""
    while part := os.read(read, 1000):
        text += part
    os.waitpid(child, 0)
    assert b'set_start_method("spawn")' in text


def test_reports_can_be_read_while_a_graph_runs(echo):
    with echo.start() as run:
        run.send("say", "one")
        time.sleep(0.1)
        report = run.report()
        assert report["end"] == "running"
        assert [node["packets_out"] for node in report["nodes"] if node["name"] == "say"] == [1]
