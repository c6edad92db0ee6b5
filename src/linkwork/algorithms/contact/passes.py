"""Solutions of a step with contact, until gaps at its end have the values that they should have.

Rates of gaps are those at the beginning of the step. Where limbs whirl, gaps at its end differ from what
these say, so the step is solved again with the difference, as often as one is too deep.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact.end_gaps import least_by_pair, missed_gaps
from linkwork.algorithms.contact.energy import weight
from linkwork.algorithms.contact.rows import START_DEPTH
from linkwork.algorithms.contact.solver import Solution
from linkwork.algorithms.contact.step import Step, StepInput, guarded, nodes_with_contact
from linkwork.compiler.ir.functions import loop, maximum, minimum, where
from linkwork.constraints import BodyKinematics

MAX_PASSES = 8  # solutions of a step until gaps at its end have their expected values
GAP_TOL = 2e-5  # [m] accepted error of gaps at the end of a step
SPLIT_DEPTH = 5e-5  # [m] inaccurate steps that end deeper are divided, see `division`
MAX_DEPTH = 1e-4  # [m] inaccurate steps that end deeper are marked as not converged
FULL_DEPTH = 0.95 * MAX_DEPTH  # [m] near it accepted errors of gaps are smaller, see `_accepted_error`
LEAST_GAP_TOL = 1e-3 * GAP_TOL  # [m] accepted there
ERROR_PER_DISTANCE = 0.4  # accepted error by the distance from that depth
ENERGY_GAIN_PENALTY = 1e6  # [m] added to the depth of steps that gain energy, to prefer all others


class Stepped(NamedTuple):
    """The state after a step; `u` (nv,) is the velocity that led to q, in axes before the step (see
    `moved_straight`).

    `curved` (candidates,) is what the step added to gaps beside its length times u. `sunk` [m] is how much
    deeper it ends than it should, where that is too much; otherwise zero.
    """

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    solution: Solution
    curved: np.ndarray
    sunk: Any = 0.0


class _Best(NamedTuple):
    """The best solution so far, and what is tried next.

    `curved`, (candidates,), is what it takes gaps to change beside their rates; `report` are its residual, 1
    if converged, the part of restitution, and `sunk` (see `Stepped`). `least`, (1,), is how much deeper it
    ends than it should. `following` are the changes of gaps that are tried next, and `counts` the part of
    slow corrections of penetrations that is left out, and the iterations of all solutions.
    """

    impulses: Any
    curved: Any
    u: Any
    q: Any
    v: Any
    report: Any
    least: Any
    following: Any
    counts: Any

    def flat(self) -> np.ndarray:
        """Return all numbers, (n,)."""
        return np.array([x for each in self for x in each], dtype=object)

    def unflat(self, state: np.ndarray) -> _Best:
        """Return numbers `state`, (n,), in the shapes of this one."""
        ends = np.cumsum([len(each) for each in self])
        return _Best(*(state[end - len(each) : end] for end, each in zip(ends, self)))


class _End(NamedTuple):
    """Gaps at the end of a solution: what they miss, (candidates,), and the largest depth beyond what it
    should be [m]; that of gaps for which the step is divided; and 1 if one is too deep for the solution to
    count as converged.
    """

    missed: Any
    deep: Any
    sunk: Any
    fails: Any


def stepped(step: StepInput, *, share: Any = 1.0) -> Stepped:
    """Return the state after a step.

    Of all solutions that are tried the one that ends least deep counts. `share`: the part of a whole step
    that this one is.
    """
    passes = _Passes(step, share)
    at = passes.at
    state = passes.first.flat()
    state = loop(passes.once, state, limit=MAX_PASSES) if passes.repeat else passes.once(state)[0]
    best = passes.first.unflat(state)
    end = guarded(
        step.model,
        step.contacts,
        at.begun,
        (best.q, best.v),
        best.u,
        at.pushes(best.impulses),
        at.works(best.impulses, best.u),
    )
    residual, converged, bounce, sunk = best.report
    solution = Solution(best.impulses, residual, best.counts[1], converged, bounce)
    return Stepped(best.q, end, best.u, solution, best.curved, sunk)


class _Passes:
    """Solutions of one step, one after the other."""

    def __init__(self, step: StepInput, share: Any) -> None:
        self.step = step
        self.at = Step(
            step.model,
            step.contacts,
            step.q,
            step.v,
            step.tau,
            step.dt,
            step.f_ext,
            step.method,
            step.coefficients,
            differentiable=step.differentiable,
        )
        rigid = not np.isfinite(step.contacts.stiffness)
        self.repeat = len(self.at.begun.gaps) > 0 and rigid and not step.differentiable
        self.energy_tol = GAP_TOL * weight(step.model) * share  # [J] accepted gain of one solution
        self.undone = self.at.slowly_undone() if self.repeat else []
        n = len(self.at.begun.gaps)
        nothing = [np.zeros(k) for k in (n, step.model.nv, step.model.nq, step.model.nv, 4)]
        self.first = _Best._make([step.start, *nothing, np.array([np.inf]), np.zeros(n), np.zeros(2)])

    def once(self, state: np.ndarray) -> tuple[np.ndarray, Any]:
        """Solve once more, and drop what leads deeper than the best so far."""
        best = self.first.unflat(state)
        resting, iterations = best.counts
        curved = best.following
        rested = np.array([x + resting * y for x, y in zip(curved, self.undone)]) if self.repeat else curved
        u, solution = self.at.solved(best.impulses, rested)
        q1, v1 = self.step.arrive(self.step.q, u, self.step.dt)
        end = self._end(u, q1) if self.repeat else _End([], 0.0, 0.0, 0.0)
        residual = solution.residual
        converged = solution.converged
        if self.repeat:  # counts in the last pass only
            residual = where(end.fails > 0.5, maximum(end.deep / self.step.dt, residual), residual)
            converged = where(end.fails > 0.5, 0.0, converged)
        report = (residual, converged, solution.part, end.sunk)
        this = best._replace(
            impulses=solution.impulses, curved=curved, u=u, q=q1, v=v1, report=report, least=[end.deep]
        )
        after = self._better(best, this, end.missed) if self.repeat else this
        after = after._replace(counts=[after.counts[0], iterations + solution.iterations])
        return after.flat(), after.least[0] > GAP_TOL

    def _end(self, u: np.ndarray, q: np.ndarray) -> _End:
        """Return what gaps at the end of a solution miss."""
        at = self.at
        model = self.step.model
        contacts = self.step.contacts
        deep: Any = 0.0
        sunk: Any = 0.0
        fails: Any = 0.0
        kinematics = BodyKinematics(nodes_with_contact(model, contacts, q, None))
        kinematics.horizon = 0.0  # only overlaps count
        points = [candidate.touch(kinematics) for candidate in contacts.candidates(model)]
        missed = missed_gaps(at.pairs, at.touches, points, at.expected(u))
        # shapes that were too far apart to be searched have no normal that parts them: the step is divided
        missed = [where(near, x, 0.0) for near, x in zip(at.near, missed)]
        gaps, expected, aims = (
            least_by_pair(at.pairs, x) for x in ([each.gap for each in points], at.expected(u), at.aims())
        )
        before = least_by_pair(at.pairs, at.begun.gaps)
        for gap_before, gap, required, aim in zip(before, gaps, expected, aims):
            accepted = _accepted_error(gap_before, gap)
            # an error counts by how far it is beyond the accepted one, plus what is accepted elsewhere
            excess = aim - gap + (GAP_TOL - accepted)
            missed_here = where(gap - required < -accepted, excess, 0.0)
            deep = maximum(missed_here, deep)
            sunk = maximum(where((missed_here > GAP_TOL) & (gap < -SPLIT_DEPTH), missed_here, 0.0), sunk)
            fails = maximum(where((missed_here > GAP_TOL) & (gap < -MAX_DEPTH), 1.0, 0.0), fails)
        return _End(missed, deep, sunk, fails)

    def _better(self, best: _Best, this: _Best, missed: Any) -> _Best:
        """Return the better solution of two, and what is tried next: the changes of gaps that were missed, or
        half of the way to those that led too deep.

        Solutions that give bodies more energy than they had are dropped, and less of penetrations is undone.
        """
        at = self.at
        resting = best.counts[0]
        gain = at.gain(this.impulses, this.u) - at.rounding(this.impulses, this.u)
        paid = gain <= self.energy_tol
        gain = gain - START_DEPTH * weight(self.step.model)
        undone_work = sum(this.impulses[i] * x for i, x in zip(at.begun.normals, self.undone)) * (
            1.0 / self.step.dt
        )
        undone_work = (1.0 - resting) * undone_work
        lifts = where((gain > 0.0) & (undone_work > 0.0), 1.0, 0.0)
        depth = this.least[0] + ENERGY_GAIN_PENALTY * lifts
        least = best.least[0]
        better = ((depth < least) & (paid | (least >= ENERGY_GAIN_PENALTY))) | (least == np.inf)
        halved = [where(better, miss, 0.5 * (x + y)) for miss, x, y in zip(missed, this.curved, best.curved)]
        following = [where(lifts > 0.5, x, y) for x, y in zip(this.curved, halved)]
        less = (
            0.99 * maximum(undone_work - gain, 0.0) / where(undone_work + gain > 0.0, undone_work + gain, 1.0)
        )
        rests = 1.0 - (1.0 - resting) * where(less > 0.05, less, 0.0)
        resting = where(lifts > 0.5, rests, resting)
        this = this._replace(least=[depth])
        chosen = [where(better, np.array(x, dtype=object), y) for x, y in zip(this[:7], best[:7])]
        return _Best._make([*chosen, following, [resting]])


def _accepted_error(before: Any, gap: Any) -> Any:
    """Return the accepted error of a gap at the end of a step [m], from the least gap of its pair before.

    It falls to nearly zero at `FULL_DEPTH`: errors of many steps cannot add up to more. Bodies that are
    deeper already are lifted.
    """
    near_bound = maximum(ERROR_PER_DISTANCE * (gap + FULL_DEPTH), LEAST_GAP_TOL)
    return where(before > -MAX_DEPTH, minimum(near_bound, GAP_TOL), GAP_TOL)
