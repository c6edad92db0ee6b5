"""Laws that every joint keeps, on numbers and through programs. A new joint is tested by adding it to JOINTS."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwork as lw
from linkwork.joints import (
    Cylindrical,
    Fixed,
    Free,
    Gimbal,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from linkwork.model import WORLD
from linkwork.spatial import axial, rotation
from polar_joint import Polar

JOINTS: list[Joint] = [
    Fixed(), Revolute(), Revolute((1, 0, 0)), Revolute((0, -2, 0)), Revolute((0.3, -0.5, 0.8)), Prismatic((0, 1, 0)),
    Prismatic((1, 2, 3)), Helical(0.2), Helical(-0.1, (1, 1, 0)), Cylindrical(), Cylindrical((0, 0.6, 0.8)), Universal(),
    Gimbal(), Planar(), Spherical(), Free(), Polar(), Revolute((0, -1, -4.4e-8)), Cylindrical((1, 0, 1e-6)),
]  # fmt: skip
every = pytest.mark.parametrize("joint", JOINTS, ids=[f"{type(j).__name__}{k}" for k, j in enumerate(JOINTS)])
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
common = settings(deadline=None, derandomize=True, max_examples=15)


def matrix(joint: Joint, q: np.ndarray) -> np.ndarray:
    T = joint.transform(q)
    return np.block([[T.R, np.reshape(T.p, (3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])


def numbers(x) -> np.ndarray:
    return np.asarray(x, dtype=float)


def close(a, b, tolerance: float = 1e-11) -> bool:
    return bool(np.all(np.abs(numbers(a) - numbers(b)) <= tolerance))


@every
@common
@given(seeds)
def test_the_subspace_is_the_derivative_of_the_pose(joint: Joint, rng: np.random.Generator) -> None:
    """T⁻¹ Ṫ = [S v] where q̇ = rate(q, v); derivatives by the tracer."""
    q = joint.random(rng)
    v = rng.normal(size=joint.nv)
    T, dT = (
        lw.jvp_of(lambda x: matrix(joint, x), q, joint.rate(q, v))
        if joint.nq
        else (matrix(joint, q), np.zeros((4, 4)))
    )
    V = np.linalg.solve(numbers(T), numbers(dT))
    assert close(V[:3, :3], -V[:3, :3].T) and close([*axial(V), *V[:3, 3]], joint.subspace(q) @ v)
    assert joint.subspace(q).shape == (6, joint.nv)


@every
@common
@given(seeds)
def test_quick_floats_are_the_same(joint: Joint, rng: np.random.Generator) -> None:
    q = joint.random(rng)
    v = rng.normal(size=joint.nv)
    R, p, S = joint.numeric_motion(q)
    assert close(np.block([[R, p.reshape(3, 1)]]), matrix(joint, q)[:3]) and close(S, joint.subspace(q))
    for step in (v, 1e-4 * v, 0.0 * v):
        assert close(joint.numeric_integrate(q, step), joint.integrate(q, step))


@every
@common
@given(seeds)
def test_the_bias_is_the_derivative_of_the_subspace(joint: Joint, rng: np.random.Generator) -> None:
    q = joint.random(rng)
    v = rng.normal(size=joint.nv)
    moves = (joint.nq and np.asarray(joint.subspace(q)).dtype == object) or joint.nv > 1
    rate = lw.jvp_of(lambda x: joint.subspace(x) @ v, q, joint.rate(q, v))[1] if moves else np.zeros(6)
    assert close(joint.bias(q, v), rate)


@every
@common
@given(seeds, st.sampled_from([1e-9, 1e-3, 0.03, 0.7, 2.5]))
def test_integrate_and_difference(joint: Joint, rng: np.random.Generator, size: float) -> None:
    q = joint.random(rng)
    v = rng.normal(size=joint.nv)
    v = size * v / max(1.0, float(np.linalg.norm(v)))
    there = joint.integrate(q, v)
    assert close(joint.difference(q, there), v, 1e-10)  # below half a turn, that is the way
    other = joint.random(rng)
    assert close(matrix(joint, joint.integrate(q, joint.difference(q, other))), matrix(joint, other), 1e-10)
    # constant v for one unit of time is the same as ten steps of a tenth
    steps = q
    for _ in range(10):
        steps = joint.integrate(steps, v / 10)
    assert close(matrix(joint, steps), matrix(joint, there), 1e-10)
    h = 1e-6
    change = (numbers(matrix(joint, joint.integrate(q, h * v))) - numbers(matrix(joint, q))) / h
    V = np.linalg.solve(numbers(matrix(joint, q)), change)
    assert close([*axial(V), *V[:3, 3]], joint.subspace(q) @ v, 2e-5)


@every
@common
@given(seeds)
def test_lines_that_do_not_bend_with_the_axes_of_the_child(joint: Joint, rng: np.random.Generator) -> None:
    """Velocity ξ, constant in fixed axes, leads along s -> integrate(q, chord_to_velocity(s ξ)), whose velocity is
    in_moved_axes(s ξ, ξ). It changes as `rotating_axes_term` says, and `chord` finds ξ again.
    """
    if joint.nq == 0:
        return
    q = joint.random(rng)
    xi = rng.normal(size=joint.nv)
    xi *= 2.0 / max(1.0, float(np.linalg.norm(xi)))
    s = rng.uniform(0.1, 1.0)

    def along(s: np.ndarray) -> np.ndarray:
        return np.asarray(joint.integrate(q, joint.chord_to_velocity(s[0] * xi)))

    there, rate = lw.jvp_of(along, np.array([s]), np.ones(1))
    v = joint.in_moved_axes(s * xi, xi)
    assert close(rate, joint.rate(numbers(there), numbers(v)), 1e-10)
    assert close(joint.chord(q, numbers(there)), s * xi, 1e-10)
    assert close(
        joint.chord_to_velocity(joint.chord(q, numbers(there))), joint.difference(q, numbers(there)), 1e-10
    )
    bent = joint.rotating_axes_term(v)
    change = lw.jvp_of(lambda s: joint.in_moved_axes(s[0] * xi, xi), np.array([s]), np.ones(1))[1]
    assert close(numbers(change) + (0.0 if bent is None else numbers(bent)), np.zeros(joint.nv), 1e-10)


@every
def test_units_of_velocities(joint: Joint) -> None:
    """Scaled by them, motions of the child are of size one where lengths are counted in `length`."""
    length = 0.37
    S = numbers(joint.subspace(joint.neutral())) * joint.units(length)
    S[3:] /= length
    assert close(np.linalg.norm(S, axis=0), np.ones(joint.nv), 1e-14)


@pytest.mark.parametrize("off", [1e-6, 4.4e-8])
@pytest.mark.parametrize("kind", [Revolute, Prismatic, partial(Helical, 0.1), Cylindrical, Planar])
def test_an_axis_close_to_a_coordinate_axis_stays_where_it_is(kind: Callable[..., Joint], off: float) -> None:
    """Files written in single precision have such axes: the component along the coordinate axis rounds to
    one.
    """
    straight, place = kind(axis=(off, 0.0, 1.0)).axis_aligned()
    S = straight.subspace(np.zeros(straight.nq))
    along = S[3:, 0] if kind is Prismatic else S[:3, -1 if kind is Planar else 0]
    assert np.count_nonzero(along) == 1
    assert close(place.R @ along, np.array([off, 0.0, 1.0]) / np.hypot(off, 1.0), 1e-15)


@every
def test_neutral_and_random(joint: Joint) -> None:
    assert close(matrix(joint, joint.neutral()), np.eye(4))
    assert joint.neutral().shape == joint.random(np.random.default_rng(0)).shape == (joint.nq,)
    assert pickle.loads(pickle.dumps(joint)) == joint and hash(joint) == hash(
        pickle.loads(pickle.dumps(joint))
    )


@every
def test_programs_give_the_same(joint: Joint) -> None:
    if not joint.nq:
        return

    def f(q, v, other):
        return {
            "pose": matrix(joint, q), "S": joint.subspace(q) @ v, "bias": joint.bias(q, v), "there": joint.integrate(q, v),
            "v_": joint.difference(q, other),
        }  # fmt: skip

    program = lw.lower(lw.trace(f, {"q": joint.nq, "v": joint.nv, "other": joint.nq}))
    rng = np.random.default_rng(1)
    for _ in range(5):
        q, v, other = joint.random(rng), rng.normal(size=joint.nv), joint.random(rng)
        for got, want in zip(lw.interpret(program, q, v, other), f(q, v, other).values()):
            assert close(got, want, 1e-12)


def test_quaternions_of_any_length() -> None:
    rng = np.random.default_rng(2)
    for joint in (Spherical(), Free()):
        q = joint.random(rng)
        longer = q.copy()
        longer[-4:] *= 3.0
        assert close(matrix(joint, longer), matrix(joint, q))
        assert close(np.linalg.norm(numbers(joint.integrate(longer, np.ones(joint.nv)))[-4:]), 1.0)
        with np.errstate(all="ignore"):
            assert np.isnan(numbers(matrix(joint, np.zeros(joint.nq)))[0, 0])


def ball_on_base() -> lw.Model:
    """A free body that carries another on a ball joint: q[3:] is two quaternions."""
    b = lw.ModelBuilder("ball")
    figures = {"mass": 1.0, "inertia": (0.1, 0.2, 0.25)}
    b.add_body("base", **figures).add_joint("base", Free(), parent=WORLD, child="base")
    b.add_body("arm", **figures).add_joint(
        "ball", Spherical(), parent="base", child="arm", xyz=(0.1, 0.2, 0.3)
    )
    return b.build()


def all_that_reads_quaternions(model: lw.Model, q: np.ndarray, dtype: str) -> list[np.ndarray]:
    """What states (rows, 11) give, row by row: poses, dynamics, and steps from and to them."""
    rng = np.random.default_rng(6)
    other, v, tau = (x.astype(dtype) for x in (*model.random_state(rng), rng.normal(size=model.nv)))
    results = [
        lw.frame_pose(model, q, frame="base", dtype=dtype), lw.frame_pose(model, q, frame="arm", dtype=dtype),
        lw.forward_dynamics(model, q, v, tau, dtype=dtype), lw.integrate(model, q, v, dtype=dtype),
        lw.integrate(model, q, 0.0 * v, dtype=dtype),
        lw.difference(model, q, other, dtype=dtype), lw.difference(model, other, q, dtype=dtype),
        lw.difference(model, q, q, dtype=dtype),
    ]  # fmt: skip
    return [r.reshape(len(q), -1) for r in results]


@pytest.mark.parametrize("dtype, lowest, highest", [("float64", -1072, 1023), ("float32", -147, 127)])
def test_quaternions_of_every_length_give_the_same_bits(dtype: str, lowest: int, highest: int) -> None:
    """A power of two times a quaternion is the same rotation, from the smallest subnormals to the largest
    numbers.
    """
    model = ball_on_base()
    powers = np.arange(lowest, highest + 1)
    parts = np.array(
        [1.0, -1.5, 1.25, -1.75, -1.0, 1.5, 1.25, 0.5], dtype
    )  # so few digits are whole in subnormals too
    q = np.full((len(powers), model.nq), 0.3, dtype)
    q[:, 3:] = np.ldexp(parts, powers[:, None])
    plain = q[:1].copy()
    plain[:, 3:] = parts
    for got, wanted in zip(
        all_that_reads_quaternions(model, q, dtype), all_that_reads_quaternions(model, plain, dtype)
    ):
        assert np.isfinite(wanted).all()
        np.testing.assert_array_equal(got, np.broadcast_to(wanted, got.shape))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_quaternions_that_are_no_rotation_make_nan_in_their_row_alone(dtype: str) -> None:
    model = ball_on_base()
    q = np.full((12, model.nq), 0.3, dtype)
    q[::2, 3:7] = 0.0  # nothing but zeros, infinities and NaN in each place
    for k, x in enumerate((np.inf, -np.inf, np.nan, np.inf, np.inf), start=1):
        q[2 * k, 3 + (k - 1) % 4] = x
    q[8, 3:7] = 1.0, 2.0, 3.0, np.inf
    whole = q.copy()
    whole[::2, 3:7] = 0.3
    results, wanted = (all_that_reads_quaternions(model, x, dtype) for x in (q, whole))
    for got, want in zip(results, wanted):
        np.testing.assert_array_equal(got[1::2], want[1::2])
    base, arm, dynamics, step, stay, *ways = (r[::2] for r in results)
    for pose in (base, arm):
        assert np.isnan(pose.reshape(-1, 4, 4)[:, :3, :3]).all()
    assert np.isnan(dynamics).any(axis=1).all()
    for moved in (step, stay):
        assert np.isnan(moved[:, 3:7]).all()
    for way in ways:
        assert np.isnan(way[:, :3]).all()


def test_rotation_vectors() -> None:
    rng = np.random.default_rng(3)
    for size in (0.0, 1e-12, 1e-5, 0.019, 0.021, 0.5, 1.0, 3.1):
        r = rng.normal(size=3)
        r *= size / np.linalg.norm(r)
        assert close(rotation.log(rotation.exp(r)), r, 1e-14)
        v = rng.normal(size=3)
        assert close(rotation.screw_inverse(r, rotation.screw(r, v)), v, 1e-13)
    assert close(rotation.log(-rotation.exp(np.array([0.0, 0.4, 0.0]))), [0.0, 0.4, 0.0], 1e-15)


@pytest.mark.parametrize("axis", [(0, 0, 0), (1, 0), (np.nan, 0, 1), (np.inf, 0, 0)])
def test_axes_that_are_none(axis) -> None:
    with pytest.raises(ValueError, match="axis"):
        Revolute(axis)
