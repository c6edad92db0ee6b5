"""`python -m papers constrained`: its figures are written and can be read, its parts add up, and Pinocchio
solves the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from figures import check_figures, read
from linkwork.cli.measure import costs, operations
from papers import constrained, constrained_sets
from papers.__main__ import main

FIGURES = (
    "fig01_operations", "table2_times", "fig05_damped_operations", "table3_damped_times", "fig03_scaling", "fig04_convergence",
)  # fmt: skip
TINY = constrained.Sizes(
    table=1, chains=(1, 2), trees=(2, 3), points=(1, 2, 4), states=5, steps=2, timed=540, turns=1
)  # fmt: skip


@pytest.mark.slow
def test_all_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(constrained, "QUICK", TINY)
    monkeypatch.setattr(constrained, "SHIPPED", constrained_sets.SHIPPED._replace(redundant="arm H6"))
    assert main(["constrained", "--quick", "--out", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out
    assert "R² =" in printed and "99th percentile" in printed and "lanes of float64" in printed
    check_figures(tmp_path / "new", FIGURES)
    for row in read(tmp_path / "new" / "fig01_operations.csv"):
        assert int(row["operations"]) == sum(int(row[part]) for part in constrained.PARTS)
        assert all(int(row[part]) > 0 for part in constrained.PARTS)
    inverse = read(tmp_path / "new" / "table3_damped_times.csv")[0]
    assert float(inverse["ltl: one, ns"]) > float(inverse["ltl: batch, ns"]) > 0
    assert len(read(tmp_path / "new" / "fig03_scaling.csv")) == 2 * 2 * 2
    left = [float(row["50 %"]) for row in read(tmp_path / "new" / "fig04_convergence.csv")]
    assert all(second < first < 1.0 for first, second in zip(left[::2], left[1::2]))


def test_the_sets_of_a_checkout_and_those_that_ship() -> None:
    known = constrained_sets.sets()
    assert "talos F6x2 H6x2" in known.table and known.case(known.redundant).rows == 21
    assert known.case("chain4").rows == 6 and known.case("tree9").rows == 6
    shipped = constrained_sets.SHIPPED
    assert [shipped.case(name).rows for name in shipped.table] == [3, 6, 6, 12, 12, 24]
    assert shipped.case("chain4").rows == 6 and shipped.case("tree7").rows == 12


def test_without_pinocchio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained_sets, "pinocchio", lambda: None)
    for found in (constrained_sets.SHIPPED, constrained_sets.sets()):
        peer = found.case("chain2").peer()
        peer.turn()
        assert peer.variants == {}


def test_pinocchio_is_timed_on_robots_that_ship() -> None:
    pytest.importorskip("pinocchio")
    peer = constrained_sets.SHIPPED.case("quadruped F3x2").peer()
    peer.turn()
    assert set(peer.variants) == {
        f"{algorithm}/{solver}"
        for algorithm in constrained_sets.DYNAMICS.values()
        for solver in ("constraintDynamics", "lcaba")
    }


def test_what_two_forces_share() -> None:
    """The mass matrix and its factor are shared: the second force costs no more than a product with its
    inverse would.
    """
    model = lw.robots.arm()
    once = operations(lw.forward_dynamics, model, method="mass_matrix")
    twice = operations(constrained.under_two_forces, model, constraints=(), by="mass_matrix")
    assert (
        model.nv**2 < twice - once < 2 * model.nv**2 + model.nv
    )  # two triangles, a diagonal, and the difference of forces


def test_what_is_always_timed() -> None:
    model = lw.robots.chain(2)
    asked = {"short": (lw.forward_dynamics, {}), "long": (lw.inverse_dynamics, {})}
    calls: list[int] = []
    found = costs(asked, model, turns=2, max_operations=0, always=("long",), between=lambda: calls.append(1))
    assert found["short"].one is None and found["long"].one is not None and len(calls) == 2


@pytest.mark.parametrize(
    ("name", "method"),
    [("iiwa14 H3", "ltl"), ("iiwa14 H6", "caba"), ("solo12 F3x4", "ltl"), ("talos F6x2", "caba")],
)
@pytest.mark.sweep(4)
def test_what_is_compared_is_the_same(name: str, method: str) -> None:
    """Accelerations, forces and the damped inverse are those of dense matrices, which Pinocchio's solvers are
    compared with.

    There a welded frame's spatial acceleration is zero, here the classical one of its origin: they differ by
    ω × v.
    """
    pytest.importorskip("pinocchio")
    case = constrained_sets.sets().case(name)
    from constraint_sets import SETS
    from peers import models
    from peers.constrained import dense

    state = models.states(SETS[name].robot, 1)[0]
    q, v, _, tau = state
    expected = dense(SETS[name], state)
    targets = np.zeros(case.rows)
    if "6" in name.split()[1]:
        for i in range(case.rows // 6):
            w = lw.frame_velocity(case.model, q, v, frame=f"held{i}", reference="body")
            targets[6 * i + 3 : 6 * i + 6] = np.cross(w[:3], w[3:])
    options = constrained.options(case.constraints, method, 3)
    a, forces = lw.constrained_dynamics(case.model, q, v, tau, targets=targets, **options)
    np.testing.assert_allclose(
        a, expected["acceleration"], atol=1e-7 * np.abs(expected["acceleration"]).max()
    )
    np.testing.assert_allclose(forces, expected["force"], atol=1e-6 * np.abs(expected["force"]).max())
    inverse = lw.damped_delassus_inverse(
        case.model, q, constraints=case.constraints, compliance=constrained_sets.MU, method=method
    )
    np.testing.assert_allclose(
        inverse, expected["damped inverse"], atol=1e-6 * np.abs(expected["damped inverse"]).max()
    )
