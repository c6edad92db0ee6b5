"""Laws of tracing: what NumPy code on symbols becomes, and what every misuse is told."""

from __future__ import annotations

import functools
import inspect
import math
import re
import statistics
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linkwork.compiler.ir import functions as lw
from linkwork.compiler.ir import symbol
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.operations import OPERATIONS
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes import lower
from linkwork.compiler.passes.dead import drop_dead
from linkwork.errors import ShapeError, TraceError
from waiting import PATIENCE


def ops(program: Program) -> Counter[str]:
    """How often each operation is needed."""
    return Counter(op for op, _, _ in drop_dead(program).code if op in OPERATIONS)


def run(program: Program, *arguments: Any) -> Any:
    return interpret(lower(program), *arguments)


def assert_agree(f: Any, *arguments: Any) -> None:
    """A function gives the same on floats and, traced, on symbols."""
    names = dict(zip("abcdefgh", [np.shape(a) for a in arguments]))
    got, wanted = run(trace(f, names, name="f"), *arguments), f(*arguments)
    for g, w in zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]:
        np.testing.assert_allclose(g, np.asarray(w, dtype=float), rtol=1e-13, atol=1e-13)


rng = np.random.default_rng(0)
A3, B3, x3, y3, x4 = (rng.uniform(0.2, 0.9, shape) for shape in ((3, 3), (3, 3), 3, 3, 4))


# NumPy code on symbols


AGREE = {
    "congruence": (lambda S, I: S.T @ I @ S, (A3, B3)),
    "slices": (lambda x: np.concatenate([x[::-1], x[1:3] * x[:2], x[None, 2]]), (x4,)),
    "ufuncs": (lambda x: (np.sqrt(x), np.sin(x), np.cos(x), np.abs(-x), np.exp(x), np.log(x), np.rint(9 * x)), (x3,)),
    "arcs": (lambda x, y: (np.arcsin(x), np.arccos(x), np.arctan2(x, -y)), (x3, y3)),
    "ufuncs on a scalar": (lambda x: (np.sqrt(x), np.sin(x), np.abs(x), np.arctan2(x, 2.0), np.exp(x)), (0.4,)),
    "numbers and arrays": (lambda x: (2 * x, 2.5 - x, 1 / x, np.float64(3) * x, np.float32(0.5) + x, np.int64(2) - x), (x3,)),
    "numbers and a scalar": (lambda x: (2 * x, 2.5 - x, 1 / x, np.float64(3) * x, np.float64(2) / x, np.int64(2) - x), (0.7,)),
    "array times scalar": (lambda x, s: (B3[0] * s, s * B3[0], B3[0] / s, s - B3[0], x * s, s / x), (x3, 0.7)),
    "powers": (lambda x: (x**0 + 0.0 * x, x**1, x**2, x**3, x**7, x**10, x ** np.int64(5)), (x3,)),
    "signs": (lambda x: (-x, +x, abs(-x), -(x - x[::-1])), (x3,)),
    "in place": (lambda x: accumulate(x), (x4,)),
    "products": (lambda x, y: (np.outer(x, y), np.dot(x, y), np.trace(np.outer(x, y)), np.sum(x), np.cross(x, y)), (x3, y3)),
    "choices": (lambda x, y: (lw.minimum(x, y), lw.maximum(x, 0.5), lw.absolute(x - y), lw.where(x[0] < y[0], x, y)), (x3, y3)),
    "conditions": (lambda x, y: lw.where(((x < y) & (x > 0.3)) | ~(y >= 0.5) | (x == y), x, -y), A3[0, :2]),
    "plain truths": (lambda x, y: [lw.where(c, x, y) for c in (True & (x < y), False | (x < y), True & (y < x))], (0.5, 0.7)),
    "ties": (lambda x, y: [lw.where(c, 1.0, 2.0) for c in (x < y, x <= y, x > y, x >= y, x == y, x != y)], (0.5, 0.5)),
    "no ties": (lambda x, y: [lw.where(c, 1.0, 2.0) for c in (x < y, x <= y, x > y, x >= y, x == y, x != y)], (0.7, 0.5)),
    "bits": (lambda x: (lw.pow2(lw.rint(8 * x)), lw.exponent(x), lw.fma(x, x, -x[::-1])), (x3,)),
    "own names": (lambda x: (lw.sincos(x)[1], lw.atan2(x, 1.0), lw.asin(x), lw.acos(x), lw.exp(x), lw.log(x)), (x3,)),
    "constants": (lambda x: (np.ones(3), x * 0 + 2.0, 7.0), (x3,)),
}  # fmt: skip


