"""How wrong models without rotors are: the figures of the Loops paper, and laws."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from linkwork.functions.approximations import (
    compare_approximations,
    find_rotors,
    independent_coordinates,
    without_rotors,
)
from linkwork.joints import Free, Joint, Revolute

X = (1.0, 0.0, 0.0)
Y = (0.0, 1.0, 0.0)
Z = (0.0, 0.0, 1.0)
SMALL = (1.6841e-4, 1.084e-4)
LARGE = (5.548e-4, 3.443e-4)
# link, axis, pitch, where, mass, centre, moments xx xy xz yy yz zz; its rotor: on which link, where, inertias
LEG: list[tuple[Any, ...]] = [
    ("hip_rz", Z, -0.174533, (-0.00565, -0.082, -0.05735), 0.84563, (-0.064842, -0.000036, -0.063090),
     (0.0015373, 0.0000011, 0.0005578, 0.0014252, 0.0000024, 0.0012028), "world", (-0.00842837, -0.082, -0.041593), SMALL),
    ("hip_rx", X, 0.436332, (-0.06435, 0.0, -0.07499), 1.20868, (0.067232, -0.013018, 0.0001831),
     (0.0017535, -0.0000063, -0.000080, 0.003338, -0.000013, 0.0019927), "hip_rz", (-0.0827, 0.0, -0.066436), SMALL),
    ("hip_ry", Y, -0.261799, (0.071, 0.0018375, 0.0), 2.64093, (0.0132054, 0.0269864, -0.096021),
     (0.0243761, 0.0000996, 0.0006548, 0.0259015, 0.0026713, 0.0038929), "hip_rx", (0.071, 0.024, 0.0), LARGE),
    ("knee", Y, 0.0, (0.0, 0.0, -0.267), 0.35435, (0.00528, 0.0014762, -0.13201),
     (0.003051, 0.0, 0.0000873, 0.003033, 0.0000393, 0.0002529), "hip_ry", (0.013, -0.0497, -0.0178), LARGE),
    ("ankle", Y, 0.0, (0.0, 0.0, -0.2785), 0.280951, (0.022623, 0.0, -0.012826),
     (0.0000842, 0.0, -0.0000488, 0.0007959, 0.0, 0.0007681), "hip_ry", (0.01563, -0.0454, -0.13354), SMALL),
]  # fmt: skip
RMS = {
    "ignored": [0.288, 0.266, 0.989, 4.310, 1.588],
    "diagonal": [0.206, 0.178, 0.365, 1.045, 0.826],
    "block": [0.206, 0.178, 0.365, 0.301, 0.070],
}


@cache
def leg(*, base: Joint | None = None, mass: float = 0.0, rotors_lead: bool = False) -> lw.Model:
    """The leg of the MIT Humanoid with its rotors; `rotors_lead`: their angles are the independent ones."""
    builder = lw.ModelBuilder("leg")
    if base:
        builder.add_body("trunk", mass=5.0, inertia=(0.1, 0.1, 0.1)).add_joint(
            "base", base, parent="world", child="trunk"
        )
    root = "trunk" if base else "world"
    on = root
    for name, axis, pitch, xyz, kg, center, (xx, xy, xz, yy, yz, zz), carrier, where, (about, across) in LEG:
        moment = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        builder.add_body(name, mass=kg, center=center, inertia=moment, check=False)
        tilt = (0.0, pitch, 0.0)
        builder.add_joint(
            name, Revolute(axis), parent=on, child=name, xyz=xyz, rpy=tilt, independent=not rotors_lead
        )
        u = np.array(axis)
        spin = across * np.eye(3) + (about - across) * np.outer(u, u)
        builder.add_body(f"{name} rotor", mass=mass, inertia=spin, check=False)
        carrier = root if carrier == "world" else carrier
        builder.add_joint(
            f"{name} motor",
            Revolute(axis),
            parent=carrier,
            child=f"{name} rotor",
            xyz=where,
            rpy=tilt,
            independent=rotors_lead,
        )
        gear = 12.0 if name in ("knee", "ankle") else 6.0
        builder.add_coupling(f"{name} gear", predecessor=name, successor=f"{name} rotor", ratio=gear)
        on = name
    return builder.build()


def swing(nv: int, h: float = 5e-4) -> dict[str, np.ndarray]:
    """All joints follow a sine of half a radian, one and a half times a second."""
    t = np.arange(0.0, 5.0, h)[:, None]
    w = 2.0 * np.pi * 1.5
    one = np.ones(nv)
    return {
        "t": t[:, 0],
        "q": 0.5 * np.sin(w * t) * one,
        "v": 0.5 * w * np.cos(w * t) * one,
        "a": -0.5 * w**2 * np.sin(w * t) * one,
    }


def test_the_paper_s_leg() -> None:
    found = compare_approximations(leg(), swing(5))
    assert found.names == ("hip_rz", "hip_rx", "hip_ry", "knee", "ankle")
    for name, figures in RMS.items():
        np.testing.assert_allclose(found.rms[name], figures, atol=5.1e-4)
        assert np.all(found.worst[name] >= found.rms[name])
    assert "4.310" in found.table() and "knee" in repr(found)
    np.testing.assert_allclose(
        found.reflected[3:, 3:], 144 * np.array([[LARGE[0] + SMALL[0], SMALL[0]], [SMALL[0], SMALL[0]]])
    )
    assert np.abs(found.reflected[:3, 3:]).max() == 0.0


def test_the_shipped_leg_is_the_same() -> None:
    model = getattr(lw.robots, "mit_humanoid_leg", lambda: None)()
    if model is None:
        pytest.skip("mit_humanoid_leg is not there")
    found = compare_approximations(model, swing(5, 5e-3))
    for name, rms in compare_approximations(leg(), swing(5, 5e-3)).rms.items():
        np.testing.assert_allclose(found.rms[name], rms, atol=1e-9)


def test_motors_torques_are_the_joints_through_the_gears() -> None:
    """With the rotors' angles as independent ones, the same motion takes the same torque, seen from there."""
    joints = leg()
    motors = leg(rotors_lead=True)
    motion = swing(5, 0.05)
    there = np.array([6.0, 6.0, 6.0, 12.0, 12.0]) * np.eye(5)
    there[4, 3] = 12.0  # the ankle's rotor turns with the knee, too
    assert [name.replace(" motor", "") for name in motors.v_names] == list(joints.v_names)
    a = compare_approximations(joints, motion)
    b = compare_approximations(
        motors, {word: x if word == "t" else x @ there.T for word, x in motion.items()}
    )
    for name, tau in a.torques.items():
        np.testing.assert_allclose(b.torques[name] @ there, tau, atol=1e-9)


