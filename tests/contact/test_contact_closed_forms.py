"""Motions with contact that have a closed form: each test says the formula, and where it is from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_contact_step import G, at, body, energy

import linkwork as lw
from linkwork.spatial import Pose


def rod(length: float, mass: float) -> lw.Model:
    """A slender rod in the plane of x and z, whose lower end may touch the ground; q is z, x and the angle
    about y.
    """
    b = lw.ModelBuilder("rod")
    b.add_body("rod", mass=mass, inertia=np.diag([1.0, mass * length**2 / 12.0, 1.0]))
    b.add_joint("plane", lw.joints.Planar((0.0, 1.0, 0.0)), parent="world", child="rod")
    return b.add_frame("foot", body="rod", xyz=(0.0, 0.0, -length / 2.0)).build()


@pytest.mark.parametrize("angle", [np.radians(40.0), np.arctan(2.0), np.radians(80.0)])
@pytest.mark.parametrize("dt", [1e-3, 1e-5])
def test_painleve_rod_slides_or_stops_at_once(angle: float, dt: float) -> None:
    """Painlevé's paradox of a slender rod that slides at an angle θ to the ground, its foot ahead of its
    centre.

    While it slides, the foot's normal acceleration by a normal force N is (1 + 3 cos θ (cos θ - μ sin θ)) N /
    m. Beyond μ_P = (4 + tan² θ) / (3 tan θ), which is at least 4/3, at tan θ = 2, that is negative: no force
    keeps the foot out of the ground (Painlevé 1895; Génot and Brogliato 1999, Eur. J. Mech. A 18, 653). Below
    it slides on, and a short step changes little; above, an impulse stops the foot at once, however short the
    step is.
    """
    length = 1.0
    mass = 2.0
    speed = 3.0
    critical = (4.0 + np.tan(angle) ** 2) / (3.0 * np.tan(angle))
    assert critical >= 4.0 / 3.0 - 1e-12
    c = np.cos(angle)
    s = np.sin(angle)
    q = np.array([length / 2.0 * s, 0.0, -(np.pi / 2.0 - angle)])  # the foot is at x = length / 2 cos θ
    v = np.array([speed * np.sin(q[2]), speed * np.cos(q[2]), 0.0])  # ahead, in the axes of the rod
    where = lw.frame_pose(rod(length, mass), q, frame="foot")[:3, 3]
    np.testing.assert_allclose(where, [length / 2.0 * c, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(_foot(rod(length, mass), q, v), [speed, 0.0, 0.0], atol=1e-12)
    for ratio in (0.9, 1.01, 2.5):
        mu = ratio * critical
        q1, v1, impulses, residual, _, ok = lw.step(
            rod(length, mass),
            q,
            v,
            np.zeros(3),
            dt,
            contacts=lw.Contacts(shapes="foot", friction=mu),
            details=True,
        )
        assert ok == 1.0 and residual <= 1e-9
        foot = _foot(rod(length, mass), q1, v1)
        normal, friction = impulses[0], np.hypot(*impulses[1:])
        if ratio < 1.0:  # N dt = m g dt / (1 + 3 cos θ (cos θ - μ sin θ))
            np.testing.assert_allclose(normal, mass * G * dt / (1.0 + 3.0 * c * (c - mu * s)), rtol=1e-6)
            np.testing.assert_allclose(friction, mu * normal, rtol=1e-6)
            assert foot[0] > speed - 100.0 * G * dt
        else:  # both velocities of the foot end: impulses are those of the rod's Delassus matrix
            D = np.array([[1.0 + 3.0 * c * c, 3.0 * c * s], [3.0 * c * s, 1.0 + 3.0 * s * s]]) / mass
            np.testing.assert_allclose([normal, -friction], np.linalg.solve(D, [G * dt, -speed]), rtol=1e-6)
            assert friction < mu * normal
            assert np.abs(foot).max() < 20.0 * dt  # the rod turns by dt w meanwhile


@pytest.mark.slow
def test_painleve_rod_loses_energy_until_it_lies() -> None:
    """From an angle where accelerations do not exist, through impacts without collision, with every step
    solved.
    """
    model = rod(1.0, 1.0)
    angle = np.radians(50.0)
    q = np.array([0.5 * np.sin(angle), 0.0, angle - np.pi / 2.0])
    lean = angle - np.pi / 2.0
    v = 5.0 * np.array([np.sin(lean), np.cos(lean), 0.0])
    found = lw.rollout(model, q, v, dt=1e-3, steps=300, contacts=lw.Contacts(shapes="foot", friction=1.9))
    assert found.status == lw.Status.OK and found.residual <= 1e-9
    assert np.diff(energy(model, found)).max() < 1e-9 and np.isfinite(found.q).all()
    assert energy(model, found)[0] > 1.5 * energy(model, found)[-1]


def _foot(model: lw.Model, q: Any, v: Any) -> np.ndarray:
    """The velocity of the foot in the world's axes."""
    R = lw.frame_pose(model, q, frame="foot")[:3, :3]
    found: np.ndarray = R @ lw.frame_velocity(model, q, v, frame="foot")[3:]
    return found