@pytest.mark.parametrize("name", AGREE)
def test_floats_and_symbols_agree(name: str) -> None:
    f, arguments = AGREE[name]
    assert_agree(f, *arguments)


def accumulate(x: Any) -> Any:
    total = np.zeros(4, dtype=object)
    for k in range(4):
        total[k:] += x[k] * x[: 4 - k]
    return total


def cholesky_solve(M: Any, b: Any) -> Any:
    n = len(b)
    L = np.zeros((n, n), dtype=object)
    for i in range(n):
        for j in range(i + 1):
            s = M[i, j] - L[i, :j] @ L[j, :j] if j else M[i, j]
            L[i, j] = lw.sqrt(s) if i == j else s / L[j, j]
    y = np.zeros(n, dtype=object)
    for i in range(n):
        y[i] = (b[i] - sum(L[i, k] * y[k] for k in range(i))) / L[i, i]
    for i in reversed(range(n)):
        y[i] = (y[i] - sum(L[k, i] * y[k] for k in range(i + 1, n))) / L[i, i]
    return y


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_a_solver_agrees_with_numpy(n: int) -> None:
    J = rng.standard_normal((n, n))
    M = J @ J.T + n * np.eye(n)
    b = rng.standard_normal(n)
    got = run(trace(cholesky_solve, {"M": (n, n), "b": n}), M, b)
    np.testing.assert_allclose(got, np.linalg.solve(M, b), rtol=1e-12)
    np.testing.assert_allclose(got, cholesky_solve(M, b).astype(float), rtol=1e-13)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1))
def test_random_expressions_agree(seed: int) -> None:
    def f(x: Any, y: Any) -> Any:
        choices = np.random.default_rng(seed)
        values = [*x, *y, 0.0, 1.0, -0.7]
        for _ in range(12):
            a, b, op = *(values[choices.integers(len(values))] for _ in range(2)), choices.integers(8)
            if op < 4:
                values.append((a + b, a - b, a * b, b / (2.0 + a * a))[op])
            else:
                c = a * x[0] + b
                values.append((-c, lw.sin(c), lw.maximum(x[1] + c, b), c**3)[op - 4])
        return np.array(values[-6:])

    assert_agree(f, x3, y3)


def test_shapes_and_names() -> None:
    def f(a, b, c):
        assert isinstance(a, Symbol) and b.shape == (3,) and c.shape == (2, 2)
        return {"first": a, "second": c @ b[:2], "third": np.zeros((2, 3))}

    program = trace(f, {"a": (), "b": 3, "c": (2, 2)})
    assert program.name == "f"
    assert [tuple(a) for a in program.inputs] == [("a", ()), ("b", (3,)), ("c", (2, 2))]
    assert [tuple(a) for a in program.outputs] == [("first", ()), ("second", (2,)), ("third", (2, 3))]
    assert [a.name for a in trace(lambda x: (x, x), {"x": 2}).outputs] == ["out0", "out1"]
    assert (
        trace(lambda x: x, {"x": ()}).name == "lambda" and trace(lambda x: x, {"x": ()}, name="g").name == "g"
    )


@pytest.mark.parametrize("f", [
    lambda: lw.maximum(1.0, 2.0), lambda: lw.minimum(1.0, 2.0), lambda: lw.where(True, 1.0, 2.0), lambda: lw.pow2(3.0),
    lambda: lw.exponent(3.0),
])  # fmt: skip
def test_functions_of_plain_numbers_give_plain_numbers(f: Any) -> None:
    assert isinstance(f(), float)
    assert run(trace(lambda x: np.array([x, f()]), {"x": ()}, name="f"), 1.0)[1] == f()


