"""Maps of long programs on a GPU: the last kernel, which runs their rows and writes outputs, has the
interpreter's bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cuda_target import compare
from test_map_rows import traced

import linkwork as lw
from cuda_programs import HostKernels
from linkwork.compiler.ir.program import Program, RowMap
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.targets.cuda import DEVICES, Emitted, choose_parts, emit_cuda
from linkwork.compiler.targets.cuda import emit_maps as emit_module
from linkwork.compiler.targets.cuda import parts as parts_module
from linkwork.compiler.targets.cuda.map_kernel import MapKernel
from linkwork.compiler.targets.cuda.maps import TailMaps, tail_maps

SM90 = DEVICES["sm_90"]


def two_limbs(x: Any, A: Any, b: Any) -> Any:
    """Maps of two limbs: one body, in which results stand in another order and some shared values have
    another sign.

    Rows take constants, inputs, negated values and one value twice; results are negated, twice in an output,
    in two of them, and added to what else there is.
    """
    s = lw.sin(x[0])
    c = lw.cos(x[0])
    left = [s * x[k] for k in (1, 2, 3)]
    right = [c * x[k] for k in (1, 2, 3)]
    rows = np.array(
        [[s * A[k, 0], -c * A[k, 1], A[k, 2], float(k), s * s, s * s] for k in range(5)], dtype=object
    )

    def solved(own: list[Any], other: list[Any], swapped: bool) -> Any:
        def each(r: Any) -> Any:
            y = [r[0] * own[0] - r[1], r[1] * own[1] + r[3], r[2] * own[2] + r[4] * r[5]]
            mine = [y[0] * own[0] + y[1] * own[1] + y[2] * own[2], y[1] / (1.5 + own[1] * own[1])]
            others = [y[0] * other[k] + y[2] * x[4] * 0.25 for k in range(3)]
            return np.array([*others, *mine] if swapped else [*mine, *others], dtype=object)

        return each

    X = lw.map_rows(solved(left, right, False), rows[:, [0, 1, 2, 3, 4, 5]])
    Y = lw.map_rows(solved([-r for r in right], left, True), -rows[1:4])
    both = np.concatenate([X, Y]).T
    first = both.copy()
    second = np.array(both[:2, ::-1])
    first[0, 0] = both[0, 0] - s  # from a result and from what waits
    first[1, 1] = both[1, 1] * both[2, 1] + x[2]  # from two, of which one is an element, too
    first[2, 2] = -both[2, 2]
    first[3] = both[2]
    first[4, 0], first[4, 1], first[4, 2], first[4, 3] = 0.0, x[1], -s, -x[3]
    return {"first": first, "second": second, "inverse": np.outer(left, left) + b, "row": s * A[:, 0]}


def limbs(dtype: str) -> Program:
    return lw.lower(lw.trace(two_limbs, {"x": 5, "A": (5, 3), "b": ()}), dtype, arranged=None)


@pytest.fixture(autouse=True)
def _rows_may_be_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here results of one row are in several outputs."""
    monkeypatch.setattr(parts_module, "MAX_REPEATED_WORK", 9.0)


def emitted(program: Program, max_instructions: int = 60) -> list[Emitted]:
    found = [
        emit_cuda(config.program, SM90, config)
        for config in choose_parts(program, SM90, max_instructions=max_instructions)
    ]
    assert found[-1].config.maps is not None
    return found


