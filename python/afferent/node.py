"""Nodes in Python, for ``use: python, params: {file: blur.py}`` in a graph file."""

from __future__ import annotations

import re
from typing import Any, Optional, Union

import numpy as np

from ._afferent import Memory, Message
from .messages import image_fields

__all__ = ["Context", "In", "Node", "Out", "Param"]


class In:
    """An input of the payload type `type`, such as ``"vision/Image"``.

    An `optional` one may be left unconnected.
    """

    def __init__(self, type: str, help: str = "", *, optional: bool = False):
        self.type, self.help, self.optional = type, help, optional
        self.name = ""

    def __set_name__(self, owner, name: str) -> None:
        self.name = name


class Out:
    """An output of the payload type `type`."""

    def __init__(self, type: str, help: str = ""):
        self.type, self.help = type, help
        self.name = ""

    def __set_name__(self, owner, name: str) -> None:
        self.name = name


class Param:
    """A parameter of a node. Its value is an attribute of the node from `Node.open` on.

    The type is that of `default`: bool, int, float or str. A `default` of None makes it required, with
    the `type` to give then. `range` holds the least and the greatest value, `choices` the accepted
    words.
    """

    def __init__(
        self,
        default: Any = None,
        help: str = "",
        *,
        type: Optional[type] = None,
        unit: str = "",
        range: Optional[tuple[float, float]] = None,
        choices: tuple[str, ...] = (),
    ):
        self.type = type if type is not None else default.__class__
        if self.type not in (bool, int, float, str):
            raise TypeError(f"a parameter is a bool, int, float or str, not a {self.type.__name__}")
        self.default, self.help, self.unit = default, help, unit
        self.range, self.choices = range, tuple(choices)
        self.name = ""

    def __set_name__(self, owner, name: str) -> None:
        self.name = name


class Node:
    """A node of a graph. A subclass has inputs, outputs and parameters as attributes::

        class Blur(afferent.Node):
            "Blurs images."

            image = afferent.In("vision/Image", "Images to blur.")
            out = afferent.Out("vision/Image", "Blurred images.")
            size = afferent.Param(3, "Side of the window.", unit="px", range=(1, 31))

            def process(self, cx):
                pixels = cv2.blur(cx.image.data, (self.size, self.size))
                cx.send(self.out, pixels, like=cx.image)

    The process of the node calls `open` once, then `process` for each packet. A node without inputs
    is a source: it is called again and again, or when it asks for it with `Context.resume_at`, until it
    calls `Context.end`. The first line of its documentation is its summary.
    """

    #: True if the node asks for calls without a packet, by `Context.resume` or `Context.wake_at`.
    timed = False
    #: True if a call acts on the world: a replay plays what the node had sent instead.
    has_effects = False

    def open(self) -> None:
        """Loads what the node needs. Parameters are set."""

    def process(self, cx: Context) -> None:
        """Handles the packet of a call."""
        raise NotImplementedError(f"{type(self).__name__} has no method process")

    def finish(self, cx: Context) -> None:
        """Sends what is left after all inputs have ended."""

    def cancel(self, cx: Context) -> None:
        """Drops unfinished work after an interrupt."""

    @classmethod
    def describe(cls) -> dict:
        """Ports and parameters, as the graph reads them."""
        attributes: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            attributes.update(vars(base))
        every = [value for value in attributes.values() if isinstance(value, (In, Out, Param))]
        summary = (cls.__doc__ or "").strip().split("\n")[0].strip() or f"{cls.__name__} in Python."
        return {
            "summary": summary,
            "timed": bool(cls.timed),
            "has_effects": bool(cls.has_effects),
            "inputs": [
                {"name": port.name, "type": port.type, "help": port.help, "optional": port.optional}
                for port in every
                if isinstance(port, In)
            ],
            "outputs": [
                {"name": port.name, "type": port.type, "help": port.help}
                for port in every
                if isinstance(port, Out)
            ],
            "params": [
                {
                    "name": param.name,
                    "kind": param.type.__name__,
                    "default": _written(param.default),
                    "help": param.help,
                    "unit": param.unit,
                    "range": param.range,
                    "choices": param.choices,
                }
                for param in every
                if isinstance(param, Param)
            ],
        }


