"""A parameter that is given changes what a function returns, or is refused: the product of parameters and
features of models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from linkwork.model.parameters import input_names
from product_models import CASES, case, states

NOT_IN_MOTION = ("friction", "frame_placement", "loop_placement")  # dry friction, sensors, and loop equations


def entries_of_springs(model: lw.Model, word: str) -> list[int]:
    return [j.v_start + i for j in model.joints if j.kind.springs == word for i in range(j.nv)]


def without_effect(model: lw.Model, kind: str, k: int) -> bool:
    """Whether an entry cannot matter for forces: the centre of a body without mass, or where the tree stands."""
    if kind == "center":
        return bool(model.bodies[k].mass == 0.0)
    if kind == "ratio":
        return not model.embedded
    return kind == "placement" and k == 0  # gravity is the same everywhere


def changed(kind: str, x: np.ndarray, k: int) -> np.ndarray:
    y = x.copy()
    if kind == "placement":
        y[k, :3] += 0.01
    else:
        y[k] = 1.05 * y[k] + (0.0 if kind == "ratio" else 0.1)
    return y


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("redundant")])
def test_parameters_act_or_are_refused(name: str) -> None:
    model = case(name).model
    rng = np.random.default_rng(5)
    q, v = states(model, rng, 1)
    a = rng.normal(size=v.shape)
    for kind, x in model.parameters().items():
        if kind in NOT_IN_MOTION:
            continue
        expected = lw.inverse_dynamics(model, q, v, a, parameters={kind: x})
        for k in range(1 if kind == "gravity" else len(x)):
            y = changed(kind, x, k)
            if kind == "stiffness" and k in entries_of_springs(model, "none"):
                with pytest.raises(ModelError, match="stiffness"):
                    lw.inverse_dynamics(model, q, v, a, parameters={kind: y})
            elif kind == "stiffness" and k in entries_of_springs(model, "equal"):
                with pytest.raises(ModelError, match="expected equal numbers"):
                    lw.inverse_dynamics(model, q, v, a, parameters={kind: y})
            elif not without_effect(model, kind, k):
                found = lw.inverse_dynamics(model, q, v, a, parameters={kind: y})
                assert not np.array_equal(found, expected), (kind, k)


CALLS: dict[str, Callable[..., Any]] = {
    "rollout": lambda model, q, v, p: lw.rollout(model, q, v, dt=1e-3, steps=2, parameters=p),
    "implicit rollout": lambda model, q, v, p: lw.rollout(
        model, q, v, dt=1e-3, steps=2, parameters=p, integrator="linearly_implicit_euler"
    ),
    "simulate": lambda model, q, v, p: lw.simulate(model, q, v, duration=2e-3, dt=1e-3, parameters=p),
    "potential_energy": lambda model, q, v, p: lw.potential_energy(model, q, parameters=p),
    "forward_dynamics": lambda model, q, v, p: lw.forward_dynamics(model, q, v, v, parameters=p),
    "vjp": lambda model, q, v, p: lw.vjp(lw.inverse_dynamics, model, parameters=tuple(p))(
        q, v, v, v, parameters=p
    ),
    "jacobian": lambda model, q, v, p: lw.jacobian(lw.inverse_dynamics, model, wrt="q", parameters=tuple(p))(
        q, v, v, **{input_names(tuple(p))[0]: next(iter(p.values()))}
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name, joint_kind", [("tree", "Free"), ("fixed base", "Planar")])
def test_no_function_takes_stiffness_of_joints_without_springs(call: str, name: str, joint_kind: str) -> None:
    """Zeros are accepted, numbers of other joints too, and one row of a batch that is not zero is an error that
    names the joint.
    """
    model = case(name).model
    q, v = (x[0] for x in states(model, np.random.default_rng(6), 1))
    joint = next(j for j in model.joints if type(j.kind).__name__ == joint_kind)
    zeros = np.zeros(joint.nv)
    word = f"stiffness@{joint.name}"
    function = CALLS[call]
    function(model, q, v, {word: zeros})
    function(model, q, v, {"stiffness": model.parameters()["stiffness"]})
    rows = np.zeros((3, joint.nv))
    rows[1, -1] = 2.0
    whole = model.parameters()["stiffness"].copy()
    whole[joint.v_start] = 2.0
    for wrong in ({word: rows}, {word: rows[1]}, {"stiffness": whole}):
        with pytest.raises(
            ModelError, match=f"{next(iter(wrong))!r}: expected 0 at joint {joint.name!r}, got "
        ):
            function(model, q, v, wrong)


@pytest.mark.parametrize("call", CALLS)
def test_springs_of_spherical_joints_have_a_potential(call: str) -> None:
    """Different numbers for its axes would not conserve energy: functions refuse them as models do."""
    model = case("tree").model
    q, v = (x[0] for x in states(model, np.random.default_rng(7), 1))
    joint = next(j for j in model.joints if type(j.kind).__name__ == "Spherical")
    word = f"stiffness@{joint.name}"
    CALLS[call](model, q, v, {word: np.array([[2.0] * 3, [5.0] * 3])})
    assert model.with_parameters({word: [2.0] * 3}).joint(joint.name).stiffness == (2.0,) * 3
    for wrong in ([2.0, 2.0, 3.0], [2.0, 0.0, 0.0]):
        with pytest.raises(ModelError, match=f"expected equal numbers at joint {joint.name!r}"):
            CALLS[call](model, q, v, {word: np.array([[1.0] * 3, wrong])})
        with pytest.raises(ModelError, match=f"{joint.name!r}: stiffness: expected equal numbers"):
            model.with_parameters({word: wrong})
