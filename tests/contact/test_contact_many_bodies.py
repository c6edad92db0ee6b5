"""Contacts on more bodies than a robot has velocities: they are carried by the velocities of all joints."""

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.contact import on_bodies
from linkwork.algorithms.contact import step as contact_step
from linkwork.joints import Free, Revolute

DT = 2e-3


def caterpillar(bodies):
    """A free trunk with links in a row, each a box that may touch the ground by its lower corners."""
    builder = lw.ModelBuilder("caterpillar")
    for k in range(bodies):
        builder.add_body(f"link{k}", mass=1.0, inertia=np.diag([1e-3, 2e-3, 2e-3]))
        joint = Free() if k == 0 else Revolute((0.0, 1.0, 0.0) if k % 2 else (0.0, 0.0, 1.0))
        limits = {} if k == 0 else {"lower": -0.4, "upper": 0.4}
        on, place = ("world", (0.0, 0.0, 0.0)) if k == 0 else (f"link{k - 1}", (0.15, 0.0, 0.0))
        builder.add_joint(f"joint{k}", joint, parent=on, child=f"link{k}", xyz=place, **limits)
        builder.add_geometry(f"box{k}", "box", (0.1, 0.08, 0.04), link=f"link{k}", friction=(0.6,))
    return builder.build()


def on_the_ground(model, seed):
    rng = np.random.default_rng(seed)
    q = model.neutral()
    q[2], v = 0.0199, 0.3 * rng.normal(size=model.nv)
    return q, v


def after(model, q, v, monkeypatch, most):
    """The velocity after a step, and its solution, by what carries contacts or, where that is too many, by
    all of G.
    """
    monkeypatch.setattr(on_bodies, "MIN_CARRIED_ROWS", most)
    contacts = lw.Contacts(iterations=500)
    step = contact_step.Step(
        model, contacts, q, v, np.zeros(model.nv), DT, None, "mass_matrix", contact_step.NONE_GIVEN
    )
    rows = len(lw.impulse_names(model, contacts=contacts))
    u, solution = step.solved(np.zeros(rows), np.zeros(len(contacts.candidates(model))))
    return step, np.array(u, dtype=float), solution


@pytest.mark.parametrize("seed", [0, 1])
def test_what_carries_contacts_does_not_change_the_motion(seed, monkeypatch):
    model = caterpillar(3)
    q, v = on_the_ground(model, seed)
    step, u, solution = after(model, q, v, monkeypatch, 13)
    assert step.bodies is not None and step.bodies.B is not None and step.bodies.B.shape[1] == model.nv
    other, same, dense = after(model, q, v, monkeypatch, 10_000)
    assert other.bodies is None and solution.converged == dense.converged == 1.0
    np.testing.assert_allclose(u, same, atol=1e-6)


def test_programs_grow_linearly_with_bodies_that_may_touch():
    """Dense matrices of all rows would grow with their square, or more, and so would the time to compile."""
    few, more = (_operations(caterpillar(n)) for n in (3, 6))
    assert more < 2.8 * few


def _operations(model):
    """Of one iteration and what is around it."""
    contacts = lw.Contacts(iterations=1, limits=False)
    return lw.count_operations(lw.step, model, contacts=contacts, method="mass_matrix")["total"]
