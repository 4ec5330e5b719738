"""Runs scripts of the zoo and builds data files in child processes, in sequence or in parallel."""
import argparse
import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading
import time

ZOO = os.path.dirname(os.path.abspath(__file__))
# Trainings allocate large tensors of varying sizes. With these thresholds glibc keeps freed memory
# instead of returning it to the system, which avoids page faults on the next allocation.
MALLOC_ENV = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}


def run_script(script, *arguments):
    """Runs a script, given relative to this folder. Exits if it fails."""
    command = [sys.executable, os.path.join(ZOO, script), *map(str, arguments)]
    done = subprocess.run(command, env=MALLOC_ENV | os.environ)
    if done.returncode != 0:
        sys.exit(f"{script} failed")


def run_parallel(commands, workers=2):
    """Runs scripts with their arguments in parallel, started in order.

    None is started after a failure.
    """
    failed = threading.Event()

    def run_one(command):
        if failed.is_set():
            return
        try:
            run_script(*command)
        except SystemExit:
            failed.set()
            raise

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(run_one, commands))


def _run_task(task):
    task[0](*task[1:])


def build_files(name, tasks, jobs):
    """Runs the tasks (function, path of its output, further arguments) whose output does not exist
    yet.
    """
    tasks, start = [task for task in tasks if not os.path.exists(task[1])], time.time()
    with multiprocessing.Pool(jobs, maxtasksperchild=1) as workers:
        for done, _ in enumerate(workers.imap(_run_task, tasks), 1):
            print(f"{name}: {done} of {len(tasks)} files, {time.time() - start:.0f} s", flush=True)


def check_seed(seed):
    """Records the seed of the work folder, and exits if it has another one."""
    path = os.path.join(ZOO, "work", "seed")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.write(str(seed))
    with open(path) as file:
        recorded = file.read()
    if recorded != str(seed):
        sys.exit(f"{os.path.dirname(path)} was built with seed {recorded}; pass that seed, or move the folder away")


def main(about, make):
    """Entry point of a script that builds something from a seed. An interrupted run resumes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seed", type=int, default=1)
    arguments, start = parser.parse_args(), time.time()
    check_seed(arguments.seed)
    make(arguments.seed)
    print(f"{os.path.relpath(sys.argv[0])}: done in {(time.time() - start) / 60:.0f} minutes", flush=True)
