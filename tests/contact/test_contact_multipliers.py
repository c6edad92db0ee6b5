"""Contacts of many coplanar points on few bodies: the method of multipliers solves what sweeps do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_contact_solver import at_point, by_pinocchio, check_laws, off_the_law

import linkwork as lw
from linkwork.algorithms.contact.carried import Carried
from linkwork.algorithms.contact.friction_laws import Coulomb, Rolling
from linkwork.algorithms.contact.laws import Block, Bounded, Interval
from linkwork.algorithms.contact.solver import Problem, solve, violation


def two_feet(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T, C and g of two tilted feet of a falling robot with eight points each: gaps close for some of them."""
    points = [np.array([x, y, -0.03]) for x in (-0.05, 0.0, 0.06, 0.12) for y in (-0.03, 0.03)]
    T = np.zeros((48, 12))
    g = np.zeros(48)
    legs = rng.normal(size=(12, 8))
    C = np.diag(np.tile([300.0, 200.0, 200.0, 1.0, 1.0, 1.0], 2)) + 0.2 * legs @ legs.T
    for foot in range(2):
        pitch, roll = rng.uniform(-0.003, 0.003, size=2)
        V = rng.normal(size=6) * np.array([0.2, 0.2, 0.2, 0.06, 0.06, 0.06]) - 0.3 * np.eye(6)[5]
        heights = np.array([-pitch * p[0] + roll * p[1] for p in points])
        for k, p in enumerate(points):
            rows = slice(24 * foot + 3 * k, 24 * foot + 3 * k + 3)
            T[rows, 6 * foot : 6 * foot + 6] = at_point(p + heights[k] * np.eye(3)[2])
            g[rows] = (
                T[rows, 6 * foot : 6 * foot + 6] @ V + (heights[k] - heights.min()) / 2e-3 * np.eye(3)[0]
            )
    return T, C, g


def problem_of(
    T: np.ndarray, C: np.ndarray, g: np.ndarray, blocks: list[Block], soft: Any = 0.0, size: int = 3
) -> Problem:
    groups = [list(range(i, i + size)) for i in range(0, len(g), size)]
    carried = Carried(T.astype(object), C.astype(object), np.full(len(g), soft, dtype=object), groups)
    return Problem(carried.delassus_blocks(), g.astype(object), blocks, carried)


@pytest.mark.parametrize("seed", [1, 4])
def test_feet_that_land_on_an_edge(seed: int) -> None:
    T, C, g = two_feet(np.random.default_rng(seed))
    found = solve(problem_of(T, C, g, [Coulomb(3 * k, 0.8) for k in range(16)]), np.zeros(48), 200, 1e-8)
    assert found.converged == 1.0
    assert found.iterations < 150
    check_laws(T @ C @ T.T, g, 0.8, found.impulses.astype(float), 1e-6)


@pytest.mark.slow
def test_soles_of_pinocchio_and_ours_both_satisfy_the_laws() -> None:
    """Eight points on each of two soles share the load in many ways: both solutions are exact, and from
    theirs ours stays.
    """
    T, C, g = two_feet(np.random.default_rng(1))
    G = T @ C @ T.T
    blocks = [Coulomb(3 * k, 0.8) for k in range(16)]
    theirs = by_pinocchio(G, g, 0.8)
    for start in (np.zeros(48), theirs):
        found = solve(problem_of(T, C, g, blocks), start, 200, 1e-9)
        assert found.converged == 1.0
        assert off_the_law(G, g, 0.8, found.impulses.astype(float)) < 1e-8
    assert off_the_law(G, g, 0.8, theirs) < 1e-8
    np.testing.assert_allclose(T.T @ found.impulses.astype(float), T.T @ theirs, atol=1e-6)


