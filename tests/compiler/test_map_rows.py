"""`lw.map_rows`: one function of every row, with the same bits interpreted, unrolled, in lanes, for one state
and as C.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.program import Program, RowMap
from linkwork.compiler.passes import lower
from linkwork.compiler.passes.unroll import unroll
from linkwork.errors import ProgramError, ShapeError, TraceError

MACHINE_LANES = 16  # the most that a register has


def two_maps(x: Any, A: Any) -> Any:
    """Rows of symbols, of constants and of another map's results; results as outputs, negated, twice, and
    computed with.
    """
    s = lw.sin(x[1])
    rows = x[0] * A + 1.0
    Y = lw.map_rows(
        lambda r: np.array([r[0] * s + r[1] * x[2], r[1] / (1.0 + r[2] * r[2]), r @ r, -r[0], lw.cos(r[2])]),
        rows,
    )
    Z = lw.map_rows(
        lambda r: np.array([r[0] + x[0] * r[3], -r[1] * s]),
        np.c_[Y[:, :2], -Y[:, 2], np.arange(len(A)), A[:, 0]],
    )
    Y[0, 0] = Y[0, 0] * 2.0
    return Y, Z.T, -Y[:, 1], np.array([Z[0, 0], x[0], Z[0, 0]])


def traced(count: int) -> Program:
    return lw.trace(two_maps, {"x": 3, "A": (count, 3)})


def maps_of(program: Program) -> list[RowMap]:
    return [attr for _, _, attr in program.code if isinstance(attr, RowMap)]


def arrays(rows: int, count: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    return rng.normal(size=(rows, 3)).astype(dtype), rng.normal(size=(rows, count, 3)).astype(dtype)


def same_bits(found: Any, wanted: Any) -> None:
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f, w.reshape(f.shape))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [2, 3, 5, 8, 13, MACHINE_LANES, 21])
def test_kernels_have_the_interpreters_bits(count: int, dtype: str) -> None:
    program = traced(count)
    assert [each.count for each in maps_of(program)] == [count, count]
    lowered = lower(program, dtype, arranged=None)
    kernel = lw.compile(program, dtype=dtype, wait=True)
    for rows in (1, 3, 8, 19):
        x, A = arrays(rows, count, dtype)
        wanted = lw.interpret(lowered, x, A)
        same_bits(lw.interpret(unroll(lowered), x, A), wanted)
        same_bits(kernel(x, A) if rows > 1 else kernel(x[0], A[0]), wanted)


def test_long_bodies_and_long_programs_around_them() -> None:
    """A body that is cut into functions, between instructions that are cut too."""

    def f(x: Any) -> Any:
        for _ in range(900):
            x = np.array(
                [x[0] * x[1] + 0.5, x[1] - 0.3 * x[2], x[2] * 0.9 + x[3], lw.sqrt(x[3] * x[3] + 0.1)]
            )

        def each(row: Any) -> Any:
            for _ in range(1600):
                row = np.array([row[0] * 0.5 + x[0], row[1] * row[0] * 0.1 - x[1], row[0] - 0.2 * row[2]])
            return row

        rows = np.array([[x[0], x[k], k * x[3]] for k in (1, 2, 3)])
        return lw.map_rows(each, rows)

    program = lw.trace(f, {"x": 4})
    x = np.random.default_rng(0).uniform(0.1, 0.9, (11, 4))
    kernel = lw.compile(program, wait=True)
    wanted = lw.interpret(lower(program, arranged=None), x)
    np.testing.assert_array_equal(kernel(x), wanted)
    np.testing.assert_array_equal(kernel(x[0]), wanted[0])


def test_a_body_with_a_loop() -> None:
    def root(a: Any) -> Any:
        return lw.loop(lambda s: (0.5 * (s + a / s), lw.absolute(s * s - a) > 1e-13 * a), a, limit=60)

    program = lw.trace(lambda x: lw.map_rows(lambda r: np.array([root(r[0]) + r[1]]), x), {"x": (5, 2)})
    x = np.random.default_rng(0).uniform(0.5, 9.0, (17, 5, 2))
    kernel = lw.compile(program, wait=True)
    wanted = lw.interpret(lower(program, arranged=None), x)
    np.testing.assert_allclose(wanted[..., 0], np.sqrt(x[..., 0]) + x[..., 1], rtol=1e-14)
    np.testing.assert_array_equal(kernel(x), wanted)
    np.testing.assert_array_equal(kernel(x[3]), wanted[3])


def test_on_plain_numbers_and_in_loops_it_is_a_python_loop() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(
        lw.map_rows(lambda r: np.array([r[0] * r[1]]), rows), [[0.0], [6.0], [20.0]]
    )

    def f(x: Any) -> Any:
        return lw.loop(
            lambda s: (lw.map_rows(lambda r: 0.5 * r + x, s.reshape(2, 2)).ravel(), s[0] < 9.0),
            np.ones(4),
            limit=4,
        )

    program = lw.trace(f, {"x": 2})
    assert not maps_of(program)
    np.testing.assert_array_equal(
        lw.compile(program, wait=True)([1.0, 2.0]), lw.interpret(lower(program), [1.0, 2.0])
    )


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_derivatives_are_those_of_the_unrolled_program(mode: str) -> None:
    program = traced(4)
    made = getattr(lw, mode)(program)
    rng = np.random.default_rng(1)
    given = [rng.normal(size=a.shape) for a in made.inputs]
    found = lw.interpret(lower(made), *given)
    step = 1e-6

    def moved(sign: float) -> Any:
        along = given[2:4] if mode == "jvp" else [rng_x, rng_A]
        return lw.interpret(
            lower(program), given[0] + sign * step * along[0], given[1] + sign * step * along[1]
        )

    rng_x, rng_A = rng.normal(size=3), rng.normal(size=(4, 3))
    changes = [(a - b) / (2 * step) for a, b in zip(moved(1.0), moved(-1.0), strict=True)]
    if mode == "jvp":
        for f, c in zip(found[4:], changes, strict=True):
            np.testing.assert_allclose(f, c, atol=1e-7)
    else:
        bars = given[2:]
        weighed = sum(float(np.sum(b * c)) for b, c in zip(bars, changes, strict=True))
        np.testing.assert_allclose(np.sum(found[4] * rng_x) + np.sum(found[5] * rng_A), weighed, rtol=1e-6)


def test_operations_are_counted_for_every_row() -> None:
    program = lw.trace(lambda x: lw.map_rows(lambda r: np.array([r[0] * r[1]]), x), {"x": (7, 2)})
    assert lw.count_operations(program)["total"] == 7


def test_what_cannot_be_meant_is_told() -> None:
    with pytest.raises(ShapeError, match=r"shape \(n, m\)"):
        lw.trace(lambda x: lw.map_rows(lambda r: r, x), {"x": 3})
    with pytest.raises(ShapeError, match=r"shape \(k,\)"):
        lw.trace(lambda x: lw.map_rows(lambda r: r[0], x), {"x": (3, 2)})
    with pytest.raises(TraceError, match="conditions"):
        lw.trace(lambda x: lw.map_rows(lambda r: np.array([r[0] < 1.0]), x), {"x": (3, 2)})


def test_the_checker_refuses_maps_that_do_not_fit() -> None:
    program = traced(3)
    place = next(v for v, (op, _, _) in enumerate(program.code) if op == "map")
    for wrong in (
        program.code[place]._replace(args=program.code[place].args[1:]),
        program.code[place]._replace(attr=replace(maps_of(program)[0], count=4)),
        program.code[place]._replace(attr=None),
    ):
        code = (*program.code[:place], wrong, *program.code[place + 1 :])
        with pytest.raises(ProgramError, match="map"):
            check(replace(program, code=code))


def test_maps_can_be_read() -> None:
    text = str(traced(2))
    assert "map over 2 rows" in text and "shared = (" in text


def test_large_derivatives_have_the_interpreters_bits() -> None:
    """Columns of several limbs as maps, in one state and in batches, beside the same program without maps."""
    model = lw.robots.quadruped()
    program = lw.forward_dynamics_derivatives.program(model)
    assert maps_of(program)
    lowered = lower(program, arranged=None)
    states = [model.random_state(k) for k in range(9)]
    q, v = (np.array([s[k] for s in states]) for k in range(2))
    tau = np.random.default_rng(0).normal(size=v.shape)
    kernel = lw.compile(lw.forward_dynamics_derivatives, model, wait=True)
    wanted = lw.interpret(lowered, q, v, tau)
    same_bits(lw.interpret(unroll(lowered), q, v, tau), wanted)
    same_bits(kernel(q, v, tau), wanted)
    same_bits(kernel(q[2], v[2], tau[2]), [w[2] for w in wanted])
