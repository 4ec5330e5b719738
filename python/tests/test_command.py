"""The command line of the package, and its plugin of pytest."""

import subprocess
import sys

import numpy as np

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


def test_a_new_node_in_python_runs(tmp_path):
    written = run("new", "node", "half_gain", "--python", "--crate", tmp_path)
    assert written.returncode == 0 and "half_gain.py" in written.stdout
    shown = run("nodes", "python", "--set", f"file={tmp_path / 'half_gain.py'}")
    assert "audio/Block" in shown.stdout and "gain" in shown.stdout
    graph = afferent.Graph.from_nodes(
        {
            "sound": {"use": "app_source", "params": {"type": "audio/Block"}},
            "half": {
                "use": "python",
                "params": {"file": tmp_path / "half_gain.py", "gain": 0.5},
                "in": "sound.out",
            },
        }
    )
    with graph.start(streams=["half.out"]) as run_:
        run_.send("sound", afferent.audio(np.full(4, 0.5), 16000))
        run_.end_input()
        [block] = list(run_.stream("half.out"))
    np.testing.assert_array_equal(block.data, np.full((1, 4), 0.25, np.float32))
    assert block.sample_rate_hz == 16000
    assert run("new", "node", "half_gain", "--python", "--crate", tmp_path).returncode == 1


def test_the_import_is_quick():
    times = []
    for _ in range(5):
        code = "import numpy, time; t = time.perf_counter(); import afferent; print(time.perf_counter() - t)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        times.append(float(done.stdout))
    print(f"import after NumPy: {min(times) * 1e3:.0f} ms")
    assert min(times) < 0.1


def test_nodes_do_not_load_asyncio():
    code = "import sys, afferent.serve; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_scenarios_are_tests(pytester):
    scenario = "afferent: 1\nscenario: broken\ngraph: nothing.yaml\nturns: []\n"
    pytester.makefile(".scenario.yaml", broken=scenario)
    result = pytester.runpytest_subprocess("-p", "no:afferent", "-p", "afferent.pytest_plugin", "-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*nothing.yaml*"])
