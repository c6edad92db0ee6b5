"""Maps with one body: those of limbs differ in which values they take and in the order of their results, not
in their code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from linkwork.compiler.ir.program import Array, Instruction, Program

SYMMETRIC = frozenset({"add", "mul", "fma", "eq", "and", "or"})  # in their first two arguments


@dataclass(frozen=True)
class Body:
    """A map's body in an order that only depends on what it computes.

    Attributes
    ----------
    program
        That body; its shared values and its results stand in the order in which they come
    shared
        Which of the map's shared values each is
    results
        Which of the map's results each is
    """

    program: Program
    shared: tuple[int, ...]
    results: tuple[int, ...]


class Bodies:
    """Bodies in that order; what two bodies compute is compared by the numbers of terms."""

    def __init__(self) -> None:
        self.terms: dict[tuple[Any, ...], int] = {}

    def ordered(self, body: Program) -> Body:
        """A body in its order: results of equal terms follow each other."""
        terms: list[int] = []
        for op, args, attr in body.code:
            of = [terms[a] for a in args]
            if op in SYMMETRIC:
                of[:2] = sorted(of[:2])
            terms.append(self.terms.setdefault((op, *_attribute(op, attr), *of), len(self.terms)))
        results = sorted(range(len(body.results[0])), key=lambda e: (terms[body.results[0][e]], e))
        walk = _Walk(body, terms)
        made = tuple([walk.value(body.results[0][e]) for e in results])
        inputs = (body.inputs[0], Array("shared", (len(walk.shared),)))
        program = replace(body, inputs=inputs, code=tuple(walk.code), results=(made,))
        return Body(program, tuple(walk.shared), tuple(results))


class _Walk:
    """The walk from results to what they are made of."""

    def __init__(self, body: Program, terms: Sequence[int]) -> None:
        self.body = body
        self.terms = terms
        self.code: list[Instruction] = []
        self.at: dict[int, int] = {}
        self.shared: dict[int, int] = {}

    def value(self, v: int) -> int:
        """A value in the new order."""
        waiting = [v]
        while waiting:
            u = waiting[-1]
            op, args, attr = self.body.code[u]
            missing = [a for a in self._sorted(op, args) if a not in self.at]
            if u in self.at or missing:
                if u in self.at:
                    waiting.pop()
                waiting += reversed([] if u in self.at else missing)
                continue
            waiting.pop()
            if op == "input" and attr[0] == 1:
                attr = (1, self.shared.setdefault(attr[1], len(self.shared)))
            self.at[u] = len(self.code)
            self.code.append(Instruction(op, tuple([self.at[a] for a in self._sorted(op, args)]), attr))
        return self.at[v]

    def _sorted(self, op: str, args: tuple[int, ...]) -> Iterable[int]:
        if op not in SYMMETRIC:
            return args
        return (
            *sorted(args[:2], key=lambda a: (self.terms[a], self.at.get(a, len(self.body.code)))),
            *args[2:],
        )


def _attribute(op: str, attr: Any) -> tuple[Any, ...]:
    """What of an instruction beside its arguments decides its value; shared values are all the same here."""
    if op == "const":
        return (isinstance(attr, bool), struct.pack("<d", attr))
    if op == "input":
        return attr if attr[0] == 0 else (1,)
    return (attr,)
