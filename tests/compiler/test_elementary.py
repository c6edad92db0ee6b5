"""The expanded elementary functions against mpmath, and expansion as a pass."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from linkwork.compiler.ir import functions
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.operations import CORE, ELEMENTARY
from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.ir.semantics import FEW_ROWS, SEMANTICS
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.elementary import EXPANSIONS
from linkwork.compiler.passes.elementary.coefficients import COEFFICIENTS
from linkwork.compiler.passes.expand import expand
from linkwork.compiler.passes.rebuild import rebuild

ROOT = Path(__file__).resolve().parents[2]


def load(path: str) -> ModuleType:
    """A script of this repository as a module: the report and its measuring are the same code as these tests."""
    spec = importlib.util.spec_from_file_location(f"linkwork_{Path(path).stem}", ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


report = load("bench/elementary.py")
LIMIT = 2.0  # ulp
both = pytest.mark.parametrize("dtype", report.DTYPES)
every = pytest.mark.parametrize("name", report.NAMES)


def run(name: str, dtype: str, *args: float) -> float:
    """One value of one expanded function."""
    return interpret(report.program(name, dtype), *(np.array([a], dtype=dtype) for a in args))[0].item()


@both
@every
def test_error_is_at_most_two_ulp(name: str, dtype: str) -> None:
    expanded = report.program(name, dtype)
    for points in report.sweep(name, dtype, 12_000, seed=7):
        found = report.worst(name, points, dtype, expanded)
        assert 0.0 < found.error <= LIMIT, (points.label, found)


@pytest.mark.slow
@both
@every
def test_error_over_a_million_points(name: str, dtype: str) -> None:
    expanded = report.program(name, dtype)
    for points in report.sweep(name, dtype, 1_000_000, seed=8):
        found = report.worst(name, points, dtype, expanded)
        assert 0.0 < found.error <= LIMIT, (points.label, found)


@both
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_next_to_multiples_of_a_quarter_turn(name: str, dtype: str) -> None:
    numbers = [
        *range(1, 200),
        *(10**n for n in range(3, 14)),
        *(2**n + m for n in range(8, 45) for m in (-1, 0)),
    ]
    numbers = [n for n in numbers if n * 1.58 < report.ANGLE_LIMIT[dtype]]
    with report.mp.workprec(150):
        nearest = np.array([float(n * report.mp.pi / 2) for n in numbers], dtype=dtype)
    x = np.concatenate(
        [nearest, *(np.nextafter(nearest, np.array(end, dtype=dtype)) for end in (np.inf, -np.inf))]
    )
    found = report.worst(name, report.Points("", (x,), delicate=True), dtype)
    assert 0.0 < found.error <= LIMIT, found


def test_the_double_closest_to_a_zero_of_sine() -> None:
    """Two angles whose cosine and sine are as small as any in their reach."""
    assert run("cos", "float64", math.pi / 2) == 6.123233995736766e-17
    assert run("sin", "float64", math.pi) == 1.2246467991473532e-16
    assert run("sin", "float64", 22.0) == math.sin(22.0)


@both
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_out_of_range_are_nan_and_never_wrong(name: str, dtype: str) -> None:
    limit = report.ANGLE_LIMIT[dtype]
    largest = float(np.finfo(dtype).max)
    for x in (limit * 1.6, limit * 2, limit * 1000, largest / 3, largest, math.inf, math.nan):
        assert math.isnan(run(name, dtype, x)), x
        assert math.isnan(run(name, dtype, -x)), x
    assert abs(run(name, dtype, limit)) <= 1.0
    rng = np.random.default_rng(3)
    x = rng.uniform(-2.0, 2.0, 2000) * limit  # right or NaN, on either side of the limit
    got = interpret(report.program(name, dtype), x.astype(dtype))
    assert np.isnan(got[np.abs(x) > limit * 1.58]).all()
    inside = np.abs(x) < limit * 1.57
    assert report.worst(name, report.Points("", (x[inside],)), dtype).error <= LIMIT
    assert not np.isnan(got[inside]).any()


SPECIAL = [0.0, 1.0, 2.0, 0.5, math.inf, math.nan, 1e-300, 5e-324, 1e308, 1e30, 1e-44]


@both
def test_special_values(dtype: str) -> None:
    """What NumPy says at zeros, infinities, NaN and the ends of the range."""
    values = np.array(SPECIAL + [-x for x in SPECIAL], dtype=np.float64)
    with np.errstate(all="ignore"):
        values = np.unique(values.astype(dtype))
        exactly = {
            "asin": [-math.inf, -2.0, 0.0, 2.0, math.inf, math.nan],
            "acos": [-math.inf, -2.0, 1.0, 2.0, math.inf, math.nan],
            "exp": [-math.inf, -1e30, 0.0, 1e30, math.inf, math.nan],
            "log": [-math.inf, -1.0, -1e-44, 0.0, 1.0, math.inf, math.nan],
        }
        for name, args in exactly.items():
            for x in args:
                want = report.NUMPY.get(name, getattr(np, name, None))(np.array(x, dtype=dtype)).item()
                np.testing.assert_equal(run(name, dtype, x), want, err_msg=f"{name} {x}")
        for y in values:
            for x in values:
                if (x == 0 and np.signbit(x)) or (y == 0 and np.signbit(y)):
                    continue  # zeros count as +0
                want = np.arctan2(y, x, dtype=dtype).item()
                got = run("atan2", dtype, y, x)
                np.testing.assert_allclose(
                    got, want, rtol=4 * np.finfo(dtype).eps, atol=0, err_msg=f"{y} {x}"
                )


@both
def test_zeros_count_as_positive(dtype: str) -> None:
    pi = float(np.dtype(dtype).type(np.pi))
    assert run("atan2", dtype, -0.0, -1.0) == run("atan2", dtype, 0.0, -1.0) == pi
    assert run("atan2", dtype, 0.0, -0.0) == 0.0
    assert run("log", dtype, -0.0) == -math.inf
    for name in ("sin", "asin"):
        assert run(name, dtype, -0.0) == 0.0


@both
def test_exact_results(dtype: str) -> None:
    kind = np.dtype(dtype).type
    for name, x, want in (
        ("sin", 0, 0),
        ("cos", 0, 1),
        ("exp", 0, 1),
        ("log", 1, 0),
        ("acos", 1, 0),
        ("asin", 0, 0),
    ):
        assert run(name, dtype, x) == want, name
    assert run("acos", dtype, -1.0) == float(kind(np.pi))
    assert run("asin", dtype, 1.0) == float(kind(np.pi / 2))
    assert run("atan2", dtype, 1.0, 1.0) == float(kind(np.pi / 4))
    assert run("atan2", dtype, 1.0, 0.0) == float(kind(np.pi / 2))
    assert run("atan2", dtype, -1.0, 0.0) == -float(kind(np.pi / 2))


def test_every_elementary_operation_has_an_expansion() -> None:
    assert set(EXPANSIONS) == set(ELEMENTARY) == set(report.NAMES)


def operations(program: Program) -> int:
    """Instructions that compute something."""
    return sum(op in CORE for op, _, _ in program.code)


@both
def test_sine_and_cosine_share_their_work(dtype: str) -> None:
    def pair(x):
        return functions.sincos(x)

    both_of_them = expand(trace(pair, {"x": ()}).with_dtype(dtype))
    assert operations(both_of_them) == {"float64": 31, "float32": 25}[dtype]
    assert operations(report.program("sin", dtype)) == operations(both_of_them) - 3
    assert operations(report.program("cos", dtype)) == operations(both_of_them) - 2
    assert Counter(op for op, _, _ in both_of_them.code)["rint"] == 2


@both
def test_loop_bodies_are_expanded(dtype: str) -> None:
    def kepler(m, e):
        """Eccentric anomaly by Newton's method."""

        def step(a):
            move = (a - e * functions.sin(a) - m) / (1.0 - e * functions.cos(a))
            return a - move, functions.absolute(move) > 1e-6

        return functions.loop(step, m, limit=20)

    program = expand(trace(kepler, {"m": (), "e": ()}).with_dtype(dtype))
    check(program, core_only=True)
    m, e = np.linspace(-3.0, 3.0, 50), np.linspace(0.0, 0.7, 50)
    a = interpret(program, m, e).astype(float)
    np.testing.assert_allclose(a - e * np.sin(a), m.astype(dtype), atol=64 * np.finfo(dtype).eps)


