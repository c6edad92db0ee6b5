"""What constraints hold: their rows against poses of frames, by differences, and mechanisms that textbooks
solve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from holding import (
    FEET,
    allowed,
    close,
    floats_of,
    held,
    held_directions,
    moved,
    off,
    position_error,
    relative_pose,
    row_motion,
    rows,
    seen,
    solved,
    two_frames,
)
from linkages import floats, linkage
from linkwork import Connect, Coupled, Gains, Hold, Locked, ModelError, OnPlane, Rolling, Weld
from linkwork.constraints.frames import NAMES
from linkwork.joints import Fixed, Free, Planar, Revolute
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Factor, Pose, rotation
from mechanisms import Random, every_kind, general_pose, heavy, random_model, skew_axis

CHANGING: dict[
    str, Callable[[str, str, Random], Any]
] = {  # those whose directions turn into others, which are not held
    "hold": lambda f, to, rng: Hold(f, tuple(rng.permutation(NAMES)[:3]), to),
    "hold in the frame": lambda f, to, rng: Hold(f, tuple(rng.permutation(NAMES)[:3]), to, axes="frame"),
    "plane": lambda f, to, rng: OnPlane(f, to, skew_axis(rng)),
    "rolling": lambda f, to, rng: Rolling(f, 0.3, to, skew_axis(rng)),
}
WHOLE: dict[str, Callable[[str, str, Random], Any]] = {
    "weld": lambda f, to, rng: Weld(f, to),
    "connect": lambda f, to, rng: Connect(f, to),
}
ALL = {**WHOLE, **CHANGING}
every = pytest.mark.parametrize("name", ALL)


def tree(seed: int) -> tuple[Model, Random]:
    """A tree of every kind of joint, or of some."""
    rng = np.random.default_rng(seed)
    return (every_kind(rng) if seed == 0 else random_model(rng, 5)), rng


def state(model: Model, rng: Random) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, v = model.random_state(rng)
    return q, 0.7 * v, rng.normal(size=model.nv)


# rows against poses


@pytest.mark.parametrize("seed", range(5))
@every
def test_rows_move_as_frames_do(name: str, seed: int) -> None:
    """Velocities and accelerations of the rows are those of the frames along a motion, which poses alone
    tell.
    """
    model, rng = tree(seed)
    q, v, a = state(model, rng)
    frame, other = two_frames(model, rng)
    for to, of in (("world", frame), (other, frame), (frame, "world")):  # also the ground, seen from a body
        c = ALL[name](of, to, rng)
        J = held(model, [c], q)[0]
        if name in WHOLE:  # what turning does to its rows vanishes where they hold
            v = allowed(J, v)
        velocity, acceleration = row_motion(model, q, v, a, c)
        assert close(J @ v, velocity, 1e-11)
        assert close(J @ a + held(model, [c], q, v)[1], acceleration, 1e-8)


@pytest.mark.parametrize("seed", range(3))
@every
def test_rows_are_those_of_jacobians(name: str, seed: int) -> None:
    """To the last digits, and for whole constraints also at velocities that they forbid: points accelerate
    against points.
    """
    model, rng = tree(seed)
    q, v, _ = state(model, rng)
    frame, other = two_frames(model, rng)
    for to in ("world", other):
        c = ALL[name](frame, to, rng)
        J, rest = held(model, [c], q, v)
        right = rows(model, q, v, [c])
        assert close(J, right.J, 1e-12) and close(rest, right.gamma, 1e-12)


@pytest.mark.parametrize("name", ["loaded four-bar", "rotors", "one body", "nested"])
def test_rows_in_clusters(name: str) -> None:
    model = linkage(name)
    rng = np.random.default_rng(5)
    q, v, _ = state(model, rng)
    found = []
    for _ in range(2):
        frame, other = two_frames(model, rng)
        found += [make(frame, to, rng) for to in ("world", other) for make in ALL.values()]
    J, rest = held(model, found, q, v)
    right = rows(model, q, v, found)
    assert close(J, right.J, 1e-11) and close(rest, right.gamma, 1e-11)


@pytest.mark.parametrize("name", ["geared 0", "loop and gear", "one body", "rotors", None])
def test_rows_of_joints(name: str | None) -> None:
    """Dependent joints too: they accelerate as the independent ones make them."""
    rng = np.random.default_rng(6)
    model = linkage(name) if name else every_kind(rng)
    q, v, _ = state(model, rng)
    single = [j.name for j in model.joints if j.nv == 1][:4]
    found: list[Any] = [Locked(j.name) for j in model.joints]
    found.append(Coupled(dict(zip(single, (1.0, -2.5, 0.3, 0.7)))))
    J, rest = held(model, found, q, v)
    right = rows(model, q, v, found)
    assert close(J, right.J, 1e-12) and close(rest, right.gamma, 1e-12)


def test_rows_follow_one_another() -> None:
    """Several constraints on the same bodies and joints: each has its own rows, in the order in which they
    were given.
    """
    model, rng = tree(0)
    q, v, _ = state(model, rng)
    frame, other = two_frames(model, rng)
    single = [j.name for j in model.joints if j.nv == 1]
    cs = [
        Coupled({single[0]: 1.0, single[1]: 2.0}),
        Weld(frame),
        Locked(single[1]),
        Connect(other, frame),
        Weld(frame),
    ]
    J, rest = held(model, cs, q, v)
    parts = [held(model, [c], q, v) for c in cs]
    assert np.array_equal(J, np.concatenate([J for J, _ in parts]))
    assert np.array_equal(rest, np.concatenate([rest for _, rest in parts]))


# what two bodies do not feel


@every
def test_a_common_motion_is_not_felt(name: str) -> None:
    """Where both ends stand on a free body, its place, velocity and acceleration do not matter, nor does
    gravity.
    """
    rng = np.random.default_rng(8)
    builder = ModelBuilder("two arms")
    builder.add_body("base", **heavy(rng))
    builder.add_joint("float", Free(), parent="world", child="base")
    for arm in "ab":
        on = "base"
        for k in range(3):
            builder.add_body(f"{arm}{k}", **heavy(rng))
            builder.add_joint(
                f"to {arm}{k}",
                Revolute(skew_axis(rng)),
                parent=on,
                child=f"{arm}{k}",
                place=general_pose(rng),
            )
            on = f"{arm}{k}"
    model = builder.build()
    c = ALL[name]("a2", "b2", rng)
    q, v, _ = state(model, rng)
    if name in WHOLE:
        v = allowed(held(model, [c], q)[0], v)
    J, rest = held(model, [c], q, v)
    assert not J[:, :6].any()  # not even rounding
    elsewhere = q.copy()
    faster = v.copy()
    elsewhere[:7] = model.random_state(rng)[0][:7]
    faster[:6] += rng.normal(size=6) * 3.0
    other_J, other_rest = held(model, [c], elsewhere, faster)
    assert np.array_equal(J, other_J) and close(other_rest, rest, 1e-12)


# gains


@every
def test_gains(name: str) -> None:
    """Targets are -stiffness * error - damping * velocity of the rows, as poses give them."""
    rng = np.random.default_rng(9)
    model = every_kind(rng)
    q, v, _ = state(model, rng)
    frame, other = two_frames(model, rng)
    for to in ("world", other):
        plain = ALL[name](frame, to, rng)
        T = relative_pose(model, q, frame, to)
        error = position_error(plain, T[:3, :3], T[:3, 3])
        J, rest = held(model, [plain], q, v)
        for stiffness, damping in ((7.0, 0.0), (0.0, 3.0), (11.0, 5.0)):
            wanted = held(model, [replace(plain, gains=Gains(stiffness, damping))], q, v)[1] - rest
            assert close(wanted, stiffness * error + damping * (J @ v), 1e-11)


def two_free_bodies(rng: Random) -> Model:
    builder = ModelBuilder("two bodies")
    for name in "ab":
        builder.add_body(name, **heavy(rng))
        builder.add_joint(f"float {name}", Free(), parent="world", child=name)
        builder.add_frame(f"on {name}", body=name, place=general_pose(rng))
    return builder.build()


@pytest.mark.parametrize("name", [n for n in ALL if n != "hold in the frame"])
def test_the_error_grows_as_the_rows_move(name: str) -> None:
    """Where there is no error, its rate is the velocity of the rows; those of `Rolling` along the normal
    alone.
    """
    rng = np.random.default_rng(10)
    model = two_free_bodies(rng)
    q, v, _ = state(model, rng)
    c = ALL[name]("on a", "on b", rng)
    # put a where the frames are together, or the ball touches
    apart = np.array(c.normal) * c.radius if isinstance(c, Rolling) else np.zeros(3)
    place = {n: model.frame(f"on {n}").place.matrix() for n in "ab"}
    at_b = floats(lw.frame_pose, model, q, frame="b")
    T = at_b @ place["b"] @ Pose(np.eye(3), apart).matrix() @ np.linalg.inv(place["a"])
    q[:7] = [*T[:3, 3], *floats_of(rotation.of_matrix(T[:3, :3]))]
    assert off(relative_pose(model, q, "on a", "on b"), Pose(np.eye(3), apart).matrix()) < 1e-14

    def error(q: np.ndarray) -> np.ndarray:
        return held(model, [replace(c, gains=Gains(1.0))], q, 0.0 * v)[1] - held(model, [c], q, 0.0 * v)[1]

    h = 1e-5
    J = held(model, [c], q)[0]
    rate = (error(floats(lw.integrate, model, q, v * h)) - error(floats(lw.integrate, model, q, -v * h))) / (
        2.0 * h
    )
    assert off(error(q), 0.0) < 1e-14
    n = np.array(getattr(c, "normal", ()))
    assert close(rate, n * (n @ (J @ v)) if isinstance(c, Rolling) else J @ v, 1e-8)


def test_gains_of_joints() -> None:
    rng = np.random.default_rng(11)
    model = every_kind(rng)
    q, v, _ = state(model, rng)
    single = [j.name for j in model.joints if j.nv == 1][:2]
    for j in model.joints:
        for at in (None, tuple(j.kind.random(rng).tolist())):
            J, rest = held(model, [Locked(j.name, at)], q, v)
            start = j.kind.neutral() if at is None else np.array(at)
            away = floats_of(j.kind.difference(start, q[j.q_slice]))
            wanted = held(model, [Locked(j.name, at, Gains(7.0, 2.0))], q, v)[1] - rest
            assert close(wanted, 7.0 * away + 2.0 * (J @ v), 1e-12)
    terms = dict(zip(single, (2.0, -0.5)))
    J, rest = held(model, [Coupled(terms)], q, v)
    found = held(model, [Coupled(terms, 0.3, Gains(4.0, 2.0))], q, v)[1] - rest
    x = sum(c * q[model.joint(n).q_slice] for n, c in terms.items())
    assert close(found, 4.0 * (x - 0.3) + 2.0 * (J @ v), 1e-12)


# what textbooks solve


def ball(radius: float, mass: float, gravity: Any) -> Model:
    moment = 0.4 * mass * radius**2
    builder = ModelBuilder("ball", gravity=gravity)
    builder.add_body("ball", mass=mass, inertia=(moment, moment, moment))
    builder.add_joint("float", Free(), parent="world", child="ball")
    builder.add_frame("slope", body="world", rpy=(0.3, -0.2, 0.5), xyz=(1.0, 2.0, 3.0))
    return builder.build()


@pytest.mark.parametrize("method", ["caba", "pv", "pv_early", "ltl", "ltls"])
def test_a_ball_rolls_down_a_slope(method: str) -> None:
    """It accelerates by 5/7 of gravity along the slope, whatever its mass, radius and spin."""
    model = ball(0.2, 3.0, (0.0, 0.0, -9.81))
    rng = np.random.default_rng(0)
    T = floats(lw.frame_pose, model, model.neutral(), frame="slope")
    R = T[:3, :3]
    n = T[:3, 2]
    q = model.random_state(rng)[0]
    q[:3] = T[:3, 3] + R @ [0.4, 0.7, 0.2]
    B = floats(lw.frame_pose, model, q, frame="ball")[:3, :3]
    w = rng.normal(size=3)
    v = np.concatenate([B.T @ w, B.T @ np.cross(w, 0.2 * n)])  # it rolls
    c = Rolling("ball", 0.2, "slope")
    assert off(held(model, [c], q)[0] @ v, 0.0) < 1e-14
    a, f, *_ = solved(model, q, v, np.zeros(6), [c], method=method, compliance=1e-6)
    g = np.array([0.0, 0.0, -9.81])
    alongside = g - n * (g @ n)
    assert close(
        B @ (a[3:] + np.cross(v[:3], v[3:])), 5.0 / 7.0 * alongside, 1e-9
    )  # of its centre, as seen from outside
    assert close(B @ a[:3], np.cross(n, 5.0 / 7.0 * alongside) / 0.2, 1e-9)
    assert close(R @ f, -3.0 * (g @ n) * n - 2.0 / 7.0 * 3.0 * alongside, 1e-8)


def test_rolling_is_the_velocity_of_the_point_that_touches() -> None:
    model = two_free_bodies(np.random.default_rng(2))
    rng = np.random.default_rng(3)
    q, v, _ = state(model, rng)
    n = np.array([2.0, -1.0, 2.0]) / 3.0
    radius = 0.35
    J = held(model, [Rolling("on a", radius, "on b", (2.0, -1.0, 2.0))], q)[0]
    V = {
        f: floats(lw.frame_velocity, model, q, v, frame=f, reference="world_aligned")
        for f in ("on a", "on b")
    }
    T = {f: floats(lw.frame_pose, model, q, frame=f) for f in ("on a", "on b")}
    R = T["on b"][:3, :3]
    touch = T["on a"][:3, 3] - radius * (R @ n)  # the ball's point there, and the plane's
    speed = {f: V[f][3:] + np.cross(V[f][:3], touch - T[f][:3, 3]) for f in T}
    assert close(J @ v, R.T @ (speed["on a"] - speed["on b"]), 1e-13)


def test_a_sleigh_on_a_skate() -> None:
    """Chaplygin's: with the centre of mass d before the skate, u̇ = d ω² and ω̇ = -m d u ω / (I + m d²)."""
    m = 2.0
    inertia = 0.3
    d = 0.4
    builder = ModelBuilder("sleigh", gravity=(0.0, 0.0, 0.0))
    builder.add_body("sleigh", mass=m, center=(d, 0.0, 0.0), inertia=(0.2, 0.2, inertia))
    builder.add_joint("slide", Planar(), parent="world", child="sleigh")
    model = builder.build()
    q = np.array([0.3, -0.2, 0.8])
    u = 1.3
    w = 0.7
    ahead = floats(lw.frame_pose, model, q, frame="sleigh")[:3, 0]
    V = np.array([0.0, 0.0, w, *(u * ahead)])
    v = np.linalg.lstsq(
        floats(lw.frame_jacobian, model, q, frame="sleigh", reference="world_aligned"), V, rcond=None
    )[0]
    a = solved(model, q, v, np.zeros(3), [Hold("sleigh", "y", axes="frame")])[0]
    A = floats(lw.frame_acceleration, model, q, v, a, frame="sleigh", classical=True)
    assert close([A[3], A[4], A[2]], [d * w * w, u * w, -m * d * u * w / (inertia + m * d * d)], 1e-9)


