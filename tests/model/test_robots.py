"""The shipped robots: what they are, that they could exist, and that left mirrors right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import robots
from linkwork.joints import Fixed, Free, Prismatic, Revolute, Spherical
from linkwork.model import GROUND, Model
from linkwork.robots.solids import Solid, box, cylinder, ellipsoid
from linkwork.spatial import physical_problems

OWN = ("arm", "quadruped", "humanoid")  # the others are tested in test_loop_robots
WALKERS = {
    "quadruped": [f"{end}_{side}_foot" for end in ("front", "rear") for side in ("left", "right")],
    "humanoid": ["left_sole", "right_sole"],
}


def robot(name: str) -> Model:
    return getattr(robots, name)()


# what they are


@pytest.mark.parametrize(
    ("name", "bodies", "nq", "nv", "mass"),
    [("arm", 7, 7, 7, 15.65), ("quadruped", 13, 19, 18, 13.0), ("humanoid", 32, 38, 37, 56.4)],
)
def test_sizes(name: str, bodies: int, nq: int, nv: int, mass: float) -> None:
    model = robot(name)
    assert (len(model.bodies), model.nq, model.nv, model.name) == (bodies, nq, nv, name)
    assert model.mass == pytest.approx(mass, abs=1e-9)
    assert name in robots.names()


NUMBERS = ("mass", "center", "inertia", "armature", "damping", "stiffness", "friction", "placement", "ratio",
           "frame_placement")  # fmt: skip


def fingerprint(model: Model) -> float:
    """A weighted sum of all numbers of a model."""
    parameters = model.parameters()
    numbers = [np.ravel(parameters[word]) for word in NUMBERS if word in parameters]
    bounds = ("lower", "upper", "max_velocity", "max_effort")
    numbers += [np.ravel(getattr(joint, word)) for joint in model.joints for word in bounds]
    x = np.concatenate(numbers)
    x = x[np.isfinite(x)]
    return float(x @ np.cos(np.arange(len(x))))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("arm", 33.70630843901273),
        ("quadruped", 34.358603067848854),
        ("humanoid", 143.31227693935475),
        ("mini_cheetah", -113.43639102947469),
        ("mit_humanoid", -11.60698876430104),
        ("mit_humanoid_leg", -198.57243333879848),
        ("tello", 119.93693400609556),
        ("jvrc1", 111.72899535122593),
        ("four_bar", 7.0130665010552775),
        ("six_bar", -1.362286560676281),
        ("planar_leg_linkage", -0.013740185422267959),
        ("five_bar", -0.051600477958314406),
        ("slider_crank", 3.0879786381388388),
        ("watt", -0.11144120547568093),
        ("bricard", 1.244164168766534),
        ("delta", -2.86953500890427),
        ("stewart", 2.2012020449738348),
        ("hexapod_leg", -19.428862013197193),
    ],
)
def test_published_figures_are_of_these_robots(name: str, expected: float) -> None:
    """Operation counts and times in the documentation are of these masses, lengths and limits."""
    assert fingerprint(robot(name)) == pytest.approx(expected, rel=1e-11)


def test_names_are_all_robots() -> None:
    sizes = {name: robot(name).nv for name in OWN}
    assert sizes == {"arm": 7, "quadruped": 18, "humanoid": 37} and robots.names()[:3] == OWN


@pytest.mark.parametrize("name", OWN)
def test_bodies_could_exist(name: str) -> None:
    model = robot(name)
    for body in model.bodies:
        assert physical_problems(body.mass, body.moment) == []
        assert body.mass > 0.05 and np.linalg.eigvalsh(body.moment)[0] > 1e-6 * body.mass
    assert model.notes == ()
    assert model.report().endswith("\nnothing unusual")


@pytest.mark.parametrize("name", OWN)
def test_joints_are_motors_with_limits(name: str) -> None:
    model = robot(name)
    driven = [joint for joint in model.joints if joint.nv == 1]
    assert len(driven) == model.nv - (0 if name == "arm" else 6)
    for joint in driven:
        (low,), (high,), (effort,), (speed,) = joint.lower, joint.upper, joint.max_effort, joint.max_velocity
        assert low <= 0.0 <= high and 0.7 < high - low < 2 * np.pi
        assert 1.0 < effort < 300.0 and 1.0 < speed < 40.0
        assert 0.001 < joint.armature[0] < 2.0 and 0.01 < joint.damping[0] < 5.0


@pytest.mark.parametrize("name", OWN)
def test_the_same_model_again(name: str) -> None:
    assert robot(name) is robot(name)


def test_digests_are_the_same_in_another_process() -> None:
    models = "*(getattr(robots, name)() for name in robots.names()), robots.chain(5)"
    code = f"from linkwork import robots; print(*(model.digest for model in [{models}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*(robot(name).digest for name in robots.names()), robots.chain(5).digest]


def test_arm_reaches() -> None:
    model = robots.arm()
    tool, shoulder = (lw.frame_pose(model, model.neutral(), frame=frame) for frame in ("tool", "upper_arm"))
    assert np.allclose(tool[:3, 3] - shoulder[:3, 3], (0.0, 0.0, 0.90)) and np.allclose(
        tool[:3, :3], np.eye(3)
    )
    assert model.joints[0].parent == GROUND and model.frame("pedestal").body == GROUND


@pytest.mark.parametrize("name", WALKERS)
def test_stands_at_zero(name: str) -> None:
    model = robot(name)
    q = model.neutral()
    feet = np.array([lw.frame_pose(model, q, frame=foot)[:3, 3] for foot in WALKERS[name]])
    assert np.ptp(feet[:, 2]) < 1e-12 and feet[0, 2] < -0.35
    center = lw.center_of_mass(model, q)
    assert abs(center[1]) < 1e-12  # in the plane of symmetry
    reach = 0.0 if name == "quadruped" else 0.1  # of the sole, ahead and behind
    assert feet[:, 0].min() - reach < center[0] < feet[:, 0].max() + reach
    lower = [body for body in model.bodies if body.name.endswith(("shank", "foot"))]
    for body in lower:  # no part hangs lower than the feet
        assert lw.frame_pose(model, q, frame=body.name)[2, 3] > feet[0, 2]


# left and right


class Mirror:
    """The reflection of a model's states in the plane y = 0."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.q_sign, self.v_sign = np.ones(model.nq), np.ones(model.nv)
        self.q_from, self.v_from = np.arange(model.nq), np.arange(model.nv)
        for joint in model.joints:
            if joint.nv == 6:
                self.q_sign[joint.q_slice], self.v_sign[joint.v_slice] = (
                    (1, -1, 1, -1, 1, -1, 1),
                    (-1, 1, -1, 1, -1, 1),
                )
                continue
            other = model.joint(self.other(joint.name))
            self.q_from[joint.q_start], self.v_from[joint.v_start] = other.q_start, other.v_start
            across = 1 if abs(np.array(joint.kind.axis))[1] == 1 else -1  # type: ignore[attr-defined]
            self.q_sign[joint.q_start] = self.v_sign[joint.v_start] = across

    @staticmethod
    def other(name: str) -> str:
        return name.replace("left", "LEFT").replace("right", "left").replace("LEFT", "right")

    def q(self, q: np.ndarray) -> np.ndarray:
        return self.q_sign * q[self.q_from]

    def v(self, v: np.ndarray) -> np.ndarray:
        return self.v_sign * v[self.v_from]