def test_ball_on_a_slope_rolls_or_slips() -> None:
    """A solid ball goes down with 5/7 g sin α where μ >= 2/7 tan α, and slips with g (sin α - μ cos α) below
    (any textbook).
    """
    r = 0.1
    dt = 1e-3
    steps = 200
    ball = body("sphere", (r,), 1.0, (0.4 * r * r,) * 3)
    slope = np.arctan(0.7)
    gravity = G * np.array([np.sin(slope), 0.0, -np.cos(slope)])
    mu = np.array([[0.25], [0.15]])  # 2/7 · 0.7 = 0.2
    found = lw.rollout(
        ball, at(r), np.zeros(6), dt=dt, steps=steps, record_every=steps, contacts=lw.Contacts(),
        parameters={"gravity": gravity, "contact_friction": mu},
    )  # fmt: skip
    speed = np.linalg.norm(found.v[:, -1, 3:], axis=1) / (steps * dt)
    wanted = G * np.array([5.0 / 7.0 * np.sin(slope), np.sin(slope) - mu[1, 0] * np.cos(slope)])
    np.testing.assert_allclose(speed, wanted, rtol=1e-9)
    assert (found.status == lw.Status.OK).all()


def test_spinning_disc() -> None:
    """A ring of radius R that stands on its rim's points and turns about its axis slows down by μ m g R / I,
    and stays.
    """
    R = 0.2
    mu = 0.3
    spin = 8.0
    moment = 0.05
    dt = 1e-3
    steps = 100
    b = lw.ModelBuilder("disc")
    b.add_body("disc", mass=1.5, inertia=(0.03, 0.03, moment))
    b.add_joint("float", lw.joints.Free(), parent="world", child="disc")
    for k, turn in enumerate(np.arange(3) * 2.0 * np.pi / 3.0):
        b.add_frame(f"rim {k}", body="disc", xyz=(R * np.cos(turn), R * np.sin(turn), 0.0))
    contacts = lw.Contacts(shapes=[f"rim {k}" for k in range(3)], friction=mu)
    found = lw.rollout(
        b.build(), at(0.0), [0.0, 0.0, spin, 0.0, 0.0, 0.0], dt=dt, steps=steps, contacts=contacts
    )
    slowing = mu * 1.5 * G * R / moment
    np.testing.assert_allclose(found.v[:, 2], spin - slowing * dt * np.arange(steps + 1), atol=1e-8)
    np.testing.assert_allclose(found.q[:, :3], 0.0, atol=1e-8)
    np.testing.assert_allclose(found.impulses.reshape(3, 3)[:, 0], 1.5 * G * dt / 3.0, rtol=1e-6)
    stopped = lw.rollout(
        b.build(), found.q[-1], found.v[-1], dt=dt, steps=400, record_every=400, contacts=contacts
    )
    np.testing.assert_allclose(stopped.v[-1], 0.0, atol=1e-9)


def planar_block(b: float, h: float, m: float, moment: float) -> lw.Model:
    """A block that moves in the plane of x and z, with points at its lower edges."""
    made = lw.ModelBuilder("block")
    made.add_body("block", mass=m, inertia=np.diag([1.0, moment, 1.0]))
    made.add_joint("plane", lw.joints.Planar((0.0, 1.0, 0.0)), parent="world", child="block")
    for side in (1.0, -1.0):
        place = Pose.translation(np.array([side * b / 2.0, 0.0, -h / 2.0]))
        made.add_geometry(lw.Geometry(f"edge {side:+}", -1, place, "sphere", (1e-9,), link="block"))
    return made.build()


