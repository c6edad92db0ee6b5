"""Gears between joints of a loop: embedded and constrained dynamics against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw

NAMES = "abef"  # the joints of both limbs of a five-bar linkage


def geared_five_bar(ratio: float, joints: str) -> lw.Model:
    """Return a five-bar linkage in which the first of two joints turns `ratio` times as fast as the other."""
    hinge = lw.joints.Revolute((0, 0, 1))
    builder = lw.ModelBuilder("geared five-bar")
    for name, length in (("left", 0.3), ("left tip", 0.7), ("right", 0.3), ("right tip", 0.7)):
        inertia = (0.01, 0.02 + length / 10, 0.02 + length / 10)
        builder.add_body(name, mass=1 + length, center=(length / 2, 0.01, 0), inertia=inertia)
    builder.add_joint("a", hinge, parent="world", child="left")
    builder.add_joint("b", hinge, parent="left", child="left tip", xyz=(0.3, 0, 0))
    builder.add_joint("e", hinge, parent="world", child="right", xyz=(0.5, 0, 0))
    builder.add_joint("f", hinge, parent="right", child="right tip", xyz=(0.3, 0, 0))
    ends = {"xyz": (0.7, 0, 0), "successor_xyz": (0.7, 0, 0)}
    builder.add_loop("close", hinge, predecessor="left tip", successor="right tip", **ends)
    builder.add_coupling("gear", {joints[0]: 1.0, joints[1]: -ratio})
    return builder.build()


def gaps(x: np.ndarray, ratio: float, joints: str) -> np.ndarray:
    """Return the residuals of the loop and of the gear, (3,), for the angles of all joints."""
    a, b, e, f = x
    left = [0.3 * np.cos(a) + 0.7 * np.cos(a + b), 0.3 * np.sin(a) + 0.7 * np.sin(a + b)]
    right = [0.5 + 0.3 * np.cos(e) + 0.7 * np.cos(e + f), 0.3 * np.sin(e) + 0.7 * np.sin(e + f)]
    angle = dict(zip(NAMES, x))
    return np.array([*np.subtract(left, right), angle[joints[0]] - ratio * angle[joints[1]]])


def dense_acceleration(
    tree: lw.Model, q: np.ndarray, w: np.ndarray, force: np.ndarray, ratio: float, joints: str
) -> np.ndarray:
    """Return accelerations of all joints, (4,), with multipliers of all equations differentiated by steps."""
    h = 1e-6
    K = np.array(
        [(gaps(q + d, ratio, joints) - gaps(q - d, ratio, joints)) / (2 * h) for d in h * np.eye(4)]
    ).T
    middle = gaps(q, ratio, joints)
    k = (gaps(q + 1e-4 * w, ratio, joints) - 2 * middle + gaps(q - 1e-4 * w, ratio, joints)) / 1e-8
    M = lw.mass_matrix(tree, q)
    c = lw.inverse_dynamics(tree, q, w, np.zeros(4))
    system = np.block([[M, K.T], [K, np.zeros((3, 3))]])
    return np.asarray(np.linalg.solve(system, np.concatenate([force - c, -k]))[:4])


@pytest.mark.parametrize("joints", ["ae", "bf", "be"])
@pytest.mark.parametrize("ratio", [1.0, -0.3, 2.5])
def test_accelerations_are_those_of_dense_algebra(ratio: float, joints: str) -> None:
    model = geared_five_bar(ratio, joints)
    assert model.nv == 1 and [joint.name for joint in model.joints] == list(NAMES)
    tree = model.with_loops(constrain=["close", "gear"])
    q, v = model.random_state(2)
    w = lw.spanning_velocity(model, q, v)
    force = np.array([0.3, -0.2, 0.1, 0.4])
    expected = dense_acceleration(tree, q, w, force, ratio, joints)
    for constrained in ([], ["close"], ["gear"], ["close", "gear"]):
        held = model.with_loops(constrain=constrained) if constrained else model
        tau = lw.independent_force(held, q, force)
        u = w[[NAMES.index(name) for name in held.v_names]]
        a = lw.spanning_acceleration(held, q, u, lw.forward_dynamics(held, q, u, tau))
        assert np.allclose(a, expected, rtol=1e-5, atol=1e-5), constrained


def test_a_ratio_as_a_parameter_is_that_of_a_model_built_with_it() -> None:
    model = geared_five_bar(1.0, "be")
    other = geared_five_bar(0.8, "be")
    q, v = other.random_state(1)
    w = lw.spanning_velocity(other, q, v)
    u = w[[NAMES.index(name) for name in model.v_names]]
    u_other = w[[NAMES.index(name) for name in other.v_names]]
    ratio = other.parameters()["ratio"]
    a = lw.forward_dynamics(model, q, u, np.zeros(1), parameters={"ratio": ratio})
    a = lw.spanning_acceleration(model, q, u, a, parameters={"ratio": ratio})
    expected = lw.spanning_acceleration(
        other, q, u_other, lw.forward_dynamics(other, q, u_other, np.zeros(1))
    )
    assert np.allclose(a, expected, rtol=1e-10, atol=1e-10)
