"""Moving up: what follows from a program's last long computation stands as soon as it can.

The end of a loop's body is a chain of short computations on results that were known long before: an integrator behind forward
dynamics, a sum over all of a state. There a processor waits for one after the other, and the results wait in memory for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from linkwork.ir.program import Program
from linkwork.passes.dead import reorder


def move_up(program: Program, values: Iterable[int]) -> Program:
    """The same program, in which all that none of some values needs stands directly behind its last operand."""
    code = program.code
    leads = [False] * len(code)
    for v in values:
        leads[v] = True
    for v in range(len(code) - 1, -1, -1):
        if leads[v]:
            for a in code[v].args:
                leads[a] = True
    users: list[list[int]] = [[] for _ in code]
    missing = [len(set(args)) for _, args, _ in code]
    for v, (_, args, _) in enumerate(code):
        for a in set(args):
            users[a].append(v)

    order: list[int] = []
    for first, (op, args, _) in enumerate(code):
        waiting = [first] if op != "result" and (leads[first] or not args) else []
        while waiting:
            v = waiting.pop()
            group = [v, *users[v]] if code[v].op == "loop" else [v]  # a loop and its results stay together
            order += group
            ready = []
            for u in (u for w in group for u in users[w]):
                missing[u] -= 1
                if not missing[u] and not leads[u] and code[u].op != "result":
                    ready.append(u)
            waiting += reversed(ready)
    return reorder(program, order)
