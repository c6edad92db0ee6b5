"""docs/extending.md is true: its target gives the interpreter's bits, its algorithm and its node kind what
others give.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
import pseudo_target
from elastic_link import ElasticArm, Link
from frame_compliance import compliance, frame_compliance
from linkwork.algorithms.tree.energy import kinetic_energy
from linkwork.algorithms.tree.forward_dynamics import articulated_body, by_mass_matrix
from linkwork.algorithms.tree.hybrid_dynamics import hybrid_dynamics
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.kinematics import frame_jacobian, frame_velocity
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.algorithms.tree.mass_matrix_inverse import by_sweeps
from linkwork.compiler.ir.functions import exponent, pow2
from linkwork.compiler.ir.operations import CORE
from linkwork.mechanism import Frame
from pseudo_target.emit import EXPRESSIONS, emit

ROOT = Path(__file__).resolve().parents[2]


def arithmetic(x: Any, y: Any) -> Any:
    """Every operation of the core."""
    near = [(a < b) & ~(a <= -b) | (a == b) for a, b in zip(x, y)]
    chosen = [lw.where(c, a * b - 0.3, lw.absolute(a) / b) for c, a, b in zip(near, x, y)]
    return np.concatenate([
        chosen, lw.fma(x, y, -x), lw.sqrt(x), lw.minimum(x, y), lw.maximum(x, y), lw.rint(y), pow2(lw.rint(x)), exponent(y),
        x + y, x - y, 2.5 * x,
    ])  # fmt: skip


def elementary(x: Any, y: Any) -> Any:
    return {
        "turn": lw.atan2(lw.sin(x), lw.cos(y)),
        "grow": lw.exp(-lw.absolute(x)) + lw.log(lw.absolute(y)),
        "one": x[0],
    }


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
    a = np.asarray(a)
    b = np.asarray(b)
    bits = np.int64 if a.dtype == np.float64 else np.int32
    return a.dtype == b.dtype and bool(np.all((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("fn", [arithmetic, elementary, loops])
def test_the_target_gives_the_interpreters_bits(fn: Callable[..., Any], dtype: str) -> None:
    inputs = {"x": 3, "y": 3}
    kernel = lw.compile(fn, inputs=inputs, target=pseudo_target.build, dtype=dtype)
    with np.errstate(over="ignore", under="ignore"):
        x = rows(60).astype(dtype)
        y = rows(60)[::-1].astype(dtype)
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
    for path in sorted((ROOT / "tests/helpers/pseudo_target").glob("*.py")):
        assert f"{{literalinclude}} ../tests/helpers/pseudo_target/{path.name}" in page
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
    found = compliance(robot, q, frame=frame)
    wanted = jacobian_and_inverse(robot, q, frame)
    assert found.shape == (20, 6, 6) and same(found, np.swapaxes(found, -1, -2))
    assert np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max()
    on_floats = frame_compliance(lw.nodes(robot, q[0]), robot.frame(frame)).astype(
        float
    )  # the source is the reference
    assert np.abs(on_floats - wanted[0]).max() <= 1e-12 * np.abs(wanted[0]).max()


def test_the_algorithm_is_a_function_like_others(tmp_path: Path) -> None:
    arm = lw.robots.arm()
    assert compliance(arm, arm.neutral().astype("float32"), frame="tool", dtype="float32").dtype == np.float32
    assert lw.count_operations(compliance, arm, frame="tool")["total"] > 100
    assert lw.export_c(compliance, arm, tmp_path, frame="tool").header.exists()
    with pytest.raises(lw.ModelError, match="has no frame named 'tol'.*'tool'"):
        compliance(arm, arm.neutral(), frame="tol")


LINKS = [
    Link(0.8, 2.0, 0.1, 0.5, 300.0, 4.0),
    Link(0.5, 1.2, 0.05, 0.3, 150.0, 2.0),
    Link(0.3, 0.4, 0.01, 0.2, 90.0, 1.0),
]


def rigid_twin() -> lw.Model:
    """The same arm of rigid bodies: each link is a rod behind a hinge, and its end a body behind a sprung
    prismatic joint.
    """
    builder = lw.ModelBuilder("twin", gravity=(0.0, -9.81, 0.0))
    below = "world"
    for k, link in enumerate(LINKS):
        builder.add_body(
            f"rod{k}", mass=link.mass, center=(link.length / 2, 0, 0), inertia=(0, link.moment, link.moment)
        )
        builder.add_body(f"end{k}", mass=link.end_mass)
        builder.add_joint(f"hinge{k}", lw.joints.Revolute((0, 0, 1)), parent=below, child=f"rod{k}")
        spring = {"stiffness": link.stiffness, "damping": link.damping}
        slide = lw.joints.Prismatic((1, 0, 0))
        builder.add_joint(
            f"stretch{k}", slide, parent=f"rod{k}", child=f"end{k}", xyz=(link.length, 0, 0), **spring
        )
        below = f"end{k}"
    return builder.build()


def near(a: Any, b: Any) -> bool:
    a = np.asarray(a, dtype=float)
    b = np.asarray(b, dtype=float)
    return a.shape == b.shape and bool(np.abs(a - b).max() <= 1e-12 * max(1.0, np.abs(b).max()))


def test_the_node_kind_keeps_the_contract() -> None:
    """V = A* V(℘) + H* θ̇, α = A* α(℘) + H* θ̈ + a, f = M α + b; gather is scatter transposed; congruence is
    A M A*.
    """
    rng = np.random.default_rng(3)
    for k in ElasticArm(LINKS, *(0.3 * rng.normal(size=(2, 6)))).base_to_tips():
        V, alpha, F = rng.normal(size=(3, k.rows))
        dtheta, ddtheta = rng.normal(size=(2, 2))
        A, H, M = (np.array(x, dtype=float) for x in (k.A.gather(np.eye(k.rows)), k.H, k.M.dense()))
        assert near(k.A.scatter(np.eye(k.parent.rows)), A.T) and near(k.A.gather(F), A @ F)
        assert near(k.A.congruence(k.M).dense(), A @ M @ A.T)
        assert near(k.M @ V, M @ V) and near(M, M.T) and np.linalg.eigvalsh(M).min() > -1e-12
        assert near(k.velocity(V, dtheta), A.T @ V + H.T @ dtheta)
        assert near(k.accelerate(alpha, ddtheta), A.T @ alpha + H.T @ ddtheta + k.a.astype(float))
        assert near(k.force(alpha), M @ alpha + k.b.astype(float))
        assert sorted(i for block in k.blocks.values() for i in range(k.rows)[block]) == list(range(k.rows))


def test_algorithms_run_on_the_node_kind() -> None:
    twin = rigid_twin()
    rng = np.random.default_rng(4)
    q, v, a, tau = 0.3 * rng.normal(size=(4, 6))
    nodes = ElasticArm(LINKS, q, v)
    tip = Frame("tip", 2)
    assert near(inverse_dynamics(nodes, a), lw.inverse_dynamics(twin, q, v, a))
    for method in (articulated_body, by_mass_matrix):
        assert near(method(nodes, tau), lw.forward_dynamics(twin, q, v, tau))
    assert near(mass_matrix(nodes), lw.mass_matrix(twin, q)) and near(
        by_sweeps(nodes), lw.mass_matrix_inverse(twin, q)
    )
    assert near(kinetic_energy(nodes, v), lw.kinetic_energy(twin, q, v))
    prescribed = np.array([True, False, False, True, True, False])
    wanted = lw.hybrid_dynamics(twin, q, v, a, tau, prescribed=prescribed)
    for found, want in zip(hybrid_dynamics(nodes, a, tau, prescribed), wanted, strict=True):
        assert near(found, want)
    plane = [2, 3, 4]  # w about z, and v along x and y
    assert near(frame_velocity(nodes, v, tip, "body"), lw.frame_velocity(twin, q, v, frame="end2")[plane])
    assert near(frame_jacobian(nodes, tip, "body"), lw.frame_jacobian(twin, q, frame="end2")[plane])


def test_the_node_kind_is_compiled_like_any_other() -> None:
    def dynamics(q: Any, v: Any, tau: Any) -> Any:
        return articulated_body(ElasticArm(LINKS, q, v), tau)

    kernel = lw.compile(dynamics, {"q": 6, "v": 6, "tau": 6})
    q, v, tau = 0.3 * np.random.default_rng(5).normal(size=(3, 20, 6))
    assert near(kernel(q, v, tau), lw.forward_dynamics(rigid_twin(), q, v, tau))


def test_the_page_shows_joint_algorithm_and_node() -> None:
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    for name in ("polar_joint.py", "frame_compliance.py", "elastic_link.py"):
        assert f"{{literalinclude}} ../tests/helpers/{name}" in page
