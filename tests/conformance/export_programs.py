"""Exports the conformance programs to data/programs and prints a table of them: export_programs.py [NAME]..."""

import logging
import sys
import warnings
from pathlib import Path

import torch

from exporter import programs
from exporter.official import run_official
from exporter.program import BUILDERS, Program, build, write

OUTPUT = Path(__file__).parent / "data" / "programs"


def summary(built: Program) -> str:
    """Row of the table: size, instruction kinds, operators."""
    kinds, operators = set(), set()
    for plan in built.lowered.executorch_program.execution_plan:
        kinds |= {type(i.instr_args).__name__ for c in plan.chains for i in c.instructions}
        operators |= {o.name + ("." + o.overload if o.overload else "") for o in plan.operators}
    return f"| {built.name} | {len(built.pte)} | {', '.join(sorted(kinds))} | {', '.join(sorted(operators))} |"


def main(names: list[str]) -> int:
    """Builds, checks and writes the named programs, or all of them."""
    torch.set_num_threads(1)
    failed = 0
    print("| program | bytes | instructions | operators |\n|---|---|---|---|")
    for name in names or list(BUILDERS):
        try:
            built = build(name)
            differences = run_official(built)
            write(built, OUTPUT / name)
        except Exception as error:
            failed += 1
            print(f"| {name} | | NOT EXPORTED: {type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''} | |", flush=True)
            if len(names) == 1:
                raise
            continue
        print(summary(built), flush=True)
        for number, text in differences.items():
            print(f"| | | OFFICIAL RUNTIME DIFFERS, case {number} | {text} |", flush=True)
    return failed


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    sys.exit(main(sys.argv[1:]))
