"""The shipped robots and mechanisms with loops: what they are, that they close, and that they obey the laws
of loops.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import robots
from linkwork.model import Model
from linkwork.robots.tello import hip, knee_ankle
from loops import closure_error, loop_laws, on_numbers, spanning_tree

FILES = Path(os.environ.get("LINKWORK_URDF_PLUS") or Path(__file__).parents[2] / "../shared/data/urdf_plus")
with_files = pytest.mark.skipif(
    not (FILES / "four_bar.urdf").is_file(), reason="needs the URDF+ files (LINKWORK_URDF_PLUS)"
)

# bodies, nv, sizes of clusters and how many there are of each
ROBOTS: dict[str, tuple[int, int, dict[int, int]]] = {
    "mini_cheetah": (25, 18, {1: 1, 2: 12}),
    "mit_humanoid": (37, 24, {1: 1, 2: 14, 4: 2}),
    "mit_humanoid_leg": (10, 5, {2: 3, 4: 1}),
    "tello": (21, 16, {1: 1, 2: 2, 4: 4}),
    "jvrc1": (58, 38, {1: 8, 2: 25}),
    "four_bar": (3, 1, {3: 1}),
    "six_bar": (5, 3, {5: 1}),
    "planar_leg_linkage": (4, 2, {1: 1, 3: 1}),
    "five_bar": (4, 2, {4: 1}),
    "slider_crank": (3, 1, {3: 1}),
    "watt": (5, 1, {5: 1}),
    "bricard": (5, 1, {5: 1}),
    "delta": (10, 3, {10: 1}),
    "stewart": (13, 6, {13: 1}),
}
GEARED = ("mini_cheetah", "mit_humanoid", "mit_humanoid_leg", "tello", "jvrc1")
REDUNDANT = {
    "four_bar": (5, 2),
    "watt": (10, 4),
    "bricard": (5, 4),
    "stewart": (18, 18),
    "delta": (18, 18),
}  # equations, rank


@cache
def robot(name: str, **options: Any) -> Model:
    return getattr(robots, name)(**options)


# The same again, and those that need arguments.
EVERY: dict[str, Callable[[], Model]] = {name: lambda name=name: robot(name) for name in ROBOTS}  # type: ignore[misc]
EVERY |= {
    "tello with arms": lambda: robots.tello(arms=True),
    "stewart by its platform": lambda: robots.stewart("platform"),
    "link_rotor_chain": lambda: robots.link_rotor_chain(3, branches=2),
    "belt_chain": lambda: robots.belt_chain(2, branches=2),
    "four_bar_chain": lambda: robots.four_bar_chain(3, branches=2),
    "transmission_loop": lambda: robots.transmission_loop(4, 2, ratio=2.0),
    "connecting_rod_loop": lambda: robots.connecting_rod_loop(3),
    "scissor_lift": lambda: robots.scissor_lift(4),
    "connecting_rod_loop, near": lambda: robots.connecting_rod_loop(3, 1),
    "mit_humanoid_leg in blocks": lambda: robots.mit_humanoid_leg(approximate="block"),
}


# what they are


def sizes(model: Model) -> dict[int, int]:
    return dict(Counter(len(cluster.bodies) for cluster in model.clusters))


@pytest.mark.parametrize("name", ROBOTS)
def test_counts(name: str) -> None:
    model = robot(name)
    assert (len(model.bodies), model.nv, sizes(model)) == ROBOTS[name]
    assert name in robots.names() and robots.__dict__[name]() is model


def test_tello_with_arms() -> None:
    model = robots.tello(arms=True)
    assert (len(model.bodies), model.nv, sizes(model)) == (37, 24, {1: 1, 2: 10, 4: 4})
    assert len(model.clusters) == 15 and len(robots.tello().clusters) == 7


@pytest.mark.parametrize("name", REDUNDANT)
def test_rank_of_loops(name: str) -> None:
    (cluster,) = robot(name).clusters
    assert (cluster.count, len(cluster.rows)) == REDUNDANT[name]


def test_chains() -> None:
    model = robots.link_rotor_chain(4, branches=3)
    assert (len(model.bodies), model.nv, sizes(model)) == (24, 12, {2: 12})
    model = robots.belt_chain(4, branches=2)
    assert (len(model.bodies), model.nv, sizes(model)) == (32, 16, {4: 8})
    model = robots.four_bar_chain(4, branches=2)
    assert (len(model.bodies), model.nv, sizes(model)) == (24, 8, {3: 8})
    for at in (1, 3, 5):
        assert (robots.transmission_loop(5, at).nv, sizes(robots.transmission_loop(5, at))[2 * at]) == (9, 1)
        assert (
            robots.connecting_rod_loop(5, at).nv,
            sizes(robots.connecting_rod_loop(5, at))[2 * at + 1],
        ) == (9, 1)
    assert robots.belt_chain(4, 2) is robots.belt_chain(4, branches=2)
    assert robots.transmission_loop(5) is robots.transmission_loop(5, 5)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: robots.link_rotor_chain(0), "n: expected .* got 0"),
        (lambda: robots.belt_chain(2, branches=-1), "branches: expected .* got -1"),
        (lambda: robots.four_bar_chain(1.5), "n: expected .* got 1.5"),
        (lambda: robots.transmission_loop(3, 4), "at: expected .* depth 3, got 4"),
        (lambda: robots.transmission_loop(3, ratio=0.0), "ratio: expected .* nonzero .* got 0.0"),
        (lambda: robots.connecting_rod_loop("3"), "depth: expected .* got '3'"),
        (lambda: robots.connecting_rod_loop(3, 0), "at: expected .* got 0"),
        (lambda: robots.mini_cheetah(approximate="roughly"), "approximate: expected .* got 'roughly'"),
        (lambda: robots.mini_cheetah(approximate=None), "approximate: expected .* got None"),
        (lambda: robots.tello(arms=2), "arms: expected True or False, got 2"),
        (lambda: robots.stewart("feet"), "coordinates: expected .* got 'feet'"),
    ],
)
def test_bad_arguments(bad: Callable[[], Model], words: str) -> None:
    with pytest.raises(lw.ModelError, match=words):
        bad()


# as the files say


@with_files
@pytest.mark.parametrize(
    ("name", "file"),
    [
        (name, name)
        for name in (
            "mini_cheetah",
            "mit_humanoid",
            "mit_humanoid_leg",
            "four_bar",
            "six_bar",
            "planar_leg_linkage",
        )
    ]
    + [("jvrc1", "jvrc1_humanoid")],
)
def test_equal_to_file(name: str, file: str) -> None:
    same(robot(name), lw.load(str(FILES / f"{file}.urdf"), base="fixed"))


@with_files
@pytest.mark.parametrize(
    ("name", "file", "options"),
    [(name, name, {}) for name in ("mini_cheetah", "mit_humanoid")]
    + [("jvrc1", "jvrc1_humanoid", {}), ("tello", "tello_humanoid", {"arms": True})],
)
def test_ignoring_rotors_is_as_the_file(
    name: str, file: str, options: dict[str, Any], tmp_path: Path
) -> None:
    text = (FILES / f"{file}_approximate.urdf").read_text()
    if (
        name == "jvrc1"
    ):  # its limbs hang on the link "base", from which the pelvis floats away: the pelvis is meant
        start, end = text.split("</joint>", 1)
        text = start + "</joint>" + end.replace('<parent link="base"/>', '<parent link="pelvis"/>')
    (tmp_path / "robot.urdf").write_text(text)
    loaded = lw.load(str(tmp_path / "robot.urdf"), base="fixed")
    same(getattr(robots, name)(**options, approximate="ignored"), loaded, names=False)


@with_files
def test_tree_of_tello_is_as_the_file(tmp_path: Path) -> None:
    text = (FILES / "tello_humanoid.urdf").read_text()
    rounded = (
        tmp_path / "tello.urdf"
    )  # the file has right angles to seven digits: here they are meant exactly
    exact = text.replace("3.1415927", f"{pi}").replace("1.5707963", f"{pi / 2}")
    rounded.write_text(
        exact.replace(' independent="false"', "")
    )  # the loops that it speaks of are not in the file
    same(spanning_tree(robots.tello(arms=True)), lw.load(str(rounded), base="fixed"))


def same(model: Model, loaded: Model, *, names: bool = True) -> None:
    """The same joints and bodies in the same order, and the same dynamics."""
    assert (model.nq, model.nv, len(model.clusters)) == (loaded.nq, loaded.nv, len(loaded.clusters))
    if names:
        assert [joint.name for joint in model.joints] == [joint.name for joint in loaded.joints]
        assert [body.name for body in model.bodies] == [body.name for body in loaded.bodies]
        assert model.v_names == loaded.v_names
    rng = np.random.default_rng(4)
    for _ in range(3):
        q, v = loaded.random_state(rng)
        a = rng.normal(size=loaded.nv)
        found, right = (on_numbers(lw.inverse_dynamics, each, q, v, a) for each in (model, loaded))
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12 * np.abs(right).max())


# loops


@pytest.mark.parametrize("name", EVERY)
def test_states_are_closed(name: str) -> None:
    model = EVERY[name]()
    rng = np.random.default_rng(1)
    for q in (model.neutral(), *(model.random_state(rng)[0] for _ in range(5))):
        assert closure_error(model, q) < 1e-10


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.sweep(3)
def test_laws_of_loops(name: str) -> None:
    errors = loop_laws(EVERY[name]())
    assert max(errors[law] for law in ("closed", "velocity", "acceleration")) < 1e-10, errors
    assert max(errors[law] for law in ("inverse", "mass", "energy")) < 1e-11, errors
    assert max(errors[law] for law in ("kkt", "forward", "factorised")) < 1e-9, errors


@pytest.mark.parametrize("name", ["slider_crank", "watt", "four_bar_chain"])
def test_cranks_turn_all_round(name: str) -> None:
    model = robots.four_bar_chain(1) if name == "four_bar_chain" else robot(name)
    q = model.neutral()
    for angle in np.linspace(0.0, 2.0 * pi, 25):
        q[0] = angle
        q, _ = lw.close_loops.body(model, q)
        q = q.astype(float)
        assert closure_error(model, q) < 1e-10 and q[0] == angle


def test_delta_stays_level() -> None:
    model = robot("delta")
    for seed in range(5):
        q, v = model.random_state(seed)
        moved = on_numbers(lw.spanning_velocity, model, q, v)[model.joint("platform").v_slice]
        assert np.abs(q[model.joint("platform").q_slice][3:6]).max() < 1e-9
        assert np.abs(moved[:3]).max() < 1e-9 < np.abs(moved[3:]).max()


def test_differentials_of_tello() -> None:
    """The hip's linkage is its own mirror image, and both rotors together only bend, against each other only
    roll.
    """
    y1 = 0.3
    y2 = -0.7
    q1 = 0.2
    q2 = 0.4
    np.testing.assert_allclose(
        hip(np.array([y1, y2, q1, q2])), hip(np.array([y2, y1, -q1, q2]))[::-1], atol=1e-15
    )
    model = robots.tello()
    q = model.neutral()
    J = reflected(model, "left hip differential", q)
    assert J[0, 0] == pytest.approx(-J[1, 0]) and J[0, 1] == pytest.approx(J[1, 1])
    np.testing.assert_allclose(np.abs(J), [[5.31, 6.07]] * 2, atol=0.2)
    rod, knee = knee_ankle(np.array([6.0, 6.0, 1.0, 0.0]))
    assert knee == 0.0 and abs(rod) < 1e-5  # the rotors together turn the knee, and leave the ankle


def reflected(model: Model, closure: str, q: np.ndarray) -> np.ndarray:
    """How fast two rotors turn for the two joints of their links, (2, 2)."""
    from linkwork.loops.motion import cluster_posture

    cluster = next(c for c in model.clusters if any(one.name == closure for one in c.constraints))
    posture = cluster_posture(model, cluster.bodies, q)
    K = cluster.constraints[0].equations(posture)[0].astype(float)
    columns = [posture.columns[k].start for k in cluster.constraints[0].joints]  # type: ignore[union-attr]
    return -np.linalg.solve(K[:, columns[:2]], K[:, columns[2:]])


def test_a_simulated_tello_stays_closed() -> None:
    """Its legs swing on springs for ten seconds while it falls; nothing but integration keeps the
    differentials closed.
    """
    model = robot("tello")
    rng = np.random.default_rng(0)
    legs = [model.joint(name) for name in model.v_names[6:]]
    places = [joint.q_start for joint in legs]
    stiffness = np.array([0.1 if "rotor" in joint.name else 20.0 for joint in legs])
    q = start = model.neutral()
    v = np.concatenate([np.zeros(6), rng.normal(size=len(legs)) * np.where(stiffness < 1.0, 12.0, 1.0)])
    h = 2e-3
    way = 0.0
    for _ in range(5000):
        tau = np.concatenate([np.zeros(6), -stiffness * (q - start)[places] - 5e-4 * stiffness * v[6:]])
        v = v + h * lw.forward_dynamics(model, q, v, tau)
        q = lw.integrate(model, q, h * v)
        way = max(way, float(np.abs(q - start)[7:].max()))
    assert closure_error(model, q) < 1e-9 and 0.2 < way < pi


# approximations


@pytest.mark.parametrize("name", GEARED)
@pytest.mark.sweep(2)
def test_approximations(name: str) -> None:
    exact = robot(name)
    models = {how: robot(name, approximate=how) for how in ("ignored", "diagonal", "block")}
    assert robot(name, approximate=True) is models["diagonal"]
    for how, model in models.items():
        assert model.nv == exact.nv and model.mass < exact.mass + 1e-12
        assert how == "block" or not model.embedded
    rng = np.random.default_rng(0)
    q, _ = models["ignored"].random_state(rng)
    M = {
        how: on_numbers(lw.mass_matrix, model, states(model, models["ignored"], q))
        for how, model in models.items()
    }
    order = [models["ignored"].v_names.index(entry) for entry in models["block"].v_names]
    block = np.zeros_like(M["block"])
    block[np.ix_(order, order)] = M["block"]
    added = {"diagonal": M["diagonal"] - M["ignored"], "block": block - M["ignored"]}
    assert np.abs(added["diagonal"] - np.diag(np.diag(added["diagonal"]))).max() < 1e-12
    np.testing.assert_allclose(np.diag(added["block"]), np.diag(added["diagonal"]), atol=1e-12)
    assert np.linalg.eigvalsh(added["block"]).min() > -1e-12


def states(model: Model, other: Model, q: np.ndarray) -> np.ndarray:
    """The q of a model whose joints stand as those of another."""
    out = model.tree_neutral()
    for joint in other.joints:
        out[model.joint(joint.name).q_slice] = q[joint.q_slice]
    return out


def test_torques_of_the_leg() -> None:
    """Root-mean-square errors of the torque that sine motions take, against the exact leg (Loops Sec. VI-C)."""
    t = np.arange(0.0, 5.0, 5e-4)[:, None]
    w = 2.0 * pi * 1.5
    motion = (0.5 * np.sin(w * t), 0.5 * w * np.cos(w * t), -0.5 * w**2 * np.sin(w * t))
    y, v, a = (np.repeat(x, 5, axis=1) for x in motion)
    right = torque(robot("mit_humanoid_leg"), y, v, a)
    errors = {}
    for how in ("ignored", "diagonal", "block"):
        difference = torque(robot("mit_humanoid_leg", approximate=how), y, v, a) - right
        errors[how] = np.sqrt(np.mean(difference**2, axis=0))
    np.testing.assert_allclose(errors["ignored"], [0.288, 0.266, 0.989, 4.310, 1.588], atol=6e-4)
    np.testing.assert_allclose(errors["diagonal"], [0.206, 0.178, 0.365, 1.045, 0.826], atol=6e-4)
    np.testing.assert_allclose(errors["block"], [0.206, 0.178, 0.365, 0.301, 0.070], atol=6e-4)


def torque(model: Model, y: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The torque of the leg's five joints, (rows, 5), for their angles, velocities and accelerations."""
    joints = [
        "base_to_hipz_link",
        "hipz_to_hipx_link",
        "hipx_to_hipy_link",
        "hipy_to_knee_link",
        "knee_to_ankle",
    ]
    assert model.v_names == tuple(joints)
    q = np.zeros((len(y), model.nq))
    for k, joint in enumerate(joints):
        q[:, model.joint(joint).q_start] = y[:, k]
    return lw.inverse_dynamics(model, q, v, a)
