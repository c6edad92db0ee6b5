"""Sinking: what only one element of an output needs comes last, in the order of the outputs.

Entries of matrices are sums that nothing else needs. At the end of a program they follow each other as the
rows of outputs do, so that rows can be written in one piece, and no entry waits for its neighbours. Every bit
stays the same.
"""

from __future__ import annotations

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.dead import reorder

_NO_ELEMENT = -1
_SEVERAL_ELEMENTS = -2


def move_down(program: Program) -> Program:
    """Return the program with everything that serves a single output element behind the rest.

    The program has no loops.
    """
    code = program.code
    owner = [_NO_ELEMENT] * len(code)  # the element that a value is for
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
