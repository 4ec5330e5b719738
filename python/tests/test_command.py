"""The command line of the package, and its plugin of pytest."""

import subprocess
import sys
import time

import afferent

pytest_plugins = ["pytester"]


def run(*arguments):
    command = [sys.executable, "-m", "afferent", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_the_command_has_its_exit_status(repository):
    assert run("--version").stdout.strip() == f"afferent {afferent.__version__}"
    checked = run("check", repository / "pipelines/wake_word.yaml")
    assert checked.returncode == 0 and "ready to run" in checked.stdout
    assert run("check", repository / "missing.yaml").returncode == 1
    assert run("no-such-command").returncode == 2


def test_the_import_is_quick():
    times = []
    for _ in range(5):
        code = "import numpy, time; t = time.perf_counter(); import afferent; print(time.perf_counter() - t)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        times.append(float(done.stdout))
    print(f"import after NumPy: {min(times) * 1e3:.0f} ms")
    assert min(times) < 0.1
    assert time.perf_counter() > 0


def test_scenarios_are_tests(pytester):
    scenario = "afferent: 1\nscenario: broken\ngraph: nothing.yaml\nturns: []\n"
    pytester.makefile(".scenario.yaml", broken=scenario)
    result = pytester.runpytest_subprocess("-p", "no:afferent", "-p", "afferent.pytest_plugin", "-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*nothing.yaml*"])
