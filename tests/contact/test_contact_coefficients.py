"""Coefficients that are inputs: they act, or are refused; and a row with impossible ones fails alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.spatial import Pose

BAD = {
    "contact_friction": (-0.1, np.nan, np.inf, -np.inf),
    "contact_restitution": (-0.1, 1.5, np.nan, np.inf),
    "friction@hinge": (-0.1, np.nan, np.inf, -np.inf),
}


def rocker(rubbing: float = 0.02, **shape: Any) -> lw.Model:
    """A box on the ground with a bar on a hinge, of two contacts."""
    b = lw.ModelBuilder("rocker")
    b.add_body("box", mass=2.0, inertia=(0.02, 0.02, 0.02))
    b.add_joint("float", lw.joints.Free(), parent="world", child="box")
    b.add_body("bar", mass=0.5, center=(0.0, 0.0, 0.1), inertia=(0.01, 0.01, 0.01))
    b.add_joint("hinge", lw.joints.Revolute((1.0, 0.0, 0.0)), parent="box", child="bar", friction=rubbing)
    for name, x in (("left", -0.1), ("right", 0.1)):
        place = Pose.translation(np.array([x, 0.0, -0.05]))
        b.add_geometry(lw.Geometry(name, -1, place, "sphere", (0.01,), link="box", **shape))
    return b.build()


MODEL = rocker()
Q = np.array([0.0, 0.0, 0.0601, 0.0, 0.0, 0.0, 1.0, 0.3])
V = np.array([0.1, 0.0, 0.2, 0.3, 0.1, -0.2, 0.5])
GOOD = {
    "contact_friction": np.array([0.4, 0.6]),
    "contact_restitution": np.array([0.2, 0.3]),
    "friction@hinge": np.array([0.05]),
}


def rows_of(name: str, bad: float) -> np.ndarray:
    """Good coefficients in all rows but the second."""
    rows = np.tile(GOOD[name], (3, 1))
    rows[1, -1] = bad
    return rows


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "bad"), [(name, x) for name, several in BAD.items() for x in several])
def test_a_row_with_impossible_coefficients_fails_alone(name: str, bad: float, dtype: str) -> None:
    contacts = lw.Contacts()
    rows = rows_of(name, bad)
    fine = {name: GOOD[name]}
    how: dict[str, Any] = {"dt": 2e-3, "steps": 30, "contacts": contacts, "dtype": dtype}
    told = lw.rollout(MODEL, Q, V, **how, parameters={name: rows})
    good = lw.rollout(MODEL, Q, V, **how, parameters=fine)
    assert told.status.tolist() == [lw.Status.OK, lw.Status.NOT_FINITE, lw.Status.OK]
    assert (
        told.steps.tolist() == [30, 0, 30] and np.isnan(told.q[1, 1:]).all() and np.isnan(told.v[1, 1:]).all()
    )
    for k in (0, 2):
        assert np.array_equal(told.q[k], good.q) and np.array_equal(told.v[k], good.v)
    alone = lw.rollout(MODEL, Q, V, **how, parameters={name: rows[1:2]})  # as in the batch
    assert alone.status == [lw.Status.NOT_FINITE] and np.isnan(alone.q[0, 1:]).all()
    if dtype == "float64":
        log = lw.simulate(
            MODEL, Q, V, 0.02, lambda q, v, t: 0.0 * v, contacts=contacts, parameters={name: rows}
        )
        assert log.status.tolist() == told.status.tolist() and np.isfinite(log.q[[0, 2]]).all()
        after = lw.step(
            MODEL, Q, V, np.zeros(7), 2e-3, contacts=contacts, details=True, parameters={name: rows}
        )
        right = lw.step(MODEL, Q, V, np.zeros(7), 2e-3, contacts=contacts, details=True, parameters=fine)
        for x, y in zip(after, right, strict=True):
            assert np.array_equal(x[0], y) and np.array_equal(x[2], y)
        assert np.isnan(after[0][1]).all() and np.isnan(after[1][1]).all() and not after[5][1]


@pytest.mark.parametrize("dt", [0.0, -1e-3, np.nan, np.inf])
def test_a_row_with_no_time_fails_alone(dt: float) -> None:
    times = np.array([1e-3, dt, 2e-3])
    q, v = lw.step(MODEL, Q, V, np.zeros(7), times, contacts=lw.Contacts())
    assert np.isnan(q[1]).all() and np.isnan(v[1]).all()
    for k in (0, 2):
        assert np.array_equal(q[k], lw.step(MODEL, Q, V, np.zeros(7), times[k], contacts=lw.Contacts())[0])


@pytest.mark.parametrize("name", ["contact_friction", "contact_restitution"])
def test_impossible_coefficients_of_all_rows_are_an_error(name: str) -> None:
    for call in (
        lambda **x: lw.rollout(MODEL, Q, V, dt=1e-3, steps=2, **x),
        lambda **x: lw.simulate(MODEL, Q, V, 0.01, **x),
        lambda **x: lw.step(MODEL, Q, V, np.zeros(7), 1e-3, **x),
    ):
        with pytest.raises(lw.ModelError, match=f"{name}: expected finite numbers"):
            call(contacts=lw.Contacts(), parameters={name: [0.5, -1.0]})


def test_compiled_steps_and_derivatives_say_so_too() -> None:
    how: dict[str, Any] = {"optional": ("contact_friction",), "contacts": lw.Contacts()}
    mu = rows_of("contact_friction", -0.1)
    found = lw.compile(lw.step, MODEL, **how)(Q, V, np.zeros(7), 1e-3, mu)
    assert [np.isnan(x).all(axis=-1).tolist() for x in found] == [[False, True, False]] * 2
    by = lw.jacobian(lw.step, MODEL, wrt="contact_friction", output="out1", **how)(
        Q, V, np.zeros(7), 1e-3, mu
    )
    last = by[-1] if isinstance(by, tuple) else by
    assert np.isfinite(last[[0, 2]]).all() and np.isnan(last[1]).any()
    smooth = lw.Contacts(friction=0.0)  # a kernel cannot say more
    found = lw.compile(lw.step, MODEL, optional=("contact_friction",), contacts=smooth)(
        Q, V, np.zeros(7), 1e-3, 0.0 * mu + [0.0, 0.1]
    )
    assert all(np.isnan(x).all() for x in found)


def calls(model: lw.Model, contacts: Any) -> list[Any]:
    still = np.zeros(model.nv)
    return [
        lambda x: lw.rollout(model, Q, V, dt=1e-3, steps=2, contacts=contacts, parameters=x),
        lambda x: lw.rollout(model, Q, V, dt=1e-3, steps=2, contacts=contacts, parameters=x, dtype="float32"),
        lambda x: lw.simulate(model, Q, V, 0.01, contacts=contacts, parameters=x),
        lambda x: lw.step(model, Q, V, still, 1e-3, contacts=contacts, parameters=x),
    ]


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize(
    ("model", "contacts", "name", "told"),
    [
        (MODEL, {"friction": 0.0}, "contact_friction", "contact_friction of 'right': expected 0, got 0.7: .* a friction of 0"),
        (rocker(condim=1), {}, "contact_friction", "'right': expected 0, got 0.7: .* condim of 1"),
        (rocker(friction=(0.0,)), {}, "contact_friction", "'right': expected 0"),
        (MODEL, {"stiffness": 1e4}, "contact_restitution", "contact_restitution is for rigid contacts; .*damping"),
        (rocker(0.0), {}, "friction@hinge", "'friction@hinge': expected 0 at joint 'hinge', got 0.7: the model's value is 0"),
        (rocker(0.0), {}, "friction", "parameter 'friction': expected 0 at joint 'hinge', got 0.7"),
        (MODEL, {"joint_friction": False}, "friction@hinge", r"got 0.7: .*Contacts\(joint_friction=False\) leave it out"),
        (rocker(0.0), None, "friction@hinge", "'friction@hinge': expected 0 at joint 'hinge', got 0.7: the model's value is 0"),
    ],
)  # fmt: skip
def test_coefficients_that_could_not_act_are_refused(
    model: lw.Model, contacts: Any, name: str, told: str, rows: bool
) -> None:
    size = {"friction@hinge": 1, "friction": model.nv_spanning}.get(name, 2)
    given = np.zeros((3, size) if rows else size)
    given[..., -1] = 0.7
    for call in calls(model, None if contacts is None else lw.Contacts(**contacts)):
        with pytest.raises(lw.ModelError, match=told):
            call({name: given})
        if contacts and name != "contact_restitution":
            call({name: 0.0 * given})  # as it is


def test_small_friction_in_the_model_makes_room_for_more() -> None:
    """A parameter does what the model's own number does, whatever that was."""
    tiny = rocker(1e-9)
    much = rocker(0.3)
    how: dict[str, Any] = {"dt": 2e-3, "steps": 50}
    wanted = lw.rollout(much, Q, V, **how, contacts=lw.Contacts(friction=0.7))
    given = {"friction@hinge": [0.3], "contact_friction": [0.7, 0.7]}
    found = lw.rollout(tiny, Q, V, **how, contacts=lw.Contacts(friction=1e-9), parameters=given)
    assert np.allclose(found.q, wanted.q, rtol=0.0, atol=1e-9) and wanted.status == lw.Status.OK
    assert not np.allclose(
        lw.rollout(tiny, Q, V, **how, contacts=lw.Contacts(friction=1e-9)).q, wanted.q, atol=1e-3
    )
