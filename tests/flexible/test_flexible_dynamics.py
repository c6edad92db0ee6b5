"""Dynamics of flexible bodies against Lagrange's equations of their mass points, and laws of all functions."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import linkwork as lw
from flexible_bodies import cayley, cloud, flexible, lagrange, turned, vector

AXIS = (0.3, 0.5, 0.7)
AXIS2 = (0.0, 1.0, 0.2)
PLACE = (0.1, 0.0, 0.2)
LOAD = ((0.6, (0.1, 0.2, 0.3)), (0.5, (-0.2, 0.1, 0.1)), (0.4, (0.0, -0.3, 0.2)), (0.3, (0.1, 0.1, -0.2)))


def rigid(points):
    """Mass, centre and moment of inertia about it, of mass points."""
    m = np.array([m for m, _ in points])
    r = np.array([r for _, r in points])
    c = m @ r / m.sum()
    return {
        "mass": m.sum(),
        "center": c,
        "inertia": sum(m * (d @ d * np.eye(3) - np.outer(d, d)) for m, d in zip(m, r - c)),
    }


def arm(body, at):
    """A flexible bar on a hinge, and a rigid body on a hinge at one of its nodes."""
    b = lw.ModelBuilder("arm")
    b.add_body("bar", flexible=body)
    b.add_body("load", **rigid(LOAD))
    b.add_joint("shoulder", lw.joints.Revolute(AXIS), parent="world", child="bar", xyz=PLACE)
    b.add_joint(
        "elbow", lw.joints.Revolute(AXIS2), parent="bar", child="load", xyz=at, stiffness=0.5, damping=0.2
    )
    b.add_frame("tip", body="bar", xyz=at, rpy=(0.1, 0.2, 0.3))
    return b.build()


def mass_points(cloud, slopes, n):
    """The mass points of `arm`, with q = [shoulder, η, elbow]: their positions over mpmath."""

    def moved(k, eta):
        r = vector(cloud.points[k])
        for j, x in enumerate(eta):
            r += vector(cloud.shapes[k, :, j]) * x
            for i, y in enumerate(eta):
                r += vector(cloud.short[k, j, i]) * x * y / 2
        return r

    def on_bar(k):
        return lambda q: vector(PLACE) + turned(AXIS, q[0]) * moved(k, q[1:-1])

    def on_load(r):
        def position(q):
            theta = sum((vector(slopes[n, :, j]) * x for j, x in enumerate(q[1:-1])), mp.zeros(3, 1))
            there = moved(n, q[1:-1]) + cayley(theta) * turned(AXIS2, q[-1]) * vector(r)
            return vector(PLACE) + turned(AXIS, q[0]) * there

        return position

    return [(mp.mpf(float(m)), on_bar(k)) for k, m in enumerate(cloud.masses)] + [
        (mp.mpf(m), on_load(r)) for m, r in LOAD
    ]


def potential(points, body):
    def U(q):
        eta = mp.matrix(q[1:-1])
        K = mp.matrix(body.stiffness.tolist())
        weight = sum(m * mp.mpf(9.81) * position(q)[2] for m, position in points)
        return weight + (eta.T * K * eta)[0] / 2 + mp.mpf(0.5) * q[-1] ** 2 / 2

    return U


def damping(body, v):
    D = np.zeros((len(v), len(v)))
    D[1:-1, 1:-1], D[-1, -1] = body.damping, 0.2
    return D @ v


@pytest.mark.parametrize("seed", range(3))
def test_inverse_dynamics_is_lagrange_s_of_the_mass_points(seed):
    rng = np.random.default_rng(seed)
    points, slopes = cloud(rng)
    body = flexible(points, slopes, rng)
    model = arm(body, points.points[3])
    q, v, a = 0.7 * rng.normal(size=(3, model.nv))
    masses = mass_points(points, slopes, 3)
    with mp.workdps(60):
        expected = lagrange(masses, potential(masses, body), q, v, a) + damping(body, v)
    np.testing.assert_allclose(
        lw.inverse_dynamics(model, q, v, a), expected, rtol=0, atol=1e-11 * np.abs(expected).max()
    )


def test_foreshortening_is_exact_to_first_order_in_the_deformation():
    """At rest of the modes, forces agree up to the square of the deformation: those on modes stiffen with the
    rotation.
    """
    rng = np.random.default_rng(5)
    points, slopes = cloud(rng, short=0.5)
    body = flexible(points, slopes, rng)
    model = arm(body, points.points[3])
    masses = mass_points(points, slopes, 3)
    off = []
    for size in (1e-2, 1e-3):
        q, v, a = rng.normal(size=(3, model.nv))
        q[1:-1] *= size
        v[1:-1] = 0.0
        a[1:-1] = 0.0
        with mp.workdps(60):
            expected = lagrange(masses, potential(masses, body), q, v, a) + damping(body, v)
        off.append(np.abs(lw.inverse_dynamics(model, q, v, a) - expected).max() / np.abs(expected).max())
    assert off[0] < 10 * 1e-2**2 and off[1] < 10 * 1e-3**2


def states(model, rng, n=4):
    return [np.stack(x) for x in zip(*(model.random_state(rng) for _ in range(n)))]


@pytest.fixture(scope="module")
def example():
    rng = np.random.default_rng(7)
    points, slopes = cloud(rng, short=0.3)
    return arm(flexible(points, slopes, rng), points.points[3]), rng


def test_forward_dynamics_inverts_inverse_dynamics(example):
    model, rng = example
    q, v = states(model, rng)
    tau = rng.normal(size=v.shape)
    f_ext = rng.normal(size=(len(q), len(model.bodies), 6))
    for method in ("articulated_body", "mass_matrix"):
        a = lw.forward_dynamics(model, q, v, tau, f_ext, method=method)
        np.testing.assert_allclose(lw.inverse_dynamics(model, q, v, a, f_ext), tau, atol=1e-11)
    given = [True, False, True, False, False]
    a2, tau2 = lw.hybrid_dynamics(model, q, v, a, tau, f_ext, prescribed=given)
    np.testing.assert_allclose(a2, a, atol=1e-10)
    np.testing.assert_allclose(tau2, tau, atol=1e-10)
    np.testing.assert_allclose(
        lw.mass_matrix(model, q) @ lw.mass_matrix_inverse(model, q),
        np.broadcast_to(np.eye(5), (4, 5, 5)),
        atol=1e-11,
    )


def test_energy_and_momentum(example):
    """Power of gravity, springs and drives is the rate of the energy; the momentum is that of the map."""
    model, rng = example
    q, v = model.random_state(rng)
    undamped = model.with_parameters({"damping": np.zeros(model.nv)})
    kind = next(joint for joint in model.joints if joint.kind.elastic).kind
    a = lw.forward_dynamics(undamped, q, v, np.zeros(model.nv))
    h = 1e-5

    def energy(t):
        there = lw.integrate(model, q, t * v + 0.5 * t * t * a)
        return lw.kinetic_energy(model, there, v + t * a) + lw.potential_energy(model, there)

    lost = v[1:-1] @ kind.damping @ v[1:-1]
    assert (energy(h) - energy(-h)) / (2 * h) == pytest.approx(-lost, abs=1e-7)
    np.testing.assert_allclose(
        lw.kinetic_energy(model, q, v), 0.5 * v @ lw.mass_matrix(model, q) @ v, rtol=1e-13
    )
    np.testing.assert_allclose(lw.centroidal_map(model, q) @ v, lw.momentum(model, q, v), atol=1e-12)


def test_frames_move_with_the_modes(example):
    model, rng = example
    q, v = model.random_state(rng)
    h = 1e-6
    for frame in ("tip", "bar", "load"):
        J = lw.frame_jacobian(model, q, frame=frame)
        np.testing.assert_allclose(J @ v, lw.frame_velocity(model, q, v, frame=frame), atol=1e-12)
        X, Y = (lw.frame_pose(model, lw.integrate(model, q, s * h * v), frame=frame) for s in (-1, 1))
        rate = np.linalg.inv(lw.frame_pose(model, q, frame=frame)) @ (Y - X) / (2 * h)
        twist = [rate[2, 1], rate[0, 2], rate[1, 0], *rate[:3, 3]]
        np.testing.assert_allclose(J @ v, twist, atol=1e-8)
        for reference in ("world", "world_aligned"):
            J = lw.frame_jacobian(model, q, frame=frame, reference=reference)
            np.testing.assert_allclose(
                J @ v, lw.frame_velocity(model, q, v, frame=frame, reference=reference), atol=1e-12
            )
        a = rng.normal(size=model.nv)
        before, after = (
            lw.frame_velocity(
                model, lw.integrate(model, q, s * h * v + 0.5 * h * h * a), v + s * h * a, frame=frame
            )
            for s in (-1, 1)
        )
        np.testing.assert_allclose(
            lw.frame_acceleration(model, q, v, a, frame=frame), (after - before) / (2 * h), atol=1e-7
        )


def test_impacts_and_rates_of_momentum_do_not_depend_on_elastic_forces(example):
    """An impact projects velocities in the kinetic metric, however far the body is deformed."""
    model, rng = example
    q, v = states(model, rng)
    hold = {"constraints": (lw.Connect("tip"),)}
    J = np.asarray(lw.constraint_jacobian(model, q, **hold))
    M = lw.mass_matrix(model, q)
    response = np.linalg.solve(M, J.swapaxes(1, 2))
    expected = v - np.squeeze(response @ np.linalg.solve(J @ response, J @ v[..., None]), -1)
    np.testing.assert_allclose(lw.impact(model, q, v, **hold)[0], expected, atol=1e-6)
    a = rng.normal(size=v.shape)
    h = lw.momentum
    t = 1e-5
    ahead, behind = (h(model, lw.integrate(model, q, s * v + 0.5 * s * s * a), v + s * a) for s in (t, -t))
    np.testing.assert_allclose(lw.momentum_rate(model, q, v, a), (ahead - behind) / (2 * t), atol=1e-6)


def test_a_force_does_not_propagate_through_another_body_of_a_loop():
    model = lw.robots.four_bar()
    with pytest.raises(lw.ModelError, match="through body"):
        lw.force_propagator(model, model.neutral(), frame="link2", to="link1")
