"""Starts scripts of the zoo and makes files, each in a process of its own, one after the other or side by side."""
import argparse
import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading
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
    """Run scripts with their arguments, so many at once, in the order of the list; none is begun once one has failed."""
    failed = threading.Event()

    def lane(command):
        if failed.is_set():
            return
        try:
            run(*command)
        except SystemExit:
            failed.set()
            raise

    with concurrent.futures.ThreadPoolExecutor(at_once) as lanes:
        list(lanes.map(lane, commands))


def _make(task):
    task[0](*task[1:])


def make_files(name, tasks, jobs):
    """Run tasks (function, path of the file that it makes, further arguments) of which the file is not there yet."""
    tasks, began = [task for task in tasks if not os.path.exists(task[1])], time.time()
    with multiprocessing.Pool(jobs, maxtasksperchild=1) as workers:
        for done, _ in enumerate(workers.imap(_make, tasks), 1):
            print(f"{name}: {done} of {len(tasks)} files, {time.time() - began:.0f} s", flush=True)


def keep_seed(seed):
    """Note the seed that everything in the folder of work is made with; refuse another one."""
    path = os.path.join(ZOO, "work", "seed")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.write(str(seed))
    with open(path) as file:
        if file.read() != str(seed):
            sys.exit(f"{os.path.dirname(path)} was made with another seed, which {path} names: give that one, or move the folder away")


def main(about, make):
    """A script that makes something from a seed; one that was interrupted continues."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seed", type=int, default=1)
    arguments, began = parser.parse_args(), time.time()
    keep_seed(arguments.seed)
    make(arguments.seed)
    print(f"{os.path.relpath(sys.argv[0])}: done in {(time.time() - began) / 60:.0f} minutes", flush=True)
