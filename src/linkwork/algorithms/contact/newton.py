"""Newton's method for contacts on few bodies: many points, or rows of joints, whose motion is that of these
bodies.

Impulses are p = the nearest to λ - ρ w on the laws' sets (Alart and Curnier 1991): which branch of its law
each contact is on (open, sticking, sliding) follows from that. Semismooth Newton steps on these branches
solve for the motion of bodies, so that redundant contacts do no harm: the equations are as many as the
motions. First λ follows every step; from impulses of the step of time before, two or three steps are enough,
mostly. Branches may also come round in a circle, so ρ changes from step to step. Where this has not led to a
solution, branches change one after the other (`pivoting`). After that a method of multipliers begins: λ stays
until forces on bodies f = Tᵀ p(λ - ρ w) are nearly found, then λ becomes p and ρ grows. Newton's steps and
these are one loop, with the same equations for other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact.carried import Carried, by_pair
from linkwork.algorithms.contact.laws import Block, Interval
from linkwork.algorithms.contact.newton_branches import Branch, NewtonOptions, branches
from linkwork.algorithms.contact.pivoting import Pivoted, pivoted
from linkwork.algorithms.newton import infinity_norm, one_norm, tolerance
from linkwork.compiler.ir.functions import loop, maximum, minimum, where
from linkwork.spatial.factor import sparse_product
from linkwork.spatial.solve import solve_without_pivots

# steps in which λ follows, and those of the method of multipliers, in turn; twice as many each time
QUICK = 9
SLOW = 20.0
RATES = (1.0, 0.1, 0.01)  # ρ of these in turn, in units of 1 / G
# what holds impulses where they are, relative to G: so redundant contacts share
PROXIMAL = 1e-6
PROXIMAL_SINGLE = 1e-3
# that while branches change one after the other
PIVOT_PROXIMAL = 1e-9
PIVOT_PROXIMAL_SINGLE = 1e-5
# parts of the tolerance, and of that
ALONE = 0.1
ALONE_PROXIMAL = 0.01
# that in so many first steps in single precision: rounding moves contacts that rest less then
EARLY = 2
EARLY_SINGLE = 3e-2
LEAST_PROXIMAL = 0.02  # part of it that is tried last
# ρ of the method of multipliers
FIRST_RATE = 30.0
LEAST_RATE = 1.0
LAST_RATE = 1e9
LAST_RATE_SINGLE = 1e3  # in single precision, where ρ makes more of what is rounded
# ρ by what factors where λ becomes p, and where a step has not led nearer
GROWS = 10.0
FALLS = 0.04
GRIP = 1e15  # so much friction that nothing slides
LESS = 0.9  # of the energy of what is missing: more than that is no nearer
# λ is set to p if the error of velocities is at most this fraction of the change that p - λ causes.
ACCEPTED_ERROR = 0.5


class ProblemRows:
    """Rows by contact, or joint, and the motions that they depend on."""

    def __init__(self, carried: Carried, g: np.ndarray, blocks: Sequence[Block]) -> None:
        self.T = carried.T
        self.C = carried.C
        self.g = g
        self.soft = carried.soft
        self.groups = carried.every_group()
        self.blocks = [[block for block in blocks if block.rows[0] in group] for group in self.groups]
        self.columns = [carried.columns(group) for group in self.groups]
        self.all = list(zip(self.groups, self.blocks, self.columns))
        self.relative = [relative for _, relative in carried.reaches()]
        self.parts = [
            self.T[np.ix_(group, at)] if relative is None else -self.T[np.ix_(group, relative.other)]
            for group, at, relative in zip(self.groups, self.columns, self.relative)
        ]
        self.pairs = by_pair(self.relative)
        self.B = carried.B
        self.carried = carried

    def at(self, V: np.ndarray) -> np.ndarray:
        """Return velocities of rows, (m,), without their compliance."""
        return self.g + self.along(V)

    def along(self, V: np.ndarray) -> np.ndarray:
        """Return T V, or T B V."""
        V = V if self.B is None else self.B @ V
        result: Any = np.zeros(len(self.g), dtype=object)
        for group, T, at, relative in zip(self.groups, self.parts, self.columns, self.relative):
            result[group] = T @ (V[at] if relative is None else relative.of(V))
        return result

    def forces(self, lam: np.ndarray) -> np.ndarray:
        """Return Tᵀ λ, or Bᵀ Tᵀ λ."""
        result: Any = np.zeros(self.T.shape[1], dtype=object)
        for group, T, at, relative in zip(self.groups, self.parts, self.columns, self.relative):
            if relative is None:
                result[at] = result[at] + T.T @ lam[group]
        for pair, contacts in self.pairs:
            pair.add_force(result, sum(self.parts[k].T @ lam[self.groups[k]] for k in contacts))
        return result if self.B is None else self.B.T @ result

    def branches(self, w: np.ndarray, impulse: np.ndarray, how: NewtonOptions) -> list[Branch]:
        """Return the branches of all laws, by group."""
        return [
            branches(blocks, group[0], w[group], impulse[group], how, self.soft[group])
            for group, blocks, _ in self.all
        ]

    def assembled(self, impulse: np.ndarray, selected: Sequence[Branch]) -> tuple[np.ndarray, np.ndarray]:
        """Return Tᵀ p of some branches, and the forces on bodies lost by their motion."""
        pressed = np.array(impulse, dtype=object)
        lost: dict[tuple[int, ...], Any] = {}  # by the motions that contacts have in common
        parts = []
        for group, T, at, relative, branch in zip(
            self.groups, self.parts, self.columns, self.relative, selected
        ):
            pressed[group] = impulse[group] + np.array(branch.c, dtype=object)
            parts.append(T.T @ (branch.B @ T))
            if relative is None:
                lost[tuple(at)] = lost.get(tuple(at), 0.0) + parts[-1]
        for pair, contacts in self.pairs:
            at = [*pair.first, *pair.other]
            both: Any = np.zeros((12, 12), dtype=object)
            pair.within(at).add_matrix(both, sum(parts[k] for k in contacts))
            lost[tuple(at)] = both
        S: Any = np.zeros(self.C.shape, dtype=object)
        for motions, part in lost.items():
            used = list(motions)
            if self.B is not None:
                used, B = self.carried.joints(motions)
                part = B.T @ (part @ B)
            S[np.ix_(used, used)] = S[np.ix_(used, used)] + part
        return self.forces(pressed), S

    def after(
        self, impulse: np.ndarray, selected_branches: Sequence[Branch], change: np.ndarray
    ) -> np.ndarray:
        """Return impulses after a step that changes velocities of rows by (m,)."""
        lam = np.array(impulse, dtype=object)
        for group, branch in zip(self.groups, selected_branches):
            lam[group] = impulse[group] + (np.array(branch.c, dtype=object) - branch.B @ change[group])
        return lam

    def nearest(self, w: np.ndarray, impulse: np.ndarray, rate: Any) -> tuple[np.ndarray, Any]:
        """Return p, (m,), and the largest p - λ as a velocity."""
        p = np.array(impulse, dtype=object)
        moved = 0.0
        for group, blocks, _ in self.all:
            for block in blocks:
                rows = list(block.rows)
                result = block.proximal(w[rows], impulse[rows], rate, self.soft[rows], p[group[0]])
                p[rows] = result.impulses
                moved = maximum(result.moved, moved)
        return p, moved

    def allowed(self, lam: np.ndarray) -> np.ndarray:
        """Return the nearest impulses on the laws' sets, whatever velocities are."""
        result = np.array(lam, dtype=object)
        for group, blocks, _ in self.all:
            for block in blocks:
                rows = list(block.rows)
                if isinstance(block, Interval):
                    if block.upper is None:
                        result[rows[0]] = maximum(lam[rows[0]], 0.0)
                    elif block.lower is None:
                        result[rows[0]] = minimum(lam[rows[0]], 0.0)
                else:
                    still = np.zeros(len(rows))
                    result[rows] = block.proximal(still, lam[rows], 1.0, still, result[group[0]]).impulses
        return result

    def violation(self, w: np.ndarray, lam: np.ndarray) -> Any:
        """Return the largest violation of any law."""
        w = w + self.soft * lam
        result = 0.0
        for _, blocks, _ in self.all:
            for block in blocks:
                rows = list(block.rows)
                result = maximum(block.violation(w[rows], lam[rows], lam), result)
        return result


