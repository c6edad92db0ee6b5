"""Run all measurements: `python bench/run.py [--quick] [--write] [--only TABLE ...]`.

`--write` updates the tables of README.md and docs/performance.md.
"""

from __future__ import annotations

import argparse
import platform
import re
from datetime import date
from pathlib import Path

import calls
import elementary
import parameters
import robots
import scales
import soon
import speed
import versus
from linkwork.compiler.targets.cpu import host

ROOT = Path(__file__).resolve().parents[1]


def machine_line(command: str, quick: bool = False) -> str:
    """Return the origin of a figure: command, machine and date."""
    command = f"{command} (quick)" if quick else command
    return f"`{command}`, one core of {host().cpu}, {platform.system()}, Python {platform.python_version()}, {date.today()}."


def write_between(path: Path, mark: str, text: str) -> None:
    """Replace what stands between `<!-- mark:begin -->` and `<!-- mark:end -->` in a file."""
    begin = f"<!-- {mark}:begin -->"
    end = f"<!-- {mark}:end -->"
    old = path.read_text()
    if begin not in old or end not in old:
        raise SystemExit(f"{path.name} has no place marked {begin}")
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    path.write_text(re.sub(pattern, lambda _: f"{begin}\n{text}\n{end}", old, flags=re.DOTALL))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, sizes and points")
    parser.add_argument(
        "--write", action="store_true", help="put the tables into README.md and docs/performance.md"
    )
    parser.add_argument(
        "--only", nargs="*", metavar="TABLE", help="some of the tables, by their names in docs/performance.md"
    )
    options = parser.parse_args()
    quick = options.quick
    names = list(robots.ROBOTS)
    turns = 10 if quick else 60
    against: versus.Times = {}

    def kernels() -> str:
        against.update(versus.kernel_times(names, turns))
        return versus.kernel_table(against)

    tables = {
        "versus": kernels,
        "python": lambda: versus.call_table(versus.call_times(names, turns)),
        "scales": lambda: scales.table(5 if quick else 20, scales.SIZES[:3] if quick else scales.SIZES),
        "speed": lambda: speed.table(10 if quick else 60),
        "float32": lambda: speed.table(10 if quick else 30, "float32"),
        "parameters": lambda: parameters.table(5 if quick else 20),
        "calls": calls.overhead_table,
        "threads": calls.threads_table,
        "soon": lambda: soon.table([10, 50] if quick else [10, 50, 200, 1000]),
        "elementary": lambda: elementary.table(20_000 if quick else 1_100_000),
    }
    for mark, make in tables.items():
        if options.only and mark not in options.only:
            continue
        text = f"{make()}\n\n{machine_line('make bench', quick)}"
        print(f"\n{text}\n", flush=True)
        if options.write:
            write_between(ROOT / "docs" / "performance.md", mark, text)
            if mark == "versus":
                line = machine_line("make bench", quick)
                four_rows = versus.kernel_table(against, ["forward dynamics"])
                write_between(ROOT / "README.md", "bench", f"{four_rows}\n\n{line}")
                note = line.replace("`", "")
                (ROOT / "docs" / "bench.svg").write_text(versus.picture(against, note), encoding="utf-8")


if __name__ == "__main__":
    main()
