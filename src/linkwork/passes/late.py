"""Moving down: what only one element of an output needs stands last, in the order of the outputs.

Entries of matrices are sums that nothing else needs. At the end of a program they follow each other as the rows of outputs do,
so that rows can be written in one piece, and no entry waits for its neighbours. Every bit stays the same.
"""

from __future__ import annotations

from linkwork.ir.program import Program
from linkwork.passes.dead import reorder

_NONE, _SEVERAL = -1, -2


def move_down(program: Program) -> Program:
    """The same program, in which all that leads to one element of an output alone stands behind the rest. It has no loops."""
    code = program.code
    owner = [_NONE] * len(code)  # the element that a value is for
    for element, v in enumerate(program.result_values()):
        owner[v] = element if owner[v] == _NONE else _SEVERAL
    for v in range(len(code) - 1, -1, -1):
        if owner[v] != _NONE:
            for a in code[v].args:
                owner[a] = owner[v] if owner[a] in (_NONE, owner[v]) else _SEVERAL
    late = [own >= 0 and op not in ("const", "input") for own, (op, _, _) in zip(owner, code, strict=True)]
    first = [v for v in range(len(code)) if not late[v]]
    return reorder(program, first + sorted((v for v in range(len(code)) if late[v]), key=lambda v: (owner[v], v)))
