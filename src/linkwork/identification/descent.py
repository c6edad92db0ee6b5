"""Levenberg-Marquardt steps for multiple shooting, with an exact penalty on the defects between segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from linkwork.identification.shooting import Linear, Point, Trajectory
from linkwork.identification.solver import Information, Problem

# sum of defects that a step may leave which decreases the cost, in units of noise; then halved
FIRST_SLACK = 10.0
CLOSED_GAP = 1e-6  # sum of defects in units of noise that is no gap
# predicted decrease at which a fit has converged: of the cost, which is a log-likelihood, or ...
STATIONARY = 1e-9
SMALL_COST = 1e-3  # ... relative to the cost if that is less than this
MIN_DECREASE = 1e-4  # predicted decrease that rounding errors may prevent
SAME_COST = 1e-15  # predicted decrease relative to the cost at which a fit has converged in any case
ROUNDING = 1e-10  # ... below which measured decreases are rounding errors, and steps are taken as they are
NEGLIGIBLE = 1e-5  # predicted decrease, as STATIONARY: estimates are within 1/200 of standard errors ...
MAX_NEGLIGIBLE = 15  # ... and a fit has converged after as many such iterations in a row
SMALL_STEP = 1e-13  # step relative to the coordinates at which a fit has converged
# move of coordinates back to their start, relative to their sizes, that is not taken any more
SMALL_RETURN = 1e-7
MAX_RETURNS = 20  # iterations that only do that, at most ...
RETURN_COST = 1e-2  # ... each of which may increase the cost, a log-likelihood, by this
INITIAL_DAMPING = 1e-3
LEAST_DAMPING = 1e-12
MOST_DAMPING = 1e12


@dataclass
class Solution:
    """Solution of a fit: the point, its recordings as simulated, cost, information, and why it stopped."""

    point: Point
    paths: list[Trajectory]
    cost: float
    information: Information
    status: str
    iterations: int
    evaluations: int


class _Step(NamedTuple):
    """A step of the linear problem: changes of coordinates and initial states, the cost that it predicts, and
    the decrease of cost and penalty.

    `returned` is the part of it that leads back to the start; `fitted`: nothing else is left to gain.
    """

    delta: np.ndarray
    starts: list[np.ndarray]
    predicted: float
    decrease: float
    remaining: float
    returned: float
    fitted: bool


class _Descent:
    """Point that a minimisation has reached, with its cost and gap, and how steps are limited from there."""

    def __init__(self, problem: Problem, start: Point, paths: list[Trajectory], stationary: float) -> None:
        self.problem = problem
        self.stationary = stationary
        self.penalty = 1.0
        self.damping = INITIAL_DAMPING
        self.slack = FIRST_SLACK
        self.returns = 0
        self.negligible = 0
        self.evaluations = 1
        self._reach(start, paths, problem.cost(paths, start.x), problem.gap(paths))

    def _reach(self, point: Point, paths: list[Trajectory], cost: float, gap: float) -> None:
        self.point = point
        self.paths = paths
        self.cost = cost
        self.gap = gap

    def advance(self, linear: list[Linear], grams: list[np.ndarray], prior: np.ndarray) -> str:
        """Take a step that decreases cost and penalty, with more damping until there is one.

        Return the status if there is none, "" otherwise.
        """
        promised = -np.inf  # the largest decrease that is predicted from here
        while True:
            step = self._computed(grams, prior)
            promised = max(promised, step.remaining)
            is_home = step.returned <= SMALL_RETURN or self.returns >= MAX_RETURNS
            if (
                step.fitted and (is_home or self.stationary > STATIONARY)
            ) or self.negligible >= MAX_NEGLIGIBLE:
                return "converged"
            if self._taken(step, linear):
                return ""
            self.damping *= 10.0 if self.damping > 1e-6 else 1e3
            if self.damping > MOST_DAMPING:
                return "stalled" if promised > MIN_DECREASE else "converged"

    def _computed(self, grams: list[np.ndarray], prior: np.ndarray) -> _Step:
        """Return the step with the present damping; the penalty is raised where the gap needs it."""
        problem = self.problem
        cost = self.cost
        x = self.point.x
        delta, starts, predicted, returned = problem.step(grams, prior, x, self.damping)
        if self.gap > 0.0 and predicted - cost > 0.5 * self.penalty * self.gap:
            self.penalty = 2.0 * (predicted - cost) / self.gap
        decrease = cost - predicted + self.penalty * self.gap
        closed = self.gap <= CLOSED_GAP * (1.0 + np.sqrt(cost))
        remaining = cost - predicted if closed else decrease
        small = bool((np.abs(delta) <= SMALL_STEP * (1e-6 * problem.sizes + np.abs(x))).all())
        least = max(self.stationary * min(1.0, cost / SMALL_COST), SAME_COST * cost)
        fitted = remaining <= least or (small and closed)
        return _Step(delta, starts, predicted, decrease, remaining, returned, fitted)

    def _taken(self, step: _Step, linear: list[Linear]) -> bool:
        """Go to the end of a step if cost and penalty decrease there, and adapt the damping."""
        problem = self.problem
        cost = self.cost
        T = problem.parameters.rate(self.point.x)
        changes = [np.concatenate([one, T @ step.delta]) for one in step.starts]
        trial = problem.shooting.moved(self.point, linear, self.point.x + step.delta, changes)
        simulated = problem.shooting.simulate(trial)
        self.evaluations += 1
        self.returns += step.fitted
        if simulated is None:
            return False
        new_cost = problem.cost(simulated, trial.x)
        new_gap = problem.gap(simulated)
        gained = cost + self.penalty * self.gap - new_cost - self.penalty * new_gap
        level = step.decrease <= ROUNDING * cost and abs(gained) <= 1e-9 * cost
        level |= step.fitted and gained >= -RETURN_COST
        predicted = cost - step.predicted
        loose = new_gap <= self.slack and cost - new_cost > 0.25 * predicted > 0.0
        if level or gained > 1e-4 * step.decrease:
            quality = 1.0 if level else gained / step.decrease
        elif loose:
            quality = (cost - new_cost) / predicted
            self.slack *= 0.5
        else:
            return False
        is_negligible = step.remaining <= NEGLIGIBLE * min(1.0, cost / SMALL_COST) and not step.fitted
        self.negligible = self.negligible + 1 if is_negligible else 0
        factor = 0.1 if quality > 0.75 else 1.0 if quality > 0.25 else 4.0
        self.damping = max(LEAST_DAMPING, self.damping * factor)
        self._reach(trial, simulated, new_cost, new_gap)
        return True


def solve(
    problem: Problem,
    start: Point,
    *,
    iterations: int,
    report: Callable[[str], None],
    stationary: float = STATIONARY,
) -> Solution | None:
    """Minimise the cost from a start; None if its recordings cannot be simulated."""
    paths = problem.shooting.simulate(start)
    if paths is None:
        return None
    descent = _Descent(problem, start, paths, stationary)
    count = 0
    while True:
        linear = problem.linear(descent.paths, descent.point.x)
        grams = problem.grams(linear, descent.point.x)
        prior = problem.prior_gram(descent.point.x)
        status = "max_iterations" if count == iterations else descent.advance(linear, grams, prior)
        if status:
            information = problem.information(grams, prior)
            at = descent.point, descent.paths, descent.cost
            return Solution(*at, information, status, count, descent.evaluations)
        count += 1
        cost, gap, damping = descent.cost, descent.gap, descent.damping
        report(f"iteration {count}: cost {cost:.6g}, defects {gap:.2g}, damping {damping:.0e}")
