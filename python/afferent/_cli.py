"""The command line: `afferent`, and `python -m afferent`."""

import signal
import sys

from ._afferent import run_command


def main() -> int:
    # The commands handle Ctrl-C themselves; Python's handler would wait for their end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["afferent", *sys.argv[1:]])