# what vanishes


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[0] * 1.0 + 0.0,
        lambda x: 0 * x[1] + x[0] - 0.0,
        lambda x: (np.eye(2) @ x)[0],
        lambda x: x[0] / 1.0 - (x[1] - x[1]),
        lambda x: (-1.0 * -x)[0],
        lambda x: x[0] ** 1,
        lambda x: (np.array([[1.0, 0.0], [0.0, 0.0]]) @ np.outer(x, x) @ np.array([0.0, 0.0]) + x)[0],
    ],
)
def test_structural_zeros_and_ones_vanish(f: Any) -> None:
    assert not ops(trace(f, {"x": 2}, name="f"))


def test_a_sparse_product_costs_only_what_is_there() -> None:
    E = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, -1.0, 0.0]])
    assert ops(trace(lambda x: E @ x, {"x": 3})) == {"mul": 1, "neg": 1}


def test_nothing_is_computed_twice() -> None:
    def f(x, y):
        return lw.sin(x * y) + lw.sin(y * x) * lw.sin(x * y), (y + x) - (x + y), lw.cos(x - y), lw.cos(x - y)

    assert ops(trace(f, {"x": (), "y": ()})) == {"mul": 2, "sin": 1, "add": 1, "sub": 1, "cos": 1}


def test_signs_of_differences_are_free() -> None:
    assert ops(trace(lambda x: -(x[0] - x[1]), {"x": 2})) == {"sub": 1}


# misuse: every message names this file and the line


def if_on_symbol(x):
    return x[0] if x[0] < x[1] else x[1]  # HERE


def while_on_symbol(x):
    while x[0] < 1.0:  # HERE
        x = x + 1.0
    return x


def and_on_symbols(x):
    return x[0] < 1.0 and x[1] < 1.0  # HERE


def not_on_symbol(x):
    return not x[0]  # HERE


def chained_comparison(x):
    return lw.where(0.0 < x[0] < 1.0, x[0], x[1])  # HERE


def python_max(x):
    return max(x[0], x[1])  # HERE


def python_sorted(x):
    return np.array(sorted(x))  # HERE


def to_float(x):
    return float(x[0])  # HERE


def to_int(x):
    return int(x[0])  # HERE


def to_complex(x):
    return complex(x[0])  # HERE


def math_sin(x):
    return math.sin(x[0])  # HERE


def numpy_maximum(x):
    return np.maximum(x, 0.0)  # HERE


def numpy_where(x):
    return np.where(x < 0.0, x, 0.0)  # HERE


def numpy_float_array(x):
    return np.array(x, dtype=float)  # HERE


def into_float_array(x):
    out = np.zeros(2)
    out[0] = x[0]  # HERE
    return out


def array_comparison(x):
    return lw.where(x < 0.0, x, 0.0)  # HERE


def iteration(x):
    return sum(x[0])  # HERE


def indexing(x):
    return [1.0, 2.0][x[0]]  # HERE


def range_of_symbol(x):
    return sum(range(x[0]))  # HERE


def real_power(x):
    return x[0] ** 0.5  # HERE


def negative_power(x):
    return x[0] ** -1  # HERE


def symbolic_power(x):
    return x[0] ** x[1]  # HERE


def by_zero(x):
    return x[0] / 0.0  # HERE


def text_operand(x):
    return x[0] + "1"  # HERE


def complex_operand(x):
    return x[0] * 1j  # HERE


def number_as_condition(x):
    return lw.where(x[0], x[0], x[1])  # HERE


def condition_as_number(x):
    return (x[0] < 1.0) + x[1]  # HERE


def and_of_numbers(x):
    return x[0] & x[1]  # HERE


def mixed_traces(x):
    trace(lambda y: y + x, {"y": 2}, name="inner")  # HERE
    return x


