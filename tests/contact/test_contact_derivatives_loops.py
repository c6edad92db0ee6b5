"""Derivatives of steps with contact against differences: of mechanisms with loops, rotors and flexible
bodies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_contact_derivatives import differences

import linkwork as lw
from linkwork import Contacts
from linkwork.model import Model
from linkwork.spatial import Pose

SCENES: dict[str, tuple[Callable[[], Model], str]] = {
    "loop": (lw.robots.five_bar, "left_lower"),
    "rotors": (lw.robots.mit_humanoid_leg, "ankle_link"),
    "flexible bodies": (lw.robots.flexible_arm, "tool"),
    "flexible bodies in loops": (lw.robots.flexible_stewart, "platform"),
}
DT = 1e-3


def against_a_wall(model: Model, frame: str, seed: int) -> tuple[np.ndarray, np.ndarray, Contacts]:
    """A state in which a point fixed to a frame is near a wall, and runs into it and slides along it within a
    step.
    """
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng)
    q[[k for k, name in enumerate(model.q_names) if "modes" in name]] *= 1e-5
    v[[k for k, name in enumerate(model.v_names) if "modes" in name]] *= 1e-2
    q = lw.close_loops(model, q)[0]
    V = lw.frame_velocity(model, q, v, frame=frame)
    tip = np.array([0.1, 0.05, 0.0])
    place = lw.frame_pose(model, q, frame=frame) @ np.block([[np.eye(3), tip[:, None]], [np.zeros(3), 1.0]])
    velocity = place[:3, :3] @ (V[3:] + np.cross(V[:3], tip))
    n = -velocity / np.linalg.norm(velocity)
    n = n + 0.4 * np.cross(n, place[:3, 2] + 0.1)
    n /= np.linalg.norm(n)
    across = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    across /= np.linalg.norm(across)
    wall = lw.Geometry(
        "wall", -1, Pose(np.stack([across, np.cross(n, across), n], axis=1), place[:3, 3] - 3e-4 * n), "plane"
    )
    point = lw.Geometry("tip", -1, Pose.translation(tip), "point", link=frame)
    return q, v, Contacts(shapes=[point], ground=[wall], limits=False, friction=0.2, tolerance=1e-13)


CASES = [(name, False) for name in SCENES] + [("loop", True)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "held"), CASES)
def test_derivatives_by_state_input_and_parameters(name: str, held: bool) -> None:
    """Changes of q keep loops closed, also where forces hold these."""
    make, frame = SCENES[name]
    closed = model = make()
    q, v, contacts = against_a_wall(model, frame, 3)
    moving = np.eye(model.nv)
    if held:
        moving = np.stack([lw.spanning_velocity(closed, q, unit) for unit in moving], axis=1)
        v, model = moving @ v, model.with_loops(constrain=[loop.name for loop in model.loops])
    ways, nv, mass = closed.nv, model.nv, model.parameters()["mass"]
    tau, heavier = 0.1 * np.cos(1.0 + np.arange(nv)), 0.1 * np.arange(len(mass))
    _, _, impulses, _, _, ok = lw.step(model, q, v, tau, DT, contacts=contacts, details=True)
    assert ok == 1.0 and impulses[0] > 1e-4 and np.hypot(*impulses[1:]) > 0.199 * impulses[0]
    n = ways + 2 * nv + 2
    size = np.ones(n)  # of differences: modes are stiff
    size[[k for k, word in enumerate(closed.v_names) if "modes" in word]] = 1e-3

    def moved(x: np.ndarray) -> Any:
        by_q, by_v, by_tau, by_friction, by_mass = np.split(size * x, np.cumsum([ways, nv, nv, 1]))
        more = {"contact_friction": 0.2 + by_friction, "parameters": {"mass": mass + by_mass * heavier}}
        return lw.step(
            model, lw.integrate(closed, q, by_q), v + by_v, tau + by_tau, DT, contacts=contacts, **more
        )

    right = differences(moved, model, n) / size
    scale = np.maximum(1.0, np.abs(right).max())
    if nv <= 10:  # whole Jacobians of more take minutes to compile
        jacobian = lw.jacobian(lw.step, model, wrt=("q", "v", "tau", "contact_friction"), contacts=contacts)
        found = jacobian(q, v, tau, DT, [0.2])
        columns = np.block([list(found[:4]), list(found[4:])])
        assert np.abs(columns[:, :nv] @ moving - right[:, :ways]).max() < 1e-6 * scale
        assert np.abs(columns[:, nv:] - right[:, ways:-1]).max() < 1e-6 * scale

    rng = np.random.default_rng(0)
    wrt = ("q", "v", "tau", "contact_friction", "mass")
    bars = rng.normal(size=(2, nv))
    along = rng.normal(size=n)
    pull, push = (kind(lw.step, model, wrt=wrt, contacts=contacts) for kind in (lw.vjp, lw.jvp))
    pulled = pull(q, v, tau, DT, [0.2], mass, *bars)[2:]
    gradient = np.concatenate([pulled[0] @ moving, *pulled[1:4], [pulled[4] @ heavier]])
    assert np.abs(gradient - np.concatenate(bars) @ right).max() < 1e-6 * scale
    by_q, by_v, by_tau, by_friction, by_mass = np.split(along, np.cumsum([ways, nv, nv, 1]))
    pushed = push(q, v, tau, DT, [0.2], mass, moving @ by_q, by_v, by_tau, by_friction, by_mass * heavier)[2:]
    assert np.abs(np.concatenate(pushed) - right @ along).max() < 1e-6 * scale * np.abs(along).sum()
