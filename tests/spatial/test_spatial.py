"""Laws of spatial algebra, on numbers, and that symbols give the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwork as lw
from linkwork.spatial import Inertia, Pose, ad, ad_star, axial, cross, physical_problems, skew

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
common = settings(deadline=None, derandomize=True, max_examples=60)


def quaternion(rng: np.random.Generator) -> np.ndarray:
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def pose(rng: np.random.Generator) -> Pose:
    T = Pose.from_quaternion(quaternion(rng))
    return Pose(T.R, rng.normal(size=3))


def rigid(rng: np.random.Generator) -> Inertia:
    points = rng.normal(size=(6, 3))
    masses = rng.uniform(0.1, 1.0, 6)
    mass = masses.sum()
    centre = masses @ points / masses.sum()
    moment = sum(m * skew(r - centre).T @ skew(r - centre) for m, r in zip(masses, points))
    return Inertia.rigid(mass, centre, moment)


def articulated(rng: np.random.Generator) -> Inertia:
    M = rng.normal(size=(6, 6))
    M = M @ M.T + np.eye(6)
    return Inertia(M[:3, :3], M[:3, 3:], M[3:, 3:])


def close(a, b, tolerance: float = 1e-12) -> bool:
    a = np.asarray(a, dtype=float)
    b = np.asarray(b, dtype=float)
    return np.abs(a - b).max() <= tolerance * (1 + np.abs(b).max())


@common
@given(seeds)
def test_cross_products(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(2, 3))
    assert (
        close(cross(a, b), np.cross(a, b)) and close(skew(a) @ b, np.cross(a, b)) and close(axial(skew(a)), a)
    )


@common
@given(seeds)
def test_adjoint_actions(rng: np.random.Generator) -> None:
    U, V, X, F = rng.normal(size=(4, 6))
    assert close(ad(V, V), np.zeros(6))
    assert close(ad(U, ad(V, X)) - ad(V, ad(U, X)), ad(ad(U, V), X))  # Jacobi
    assert close(ad_star(V, F) @ X, F @ ad(V, X))  # dual
    T = pose(rng)
    assert close(T.Ad() @ ad(V, X), ad(T.Ad() @ V, T.Ad() @ X))  # natural


@common
@given(seeds)
def test_poses_are_a_group(rng: np.random.Generator) -> None:
    S = pose(rng)
    T = pose(rng)
    x = rng.normal(size=3)
    assert close(S.then(T).point(x), S.point(T.point(x)))
    assert close(T.then(T.inverse()).point(x), x)
    assert close(S.then(T).Ad(), S.Ad() @ T.Ad())
    assert close(T.R @ T.R.T, np.eye(3)) and close(np.linalg.det(T.R), 1.0)


@common
@given(seeds)
def test_carrying_keeps_power_and_energy(rng: np.random.Generator) -> None:
    T = pose(rng)
    V = rng.normal(size=6)
    F = rng.normal(size=6)
    assert close(T.scatter(V), np.linalg.solve(T.Ad(), V))
    assert close(T.gather(F) @ V, F @ T.scatter(V))
    for inertia in (rigid(rng), articulated(rng)):
        moved = T.congruence(inertia)
        assert close(moved.dense(), moved.dense().T) and (moved.mass is None) == (inertia.mass is None)
        assert close(V @ (moved @ V), T.scatter(V) @ (inertia @ T.scatter(V)))
        assert close(moved.dense() @ V, moved @ V) and close(moved.dense()[:, 4], moved.column(4))


def before_a_joint(rng: np.random.Generator, how: str) -> np.ndarray:
    """A constant rotation: by right angles, with a turn about a coordinate axis, nearly so (as in files), or
    any.
    """
    R = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)
    if how == "right angles":
        return R
    if how == "any":
        return pose(rng).R
    R = R @ Pose.rotation_about(
        int(rng.integers(3)), float(rng.choice([np.pi / 4, 1e-9, rng.uniform(-3, 3)]))
    ).R.astype(float)
    return (
        R
        if how == "one turn"
        else R @ Pose.rotation_about(int(rng.integers(3)), 10.0 ** rng.uniform(-12, -7)).R.astype(float)
    )


@common
@given(seeds, st.integers(0, 2), st.sampled_from(["right angles", "one turn", "nearly one turn", "any"]))
def test_turns_are_rotations(rng: np.random.Generator, k: int, how: str) -> None:
    angle = rng.uniform(-4, 4)
    axis = np.eye(3)[k]
    q = np.array([*(axis * np.sin(angle / 2)), np.cos(angle / 2)])
    assert close(Pose.rotation_about(k, angle).R, Pose.from_quaternion(q).R)
    before = before_a_joint(rng, how)
    joint = Pose(before, rng.normal(size=3)).then(Pose.rotation_about(k, angle))
    plain = Pose(joint.R, joint.p)  # the same, not known as a turn
    for inertia in (rigid(rng), articulated(rng)):
        assert close(joint.congruence(inertia).dense(), plain.congruence(inertia).dense(), 1e-13)


@common
@given(seeds)
def test_force_of_points(rng: np.random.Generator) -> None:
    """I V̇ - ad*_V I V, where the origin's acceleration as seen from outside is v̇ + w × v."""
    inertia = rigid(rng)
    V = rng.normal(size=6)
    dV = rng.normal(size=6)
    W = skew(dV[:3]) + skew(V[:3]) @ skew(V[:3])
    got = inertia.point_force(dV[3:] + np.cross(V[:3], V[3:]), W)
    assert close(got, inertia @ dV - ad_star(V, inertia @ V))


