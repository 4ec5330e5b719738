"""Scenarios as tests of pytest: every file `*.scenario.yaml`, and each file or folder given as
``--afferent-scenarios``, runs like with `afferent test`."""

import json
import pathlib
import subprocess
import sys

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--afferent-scenarios",
        action="append",
        default=[],
        metavar="PATH",
        help="collect the scenarios in this file or folder; may be given several times",
    )


def pytest_collect_file(parent, file_path):
    roots = [pathlib.Path(path).resolve() for path in parent.config.getoption("--afferent-scenarios")]
    resolved = file_path.resolve()
    is_named = any(root == resolved or root in resolved.parents for root in roots)
    is_scenario = is_named and file_path.suffix in (".yaml", ".yml")
    if is_scenario or file_path.name.endswith((".scenario.yaml", ".scenario.yml")):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


class ScenarioFile(pytest.File):
    """A file of scenarios."""

    def collect(self):
        yield ScenarioItem.from_parent(self, name=self.path.stem)


class ScenarioItem(pytest.Item):
    """The cases of a file."""

    def runtest(self):
        command = [sys.executable, "-m", "afferent", "test", "--json", str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise ScenarioFailed(done.stdout, done.stderr)

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, ScenarioFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, 0, f"scenario {self.name}"


class ScenarioFailed(Exception):
    """The expectations that a graph did not meet."""

    def __init__(self, output: str, errors: str):
        failed = []
        for line in output.splitlines():
            case = json.loads(line)
            if not case.get("passed", False):
                failed.append(json.dumps(case, indent=1))
        super().__init__("\n".join([*failed, errors.strip()]))
