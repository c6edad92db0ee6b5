"""Live ranges, slots and spills against brute force, and against a machine with few registers that runs the
program.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import linkwork as lw
from laws import law
from linkwork.compiler.ir.liveness import Liveness, live_counts, needed_values
from linkwork.compiler.ir.operations import REAL
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.slots import assign_slots, crossing_ranges
from linkwork.compiler.ir.spills import Spills, spill
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes import Arrangement, arrange, lower
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.passes.schedule import Scheduling
from linkwork.compiler.targets import c as c_target
from linkwork.compiler.targets import cpu
from linkwork.errors import ProgramError
from programs import allowed_cuts, core_programs, seeded_program


def operands(program: Program, position: int) -> set[int]:
    """What an instruction must find in registers: arguments without their signs, and an input or negation it
    copies out.
    """
    code = program.code
    wanted = set() if code[position].op == "neg" else set(code[position].args)
    if code[position].op in ("input", "neg") and position in program.result_values():
        wanted = {position}
    while any(code[v].op == "neg" for v in wanted):
        wanted = {code[v].args[0] if code[v].op == "neg" else v for v in wanted}
    return {v for v in wanted if program.kinds[v] == REAL and code[v].op != "const"}


def misses(program: Program, spills: Spills) -> int:
    return sum(map(len, spills.loads.values())) + sum(map(len, spills.reads.values()))


def with_cuts(program: Program, mask: int) -> Program:
    return replace(program, cuts=tuple(p for k, p in enumerate(allowed_cuts(program)) if mask >> k % 60 & 1))


# liveness


@law(60)
@given(core_programs(size=60))
def test_live_values_are_those_that_are_there_and_will_be_used(program: Program) -> None:
    found = Liveness.of(program)
    n = len(program)
    taken = [operands(program, p) for p in range(n)]
    assert [set(values) for values in found.operands] == taken
    for v in range(n):
        uses = [p for p in range(n) if v in taken[p]]
        assert found.uses[v] == uses and found.last_use(v) == max(uses, default=None)
        assert [found.next_use(v, p) for p in range(n)] == [
            min((u for u in uses if u > p), default=None) for p in range(n)
        ]
        made = min(uses, default=n) if program.code[v].op == "input" else v
        assert set(found.live_range(v)) == {p for p in range(n) if made <= p and any(u > p for u in uses)}
    alive = [sum(p in found.live_range(v) for v in range(n)) for p in range(n)]
    assert found.counts == alive and found.max_pressure == max(alive)


@law(60)
@given(core_programs(size=40))
def test_what_no_output_needs_can_change(program: Program) -> None:
    """Needed: there is a path of arguments from an output to the value."""
    reached = set()
    front = set(program.result_values())
    while front:
        reached |= front
        front = {a for v in front for a in program.code[v].args} - reached
    assert needed_values(program) == [v in reached for v in range(len(program))]


def test_the_register_pressure_of_a_sum_of_products() -> None:
    """Five products made before they are added: all are live at once; added at once, two are."""

    def late(x: Any) -> Any:
        return sum([x[k] / x[k + 1] for k in range(0, 10, 2)])

    program = trace(late, {"x": 10})
    assert Liveness.of(program).max_pressure == 5
    assert Liveness.of(arrange(program, Arrangement(Scheduling(short=0), None))).max_pressure == 2


# slots

ranges = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 8)).map(lambda r: range(r[0], sum(r))), max_size=14
)


@law(200)
@given(ranges)
def test_values_that_overlap_have_slots_of_their_own_and_no_slot_is_wasted(given_ranges: list[range]) -> None:
    slots = assign_slots(dict(enumerate(given_ranges)))
    assert slots.of.keys() == set(range(len(given_ranges)))
    for (i, r), (j, s) in combinations(enumerate(given_ranges), 2):
        assert slots.of[i] != slots.of[j] or not set(r) & set(s)
    at_once = [sum(t in r for r in given_ranges) for t in range(21)]
    assert slots.size == max(at_once) and set(slots.of.values()) == set(range(slots.size))
    assert live_counts([(r, 3) for r in given_ranges], 21) == [3 * n for n in at_once]


@law(200)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.data())
def test_later_functions_find_what_earlier_ones_leave(homes: list[int], data: st.DataObject) -> None:
    home = dict(enumerate(homes))
    pairs = st.tuples(st.sampled_from(sorted(home)), st.integers(0, 6))
    uses = [(v, k) for v, k in data.draw(st.lists(pairs, max_size=25)) if k >= home[v]]
    crossing = crossing_ranges(home, uses)
    assert crossing.keys() == {v for v, k in uses if k > home[v]}
    slots = assign_slots(crossing)
    scratch: dict[int, int] = {}
    for function in range(7):
        for v, k in uses:
            assert k != function or function == home[v] or scratch[slots.of[v]] == v
        scratch.update({slots.of[v]: v for v in crossing if home[v] == function})


# spills


def run_with_registers(program: Program, spills: Spills, registers: int | None, block: int) -> None:
    """Run a program as its spills say: every load must find its value, every operand must be in a register,
    and no more than `registers` are kept from one instruction to the next."""
    code = program.code
    scratch = {}
    kept: list[range] = []  # a range for every value that is in a register from one use to the next
    for part in program.parts:
        since: dict[int, int] = {}  # value -> position where it last was in a register, in this function
        for p in part:
            fresh = set()
            for array, number in spills.reads.get(p, ()):
                fresh |= {
                    v
                    for v, i in enumerate(code)
                    if i.op == "input" and (i.attr[0], i.attr[1] // block) == (array, number)
                }
                scratch.update({spills.slots.of[v]: v for v in fresh if spills.stores.get(v) == p})
            for v in spills.loads.get(p, ()):
                assert scratch[spills.slots.of[v]] == v
                fresh.add(v)
            for v in operands(program, p):
                if v not in fresh:
                    kept.append(range(since[v], p))
            since.update(dict.fromkeys(fresh | operands(program, p) | {p}, p))
            if spills.stores.get(p) == p and code[p].op != "input":
                scratch[spills.slots.of[p]] = p
    assert spills.stores.keys() == spills.slots.of.keys()
    assert spills.stores.keys() == {
        v for values in spills.loads.values() for v in values
    }  # nothing is stored in vain
    assert all(0 <= slot < spills.slots.size for slot in spills.slots.of.values())
    if registers is not None:
        assert max(live_counts([(r, 1) for r in kept], len(program)), default=0) <= registers


@pytest.mark.parametrize("block", [1, 4])
@law(80)
@given(
    program=core_programs(size=60), mask=st.integers(0, 2**60 - 1), registers=st.none() | st.integers(0, 9)
)
def test_every_load_finds_its_value(block: int, program: Program, mask: int, registers: int | None) -> None:
    program = with_cuts(program, mask)
    spills = spill(program, registers, block=block)
    run_with_registers(program, spills, registers, block)
    last = {v: max(p for p in range(len(program)) if v in operands(program, p)) for v in spills.stores}
    for u, v in combinations(spills.stores, 2):  # both in memory from where they are made to their last use
        apart = last[u] < spills.stores[v] or last[v] < spills.stores[u]
        assert apart or spills.slots.of[u] != spills.slots.of[v]


@law(50)
@given(core_programs(size=60), st.integers(0, 10))
def test_so_many_registers_as_values_are_live_are_enough_and_fewer_are_not(
    program: Program, fewer: int
) -> None:
    largest = Liveness.of(program).max_pressure
    used = {v for p in range(len(program)) for v in operands(program, p) if program.code[v].op == "input"}
    for registers in (None, largest, largest + 1):
        spills = spill(program, registers)
        assert not spills.loads and not spills.slots.size and misses(program, spills) == len(used)
    assume(largest > fewer)
    assert misses(program, spill(program, fewer)) > len(used)


def fewest_misses(program: Program, registers: int) -> int:
    """By trying every choice of values that are kept after every instruction."""
    costs: dict[frozenset[int], int] = {frozenset(): 0}
    for part in program.parts:
        costs = {frozenset(): min(costs.values())}  # nothing is kept over a cut
        for p in part:
            taken = operands(program, p)
            coming = {v for later in range(p + 1, part.stop) for v in operands(program, later)}
            after: dict[frozenset[int], int] = {}
            for held, cost in costs.items():
                made = {p} - {v for v, i in enumerate(program.code) if i.op == "input"}
                useful = sorted((held | taken | made) & coming)
                for keep in combinations(
                    useful, min(registers, len(useful))
                ):  # to keep fewer is never better
                    key = frozenset(keep)
                    after[key] = min(cost + len(taken - held), after.get(key, 1 << 30))
            costs = after
    return min(costs.values())


@law(60)
@given(core_programs(size=26), st.integers(0, 2**60 - 1), st.integers(0, 4))
def test_no_choice_of_spills_has_fewer_loads(program: Program, mask: int, registers: int) -> None:
    program = with_cuts(program, mask & mask >> 30)
    assert misses(program, spill(program, registers)) == fewest_misses(program, registers)


def test_a_value_is_stored_once_and_loaded_where_it_is_used() -> None:
    def f(x: Any) -> Any:
        far = x[0] + 1.0
        near = x[0]
        for k in range(2, 6):
            near = near * near + float(k)
        return near * far, near - far

    program = trace(f, {"x": 1})
    far = next(v for v, i in enumerate(program.code) if i.op == "add")
    spills = spill(program, 1)
    assert spills.stores == {far: far} and spills.slots.of == {far: 0}
    assert [far in values for values in spills.loads.values()].count(True) == len(
        Liveness.of(program).uses[far]
    )


# arrangements


def test_arrangements_choose_passes_and_limits() -> None:
    program = lower(seeded_program(3, size=120, tame=True), arranged=None)
    assert arrange(program, Arrangement(None, None)) is program
    cut = arrange(program, Arrangement(None, Cutting(max_uncut=0, part_size=20)))
    assert cut.code is program.code and len(cut.parts) > 2
    assert [p for part in cut.parts for p in part] == list(range(len(program)))
    assert arrange(program, Arrangement(None, Cutting(max_uncut=len(program), part_size=20))) is program
    ordered = arrange(program, Arrangement(Scheduling(), None))
    assert not ordered.cuts and ordered.digest == lower(program).digest


@pytest.mark.parametrize("arrangement", [cpu.arrangement(cpu.host()), c_target.ARRANGEMENT])
def test_targets_state_their_arrangement(arrangement: Any) -> None:
    program = lower(lw.forward_dynamics.program(lw.robots.arm()), arranged=None)
    with pytest.raises(AttributeError):
        arrangement.cutting = None
    assert np.all([i.op != "sin" for i in arrange(program, arrangement).code])


def test_exported_c_is_arranged_as_its_target_says(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_target, "ARRANGEMENT", Arrangement(None, Cutting(max_uncut=0, part_size=100)))
    export = lw.export_c(lw.forward_dynamics, lw.robots.arm(), tmp_path)
    assert export.source.read_text().count("LW_PART ") > 4


def test_limits_that_cannot_be_meant() -> None:
    with pytest.raises(ProgramError, match="at least 4 instructions, got 3"):
        Cutting(part_size=3)
    with pytest.raises(ProgramError, match="at least 1 instruction, got 0"):
        Scheduling(window=0)


@law(60)
@given(core_programs(size=60), st.integers(4, 12))
def test_programs_can_be_cut_finely(program: Program, part: int) -> None:
    cuts = arrange(program, Arrangement(None, Cutting(max_uncut=0, part_size=part))).cuts
    assert set(cuts) <= set(allowed_cuts(program))