@common
@given(seeds, st.integers(0, 5))
def test_a_free_coordinate_carries_nothing(rng: np.random.Generator, k: int) -> None:
    inertia = articulated(rng)
    M = inertia.dense()
    U = inertia.column(k)
    left = inertia.projected(U[:, None] / U[k], U[:, None], zero_rows=[k]).dense()
    assert close(left, M - np.outer(U, U) / U[k]) and not np.any(left[k]) and not np.any(left[:, k])


def test_symbols_give_the_same() -> None:
    rng = np.random.default_rng(0)
    body, start = articulated(rng), Pose(np.eye(3), np.array([0.1, 0.0, -0.2]))

    def f(angle, V):
        T = start.then(Pose.rotation_about(1, angle))
        return {"scattered": T.scatter(V), "gathered": T.gather(V), "moved": T.congruence(body).dense()}

    program = lw.trace(f, {"angle": (), "V": 6})
    V = rng.normal(size=6)
    for got, want in zip(lw.interpret(lw.lower(program), 0.7, V), f(0.7, V).values()):
        assert close(got, want)


def test_a_turn_costs_half_of_two_products() -> None:
    def inertia(x):
        upper = [[0, 1, 2], [1, 3, 4], [2, 4, 5]]
        return Inertia(x[:6][upper], x[6:15].reshape(3, 3), x[15:][upper])

    def turned(x, angle):
        return Pose.rotation_about(2, angle).congruence(inertia(x)).dense()

    def plain(x, angle):
        T = Pose.rotation_about(2, angle)
        return Pose(T.R, T.p).congruence(inertia(x)).dense()

    counts = [lw.count_operations(f, {"x": 21, "angle": ()})["total"] for f in (turned, plain)]
    assert counts[0] < 0.7 * counts[1]


@pytest.mark.parametrize(
    ("mass", "moment", "words"),
    [
        (-1.0, np.eye(3), "negative"),
        (1.0, np.diag([1.0, 1.0, 2.5]), "larger than the sum"),
        (1.0, np.diag([1.0, 1.0, -0.1]), "negative"),
        (1.0, np.array([[1.0, 0.1, 0], [0, 1, 0], [0, 0, 1]]), "symmetric"),
        (float("nan"), np.eye(3), "finite"),
        (0.0, np.eye(3), "mass is zero"),
    ],
)
def test_bodies_that_cannot_exist(mass: float, moment: np.ndarray, words: str) -> None:
    assert any(words in problem for problem in physical_problems(mass, moment))


@common
@given(seeds)
def test_bodies_that_can_exist(rng: np.random.Generator) -> None:
    body = rigid(rng)
    c = skew(body.h / body.mass)
    assert physical_problems(body.mass, body.A - body.mass * c @ c.T) == []
    assert physical_problems(0.0, np.zeros((3, 3))) == [] == physical_problems(1.0, np.diag([0.0, 1.0, 1.0]))