@pytest.mark.parametrize("name", WALKERS)
def test_dynamics_are_mirrored(name: str) -> None:
    model = robot(name)
    mirror = Mirror(model)
    rng = np.random.default_rng(3)
    for _ in range(5):
        (q, v), a = model.random_state(rng), rng.normal(size=model.nv)
        tau = lw.inverse_dynamics(model, q, v, a)  # gravity, velocities, armature and damping too
        assert np.allclose(
            lw.inverse_dynamics(model, mirror.q(q), mirror.v(v), mirror.v(a)), mirror.v(tau), atol=1e-9
        )


@pytest.mark.parametrize("name", WALKERS)
def test_limits_and_motors_are_mirrored(name: str) -> None:
    model = robot(name)
    mirror = Mirror(model)
    lower, upper = (
        np.concatenate([getattr(joint, word) for joint in model.joints])[7:] for word in ("lower", "upper")
    )
    sign = mirror.q_sign[7:]
    other = mirror.q_from[7:] - 7
    assert np.array_equal(np.where(sign > 0, lower[other], -upper[other]), lower)
    assert np.array_equal(np.where(sign > 0, upper[other], -lower[other]), upper)
    for word in ("max_effort", "max_velocity"):
        values = np.concatenate([getattr(joint, word) for joint in model.joints])
        assert np.array_equal(values[mirror.v_from], values)


