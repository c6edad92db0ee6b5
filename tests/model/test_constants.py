"""Constants that reach programs: the same bits whatever BLAS, LAPACK, mathematical library and NumPy the
machine has.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import mpmath
import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.ir import numbers
from linkwork.spatial.constants import frozen, length, product
from processes import SOURCE
from waiting import PATIENCE

try:
    from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched
    from numpy._core._multiarray_umath import __cpu_features__ as features
except ImportError:  # nothing but fewer machines to try
    dispatched = []
    features = {}

QUICK = ("skew_chain", "mit_humanoid_leg", "five_bar")
MACHINES = {  # as environment variables
    "Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "plain NumPy": {"NPY_DISABLE_CPU_FEATURES": " ".join(name for name in dispatched if features.get(name))},
    "plain libm": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable,-FMA4"},
}


def programs(names: Sequence[str], arithmetic: str = "own", **environment: str) -> str:
    """The digests of models and their lowered programs, in a process of its own."""
    script = str(Path(__file__).parents[1] / "helpers" / "other_arithmetic.py")
    env = {**os.environ, "PYTHONPATH": SOURCE, "LINKWORK_CACHE": "off", **environment}
    command = [sys.executable, "-W", "ignore", script, arithmetic, *names]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def here() -> str:
    return programs(QUICK)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.sweep(2)
def test_the_machine_decides_nothing(here: str, machine: str) -> None:
    if machine == "Haswell" and not features.get("AVX2"):
        pytest.skip("this processor has no AVX2")
    assert programs(QUICK, **MACHINES[machine]) == here


def test_arithmetic_of_others_decides_nothing(here: str) -> None:
    """Not even a BLAS that sums backwards, and a LAPACK with other last bits: they choose, but compute no
    constant.
    """
    assert programs(QUICK, "other") == here


@pytest.mark.slow
def test_no_robot_depends_on_the_machine() -> None:
    names = ("skew_chain", *lw.robots.names())
    found = programs(names)
    machines = (
        [MACHINES["Sandybridge"], MACHINES["Haswell"]] if features.get("AVX2") else [MACHINES["Sandybridge"]]
    )
    assert all(programs(names, **machine) == found for machine in machines)
    assert programs(names, "other") == found


@pytest.mark.parametrize("name", ["sin", "cos", "atan2", "asin", "acos", "exp", "log"])
def test_functions_of_constants(name: str) -> None:
    """Rounded correctly, or as good as that, against mpmath."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=200) * 10.0 ** rng.uniform(-9, 9, 200)
    few = np.concatenate(
        [rng.uniform(-1, 1, 100), 1.0 - 10.0 ** rng.uniform(-15, -1, 100), 10.0 ** rng.uniform(-12, 0, 50)]
    )
    turns = np.array([1e22, 1e300, *(np.pi / 2 * np.arange(1, 9))])
    x = {"asin": few, "acos": few, "exp": rng.uniform(-700, 700, 200), "log": np.abs(wide)}.get(
        name, np.append(wide, turns)
    )
    for row in zip(x.tolist(), wide[::-1].tolist()) if name == "atan2" else [(each,) for each in x.tolist()]:
        with mpmath.workprec(1300):
            exact = getattr(mpmath, name)(*map(mpmath.mpf, row))
            found = getattr(numbers, name)(*row)
            assert abs(found - exact) <= 0.57 * math.ulp(found), row


def test_functions_at_the_edges() -> None:
    edges = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 5e-324, 1e308)
    for y in edges:
        for x in edges:
            a = numbers.atan2(y, x)
            b = math.atan2(y, x)
            assert a == b and math.copysign(1.0, a) == math.copysign(1.0, b), (y, x)
    assert math.copysign(1.0, numbers.sin(-0.0)) == -1.0 and numbers.cos(0.0) == 1.0
    assert all(
        map(math.isnan, (numbers.sin(math.inf), numbers.log(-1.0), numbers.asin(1.1), numbers.acos(math.nan)))
    )
    assert (numbers.exp(1e9), numbers.exp(-1e9), numbers.exp(709.9), numbers.log(0.0)) == (
        math.inf,
        0.0,
        math.inf,
        -math.inf,
    )
    assert (
        numbers.acos(1.0) == 0.0
        and numbers.acos(-1.0) == math.pi
        and numbers.log(1.0) == 0.0
        and numbers.exp(0.0) == 1.0
    )


def test_constants_within_a_trace_are_not_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    from linkwork.compiler.ir.trace import trace

    angles = np.array([0.3, 1.1, 2.7])
    expected = [numbers.sin(x) for x in angles]
    monkeypatch.setattr(np, "sin", lambda x: x * math.nan)
    program = trace(lambda q: q + lw.sin(angles) + lw.sin(0.3), {"q": 3})
    constants = {i.attr for i in program.code if i.op == "const"}
    assert set(expected) <= constants


def test_products_of_small_matrices_have_the_bits_of_ordered_sums() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = rng.normal(size=(2, 3, 3)) * 10.0 ** rng.integers(-8, 8, (2, 3, 3))
        a[rng.random((3, 3)) < 0.3] = 0.0
        b[rng.random((3, 3)) < 0.3] = -0.0
        for factor in (b, b[0], b.T, b[:, 1]):
            expected = (a.astype(object) @ factor.astype(object)).astype(float)
            assert product(a, factor).tobytes() == np.ascontiguousarray(expected).tobytes()
            assert (
                product(a.T, factor).tobytes()
                == (a.T.astype(object) @ factor.astype(object)).astype(float).tobytes()
            )


def test_products_and_copies() -> None:
    a = np.array([1.0, 1e-16, 1e-16])
    b = np.ones(3)
    assert (
        product(a, b) == 1.0 and product(a[::-1].copy(), b) == 1.0 + 2.2e-16
    )  # in this order, term after term
    assert product(np.zeros((2, 0)), np.zeros((0, 3))).tolist() == [[0.0] * 3] * 2
    assert length(np.array([3.0, 4.0])) == 5.0
    mine = np.array([[1.0, -0.0]])
    kept = frozen(mine)
    mine[0, 0] = 7.0
    assert kept.tolist() == [[1.0, 0.0]] and math.copysign(1.0, kept[0, 1]) == 1.0 and frozen(kept) is kept
    with pytest.raises(ValueError, match="WRITEABLE"):
        kept.flags.writeable = True