def test_period_of_a_rocking_block() -> None:
    """A slender block let go at an angle θ0 stands upright after acosh(1 / (1 - θ0 / α)) / p, a quarter of
    Housner's period.

    α is the angle of its diagonal, p² = m g R / I about an edge; after the impact it turns with
    1 - m R² / I (1 - cos 2α) of its rate (Housner 1963, Bull. Seismol. Soc. Am. 53, 403).
    """
    b = 0.04
    h = 0.5
    m = 1.0
    dt = 2e-4
    R = np.hypot(b, h) / 2.0
    alpha = np.arctan(b / h)
    moment = m / 12.0 * (b * b + h * h)
    about_edge = moment + m * R * R
    block = planar_block(b, h, m, moment)
    tilt = 0.5 * alpha
    c = np.cos(tilt)
    s = np.sin(tilt)
    q = np.array([s * b / 2.0 + c * h / 2.0, 0.0, tilt])
    quarter = np.arccosh(1.0 / (1.0 - tilt / alpha)) / np.sqrt(m * G * R / about_edge)
    steps = int(1.3 * quarter / dt)
    found = lw.rollout(block, q, np.zeros(3), dt=dt, steps=steps, contacts=lw.Contacts(friction=2.0))
    spins = found.v[:, 2]
    k = int(np.argmax(np.abs(np.diff(spins))))
    np.testing.assert_allclose(k * dt, quarter, rtol=5e-3)
    ratio = 1.0 - m * R * R / about_edge * (1.0 - np.cos(2.0 * alpha))
    np.testing.assert_allclose(spins[k + 3] / spins[k - 1], ratio, rtol=4e-3)
    assert found.status == lw.Status.OK and np.diff(energy(block, found)).max() < 1e-4


def stack(masses: tuple[float, ...], half: float = 0.1) -> lw.Model:
    """Boxes on each other, in the plane of x and z: each stands with two points on the box below it."""
    b = lw.ModelBuilder("stack")
    for k, mass in enumerate(masses):
        b.add_body(f"box {k}", mass=mass, inertia=np.diag([1.0, mass * 2.0 * half**2 / 3.0, 1.0]))
        b.add_joint(f"plane {k}", lw.joints.Planar((0.0, 1.0, 0.0)), parent="world", child=f"box {k}")
        b.add_geometry(
            lw.Geometry(
                f"top {k}", -1, Pose.identity(), "box", (4.0 * half, 1.0, 2.0 * half), link=f"box {k}"
            )
        )
        for side in (1.0, -1.0):
            place = Pose.translation(np.array([side * half, 0.0, -half]))
            b.add_geometry(lw.Geometry(f"foot {k} {side:+.0f}", -1, place, "point", link=f"box {k}"))
    return b.build()


def test_stack_of_boxes() -> None:
    """Each interface carries the weight of all that stands above it, and nothing moves, for two seconds."""
    masses = (2.0, 0.5, 5.0)
    half = 0.1
    dt = 2e-3
    model = stack(masses)
    pairs = [(f"foot {k} {side}", f"top {k - 1}") for k in range(1, len(masses)) for side in ("+1", "-1")]
    contacts = lw.Contacts(shapes=["foot 0 +1", "foot 0 -1"], pairs=pairs, friction=0.5)
    q = np.concatenate([[half * (2 * k + 1), 0.0, 0.0] for k in range(len(masses))])
    found = lw.rollout(model, q, np.zeros(model.nv), dt=dt, steps=1000, record_every=100, contacts=contacts)
    assert found.status == lw.Status.OK and found.residual <= 1e-9
    np.testing.assert_allclose(found.q, np.broadcast_to(q, found.q.shape), atol=1e-9)
    names = lw.impulse_names(model, contacts=contacts)
    for k in range(len(masses)):
        own = [i for i, name in enumerate(names) if name.startswith(f"foot {k}") and i % 3 == 0]
        np.testing.assert_allclose(found.impulses[own].sum(), sum(masses[k:]) * G * dt, rtol=1e-9)
        np.testing.assert_allclose(found.impulses[own], sum(masses[k:]) * G * dt / 2.0, rtol=1e-6)


