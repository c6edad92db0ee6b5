"""Canonical order of map bodies, which makes isomorphic bodies equal.

Maps of equal limbs differ in the values they take and in the order of their results, but not in their code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from linkwork.compiler.ir.program import Array, Instruction, Program

COMMUTATIVE = frozenset({"add", "mul", "fma", "eq", "and", "or"})  # in their first two arguments


@dataclass(frozen=True)
class CanonicalBody:
    """Body of a map in an order that depends only on what it computes.

    Attributes
    ----------
    program
        Body; shared values and results are numbered in the order in which they occur
    shared
        For each shared value of the body, its number in the map
    results
        For each result of the body, its number in the map
    """

    program: Program
    shared: tuple[int, ...]
    results: tuple[int, ...]


class BodyCanonicalizer:
    """Conversion of bodies to canonical order; equal terms of all bodies have equal numbers."""

    def __init__(self) -> None:
        self.terms: dict[tuple[Any, ...], int] = {}

    def canonical(self, body: Program) -> CanonicalBody:
        """Return a body in canonical order, in which results of equal terms are adjacent."""
        terms: list[int] = []
        for op, args, attr in body.code:
            operand_terms = [terms[a] for a in args]
            if op in COMMUTATIVE:
                operand_terms[:2] = sorted(operand_terms[:2])
            terms.append(self.terms.setdefault((op, *_attribute(op, attr), *operand_terms), len(self.terms)))
        results = sorted(range(len(body.results[0])), key=lambda e: (terms[body.results[0][e]], e))
        builder = _BodyBuilder(body, terms)
        values = tuple([builder.value(body.results[0][e]) for e in results])
        inputs = (body.inputs[0], Array("shared", (len(builder.shared),)))
        program = replace(body, inputs=inputs, code=tuple(builder.code), results=(values,))
        return CanonicalBody(program, tuple(builder.shared), tuple(results))


class _BodyBuilder:
    """Reconstruction of a body from its results, depth first."""

    def __init__(self, body: Program, terms: Sequence[int]) -> None:
        self.body = body
        self.terms = terms
        self.code: list[Instruction] = []
        self.at: dict[int, int] = {}
        self.shared: dict[int, int] = {}

    def value(self, v: int) -> int:
        """Return the number of a value in the new order; append the instructions that it needs."""
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
        if op not in COMMUTATIVE:
            return args
        return (
            *sorted(args[:2], key=lambda a: (self.terms[a], self.at.get(a, len(self.body.code)))),
            *args[2:],
        )


def _attribute(op: str, attr: Any) -> tuple[Any, ...]:
    """Return a label of an instruction: its value depends on the label and the arguments only.

    All shared values count as equal.
    """
    if op == "const":
        return (isinstance(attr, bool), struct.pack("<d", attr))
    if op == "input":
        return attr if attr[0] == 0 else (1,)
    return (attr,)
