"""Dead code: drop every instruction that no output needs."""

from __future__ import annotations

from dataclasses import replace

from linkwork.ir.liveness import needed_values
from linkwork.ir.program import Instruction, Program


def drop_dead(program: Program) -> Program:
    """The program with only the instructions that its outputs need, in the same order, in loop bodies too."""
    program = program.map_bodies(drop_dead)
    needed = needed_values(program)
    if all(needed):
        return program
    return reorder(program, [v for v, is_needed in enumerate(needed) if is_needed])


def reorder(program: Program, order: list[int]) -> Program:
    """The program with its instructions in a new order (a list of old values); those not listed are dropped."""
    place = [-1] * len(program.code)
    for new, old in enumerate(order):
        place[old] = new
    code, make, at = [], tuple.__new__, place.__getitem__
    for op, args, attr in map(program.code.__getitem__, order):
        code.append(make(Instruction, (op, tuple(map(at, args)), attr)))
    results = tuple(tuple(place[v] for v in values) for values in program.results)
    return replace(program, code=tuple(code), results=results)