def maps_of(program: Program) -> list[RowMap]:
    return [attr for _, _, attr in program.code if isinstance(attr, RowMap)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("states", [32, 8, 2])
def test_bits(states: int, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of states a block, and a batch that ends in the middle of a warp and of a block."""
    monkeypatch.setattr(parts_module, "BLOCK_STATES", (states,))
    monkeypatch.setattr(
        emit_module, "MAX_ROW_REGISTERS", 0 if states == 2 else 80
    )  # where results have no room to wait
    kernels: list[Any] = [(p, emitted(p)) for p in (limbs(dtype), lw.lower(traced(5), dtype, arranged=None))]
    assert all(parts[-1].config.rows == states and len(parts) > 2 for _, parts in kernels)
    on_host = HostKernels(kernels, tmp_path)
    for rows in (77, 32, 41):
        compare(on_host, rows=rows)


def test_rows_of_inputs_and_outputs_lie_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of an input for all states; outputs that begin in the middle of 16 bytes."""
    monkeypatch.setattr(parts_module, "BLOCK_STATES", (8,))
    program = limbs("float32")
    kernel = HostKernels([(program, emitted(program))], tmp_path)
    rng = np.random.default_rng(0)
    for shift in (0, 1, 3):
        x, A, b = (
            rng.normal(size=(n, *a.shape)).astype("float32")
            for n, a in zip((77, 1, 1), program.inputs, strict=True)
        )
        wanted = lw.interpret(program, x, A[0], b[0])
        for f, w in zip(kernel.run(0, [x, A, b], 77, shift=shift), wanted, strict=True):
            np.testing.assert_array_equal(f.view("u4"), np.broadcast_to(w, f.shape).view("u4"))


def test_a_robots_derivatives(tmp_path: Path) -> None:
    """The limbs of a quadruped have one body, and their results the bits that they have one by one."""
    program = lw.lower(
        lw.forward_dynamics_derivatives.program(lw.robots.quadruped()), "float32", arranged=None
    )
    parts = emitted(program, max_instructions=3000)
    way = parts[-1].config.maps
    assert way is not None and [len(each.maps) for each in way.groups] == [4, 1]
    assert "LW_BULK && " in parts[-1].source and parts[-1].source.count("case 1: {") == 1
    compare(HostKernels([(program, parts)], tmp_path), rows=45)


def test_what_has_no_room_in_shared_memory_is_read_where_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = limbs("float32")
    maps = TailMaps(tail_maps(program))
    tight = MapKernel(maps, 8, 4, 0, 0, 0).with_ordered_slots()
    assert not tight.uses.keys() <= tight.shared_places.keys()
    monkeypatch.setattr(parts_module, "configure_maps", lambda maps, device: (tight, 1))
    compare(HostKernels([(program, emitted(program))], tmp_path), rows=45)
    monkeypatch.setattr(parts_module, "configure_maps", lambda maps, device: None)  # then they are unrolled
    configs = choose_parts(program, SM90, max_instructions=200)
    assert all(config.maps is None for config in configs)


def test_maps_are_unrolled_where_their_kernel_would_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each row would be run for two outputs, and where bodies leave the instruction cache."""
    maps = TailMaps(tail_maps(limbs("float32")))
    assert (
        maps.operations > 1.3 * maps.single_pass_operations
        and parts_module.configure_maps(maps, SM90) is not None
    )
    with monkeypatch.context() as change:
        change.setattr(parts_module, "MAX_REPEATED_WORK", 1.3)
        assert parts_module.configure_maps(maps, SM90) is None
    monkeypatch.setattr(parts_module, "INSTRUCTION_CACHE", (30, 40))
    assert parts_module.configure_maps(maps, SM90) is None


def test_maps_that_later_code_reads_are_unrolled() -> None:
    program = lw.lower(traced(4), arranged=None)
    assert (
        len(maps_of(program)) == 2 and len(maps_of(tail_maps(program))) == 1
    )  # the first one's results are rows of the second

    def root(a: Any) -> Any:
        return lw.loop(lambda s: (0.5 * (s + a / s), lw.absolute(s * s - a) > 1e-13 * a), a, limit=60)

    looped = lw.lower(
        lw.trace(lambda x: lw.map_rows(lambda r: np.array([root(r[0])]), x), {"x": (5, 1)}), arranged=None
    )
    assert not maps_of(tail_maps(looped))


def test_alike_maps_share_their_code() -> None:
    """Two limbs, whose own values lie at one distance; what one has of the other lies at the opposite one."""
    way = MapKernel(TailMaps(tail_maps(limbs("float32"))), 8, 4, 0, 0, 1 << 16)
    (both,) = way.groups
    assert len(both.maps) == 2
    distances = way.offset_patterns(both)
    assert len(distances) > 1 and any(any(sign for _, sign in some) for some in distances)
    assert len(way.shared_values) == len(
        {way.plan.unsigned[v] for v in way.shared_values}
    )  # nothing lies there twice


def test_every_row_is_taken_once_and_every_element_written() -> None:
    program = lw.lower(
        lw.forward_dynamics_derivatives.program(lw.robots.quadruped()), "float32", arranged=None
    )
    maps = TailMaps(tail_maps(program))
    way = MapKernel(maps, 8, 5, 0, 0, 1 << 16)
    for phase in maps.phases:
        tasks = [task for some in way.tasks(phase) for task in some]
        taken = {(v, row) for task in tasks for v, row in task.rows}
        assert taken == {(v, k) for v, rows in phase.rows.items() for k in range(len(rows))}
        places = [t for rows in phase.rows.values() for row in rows for t in row.targets if t is not None]
        assert len(places) == len(set(places))
        written = {
            *places,
            *(e for _, _, *both in phase.copies for e in both),
            *(e for tree in phase.trees for e in tree.elements),
        }
        assert written >= set(range(program.outputs[phase.array].size))


def test_parts_before_the_maps_leave_what_they_take_in_its_slots() -> None:
    program = lw.lower(
        lw.forward_dynamics_derivatives.program(lw.robots.quadruped()), "float32", arranged=None
    )
    *before, last = choose_parts(program, SM90, max_instructions=300)
    assert last.maps is not None
    kept: set[int] = set()
    for config in before:
        assert config.part is not None and not config.part.chunks and kept.issuperset(config.part.reads)
        assert not kept.intersection(config.part.keeps).intersection(range(last.maps.plan.reads))  # they stay
        kept |= set(config.part.keeps)
    assert kept.issuperset(range(last.maps.plan.reads)) and max(kept) < last.maps.first_leaf
    assert {config.slots for config in (*before, last)} == {
        last.maps.first_leaf + len(last.maps.plan.leaf_slots)
    }


class FakeGpu:
    number = 0
    device = SM90
    name = "none"


def test_kernels_tell_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    from linkwork.compiler.runtime.cuda import build

    monkeypatch.setattr(parts_module, "CUTTING", Cutting(max_uncut=100))
    monkeypatch.setattr(build, "compile_text", lambda source, arch: source.encode())
    program = lw.forward_dynamics_derivatives.program(lw.robots.quadruped())
    lowered = lw.lower(program, "float32", arranged=None)
    header, code = build.fastest(program, lowered, FakeGpu())  # type: ignore[arg-type]
    configs = choose_parts(lowered, SM90)
    assert code.count(b"__global__ void") == len(header["parts"]) == len(configs)
    assert [(part["reads"], part["keeps"]) for part in header["parts"]] == [
        config.crossing for config in configs
    ]
    assert header["parts"][-1]["rows"] == configs[-1].rows < header["parts"][-1]["threads"]
    assert header["scratch_slots"] == configs[-1].slots