def two_loop_bodies(x):
    kept = []
    lw.loop(lambda s: (kept.append(s) or s + 1.0, s < 3.0), x[0], limit=3)
    return lw.loop(lambda s: (s + kept[0], s < 3.0), x[0], limit=3)  # HERE


def no_turns(x):
    return lw.loop(lambda s: (s, s < 1.0), x[0], limit=0)  # HERE


def number_as_again(x):
    return lw.loop(lambda s: (s + 1.0, s), x[0], limit=3)  # HERE


def state_changes_shape(x):
    return lw.loop(lambda s: (s[:1], s[0] < 1.0), x, limit=3)  # HERE


MISUSES = [
    if_on_symbol, while_on_symbol, and_on_symbols, not_on_symbol, chained_comparison, python_max, python_sorted,
    to_float, to_int, to_complex, math_sin, numpy_maximum, numpy_where, numpy_float_array, into_float_array, array_comparison,
    iteration, indexing, range_of_symbol, real_power, negative_power, symbolic_power, by_zero, text_operand,
    complex_operand, number_as_condition, condition_as_number, and_of_numbers, mixed_traces, two_loop_bodies,
    no_turns, number_as_again, state_changes_shape,
]  # fmt: skip


@pytest.mark.parametrize("f", MISUSES, ids=lambda f: f.__name__)
def test_misuse_names_file_and_line(f: Any) -> None:
    lines, first = inspect.getsourcelines(f)
    line = first + next(k for k, text in enumerate(lines) if "# HERE" in text)
    error = ShapeError if f is state_changes_shape else TraceError
    with pytest.raises(error, match=f"{re.escape(__file__)}:{line}: "):
        trace(f, {"x": 2})


def through_statistics(x: Any) -> Any:
    return statistics.fmean([x[0], x[1]])  # line 1


def through_a_bound_branch(x: Any) -> Any:
    return sorted(x, key=functools.partial(float))  # line 1


@pytest.mark.parametrize("fn", [through_statistics, through_a_bound_branch])
def test_errors_name_no_line_of_the_standard_library(fn: Any) -> None:
    line = inspect.getsourcelines(fn)[1] + 1
    with pytest.raises(TraceError, match=f"^{re.escape(__file__)}:{line}: "):
        trace(fn, {"x": 2})


def test_errors_in_a_library_function_itself_name_the_line_that_traces_it() -> None:
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(TraceError, match=f"^{re.escape(__file__)}:{line}: "):
        trace(statistics.fmean, {"x": 2})


def test_a_neighbour_of_the_package_is_the_users() -> None:
    """A file whose path begins as the package's does is no part of it."""
    beside = str(Path(symbol.__file__).parents[1]) + "_of_mine.py"
    scope: dict[str, Any] = {"__name__": "linkwork_of_mine"}
    exec(compile("def branch(x):\n    return 1.0 if x[0] else 2.0\n", beside, "exec"), scope)
    with pytest.raises(TraceError, match=f"^{re.escape(beside)}:2: "):
        trace(scope["branch"], {"x": 2})


def test_a_loop_symbol_cannot_leak_out() -> None:
    def leaks(x):
        kept = []
        lw.loop(lambda s: (kept.append(s) or s + 1.0, s < 3.0), x[0], limit=3)
        return x[0] + kept[0]

    with pytest.raises(TraceError, match=f"{re.escape(__file__)}:.*loop body that has ended"):
        trace(leaks, {"x": 2})


@pytest.mark.parametrize(
    "f", [lambda x: np.linalg.solve(np.eye(2) * x, np.ones(2)), lambda x: np.ones(3)[x[0]]]
)
def test_what_numpy_itself_refuses(f: Any) -> None:
    """NumPy looks at types before it asks a symbol; its own error then stands."""
    with pytest.raises((TypeError, IndexError)):
        trace(f, {"x": 2}, name="f")