def test_sine_of_a_constant_needs_no_instruction() -> None:
    builder = Builder()
    angle = builder.constant(0.5)
    results = [[builder.apply(name, angle)] for name in ("sin", "cos", "asin", "acos", "exp", "log")]
    results.append([builder.apply("atan2", angle, builder.constant(2.0))])
    program = expand(builder.finish("fixed", [], [Array(f"o{k}", ()) for k in range(7)], results))
    assert {op for op, _, _ in program.code} == {"const"}
    want = [f(0.5) for f in (math.sin, math.cos, math.asin, math.acos, math.exp, math.log)] + [
        math.atan2(0.5, 2.0)
    ]
    np.testing.assert_allclose([v.item() for v in interpret(program)], want, rtol=1e-15)


def test_rebuild_copies_what_is_not_visited() -> None:
    def mixed(x):
        y = functions.loop(lambda s: (functions.sqrt(s + x[1]), s < 3.0), x[0], limit=4)
        return functions.where(y > 1.0, y, -1.0), functions.sin(x[0] * 2.0)

    program = trace(mixed, {"x": 2})
    assert rebuild(program, lambda *_: None).digest == program.digest
    assert expand(expand(program)).digest == expand(program).digest


@both
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_coefficients_are_what_the_tool_finds(name: str, dtype: str) -> None:
    tool = load("tools/minimax.py")
    found, _ = tool.fit(tool.FITS[name], dtype)
    assert tuple(map(float, found)) == getattr(COEFFICIENTS[dtype], name)


