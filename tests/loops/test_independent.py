"""Independent velocities that are chosen for a model stay good over the reachable range; those that users
choose are obeyed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkages import floats
from linkwork.joints import Prismatic, Revolute, Rod, Universal
from linkwork.loops.mobility import most_independent
from planar_bars import Z, four_bar


@pytest.mark.parametrize("size", [1.0, 1e-7])
@pytest.mark.parametrize("through", ["crank", "rocker"])
def test_a_crank_is_chosen_and_not_what_turns_back(through: str, size: float) -> None:
    assert four_bar(0.3, 1.0, 0.8, 1.0, through=through, size=size).v_names == ("crank",)
    assert four_bar(0.8, 1.0, 0.3, 1.0, through=through, size=size).v_names == ("rocker",)


def test_the_slider_of_an_engine_depends_on_its_crank() -> None:
    builder = lw.ModelBuilder("engine")  # the tree leads through the slider: the crank is its tip
    for name in ("slider", "rod", "crank"):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint(
        "slide", Prismatic((1.0, 0.0, 0.0)), parent="world", child="slider", xyz=(0.4, 0.0, 0.0)
    )
    builder.add_joint("pin", Z, parent="slider", child="rod")
    builder.add_joint("shaft", Z, parent="world", child="crank")
    ends = {"xyz": (-0.3, 0.0, 0.0), "successor_xyz": (0.1, 0.0, 0.0)}
    builder.add_loop("big end", Z, predecessor="rod", successor="crank", **ends)
    assert builder.build().v_names == ("shaft",)


def cam(**chosen: bool) -> lw.Model:
    """A follower that is lifted by the square of a cam's angle: at zero the cam turns without lifting it."""
    builder = lw.ModelBuilder("cam")
    for name, kind in (("turn", Z), ("lift", Prismatic((0.0, 0.0, 1.0)))):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(name, kind, parent="world", child=name, independent=chosen.get(name))
    return builder.add_implicit_constraint(
        "cam", lambda q: q[1] - 0.1 * q[0] * q[0], joints=["turn", "lift"]
    ).build()


def test_a_users_choice_is_obeyed_and_one_that_is_bad_at_first_is_no_error() -> None:
    assert four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker").v_names == ("rocker",)
    assert cam().v_names == ("turn",)
    lifted = cam(turn=False, lift=True)
    assert lifted.v_names == ("lift",)
    assert lw.loop_conditioning(lifted, np.zeros(2))[0] == 0.0
    assert lw.loop_conditioning(lifted, np.array([1.0, 0.1]))[0] > 0.1


def ankle(**more: Any) -> lw.ModelBuilder:
    """A foot on a universal joint, pushed by one rod: one of the joint's two angles is left."""
    builder = lw.ModelBuilder("ankle")
    builder.add_body("shank", mass=2.0, inertia=(0.1, 0.1, 0.05))
    builder.add_joint("knee", Revolute((0.0, 1.0, 0.0)), parent="world", child="shank")
    builder.add_body("foot", mass=1.0, center=(0.05, 0.0, 0.0), inertia=(0.02, 0.03, 0.03))
    builder.add_joint("ankle", Universal(), parent="shank", child="foot", xyz=(0.0, 0.0, -0.5), **more)
    ends = {"xyz": (0.1, 0.08, -0.2), "successor_xyz": (0.12, 0.09, 0.05)}
    length = float(np.linalg.norm([0.02, 0.01, -0.25]))
    return builder.add_loop("rod", Rod(length), predecessor="shank", successor="foot", **ends)


def test_single_components_of_joints_are_chosen_by_name() -> None:
    model = ankle().build()
    components = model.v_names_spanning[1:]
    assert len(components) == 2 and {name.partition(".")[0] for name in components} == {"ankle"}
    q, _ = model.random_state(0)
    spans = []
    for k, name in enumerate(components):
        chosen = model.with_independent(name)
        assert chosen.v_names == ("knee", name) == chosen.with_independent("knee", name).v_names
        built = ankle(independent=[n == k for n in range(2)]).build()
        assert built.v_names == chosen.v_names and built == chosen
        assert lw.load(lw.export_urdf(chosen)).v_names == chosen.v_names
        assert chosen.with_parameters({"mass": 2.0 * chosen.parameters()["mass"]}).v_names == chosen.v_names
        moved = chosen.with_parameters({"placement": chosen.parameters()["placement"]})
        assert moved.v_names == chosen.v_names
        found = floats(lw.spanning_velocity, chosen, q, np.array([0.3, 1.0]))
        assert found[0] == 0.3 and found[1 + k] == 1.0
        spans.append(found[1:] / np.linalg.norm(found[1:]))
    assert np.allclose(abs(spans[0] @ spans[1]), 1.0)  # the same motion of the mechanism
    by_name = model.with_independent(*chosen.independent_at(q))
    assert len(by_name.v_names) == 2


