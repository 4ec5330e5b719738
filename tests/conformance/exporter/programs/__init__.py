"""Conformance programs, by tested feature."""

from . import arguments, control, cortex_m, dtypes, files, last_token, layers, methods, ordering, shapes, state

__all__ = ["arguments", "control", "cortex_m", "dtypes", "files", "last_token", "layers", "methods", "ordering", "shapes", "state"]
