"""Springs, dampers, armature and motors in loop joints, of embedded and constrained loops."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import linkwork as lw
from holding import close
from linkages import floats
from linkwork.joints import Helical, Prismatic, Revolute
from linkwork.model import Model

UP = Revolute((0.0, 1.0, 0.0))
TIP = np.array([0.0, 0.0, -0.4])
PASSIVE: dict[str, dict[str, float]] = {
    "spring": {"stiffness": 3.0, "rest": 0.2},
    "damper": {"damping": 0.4},
    "armature": {"armature": 0.02},
    "all": {"stiffness": 3.0, "damping": 0.4, "armature": 0.02},
    "none": {},
}


@cache
def five_bar(kind: str | None, embed: bool = True) -> Model:
    """Two arms that share their tip, whose joint closes the loop; with something in it, or only its
    coordinates.
    """
    builder = lw.ModelBuilder("five_bar")
    at: dict[str, np.ndarray] = {"world": np.zeros(3)}
    for side, x in (("left", -0.1), ("right", 0.1)):
        elbow = np.array([2.0 * x, 0.0, -0.18])
        rows = (("upper", "world", np.array([x, 0.0, 0.0]), elbow), ("lower", f"{side}_upper", elbow, TIP))
        for part, on, start, end in rows:
            name = f"{side}_{part}"
            at[name] = start
            builder.add_body(name, mass=0.4, center=(end - start) / 2.0, inertia=(0.01, 0.01, 0.01))
            builder.add_joint(
                f"{name}_joint", UP, parent=on, child=name, xyz=start - at[on], independent=part == "upper"
            )
    ends: dict[str, Any] = {
        "xyz": TIP - at["left_lower"],
        "successor_xyz": TIP - at["right_lower"],
        "embed": embed,
    }
    more: dict[str, Any] = {} if kind is None else {"in_tree": True, **PASSIVE[kind]}
    return builder.add_loop(
        "tip", UP, predecessor="left_lower", successor="right_lower", **ends, **more
    ).build()


class Motion(NamedTuple):
    """A state of the plain linkage, its tip's angle and the map J from velocities to its rate, and the same
    for another.
    """

    q: np.ndarray
    v: np.ndarray
    angle: float
    J: np.ndarray
    J_rate_v: float
    q_of: np.ndarray
    v_of: np.ndarray


def tip_map(q: np.ndarray) -> np.ndarray:
    base = five_bar(None)
    return np.array([floats(lw.loop_joint_velocity, base, q, e, loop="tip")[0] for e in np.eye(base.nv)])


def motion(other: Model) -> Motion:
    base = five_bar(None)
    q, v = base.random_state(4)
    h = 1e-5
    J = tip_map(q)
    ahead, behind = (tip_map(floats(lw.integrate, base, q, x * v)) for x in (h, -h))
    (angle,) = floats(lw.loop_joint_position, base, q, loop="tip")
    V = dict(zip(base.v_names_spanning, floats(lw.spanning_velocity, base, q, v))) | {"tip": J @ v}
    own = dict(zip((joint.name for joint in base.joints), q)) | {"tip": angle}
    q_of = np.array([own[joint.name] for joint in other.joints])
    return Motion(
        q, v, angle, J, (ahead - behind) @ v / (2 * h), q_of, np.array([V[name] for name in other.v_names])
    )


def in_order(other: Model, x: np.ndarray) -> np.ndarray:
    """Forces of the plain linkage's velocities as those of another's."""
    of = dict(zip(five_bar(None).v_names, x))
    return np.array([of.get(name, 0.0) for name in other.v_names])


@pytest.mark.parametrize("embed", [True, False])
@pytest.mark.parametrize("kind", PASSIVE)
def test_they_act_as_their_formulas_say(kind: str, embed: bool) -> None:
    """Accelerations and energies, from the plain linkage with the force of the joint added by hand; also a
    motor's.
    """
    base = five_bar(None)
    other = five_bar(kind, embed)
    given = PASSIVE[kind]
    s = motion(other)
    tau = np.array([0.3, -0.2])
    motor = 0.7
    turned = s.angle - given.get("rest", 0.0)
    I, k, d = (given.get(word, 0.0) for word in ("armature", "stiffness", "damping"))
    force = motor - k * turned - d * (s.J @ s.v) - I * s.J_rate_v
    M = floats(lw.mass_matrix, base, s.q) + I * np.outer(s.J, s.J)
    right = np.linalg.solve(M, tau + s.J * force - floats(lw.bias_force, base, s.q, s.v))
    in_all = np.zeros(other.nv_spanning)
    in_all[other.v_names_spanning.index("tip")] = motor
    total = in_order(other, tau) + floats(lw.independent_force, other, s.q_of, in_all)
    places = [other.v_names.index(name) for name in base.v_names]
    for method in ("articulated_body", "mass_matrix"):
        a = floats(lw.forward_dynamics, other, s.q_of, s.v_of, total, method=method)
        assert close(a[places], right, 1e-6), method
    found, _ = floats(
        lw.hybrid_dynamics,
        other,
        s.q_of,
        s.v_of,
        a,
        total,
        **lw.hybrid_dynamics.normalize_options(other, {"prescribed": []}),
    )
    assert close(found, a, 1e-6)
    energy = floats(lw.potential_energy, base, s.q) + 0.5 * k * turned**2
    assert close(floats(lw.potential_energy, other, s.q_of), energy, 1e-12)
    energy = floats(lw.kinetic_energy, base, s.q, s.v) + 0.5 * I * (s.J @ s.v) ** 2
    assert close(floats(lw.kinetic_energy, other, s.q_of, s.v_of), energy, 1e-12)
    assert not lw.diagnose(other, costs=False).problems
    assert (lw.closure_error(other, s.q_of) < other.closure_tolerance).all()


@pytest.mark.parametrize("embed", [True, False])
def test_energy_with_a_spring_is_constant(embed: bool) -> None:
    other = five_bar("spring", embed)
    s = motion(other)
    run = lw.rollout(other, s.q_of, s.v_of, dt=1e-4, steps=500, integrator="rk4")
    assert run.status == lw.Status.OK
    energy = lw.kinetic_energy(other, run.q, run.v) + lw.potential_energy(other, run.q)
    assert np.ptp(energy) < 1e-7 < np.ptp(lw.kinetic_energy(other, run.q, run.v))


def test_derivatives_and_parameters() -> None:
    """Stiffness and damping of a loop joint are parameters as any joint's."""
    other = five_bar("all")
    plain = five_bar("none")
    s = motion(other)
    place = other.v_names_spanning.index("tip")
    values = {
        word: np.eye(other.nv_spanning)[place] * PASSIVE["all"][word]
        for word in ("stiffness", "damping", "armature")
    }
    tau = np.array([0.3, -0.2])
    a = lw.forward_dynamics(other, s.q_of, s.v_of, tau)
    assert close(lw.forward_dynamics(plain, s.q_of, s.v_of, tau, parameters=values), a, 1e-9)
    by_q = lw.forward_dynamics_derivatives(other, s.q_of, s.v_of, tau)[0]
    d = np.array([0.6, -0.3])
    h = 1e-6
    ahead, behind = (
        lw.forward_dynamics(other, lw.integrate(other, s.q_of, x * d), s.v_of, tau) for x in (h, -h)
    )
    assert close(by_q @ d, (ahead - behind) / (2 * h), 1e-6)