@pytest.mark.parametrize("name", WALKERS)
def test_frames_are_mirrored(name: str) -> None:
    model = robot(name)
    names = [frame.name for frame in model.frames]
    flip = np.array([1.0, -1.0, 1.0])
    for frame in model.frames:
        assert Mirror.other(frame.name) in names
        place = model.frame(Mirror.other(frame.name)).place.p
        assert np.array_equal(place, flip * frame.place.p)


def test_knees_and_elbows_bend_as_they_should() -> None:
    model = robots.humanoid()

    def moved(joint: str, angle: float, frame: str) -> np.ndarray:
        q = model.neutral()
        at_rest = lw.frame_pose(model, q, frame=frame)[:3, 3]
        q[model.joint(joint).q_slice] = angle
        return lw.frame_pose(model, q, frame=frame)[:3, 3] - at_rest

    assert moved("left_knee", 1.0, "left_sole")[0] < -0.2  # the foot goes back
    assert moved("right_elbow", -1.0, "right_palm")[0] > 0.2  # the hand comes forward
    assert moved("left_hip_roll", 0.5, "left_sole")[1] > 0.2  # the leg goes out
    assert moved("right_hip_roll", -0.5, "right_sole")[1] < -0.2
    assert moved("waist_pitch", 0.5, "crown")[0] > 0.2  # bowing


# solids


def sampled(
    inside: Callable[[np.ndarray], np.ndarray], mass: float, n: int = 60
) -> tuple[np.ndarray, np.ndarray]:
    """Centre and moment of inertia about it, of a uniform solid within 1 m of the origin, from its points on
    a grid.
    """
    line = (np.arange(n) + 0.5) / n * 2 - 1
    points = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(-1, 3)
    points = points[inside(points)]
    center = points.mean(axis=0)
    r = points - center
    second = r.T @ r / len(r)
    return center, mass * (np.trace(second) * np.eye(3) - second)


@pytest.mark.parametrize(
    ("solid", "inside"),
    [
        (
            box(3.0, (0.6, 1.0, 0.4), at=(0.1, -0.2, 0.3)),
            lambda p: (np.abs(p - (0.1, -0.2, 0.3)) < (0.3, 0.5, 0.2)).all(axis=1),
        ),
        (ellipsoid(2.0, (1.0, 1.6, 0.8)), lambda p: np.square(p / (0.5, 0.8, 0.4)).sum(axis=1) < 1),
        (cylinder(2.0, 0.5, 1.6), lambda p: (np.hypot(p[:, 0], p[:, 1]) < 0.5) & (np.abs(p[:, 2]) < 0.8)),
        (
            cylinder(2.0, 0.5, 1.6, "x"),
            lambda p: (np.hypot(p[:, 1], p[:, 2]) < 0.5) & (np.abs(p[:, 0]) < 0.8),
        ),
        (
            cylinder(2.0, 0.5, 1.6, "y"),
            lambda p: (np.hypot(p[:, 0], p[:, 2]) < 0.5) & (np.abs(p[:, 1]) < 0.8),
        ),
    ],
)
def test_solids_are_uniform(solid: Solid, inside: Any) -> None:
    center, moment = sampled(inside, solid.mass)
    assert np.allclose(solid.center, center, atol=0.002)
    assert np.allclose(solid.moment, moment, atol=0.01 * moment.max())


def test_two_halves_are_a_whole() -> None:
    whole = box(3.0, (0.6, 1.0, 0.4), at=(0.1, 0.2, 0.3))
    halves = box(1.5, (0.3, 1.0, 0.4), at=(-0.05, 0.2, 0.3)) + box(1.5, (0.3, 1.0, 0.4), at=(0.25, 0.2, 0.3))
    assert (
        halves.mass == whole.mass
        and np.allclose(halves.center, whole.center)
        and np.allclose(halves.moment, whole.moment)
    )