@pytest.mark.parametrize(
    "returned, words",
    [
        (None, "returned nothing"),
        ((), "no output"),
        ({}, "no output"),
        ({"two words": 1.0}, "identifier"),
        ({"ä": 1.0}, "identifier"),
        ({3: 1.0}, "identifier"),
        (np.empty(2, dtype=object), "holds None"),
        ("text", "real number or symbol"),
        (1j, "real number or symbol"),
    ],
)
def test_returns_that_are_no_outputs(returned: Any, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        trace(lambda x: returned, {"x": 2})


@pytest.mark.parametrize(
    "inputs, error, words",
    [
        ({"x": -1}, ShapeError, "'x'.*negative"),
        ({"x": (2, -3)}, ShapeError, "'x'.*negative"),
        ({"x": 1.5}, ShapeError, "'x'.*integers"),
        ({"x": (2, "3")}, ShapeError, "'x'.*integers"),
        ({"x": None}, ShapeError, "'x'.*integers"),
        ({"two words": 1}, TraceError, "input name 'two words'"),
        ({"1st": 1}, TraceError, "identifier"),
        ({"": 1}, TraceError, "identifier"),
        ({"größe": 1}, TraceError, "ASCII"),
        ({1: 1}, TraceError, "identifier"),
    ],
)
def test_bad_inputs(inputs: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        trace(lambda x: x, inputs)


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="two arrays have the name 'x'"):
        trace(lambda x: {"x": x}, {"x": 2})


def test_bad_program_name() -> None:
    with pytest.raises(TraceError, match="program name"):
        trace(lambda x: x, {"x": 2}, name="a-b")


def test_errors_of_the_function_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 / 0, {"x": 2})
    assert lw.loop(lambda s: (s + 1.0, s < 3.0), 0.0, limit=9) == 4.0  # no trace is left under way


# loops


def newton(x: Any) -> Any:
    return lw.loop(lambda y: (0.5 * (y + x / y), abs(y * y - x) > 1e-14 * x), 1.0 + x, limit=50)


def fibonacci(x: Any) -> Any:
    def step(s: Any) -> Any:
        return np.array([s[1], s[0] + s[1], s[2] + 1.0], dtype=object), s[2] < x

    return lw.loop(step, np.array([0.0, 1.0, 0.0], dtype=object), limit=100)


def nested(x: Any) -> Any:
    def outer(s: Any) -> Any:
        inner = lw.loop(lambda t: (t * 0.5, t * 0.5 > x), s[0] * s[0] + x, limit=20)
        return np.array([s[0] + 1.0, s[1] + inner], dtype=object), s[0] < 4.0 * x

    return lw.loop(outer, np.array([x, 0.0], dtype=object), limit=9)


def fixed_count(x: Any) -> Any:
    return lw.loop(lambda s: (s * x + 1.0, True), x, limit=6)


def only_once(x: Any) -> Any:
    return lw.loop(lambda s: (s * x + 1.0, False), x, limit=6)


def from_constants(x: Any) -> Any:
    return lw.loop(lambda s: (s + 0.25, s < x), 0.0, limit=100)


def outer_condition(x: Any) -> Any:
    large = x > 2.0
    small = x < 1.0
    return lw.loop(lambda s: (s + lw.where(large, 1.0, 0.5), ~small & (s < 4.0)), x, limit=20)


def three_deep(x: Any) -> Any:
    """The innermost body reads a number and a condition of the outermost function."""
    wide = x < 3.0

    def one(a: Any) -> Any:
        def two(b: Any) -> Any:
            c = lw.loop(lambda c: (c * 0.5 + a, (c > x) & wide), b, limit=5)
            return b * 0.5 + c * 0.1, c < b

        return lw.loop(two, a, limit=4) * 0.3 + x, a < 5.0

    return lw.loop(one, x, limit=3)


def matrix_state(x: Any) -> Any:
    R = np.array([[0.6, -0.8], [0.8, 0.6]])
    return lw.loop(
        lambda S: (R @ S * x, S[0, 0] < 0.9), np.array([[x, 0.0], [0.0, 1.0]], dtype=object), limit=7
    )


