"""Inverse dynamics with constraint forces and chosen actuators, against dense formulas of Lie Sec. 3.1 and
forward dynamics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import Connect, Hold, ModelError, Weld
from mechanisms import state_of

SOLVED: dict[str, Any] = {"method": "ltl", "compliance": 1e-8, "iterations": 40, "tolerance": None}


def run(fn: lw.ModelFunction, model: lw.Model, *args: Any, **options: Any) -> Any:
    """What a function means, over plain floats: sooner than a kernel."""
    found = fn.body(model, *args, **fn.normalize_options(model, options))
    return tuple(x.astype(float) for x in found) if isinstance(found, tuple) else found.astype(float)


def dense(
    T: np.ndarray, J: np.ndarray, B: np.ndarray, M: np.ndarray, minimize: str, weights: np.ndarray
) -> Any:
    """x and λ with B x + Jᵀ λ = T as nearly as can be, by singular values."""
    undriven = np.linalg.svd(B.T)[2][np.linalg.matrix_rank(B) :].T  # velocities in which no actuator can act
    A = undriven.T @ J.T
    b = undriven.T @ T
    lam = np.zeros(len(J))
    null = np.eye(len(J))
    if A.size:
        metric = np.linalg.inv(np.linalg.cholesky(undriven.T @ M @ undriven))  # rᵀ M⁻¹ r = |metric r|²
        root = np.sqrt(weights) if minimize == "constraint_force" else np.ones(len(J))
        lam = np.linalg.pinv(metric @ A / root, rcond=1e-9) @ (metric @ b) / root
        null = np.linalg.svd(A)[2][np.linalg.matrix_rank(A, tol=1e-9) :].T
    root = np.sqrt(weights) if minimize == "torque" else np.ones(B.shape[1])
    drive = np.linalg.pinv(B / root)  # forces times their roots of weights
    if minimize == "torque" and null.size:
        lam = lam + null @ np.linalg.pinv(drive @ J.T @ null, rcond=1e-7) @ (drive @ (T - J.T @ lam))
    return drive @ (T - J.T @ lam) / root, lam


def check(
    model: lw.Model,
    constraints: list[Any],
    a: Any,
    state: Any,
    names: list[str] | None,
    minimize: str,
    tolerance: float = 1e-8,
) -> Any:
    """Against the dense formulas; gives the forces."""
    q, v, f_ext = state
    every = [name for joint in model.joints for name in joint.v_names]
    driven = names or [name for name in model.v_names if "base" not in name and "trunk" not in name]
    G = velocity_map(model, q)
    B = G[[every.index(name) for name in driven]].T
    J = run(lw.constraint_jacobian, model, q, constraints=constraints)
    weights = np.linspace(0.5, 2.0, len(driven) if minimize == "torque" else len(J))
    options = {"constraints": constraints, "actuators": names, "minimize": minimize, "weights": weights}
    tau, forces, left = run(lw.constrained_inverse_dynamics, model, q, v, a, f_ext, **options)
    T = run(lw.inverse_dynamics, model, q, v, a, f_ext)
    size = max(1.0, np.abs(T).max())
    assert np.abs(B @ tau + J.T @ forces + left - T).max() < 1e-10 * size
    x, lam = dense(T, J, B, run(lw.mass_matrix, model, q), minimize, weights)
    assert np.abs(tau - x).max() < tolerance * size, (tau, x)
    assert np.abs(forces - lam).max() < tolerance * max(size, np.abs(lam).max())
    return tau, forces, left


def velocity_map(model: lw.Model, q: np.ndarray) -> np.ndarray:
    return np.array([run(lw.spanning_velocity, model, q, e) for e in np.eye(model.nv)]).T


TIPS = ["front_left_foot", "rear_right_foot", "front_right_foot", "rear_left_foot"]


@pytest.mark.parametrize("minimize", ["torque", "constraint_force"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_free_base_on_its_points(count: int, minimize: str) -> None:
    """On four points forces are not unique; on two and one the base has freedoms that nothing drives."""
    model = lw.robots.quadruped()
    constraints = [Connect(name) for name in TIPS[:count]]
    q, v, _, tau, f_ext = state_of(model, np.random.default_rng(1))
    tau[:6] = 0.0
    a, _ = run(lw.constrained_dynamics, model, q, v, tau, f_ext, constraints=constraints, **SOLVED)
    *_, left = check(model, constraints, a, (q, v, f_ext), None, minimize)
    assert np.abs(left).max() < 1e-9  # such a motion can be had
    another = a + np.random.default_rng(2).normal(size=model.nv)
    *_, left = check(model, constraints, another, (q, v, f_ext), None, minimize)
    assert (np.abs(left).max() > 1.0) == (count < 4)  # what no force can do is said
    assert not left[6:].any()


def test_forces_that_are_unique_are_found_again() -> None:
    """A humanoid on one sole: motions come from torques, and lead back to them, and to the same contact
    forces.
    """
    model = lw.robots.humanoid()
    constraints = [Weld(model.bodies[-1].name)]
    q, v, _, tau, _ = state_of(model, np.random.default_rng(3))
    free = next(j for j in model.joints if j.nv == 6)
    tau[free.v_slice] = 0.0
    a, forces = run(lw.constrained_dynamics, model, q, v, tau, constraints=constraints, **SOLVED)
    found = run(lw.constrained_inverse_dynamics, model, q, v, a, constraints=constraints)
    driven = np.ones(model.nv, dtype=bool)
    driven[free.v_slice] = False
    assert np.abs(found[0] - tau[driven]).max() < 1e-7 and np.abs(found[1] - forces).max() < 1e-7
    assert np.abs(found[2]).max() < 1e-8


def test_in_the_air_nothing_holds_the_base() -> None:
    """A constraint between limbs, which the base does not feel: its six equations are left, as they are."""
    model = lw.robots.quadruped()
    q, v, a, *_ = state_of(model, np.random.default_rng(4))
    constraints = [lw.Locked("front_left_knee")]
    tau, _, left = run(
        lw.constrained_inverse_dynamics, model, q, v, a, constraints=constraints, minimize="constraint_force"
    )
    T = run(lw.inverse_dynamics, model, q, v, a)
    assert np.allclose(left[:6], T[:6]) and np.allclose(tau, T[6:])


@pytest.mark.parametrize("minimize", ["torque", "constraint_force"])
@pytest.mark.parametrize(
    "names",
    [
        ["left_upper_joint", "right_upper_joint"],
        ["left_lower_joint", "right_upper_joint"],  # one in a dependent joint
        ["left_upper_joint", "left_lower_joint", "right_upper_joint"],  # redundantly actuated
        ["right_lower_joint"],  # under-actuated
    ],
)
def test_five_bar(names: list[str], minimize: str) -> None:
    """Lie's example, its loop embedded; in contact, or with its loop held by forces, which is the same
    constraint.
    """
    model = lw.robots.five_bar()
    q, v, a, _, f_ext = state_of(model, np.random.default_rng(5))
    check(model, [Hold("tip", "x")], a, (q, v, f_ext), names, minimize)

    held = model.with_loops(constrain=[loop.name for loop in model.embedded])
    V = run(lw.spanning_velocity, model, q, v)
    A = run(lw.spanning_acceleration, model, q, v, a)
    options = {"actuators": names, "minimize": "torque"}
    ours = run(lw.constrained_inverse_dynamics, model, q, v, a, constraints=[Hold("tip", "x")], **options)
    theirs = run(lw.constrained_inverse_dynamics, held, q, V, A, constraints=[Hold("tip", "x")], **options)
    if len(names) > 1:
        assert np.allclose(ours[0], theirs[0], atol=1e-8) and np.allclose(ours[1], theirs[1][:1], atol=1e-8)
        assert np.abs(ours[2]).max() < 1e-9 and np.abs(theirs[2]).max() < 1e-8


def test_lie_equation_58() -> None:
    """A five-bar with two active joints, whose loop is held by forces: λ and τ_a by Eq. 57 and 58."""
    model = lw.robots.five_bar()
    held = model.with_loops(constrain=[loop.name for loop in model.embedded])
    q, v, a, *_ = state_of(model, np.random.default_rng(6))
    V = run(lw.spanning_velocity, model, q, v)
    A = run(lw.spanning_acceleration, model, q, v, a)
    J = run(lw.constraint_jacobian, held, q, constraints=())
    T = run(lw.inverse_dynamics, held, q, V, A)
    kept = [row for row in range(len(J)) if np.abs(J[row]).max() > 1e-12]  # rows of a planar loop
    p = [1, 3]
    u = [0, 2]
    lam = np.linalg.lstsq(J[kept][:, p].T, T[p], rcond=None)[0]
    tau, *_ = run(
        lw.constrained_inverse_dynamics, held, q, V, A, constraints=(), actuators=[held.v_names[k] for k in u]
    )
    assert np.allclose(tau, T[u] - J[kept][:, u].T @ lam, atol=1e-9)


@pytest.mark.parametrize("minimize", ["torque", "constraint_force"])
def test_geared_legs_driven_by_their_rotors(minimize: str) -> None:
    """A free base with embedded loops: rotors of differentials are what is driven, on two soles."""
    model = lw.robots.mini_cheetah()
    q, v, a, _, f_ext = state_of(model, np.random.default_rng(7))
    rotors = [joint.name for joint in model.joints if joint.name.endswith("rotor_j")]
    constraints = [Connect(name) for name in ("HL_knee_link", "FR_knee_link", "FL_knee_link")]
    _, _, left = check(model, constraints, a, (q, v, f_ext), rotors, minimize)
    assert np.abs(left).max() < 1e-8


def test_batches_and_parameters() -> None:
    model = lw.robots.five_bar()
    q, v, a, *_ = state_of(model, np.random.default_rng(8))
    mass = model.parameters()["mass"] * np.array([[1.0], [2.0]])
    how: dict[str, Any] = {"constraints": [Hold("tip", "x")], "actuators": model.v_names}
    tau, forces, left = lw.constrained_inverse_dynamics(model, q, v, a, parameters={"mass": mass}, **how)
    assert tau.shape == (2, 2) and forces.shape == (2, 1) and left.shape == (2, 2)
    assert np.allclose(tau[0], run(lw.constrained_inverse_dynamics, model, q, v, a, **how)[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"actuators": ["nobody"]}, "no joint named 'nobody'"),
        ({"actuators": []}, "at least one joint"),
        ({"actuators": ["front_left_hip"] * 2}, "different joints"),
        ({"actuators": 3}, "names of joints"),
        ({"minimize": "effort"}, "torque, constraint_force"),
        ({"weights": [1.0]}, "12 positive numbers"),
        ({"weights": [1.0], "minimize": "constraint_force"}, "3 positive numbers"),
        ({"constraints": []}, "no constraint is given"),
    ],
)
def test_refused(options: dict[str, Any], words: str) -> None:
    model = lw.robots.quadruped()
    Z = np.zeros(model.nv)
    with pytest.raises(ModelError, match=words):
        lw.constrained_inverse_dynamics(
            model, model.neutral(), Z, Z, **{"constraints": Connect(TIPS[0]), **options}
        )


def spatial_linkage(length: float) -> lw.Model:
    """Return a crank, a coupler on ball joints and a rocker, closed by a force, of this size."""
    rng = np.random.default_rng(3)
    hinge = lw.joints.Revolute((0.0, 0.0, 1.0))
    ball = lw.joints.Spherical()
    builder = lw.ModelBuilder("linkage", gravity=(0.0, 0.0, -9.81 * length))
    rows = [("crank", hinge, "world", 0.0), ("coupler", ball, "crank", 0.4), ("rocker", ball, "coupler", 0.7)]
    for name, kind, parent, x in rows:
        center = 0.1 * length * rng.normal(size=3)
        builder.add_body(name, mass=1.0, center=center, inertia=length**2 * np.array([0.02, 0.03, 0.04]))
        builder.add_joint(f"{name} joint", kind, parent=parent, child=name, xyz=(x * length, 0.0, 0.0))
    ends = {"xyz": (0.5 * length, 0.2 * length, 0.0), "successor_xyz": (0.6 * length, 0.0, 0.0)}
    builder.add_loop(
        "close", hinge, predecessor="world", successor="rocker", rpy=(0.3, -0.2, 0.4), **ends, embed=False
    )
    return builder.add_frame("tool", body="rocker", xyz=length * np.array([0.1, 0.2, 0.3])).build()


@pytest.mark.parametrize("actuators", [None, ["crank joint", "coupler joint"]])
def test_least_torques_in_any_unit_of_length(actuators: list[str] | None) -> None:
    """Rows in m/s² and in rad/s² have no common scale: torques of least norm do not depend on the metre."""
    unit = spatial_linkage(1.0)
    q, v = unit.random_state(3)
    a = np.random.default_rng(0).normal(size=unit.nv)
    constraints = [lw.OnPlane("tool")]
    options = {"constraints": constraints, "actuators": actuators}
    tau, _, left = run(lw.constrained_inverse_dynamics, unit, q, v, a, **options)
    if actuators is None:  # every joint is driven: least squares of all equations
        J = run(lw.constraint_jacobian, unit, q, constraints=constraints)
        T = run(lw.inverse_dynamics, unit, q, v, a)
        least = T - J.T @ np.linalg.lstsq(J.T, T, rcond=None)[0]
        assert np.allclose(tau, least, rtol=0.0, atol=1e-10) and np.abs(tau).max() > 1e-3
    for length in (2.0**-20, 2.0**-10, 2.0**20):
        other, _, rest = run(lw.constrained_inverse_dynamics, spatial_linkage(length), q, v, a, **options)
        assert np.allclose(other, length**2 * tau, rtol=1e-9, atol=1e-9 * length**2)
        assert np.allclose(rest, length**2 * left, rtol=1e-9, atol=1e-9 * length**2)
