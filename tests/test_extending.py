"""docs/extending.md is true: its target gives the interpreter's bits, and its algorithm what others give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
import pseudo_target
from frame_compliance import compliance, frame_compliance
from linkwork.ir.functions import exponent, pow2
from linkwork.ir.operations import CORE
from pseudo_target.emit import EXPRESSIONS, emit

ROOT = Path(__file__).resolve().parents[1]


def arithmetic(x: Any, y: Any) -> Any:
    """Every operation of the core."""
    near = [(a < b) & ~(a <= -b) | (a == b) for a, b in zip(x, y)]
    chosen = [lw.where(c, a * b - 0.3, lw.absolute(a) / b) for c, a, b in zip(near, x, y)]
    return np.concatenate([
        chosen, lw.fma(x, y, -x), lw.sqrt(x), lw.minimum(x, y), lw.maximum(x, y), lw.rint(y), pow2(lw.rint(x)), exponent(y),
        x + y, x - y, 2.5 * x,
    ])  # fmt: skip


def elementary(x: Any, y: Any) -> Any:
    return {"turn": lw.atan2(lw.sin(x), lw.cos(y)), "grow": lw.exp(-lw.absolute(x)) + lw.log(lw.absolute(y)), "one": x[0]}


def loops(x: Any, y: Any) -> Any:
    """A loop in a loop; every row takes its own number of turns."""

    def outer(s: Any) -> Any:
        root = lw.loop(lambda r: (0.5 * (r + s[0] / r), lw.absolute(r * r - s[0]) > 1e-12), s[0], limit=40)
        return np.array([root, s[1] + 1.0]), root > 1.5 + y[0]

    return lw.loop(outer, np.array([lw.absolute(x[0]) + 2.0, 0.0 * x[0]]), limit=9)


def rows(count: int) -> np.ndarray:
    x = np.random.default_rng(count).normal(scale=2.0, size=(count, 3))
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -5e-324, 0.5]
    x.ravel()[: len(special)] = special[: x.size]
    return x


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    bits = np.int64 if a.dtype == np.float64 else np.int32
    return a.dtype == b.dtype and bool(np.all((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("fn", [arithmetic, elementary, loops])
def test_the_target_gives_the_interpreters_bits(fn: Callable[..., Any], dtype: str) -> None:
    inputs = {"x": 3, "y": 3}
    kernel = lw.compile(fn, inputs=inputs, target=pseudo_target.build, dtype=dtype)
    with np.errstate(over="ignore", under="ignore"):
        x, y = rows(60).astype(dtype), rows(60)[::-1].astype(dtype)
    wanted = lw.interpret(lw.lower(lw.trace(fn, inputs), dtype), x, y)
    for got, want in zip(kernel(x, y), wanted, strict=True):
        assert same(got, want)


def test_the_target_broadcasts_as_kernels_do() -> None:
    kernel = lw.compile(arithmetic, inputs={"x": 3, "y": 3}, target=pseudo_target.build)
    x = rows(8).reshape(2, 4, 3)
    assert kernel(x, x[0, 0]).shape == (2, 4, 33)
    assert same(kernel(x, x[0])[1, 2], kernel(x[1, 2], x[0, 2]))


def test_every_core_operation_is_there() -> None:
    assert EXPRESSIONS.keys() == CORE.keys()
    used = {op for op, _, _ in lw.lower(lw.trace(arithmetic, {"x": 3, "y": 3})).code}
    assert used >= CORE.keys()


def test_the_page_shows_the_folder() -> None:
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests/pseudo_target").glob("*.py")):
        assert f"{{literalinclude}} ../tests/pseudo_target/{path.name}" in page
    assert emit(lw.lower(lw.trace(lambda x: x * x + 1.0, {"x": ()}, name="square_plus_one"))) in page


def jacobian_and_inverse(robot: lw.Model, q: np.ndarray, frame: str) -> np.ndarray:
    J = lw.frame_jacobian(robot, q, frame=frame)
    return J @ lw.mass_matrix_inverse(robot, q) @ np.swapaxes(J, -1, -2)


@pytest.mark.parametrize(
    ("robot", "frame"),
    [(lw.robots.arm(), "tool"), (lw.robots.quadruped(), "front_left_foot"), (lw.robots.arm(), "pedestal")],
    ids=["arm", "quadruped", "what is fixed"],
)
def test_the_algorithm_gives_the_compliance(robot: lw.Model, frame: str) -> None:
    rng = np.random.default_rng(0)
    q = np.array([robot.random_state(rng)[0] for _ in range(20)])
    found, wanted = compliance(robot, q, frame=frame), jacobian_and_inverse(robot, q, frame)
    assert found.shape == (20, 6, 6) and same(found, np.swapaxes(found, -1, -2))
    assert np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max()
    on_floats = frame_compliance(lw.nodes(robot, q[0]), robot.frame(frame)).astype(float)  # the source is the reference
    assert np.abs(on_floats - wanted[0]).max() <= 1e-12 * np.abs(wanted[0]).max()


def test_the_algorithm_is_a_function_like_others(tmp_path: Path) -> None:
    arm = lw.robots.arm()
    assert compliance(arm, arm.neutral().astype("float32"), frame="tool", dtype="float32").dtype == np.float32
    assert lw.count_operations(compliance, arm, frame="tool")["total"] > 100
    assert lw.export_c(compliance, arm, tmp_path, frame="tool").header.exists()
    with pytest.raises(lw.ModelError, match="has no frame named 'tol'.*'tool'"):
        compliance(arm, arm.neutral(), frame="tol")


def test_the_page_shows_joint_and_algorithm() -> None:
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    for name in ("polar_joint.py", "frame_compliance.py"):
        assert f"{{literalinclude}} ../tests/{name}" in page