LOOPS = [
    newton,
    fibonacci,
    nested,
    fixed_count,
    only_once,
    from_constants,
    outer_condition,
    three_deep,
    matrix_state,
]


@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
def test_loops_on_floats_and_symbols_agree(f: Any) -> None:
    """Rows of a batch stop on their own."""
    batch = np.array([0.1, 0.5, 0.9, 1.0, 1.7, 2.5, 3.0, 7.0])
    together = run(trace(f, {"x": ()}), batch)
    for row, x in zip(together, batch, strict=True):
        np.testing.assert_allclose(row, np.asarray(f(x), dtype=float), rtol=1e-13)


def test_fixed_counts() -> None:
    calls = []
    program = trace(
        lambda x: lw.loop(lambda s: (calls.append(1) or s + x, True), x * 0.0 + x, limit=1000), {"x": ()}
    )
    assert len(calls) == 1  # the step is traced once
    assert run(program, 2.0) == 2002.0


def test_loops_outside_of_traces_are_plain_python() -> None:
    assert lw.loop(lambda s: (s + 1, s < 5), 0, limit=99) == 6
    assert lw.loop(lambda s: (s + 1, True), 0, limit=7) == 7
    np.testing.assert_array_equal(
        lw.loop(lambda s: (2 * s, s.sum() < 9.0), np.ones(2), limit=9), [16.0, 16.0]
    )


def test_loops_over_constants_inside_a_trace() -> None:
    """A loop that starts from plain numbers belongs to the trace, even if its numbers never meet a symbol."""
    program = trace(lambda x: x + lw.loop(lambda s: (s * 2.0, s < 100.0), 1.0, limit=50), {"x": ()})
    assert run(program, 1.0) == 1.0 + 256.0


# traces beside one another


def test_threads_do_not_disturb_each_other() -> None:
    wanted = {
        k: trace(lambda x, k=k: lw.loop(lambda s: (s * float(k), s < x), 1.0, limit=k), {"x": ()}, name="f")
        for k in (2, 3)
    }
    meet = threading.Barrier(2)
    found = {2: [], 3: []}

    def work(k: int) -> None:
        def f(x: Any) -> Any:
            def step(s: Any) -> Any:
                meet.wait(PATIENCE)  # both are inside their loops now
                return s * float(k), s < x

            meet.wait(PATIENCE)
            return lw.loop(step, 1.0, limit=k)

        for _ in range(20):
            found[k].append(trace(f, {"x": ()}, name="f").digest)

    workers = [threading.Thread(target=work, args=(k,)) for k in found]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found == {k: [p.digest] * 20 for k, p in wanted.items()}


def test_a_trace_inside_a_trace() -> None:
    inner = []

    def f(x: Any) -> Any:
        inner.append(
            trace(lambda y: lw.loop(lambda s: (s + y, s < 9.0), 1.0, limit=20), {"y": ()}, name="inner")
        )
        return lw.loop(lambda s: (s + x, s < 5.0), 1.0, limit=20)

    assert run(trace(f, {"x": ()}), 1.0) == 6.0
    assert run(inner[0], 1.0) == 10.0


def test_text_shows_bodies_of_loops_and_maps_indented() -> None:
    """Each with the operations that it needs on lines of their own, four columns further in."""

    def inner(s: Any) -> Any:
        return lw.loop(lambda t: (t * t + s, t < 9.0), s, limit=7)

    def outer(x: Any) -> Any:
        rows = lw.map_rows(lambda r: np.array([inner(r[0]) / r[1]]), x.reshape(-1, 2))
        return rows.ravel()

    program = trace(outer, {"x": (40,)})
    lines = str(program).splitlines()
    indents = {}
    for word in (" -> ", "map over", "loop at most 7 times", " * ", " / "):
        indents[word] = [len(line) - len(line.lstrip()) for line in lines if word in line]
    assert indents[" -> "] == [0, 4, 8] and indents["map over"] == [2]
    assert indents["loop at most 7 times"] == [6] and indents[" * "] == [10] and indents[" / "] == [6]
