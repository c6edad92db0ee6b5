"""Hoisting: instructions that do not depend on given values move to the earliest possible place.

The end of a loop's body is often a chain of short computations on results that were computed long before: an
integrator after forward dynamics, a sum over a state. At the end these would be latency-bound, and their
operands would be live, or spilled, until then.
"""

from __future__ import annotations

from collections.abc import Iterable

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.dead import reorder


def move_up(program: Program, values: Iterable[int]) -> Program:
    """Return the program with instructions that `values` do not depend on after their last operand."""
    code = program.code
    is_ancestor = [False] * len(code)
    for v in values:
        is_ancestor[v] = True
    for v in range(len(code) - 1, -1, -1):
        if is_ancestor[v]:
            for a in code[v].args:
                is_ancestor[a] = True
    users: list[list[int]] = [[] for _ in code]
    missing = [len(set(args)) for _, args, _ in code]
    for v, (_, args, _) in enumerate(code):
        for a in set(args):
            users[a].append(v)

    order: list[int] = []
    for first, (op, args, _) in enumerate(code):
        waiting = [first] if op != "result" and (is_ancestor[first] or not args) else []
        while waiting:
            v = waiting.pop()
            group = [v, *users[v]] if code[v].op == "loop" else [v]  # a loop and its results stay together
            order += group
            ready = []
            for u in (u for w in group for u in users[w]):
                missing[u] -= 1
                if not missing[u] and not is_ancestor[u] and code[u].op != "result":
                    ready.append(u)
            waiting += reversed(ready)
    return reorder(program, order)
