"""What partitioned hinges save: operations of forward dynamics by joint and by number of modes, for docs/partition.md.

`python bench/partition.py` prints the tables, `--write` puts them into the page. Operations are counted, not timed: every
machine gives the same.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import linkwork as lw
from linkwork.joints import Cylindrical, Free, Gimbal, Joint, Planar, Spherical, Universal

PAGE = Path(__file__).resolve().parents[1] / "docs/partition.md"
LONG, SHORT = 7, 5  # bodies in two chains: the difference is two bodies more
KINDS: dict[str, list[Joint]] = {
    "universal": [Universal()],
    "gimbal": [Gimbal()],
    "cylindrical": [Cylindrical((1.0, 0.0, 0.0)), Cylindrical((0.0, 1.0, 0.0))],
    "planar": [Planar((1.0, 0.0, 0.0)), Planar((0.0, 1.0, 0.0))],
    "spherical": [Spherical()],
    "free": [Free()],
}


def operations(model: Any, method: str) -> int:
    return lw.count_operations(lw.forward_dynamics, model, method=method)["total"]


def of_a_body(chain: Any, method: str) -> int:
    """Operations for one body more, in the middle of a chain that `chain(n)` makes."""
    return (operations(chain(LONG), method) - operations(chain(SHORT), method)) // (LONG - SHORT)


def row(name: str, whole: int, apart: int) -> str:
    saved = 1.0 - apart / whole
    return f"| {name} | {whole} | {apart} | {saved:.0%} | {'partitioned' if apart < whole else 'whole'} |"


def joints() -> list[str]:
    """A table by kind of joint: chains of equal rods."""
    lines = ["| joint | whole | partitioned | saved | taken |", "| --- | --- | --- | --- | --- |"]
    for name, turns in KINDS.items():

        def chain(n: int, turns: list[Joint] = turns) -> lw.Model:
            return lw.robots.chain(n, joint=turns)

        lines.append(
            row(name, of_a_body(chain, "articulated_body"), of_a_body(lambda n: chain(n).partitioned(), "articulated_body"))
        )
    leg = lw.robots.hexapod_leg(partitioned=False)
    lines.append(row("the whole leg of a hexapod", operations(leg, "articulated_body"), operations(leg, "partitioned")))
    return lines


TABLES = {"joints": joints}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    write = parser.parse_args().write
    page = PAGE.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        text = "\n".join(make())
        print(text, end="\n\n")
        page = re.sub(
            rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)",
            lambda m, text=text: f"{m[1]}{text}\n{m[2]}",
            page,
            flags=re.S,
        )
    if write:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