# parts


def test_quaternions_of_matrices() -> None:
    rng = np.random.default_rng(0)
    turns = [rng.normal(size=4) for _ in range(20)]
    turns += [
        np.eye(4)[k] + 1e-9 * rng.normal(size=4) for k in range(4)
    ]  # half turns, where other formulas fail
    turns += [np.eye(4)[k] for k in range(4)] + [
        np.array([1.0, 1.0, 1.0, 1.0]),
        np.array([1.0, 1.0, 0.0, 0.0]),
    ]
    for x in turns:
        x = x / np.linalg.norm(x)
        found = floats_of(rotation.of_matrix(Pose.from_quaternion(x).R))
        assert off(found * np.sign(found @ x), x) < 1e-15 * 4


def test_halves_of_factors() -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(5, 5))
    M = A @ A.T + np.eye(5)
    b = rng.normal(size=(5, 3))
    F = Factor(M)
    half = floats_of(F.half(b))
    root = floats_of(F.root(b))
    right = b.T @ np.linalg.solve(M, b)
    assert close(half.T @ floats_of(F.scaled(half)), right, 1e-13) and close(root.T @ root, right, 1e-13)
    assert close(F.other_half(F.scaled(half)), np.linalg.solve(M, b), 1e-13)


def test_directions_of_the_oracle() -> None:
    """What these tests themselves say of rows agrees with the velocities of frames."""
    model, rng = tree(2)
    q, v, a = state(model, rng)
    frame, other = two_frames(model, rng)
    V = seen(model, moved(model, q, v, a), frame, other).V
    c = Rolling(frame, 0.2, other, (0.0, 0.0, 1.0))
    assert close(held_directions(c)[0] @ V, V[3:] + np.cross(V[:3], [0.0, 0.0, -0.2]), 1e-14)


