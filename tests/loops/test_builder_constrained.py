"""Loops that a builder is told to hold by forces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Revolute

PLACES: Any = {"xyz": (0.6, 0, 0), "successor_xyz": (0.5, 0, 0)}
ENDS = {"predecessor": "coupler", "successor": "rocker"}


def four_bar(tilt: float = 0.0, friction: float = 0.0, with_loop: bool = True, **options: bool) -> lw.Model:
    builder = lw.ModelBuilder("four bar")
    for name, length in (("crank", 0.2), ("coupler", 0.6), ("rocker", 0.5)):
        builder.add_body(
            name, mass=length, center=(length / 2, 0, 0), inertia=(0.001, length**3 / 12, length**3 / 12)
        )
    hinge = Revolute((0, 0, 1))
    rpy = (tilt, 0, 0)
    builder.add_joint("a", hinge, parent="world", child="crank", rpy=rpy, friction=friction)
    builder.add_joint("b", hinge, parent="crank", child="coupler", xyz=(0.2, 0, 0))
    builder.add_joint("d", hinge, parent="world", child="rocker", xyz=(0.6, 0, 0), rpy=rpy)
    if with_loop:
        builder.add_loop("c", hinge, **ENDS, **PLACES, **options)
    return builder.build()


@pytest.mark.parametrize("tilt", [0.0, 0.5])
@pytest.mark.parametrize("way", ["add_loop", "with_loop", "with_parameters"])
def test_a_loop_held_by_forces_moves_as_the_embedded_one(way: str, tilt: float) -> None:
    embedded = four_bar(tilt)
    held = four_bar(tilt, embed=False)
    if way == "with_loop":
        held = four_bar(tilt, with_loop=False).with_loop("c", Revolute(), **ENDS, **PLACES, embed=False)
    elif way == "with_parameters":  # placed anew, in another plane
        placement = held.parameters()["placement"]
        held = four_bar(tilt + 0.4, embed=False).with_parameters({"placement": placement})
    assert (embedded.nv, held.nv) == (1, 3)
    q, v = embedded.random_state(1)
    V = lw.spanning_velocity(embedded, q, v)
    force = np.array([0.3, -0.2, 0.5])
    A = lw.spanning_acceleration(
        embedded, q, v, lw.forward_dynamics(embedded, q, v, lw.independent_force(embedded, q, force))
    )
    assert np.allclose(lw.forward_dynamics(held, q, V, force), A, rtol=1e-8)
    assert "1 constrained loop or coupling: c (revolute loop)" in held.report()


def test_dry_friction_acts_in_a_tilted_loop_held_by_forces() -> None:
    held = four_bar(0.5, friction=0.2, embed=False)
    same = four_bar(0.5, friction=0.2).with_loops(constrain=["c"])
    q, v = same.random_state(1)
    for found, expected in zip(lw.step(held, q, v, 0 * v, 0.01), lw.step(same, q, v, 0 * v, 0.01)):
        assert np.allclose(found, expected, atol=1e-12)


def test_a_state_of_a_held_loop_is_closed_and_stays_so() -> None:
    held = four_bar(embed=False)
    q, v = held.random_state(2)
    for _ in range(20):
        q = lw.integrate(held, q, 0.05 * v)
    assert lw.close_loops(held, q)[1] < 1e-12
    assert np.allclose(lw.close_loops(held, q)[0], q, atol=1e-12)


def test_whether_to_embed_is_true_or_false() -> None:
    with pytest.raises(lw.ModelError, match="embed: expected True or False"):
        four_bar(embed="no")  # type: ignore[arg-type]