def test_a_mirrored_solid() -> None:
    a = box(1.0, (0.2, 0.3, 0.4), at=(0.1, 0.2, 0.3))
    b = cylinder(2.0, 0.1, 0.5, "x", at=(0.3, 0.1, -0.2))
    c = box(1.0, (0.2, 0.3, 0.4), at=(0.1, -0.2, 0.3))
    d = cylinder(2.0, 0.1, 0.5, "x", at=(0.3, -0.1, -0.2))
    assert np.allclose((a + b).mirrored().center, (c + d).center) and np.allclose(
        (a + b).mirrored().moment, (c + d).moment
    )
    assert abs((a + b).moment[0, 1]) > 0.01  # there is something to mirror


# chains and trees


def parents(model: Model) -> dict[int, int]:
    """Which body each hangs on, by the numbers in their names; -1 for the world."""
    number = [int(body.name.removeprefix("body_")) for body in model.bodies]
    return {
        number[joint.child]: -1 if joint.parent == GROUND else number[joint.parent] for joint in model.joints
    }


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_chain(n: int) -> None:
    model = robots.chain(n)
    assert model.nq == model.nv == len(model.bodies) == n
    assert parents(model) == {k: k - 1 for k in range(n)}
    assert model.mass == pytest.approx(0.5 * n) and model is robots.chain(n)
    assert model.report().endswith("\nnothing unusual")


def test_chain_with_branches() -> None:
    model = robots.chain(11, branches=3)
    assert parents(model) == {0: -1, 1: 0, 2: 0, 3: 0, 4: 1, 5: 2, 6: 3, 7: 4, 8: 5, 9: 6, 10: 7}
    assert parents(robots.chain(2, branches=3)) == {0: -1, 1: 0}


@pytest.mark.parametrize("n", [1, 2, 6, 1000])
def test_binary_tree(n: int) -> None:
    model = robots.binary_tree(n)
    assert model.nv == n and model is robots.binary_tree(n)
    assert parents(model) == {k: (k - 1) // 2 if k else -1 for k in range(n)}


def test_children_of_a_tree_hang_apart() -> None:
    model = robots.binary_tree(3)
    left, right = (lw.frame_pose(model, model.neutral(), frame=f"body_{k}")[:3, 3] for k in (1, 2))
    assert np.allclose(left, (0.03, 0.0, -0.2)) and np.allclose(right, (-0.03, 0.0, -0.2))


def test_joints_take_turns() -> None:
    x = Revolute((1.0, 0.0, 0.0))
    y = Revolute((0.0, 1.0, 0.0))
    slide = Prismatic()
    assert [joint.kind for joint in robots.chain(4).joints] == [x, y, x, y]
    assert [joint.kind for joint in robots.chain(3, joint=slide).joints] == [slide] * 3
    for make in (robots.chain, robots.binary_tree):
        free = make(4, base=Free())
        assert [joint.kind for joint in free.joints] == [
            Free(),
            *(joint.kind for joint in make(4).joints[1:]),
        ] and free.nv == 9
    assert [joint.kind for joint in robots.chain(5, joint=[x, y, slide]).joints] == [x, y, slide, x, y]
    assert [joint.kind for joint in robots.binary_tree(3).joints] == [x, y, y]  # with the levels
    assert robots.chain(4, joint=Spherical()).nq == 16


def test_one_rod_is_a_pendulum() -> None:
    model = robots.chain(1)
    moment = 0.5 * (0.2**2 / 3 + 0.02**2 / 4)  # of a cylinder about its end
    a = lw.forward_dynamics(model, [0.3], [0.0], [0.0])
    assert a[0] == pytest.approx(-0.5 * 9.81 * 0.1 * np.sin(0.3) / moment, rel=1e-12)


@pytest.mark.parametrize("make", [robots.chain, robots.binary_tree])
@pytest.mark.parametrize("n", [0, -3, 2.0, True, "3", None])
def test_bad_sizes(make: Callable[..., Model], n: Any) -> None:
    with pytest.raises(lw.ModelError, match="n: expected a positive integer"):
        make(n)


def test_bad_branches_and_joints() -> None:
    with pytest.raises(lw.ModelError, match="branches: expected a positive integer, got 0"):
        robots.chain(3, branches=0)
    for joint in ((), Fixed(), ["x"], 5):
        with pytest.raises(lw.ModelError, match="joint: expected one or several movable joints"):
            robots.chain(3, joint=joint)  # type: ignore[arg-type]


def test_sizes_may_be_numpy_numbers() -> None:
    assert robots.chain(np.int64(3)) is robots.chain(3)
