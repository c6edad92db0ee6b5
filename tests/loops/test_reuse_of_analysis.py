"""Variants of a model take over the analysis of its loops: only what a change touches is looked at again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.loops import cluster_equations
from linkwork.loops.analysis import ClusterAnalysis


def two_linkages() -> lw.ModelBuilder:
    """Two different four-bar linkages side by side."""
    builder = lw.ModelBuilder("two linkages")
    hinge = lw.joints.Revolute((0.0, 1.0, 0.0))
    for name, x, length in (("a", 0.0, 0.5), ("b", 3.0, 0.6)):
        rod = ("rod", f"{name}_crank", (0.0, 0.0, 0.3))
        rocker = ("rocker", "world", (x + 1.0, 0.0, 0.0))
        for bar, on, at in (("crank", "world", (x, 0.0, 0.0)), rod, rocker):
            builder.add_body(f"{name}_{bar}", mass=1.0, center=(0.0, 0.0, 0.2), inertia=(0.1, 0.1, 0.1))
            builder.add_joint(
                f"{name}_{bar}", hinge, parent=on, child=f"{name}_{bar}", xyz=at, independent=bar == "crank"
            )
        ends: dict[str, Any] = {"xyz": (1.0, 0.0, length - 0.3), "successor_xyz": (0.0, 0.0, length)}
        builder.add_loop(f"{name}_loop", hinge, predecessor=f"{name}_rod", successor=f"{name}_rocker", **ends)
    return builder


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The bodies of clusters, as they are analysed."""
    seen: list[tuple[int, ...]] = []
    analyse: Any = ClusterAnalysis._analyse

    def noting(self: Any, cluster: Any) -> Any:
        seen.append(cluster.bodies)
        return analyse(self, cluster)

    monkeypatch.setattr(ClusterAnalysis, "_analyse", noting)
    return seen


def test_other_independent_joints_need_no_new_analysis(analysed: list[tuple[int, ...]]) -> None:
    model = two_linkages().build()
    assert len(analysed) == 2
    changed = model.with_independent("a_rocker")
    assert changed.v_names == ("a_rocker", "b_crank") and len(analysed) == 2
    again = changed.with_independent("a_crank")
    assert again == model and again.clusters == model.clusters
    q, v = changed.random_state(0)
    spanning = lw.spanning_velocity(changed, q, v)
    assert lw.spanning_velocity(model, q, spanning[[0, 3]]) == pytest.approx(spanning, abs=1e-12)


def test_a_choice_that_determines_nothing_is_still_an_error() -> None:
    with pytest.raises(lw.ModelError, match="degrees of freedom"):
        two_linkages().build().with_independent("a_crank", "a_rocker")


def test_held_loops_and_moved_joints_leave_other_clusters_alone(analysed: list[tuple[int, ...]]) -> None:
    model = two_linkages().build()
    held = model.with_loops(constrain="a_loop")
    assert len(analysed) == 2
    assert held.with_loops(embed="a_loop").clusters == model.clusters and len(analysed) == 2
    moved = model.with_parameters({"placement@a_rod": np.array([0.0, 0.0, 0.31, 0.0, 0.0, 0.0, 1.0])})
    _ = moved.clusters
    assert analysed[2:] == [(0, 1, 2)]


def test_what_variants_find_is_not_kept_by_the_model_that_they_come_from() -> None:
    model = two_linkages().build()
    known = len(model.analyses)
    _ = model.with_parameters({"placement@a_rod": np.array([0.0, 0.0, 0.32, 0.0, 0.0, 0.0, 1.0])}).clusters
    assert len(model.analyses) == known


@pytest.mark.parametrize("elastic", [False, True])
def test_an_analysis_looks_at_its_own_joints(elastic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of many loops side by side grows with their number, and not with its square; the states that
    are looked at depend on no selection of joints.
    """
    model = lw.robots.flexible_slider_crank() if elastic else two_linkages().build()
    asked = [2, 1]
    every = cluster_equations.random_configuration(
        model, range(len(model.joints)), 0.7, np.random.default_rng(3)
    )
    own = cluster_equations.random_configuration(model, asked, 0.7, np.random.default_rng(3))
    for k in asked:
        assert np.array_equal(own[model.joints[k].q_slice], every[model.joints[k].q_slice])
    if elastic:
        return
    moved: list[Any] = []
    move = cluster_equations._displaced

    def noting(*args: Any) -> Any:
        moved.append(args)
        return move(*args)

    monkeypatch.setattr(cluster_equations, "_displaced", noting)
    two_linkages().build()
    assert 0 < len(moved) <= 30  # five states of the three joints of each linkage