class Found(NamedTuple):
    """Impulses, (m,), the largest violation of any law, and the steps."""

    impulses: np.ndarray
    residual: Any
    iterations: Any


def solve(
    carried: Carried,
    g: np.ndarray,
    blocks: Sequence[Block],
    start: np.ndarray,
    least: Any,
    limit: int,
    alone: bool = False,
) -> Found:
    """Return the impulses, (m,), starting from given ones, after at most the given number of steps; `least`
    is the tolerance. Blocks are prepared.

    `alone`: rows are motions themselves, few of which are redundant. Then first steps go on to a part of the
    tolerance.
    """
    search = _Search(ProblemRows(carried, g, blocks), start, least, limit, alone)
    last = search.state(loop(search.turns, search.first.flat(), limit=limit))
    return Found(last.best, last.residual, last.count)


class _State(NamedTuple):
    """The best impulses so far with their forces on bodies, and the impulses and forces to go on from.

    `own_f` are the forces where the method of multipliers last changed λ. `rate` is ρ, `small` the proximal
    term, `turn` the steps of this turn, and `slow` those of multipliers in it.
    """

    best: np.ndarray
    impulse: np.ndarray
    f: np.ndarray
    own_f: np.ndarray
    best_f: np.ndarray
    residual: Any
    rate: Any
    small: Any
    turn: Any
    slow: Any
    count: Any

    def flat(self) -> np.ndarray:
        """Return all numbers, (n,)."""
        return np.array([x for each in self for x in np.atleast_1d(each)], dtype=object)


