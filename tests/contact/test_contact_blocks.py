"""Laws of one block of rows while all other impulses stay: what an update finds, what Newton's equations say
of its derivative, and what a proximal step moves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from linkwork.algorithms.contact.friction_laws import Coulomb, Rolling
from linkwork.algorithms.contact.laws import Block, Bounded, Interval, Proximal

SMALL = 1e-13
NORMAL = 0  # the row of which torsional and rolling friction take their bounds
BLOCKS: dict[str, Callable[[], Block]] = {
    "unilateral": lambda: Interval(3),
    "limits": lambda: Interval(3, -0.2, 0.3),
    "upper limit": lambda: Interval(3, None, 0.3),
    "dry friction": lambda: Bounded(3, 0.4),
    "torsion": lambda: Bounded(3, 0.3, NORMAL),
    "rolling": lambda: Rolling(3, 0.4, NORMAL),
    "contact": lambda: Coulomb(3, 0.6),
}
INSIDE = {"dry friction": [0.1], "torsion": [0.1], "rolling": [0.02, 0.05], "contact": [3.0, 0.1, 0.2]}
every = pytest.mark.parametrize("name", BLOCKS)


def floats(x: object) -> np.ndarray:
    return np.asarray(x, dtype=float)


class Case:
    """A block among others whose impulses stay, and a random problem."""

    def __init__(self, name: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(6, 6))
        self.G = A @ A.T / 6.0 + np.eye(6)
        self.g = rng.normal(size=6)
        self.lam = rng.normal(size=6)
        self.lam[NORMAL] = rng.uniform(0.5, 2.0)
        self.name = name
        self.block = BLOCKS[name]()
        self.block.prepare(self.G, SMALL)
        self.rows = list(self.block.rows)

    def velocity(self, lam: np.ndarray) -> np.ndarray:
        return (self.G @ lam + self.g)[self.rows]

    def with_impulses(self, impulses: np.ndarray) -> np.ndarray:
        lam = self.lam.copy()
        lam[self.rows] = impulses
        return lam

    def solved(self) -> np.ndarray:
        """All impulses, with those of the block as repeated updates find them."""
        lam = self.lam
        for _ in range(1 if len(self.rows) == 1 else 200):
            before = lam[self.rows]
            free = self.velocity(lam) - self.G[np.ix_(self.rows, self.rows)] @ before
            lam = self.with_impulses(floats(self.block.update(free, before, lam)[0]))
            if np.abs(lam[self.rows] - before).max() < 1e-14:
                break
        return lam

    def violated(self, w: np.ndarray, x: np.ndarray) -> float:
        """How far the block is from its law as textbooks write it."""
        if isinstance(self.block, Interval):
            lower = -np.inf if self.block.lower is None else self.block.lower
            upper = np.inf if self.block.upper is None else self.block.upper
            bound = lower if x[0] > 0.0 else upper if x[0] < 0.0 else w[0]
            return max(lower - w[0], w[0] - upper, abs(w[0] - bound))
        normal, t, u = self.lam[NORMAL], x, w
        if isinstance(self.block, Coulomb):
            normal, t, u = x[0], x[1:], w[1:]
        radius = {
            "dry friction": 0.4,
            "torsion": 0.3 * normal,
            "rolling": 0.4 * normal,
            "contact": 0.6 * normal,
        }
        size, slip = np.linalg.norm(t), np.linalg.norm(u)
        friction = max(size - radius[self.name], abs(u @ t + radius[self.name] * slip))
        return max(
            friction, *((-w[0], -x[0], abs(w[0] * x[0])) if isinstance(self.block, Coulomb) else (0.0,))
        )


@every
def test_updates_end_where_the_law_holds(name: str) -> None:
    """And only there the violation is zero."""
    branches = set()
    for seed in range(12):
        case = Case(name, seed)
        lam = case.solved()
        w, x = case.velocity(lam), lam[case.rows]
        assert case.violated(w, x) < 1e-9
        assert float(case.block.violation(w, x, lam)) < 1e-9
        branches.add((bool(np.any(np.abs(x) > 1e-9)), bool(np.any(np.abs(w) > 1e-9))))
        for off in (1e-3, -1e-3):
            for k in range(len(x)):
                moved = lam + off * np.eye(6)[case.rows[k]]
                w, x = case.velocity(moved), moved[case.rows]
                if case.violated(w, x) > 1e-4:
                    assert float(case.block.violation(w, x, moved)) > 1e-5
    assert len(branches) > 1  # held and free, sticking and sliding


@every
def test_the_solution_changes_as_the_linearised_law_says(name: str) -> None:
    """By velocities, and by the impulse that bounds a moment; and it satisfies these equations."""
    h = 1e-6
    for seed in range(5):
        case = Case(name, seed)
        lam = case.solved()
        own = case.G[np.ix_(case.rows, case.rows)]
        branch = case.block.branch(case.velocity(lam), lam[case.rows], lam, own)
        for small in (0.05, SMALL):  # with proximal terms too the solution stays where it is
            case.block.prepare(case.G, small)
            P, N, r, other, column = case.block.linearised(lam[case.rows], branch)
            P, N, r, column = floats(P), floats(N), floats(r), floats(column)
            tied = 0.0 if other is None else column * lam[other]
            assert np.allclose(P @ case.velocity(lam) + N @ lam[case.rows] + tied, r, atol=1e-8)
        matrix = P @ own + N
        for k in range(6):
            found = []
            for step in (h, -h):
                changed = Case(name, seed)
                if k == NORMAL:
                    changed.lam[NORMAL] += step
                    changed.g -= step * changed.G[:, NORMAL]  # of velocities nothing is changed
                else:
                    changed.g[k] += step
                found.append(changed.solved()[case.rows])
            change = (found[0] - found[1]) / (2.0 * h)
            push = (
                (column if other is not None else np.zeros(len(r)))
                if k == NORMAL
                else P @ np.eye(6)[case.rows, k]
            )
            assert np.allclose(matrix @ change, -push, atol=1e-5)


def proximal_step(
    block: Block, x: np.ndarray, rate: float, soft: np.ndarray, w: np.ndarray, normal: float
) -> Proximal:
    return block.proximal(w, x, rate, soft, normal)


@every
@pytest.mark.parametrize("soft", [0.0, 0.7])
def test_proximal_steps(name: str, soft: float) -> None:
    """Solutions stay where they are; elsewhere slope and column are the derivatives of the step, which is as
    large as the velocity that it takes away.
    """
    rate = 0.6
    h = 1e-6
    for seed in range(12):
        case = Case(name, seed)
        x = case.lam[case.rows]
        compliance = np.zeros(len(x))
        compliance[0] = soft if isinstance(case.block, (Interval, Coulomb)) else 0.0

        step = partial(proximal_step, case.block, x, rate, compliance)

        w = case.velocity(case.lam)
        normal = case.lam[NORMAL]
        made = step(w, normal)
        for k in range(len(x)):
            ends = [floats(step(w + s * h * np.eye(len(x))[k], normal).impulses) for s in (1.0, -1.0)]
            assert np.allclose((ends[0] - ends[1]) / (2.0 * h), -floats(made.slope)[:, k], atol=1e-6)
        if made.other is not None:
            ends = [floats(step(w, normal + s * h).impulses) for s in (1.0, -1.0)]
            assert np.allclose((ends[0] - ends[1]) / (2.0 * h), floats(made.column), atol=1e-6)
        if not soft:
            lam = case.solved()
            held = lam[case.rows]
            at_end = case.block.proximal(case.velocity(lam), held, rate, compliance, lam[NORMAL])
            assert np.allclose(floats(at_end.impulses), held, atol=1e-9) and float(at_end.moved) < 1e-8
            # where nothing bounds them, impulses take `rate` of the velocity away
            x = np.array(INSIDE.get(name, [2.0 if name != "upper limit" else -2.0]))
            slow = 1e-3 * np.arange(1.0, len(x) + 1.0) * (-1.0) ** np.arange(len(x))
            bound = {"limits": -0.2, "upper limit": 0.3}.get(name, 0.0)
            moved = case.block.proximal(slow + bound, x, rate, compliance, 1.0)
            assert float(moved.moved) == pytest.approx(np.abs(slow).max(), rel=1e-9)
            if len(x) == 1:
                assert np.allclose(floats(moved.impulses) - x, -rate * slow / case.G[3, 3])