@pytest.mark.slow
def test_all_coefficients_are_what_the_tool_finds() -> None:
    """The values; how their lines are broken is the formatter's."""
    made: dict[str, Any] = {}
    exec(load("tools/minimax.py").module(), made)
    assert repr(made["COEFFICIENTS"]) == repr(COEFFICIENTS)


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    5e-324,
    2.0**-1022,
    2.0**-540,
    2.0**511,
    1.7e308,
    -1.7e308,
    np.inf,
    -np.inf,
    np.nan,
]


def test_fused_products_round_once() -> None:
    """In few rows, which numbers of Python compute, and in many: a b + c as rational numbers, rounded."""
    rng = np.random.default_rng(0)
    a, b, c = (2.0 ** rng.integers(-60, 60, 3000) * rng.standard_normal(3000) for _ in range(3))
    c[::3] = -(a * b)[::3] * (1.0 + 2.0**-52 * rng.integers(-4, 5, 1000))  # products that nearly cancel
    c[1::3] *= 2.0 ** rng.integers(-110, -50, 1000)  # below half of the last digit
    # sums next to the middle between two numbers: the product ends 2^-53 ± 2^-81 or less below c
    c[:900] = 1.0 + 2.0**-52 * rng.integers(0, 2**20, 900)
    a[:900] = (1.0 + 2.0**-27) * rng.choice([-1.0, 1.0], 900)
    b[:450] = 2.0**-53 * (1.0 - 2.0**-27)
    b[450:900] = 2.0**-27 * (1.0 + 2.0**-27)
    special = np.array([(x, y, z) for x in SPECIAL for y in SPECIAL for z in SPECIAL]).T
    a, b, c = np.concatenate([np.stack([a, b, c]), special], axis=1)
    fma = SEMANTICS["fma"]
    with np.errstate(all="ignore"):
        many = fma(a, b, c)
        few = np.concatenate([fma(*part) for part in np.array_split(np.stack([a, b, c]), 100, axis=1)])
    assert len(a) > FEW_ROWS and len(a) // 100 < FEW_ROWS
    same = (few.view(np.int64) == many.view(np.int64)) | (np.isnan(few) & np.isnan(many))
    assert same.all()
    for k in range(3000):
        exact = Fraction(a[k]) * Fraction(b[k]) + Fraction(c[k])
        assert few[k] == exact.numerator / exact.denominator