def _written(value: Any) -> Optional[str]:
    """A default as a graph file would write it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _make_read_only(value: Any) -> None:
    """Makes an array read-only, if it is one of `Context.empty` that has been sent."""
    arrays = []
    while isinstance(value, np.ndarray):
        arrays.append(value)
        value = value.base
    if isinstance(value, Memory):
        for array in arrays:
            array.flags.writeable = False


class Context:
    """One call of a node. The packets of the call are attributes by the names of the inputs: a
    `Message`, or None."""

    def __init__(self, link, node: Node, call: dict, packets: dict[str, Message]):
        self._link, self._node = link, node
        self._packets = packets
        #: Session time in nanoseconds.
        self.now_ns: int = call["now"]
        #: Input of the packet of this call; None for a call without one.
        self.port: Optional[str] = call.get("port")
        self._at_ns: int = call["at"]
        self._answer: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Optional[Message]:
        if name in self._node._inputs:
            return self._packets.get(name)
        raise AttributeError(f"the node has no input {name!r}; it has {', '.join(self._node._inputs)}")

    @property
    def now(self) -> float:
        """Session time in seconds."""
        return self.now_ns / 1e9

    @property
    def packet(self) -> Optional[Message]:
        """The packet of this call."""
        return self._packets.get(self.port) if self.port else None

    @property
    def is_canceled(self) -> bool:
        """True if the result of this call is not needed any more: return early."""
        return self._link.is_canceled

    def send(
        self,
        port: Out,
        value: Any = None,
        *,
        at: Optional[float] = None,
        like: Optional[Message] = None,
        **fields: Any,
    ) -> None:
        """Sends a value through `port`, with the timestamp of the packet of this call, or `at` in seconds.

        `value` is a message, a text for `text/Text`, or an array of samples, pixels or rows;
        `fields` are the other fields of the payload, and those that are not given are taken from
        `like`.
        """
        output = self._node._outputs.index(port.name)
        if at is not None:
            at_ns = round(at * 1e9)
        else:
            at_ns = self._at_ns
        if isinstance(value, Message):
            self._link.send(output, at_ns, message=value)
            return
        if like is not None:
            derived = ("width", "height", "row_stride", "sizes", "dim_order")
            fields = {
                **{name: item for name, item in like.fields().items() if name not in derived},
                **fields,
            }
        if isinstance(value, str):
            fields = {"is_last": True, **fields, "text": value}
            value = None
        elif port.type == "vision/Image" and value is not None and "format" not in fields:
            fields = {**image_fields(value), **fields}
        self._link.send(output, at_ns, data=value, values=fields)
        _make_read_only(value)

    def empty(self, shape: Union[int, tuple[int, ...]], dtype: Any = "uint8") -> np.ndarray:
        """A new array in memory that is shared with the graph: fill it and `send` it, without a copy.

        The content is undefined, as that of `numpy.empty`. From `send` on the memory belongs to the graph:
        the array is read-only, and its content changes when the memory is used again.
        """
        dtype = np.dtype(dtype)
        if dtype.hasobject:
            raise TypeError(f"an array of {dtype} holds addresses of this process")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return self._link.empty(shape, dtype.str, dtype.itemsize)

    def resume(self) -> None:
        """Asks for another call at once."""
        self._answer["resume"] = True

    def resume_at(self, seconds: float) -> None:
        """Asks for another call at this session time; packets wait until then."""
        self._answer["resume_at"] = round(seconds * 1e9)

    def wake_at(self, seconds: float) -> None:
        """Asks for a call at this session time, while packets continue."""
        self._answer["wake_at"] = round(seconds * 1e9)

    def end(self) -> None:
        """Ends the stream of a source."""
        self._answer["end"] = True