def test_labels() -> None:
    model = lw.robots.quadruped()
    assert Weld(FEET[0]).labels(model) == tuple(f"{FEET[0]}.{x}" for x in ("wx", "wy", "wz", "x", "y", "z"))
    assert Connect(FEET[0], FEET[1]).labels(model) == tuple(f"{FEET[0]}.{x}" for x in "xyz")
    assert Hold(FEET[0], "z wx").labels(model) == (f"{FEET[0]}.z", f"{FEET[0]}.wx")
    assert (
        OnPlane(FEET[0]).labels(model) == (f"{FEET[0]}.normal",)
        and len(Rolling(FEET[0], 0.1).labels(model)) == 3
    )
    joint = model.joints[0]
    assert Locked(joint.name).labels(model) == joint.v_names and len(joint.v_names) == 6
    names = [j.name for j in model.joints[1:3]]
    assert Coupled(dict.fromkeys(names, 1.0)).labels(model) == (" + ".join(names),)


def test_constraints_are_values() -> None:
    assert (
        Weld("a") == Weld("a", "world") and hash(Weld("a")) == hash(Weld("a")) and Weld("a") != Connect("a")
    )
    assert Hold("a", "x y") == Hold("a", ("x", "y")) != Hold("a", "y x")
    assert OnPlane("a", normal=(0, 0, 2)) == OnPlane("a") and Coupled({"j": 1}) == Coupled((("j", 1.0),))
    with pytest.raises(AttributeError):
        Weld("a").frame = "b"  # type: ignore[misc]


