"""Opens an ETDump of `afferent model run --profile` with the official Inspector and prints its table: inspect_etdump.py FILE.etdp [--etrecord FILE]

Checks what the Inspector makes of it: a block of loading and one of running, one event for each operator call with
as many times as there were runs, and no negative time. Ends with status 1 where something is missing.
"""

import argparse
import sys

from executorch.devtools import Inspector


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("etdump")
    parser.add_argument("--etrecord", default=None)
    args = parser.parse_args()
    inspector = Inspector(etdump_path=args.etdump, etrecord=args.etrecord)
    inspector.print_data_tabular()
    faults = []
    names = [block.name for block in inspector.event_blocks]
    if "Default" not in names or "Execute" not in names:
        faults.append(f"blocks are {names}, not Default and Execute")
    for block in inspector.event_blocks:
        runs = {len(event.perf_data.raw) for event in block.events if event.perf_data}
        if len(runs) != 1:
            faults.append(f"events of block {block.name} were seen {sorted(runs)} times")
        if any(time < 0 for event in block.events for time in event.perf_data.raw):
            faults.append(f"an event of block {block.name} ends before it begins")
        print(f"{block.name}: {len(block.events)} events, {runs} runs each")
    calls = [event.name for block in inspector.event_blocks for event in block.events if event.name.startswith("native_call_")]
    if not calls:
        faults.append("there is no call of an operator")
    print("\n".join(f"FAULT: {fault}" for fault in faults) or "the Inspector reads it")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
