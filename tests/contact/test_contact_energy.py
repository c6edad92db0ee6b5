"""Steps with contact gain no energy and do not penetrate, however fast limbs whirl; and guarding this harms
nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.contact.energy import Account, Ledger, guarded_mechanisms, settled

DT = 2e-3


def flail(gravity: float = 9.81, beside: bool = False) -> lw.Model:
    """A floating ball with two rods of 0.4 m on it, one after the other, the second with a small ball at its
    end; and a pendulum `beside` it.
    """
    b = lw.ModelBuilder("flail", gravity=(0.0, 0.0, -gravity))
    if beside:
        pendulum(b)
    b.add_body("hub", mass=2.0, inertia=(0.01, 0.02, 0.03))
    b.add_joint("floating", lw.joints.Free(), parent="world", child="hub")
    for name, parent, z in (("upper", "hub", 0.0), ("lower", "upper", -0.4)):
        b.add_body(name, mass=0.5, center=(0.0, 0.0, -0.2), inertia=(0.007, 0.007, 0.0002))
        axis = (0, 1, 0) if name == "upper" else (0.6, 0.8, 0.0)
        b.add_joint(f"to {name}", lw.joints.Revolute(axis), parent=parent, child=name, xyz=(0.0, 0.0, z))
    b.add_geometry("tip", "sphere", 0.01, link="lower", xyz=(0.0, 0.0, -0.4))
    b.add_geometry("shell", "sphere", 0.1, link="hub")
    return b.build()


def pendulum(b: lw.ModelBuilder) -> None:
    """Add two rods on the ground, far from everything, the second with a ball that touches the ground."""
    for name, parent, at in (("high", "world", (5.0, 0.0, 0.79)), ("low", "high", (0.0, 0.0, -0.4))):
        b.add_body(name, mass=0.5, center=(0.0, 0.0, -0.2), inertia=(0.007, 0.007, 0.0002))
        b.add_joint(f"to {name}", lw.joints.Revolute((0, 1, 0)), parent=parent, child=name, xyz=at)
    b.add_geometry("bob", "sphere", 0.02, link="low", xyz=(0.0, 0.0, -0.4))


def energies(model: lw.Model, q: Any, v: Any) -> np.ndarray:
    found: np.ndarray = lw.kinetic_energy(model, q, v) + lw.potential_energy(model, q)
    return found


def whirling(model: lw.Model, rows: int, height: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    q = np.array([model.random_state(rng)[0] for _ in range(rows)])
    q[:, :2] = 0.0
    q[:, 2] += height - lw.contact_points(model, q)[0].min(axis=-1)
    return q, rng.standard_normal((rows, model.nv)) * np.array([5.0, 5.0, 5.0, 1.0, 1.0, 1.0, 40.0, 40.0])


@pytest.mark.parametrize("restitution", [0.0, 1.0])
def test_whirling_limbs_neither_gain_energy_nor_penetrate(restitution: float) -> None:
    """Without the guard a fifth of the rows gain more than a tenth of their energy, and tips sink in by
    centimetres.
    """
    model = flail()
    contacts = lw.Contacts(restitution=restitution, friction=0.5)
    q, v = whirling(model, 32, 0.05)
    found = lw.rollout(model, q, v, dt=DT, steps=150, contacts=contacts)
    energy = energies(model, found.q, found.v)
    assert (
        np.diff(energy, axis=1) <= 1e-4 * 3.0 * 9.81
    ).all()  # a penetration of a tenth of a millimetre that is undone
    assert lw.contact_points(model, found.q, contacts=contacts)[0].min() >= -1e-4


def test_mechanisms_that_do_not_meet_move_as_each_alone() -> None:
    """One floats, the other stands on the ground: each has a guard of its own energy."""
    both = flail(beside=True)
    alone = flail()
    b = lw.ModelBuilder("pendulum")
    pendulum(b)
    still = b.build()
    contacts = lw.Contacts(restitution=0.5, friction=0.5)
    q, v = whirling(alone, 8, 0.01)
    rng = np.random.default_rng(4)
    q_of = {"flail": q, "pendulum": np.array([0.0, 0.1]) + 0.01 * rng.standard_normal((8, 2))}
    v_of = {"flail": v, "pendulum": 20.0 * rng.standard_normal((8, 2))}
    q, v = (np.concatenate([of["pendulum"], of["flail"]], axis=1) for of in (q_of, v_of))
    found = lw.rollout(both, q, v, dt=DT, steps=20, contacts=contacts)
    for name, model, at in (("pendulum", still, slice(None, 2)), ("flail", alone, slice(2, None))):
        right = lw.rollout(model, q_of[name], v_of[name], dt=DT, steps=20, contacts=contacts)
        assert np.abs(found.v[..., at] - right.v).max() < 1e-6 * np.abs(right.v).max()


def test_robots_that_turn_too_far_in_a_step_do_not_run_away() -> None:
    """Without the bound on a step two of these rows end OK with 4 and 7.7 times their energy."""
    model = flail()
    q, v = whirling(model, 60, height=50.0)
    v[:, :3] *= 20.0
    v[:, 6:] *= 2.5
    contacts = lw.Contacts(restitution=0.0, friction=0.5)
    motion = lw.rollout(model, q, v, dt=2 * DT, steps=100, contacts=contacts)
    ok = motion.status == lw.Status.OK
    energy = (energies(model, motion.q, motion.v) - lw.potential_energy(model, q)[:, None])[ok]
    assert ok.sum() > 40
    assert (energy < 1.5 * energy[:, :1]).all()


def test_in_flight_the_centre_of_mass_goes_its_way() -> None:
    """A free body that tumbles keeps its linear momentum, while the guard keeps its energy from growing."""
    b = lw.ModelBuilder("book")
    b.add_body("book", mass=1.0, inertia=(0.001, 0.004, 0.005))
    b.add_joint("floating", lw.joints.Free(), parent="world", child="book")
    b.add_geometry("cover", "box", (0.2, 0.1, 0.02), link="book")
    model = b.build()
    q, v = np.array([0.0, 0.0, 2.0, *model.neutral()[3:]]), np.array([30.0, 20.0, 10.0, 1.0, -2.0, 3.0])
    found = lw.rollout(model, q, v, dt=DT, steps=50, contacts=lw.Contacts())
    along = lw.momentum(model, found.q, found.v)[:, 3:]
    assert np.allclose(
        along,
        np.array([1.0, -2.0, 3.0]) - np.outer(DT * np.arange(51), [0.0, 0.0, 9.81]),
        rtol=0.0,
        atol=1e-11,
    )
    assert (np.diff(energies(model, found.q, found.v)) <= 1e-10).all()


def test_what_forces_give_is_not_taken_away() -> None:
    """Motors and a force from outside speed up limbs that rest: the step is v + dt a, as without contact."""
    model = flail(0.0)
    rng = np.random.default_rng(3)
    q = np.array([0.0, 0.0, 3.0, *model.neutral()[3:]])
    v, tau, f_ext = np.zeros(8), np.array([*np.zeros(6), 3.0, -2.0]), rng.standard_normal((3, 6))
    for outer in (None, f_ext):
        v1 = lw.step(model, q, v, tau, DT, outer, contacts=lw.Contacts())[1]
        wanted = DT * lw.forward_dynamics(model, q, v, tau, outer)
        assert np.abs(wanted).max() > 0.1 and np.allclose(
            v1, wanted, rtol=0.0, atol=1e-3 * np.abs(wanted).max()
        )


@pytest.mark.parametrize("of", ["joint", "contact"])
def test_springs_give_back_what_they_took(of: str) -> None:
    """A ball on a slide that swings at a spring high above the ground, or comes back from soft ground."""
    b = lw.ModelBuilder("ball", gravity=(0.0, 0.0, 0.0))
    b.add_body("ball", mass=1.0, inertia=(0.01, 0.01, 0.01))
    b.add_joint(
        "slide",
        lw.joints.Prismatic((0, 0, 1)),
        parent="world",
        child="ball",
        xyz=(0.0, 0.0, 2.0),
        stiffness=100.0,
    )
    b.add_geometry("shell", "sphere", 0.1, link="ball")
    model = b.build()
    contacts = lw.Contacts()
    if of == "contact":
        model = model.with_parameters({"stiffness": [0.0]})
        contacts = lw.Contacts(stiffness=1e4)
    q = -1.88 if of == "contact" else 0.5
    found = lw.rollout(model, [q], [-1.0], dt=1e-4, steps=5000, contacts=contacts)
    energy = energies(model, found.q, found.v)
    swings = 1e-3  # ω dt: what the energy of semi-implicit Euler swings by
    assert (
        found.v.max() > 0.9 and energy[-1] > 0.95 * energy[0] and energy.max() <= energy[0] * (1.0 + swings)
    )


def test_limbs_that_swing_are_not_damped() -> None:
    """A step that gains a little where joints are slow is left alone: in the long run semi-implicit Euler
    gains nothing.
    """
    b = lw.ModelBuilder("pendulum")
    b.add_body("rod", mass=1.0, center=(0.0, 0.0, -0.25), inertia=(0.01, 0.01, 0.001))
    b.add_joint("pivot", lw.joints.Revolute((0, 1, 0)), parent="world", child="rod", xyz=(0.0, 0.0, 3.0))
    b.add_geometry("bob", "sphere", 0.05, link="rod", xyz=(0.0, 0.0, -0.5))
    model = b.build()
    with_contact, without = (
        lw.rollout(model, [0.6], [0.0], dt=DT, steps=500, contacts=each) for each in (lw.Contacts(), None)
    )
    assert (np.diff(energies(model, without.q, without.v)) > 1e-6).any()
    assert np.allclose(with_contact.v, without.v, rtol=0.0, atol=1e-9)


def test_a_robot_that_stands_is_free_to_move() -> None:
    """A penetration of a micrometre is undone, and motors still move the robot that rests there."""
    model = flail()
    contacts = lw.Contacts(shapes=["shell"], friction=1.0)
    q = np.array([0.0, 0.0, 0.1 - 1e-6, *model.neutral()[3:]])
    tau = np.array([*np.zeros(6), 1e-3, 1e-3])
    still, moved = (lw.step(model, q, np.zeros(8), x, DT, contacts=contacts)[1] for x in (np.zeros(8), tau))
    wanted = DT * lw.mass_matrix_inverse(model, q) @ tau
    assert np.linalg.norm((moved - still)[6:]) > 0.1 * np.linalg.norm(wanted[6:])


def test_a_step_across_a_singular_position_of_loops_is_no_step() -> None:
    """In flight the locked motion alone cannot have more energy than all had before; in a tree motion inside
    stops first, and a step that gains a quarter is none.
    """
    tello = lw.robots.tello()
    tree = lw.robots.quadruped()
    for model, stops in ((tello, True), (tree, False)):
        (each,) = guarded_mechanisms(model)
        v = np.ones(model.nv)
        momentum = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 2.0])
        end = Ledger(
            20.0, 0.0, momentum, np.eye(6) * np.array([1.0, 1.0, 1.0, 0.1, 0.1, 0.1])
        )  # 20 J in locked motion
        found = settled(each, Account(18.0, momentum, False), end, v)
        assert bool(np.isnan(found.astype(float)).any()) == stops
        found = settled(each, Account(10.0, momentum, False), end, v)
        assert np.isnan(found.astype(float)).any()
        end = Ledger(30.0, 0.0, momentum, end.inertia)
        kept = settled(each, Account(24.0, momentum, False), end, v).astype(float)
        assert np.isfinite(kept).all() and kept[-1] == pytest.approx((4.0 / 10.0) ** 0.5)
        still = settled(
            each, Account(-1e-9, 0.0 * momentum, True), Ledger(1e-6, 0.0, 0.0 * momentum, end.inertia), v
        )
        assert (still == 0.0).all()  # it stands


def test_a_rim_that_is_found_in_the_ground_is_not_lifted_at_once() -> None:
    """In a groove the lowest point of a rim changes sides within a step, and is millimetres deep on the other
    side.

    It was put on the ground in that step, with a gain of 0.09 J, and told to be converged. It must come out
    slowly.
    """
    b = lw.ModelBuilder("drum").add_body("drum", mass=2.0, inertia=(0.01, 0.012, 0.015))
    b.add_joint("floating", lw.joints.Free(), parent="world", child="drum")
    b.add_geometry("drum", "cylinder", (0.08, 0.1), link="drum", friction=(0.6,))
    model = b.build()
    groove = lw.Geometry(
        "groove", shape="heightfield", size=(3.0, 2.0), heights=((0.3, 0.0, 0.3), (0.3, 0.0, 0.3))
    )
    q = np.array([0.016, -0.01, 0.065, -0.299, -0.944, -0.101, -0.099])
    q[3:] /= np.linalg.norm(q[3:])
    v = np.array([-2.876, -2.218, -0.007, 0.111, -0.142, -0.178])
    contacts = lw.Contacts(ground=groove)
    q1, v1, *_, converged = lw.step(model, q, v, np.zeros(6), DT, contacts=contacts, details=True)
    assert energies(model, q1, v1) - energies(model, q, v) <= 2.0 * 9.81 * (0.1 * DT + 2e-5)
    assert converged == 0.0 and lw.contact_points(model, q1, contacts=contacts)[0].min() < -1e-4


def test_a_deep_start_is_lifted_with_the_velocity_that_it_tells() -> None:
    """It was lifted at 0.1 m/s while its velocity said 5e-4 m/s."""
    b = lw.ModelBuilder("box").add_body("box", mass=1.0, inertia=(0.004, 0.005, 0.006))
    b.add_joint("floating", lw.joints.Free(), parent="world", child="box")
    model = b.add_geometry("box", "box", (0.2, 0.16, 0.24), link="box").build()
    q = np.array([0.0, 0.0, 0.07, 0.0, 0.0, 0.0, 1.0])
    found = lw.rollout(model, q, np.zeros(6), dt=1e-3, steps=1000, contacts=lw.Contacts())
    np.testing.assert_allclose(found.v[1:, 5], np.diff(found.q[:, 2]) / 1e-3, atol=1e-10)
    assert found.v[:, 5].max() <= 0.1 + 1e-9 and abs(found.q[-1, 2] - 0.12) < 1e-6
