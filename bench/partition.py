"""Count the operations saved by partitioned joints, by joint and number of modes, for docs/partition.md.

`python bench/partition.py` prints the tables, `--write` writes them into the page. Operations are counted, not
timed, so they are the same on every machine.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
from pathlib import Path
from typing import Any

import linkwork as lw
from linkwork.joints import Cylindrical, Free, Gimbal, Joint, Planar, Revolute, Spherical, Universal
from linkwork.sko import Node, Stage, Tree

PAGE = Path(__file__).resolve().parents[1] / "docs/partition.md"
METHOD = "articulated_body"
# bodies in two chains: the difference is two bodies more
LONG = 7
SHORT = 5
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
    """Return the operations of one additional body in the middle of a chain made by `chain(n)`."""
    return (operations(chain(LONG), method) - operations(chain(SHORT), method)) // (LONG - SHORT)


def row(name: str, whole: int, apart: int) -> str:
    saved = 1.0 - apart / whole
    return f"| {name} | {whole} | {apart} | {saved:.0%} | {'partitioned' if apart < whole else 'whole'} |"


def joints() -> list[str]:
    """Return a table by kind of joint: chains of equal rods."""
    lines = ["| joint | whole | partitioned | saved | taken |", "| --- | --- | --- | --- | --- |"]
    for name, turns in KINDS.items():

        def chain(n: int, turns: list[Joint] = turns) -> lw.Model:
            return lw.robots.chain(n, joint=turns)

        lines.append(
            row(
                name,
                of_a_body(chain, "articulated_body"),
                of_a_body(lambda n: chain(n).partitioned(), "articulated_body"),
            )
        )
    leg = lw.robots.hexapod_leg(partitioned=False)
    lines.append(
        row("the whole leg of a hexapod", operations(leg, "articulated_body"), operations(leg, "partitioned"))
    )
    return lines


# nodes in which nothing is known to vanish


class UncheckedTree(Tree):
    """A custom tree whose operations are only counted: its random numbers are those of no mechanism."""

    def _check_states(self) -> None:
        pass


def dense_chain(n: int, hinge: int, modes: int, *, apart: bool) -> Tree:
    """Return a chain of SKO nodes of 6 + modes rows, all of whose entries are inputs; with `apart` hinge and
    modes are separate nodes.
    """
    rows = 6 + modes
    m = hinge + modes
    size = 0

    def entry(*shape: int) -> Any:
        nonlocal size
        own = slice(size, size + math.prod(shape))
        size = own.stop
        return lambda q, v: q[own].reshape(shape)

    nodes = []
    splits = {}
    for k in range(n):
        name = f"body{k}"
        up = rows if k else 0
        H = entry(m, rows)
        M = entry(rows, rows)
        A = entry(up, rows)
        nodes.append(
            Node(name, H=H, M=M, A=A, b=entry(rows), parent=f"body{k - 1}" if k else None, shape=(m, rows))
        )
        own = [entry(1, rows) for _ in range(modes)]
        first = Stage(range(hinge), A=entry(up, 6), H=entry(hinge, 6))
        lift = entry(6, rows)
        splits[name] = (first, *(Stage([hinge + i], A=None if i else lift, H=h) for i, h in enumerate(own)))
    tree = UncheckedTree("dense chain", nodes, nq=size)
    if apart:
        tree.partition = splits
    return tree


def dense_body(hinge: int, modes: int) -> tuple[int, int]:
    """Return the operations of one additional body in a dense chain, as one node and partitioned."""
    whole, apart = (
        [operations(dense_chain(n, hinge, modes, apart=apart), METHOD) for n in (2, 3)]
        for apart in (False, True)
    )
    return whole[1] - whole[0], apart[1] - apart[0]


def dense() -> list[str]:
    """Return a table by number of modes: nodes without zeros."""
    lines = ["| hinge | modes | one node | partitioned | saved |", "| --- | --- | --- | --- | --- |"]
    for hinge in (1, 3):
        for modes in (2, 4, 8, 12):
            whole, apart = dense_body(hinge, modes)
            lines.append(f"| {hinge} | {modes} | {whole} | {apart} | {1.0 - apart / whole:.0%} |")
    return lines


# beams


def beam_chain(n: int, modes: int, turns: list[Joint]) -> lw.Model:
    """Return a chain of beams of half a metre, each with some modes."""
    flexible: Any = importlib.import_module("linkwork.flexible")
    builder = lw.ModelBuilder(f"{n} beams")
    on = "world"
    for k in range(n):
        link = flexible.beam(
            f"link{k}",
            length=0.5,
            section=flexible.Tube(0.012, 0.0015),
            material=flexible.ALUMINIUM,
            modes=modes,
        )
        builder.add_body(flexible=link)  # type: ignore[call-arg]
        place = (0.5, 0.0, 0.0) if k else (0.0, 0.0, 0.0)
        builder.add_joint(f"joint{k}", turns[k % len(turns)], parent=on, child=f"link{k}", xyz=place)
        on = f"link{k}"
    return builder.build()


HINGES: dict[str, list[Joint]] = {
    "revolute": [Revolute((0.0, 0.0, 1.0)), Revolute((0.0, 1.0, 0.0))],
    "universal": [Universal()],
    "spherical": [Spherical()],
}


def beams() -> list[str]:
    """Return a table by number of modes: beams with hinge and deformation as one node, two, or one per
    velocity.
    """
    lines = [
        "| hinge | modes | one node | hinge apart | all apart | saved |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, turns in HINGES.items():
        for modes in (2, 4, 8):
            few, more = (beam_chain(n, modes, turns) for n in (3, 4))
            variants = [[m.unpartitioned(), m, m.partitioned()] for m in (few, more)]
            one, two, all_ = (operations(b, METHOD) - operations(a, METHOD) for a, b in zip(*variants))
            lines.append(f"| {name} | {modes} | {one} | {two} | {all_} | {1.0 - min(two, all_) / one:.0%} |")
    return lines


TABLES = {"joints": joints, "dense": dense, **({"beams": beams} if hasattr(lw, "flexible") else {})}


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