@pytest.mark.parametrize("law", ["coulomb", "interval", "limits", "torsion", "rolling"])
def test_slopes_of_impulses_near_a_law(law: str) -> None:
    """Against differences, on all branches."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 3))
    cases: dict[str, Block] = {
        "coulomb": Coulomb(0, 0.7),
        "interval": Interval(0, normal=0),
        "limits": Interval(0, -0.5, 0.5),
        "torsion": Bounded(0, 0.4, normal=2),
        "rolling": Rolling(0, 0.5, normal=2),
    }
    block = cases[law]
    block.prepare((A @ A.T + np.eye(3)).astype(object), 1e-8)
    size = len(block.rows)
    soft = np.array([0.1, 0.0, 0.0])[:size] if law in ("coulomb", "interval") else np.zeros(size)
    for _ in range(20):
        w, own = rng.normal(size=(2, size))
        found = block.proximal(w, own, 3.0, soft, 0.6)
        for k in range(size):
            step = 1e-6 * np.eye(size)[k]
            ends = [block.proximal(w + s * step, own, 3.0, soft, 0.6).impulses for s in (1.0, -1.0)]
            assert np.allclose(
                -((ends[0] - ends[1]) / 2e-6).astype(float), found.slope[:, k].astype(float), atol=1e-6
            )
        ends = [block.proximal(w, own, 3.0, soft, 0.6 + s * 1e-6).impulses for s in (1.0, -1.0)]
        assert np.allclose(
            ((ends[0] - ends[1]) / 2e-6).astype(float), np.asarray(found.column, dtype=float), atol=1e-6
        )


def test_torsion_rolling_and_compliance_take_part() -> None:
    T, C, g = two_feet(np.random.default_rng(3))
    wide = np.zeros((48, 12))
    large = np.zeros(48)
    blocks: list[Block] = []
    for k in range(8):  # every other point, with moments about all axes
        foot = 6 * (k // 4)
        wide[6 * k : 6 * k + 3], large[6 * k : 6 * k + 3] = T[6 * k : 6 * k + 3], g[6 * k : 6 * k + 3]
        wide[6 * k + 3 : 6 * k + 6, foot : foot + 3] = np.eye(3)[[2, 0, 1]]
        blocks += [Coulomb(6 * k, 0.8), Bounded(6 * k + 3, 0.01, 6 * k), Rolling(6 * k + 4, 0.005, 6 * k)]
    soft = np.tile([1e-3, 0.0, 0.0, 0.0, 0.0, 0.0], 8)
    problem = problem_of(wide, C, large, blocks, size=6)
    problem = problem._replace(carried=problem.carried._replace(soft=soft))  # type: ignore[union-attr]
    problem = problem._replace(G=problem.carried.delassus_blocks())  # type: ignore[union-attr]
    found = solve(problem, np.zeros(48), 200, 1e-8)
    assert found.converged == 1.0
    assert violation(problem, found.impulses) < 1e-7


def test_limits_and_dry_friction_of_joints_take_part() -> None:
    """Rows of joints that move with the feet, some at their limits: all laws hold, which sweeps over joints
    did not reach.
    """
    for seed in (0, 3):
        rng = np.random.default_rng(seed)
        T, C, g = two_feet(rng)
        more = 8
        legs = (
            rng.normal(size=(12 + more, 6))
            * np.array([*[3.0] * 3, *[0.3] * 3, *[3.0] * 3, *[0.3] * 3, *[2.0] * more])[:, None]
        )
        wide = np.zeros((48 + more, 12 + more))
        large = np.concatenate([g, rng.normal(size=more)])
        wide[:48, :12], wide[48:, 12:] = T, np.eye(more)
        response = np.diag([*np.diag(C)[:12], *[2.0] * more]) + legs @ legs.T
        blocks: list[Block] = [Coulomb(3 * k, 0.8) for k in range(16)]
        blocks += [Interval(48 + k, -0.3, 0.3) if k % 2 else Bounded(48 + k, 0.05) for k in range(more)]
        groups = [list(range(i, i + 3)) for i in range(0, 48, 3)]
        carried = Carried(
            wide.astype(object), response.astype(object), np.zeros(48 + more, dtype=object), groups
        )
        problem = Problem(carried.delassus_blocks(), large.astype(object), blocks, carried)
        found = solve(problem, np.zeros(48 + more), 200, 1e-9)
        assert found.converged == 1.0
        lam = found.impulses.astype(float)
        w = wide @ response @ wide.T @ lam + large
        check_laws(np.zeros((48, 48)), w[:48], 0.8, lam[:48], 1e-7)
        for k in range(more):
            if k % 2:
                assert abs(w[48 + k]) <= 0.3 + 1e-8
                assert abs(lam[48 + k]) < 1e-9 or abs(w[48 + k] + 0.3 * np.sign(lam[48 + k])) < 1e-8
            else:
                assert abs(lam[48 + k]) <= 0.05 + 1e-12 and (
                    abs(w[48 + k]) < 1e-8 or lam[48 + k] * w[48 + k] < 0.0
                )


def test_axes_of_contact_change_no_velocity() -> None:
    T, C, _ = two_feet(np.random.default_rng(0))
    axes = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turned = np.kron(np.eye(4), axes)  # motions of both feet in other axes
    groups = [list(range(i, i + 3)) for i in range(0, 48, 3)]
    carried = Carried(
        (T @ turned.T).astype(object), (turned @ C @ turned.T).astype(object), np.zeros(48), groups
    )
    same = carried.in_axes_of_contact()
    np.testing.assert_allclose((same.T @ same.C @ same.T.T).astype(float), T @ C @ T.T, atol=1e-9)
    assert all(np.count_nonzero(row) <= 3 for row in same.T)


def test_single_precision_ends_with_what_it_can_resolve() -> None:
    """All rows end, and nearly all within what rounding of single precision allows."""

    def impulses(T: np.ndarray, C: np.ndarray, g: np.ndarray, start: np.ndarray) -> np.ndarray:
        groups = [list(range(i, i + 3)) for i in range(0, 48, 3)]
        carried = Carried(T, C, np.zeros(48), groups)
        found = solve(
            Problem(carried.delassus_blocks(), g, [Coulomb(3 * k, 0.8) for k in range(16)], carried),
            start,
            60,
            1e-9,
        )
        return np.array([*found.impulses, found.residual], dtype=object)

    kernel = lw.compile(impulses, {"T": (48, 12), "C": (12, 12), "g": (48,), "start": (48,)}, dtype="float32")
    given = [two_feet(np.random.default_rng(seed)) for seed in range(12)]
    T, C, g = (np.array([x[k] for x in given], dtype=np.float32) for k in range(3))
    found = kernel(T, C, g, np.zeros((12, 48), dtype=np.float32))
    assert np.isfinite(found).all()
    assert np.quantile(found[:, -1], 0.75) < 1e-4 and found[:, -1].max() < 0.1


def on_two_soles() -> lw.Model:
    """A hull on two legs with eight balls under each foot."""
    b = lw.ModelBuilder("on two soles")
    b.add_body("hull", mass=20.0, inertia=(0.5, 0.5, 0.3))
    b.add_joint("float", lw.joints.Free(), parent="world", child="hull")
    for side, y in (("left", 0.1), ("right", -0.1)):
        b.add_body(f"{side} leg", mass=3.0, center=(0.0, 0.0, -0.2), inertia=(0.05, 0.05, 0.01))
        b.add_joint(
            f"{side} hip",
            lw.joints.Revolute((0, 1, 0)),
            parent="hull",
            child=f"{side} leg",
            xyz=(0.0, y, -0.2),
        )
        b.add_body(f"{side} foot", mass=1.0, center=(0.03, 0.0, -0.02), inertia=(0.002, 0.004, 0.004))
        ankle = lw.joints.Revolute((0, 1, 0))
        b.add_joint(f"{side} ankle", ankle, parent=f"{side} leg", child=f"{side} foot", xyz=(0.0, 0.0, -0.4))
        for k in range(8):
            xyz = ((-0.05, 0.0, 0.06, 0.12)[k // 2], 0.03 * (-1) ** k, -0.03)
            b.add_geometry(f"{side} {k}", "sphere", 0.005, link=f"{side} foot", xyz=xyz)
    return b.build()


def test_soles_that_rest_take_few_iterations_in_single_precision() -> None:
    """On GPUs the slowest of many rows decides how long a step takes: rounding must not make rows iterate
    that rest.
    """
    model = on_two_soles()
    rows = 64
    q = np.tile(np.array(model.neutral(), dtype=float), (rows, 1))
    q[:, 2] = 0.635
    v = 0.05 * np.random.default_rng(4).standard_normal((rows, model.nv))
    held = lw.PD(np.array([0.0] * 6 + [200.0] * 4), np.array([0.0] * 6 + [5.0] * 4), q[0])
    contacts = lw.Contacts(tolerance=1e-4, friction=0.8, pairs="none")
    how: dict[str, Any] = {"dt": 2e-3, "contacts": contacts, "dtype": "float32"}
    found = lw.rollout(model, q, v, held, steps=200, record_every=200, **how)
    counts = []
    for _ in range(20):
        found = lw.rollout(
            model, found.q[:, -1], found.v[:, -1], held, steps=1, warm_start=found.impulses, **how
        )
        assert not found.status.any()
        counts.append(found.iterations)
    assert np.mean(counts) < 2.0 and np.max(counts) < 12


SLAPS = [  # quaternion, velocity, friction of both ends, mass
    ((0.472, 0.517, 0.666, -0.257), (5.327, -9.103, 0.941, -0.948, -0.485, 0.633), (0.897, 0.838), 1.274),
    ((-0.501, -0.491, 0.01, -0.713), (9.033, 7.943, -0.425, 0.828, -0.889, 0.836), (1.1, 1.3), 1.0),
]


@pytest.mark.parametrize(("turn", "v", "friction", "mass"), SLAPS)
def test_the_second_end_of_a_capsule_slaps_on_the_ground_while_the_first_sticks(
    turn: tuple[float, ...], v: tuple[float, ...], friction: tuple[float, ...], mass: float
) -> None:
    """Both ends cannot stick: impulses between them, by which nothing moves, grow until one slips a little."""
    b = lw.ModelBuilder("capsule")
    b.add_body("body", mass=mass, inertia=np.diag([0.004, 0.005, 0.006]))
    b.add_joint("float", lw.joints.Free(), parent="world", child="body")
    b.add_geometry("shape", "capsule", (0.05, 0.2), link="body")
    model = b.build()
    contacts = lw.Contacts(restitution=1e-9)
    q = np.array([0.0, 0.0, 0.0, *(np.array(turn) / np.linalg.norm(turn))])
    q[2] -= lw.contact_points(model, q, contacts=contacts)[0].min() - 6.3e-7
    own = {"contact_friction": np.array(friction)}
    *_, residual, iterations, converged = lw.step(
        model, q, np.array(v), np.zeros(6), 2e-3, contacts=contacts, details=True, parameters=own
    )
    assert converged == 1.0 and residual <= 1.1e-9 and iterations < 100
