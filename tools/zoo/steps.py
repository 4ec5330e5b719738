"""Starts scripts of the zoo and makes files, each in a process of its own, one after the other or side by side."""
import argparse
import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import time

ZOO = os.path.dirname(os.path.abspath(__file__))
# Trainings ask for large tensors of ever other sizes. What glibc gives back to the system, it has to ask for again, page by
# page: a quarter to a half of their time. So it keeps everything up to these bytes.
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}


def run(script, *arguments):
    """Run a script, named from this folder; the whole run ends where it fails."""
    done = subprocess.run([sys.executable, os.path.join(ZOO, script), *map(str, arguments)], env=KEPT | os.environ)
    if done.returncode != 0:
        sys.exit(f"{script} failed")


def beside(commands, at_once=2):
    """Run scripts with their arguments, so many at once, in the order of the list; what waits when one fails is not begun."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as lanes:
        begun = [lanes.submit(run, *command) for command in commands]
        try:
            for done in concurrent.futures.as_completed(begun):
                done.result()
        finally:
            lanes.shutdown(cancel_futures=True)


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
