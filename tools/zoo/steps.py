"""Starts scripts of the zoo and makes files, each in a process of its own, one after the other or side by side."""
import argparse
import ctypes.util
import multiprocessing
import os
import subprocess
import sys
import time

ZOO = os.path.dirname(os.path.abspath(__file__))
# Trainings ask for tensors of ever other sizes: glibc spends an eighth of their time on finding room for them, jemalloc
# next to nothing if it keeps large ones for some seconds, too. If it keeps them for ever, memory runs out.
ALLOCATOR = "oversize_threshold:0,dirty_decay_ms:5000,muzzy_decay_ms:5000"


def environment():
    """That of a script: with jemalloc, if this is installed and nothing else is asked for."""
    library = ctypes.util.find_library("jemalloc")
    return ({"LD_PRELOAD": library, "MALLOC_CONF": ALLOCATOR} if library else {}) | os.environ


def start(script, *arguments):
    """Start a script, named from this folder."""
    return subprocess.Popen([sys.executable, os.path.join(ZOO, script), *map(str, arguments)], env=environment())


def finish(*processes):
    """Wait for scripts; the whole run ends with the first that fails."""
    for process in processes:
        if process.wait() != 0:
            sys.exit(f"{process.args[1]} failed")


def run(script, *arguments):
    finish(start(script, *arguments))


def _make(task):
    task[0](*task[1:])


def make_files(name, tasks, jobs):
    """Run tasks (function, path of the file that it makes, further arguments) of which the file is not there yet."""
    tasks, began = [task for task in tasks if not os.path.exists(task[1])], time.time()
    with multiprocessing.Pool(jobs, maxtasksperchild=1) as workers:
        for done, _ in enumerate(workers.imap(_make, tasks), 1):
            print(f"{name}: {done} of {len(tasks)} files, {time.time() - began:.0f} s", flush=True)


def main(about, make):
    """A script that makes something from a seed; one that was interrupted continues."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seed", type=int, default=1)
    arguments, began = parser.parse_args(), time.time()
    make(arguments.seed)
    print(f"{os.path.relpath(sys.argv[0])}: done in {(time.time() - began) / 60:.0f} minutes", flush=True)
