"""Opens an ETDump of `afferent model run --profile` with ExecuTorch's Inspector and prints its table: inspect_etdump.py FILE.etdp [--etrecord FILE]

Checks the result: one block for loading and one for execution, one event per operator call with one duration per run, and
no negative durations. The exit status is 1 if a check fails.
"""

import argparse
import sys

from executorch.devtools import Inspector


def main() -> int:
    """Prints the table and the failed checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("etdump")
    parser.add_argument("--etrecord", default=None)
    args = parser.parse_args()
    inspector = Inspector(etdump_path=args.etdump, etrecord=args.etrecord)
    inspector.print_data_tabular()
    faults = []
    names = [block.name for block in inspector.event_blocks]
    if "Default" not in names or "Execute" not in names:
        faults.append(f"blocks are {names}, expected Default and Execute")
    for block in inspector.event_blocks:
        runs = {len(event.perf_data.raw) for event in block.events if event.perf_data}
        if len(runs) != 1:
            faults.append(f"events of block {block.name} have {sorted(runs)} durations, expected the same number")
        if any(time < 0 for event in block.events for time in event.perf_data.raw):
            faults.append(f"an event of block {block.name} has a negative duration")
        print(f"{block.name}: {len(block.events)} events, {runs} runs each")
    calls = [event.name for block in inspector.event_blocks for event in block.events if event.name.startswith("native_call_")]
    if not calls:
        faults.append("no operator call")
    print("\n".join(f"FAULT: {fault}" for fault in faults) or "all checks passed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
