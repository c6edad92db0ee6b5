"""Steps with contact: closed forms, laws of contact and friction, and rollouts as one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.spatial import Pose

G = 9.81
UPRIGHT = [0.0, 0.0, 0.0, 1.0]


def body(shape: str, size: tuple[float, ...], mass: float = 1.0, moment: Any = (0.1, 0.1, 0.1)) -> lw.Model:
    b = lw.ModelBuilder("one body")
    b.add_body("body", mass=mass, inertia=np.diag(moment))
    b.add_joint("float", lw.joints.Free(), parent="world", child="body")
    b.add_geometry(lw.Geometry("shape", -1, Pose.identity(), shape, size, link="body"))
    return b.build()


def tripod() -> lw.Model:
    """A block on three points."""
    b = lw.ModelBuilder("tripod")
    b.add_body("body", mass=1.0, inertia=np.eye(3) * 0.01)
    b.add_joint("float", lw.joints.Free(), parent="world", child="body")
    for k, (x, y) in enumerate([(0.1, 0.0), (-0.1, 0.1), (-0.1, -0.1)]):
        b.add_geometry(
            lw.Geometry(
                f"foot {k}", -1, Pose.translation(np.array([x, y, -0.05])), "sphere", (0.0001,), link="body"
            )
        )
    return b.build()


def at(height: float, quaternion: Any = UPRIGHT) -> np.ndarray:
    return np.array([0.0, 0.0, height, *quaternion])


def energy(model: lw.Model, found: lw.Rollout) -> np.ndarray:
    total: np.ndarray = lw.kinetic_energy(model, found.q, found.v) + lw.potential_energy(model, found.q)
    return total


def test_ball_falls_and_stays_on_the_ground() -> None:
    ball = body("sphere", (0.1,))
    found = lw.rollout(ball, at(0.3), np.zeros(6), dt=0.002, steps=300, contacts=lw.Contacts())
    assert found.status == lw.Status.OK
    assert found.residual <= 1e-9
    heights = found.q[:, 2] - 0.1
    assert heights.min() > -1e-12
    assert abs(heights[-1]) < 1e-12
    np.testing.assert_allclose(found.impulses, [G * 0.002, 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("e", [0.5, 1.0])
def test_bouncing_ball(e: float) -> None:
    """Apexes fall by e² from bounce to bounce, and energy never grows."""
    ball = body("sphere", (0.1,))
    h = 0.5
    dt = 1e-3
    contacts = lw.Contacts(restitution=e)
    found = lw.rollout(ball, at(0.1 + h), np.zeros(6), dt=dt, steps=1500, contacts=contacts)
    heights = found.q[:, 2] - 0.1
    inner = heights[1:-1]
    apexes = inner[(inner > heights[:-2]) & (inner >= heights[2:])]
    assert len(apexes) >= 2
    np.testing.assert_allclose(apexes[:2], [h * e**2, h * e**4], rtol=0.02 if e == 1.0 else 0.05)
    assert np.diff(energy(ball, found)).max() < 1e-12
    assert heights.min() > -1e-12


def test_sliding_to_rest() -> None:
    """A box that slides at v0 stops after v0² / (2 μ g) and v0 / (μ g), and stays."""
    box = tripod()
    mu = 0.4
    v0 = 1.2
    dt = 1e-3
    v = np.array([0.0, 0.0, 0.0, v0, 0.0, 0.0])
    found = lw.rollout(box, at(0.0501), v, dt=dt, steps=500, contacts=lw.Contacts(friction=mu))
    assert found.status == lw.Status.OK
    stop = v0 / (mu * G)
    speeds = found.v[:, 3]
    k = int(stop / dt) // 2
    np.testing.assert_allclose(speeds[k], v0 - mu * G * k * dt, atol=1e-9)
    np.testing.assert_allclose(found.q[-1, 0], v0**2 / (2.0 * mu * G), atol=2.0 * v0 * dt)
    np.testing.assert_allclose(found.v[-1], 0.0, atol=1e-9)
    assert np.diff(energy(box, found)).max() < 1e-12


def test_block_on_a_slope_at_the_edge_of_the_cone() -> None:
    """It stays below atan μ, and above slides with g (sin - μ cos)."""
    mu = 0.5
    dt = 1e-3
    steps = 300
    slope = np.arctan(mu) + np.array([0.01, -0.01])
    gravity = G * np.stack([np.sin(slope), np.zeros(2), -np.cos(slope)], axis=-1)
    how: Any = {"dt": dt, "steps": steps, "record_every": steps, "contacts": lw.Contacts(friction=mu)}
    found = lw.rollout(tripod(), at(0.0501), np.zeros(6), parameters={"gravity": gravity}, **how)
    wanted = np.maximum(G * (np.sin(slope) - mu * np.cos(slope)) * steps * dt, 0.0)
    np.testing.assert_allclose(found.v[:, -1, 3], wanted, atol=1e-9)
    assert (found.status == lw.Status.OK).all()


def test_sliding_ball_begins_to_roll() -> None:
    """A ball thrown along the ground rolls with 5/7 of its speed, once friction has done its work."""
    r = 0.1
    v0 = 1.0
    mu = 0.3
    ball = body("sphere", (r,), 1.0, (0.4 * r * r,) * 3)
    v = np.array([0.0, 0.0, 0.0, v0, 0.0, 0.0])
    found = lw.rollout(ball, at(r), v, dt=1e-3, steps=300, contacts=lw.Contacts(friction=mu))
    w = found.v[-1, :3]
    speed = lw.frame_velocity(ball, found.q[-1], found.v[-1], frame="body")
    np.testing.assert_allclose(np.linalg.norm(speed[3:]), 5.0 / 7.0 * v0, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(w) * r, 5.0 / 7.0 * v0, rtol=1e-6)
    early = found.v[50]
    np.testing.assert_allclose(np.linalg.norm(early[:3]) * 0.4 * r, mu * G * 0.05, rtol=1e-6)


def test_rolling_friction_stops_a_ball() -> None:
    r = 0.1
    v0 = 0.5
    rolling = 0.004
    ball = body("sphere", (r,), 1.0, (0.4 * r * r,) * 3)
    v = np.array([0.0, v0 / r, 0.0, v0, 0.0, 0.0])
    contacts = lw.Contacts(friction=1.0, rolling=rolling)
    found = lw.rollout(ball, at(r), v, dt=1e-3, steps=3000, record_every=500, contacts=contacts)
    # about the contact point the moment of inertia is 7/5 m r²
    slowing = rolling * G / (1.4 * r)
    np.testing.assert_allclose(np.linalg.norm(found.v[1, 3:]), v0 - slowing * 0.5, rtol=1e-3)
    np.testing.assert_allclose(found.v[-1], 0.0, atol=1e-9)
    assert found.status == lw.Status.OK


def test_spinning_top_stops_by_torsional_friction() -> None:
    r = 0.1
    spin = 10.0
    torsional = 0.005
    moment = 0.004
    ball = body("sphere", (r,), 1.0, (moment,) * 3)
    v = np.array([0.0, 0.0, spin, 0.0, 0.0, 0.0])
    contacts = lw.Contacts(friction=0.5, torsional=torsional)
    found = lw.rollout(ball, at(r), v, dt=1e-3, steps=1000, record_every=250, contacts=contacts)
    np.testing.assert_allclose(found.v[1, 2], spin - torsional * G / moment * 0.25, rtol=1e-9)
    np.testing.assert_allclose(found.v[-1, 2], 0.0, atol=1e-12)
    free = lw.rollout(ball, at(r), v, dt=1e-3, steps=100, contacts=lw.Contacts(friction=0.5))
    np.testing.assert_allclose(free.v[-1, 2], spin, rtol=1e-12)


def test_friction_and_restitution_of_each_world() -> None:
    """As parameters of contacts they are inputs: each row slides with its own friction, and bounces with its
    own part.
    """
    block = tripod()
    mu = np.array([[0.1], [0.3]])
    contacts = lw.Contacts(friction=0.5)
    v = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    found = lw.rollout(
        block, at(0.0501), v, dt=1e-3, steps=100, record_every=100, contacts=contacts,
        parameters={"contact_friction": mu * np.ones(3), "mass": [[2.0], [1.0]]},
    )  # fmt: skip
    np.testing.assert_allclose(found.v[:, -1, 3], 1.0 - mu[:, 0] * G * 0.1, atol=1e-9)
    v[3:] = [0.0, 0.0, -1.0]
    e = np.array([[0.0], [0.4], [1.0]])
    _, after = lw.step(
        block,
        at(0.0501),
        v,
        np.zeros(6),
        1e-3,
        contacts=contacts,
        parameters={"contact_restitution": e * np.ones(3)},
    )
    np.testing.assert_allclose(after[:, 5], np.maximum(e[:, 0] - G * 1e-3, 0.0), atol=1e-9)


def test_limits_and_dry_friction_of_joints_act() -> None:
    b = lw.ModelBuilder("two joints")
    b.add_body("arm", mass=1.0, inertia=np.eye(3) * 0.01)
    b.add_joint(
        "limited", lw.joints.Revolute((0.0, 0.0, 1.0)), parent="world", child="arm", lower=-0.5, upper=0.5
    )
    b.add_body("wheel", mass=1.0, inertia=np.eye(3) * 0.01)
    b.add_joint("rubbing", lw.joints.Revolute((0.0, 0.0, 1.0)), parent="world", child="wheel", friction=0.02)
    model = b.build()
    contacts = lw.Contacts(ground=None)
    assert lw.impulse_names(model, contacts=contacts) == ("limited.limit", "rubbing.friction")
    found = lw.rollout(model, [0.4, 0.0], [3.0, 3.0], dt=2e-3, steps=1000, contacts=contacts)
    assert found.q[:, 0].max() <= 0.5 + 1e-12
    np.testing.assert_allclose(found.v[-1], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.v[500, 1], 3.0 - 0.02 / 0.01 * 1.0, atol=1e-9)
    held = lw.rollout(model, [0.0, 0.0], [0.0, 0.0], [0.0, 0.019], dt=2e-3, steps=5, contacts=contacts)
    np.testing.assert_allclose(held.v[-1], 0.0, atol=1e-14)
    nothing = lw.Contacts(ground=None, limits=False, joint_friction=False)
    off = lw.rollout(model, [0.4, 0.0], [3.0, 3.0], dt=2e-3, steps=10, contacts=nothing)
    np.testing.assert_allclose(off.v[-1], 3.0, rtol=1e-12)


def test_compliant_contact_settles_where_its_spring_carries_the_weight() -> None:
    ball = body("sphere", (0.1,))
    k = 1000.0
    contacts = lw.Contacts(stiffness=k, damping=30.0)
    found = lw.rollout(ball, at(0.1), np.zeros(6), dt=1e-3, steps=2000, record_every=2000, contacts=contacts)
    np.testing.assert_allclose(found.q[-1, 2] - 0.1, -G / k, rtol=1e-6)


def test_embedded_and_constrained_loops_touch_alike() -> None:
    leg = lw.robots.planar_leg_linkage()
    held = leg.with_loops(constrain=[loop.name for loop in leg.loops])
    q, v = leg.random_state(3)
    tip = leg.bodies[-1].name
    place = lw.frame_pose(leg, q, frame=tip)
    velocity = place[:3, :3] @ lw.frame_velocity(leg, q, v, frame=tip)[3:]
    n = -velocity / np.linalg.norm(velocity) + np.array([0.2, 0.0, 0.1])  # a wall that it runs into
    n /= np.linalg.norm(n)
    across = np.cross(n, [0.0, 0.0, 1.0]) / np.linalg.norm(np.cross(n, [0.0, 0.0, 1.0]))
    floor = lw.Geometry(
        "floor", -1, Pose(np.stack([across, np.cross(n, across), n], axis=1), place[:3, 3]), "plane"
    )
    how: Any = {
        "dt": 1e-3,
        "contacts": lw.Contacts(shapes=tip, ground=[floor], limits=False),
        "details": True,
    }
    one = lw.step(leg, q, v, np.zeros(leg.nv), **how)
    w = lw.spanning_velocity(leg, q, v)
    other = lw.step(held, q, w, np.zeros(held.nv), **how)
    assert one[2][0] > 1e-3
    np.testing.assert_allclose(
        other[2][0], one[2][0], rtol=1e-6
    )  # tangents that cannot move share what they carry
    np.testing.assert_allclose(other[0], one[0], atol=1e-6)


def test_a_penetration_is_undone_at_a_speed_that_grows_with_it() -> None:
    """At rest in the ground: what 2 cm/s undo in a step at once, of more a fifth beside, and no faster than
    10 cm/s.

    An open gap may close in the step. As a function of the gap it has no jump.
    """
    ball = body("sphere", (0.1,))
    dt = 1e-2
    depths = np.array([0.0, 5e-5, 1.9e-4, 2.0e-4, 2.1e-4, 1e-3, 4.1e-3, 4.3e-3, 0.02])
    q = np.array([at(0.1 - depth) for depth in depths])
    found = (
        lw.rollout(ball, q, np.zeros((len(q), 6)), dt=dt, steps=1, contacts=lw.Contacts()).q[:, 1, 2]
        - q[:, 2]
    ) / dt
    rate = depths / dt
    np.testing.assert_allclose(
        found, np.minimum(np.where(rate < 0.02, rate, 0.02 + 0.2 * (rate - 0.02)), 0.1), atol=1e-9
    )
    above = lw.rollout(ball, at(0.1 + 2e-4), np.zeros(6), dt=dt, steps=1, contacts=lw.Contacts())
    np.testing.assert_allclose(above.q[1, 2], 0.1, atol=1e-11)


@pytest.mark.slow
def test_quadruped_stands_still() -> None:
    """Held by PD control on four ball feet, it does not creep: less than 1e-6 m in 10 s; nor does it sink."""
    model = lw.robots.mini_cheetah()
    feet = [
        lw.Geometry(
            f"{leg} foot",
            -1,
            Pose.translation(np.array([0.0, 0.0, -0.2])),
            "sphere",
            (0.02,),
            link=f"{leg}_knee_link",
        )
        for leg in ("FR", "FL", "HR", "HL")
    ]
    contacts = lw.Contacts(shapes=feet, friction=0.6, limits=False)
    q = np.array(model.neutral())
    for joint in model.joints:
        bent = {"abad_to_hip_j": -0.7, "hip_to_knee_j": 1.4}
        q[joint.q_slice] = next(
            (angle for word, angle in bent.items() if joint.name.endswith(word)), q[joint.q_slice]
        )
    q, _ = lw.close_loops(model, q)
    q[2] -= lw.contact_points(model, q, contacts=contacts)[0].min()
    gains = [np.concatenate([np.zeros(6), np.full(12, k)]) for k in (80.0, 2.0)]
    how: Any = {"dt": 2e-3, "contacts": contacts}
    settled = lw.rollout(model, q, np.zeros(model.nv), lw.PD(*gains, q), steps=5000, record_every=5000, **how)
    start = settled.q[-1], settled.v[-1]
    found = lw.rollout(
        model, *start, lw.PD(*gains, q), steps=5000, record_every=100, warm_start=settled.impulses, **how
    )
    assert found.status == lw.Status.OK and found.residual <= 1e-9
    assert np.abs(found.q - found.q[0]).max() < 1e-6
    assert lw.contact_points(model, found.q, contacts=contacts)[0].min() > -1e-7


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"friction": -0.1}, "friction: expected a non-negative number, got -0.1"),
        ({"restitution": 1.5}, "restitution: expected a number from 0 to 1"),
        ({"restitution": 0.5, "stiffness": 1e4}, "restitution is for rigid contacts"),
        ({"damping": 10.0}, "damping is for compliant contacts"),
        ({"ground": np.zeros(3)}, "ground: expected 'plane', None, or geometries"),
        ({"friction": np.array([0.5, 0.5])}, "friction: expected a non-negative number"),
    ],
)
def test_contacts_that_cannot_be(given: dict[str, Any], told: str) -> None:
    with pytest.raises(lw.ModelError, match=told):
        lw.Contacts(**given)


def test_numbers_of_numpy_are_numbers() -> None:
    found = lw.Contacts(friction=np.float32(0.5), iterations=np.int64(50), limits=np.True_)
    assert found == lw.Contacts(friction=0.5, iterations=50, limits=True) and type(found.iterations) is int


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (
            {"parameters": {"contact_friction": [-1.0]}},
            "contact_friction: expected finite numbers, not negative, got -1",
        ),
        (
            {"parameters": {"contact_friction": [np.nan]}},
            "contact_friction: expected finite numbers, not negative, got nan",
        ),
        ({"parameters": {"contact_restitution": [2.0]}}, "expected finite numbers, from 0 to 1, got 2"),
        (
            {"parameters": {"contact_friction": [0.5]}, "contacts": None},
            "requires contacts=",
        ),
        ({"contacts": True}, r"contacts: expected Contacts\(...\), got True"),
        ({"tau": lambda q, v, t: 0.0 * v}, "give policy=, which is traced"),
    ],
)
def test_rollouts_with_contact_that_cannot_be(how: dict[str, Any], told: str) -> None:
    model = body("sphere", (0.1,))
    with pytest.raises(lw.ModelError, match=told):
        lw.rollout(
            model, model.neutral(), np.zeros(6), **{"dt": 1e-3, "steps": 2, "contacts": lw.Contacts(), **how}
        )


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"dt": -1e-3}, "with contacts= dt: expected positive numbers of seconds, got -0.001"),
        ({"dt": 0.0}, "dt: expected positive numbers of seconds, got 0.0"),
        ({"dt": np.array(np.nan)}, "dt: expected positive numbers of seconds"),
        (
            {"parameters": {"contact_friction": [-0.1]}},
            "step: contact_friction: expected finite numbers, not negative, got -0.1",
        ),
        (
            {"contact_restitution": [1.5]},
            "step: contact_restitution: expected finite numbers, from 0 to 1, got 1.5",
        ),
        (
            {"contact_friction": [np.nan]},
            "step: contact_friction: expected finite numbers, not negative, got nan",
        ),
        ({"contact_friction": [0.5, 0.5]}, r"step: contact_friction: expected shape \(..., 1\), got \(2,\)"),
        ({"warm_start": np.zeros(4)}, r"step: warm_start: expected shape \(..., 3\), got \(4,\)"),
        (
            {"warm_start": np.zeros(3), "contacts": None},
            "step: warm_start requires contacts=",
        ),
        (
            {"contact_friction": [0.5], "contacts": None},
            "step: contact_friction requires contacts=",
        ),
        ({"details": True, "contacts": None}, "details= requires contacts="),
        ({"v": np.zeros((2, 6)), "tau": np.zeros((3, 6))}, "the batch shapes do not broadcast"),
        (
            {"contacts": lw.Contacts(shapes="shap")},
            "no shape, link or frame named 'shap' .did you mean 'shape'",
        ),
        ({"contacts": lw.Contacts(pairs=[("shape", "table")])}, "no shape, link or frame named 'table'"),
    ],
)
def test_steps_that_cannot_be(how: dict[str, Any], told: str) -> None:
    model = body("sphere", (0.1,))
    given = {"q": at(0.1), "v": np.zeros(6), "tau": np.zeros(6), "dt": 1e-3, "contacts": lw.Contacts(), **how}
    with pytest.raises(lw.LinkworkError, match=told):
        lw.step(model, **given)


def test_contacts_of_models_without_shapes() -> None:
    arm = lw.robots.arm()
    q, v = arm.neutral(), np.zeros(arm.nv)
    for call in (
        lambda: lw.step(arm, q, v, v, 1e-3, contacts=lw.Contacts()),
        lambda: lw.rollout(arm, q, v, dt=1e-3, steps=1, contacts=lw.Contacts()),
        lambda: lw.simulate(arm, q, v, 0.01, contacts=lw.Contacts()),
    ):
        with pytest.raises(
            lw.ModelError,
            match=r"no shape that may touch the ground",
        ):
            call()
    with pytest.raises(lw.ModelError, match="impulse_names: first argument: expected a model, got int"):
        lw.impulse_names(3)  # type: ignore[arg-type]


def test_a_step_from_open_loops_is_refused() -> None:
    """One state is an error, a row of a batch is NaN, as `integrate` has it."""
    model = lw.robots.four_bar()
    q = model.random_state(np.random.default_rng(0))[0]
    still = np.zeros(model.nv)
    apart = q + np.eye(model.nq)[-1]
    lw.step(model, q, still, still, 1e-3)
    with pytest.raises(lw.ClosureError, match="close q with lw.close_loops"):
        lw.step(model, apart, still, still, 1e-3)
    rows = lw.step(model, [q, apart], still, still, 1e-3)[0]
    assert np.isfinite(rows[0]).all() and np.isnan(rows[1]).all()


LIMITS: dict[
    str, tuple[lw.joints.Joint, tuple[int, ...], float]
] = {  # kinds, coordinates with limits, and how far these are
    "planar": (lw.joints.Planar(), (0, 1), 1.0),
    "planar about x": (lw.joints.Planar((1.0, 0.0, 0.0)), (0, 1), 1.0),
    "planar about any axis": (lw.joints.Planar((0.2, -0.5, 0.8)), (1,), 0.7),
    "planar in angle": (lw.joints.Planar(), (2,), 0.8),
    "free": (lw.joints.Free(), (0, 1, 2), 0.9),
    "ball": (lw.joints.Spherical(), (1,), 0.3),
    "universal": (lw.joints.Universal(), (0, 1), 0.6),
    "cylindrical": (lw.joints.Cylindrical((0.0, 1.0, 0.0)), (0, 1), 0.5),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_act_on_coordinates(name: str) -> None:
    """However the body is turned, it comes to its limit and no further; without limits it would go on."""
    kind, places, most = LIMITS[name]
    bound = np.where(np.isin(np.arange(kind.nq), places), most, np.inf)
    builder = lw.ModelBuilder("bounded", gravity=(0.0, 0.0, 0.0))
    builder.add_body("body", mass=1.0, center=(0.1, 0.0, 0.05), inertia=(0.1, 0.2, 0.15))
    builder.add_joint("joint", kind, parent="world", child="body", lower=-bound, upper=bound)
    model = builder.build()
    rng = np.random.default_rng(3)
    v = 2.0 * rng.normal(size=(6, model.nv))
    q = lw.integrate(model, np.array([model.neutral()] * 6), rng.uniform(-0.2, 0.2, (6, model.nv)))
    if name.startswith("planar") and 2 not in places:
        q[:, 2] = np.linspace(0.0, 5.0, 6)
    how: dict[str, Any] = {"dt": 1e-3, "steps": 1500}
    met = lw.rollout(model, q, v, **how, contacts=lw.Contacts(ground=None))
    assert (met.status == lw.Status.OK).all() and (np.abs(met.q[..., places]) <= most + 2e-4).all()
    touched = np.abs(met.q[..., places]).max(axis=1) > most - 1e-6
    free = lw.rollout(model, q, v, **how, contacts=lw.Contacts(ground=None, limits=False))
    beyond = np.abs(free.q[..., places]).max(axis=1) > most
    assert np.array_equal(touched.any(axis=1), beyond.any(axis=1)) and beyond.any(axis=1).sum() >= 4
