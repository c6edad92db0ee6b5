"""Dead code elimination."""

from __future__ import annotations

from dataclasses import replace

from linkwork.compiler.ir.liveness import needed_values
from linkwork.compiler.ir.program import Instruction, Program


def drop_dead(program: Program) -> Program:
    """Return the program without the instructions that no output needs, in loop bodies too."""
    program = program.map_bodies(drop_dead)
    needed = needed_values(program)
    if all(needed):
        return program
    return reorder(program, [v for v, is_needed in enumerate(needed) if is_needed])


def reorder(program: Program, order: list[int]) -> Program:
    """Return the program with its instructions in the order of `order`; those not listed are dropped.

    `order` is a list of old values.
    """
    new_position = [-1] * len(program.code)
    for new, old in enumerate(order):
        new_position[old] = new
    code = []
    make = tuple.__new__
    translate = new_position.__getitem__
    for op, args, attr in map(program.code.__getitem__, order):
        code.append(make(Instruction, (op, tuple(map(translate, args)), attr)))
    results = tuple(tuple(new_position[v] for v in values) for values in program.results)
    return replace(program, code=tuple(code), results=results)
