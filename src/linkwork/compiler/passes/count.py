"""Operation counts of programs, in the operations that the papers count."""

from __future__ import annotations

from collections import Counter

from linkwork.compiler.ir.operations import OPERATIONS
from linkwork.compiler.ir.program import BoundedLoop, Program, RowMap
from linkwork.compiler.passes.dead import drop_dead
from linkwork.compiler.passes.sums import order_sums


def count_operations(program: Program, turns: int | None = None) -> dict[str, int]:
    """Return the operations of a traced program by kind, and their `total`, after fusing.

    Dead code is not counted. `add` includes subtractions; `sincos` counts a sine, a cosine, or both of the
    same angle, as one. A sign that an addition or fma absorbs is free. The body of a loop counts as often as
    its limit allows, and the body of a map once for every row. With `turns`, the body of a loop counts at
    most that often, and not at all if rows can skip it.
    """
    counts = _count(drop_dead(order_sums(drop_dead(program))), turns)
    main_kinds = ("add", "mul", "fma", "div", "sqrt", "sincos")
    other_kinds = sorted(set(counts) - set(main_kinds))
    result = {name: counts[name] for name in (*main_kinds, *other_kinds)}
    return {**result, "total": sum(result.values())}


_FAMILY = {"sub": "add", "sin": "sincos", "cos": "sincos"}


def _count(program: Program, turns: int | None) -> Counter[str]:
    counts: Counter[str] = Counter()
    angles: set[int] = set()
    absorbed = _absorbed_signs(program)
    for v, (op, args, attr) in enumerate(program.code):
        if isinstance(attr, BoundedLoop | RowMap):
            if isinstance(attr, RowMap):
                times = attr.count
            elif turns is None:
                times = attr.limit
            else:
                times = 0 if attr.skippable else min(attr.limit, turns)
            for name, number in _count(attr.body, turns).items():
                counts[name] += number * times
        elif op in ("sin", "cos") and args[0] in angles:
            continue
        elif op in OPERATIONS and not (op == "neg" and absorbed[v]):
            counts[_FAMILY.get(op, op)] += 1
            if op in ("sin", "cos"):
                angles.add(args[0])
    return counts


def _absorbed_signs(program: Program) -> list[bool]:
    """Return for every value if all its users are fused multiply-adds, which negate for free."""
    absorbed = [True] * len(program)
    for op, args, _ in program.code:
        if op != "fma":
            for a in args:
                absorbed[a] = False
    for v in program.result_values():
        absorbed[v] = False
    return absorbed
