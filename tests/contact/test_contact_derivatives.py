"""Derivatives of steps with contact against differences, where no contact begins, ends, sticks or slips anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import Contacts, ModelBuilder
from linkwork.joints import Free, Planar, Revolute
from linkwork.model import Model

DT = 0.005
FEET = ("front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot")


def on_ground(*corners: tuple[float, float, float], joint: Any = None) -> Model:
    """A body with frames that may touch the ground."""
    builder = ModelBuilder("block")
    builder.add_body("block", mass=2.0, center=(0.02, -0.01, 0.03), inertia=(0.02, 0.03, 0.04))
    builder.add_joint("free", joint or Free(), parent="world", child="block")
    for k, corner in enumerate(corners):
        builder.add_frame(f"corner{k}", body="block", place=lw.spatial.Pose(np.eye(3), np.array(corner)))
    return builder.build()


def pendulum(*, limit: float = np.inf, friction: float = 0.0) -> Model:
    builder = ModelBuilder("pendulum")
    for k, below in enumerate(("world", "link0")):
        builder.add_body(f"link{k}", mass=1.0, center=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.01))
        at = {"lower": -limit, "upper": limit} if k == 0 and np.isfinite(limit) else {}
        builder.add_joint(
            f"hinge{k}", Revolute((0.0, 1.0, 0.0)), parent=below, child=f"link{k}",
            place=lw.spatial.Pose(np.eye(3), np.array([0.0, 0.0, -0.4 * k])), friction=friction * (k + 1), **at,
        )  # fmt: skip
    return builder.build()


CORNERS = ((0.1, 0.1, -0.05), (0.1, -0.1, -0.05), (-0.1, 0.1, -0.05), (-0.1, -0.1, -0.05))
FLAT = [0.3, -0.2, 0.048, 0.0, 0.0, 0.0, 1.0]
TILTED = [0.3, -0.2, 0.02, 0.1, -0.15, 0.2, 0.95]
SCENES: dict[str, Any] = {
    "sliding point": lambda: (on_ground((0.0, 0.0, -0.05)), TILTED, [0.1, 0.2, 0.3, 1.0, 0.5, -0.8], {"friction": 0.3}),
    "sticking point": lambda: (on_ground((0.0, 0.0, -0.05)), TILTED, [0.1, 0.2, 0.3, 0.05, 0.0, -0.8], {"friction": 0.9}),
    "torsion and rolling": lambda: (
        on_ground((0.0, 0.0, -0.05)),
        TILTED,
        [0.6, 0.9, 2.0, 0.4, 0.3, -0.8],
        {"friction": 0.5, "torsional": 0.002, "rolling": 0.001},
    ),
    "sliding block": lambda: (on_ground(*CORNERS[:3]), FLAT, [0.0, 0.0, 0.1, 1.0, 0.3, -0.1], {"friction": 0.4}),
    "block at rest": lambda: (on_ground(*CORNERS), FLAT, [0.0] * 6, {"friction": 0.6}),
    "bouncing": lambda: (
        on_ground((0.0, 0.0, -0.05)),
        TILTED,
        [0.1, 0.2, 0.3, 0.3, 0.2, -2.0],
        {"friction": 0.2, "restitution": 0.6},
    ),
    "about to touch": lambda: (
        on_ground((0.0, 0.0, -0.05)), [*TILTED[:2], 0.055, *TILTED[3:]], [0.1, 0.2, 0.3, 0.4, 0.1, -2.0], {"friction": 0.3}
    ),
    "flying": lambda: (on_ground((0.0, 0.0, -0.05)), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], [0.0] * 6, {}),
    "compliant": lambda: (
        on_ground(*CORNERS),
        FLAT,
        [0.02, 0.01, 0.1, 0.5, 0.3, -0.1],
        {"friction": 0.4, "stiffness": 1e4, "damping": 50.0},
    ),
    "disc in a plane": lambda: (
        on_ground((0.0, 0.0, 0.0), joint=Planar()), [0.1, -0.002, 0.3], [0.5, -0.4, 1.0], {"friction": 0.3, "ground": "wall"}
    ),
    "joint limit": lambda: (pendulum(limit=0.5), [0.505, 0.2], [1.0, -0.5], {"ground": None}),
    "dry friction": lambda: (pendulum(friction=0.3), [0.2, 0.3], [0.001, 1.0], {"ground": None}),
}  # fmt: skip


def scene(name: str) -> tuple[Model, np.ndarray, np.ndarray, Contacts]:
    model, q, v, how = SCENES[name]()
    shapes = [frame.name for frame in model.frames if frame.name.startswith("corner")]
    if how.get("ground") == "wall":
        side = lw.spatial.Pose(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]), np.zeros(3))
        how = {**how, "ground": lw.Geometry("wall", place=side, shape="plane", link="world")}
    contacts = Contacts(shapes=shapes or None, tolerance=1e-13, **how)
    q = np.array(q, dtype=float)
    for joint in model.joints:
        if joint.nq == 7:
            q[joint.q_slice][3:] /= np.linalg.norm(q[joint.q_slice][3:])
    return model, q, np.array(v, dtype=float), contacts


def differences(fn: Any, model: Model, n: int, e: float = 2e-5) -> np.ndarray:
    """d(q, v)/dx at 0, (2 nv, n), of fn(x) = q, v, by differences of order 4."""
    q, _ = fn(np.zeros(n))
    total = np.zeros((2 * model.nv, n))
    for k, unit in enumerate(e * np.eye(n)):
        for x, weight in ((-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)):
            ends = fn(x * unit)
            total[:, k] += weight * np.concatenate([lw.difference(model, q, ends[0]), ends[1]])
    return total / (12.0 * e)


QUICK = ("sliding point", "joint limit")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SCENES]
)
def test_derivatives_by_state_and_input(name: str) -> None:
    model, q, v, contacts = scene(name)
    nv = model.nv
    tau = 0.1 * np.cos(1.0 + np.arange(nv))
    ok = lw.step(model, q, v, tau, DT, contacts=contacts, details=True)[-1]
    assert ok == 1.0

    def moved(x: np.ndarray) -> Any:
        return lw.step(
            model,
            lw.integrate(model, q, x[:nv]),
            v + x[nv : 2 * nv],
            tau + x[2 * nv :],
            DT,
            contacts=contacts,
        )

    right = differences(
        moved, model, 3 * nv, 2e-6 if name == "block at rest" else 2e-5
    )  # a block tilts on to two corners soon
    jacobian = lw.jacobian(lw.step, model, wrt=("q", "v", "tau"), contacts=contacts)(q, v, tau, DT)
    found = np.block([list(jacobian[:3]), list(jacobian[3:])])
    scale = max(1.0, np.abs(right).max())
    assert (
        np.abs(found - right).max() < (1e-6 if name == "block at rest" else 1e-8) * scale
    )  # at rest steps lose digits
    bars = np.random.default_rng(0).normal(size=(2, nv))
    pulled = lw.vjp(lw.step, model, wrt=("q", "v", "tau"), contacts=contacts)(q, v, tau, DT, *bars)[2:]
    assert (
        np.abs(np.concatenate(pulled) - np.concatenate(bars) @ found).max() < 1e-7 * scale
    )  # redundant contacts lose digits
    along = np.random.default_rng(1).normal(size=(3, nv))
    pushed = lw.jvp(lw.step, model, wrt=("q", "v", "tau"), contacts=contacts)(q, v, tau, DT, *along)[2:]
    assert np.abs(np.concatenate(pushed) - found @ np.concatenate(along)).max() < 1e-7 * scale


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sliding point", "sliding block"])
def test_directional_derivatives_and_functions_that_call_steps(name: str) -> None:
    model, q, v, contacts = scene(name)
    nv = model.nv
    tau, along = np.zeros(nv), np.random.default_rng(1).normal(size=(2, nv))
    jacobian = lw.jacobian(lw.step, model, wrt=("v", "tau"), contacts=contacts)(q, v, tau, DT)
    found = lw.jvp(lw.step, model, wrt=("v", "tau"), contacts=contacts)(q, v, tau, DT, *along)
    assert np.abs(found[2] - jacobian[0] @ along[0] - jacobian[1] @ along[1]).max() < 1e-9
    assert np.abs(found[3] - jacobian[2] @ along[0] - jacobian[3] @ along[1]).max() < 1e-9

    def speed(q: Any, v: Any, tau: Any) -> Any:
        after = lw.step(model, q, v, tau, DT, contacts=contacts, differentiable=True)[1]
        return np.array([after @ after])

    program = lw.trace(speed, {"q": model.nq, "v": nv, "tau": nv})
    gradient = lw.compile(lw.vjp(program, "v"))(q, v, tau, [1.0])[-1]
    after = lw.step(model, q, v, tau, DT, contacts=contacts)[1]
    assert (
        np.abs(gradient - 2.0 * after @ jacobian[2]).max() < 1e-7
    )  # a proximal term of 1e-8 is part of these


@pytest.mark.slow
def test_derivatives_by_parameters() -> None:
    model, q, v, contacts = scene("sliding point")
    nv = model.nv
    tau = np.zeros(model.nv)
    bars = np.random.default_rng(2).normal(size=(2, nv))
    mass = model.parameters()["mass"]

    def moved(x: np.ndarray) -> Any:
        given = {"contact_friction": np.array([0.3 + x[0]]), "parameters": {"mass": mass + x[1]}}
        return lw.step(model, q, v, tau, DT + x[2], contacts=contacts, **given)

    right = differences(moved, model, 3)
    names = ("contact_friction", "mass", "dt")
    vjp = lw.vjp(lw.step, model, wrt=names, contacts=contacts)
    inputs = {"q": q, "v": v, "tau": tau, "dt": DT, "contact_friction": [0.3], "mass": mass}
    found = vjp(*(inputs[x.name] for x in vjp.inputs[:-2]), *bars)[2:]
    assert np.abs(np.array([np.ravel(x)[0] for x in found]) - np.concatenate(bars) @ right).max() < 1e-5
    by_friction = lw.jacobian(lw.step, model, wrt=("contact_friction", "dt"), contacts=contacts)(
        q, v, tau, DT, [0.3]
    )
    assert np.abs(by_friction[2][:, 0] - right[nv:, 0]).max() < 1e-6
    assert np.abs(by_friction[3] - right[nv:, 2]).max() < 1e-5


@pytest.mark.slow
def test_derivatives_by_restitution() -> None:
    model, q, v, contacts = scene("bouncing")
    tau, own = np.zeros(model.nv), (np.array([0.2]), np.array([0.6]))

    def moved(x: np.ndarray) -> Any:
        given = {"contact_friction": own[0] + x[0], "contact_restitution": own[1] + x[1]}
        return lw.step(model, q, v, tau, DT, contacts=contacts, **given)

    right = differences(moved, model, 2)
    names = ("contact_friction", "contact_restitution")
    found = lw.jacobian(lw.step, model, wrt=names, contacts=contacts)(q, v, tau, DT, *own)
    assert np.abs(np.block([list(found[:2]), list(found[2:])]) - right).max() < 1e-8
    pushed = lw.jvp(lw.step, model, wrt=names, contacts=contacts)(q, v, tau, DT, *own, [0.5], [-2.0])[2:]
    assert np.abs(np.concatenate(pushed) - right @ [0.5, -2.0]).max() < 1e-8


@pytest.mark.slow
def test_a_quadruped_that_stands() -> None:
    model = lw.robots.quadruped()
    q = model.neutral()
    for joint in model.joints:
        if joint.nv == 1:
            q[joint.q_slice] = {"hip": 0.8, "knee": -1.6}.get(joint.name.rpartition("_")[2], 0.0)
    q[2] -= lw.frame_pose(model, q, frame=FEET[0])[2, 3] + 2e-3
    v = 0.02 * np.random.default_rng(0).normal(size=model.nv)
    nv = model.nv
    tau, contacts = np.zeros(nv), Contacts(shapes=FEET, friction=0.6, tolerance=1e-13)
    along, bars = np.random.default_rng(1).normal(size=(3, nv)), np.random.default_rng(2).normal(size=(2, nv))

    def moved(x: np.ndarray) -> Any:
        state = lw.integrate(model, q, x[0] * along[0]), v + x[0] * along[1], tau + x[0] * along[2]
        return lw.step(model, *state, 0.002, contacts=contacts)

    right = differences(moved, model, 1)[:, 0]
    pulled = lw.vjp(lw.step, model, wrt=("q", "v", "tau"), contacts=contacts)(q, v, tau, 0.002, *bars)[2:]
    assert sum(a @ b for a, b in zip(pulled, along)) == pytest.approx(np.concatenate(bars) @ right, rel=1e-6)
    pushed = lw.jvp(lw.step, model, wrt=("q", "v", "tau"), contacts=contacts)(q, v, tau, 0.002, *along)[2:]
    assert np.abs(np.concatenate(pushed) - right).max() < 1e-6 * np.abs(right).max()
