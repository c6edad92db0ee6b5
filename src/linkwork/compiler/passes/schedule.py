"""Instruction scheduling: short programs by critical path, long ones for low register pressure.

A processor looks a few hundred instructions ahead. In a short program the longest chain decides, so its
instructions come as early as they can. In a long one the values that are spilled decide. The traced order,
which follows the mechanism, keeps few values live; within a window that moves along it, instructions are put
in a better order.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from linkwork.compiler.ir.liveness import register_operands
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes.dead import reorder
from linkwork.compiler.passes.interleave import interleave
from linkwork.errors import ProgramError

LATENCY_CYCLES = {"div": 14, "sqrt": 20, "loop": 200, "neg": 0, "const": 0, "input": 0, "result": 0}
INTERLEAVED_SUMS_IN_MAPS = 4
FREE_OPERATIONS = frozenset({"const", "input", "neg", "result"})


def latency(op: str) -> int:
    """Return the cycles until the result of an operation can be used, on a typical processor."""
    return LATENCY_CYCLES.get(op, 4)


@dataclass(frozen=True)
class Scheduling:
    """Limits of scheduling.

    Attributes
    ----------
    short
        Programs with at most `short` instructions are scheduled by critical path, longer ones for low
        pressure
    window
        Instructions of a long program from which the next one is selected
    interleaved_sums
        Sums with shared factors that are computed side by side in a long program (see `interleave`)
    """

    short: int = 2500
    window: int = 240
    interleaved_sums: int = 1

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ProgramError(f"window: expected at least 1 instruction, got {self.window}")


DEFAULT = Scheduling()


def schedule(program: Program, scheduling: Scheduling = DEFAULT) -> Program:
    """Return the instructions in an order that runs faster, in loop bodies too.

    Bodies of maps keep their traced order, with sums side by side.
    """
    program = program.map_bodies(lambda body: schedule(body, scheduling), only=("loop",))
    program = program.map_bodies(lambda body: interleave(body, INTERLEAVED_SUMS_IN_MAPS), only=("map",))
    if len(program) <= scheduling.short:
        return reorder(program, _critical_path_order(program))
    program = reorder(program, _low_pressure_order(program, scheduling.window))
    return interleave(program, scheduling.interleaved_sums) if scheduling.interleaved_sums > 1 else program


def _users(program: Program) -> tuple[list[list[int]], list[int]]:
    """Return the users of each value, and the number of operands missing for each instruction."""
    users: list[list[int]] = [[] for _ in program.code]
    missing = [0] * len(program.code)
    for v, (_, args, _) in enumerate(program.code):
        for a in set(args):
            users[a].append(v)
            missing[v] += 1
    return users, missing


def _critical_path_order(program: Program) -> list[int]:
    """Return the order of list scheduling with one instruction per cycle.

    Of the ready instructions, the one with the longest chain of work after it comes first.
    """
    code = program.code
    users, missing = _users(program)
    after = [0] * len(code)
    for v in range(len(code) - 1, -1, -1):
        after[v] = latency(code[v].op) + max([after[u] for u in users[v]], default=0)

    order: list[int] = []
    ready_at = [0] * len(code)
    ready = [(-after[v], v) for v in range(len(code)) if not missing[v]]
    heapq.heapify(ready)
    later: list[tuple[int, int]] = []  # (cycle at which it can start, value)
    cycle = 0

    def issue(v: int) -> None:
        order.append(v)
        for u in users[v]:
            missing[u] -= 1
            ready_at[u] = max(ready_at[u], cycle + latency(code[v].op))
            if missing[u]:
                continue
            if code[u].op == "result":  # stays behind its loop
                issue(u)
            else:
                heapq.heappush(later, (ready_at[u], u))

    while ready or later:
        if not ready:
            cycle = max(cycle, later[0][0])
        while later and later[0][0] <= cycle:
            v = heapq.heappop(later)[1]
            heapq.heappush(ready, (-after[v], v))
        v = heapq.heappop(ready)[1]
        issue(v)
        cycle += code[v].op not in FREE_OPERATIONS
    return order


def _low_pressure_order(program: Program, window: int) -> list[int]:
    """Return an order that ends many live ranges: the ready instruction of the window that ends most.

    Among equals it is the first one.
    """
    code = program.code
    operands = register_operands(program)
    # how many uses of a value are still to come, the sum of their positions
    uses = [0] * len(code)
    positions = [0] * len(code)
    for v, values in enumerate(operands):
        for a in values:
            uses[a] += 1
            positions[a] += v
    # how many fewer values are live after an instruction than before
    gain = [-int(uses[v] > 0 and op != "neg") for v, (op, _, _) in enumerate(code)]
    for v, values in enumerate(operands):
        gain[v] += sum(uses[a] == 1 for a in values)
        if code[v].op in ("const", "result"):
            gain[v] = 1 << 30  # immediately: they cost nothing, and a result stays behind its loop
    users, missing = _users(program)

    order: list[int] = []
    is_emitted = [False] * len(code)
    ready: list[tuple[int, int]] = []  # (-gain, value); an entry with an outdated gain is ignored
    end = 0  # of the window

    def offer(v: int) -> None:
        if v < end and not missing[v]:
            heapq.heappush(ready, (-gain[v], v))

    while len(order) < len(code):
        while end < len(code) and (end - len(order) < window or code[end].op == "result"):
            end += 1
            offer(end - 1)
        negative_gain, v = heapq.heappop(ready)
        if is_emitted[v] or -negative_gain != gain[v]:
            continue
        is_emitted[v] = True
        order.append(v)
        for a in operands[v]:
            uses[a] -= 1
            positions[a] -= v
            if uses[a] == 1:
                gain[positions[a]] += 1
                offer(positions[a])
        for u in users[v]:
            missing[u] -= 1
            offer(u)
    return order
