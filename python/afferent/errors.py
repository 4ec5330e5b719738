"""Exceptions. Each message names what is wrong, where, and how to fix it."""


class AfferentError(Exception):
    """An error of this package. `code` is a short name of its kind, such as "MethodMissing"."""

    def __init__(self, message: str, code: str = ""):
        super().__init__(message)
        self.code = code


class ArgumentError(AfferentError, ValueError):
    """A wrong argument: the type or the number of inputs, an unknown output, a value out of range."""


class MessageError(AfferentError, ValueError):
    """A message with wrong fields or data, or one that a node does not take."""


class ModelError(AfferentError):
    """A program, a package or a tokenizer that cannot be loaded or run."""


class RecordingError(AfferentError):
    """A recording that cannot be read or written."""


class RunError(AfferentError):
    """A graph that could not start, or whose nodes failed."""


class GraphError(AfferentError):
    """A faulty graph. `faults` has a dict for each fault, with `severity`, `message`, `help`, `file`,
    `line` and `column`."""

    def __init__(self, message: str, faults: list):
        super().__init__(message, "Graph")
        self.faults = faults