def test_what_it_cannot_be_is_refused() -> None:
    builder = lw.ModelBuilder("bars").add_body("a", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("j", UP, parent="world", child="a")
    ends: dict[str, Any] = {"predecessor": "a", "successor": "world"}
    with pytest.raises(lw.ModelError, match="in_tree: expected True or False"):
        builder.add_loop("pin", UP, **ends, in_tree="yes")
    with pytest.raises(lw.ModelError, match="is a loop joint only"):
        builder.add_loop("rod", lw.joints.Rod(1.0), **ends, stiffness=1.0)
    with pytest.raises(lw.ModelError, match="damping: expected non-negative"):
        builder.add_loop("pin 2", UP, **ends, damping=-1.0)


def test_of_files(tmp_path: Path) -> None:
    """Loops that are added to a file may have them too, and files keep them."""
    path = tmp_path / "five_bar.urdf"
    lw.export_urdf(five_bar("spring"), path)
    again = lw.load(path)
    right = five_bar("spring")
    s = motion(right)
    tau = np.array([0.3, -0.2])
    assert again.v_names == right.v_names
    found, a = (
        floats(lw.forward_dynamics, m, s.q_of, s.v_of, tau, method="mass_matrix") for m in (again, right)
    )
    assert close(found, a, 1e-9)
    lw.export_urdf(five_bar(None).spanning_tree(), path)
    loop = five_bar(None).loops[0]
    places = {"place": loop.ends[0].place, "successor_place": loop.ends[1].place}
    added = lw.LoopJoint(
        "tip", UP, predecessor="left_lower", successor="right_lower", **places, **PASSIVE["spring"]
    )
    made = lw.load(path, loops=[added])
    found = floats(lw.forward_dynamics, made, s.q_of, s.v_of, tau, method="mass_matrix")
    assert made.v_names == right.v_names and close(found, a, 1e-9)


@pytest.mark.parametrize("embed", [True, False])
def test_a_screw_closes_a_loop_in_the_tree(embed: bool) -> None:
    """Of a spindle that drives a nut on a rail: the nut's mass acts on the spindle as pitch² times it."""
    pitch = 0.07
    builder = lw.ModelBuilder("press")
    builder.add_body("spindle", mass=2.0, inertia=(0.3, 0.3, 0.02))
    builder.add_body("nut", mass=5.0, center=(0.1, 0.0, 0.0), inertia=(0.1, 0.2, 0.3))
    builder.add_joint("turn", Revolute((0.0, 0.0, 1.0)), parent="world", child="spindle", rpy=(0.3, 0.2, 0.1))
    rail = Prismatic((0.0, 0.0, 1.0))
    builder.add_joint("slide", rail, parent="world", child="nut", rpy=(0.3, 0.2, 0.1))
    thread = {"predecessor": "spindle", "successor": "nut"}
    with pytest.raises(lw.ModelError, match="cannot close a loop.*; use in_tree=True"):
        builder.add_loop("thread", Helical(pitch), **thread)
    builder.add_loop("thread", Helical(pitch), **thread, in_tree=True, embed=embed)
    model = builder.build()
    q, v = model.random_state(0)
    turn, slide = (model.joint(name).v_start for name in ("turn", "slide"))
    w = lw.spanning_velocity(model, q, v) if embed else v
    assert np.isclose(abs(w[slide]), pitch * abs(w[turn]), rtol=1e-10)
    a = lw.forward_dynamics(model, q, v, np.zeros(model.nv))
    a = lw.spanning_acceleration(model, q, v, a) if embed else a
    weight = 5.0 * 9.81 * np.cos(0.3) * np.cos(0.2)  # along the rail
    assert np.isclose(abs(a[turn]), pitch * weight / (0.02 + 5.0 * pitch**2), rtol=1e-9)