def test_motions_by_all_or_by_independent_coordinates_agree() -> None:
    model = leg(base=Free(), mass=0.2)
    rng = np.random.default_rng(0)
    q, v = map(np.array, zip(*(model.random_state(rng) for _ in range(6))))
    motion = {"q": q.reshape(2, 3, -1), "v": v.reshape(2, 3, -1), "a": rng.normal(size=(2, 3, model.nv))}
    a = compare_approximations(model, motion)
    b = compare_approximations(model, {**motion, "q": motion["q"][..., independent_coordinates(model)]})
    for name in a.torques:
        np.testing.assert_allclose(a.torques[name], b.torques[name], atol=1e-9)
    assert a.torques["exact"].shape == (2, 3, model.nv) and a.rms["block"].shape == (model.nv,)


def test_what_is_left_out() -> None:
    model = leg(base=Free(), mass=0.2)
    assert [model.bodies[k].name for k in find_rotors(model)] == [f"{row[0]} rotor" for row in LEG]
    without = without_rotors(model, find_rotors(model))
    welded = without_rotors(model, find_rotors(model), keep_mass=True)
    assert without.nv == model.nv == without.nq - 1 and not without.embedded
    assert without.mass == pytest.approx(model.mass - 1.0) and welded.mass == pytest.approx(model.mass)
    rng = np.random.default_rng(1)
    q, _ = model.random_state(rng)
    q[7:] = 0.0  # welded where they are in this state, rotors weigh what they weigh
    tau = lw.inverse_dynamics(model, q, np.zeros(model.nv), np.zeros(model.nv))
    np.testing.assert_allclose(
        lw.inverse_dynamics(welded, q[:12], np.zeros(11), np.zeros(11)), tau, atol=1e-10
    )


def test_kept_mass_leaves_only_what_spin_does() -> None:
    """At rest a rotor only weighs; with its weight kept and its inertia reflected, only gyroscopic terms are
    left.
    """
    model = leg(mass=0.2)
    rng = np.random.default_rng(2)
    still = {"q": rng.normal(size=(5, 5)), "v": np.zeros((5, 5)), "a": np.zeros((5, 5))}
    assert max(compare_approximations(model, still, keep_mass=True).worst["ignored"]) < 1e-10
    assert max(compare_approximations(model, still).worst["ignored"]) > 1e-2


def test_only_some_rotors() -> None:
    found = compare_approximations(leg(), swing(5, 0.05), rotors=["hip_rz rotor"])
    assert (
        found.rotors == ("hip_rz rotor",) and found.simplified.nv == 5 and len(found.simplified.embedded) == 4
    )


def test_what_cannot_be() -> None:
    motion = swing(5, 0.5)
    with pytest.raises(ModelError, match="has no geared rotors"):
        compare_approximations(lw.robots.arm(), swing(7, 0.5))
    with pytest.raises(ModelError, match="has no 'a'"):
        compare_approximations(leg(), {"q": motion["q"], "v": motion["v"]})
    with pytest.raises(ModelError, match=r"'q': expected shape \(..., 10\), or \(..., 5\)"):
        compare_approximations(leg(), {**motion, "q": motion["q"][:, :3]})
    with pytest.raises(ModelError, match="'v': expected shape"):
        compare_approximations(leg(), {**motion, "v": motion["v"][:, :3]})
    with pytest.raises(ModelError, match="carries others"):
        compare_approximations(leg(), motion, rotors=["knee"])
    for wrong in (None, motion["q"], "qva"):
        with pytest.raises(ModelError, match="trajectory: expected a mapping with 'q', 'v' and 'a', got"):
            compare_approximations(leg(), wrong)
    with pytest.raises(ModelError, match="4 degrees of freedom instead of 5"):
        compare_approximations(leg(), motion, rotors=["ankle", "ankle rotor"])
    with pytest.raises(ModelError, match="are not closed in state 1"):
        compare_approximations(leg(), {**motion, "q": np.array([[0.0] * 10, [0.1] * 10])})
