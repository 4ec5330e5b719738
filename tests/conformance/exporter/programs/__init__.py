"""Conformance programs, by tested feature."""

from . import arguments, control, dtypes, files, last_token, layers, methods, ordering, shapes, state

__all__ = ["arguments", "control", "dtypes", "files", "last_token", "layers", "methods", "ordering", "shapes", "state"]
