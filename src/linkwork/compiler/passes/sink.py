"""Sinking: instructions that only one output element depends on move to the end, in the order of the outputs.

Entries of matrices are sums without other users. At the end of a program they follow each other as the
entries of the rows do, so that rows are written in one piece and no entry is live until its neighbours are
computed. Every bit stays the same.
"""

from __future__ import annotations

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.dead import reorder

_NO_ELEMENT = -1
_SEVERAL_ELEMENTS = -2


def move_down(program: Program) -> Program:
    """Return the program with instructions of a single output element after all others; it has no loops."""
    code = program.code
    owner = [_NO_ELEMENT] * len(code)  # the only output element that depends on a value
    for element, v in enumerate(program.result_values()):
        owner[v] = element if owner[v] == _NO_ELEMENT else _SEVERAL_ELEMENTS
    for v in range(len(code) - 1, -1, -1):
        if owner[v] != _NO_ELEMENT:
            for a in code[v].args:
                owner[a] = owner[v] if owner[a] in (_NO_ELEMENT, owner[v]) else _SEVERAL_ELEMENTS
    is_late = [
        element >= 0 and op not in ("const", "input") for element, (op, _, _) in zip(owner, code, strict=True)
    ]
    first = [v for v in range(len(code)) if not is_late[v]]
    return reorder(
        program, first + sorted((v for v in range(len(code)) if is_late[v]), key=lambda v: (owner[v], v))
    )
