"""Operation counts: what a program costs, in operations that a reader of the papers would count."""

from __future__ import annotations

from collections import Counter

from linkwork.ir.operations import OPERATIONS
from linkwork.ir.program import BoundedLoop, Program, RowMap
from linkwork.passes.dead import drop_dead
from linkwork.passes.sums import order_sums


def count_operations(program: Program) -> dict[str, int]:
    """Operations of a traced program by kind, and their `total`, after fusing and without dead code.

    `add` counts subtractions too; `sincos` counts a sine, a cosine, or both of the same angle, as one. A sign that an
    addition or fma takes in is free. A loop's body counts as often as its limit allows, a map's for every row.
    """
    counts = _count(drop_dead(order_sums(drop_dead(program))))
    wanted = ("add", "mul", "fma", "div", "sqrt", "sincos")
    rest = sorted(set(counts) - set(wanted))
    result = {name: counts[name] for name in (*wanted, *rest)}
    return {**result, "total": sum(result.values())}


_FAMILY = {"sub": "add", "sin": "sincos", "cos": "sincos"}


def _count(program: Program) -> Counter[str]:
    counts: Counter[str] = Counter()
    angles: set[int] = set()
    taken_in = _signs_taken_in(program)
    for v, (op, args, attr) in enumerate(program.code):
        if isinstance(attr, BoundedLoop | RowMap):
            times = attr.limit if isinstance(attr, BoundedLoop) else attr.count
            for name, number in _count(attr.body).items():
                counts[name] += number * times
        elif op in ("sin", "cos") and args[0] in angles:
            continue
        elif op in OPERATIONS and not (op == "neg" and taken_in[v]):
            counts[_FAMILY.get(op, op)] += 1
            if op in ("sin", "cos"):
                angles.add(args[0])
    return counts


def _signs_taken_in(program: Program) -> list[bool]:
    """For every value, whether all that use it are fused multiply-adds, which take a sign for nothing."""
    taken = [True] * len(program)
    for op, args, _ in program.code:
        if op != "fma":
            for a in args:
                taken[a] = False
    for v in program.result_values():
        taken[v] = False
    return taken
