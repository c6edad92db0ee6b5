"""Which values are needed: by the outputs at all, and by an instruction at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from linkwork.ir.operations import REAL


class Coded(Protocol):
    """What is asked of a program here: its instructions (op, args, attr), the kinds of their values, and its results."""

    @property
    def code(self) -> Sequence[Any]: ...
    @property
    def kinds(self) -> Sequence[str]: ...
    def result_values(self) -> Iterable[int]: ...


def needs(program: Coded) -> list[list[int]]:
    """The values that are needed at each position: those that must be in a register or be fetched for it.

    A negated value needs no register of its own, since its users can negate: they need the value itself.
    """
    code = program.code
    plain = list(range(len(code)))
    waits = [kind == REAL and op != "const" for kind, (op, _, _) in zip(program.kinds, code, strict=True)]
    results = set(program.result_values())
    found = []
    for v, (op, args, _) in enumerate(code):
        if op == "neg":
            plain[v] = plain[args[0]]
            args = ()
        if v in results and op in ("input", "neg"):  # copied to the output where it stands
            args = (v,)
        found.append([a for a in dict.fromkeys([plain[a] for a in args]) if waits[a]])
    return found


def live(program: Coded, wanted: Iterable[int]) -> list[bool]:
    """For every value, whether one of the wanted values needs it."""
    needed = [False] * len(program.code)
    for v in wanted:
        needed[v] = True
    for v in range(len(needed) - 1, -1, -1):
        if needed[v]:
            for a in program.code[v].args:
                needed[a] = True
    return needed