class _Trial(NamedTuple):
    """A Newton step from λ: impulses that are tried, their forces and motion, and the largest violation of
    any law; and what the method of multipliers compares with them.

    `stepped` are the impulses after the step, `then` the forces that it predicts. `misfit` is the change of
    velocities that it does not predict, `moved` the largest change of impulses as a velocity, and `lost` and
    `had` the energies of what is missing after and before it.
    """

    stepped: np.ndarray
    impulses: np.ndarray
    forces: np.ndarray
    violated: Any
    then: np.ndarray
    misfit: Any
    moved: Any
    lost: Any
    had: Any


class _Search:
    """Steps of Newton's method and of the method of multipliers, in turn."""

    def __init__(self, rows: ProblemRows, start: np.ndarray, least: Any, limit: int, alone: bool) -> None:
        self.goal, less = (ALONE, ALONE_PROXIMAL) if alone else (1.0, 1.0)
        self.rows = rows
        self.least = least
        self.limit = limit
        self.alone = alone
        single = tolerance(1.0, rows.g) > 1.5
        self.last_rate = where(single, LAST_RATE_SINGLE, LAST_RATE)
        self.proximal = where(single, PROXIMAL_SINGLE, less * PROXIMAL)
        self.early = where(single, EARLY_SINGLE, self.proximal)
        self.pivot_proximal = where(single, PIVOT_PROXIMAL_SINGLE, PIVOT_PROXIMAL)
        start = np.array(start, dtype=object)
        f = rows.forces(start)
        V = sparse_product(rows.C, f)
        violated = where(one_norm(V) < np.inf, rows.violation(rows.at(V), start), np.inf)
        self.first = _State(start, start, f, f, f, violated, RATES[0], self.proximal, 0.0, SLOW, 0.0)

    def state(self, x: np.ndarray) -> _State:
        """Return the state of numbers x, (n,)."""
        m = len(self.first.best)
        D = len(self.first.f)
        f, own_f, best_f = (x[2 * m + k * D : 2 * m + (k + 1) * D] for k in range(3))
        return _State(x[:m], x[m : 2 * m], f, own_f, best_f, *x[2 * m + 3 * D :])

    def turns(self, x: np.ndarray) -> tuple[np.ndarray, Any]:
        """Go on with steps; where the first ones of a turn fail, pivoting leads to where it goes on."""
        now = self.state(loop(self.step, x, limit=self.limit))
        enter = (now.residual > self.least) & (now.count < self.limit - 0.5)
        known = Pivoted(now.best, now.best_f, now.residual, now.count)
        begin = where(now.count < QUICK + 0.5, 0.0, known.impulses)  # in the first turn all contacts are open
        end = pivoted(self.rows, known, begin, enter, self.pivot_proximal, self.least)
        # as they are after the first steps of a turn
        after = now._replace(
            best=end.impulses,
            impulse=end.impulses,
            f=end.forces,
            own_f=end.forces,
            best_f=end.forces,
            residual=end.residual,
            count=end.steps,
        )
        return after.flat(), (end.residual > self.least) & (after.count < self.limit - 0.5)

    def step(self, x: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return the state after one more step."""
        now = self.state(x)
        quick = now.turn < QUICK - 0.5
        holds = now.small if self.alone else where(now.count < EARLY - 0.5, self.early, now.small)
        # where all of that failed, what presses sticks at first: a sliding contact that jams opens, and an
        # open one presses
        grip = where((now.turn < 0.5) & (now.count > 0.5), GRIP, 1.0)
        trial = self._trial(now, NewtonOptions(now.rate, where(quick, holds, 1.0 / now.rate), grip), quick)
        better = trial.violated < now.residual
        best, best_f, residual = (
            where(better, a, b)
            for a, b in (
                (trial.impulses, now.best),
                (trial.forces, now.best_f),
                (trial.violated, now.residual),
            )
        )
        following = self._followed(now, trial, quick)
        after, slows = self._turned(following._replace(best=best, best_f=best_f, residual=residual))
        unsolved = residual > where(now.count < QUICK - 1.5, self.goal * self.least, self.least)
        goes_on = unsolved & (where(slows, 0.0, 1.0) > 0.5) & (now.count < self.limit - 1.5)
        return after.flat(), goes_on

    def _trial(self, now: _State, how: NewtonOptions, quick: Any) -> _Trial:
        """Return Newton's step on the branches at λ."""
        rows = self.rows
        C = rows.C
        V = sparse_product(C, now.f)
        w = rows.at(V)
        selected = rows.branches(w, now.impulse, how)
        pulled, S = rows.assembled(now.impulse, selected)
        missing = pulled - now.f
        wrong = sparse_product(C, missing)
        change = solve_without_pivots(np.eye(len(C)) + sparse_product(C, S), wrong[:, None])[:, 0]
        fine = one_norm(change) < np.inf
        change = where(fine, change, 0.0)
        moves = rows.along(change)
        then = now.f + where(fine, missing - sparse_product(S, change), 0.0)
        p, moved = rows.nearest(w + moves, now.impulse, now.rate)
        stepped = where(fine, rows.after(now.impulse, selected, moves), now.impulse)
        tried = where(quick, rows.allowed(stepped), p)
        forces = rows.forces(tried)
        motion = sparse_product(C, forces)
        at_tried = rows.at(motion)
        violated = where(one_norm(motion) < np.inf, rows.violation(at_tried, tried), np.inf)
        misfit = infinity_norm(at_tried - w - moves)
        # the method of multipliers: what is missing now is motion - V - change
        lost = (forces - then) @ (motion - V - change)
        return _Trial(stepped, tried, forces, violated, then, misfit, moved, lost, missing @ wrong)

    def _followed(self, now: _State, trial: _Trial, quick: Any) -> _State:
        """Return the impulses and forces to go on from: λ follows each quick step; in the method of
        multipliers it becomes p where that is near to what the step predicts.
        """
        nearer = (trial.lost < LESS * trial.had) | (trial.misfit <= 0.1 * self.least)
        near = nearer & (trial.misfit <= maximum(ACCEPTED_ERROR * trial.moved, 0.1 * self.least))
        rate = now.rate
        slower = where(nearer, rate, maximum(FALLS * rate, LEAST_RATE))
        grown = where(near, minimum(GROWS * rate, self.last_rate), slower)
        other = where(rate > 0.5 * RATES[0], RATES[1], where(rate > 0.5 * RATES[1], RATES[2], RATES[0]))
        impulse = where(quick, trial.stepped, where(near, trial.impulses, now.impulse))
        own_f = where(near, trial.forces, now.own_f)
        # no nearer: from λ once more with a smaller ρ; with the least, half a step, so that steps do not go
        # to and fro
        back = where(slower < rate, own_f, 0.5 * (now.f + trial.then))
        f = where(quick | nearer, trial.then, back)
        return now._replace(impulse=impulse, f=f, own_f=own_f, rate=where(quick, other, grown))

    def _turned(self, now: _State) -> tuple[_State, Any]:
        """Return the state with the next step's numbers, and whether the quick steps of a turn have ended.

        Each way goes on from the best impulses of all, and differs from what was tried before.
        """
        turn = now.turn + 1.0
        slows = (turn > QUICK - 0.5) & (turn < QUICK + 0.5)
        again = turn > QUICK + now.slow - 0.5
        impulse, f, own_f = (
            where(slows | again, a, b)
            for a, b in ((now.best, now.impulse), (now.best_f, now.f), (now.best_f, now.own_f))
        )
        rate = where(slows, FIRST_RATE, where(again, RATES[0], now.rate))
        turn = where(again, 0.0, turn)
        larger = self.proximal / LEAST_PROXIMAL
        smaller = where(now.small < LEAST_PROXIMAL * self.proximal, larger, 0.1 * now.small)
        small = where(again, smaller, now.small)
        slow = where(again, 2.0 * now.slow, now.slow)
        numbers = {"rate": rate, "small": small, "turn": turn, "slow": slow, "count": now.count + 1.0}
        return now._replace(impulse=impulse, f=f, own_f=own_f, **numbers), slows
