"""The Delassus matrix and all that is made of it, against J M⁻¹ Jᵀ; and force propagators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_constrained_dynamics import REDUNDANT, SETS, interpreted, of_set, robot

import linkwork as lw
from holding import FEET, Dense, close, dense
from linkages import floats
from linkwork import Connect, Hold, ModelError, OnPlane, Weld
from linkwork.model import Model
from linkwork.spatial import skew
from mechanisms import state_of


def heavy_base() -> Model:
    """A quadruped whose base has inertia in its joint too, as no free body has."""
    first, *others = robot("quadruped").joints
    return replace(
        robot("quadruped"),
        joints=(replace(first, armature=(0.1, 0.2, 0.3, 1.0, 2.0, 3.0)), *others),
        kernels={},
    )


MORE: dict[str, tuple[Model, list[Any]]] = {  # where more rows come together than a node has
    "leaves of a tree": (
        robot("binary_tree", 20),
        [Connect(b.name) for b in robot("binary_tree", 20).bodies[-8:]],
    ),
    "redundant humanoid": (robot("humanoid"), list(REDUNDANT)),
    "a full hand": (robot("arm"), [Weld("tool"), Weld("hand"), Connect("forearm"), OnPlane("tool", "elbow")]),
    "many loops": (
        robot("quadruped"),
        [Weld(FEET[0], FEET[1]), Weld(FEET[1], FEET[2]), Connect(FEET[3]), Weld("trunk")],
    ),
    "a chain of loops": (
        robot("four_bar_chain", 2),
        [Weld(b.name) for b in robot("four_bar_chain", 2).bodies[1::2]],
    ),
}
MORE["a free base with armature"] = (heavy_base(), [Connect(f) for f in FEET])
ALL = [*SETS, *MORE]


def system(name: str) -> tuple[Model, tuple[Any, ...], np.ndarray, Dense]:
    if name in SETS:
        model, constraints, s, found, _ = of_set(name)
        return model, tuple(constraints), s.q, found
    model, constraints = MORE[name]
    s = state_of(model, np.random.default_rng(2))
    return model, tuple(constraints), s.q, dense(model, s.q, s.v, s.tau, constraints)


def compliances(name: str, m: int) -> list[np.ndarray]:
    """One for all rows, and one for each; not so small that they say nothing beside rounding."""
    least = -2.0 if name == "tello" else -4.0
    return [np.full(m, 10.0**least), 10.0 ** np.random.default_rng(m).uniform(least, 0.0, m)]


@pytest.mark.parametrize("method", ["sweeps", "factorisation"])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.sweep(2)
def test_delassus(name: str, method: str) -> None:
    model, constraints, q, right = system(name)
    found = floats(lw.delassus, model, q, constraints=constraints, method=method)
    assert close(found, right.delassus, 1e-11) and np.array_equal(found, found.T)


@pytest.mark.parametrize("method", ["caba", "pv", "ltl"])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.sweep(2)
def test_damped_inverse(name: str, method: str) -> None:
    model, constraints, q, right = system(name)
    for R in compliances(name, len(right.J)):
        inverse = np.linalg.inv(right.delassus + np.diag(R))
        found = floats(
            lw.damped_delassus_inverse, model, q, constraints=constraints, compliance=R, method=method
        )
        assert close(found, inverse, 1e-9)
        assert np.allclose(found, found.T, rtol=0.0, atol=1e-12 * np.abs(found).max())


@pytest.mark.parametrize("name", ALL)
def test_product(name: str) -> None:
    model, constraints, q, right = system(name)
    x = np.random.default_rng(1).normal(size=len(right.J))
    for R in compliances(name, len(x)):
        found = floats(lw.damped_delassus_product, model, q, x, constraints=constraints, compliance=R)
        assert close(found, np.linalg.solve(right.delassus + np.diag(R), x), 1e-9)


FREE = ["quadruped on four feet", "humanoid on two feet", "redundant humanoid"]


@pytest.mark.parametrize("name", [*FREE, "arm, weld", "leaves of a tree", "mini_cheetah", "tello"])
def test_at_the_base(name: str) -> None:
    """B - C Cᵀ, and B couples no branches of a free base."""
    model, constraints, q, right = system(name)
    for R in compliances(name, len(right.J)):
        B, C = floats(lw.damped_delassus_inverse_at_base, model, q, constraints=constraints, compliance=R)
        assert C.shape[1] == 6 and C.any() == (model.joints[0].nv == 6)
        assert close(B - C @ C.T, np.linalg.inv(right.delassus + np.diag(R)), 1e-9)
    if name == "quadruped on four feet":
        assert np.array_equal(B != 0.0, np.kron(np.eye(4), np.ones((3, 3))) != 0.0)


@pytest.mark.parametrize(
    ("name", "frames", "saved"),
    [
        ("humanoid", [Weld("left_sole"), Weld("right_sole")], 11),
        ("quadruped", [Connect(foot) for foot in FEET], 23),
        ("quadruped", [Weld(foot) for foot in FEET], 44),
    ],
)
def test_operations_at_the_base(name: str, frames: list[Any], saved: int) -> None:
    """The figures of docs/algorithms/constrained.md [%]."""
    how: dict[str, Any] = {"constraints": frames}
    whole = lw.count_operations(lw.damped_delassus_inverse, robot(name), packed=True, **how)["total"]
    at_base = lw.count_operations(lw.damped_delassus_inverse_at_base, robot(name), **how)["total"]
    assert round(100.0 * (1.0 - at_base / whole)) == saved


def test_loops_have_no_form_at_the_base() -> None:
    for constraint in (Connect(FEET[0], FEET[1]), lw.Locked("rear_left_knee")):
        with pytest.raises(ModelError, match="cannot be separated from a free base"):
            lw.damped_delassus_inverse_at_base.program(robot("quadruped"), constraints=[constraint])


def test_compiled() -> None:
    """In a batch; what "auto" takes is right too."""
    B, C = lw.damped_delassus_inverse_at_base(
        robot("arm"), robot("arm").neutral(), constraints=Connect("tool")
    )
    assert B.shape == (3, 3) and C.shape == (3, 6) and not C.any()
    model = robot("quadruped")
    rng = np.random.default_rng(0)
    constraints = [Connect(FEET[0]), Hold(FEET[1], "z", FEET[2])]
    q = np.array([model.random_state(rng)[0] for _ in range(3)])
    matrices = lw.delassus(model, q, constraints=constraints)
    inverses = lw.damped_delassus_inverse(model, q, constraints=constraints, compliance=1e-3)
    x = rng.normal(size=(3, 4))
    products = interpreted(lw.damped_delassus_product, model, q, x, constraints=constraints, compliance=1e-3)
    for k in range(3):
        right = dense(model, q[k], np.zeros(18), np.zeros(18), constraints).delassus
        assert close(matrices[k], right, 1e-11)
        assert close(inverses[k], np.linalg.inv(right + 1e-3 * np.eye(4)), 1e-9)
        assert close(products[k], np.linalg.solve(right + 1e-3 * np.eye(4), x[k]), 1e-9)


# force propagators

WAYS = [
    ("quadruped", "front_left_foot", "trunk"),
    ("quadruped", "front_left_foot", "front_left_thigh"),
    ("quadruped", "rear_right_shank", "rear_right_hip"),
    ("humanoid", "left_palm", "pelvis"),
    ("humanoid", "right_palm", "torso"),
    ("humanoid", "left_sole", "left_toe"),
    ("mini_cheetah", "FL_knee_link", "Floating Base"),
    ("mini_cheetah", "FL_knee_link", "FL_abad_link"),
    ("mini_cheetah", "FL_knee_rotor", "FL_abad_link"),
]


@pytest.mark.parametrize(("name", "frame", "to"), WAYS)
def test_force_propagator(name: str, frame: str, to: str) -> None:
    """What holds `to` where a force acts on the frame, less what the joints beyond give way: M⁻¹ of these
    alone.
    """
    model = robot(name)
    rng = np.random.default_rng(4)
    q = model.random_state(rng)[0]
    found = floats(lw.force_propagator, model, q, frame=frame, to=to)
    J = floats(lw.frame_jacobian, model, q, frame=frame)
    M = floats(lw.mass_matrix, model, q)
    beyond = [
        i for i, n in enumerate(model.v_names) if model.frame(to).body in carriers(model, joint_of(model, n))
    ]
    felt = J[:, :6].T - M[:6, beyond] @ np.linalg.solve(
        M[np.ix_(beyond, beyond)], J[:, beyond].T
    )  # by the base
    base = model.bodies[0].name
    T = np.linalg.inv(floats(lw.frame_pose, model, q, frame=base)) @ floats(lw.frame_pose, model, q, frame=to)
    R = T[:3, :3]
    p = T[:3, 3]
    carried = np.block([[R, skew(p).astype(float) @ R], [np.zeros((3, 3)), R]])
    assert close(carried @ found, felt, 1e-10)


def joint_of(model: Model, v_name: str) -> int:
    return next(k for k, j in enumerate(model.joints) if v_name in j.v_names)


def carriers(model: Model, body: int) -> list[int]:
    """The bodies that carry one."""
    found = []
    while (body := model.joints[body].parent) >= 0:
        found.append(body)
    return found


def test_propagators_follow_one_another() -> None:
    model = robot("humanoid")
    q = model.random_state(np.random.default_rng(5))[0]

    def P(frame: str, to: str) -> np.ndarray:
        return floats(lw.force_propagator, model, q, frame=frame, to=to)

    for frame, on, to in (
        ("left_palm", "left_forearm", "torso"),
        ("right_sole", "right_thigh", "pelvis"),
        ("crown", "torso", "pelvis"),
    ):
        assert close(P(on, to) @ P(frame, on), P(frame, to), 1e-12)
    assert np.array_equal(P("crown", "crown"), np.eye(6))


def test_no_force_comes_from_another_branch() -> None:
    model = robot("quadruped")
    for frame, to in (("front_left_foot", "rear_left_foot"), ("trunk", "front_left_foot")):
        with pytest.raises(ModelError, match=f"'{to}' does not carry '{frame}'"):
            lw.force_propagator.program(model, frame=frame, to=to)
    with pytest.raises(ModelError, match="no frame named 'tail'"):
        lw.force_propagator.program(model, frame="tail", to="trunk")