@pytest.mark.slow
def test_stack_of_boxes_in_space() -> None:
    """Three boxes with corners against faces: the same weights, and less than 1e-9 m in two seconds."""
    masses = (2.0, 0.5, 5.0)
    sizes = ((0.4, 0.4, 0.2), (0.3, 0.3, 0.1), (0.2, 0.2, 0.3))
    dt = 2e-3
    b = lw.ModelBuilder("stack")
    for k, (mass, edges) in enumerate(zip(masses, sizes)):
        squares = np.square(edges)
        b.add_body(f"box {k}", mass=mass, inertia=np.diag(mass / 12.0 * (squares.sum() - squares)))
        b.add_joint(f"float {k}", lw.joints.Free(), parent="world", child=f"box {k}")
        b.add_geometry(lw.Geometry(f"shape {k}", -1, Pose.identity(), "box", edges, link=f"box {k}"))
    model = b.build()
    contacts = lw.Contacts(
        shapes=["shape 0"], pairs=[("shape 1", "shape 0"), ("shape 2", "shape 1")], friction=0.5
    )
    tops = np.cumsum([edges[2] for edges in sizes])
    q = np.concatenate([at(top - edges[2] / 2.0) for top, edges in zip(tops, sizes)])
    found = lw.rollout(model, q, np.zeros(model.nv), dt=dt, steps=1000, record_every=100, contacts=contacts)
    assert found.status == lw.Status.OK and found.residual <= 1e-9
    np.testing.assert_allclose(found.q, np.broadcast_to(q, found.q.shape), atol=1e-9)
    candidates = lw.contact_candidates(model, contacts)
    normal = found.impulses.reshape(-1, 3)[:, 0]
    for k in range(3):
        own = [
            i
            for i, each in enumerate(candidates)
            if {each.body, each.other} in ({k, k - 1}, {k, lw.model.GROUND})
        ]
        own = [i for i in own if k == 0 or candidates[i].other != lw.model.GROUND]
        np.testing.assert_allclose(normal[own].sum(), sum(masses[k:]) * G * dt, rtol=1e-6)


def test_steps_satisfy_the_equations_of_motion_and_the_laws() -> None:
    """M (v' - v) = dt (τ - b) + Jᵀ λ, Signorini's and Coulomb's laws and maximum dissipation, each from other
    functions.
    """
    arm = lw.robots.arm()
    mu = 0.4
    dt = 2e-3
    height = 0.3
    tip = arm.bodies[-1].name
    rng = np.random.default_rng(0)
    q = rng.uniform(-2.0, 2.0, (20000, arm.nq))
    v = rng.normal(size=(20000, arm.nv))
    above = lw.frame_pose(arm, q, frame=tip)[:, 2, 3] - height
    near = np.abs(above) < 1e-3
    q = q[near]
    v = v[near]
    above = above[near]
    tau = rng.normal(size=v.shape)
    floor = lw.Geometry("floor", -1, Pose.translation(np.array([0.0, 0.0, height])), "plane")
    contacts = lw.Contacts(shapes=tip, ground=[floor], friction=mu, limits=False, joint_friction=False)
    _, v1, impulses, residual, _, ok = lw.step(arm, q, v, tau, dt, contacts=contacts, details=True)
    assert len(q) > 20 and ok.all() and residual.max() <= 1e-9
    points, normals = lw.contact_points(arm, q, contacts=contacts)[1:]
    np.testing.assert_allclose(normals[:, 0], np.broadcast_to([0.0, 0.0, 1.0], (len(q), 3)), atol=1e-12)
    J = lw.frame_jacobian(arm, q, frame=tip, reference="world_aligned")[:, 3:]
    np.testing.assert_allclose(points[:, 0], lw.frame_pose(arm, q, frame=tip)[:, :3, 3], atol=2e-3)
    J = J[:, [2, 0, 1]]  # normal, x, y
    forces = tau - lw.inverse_dynamics(arm, q, v, np.zeros_like(v))
    change = (lw.mass_matrix(arm, q) @ (v1 - v)[..., None])[..., 0] - dt * forces
    np.testing.assert_allclose(change, (impulses[:, None] @ J)[:, 0], atol=1e-9)
    w, size = (J @ v1[..., None])[..., 0], np.hypot(*impulses[:, 1:].T)
    ends = w[:, 0] + np.maximum(above / dt, -0.1)  # a penetration is undone with 0.1 m/s at most
    assert (impulses[:, 0] >= 0.0).all() and ends[above > 0.0].min() >= -1e-9
    assert np.abs(impulses[above > 0.0, 0] * ends[above > 0.0]).max() <= 1e-9
    slip = np.hypot(*w[:, 1:].T)
    np.testing.assert_allclose(size, np.minimum(size, mu * impulses[:, 0]), atol=1e-10)
    dissipated = np.einsum("ij,ij->i", w[:, 1:], impulses[:, 1:])
    np.testing.assert_allclose(
        dissipated, -mu * impulses[:, 0] * slip, atol=1e-9
    )  # no other friction takes more
    touching = impulses[:, 0] > 0.0
    assert touching.sum() > 5 and (slip[touching] > 1e-3).any()