# bad input


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "row": (lambda: Hold("a", "x q"), "no row 'q'"),
    "no row": (lambda: Hold("a", ""), "at least one"),
    "row twice": (lambda: Hold("a", "x x"), "different rows"),
    "axes": (lambda: Hold("a", "x", axes="world"), "'frame' or 'to', got 'world'"),
    "zero normal": (lambda: OnPlane("a", normal=(0, 0, 0)), "not all zero"),
    "short normal": (lambda: OnPlane("a", normal=(0, 1)), "three numbers"),  # type: ignore[arg-type]
    "normal": (lambda: Rolling("a", 0.1, normal=(0, np.nan, 1)), "Rolling's normal: expected a direction"),
    "no radius": (lambda: Rolling("a", 0.0), "radius: expected a number above zero"),
    "radius": (lambda: Rolling("a", float("nan")), "radius: expected a number above zero"),
    "stiffness": (lambda: Gains(-1.0), "stiffness: expected a non-negative number"),
    "damping": (lambda: Gains(1.0, float("inf")), "damping: expected a non-negative number"),
    "word as a gain": (lambda: Gains("1"), "stiffness: expected a non-negative number"),  # type: ignore[arg-type]
    "no joints": (lambda: Coupled({}), "needs joints"),
    "joint twice": (lambda: Coupled((("a", 1.0), ("a", 2.0))), "each once"),
    "zeros": (lambda: Coupled({"a": 0.0}), "not all zero"),
    "not a number": (lambda: Coupled({"a": float("nan")}), "expected finite"),
    "word as a coefficient": (lambda: Coupled({"a": "x"}), "expected numbers"),
    "no terms": (lambda: Coupled(5), "coefficients by joint"),
    "offset": (lambda: Coupled({"a": 1.0}, offset=float("nan")), "offset: expected finite numbers"),
    "no gains": (lambda: Weld("a", gains=3.0), "expected Gains"),  # type: ignore[arg-type]
    "gains of a lock": (lambda: Locked("a", gains=None), "expected Gains"),  # type: ignore[arg-type]
    "no names": (lambda: Hold("a", 5), "expected names out of"),  # type: ignore[arg-type]
    "word as a radius": (lambda: Rolling("a", "x"), "radius: expected a number above zero"),  # type: ignore[arg-type]
    "one number for a lock": (lambda: Locked("a", at=5), "expected numbers"),  # type: ignore[arg-type]
    "truth as a gain": (lambda: Gains(True), "stiffness: expected a non-negative number"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_values(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(ModelError, match=message):
        make()


def with_fixed_parts() -> Model:
    builder = ModelBuilder("parts")
    for name in ("arm", "plate", "stand"):
        builder.add_body(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", Revolute(), parent="world", child="arm")
    builder.add_joint("screwed", Fixed(), parent="arm", child="plate")
    builder.add_joint("bolted", Fixed(), parent="world", child="stand")
    builder.add_frame("mark", body="world", xyz=(1.0, 0.0, 0.0))
    return builder.build()


MISFITS: dict[str, tuple[Callable[[], Any], str]] = {
    "no such frame": (lambda: Weld("arms"), "parts has no frame named 'arms'.*arm"),
    "no such end": (lambda: Connect("arm", "flor"), "no frame named 'flor'"),
    "itself": (lambda: Weld("arm", "arm"), "both frames are on the same body 'arm'"),
    "same body": (lambda: Hold("arm", "x", "plate"), "both frames are on the same body 'arm'"),
    "ground": (lambda: OnPlane("mark"), "both frames are fixed to the ground"),
    "bolted to the ground": (lambda: Rolling("stand", 0.1, "mark"), "both frames are fixed to the ground"),
    "no such joint": (lambda: Locked("hing"), "no joint named 'hing'.*hinge"),
    "fixed joint": (lambda: Locked("bolted"), "no joint named"),
    "wrong place": (lambda: Locked("hinge", (0.0, 1.0)), "expected 1 coordinates of the joint, got 2"),
    "coupled to nothing": (lambda: Coupled({"hinge": 1.0, "nothing": 1.0}), "no joint named 'nothing'"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_constraints_that_do_not_fit_the_model(name: str) -> None:
    make, message = MISFITS[name]
    model = with_fixed_parts()
    for fn in (lw.constrained_dynamics, lw.delassus, lw.impact, lw.damped_delassus_inverse):
        with pytest.raises(ModelError, match=message):
            fn.program(model, constraints=[Weld("arm"), make()])


def test_joints_of_several_velocities_are_not_coupled() -> None:
    model = lw.robots.quadruped()
    with pytest.raises(ModelError, match="has 6 velocities; only joints of one can be coupled"):
        lw.delassus.program(model, constraints=Coupled({model.joints[0].name: 1.0}))


def test_locks_hold_joints_at_their_coordinates() -> None:
    """The error of a lock is the motion from its coordinates, in every kind of joint, however far they are."""
    rng = np.random.default_rng(5)
    model = every_kind(rng)
    at = np.array(model.random_state(rng)[0])
    for joint in model.joints:
        if isinstance(joint.kind, Planar):
            at[joint.q_slice][2] = 0.5 * np.pi
    error, v = rng.normal(size=(2, model.nv))
    q = lw.integrate(model, at, error)
    locks = [
        Locked(joint.name, tuple(3.0 * at[joint.q_slice] if joint.nq in (4,) else at[joint.q_slice]))
        for joint in model.joints
    ]
    pulled = [replace(lock, gains=Gains(stiffness=3.0, damping=0.7)) for lock in locks]
    free, held = (
        lw.constraint_bias.body(
            model, q, v, **lw.constraint_bias.normalize_options(model, {"constraints": c})
        )
        for c in (locks, pulled)
    )
    targets = np.asarray(free - held, dtype=float)
    assert np.allclose(targets, -3.0 * error - 0.7 * v, rtol=0.0, atol=1e-12)


def test_a_lock_at_no_coordinates() -> None:
    builder = ModelBuilder("ball").add_body("ball", mass=1.0, inertia=(1.0, 1.0, 1.0))
    model = builder.add_joint("joint", lw.joints.Spherical(), parent="world", child="ball").build()
    with pytest.raises(ModelError, match="expected coordinates of the joint"):
        lw.constraint_jacobian(model, model.neutral(), constraints=Locked("joint", (0.0,) * 4))
