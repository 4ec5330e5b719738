"""The process of a node: ``python -m afferent.serve FILE [--class NAME] [--describe]``.

The node `python` of a graph starts it. `--describe` prints the ports and parameters of the node as
JSON; otherwise the process serves the node over the link that it got as standard input.
"""

import argparse
import importlib.util
import inspect
import json
import os
import sys
import traceback

from . import __version__, _afferent
from .node import Context, Node


def load(file: str, name: str = ""):
    """The class of the node in `file`."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("afferent_node", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["afferent_node"] = module
    spec.loader.exec_module(module)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Node) and value.__module__ == module.__name__
    ]
    if name:
        classes = [found for found in classes if found.__name__ == name]
    if len(classes) != 1:
        names = ", ".join(found.__name__ for found in classes)
        if not classes:
            raise ImportError(f"no class {name or 'that derives from afferent.Node'}")
        raise ImportError(f"several nodes: {names}; name one with the parameter class")
    return classes[0]


def last_line(error: BaseException, file: str) -> str:
    """The error with its line in `file`."""
    text = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.__class__.__name__}: {error.msg}"
    path = os.path.abspath(file)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if os.path.abspath(frame.filename) == path]
    return f"line {lines[-1]}: {text}" if lines else text


def serve(link, cls, file: str) -> None:
    node = None
    while (received := link.receive()) is not None:
        text, packets = received
        message = json.loads(text)
        try:
            if "open" in message:
                node = opened(link, cls, message["open"])
                link.answer(json.dumps("opened"))
                continue
            call = message["call"]
            named = {node._inputs[port]: packet for port, packet in packets}
            cx = Context(link, node, call, named)
            getattr(node, call["kind"])(cx)
            link.answer(json.dumps({"done": cx._answer}))
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            traceback.print_exc()
            link.answer(json.dumps({"failed": last_line(error, file)}))


def opened(link, cls, options: dict):
    inputs = [port["name"] for port in options["inputs"]]
    outputs = [port["name"] for port in options["outputs"]]
    types = [[port["type"] for port in options[ports]] for ports in ("inputs", "outputs")]
    link.set_ports(*types, options["layouts"])
    node = cls()
    node.name, node._inputs, node._outputs = options["name"], inputs, outputs
    defaults = {param["name"]: getattr(cls, param["name"]).default for param in cls.describe()["params"]}
    for name, value in {**defaults, **options["params"]}.items():
        setattr(node, name, value)
    node.open()
    return node


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m afferent.serve", description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--class", dest="name", default="")
    parser.add_argument("--describe", action="store_true")
    args = parser.parse_args()
    if args.describe:
        # What the file prints while it is imported must not mix with the description.
        out, sys.stdout = sys.stdout, sys.stderr
        try:
            described = load(args.file, args.name).describe()
        except Exception as error:
            described = {"failed": last_line(error, args.file)}
        json.dump({"version": __version__, **described}, out)
        return 0
    link = _afferent.connect()
    if link is None:
        parser.error("it is started by a graph: use `use: python, params: {file: ...}` in a graph file")
    try:
        cls = load(args.file, args.name)
    except Exception as error:
        traceback.print_exc()
        link.receive()
        link.answer(json.dumps({"failed": last_line(error, args.file)}))
        return 1
    try:
        serve(link, cls, args.file)
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