def test_wrong_components_are_told() -> None:
    model = ankle().build()
    with pytest.raises(
        lw.ModelError, match="1 degrees of freedom, but 2 independent velocities are chosen: 'ankle'"
    ):
        model.with_independent("ankle")
    with pytest.raises(lw.ModelError, match="no joint named 'ankle.a'.*did you mean 'ankle"):
        model.with_independent("ankle.a")
    with pytest.raises(
        lw.ModelError,
        match="joint 'ankle': independent: expected True, False or None, or 2 of True and False",
    ):
        ankle(independent=(True,))


def test_a_choice_that_never_determines_the_others_is_an_error() -> None:
    builder = lw.ModelBuilder("two hinges on one axis")
    for name in ("a", "b", "c", "d", "e"):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("a", Z, parent="world", child="a", independent=False)
    builder.add_joint("b", Z, parent="a", child="b", xyz=(0.5, 0.0, 0.0), independent=False)
    builder.add_joint("c", Z, parent="world", child="c", xyz=(0.6, 0.0, 0.0), independent=False)
    builder.add_joint(
        "d", Prismatic((0.0, 0.0, 1.0)), parent="b", child="d", xyz=(0.5, 0.0, 0.0), independent=True
    )
    ends = {"xyz": (0.5, 0.0, 0.0), "successor_xyz": (0.5, 0.0, 0.0)}
    builder.add_loop("loop", Revolute((0.0, 0.0, 1.0)), predecessor="d", successor="c", **ends)
    builder.add_joint("e", Z, parent="world", child="e")
    with pytest.raises(lw.ModelError, match="do not determine the others"):
        builder.build()


@pytest.mark.parametrize("name", ["five_bar", "slider_crank", "watt"])
def test_choices_are_about_as_good_as_those_of_the_shipped_robots(name: str) -> None:
    robot = getattr(lw.robots, name)()
    free = robot.with_any_independent()
    q = np.array([robot.random_state(k)[0] for k in range(10)])
    assert lw.loop_conditioning(free, q).min() > lw.loop_conditioning(robot, q).min() / 4.0


def test_the_best_velocities_at_a_state() -> None:
    model = four_bar(0.3, 1.0, 0.8, 1.0, independent="rocker")
    angle = np.arccos((1.0 + 1.3**2 - 0.8**2) / 2.6)  # crank and coupler in one line: the rocker turns back
    q = np.array([angle, 0.0, np.arctan2(1.3 * np.sin(angle), 1.3 * np.cos(angle) - 1.0)])
    names = model.independent_at(q)
    assert names != ("rocker",)
    assert lw.loop_conditioning(model.with_independent(*names), q)[0] > 0.3
    arms = lw.robots.five_bar()
    assert arms.independent_at(arms.neutral()) == arms.v_names
    assert lw.robots.arm().independent_at(lw.robots.arm().neutral()) == ()
    with pytest.raises(lw.ShapeError, match=r"independent_at: q: expected shape"):
        model.independent_at(np.zeros((2, 3)))


def test_motions_of_all_joints_do_not_depend_on_the_choice() -> None:
    crank = four_bar(0.3, 1.0, 0.8, 1.0)
    angle = np.arccos((1.0 + 1.3**2 - 0.8**2) / 2.6)  # the rocker turns back: it is no coordinate here
    q = np.array([angle, 0.0, np.arctan2(1.3 * np.sin(angle), 1.3 * np.cos(angle) - 1.0)])
    w = lw.spanning_velocity(crank, q, [3.0])
    tau = np.array([0.5, -0.3, 0.8])
    found = []
    for name in ("crank", "coupler"):
        model = crank.with_independent(name)
        v = w[[model.joint(name).v_start]]
        a = lw.forward_dynamics(model, q, v, lw.independent_force(model, q, tau))
        found.append(lw.spanning_acceleration(model, q, v, a))
    held = crank.with_loops(constrain=["pin"])
    found.append(lw.forward_dynamics(held, q, w, tau))
    assert np.allclose(found[0], found[1], rtol=1e-11) and np.allclose(found[0], found[2], rtol=1e-6)


def test_rows_beyond_the_rank_are_distinct() -> None:
    """Where only zeros are left, a row that was not chosen yet is taken, and nothing overflows."""
    rows = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.1], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    rows[0] /= 3.0
    assert most_independent(rows, 3) == [0, 1, 2]


@pytest.mark.parametrize("bad", [1e14, np.nan, np.inf])
def test_a_state_that_is_not_finite_stops_alone(bad: float) -> None:
    """Equations of loops that are not finite have no singular values; other rows go on with the same bits."""
    model = lw.robots.tello()
    q, v = (np.stack(x) for x in zip(*(model.random_state(k) for k in range(3))))
    right = lw.rollout(model, q, v, dt=1e-3, steps=2)
    q[1, -1] = bad
    found = lw.rollout(model, q, v, dt=1e-3, steps=2)
    assert found.status[1] != 0 and found.status[[0, 2]].tolist() == [0, 0]
    assert np.array_equal(found.q[[0, 2]], right.q[[0, 2]])
    with pytest.raises(lw.ModelError, match="expected finite numbers"):
        model.independent_at(q[1])
