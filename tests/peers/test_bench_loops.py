"""`python -m papers loops`: its figures are written and can be read, and its ways agree."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from figures import check_figures, read
from linkwork.cli.measure import cost, operations
from papers import loops, peers
from papers.__main__ import main
from papers.kkt import constraints, forward_dynamics_kkt

FIGURES = ("fig08_depth", "fig10_locality", "fig12_robots", "fig13_torques")
TINY = loops.Sizes(
    depths=(1, 2),
    branches=(1, 2),
    trees=(2,),
    loops=(1, 2),
    robots=("Mini Cheetah",),
    timed=60,
    turns=1,
    step=0.02,
)
MADE = {
    "link and rotor": lambda: lw.robots.link_rotor_chain(3, branches=2),
    "belt": lambda: lw.robots.belt_chain(2),
    "four-bar": lambda: lw.robots.four_bar_chain(2, branches=2),
    "transmission": lambda: lw.robots.transmission_loop(3, 2),
    "connecting rod": lambda: lw.robots.connecting_rod_loop(3, 2),
}


@pytest.mark.slow
def test_all_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loops, "QUICK", TINY)
    assert main(["loops", "--quick", "--out", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out
    assert "R² =" in printed and "4.31" in printed and "lanes of float64" in printed
    check_figures(tmp_path / "new", FIGURES)
    depth = read(tmp_path / "new" / "fig08_depth.csv")
    assert (
        len(depth) == 3 * 2 * 2 and int(depth[0]["operations"]) > 0 and float(depth[0]["one state, ns"]) > 0
    )
    assert all(float(row["ratio"]) >= 1.0 for row in read(tmp_path / "new" / "fig12_robots.csv"))
    errors = read(tmp_path / "new" / "fig13_torques.csv")
    assert len(errors) == 6 and float(errors[0]["knee"]) == pytest.approx(4.310, abs=0.01)
    assert len(read(tmp_path / "new" / "fig13_torques_curves.csv")) == 250


def test_quick_figures_on_a_plain_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for peer in ("pinocchio", "mujoco", "matplotlib", "scipy"):
        monkeypatch.setitem(sys.modules, peer, None)  # importing it fails
    assert loops.QUICK.both == ()  # what takes long is left out
    monkeypatch.setattr(loops, "QUICK", replace(TINY, both=()))
    assert main(["loops", "--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "Pinocchio is not installed: it is not measured." in printed
    check_figures(tmp_path, FIGURES)


def test_a_figure_of_nothing() -> None:
    assert "nothing was measured" in loops.both_kinds(replace(TINY, both=()), "").picture


def test_titles_say_what_is_drawn() -> None:
    """Two of three panels show torques, not their errors."""
    title = "Torques of a leg with and without its rotors (Loops Fig. 13)"
    drawn = loops.torques(TINY, "").picture
    kept = (Path(__file__).parents[2] / "docs" / "loops" / "fig13_torques.svg").read_text(encoding="utf-8")
    for picture in (drawn, kept):
        assert title in picture and "RMS" not in picture


def test_without_pinocchio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "pinocchio", lambda: None)
    figure = loops.locality(TINY, "")
    assert figure.rows and figure.rows[0][-3:] == (None, None, None)


@pytest.mark.parametrize("kind", loops.MECHANISMS)
def test_operations_are_linear_in_depth(kind: str) -> None:
    make = loops.MECHANISMS[kind]
    depths = (5, 7, 9)
    counts = [operations(lw.forward_dynamics, make(d), method="articulated_body") for d in depths]
    assert loops.linear_fit(depths, counts)[2] > 0.999
    assert operations(lw.forward_dynamics, make(5, branches=2), method="articulated_body") == 2 * counts[0]


@pytest.mark.parametrize("name", MADE)
def test_the_kkt_way_is_right(name: str) -> None:
    """The accelerations of all joints are those of constraint embedding."""
    model = MADE[name]()
    rng = np.random.default_rng(0)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    all_v = lw.spanning_velocity(model, q, v)
    every = np.zeros(model.nv_spanning)
    every[peers._independent(model)] = tau
    a = forward_dynamics_kkt(model, q, all_v, every)
    expected = lw.spanning_acceleration(model, q, v, lw.forward_dynamics(model, q, v, tau))
    np.testing.assert_allclose(a, expected, atol=1e-9 * np.abs(expected).max())
    K, k = (x.astype(float) for x in constraints(model, q, all_v))
    np.testing.assert_allclose(K @ a, k, atol=1e-9 * np.abs(expected).max())
    assert np.abs(K @ all_v).max() < 1e-9


@pytest.mark.parametrize(
    ("name", "ways"), [("four-bar", {"constraintDynamics", "lcaba"}), ("belt", {"forwardDynamics"})]
)
def test_pinocchio_finds_the_same(name: str, ways: set[str]) -> None:
    pytest.importorskip("pinocchio")
    found = peers.pinocchio_times(MADE[name](), 1)
    assert found and set(found) <= ways and all(ns > 0 for ns in found.values())


def test_what_is_too_long_is_not_timed() -> None:
    model = lw.robots.link_rotor_chain(2)
    assert cost(lw.forward_dynamics, model, turns=1, max_operations=1)[1:] == (None, None)
    operations, one, batch = cost(lw.forward_dynamics, model, turns=1, max_operations=1000)
    assert operations > 1 and one is not None and batch is not None and 0 < batch < one


def test_a_straight_line() -> None:
    assert loops.linear_fit([1, 2, 4], [3, 5, 9]) == pytest.approx((2.0, 1.0, 1.0))


@pytest.mark.parametrize(
    "name, most", [("mini_cheetah", 1.06), ("jvrc1", 1.08), ("mit_humanoid", 1.15), ("tello", 1.60)]
)
def test_exact_robots_cost_little_more(name: str, most: float) -> None:
    """Over robots whose rotors are reflected as armature; the paper has 1.63, 1.46, 1.98 and 2.23."""
    make = getattr(lw.robots, name)
    assert operations(lw.forward_dynamics, make()) <= most * operations(
        lw.forward_dynamics, make(approximate="diagonal")
    )
