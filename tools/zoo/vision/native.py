"""Renderers in C, compiled with the compiler of the system on first use and called by ctypes."""
import ctypes
import fcntl
import functools
import os
import subprocess

from paths import HERE, WORK

FLAGS = ["-O3", "-march=native", "-ffast-math", "-std=c11", "-Wall", "-Wextra", "-shared", "-fPIC"]


@functools.cache
def load(name):
    """Returns the library of `name`.c, and compiles it if the source is newer."""
    os.makedirs(WORK, exist_ok=True)
    source, library = os.path.join(HERE, f"{name}.c"), os.path.join(WORK, f"{name}.so")
    sources = [source, os.path.join(HERE, "render.h")]
    with open(os.path.join(WORK, f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(library) or any(os.path.getmtime(s) > os.path.getmtime(library) for s in sources):
            subprocess.run([os.environ.get("CC", "cc"), *FLAGS, source, "-o", f"{library}.part", "-lm"], check=True)
            os.replace(f"{library}.part", library)
    return ctypes.CDLL(library)


def pointer(array):
    """Returns the address of a contiguous array."""
    if not array.flags.c_contiguous:
        raise ValueError("the array must be contiguous")
    return ctypes.c_void_p(array.ctypes.data)
