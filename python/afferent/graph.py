"""Graphs and running graphs."""

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional, Union

from . import _afferent
from ._afferent import Message, Stream

__all__ = ["Graph", "Run", "Stream"]


class Graph(_afferent.Graph):
    """A checked graph: ``Graph("pipelines/wake_word.yaml", set={"wake.threshold": 0.6})``.

    Raises `GraphError` with every fault, each with file, line and column.
    """

    @classmethod
    def from_nodes(
        cls,
        nodes: Mapping[str, Mapping[str, Any]],
        *,
        folder: Union[str, os.PathLike] = ".",
        **keys: Any,
    ) -> "Graph":
        """A graph that is built in Python: `nodes` are those of a graph file, `keys` its other keys.

        Relative paths of parameters are relative to `folder`::

            Graph.from_nodes({
                "say": {"use": "app_source", "params": {"type": "text/Text"}},
                "log": {"use": "event_log", "in": "say.out"},
            })
        """
        graph = {"afferent": 1, **keys, "nodes": {name: dict(node) for name, node in nodes.items()}}
        # JSON is YAML.
        return cls(folder, text=json.dumps(graph, indent=1, default=os.fspath))

    def start(
        self,
        *,
        on: Optional[Mapping[str, Callable[[Message], Any]]] = None,
        streams: Iterable[str] = (),
        virtual: bool = False,
        single_thread: bool = False,
        duration: Optional[float] = None,
        record: Union[str, os.PathLike, None] = None,
    ) -> "Run":
        """Starts the graph.

        `on` calls functions with the messages of outputs, as `Run.on` does, from the first one on;
        `streams` names outputs that are read with `Run.stream` later. With `virtual`, paced sources
        run as fast as the machine can, and no message is dropped. `record` is an MCAP file to write,
        `duration` a time in seconds after which the run stops.
        """
        on = dict(on or {})
        run = Run(
            self._start(
                streams=[*on, *streams],
                virtual=virtual,
                single_thread=single_thread,
                duration=duration,
                record=record,
            )
        )
        for output, function in on.items():
            run.on(output, function)
        return run

    def run(self, **options: Any) -> dict:
        """Starts the graph with the options of `start`, waits for its end, and returns the report."""
        with self.start(**options) as run:
            return run.wait()


class Run:
    """A running graph. As a context manager, it stops the graph at the end of the block and raises
    `RunError` if nodes failed."""

    def __init__(self, run: _afferent.Run):
        self._run = run
        self._readers: list = []

    def stream(self, output: str, *, capacity: Optional[int] = None) -> Stream:
        """Messages of `output`, such as ``"asr.transcript"``, to iterate over.

        If the program is slower than the graph, the oldest of `capacity` messages are dropped and
        counted in `Stream.dropped`: the graph never waits.
        """
        return self._run._stream(output, capacity=capacity)

    async def messages(self, output: str, *, capacity: Optional[int] = None):
        """Messages of `output` for ``async for``."""
        # Nodes do not need it: 8 MB, and half of the time of the import.
        import asyncio

        stream = self.stream(output, capacity=capacity)
        try:
            while (message := await asyncio.to_thread(stream.get)) is not None:
                yield message
        finally:
            stream.close()

    def on(self, output: str, function: Callable[[Message], Any]) -> None:
        """Calls `function` with every message of `output`, in a thread of its own.

        An exception of `function` ends its calls, and `wait` raises it.
        """
        reader = _Reader(self.stream(output), function)
        self._readers.append(reader)
        reader.start()

    def send(
        self, node: str, message: Union[Message, str], *, timeout: float = 1.0, at: Optional[float] = None
    ) -> None:
        """Sends `message` into the graph, through the node `node` of kind app_source; a text is sent as
        `text/Text`. `at` is its timestamp in seconds; by default it is the present time."""
        if isinstance(message, str):
            message = Message("text/Text", at=at, text=message, is_last=True)
        elif at is not None:
            message = Message(message.type, at=at, data=message.data, **message.fields())
        self._run._send(node, message, timeout=timeout, has_time=at is not None)

    def end_input(self, node: Optional[str] = None) -> None:
        """Ends the stream of the node `node` of kind app_source, or of all of them."""
        self._run.end_input(node)

    def interrupt(self) -> None:
        """Cancels the present work of the graph, such as an answer that is being spoken."""
        self._run.interrupt()

    def report(self) -> dict:
        """Figures of the run so far: packets, drops and times of each node and edge."""
        return self._run.report()

    def stop(self) -> None:
        """Asks the graph to stop. `wait` waits for its end."""
        self._run.stop()

    def wait(self, timeout: Optional[float] = None) -> dict:
        """Waits for the end of the graph and returns the report.

        Raises `RunError` if nodes failed, and `TimeoutError` after `timeout` seconds. Ctrl-C raises
        `KeyboardInterrupt`; the graph runs on.
        """
        report = self._run.wait(timeout)
        for reader in self._readers:
            reader.finish()
        return report

    @property
    def is_ended(self) -> bool:
        """True if the run has ended."""
        return self._run.is_ended

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.stop()
        if kind is None:
            self.wait()


class _Reader(threading.Thread):
    """Calls a function with the messages of a stream."""

    def __init__(self, stream: Stream, function: Callable[[Message], Any]):
        super().__init__(name=f"afferent {stream.name}", daemon=True)
        self._stream = stream
        self._function = function
        self._error: Optional[BaseException] = None

    def run(self) -> None:
        try:
            for message in self._stream:
                self._function(message)
        except BaseException as error:
            self._error = error
        finally:
            self._stream.close()

    def finish(self) -> None:
        self.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
