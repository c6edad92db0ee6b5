"""Motor to joint velocities and torques, and back: velocities along motions, equal power, and known
transmissions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from leg_mechanisms import linear_ankle, one_ankle
from linkwork import ModelError


def run(fn: lw.ModelFunction, model: lw.Model, *args: Any, **options: Any) -> np.ndarray:
    return np.asarray(fn.body(model, *args, **fn.normalize_options(model, options))).astype(float)


def places(model: lw.Model, names: list[str]) -> list[int]:
    every = [name for joint in model.joints for name in joint.v_names]
    return [k for name in names for k, n in enumerate(every) if n == name or n.rpartition(".")[0] == name]


def tello() -> tuple[lw.Model, list[str], list[str]]:
    names = ["left-thigh-to-knee-ankle-rotor-1", "left-thigh-to-knee-ankle-rotor-2"]
    return lw.robots.tello(), names, ["left-thigh-to-shin", "left-shin-to-foot"]


def of_drawing(drawing: Any, motor: str, foot: str) -> tuple[lw.Model, list[str], list[str]]:
    model = drawing.builder.build()
    motors = [j.name for j in model.joints if motor in j.name]
    return model, motors, [next(j.name for j in model.joints if j.name.endswith(foot))]


ANKLES = {
    "tello": tello,
    "push rods": lambda: of_drawing(one_ankle("SU"), "crank", "foot"),
    "rods that spin": lambda: of_drawing(one_ankle("SS"), "crank", "foot"),
    "spindles": lambda: of_drawing(linear_ankle(), "spindle", "foot"),
}


@pytest.mark.parametrize("name", ANKLES)
def test_parallel_ankles(name: str) -> None:
    model, motors, joints = ANKLES[name]()
    q, v = model.random_state(np.random.default_rng(1))
    V = np.asarray(run(lw.spanning_velocity, model, q, v))
    A = run(lw.actuator_map, model, q, actuators=motors, joints=joints)
    back = run(lw.actuator_map_inverse, model, q, actuators=motors, joints=joints)
    of = places(model, joints)
    by = places(model, motors)
    assert (
        A.shape == (2, 2) == back.shape and np.abs(A - np.diag(np.diag(A))).max() > 1e-3
    )  # neither drives one alone
    assert np.allclose(A @ V[by], V[of], atol=1e-9) and np.allclose(back @ V[of], V[by], atol=1e-9)
    assert np.allclose(A @ back, np.eye(2), atol=1e-9)

    torque = np.array([3.0, -2.0])
    full = np.zeros((2, model.nv_spanning))
    full[0, of], full[1, by] = torque, A.T @ torque  # the same work in every motion
    works = [run(lw.independent_force, model, q, x) for x in full]
    assert np.allclose(*works, atol=1e-9)


def test_gears_and_other_joints() -> None:
    """A motor behind a gear turns by its ratio; joints of other limbs do not move with it."""
    model = lw.robots.mini_cheetah()
    q, v = model.random_state(2)
    motors = [j.name for j in model.joints if j.name.endswith("rotor_j")]
    A = run(lw.actuator_map, model, q, actuators=motors)
    V = run(lw.spanning_velocity, model, q, v)
    assert A.shape == (12, 12) and np.allclose(A @ V[places(model, motors)], v[6:])
    assert (A != 0.0).sum(axis=1).max() <= 1
    tau = np.arange(18.0)
    assert np.allclose(A.T @ tau[6:], run(lw.actuator_force, model, q, tau, actuators=motors))


def test_more_motors_than_freedoms() -> None:
    model = lw.robots.five_bar()
    q, v = model.random_state(3)
    names = [joint.name for joint in model.joints]
    A = run(lw.actuator_map, model, q, actuators=names[:3], joints=names)
    V = run(lw.spanning_velocity, model, q, v)
    assert np.allclose(A @ V[:3], V)


def test_compiled_and_in_batches() -> None:
    model = lw.robots.five_bar()
    q = np.array([model.random_state(k)[0] for k in range(3)])
    A = lw.actuator_map(model, q, actuators=["left_lower_joint", "right_lower_joint"])
    B = lw.actuator_map_inverse(model, q, actuators=["left_lower_joint", "right_lower_joint"])
    assert np.allclose(A @ B, np.eye(2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"actuators": ["left-thigh-to-knee-ankle-rotor-1"], "joints": ["left-thigh-to-shin"]},
            "does not follow",
        ),
        ({"actuators": ["left-thigh-to-shin"]}, "none of which moves it"),
        ({"actuators": ["left-thigh-to-shin"], "joints": []}, "joints: .* at least one joint"),
        ({"actuators": ["left-thigh-to-shin"], "joints": 3}, "joints: expected names"),
        ({"actuators": ["nobody"]}, "no joint named"),
        (
            {
                "actuators": ["torso-to-left-hip-clamp", "torso-to-left-hip-clamp"],
                "joints": ["torso-to-left-hip-clamp-rotor"],
            },
            "actuators: expected different",
        ),
    ],
)
def test_refused(options: dict[str, Any], words: str) -> None:
    model = lw.robots.tello()
    with pytest.raises(ModelError, match=words):
        lw.actuator_map(model, model.neutral(), **options)


def test_the_inverse_says_that_actuators_do_not_follow_joints() -> None:
    model = lw.robots.tello()
    q = model.random_state(0)[0]
    one = {"actuators": ["left-thigh-to-knee-ankle-rotor-1"], "joints": ["left-thigh-to-shin"]}
    with pytest.raises(
        ModelError, match="rotor-1' of tello_legs does not follow the joints 'left-thigh-to-shin'"
    ):
        lw.actuator_map_inverse(model, q, **one)


def test_loop_forces_without_loops() -> None:
    arm = lw.robots.arm()
    still = np.zeros(arm.nv)
    with pytest.raises(ModelError, match="has no loops or couplings; constrained_dynamics"):
        lw.loop_forces(arm, still, still, still)
