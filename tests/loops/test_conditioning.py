"""How far loops are from singular: the same at every size, zero at turning points and at dead points."""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Prismatic, Rod
from planar_bars import Z, crank_states, four_bar


@pytest.mark.parametrize("of", ["coordinates", "mechanism"])
def test_conditioning_does_not_depend_on_units(of: str) -> None:
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    small = four_bar(0.3, 1.0, 0.8, 1.0, size=1e-7)
    q = crank_states(np.linspace(-3.0, 3.0, 12).reshape(3, 4))
    assert np.abs(lw.close_loops(model, q)[0] - q).max() < 1e-12
    found = lw.loop_conditioning(model, q, of=of)
    assert found.shape == (3, 4, 1) and (found > 0.0).all() and (found <= 1.0).all()
    assert np.allclose(found, lw.loop_conditioning(small, q, of=of), rtol=1e-9, atol=0.0)


def test_sliding_and_turning_joints_together_do_not_depend_on_units() -> None:
    found = []
    for size in (1.0, 1e-6):
        builder = lw.ModelBuilder("slider and rod")
        for name, kind, at in (("crank", Z, 0.0), ("slider", Prismatic((1.0, 0.0, 0.0)), 0.35 * size)):
            builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
            builder.add_joint(
                name, kind, parent="world", child=name, xyz=(at, 0.0, 0.0), independent=name == "crank"
            )
        ends = {"xyz": (0.1 * size, 0.0, 0.0)}
        builder.add_loop("rod", Rod(0.3 * size), predecessor="crank", successor="slider", **ends)
        builder.add_body("slide2", mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(
            "slide2", Prismatic((0.6, 0.8, 0.0)), parent="world", child="slide2", independent=False
        )
        builder.add_loop("rod2", Rod(0.3 * size), predecessor="crank", successor="slide2", **ends)
        angle = np.array([0.3, 1.0, 2.5])
        tip = 0.1 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        ahead = np.sqrt(0.09 - tip[:, 1] ** 2) + tip[:, 0] - 0.35
        along = tip @ [0.6, 0.8]
        other = along + np.sqrt(along**2 - 0.01 + 0.09)
        q = np.stack([angle, size * ahead, size * other], axis=-1)
        model = builder.build()
        columns = [model.joint(name).q_start for name in ("crank", "slider", "slide2")]
        state = np.empty_like(q)
        state[:, columns] = q
        found.append([lw.loop_conditioning(model, state, of=of) for of in ("coordinates", "mechanism")])
    assert np.allclose(*found, rtol=1e-6, atol=0.0) and np.min(found) > 1e-3


def test_zero_at_a_turning_point_of_the_coordinate_alone() -> None:
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    lengths = {"out": 1.3, "in": 0.7}  # crank and coupler in one line: the rocker turns back
    for name, reach in lengths.items():
        angle = np.arccos((1.0 + reach**2 - 0.8**2) / (2 * reach)) + (np.pi if name == "in" else 0.0)
        q = crank_states(np.array([angle, -angle]))
        by_crank = lw.loop_conditioning(model, q)
        by_rocker = lw.loop_conditioning(model.with_independent("rocker"), q)
        assert by_crank.min() > 0.1
        assert by_rocker.min() < 1e-12
        assert lw.loop_conditioning(model, q, of="mechanism").min() > 0.1


def test_zero_at_a_dead_point_of_the_mechanism() -> None:
    model = lw.robots.four_bar()
    q = np.array(
        [[0.0, 0.0, 0.0], [1e-3, -1e-3, 1e-3], [1e-6, -1e-6, 1e-6]]
    )  # a parallelogram, flat and nearly flat
    found = lw.loop_conditioning(model, q, of="mechanism")[:, 0]
    assert found[0] < 1e-15
    assert 1e-4 < found[1] < 2e-3 and np.isclose(found[2], 1e-3 * found[1], rtol=1e-3)


def test_one_number_for_each_cluster_with_loops_and_none_without() -> None:
    quadruped = lw.robots.mini_cheetah()
    found = lw.loop_conditioning(quadruped, np.stack([quadruped.neutral()] * 2))
    assert found.shape == (2, 12) == (2, sum(bool(c.constraints) for c in quadruped.clusters))
    assert lw.loop_conditioning(lw.robots.arm(), np.zeros((4, 3, lw.robots.arm().nq))).shape == (4, 3, 0)
    assert np.isnan(lw.loop_conditioning(lw.robots.watt(), np.full(5, np.nan))).all()


def test_parameters_move_the_loops() -> None:
    model = four_bar(0.3, 1.0, 0.8, 1.0)
    placements = model.parameters()["placement"]
    longer = placements * np.where(np.arange(7) < 3, 1.1, 1.0)  # only the tree's hinges: another linkage
    q = crank_states(np.array([0.5]))
    found = lw.loop_conditioning(model, q, parameters={"placement": longer})
    assert not np.allclose(found, lw.loop_conditioning(model, q))
    assert np.array_equal(
        lw.loop_conditioning(model, q, parameters={"placement": placements}), lw.loop_conditioning(model, q)
    )


def test_mistakes_are_told() -> None:
    model = lw.robots.watt()
    with pytest.raises(lw.ModelError, match="of: expected one of coordinates, mechanism, got 'loops'"):
        lw.loop_conditioning(model, model.neutral(), of="loops")
    with pytest.raises(lw.LinkworkError, match=r"nq|shape"):
        lw.loop_conditioning(lw.robots.arm(), np.zeros(3))
    with pytest.raises(lw.LinkworkError):
        lw.loop_conditioning("watt", np.zeros(3))  # type: ignore[arg-type]
