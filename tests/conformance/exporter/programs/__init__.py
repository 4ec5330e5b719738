"""The conformance programs, by what they prove."""

from . import arguments, control, dtypes, files, layers, methods, rows, shapes, state

__all__ = ["arguments", "control", "dtypes", "files", "layers", "methods", "rows", "shapes", "state"]
