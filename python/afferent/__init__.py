"""Streaming dataflow for robots, glasses and headsets, with ExecuTorch models.

========================  ===================================================================
`Model`                   runs a program (.pte) or a model package on NumPy arrays
`LanguageModel`           generates text; `Tokenizer` alone splits it
`Graph`, `Run`            load, build, start, watch and stop a graph
`Message`                 a value of a stream; `text`, `audio` and `image` make some
`Recording`               reads streams of a recording as arrays
`Node`, `In`, `Out`       a node in Python, for ``use: python`` in a graph file
========================  ===================================================================
"""

import os as _os
import sys as _sys

from ._afferent import Message, Model, Recording, Tokenizer, __version__, payload_types
from .errors import (
    AfferentError,
    ArgumentError,
    GraphError,
    MessageError,
    ModelError,
    RecordingError,
    RunError,
)
from .graph import Graph, Run, Stream
from .language_model import LanguageModel
from .messages import audio, image, text
from .node import Context, In, Node, Out, Param

__all__ = [
    "AfferentError",
    "ArgumentError",
    "Context",
    "Graph",
    "GraphError",
    "In",
    "LanguageModel",
    "Message",
    "MessageError",
    "Model",
    "ModelError",
    "Node",
    "Out",
    "Param",
    "Recording",
    "RecordingError",
    "Run",
    "RunError",
    "Stream",
    "Tokenizer",
    "__version__",
    "audio",
    "image",
    "payload_types",
    "text",
]

# Nodes in Python run in the interpreter of the program that starts their graph.
if _sys.executable:
    _os.environ.setdefault("AFFERENT_PYTHON", _sys.executable)

if hasattr(_os, "register_at_fork"):
    from ._afferent import forked as _forked

    _os.register_at_fork(after_in_child=_forked)
