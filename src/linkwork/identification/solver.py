"""Levenberg-Marquardt steps for multiple shooting: condensed linear problems, bounds,
priors and an exact penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from linkwork.identification.parameters import Parameters
from linkwork.identification.shooting import Linear, Point, Shooting, Trajectory

# eigenvalue of the information matrix with unit diagonal, below which no step is taken
UNIDENTIFIABLE = 1e-12
WITHOUT_EFFECT = 1e-10  # effect of a parameter relative to the largest, below which it is of rounding errors
# sum of defects that a step may leave which decreases the cost, in units of noise; then halved
FIRST_SLACK = 10.0
CLOSED_GAP = 1e-6  # sum of defects in units of noise that is no gap
# predicted decrease at which a fit has converged: of the cost, which is a log-likelihood, or ...
STATIONARY = 1e-9
SMALL_COST = 1e-3  # ... relative to the cost if that is less than this
MIN_DECREASE = 1e-4  # predicted decrease that rounding errors may prevent
SAME_COST = 1e-15  # predicted decrease relative to the cost at which a fit has converged in any case
ROUNDING = 1e-10  # ... below which measured decreases are rounding errors, and steps are taken as they are
SMALL_STEP = 1e-13  # step relative to the coordinates at which a fit has converged
LEAST_SCALE = 1e-2  # of a coordinate in damping, relative to the largest, by sizes
# move of coordinates back to their start, relative to their sizes, that is not taken any more
SMALL_RETURN = 1e-7
MAX_RETURNS = 20  # iterations that only do that, at most ...
RETURN_COST = 1e-2  # ... each of which may increase the cost, a log-likelihood, by this
INITIAL_DAMPING = 1e-3
LEAST_DAMPING = 1e-12
MOST_DAMPING = 1e12


@dataclass
class Information:
    """The normal equations of the parameters alone: H δ = -g, with initial states eliminated.

    `scale` are the square roots of the diagonal before that, zero for parameters without effect.
    """

    H: np.ndarray
    g: np.ndarray
    scale: np.ndarray


@dataclass
class Solution:
    """Solution of a fit: the point, its simulated recordings, cost, information,
    and the reason for stopping.
    """

    point: Point
    paths: list[Trajectory]
    cost: float
    information: Information
    status: str
    iterations: int
    evaluations: int
    history: list[float] = field(default_factory=list)


class Problem:
    """Recordings, priors and bounds as one least-squares problem in x."""

    def __init__(
        self,
        shooting: Shooting,
        parameters: Parameters,
        prior: tuple[np.ndarray, np.ndarray],
        *,
        near_start: bool = False,
    ) -> None:
        self.shooting = shooting
        self.parameters = parameters
        self.mean, deviation = prior
        self.weight = 1.0 / deviation
        self.nx = shooting.nx
        self.sizes = parameters.coordinate_sizes()
        self.near_start = near_start

    def cost(self, paths: Sequence[Trajectory], x: np.ndarray) -> float:
        """Return half of the sum of squared residuals and priors."""
        prior = (self.parameters.entries(x) - self.mean) * self.weight
        total = sum(float((path.residuals**2).sum()) for path in paths) + float(prior @ prior)
        if self.near_start:
            total += float((self.away(x) ** 2).sum())
        return 0.5 * total

    def away(self, x: np.ndarray) -> np.ndarray:
        """Return how far coordinates are from their start, in units of their sizes."""
        distance: np.ndarray = (x - self.parameters.start) / self.sizes
        return distance

    def gap(self, paths: Sequence[Trajectory]) -> float:
        """Sum of the sizes of all defects, in units of noise."""
        total = 0.0
        for path, (of_q, of_v), one in zip(paths, self.shooting.weights, self.shooting.signals):
            unit_q = float(np.max(of_q, initial=0.0))
            unit_v = (
                unit_q * float(np.diff(one.t).mean()) if of_v is None else float(np.max(of_v, initial=0.0))
            )
            nv = self.shooting.model.nv
            sizes = np.abs(path.defects)
            total += float(unit_q * sizes[:, :nv].sum() + unit_v * sizes[:, nv:].sum())
        return total

    def linear(self, paths: Sequence[Trajectory], x: np.ndarray) -> list[Linear]:
        """Return the linear problems of all recordings, with numbers of the model as variables."""
        return self.shooting.linearise(paths, x)

    def grams(self, linear: Sequence[Linear], x: np.ndarray) -> list[np.ndarray]:
        """Return products by (initial state, x, 1)."""
        T = self.parameters.rate(x)
        nx = self.nx
        n = self.parameters.numbers
        size = self.parameters.size
        B = np.zeros((nx + n + 1, nx + size + 1))
        B[:nx, :nx] = np.eye(nx)
        B[nx:-1, nx:-1] = T
        B[-1, -1] = 1.0
        return [B.T @ one.gram @ B for one in linear]

    def prior_gram(self, x: np.ndarray) -> np.ndarray:
        """Return products of the priors by (x, 1)."""
        rows = self.parameters.entries_rate(x) * self.weight[:, None]
        last = (self.parameters.entries(x) - self.mean) * self.weight
        J = np.column_stack([rows, last])
        gram: np.ndarray = J.T @ J
        if self.near_start:
            J = np.column_stack([np.diag(1.0 / self.sizes), self.away(x)])
            gram += J.T @ J
        return gram

    def information(
        self, grams: Sequence[np.ndarray], prior: np.ndarray, damping: float = 0.0
    ) -> Information:
        """Return normal equations of the parameters, by elimination of initial states."""
        nx = self.nx
        H = prior.copy()
        diagonal = np.diag(prior)[:-1].copy()
        for G in grams:
            diagonal += np.diag(G)[nx:-1]
            H += G[nx:, nx:]
            if self.shooting.free_start:
                H -= G[nx:, :nx] @ self._initial(G, damping, G[:nx, nx:])
        scale = np.sqrt(diagonal)
        effect = scale * self.sizes
        unseen = effect <= WITHOUT_EFFECT * effect.max(initial=0.0)
        scale[unseen] = 0.0
        H[:-1][unseen] = H[:, :-1][:, unseen] = 0.0
        return Information(H[:-1, :-1], H[:-1, -1], scale)

    def _initial(self, G: np.ndarray, damping: float, right: np.ndarray) -> np.ndarray:
        """Solve the equations of an initial state."""
        scale = np.sqrt(np.diag(G)[: self.nx])
        scale = np.where(scale > 0.0, scale, 1.0)
        unit = G[: self.nx, : self.nx] / np.outer(scale, scale)
        unit[np.diag_indices(self.nx)] += damping + 1e-14
        states: np.ndarray = np.linalg.solve(unit, right / scale[:, None]) / scale[:, None]
        return states

    def step(
        self, grams: Sequence[np.ndarray], prior: np.ndarray, x: np.ndarray, damping: float
    ) -> tuple[np.ndarray, list[np.ndarray], float, float]:
        """Return the change of x, the changes of initial states, the cost that the linear problem predicts,
        and the largest change of an entry, relative to its size, that only leads back to the start.
        """
        information = self.information(grams, prior, damping)
        far = self.parameters.largest_step
        lower = np.maximum(self.parameters.lower, x - far)
        upper = np.minimum(self.parameters.upper, x + far)
        delta, returned = bounded(information, x, (lower, upper), damping, self.away(x), self.sizes)
        starts = []
        total = 0.0
        end = np.append(delta, 1.0)
        for G in grams:
            start = np.zeros(self.nx)
            if self.shooting.free_start:
                start = -self._initial(G, damping, (G[: self.nx, self.nx :] @ end)[:, None])[:, 0]
            z = np.concatenate([start, end])
            total += float(z @ G @ z)
            starts.append(start)
        return delta, starts, 0.5 * (total + float(end @ prior @ end)), returned


def bounded(
    information: Information,
    x: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    damping: float,
    away: np.ndarray,
    sizes: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Solve damped normal equations within bounds: coordinates that would leave them stop there.

    Of all solutions, that which is nearest to the start; how far this choice moves coordinates is returned
    too. Distances are in units of coordinates' sizes.
    """
    lower, upper = bounds
    largest = np.max(information.scale * sizes)
    scale = np.where(information.scale > 0.0, information.scale, largest / sizes)
    damped = damping * np.maximum(scale, LEAST_SCALE * largest / sizes) ** 2
    free = np.ones(len(x), dtype=bool)
    delta = np.zeros_like(x)
    for _ in range(len(x) + 1):
        right = -(information.g + information.H @ np.where(free, 0.0, delta))[free]
        delta[free], null = _damped(information.H[np.ix_(free, free)], right, scale[free], damped[free])
        unit = null / sizes[free, None]
        back = -null @ np.linalg.lstsq(unit, (away + delta / sizes)[free], rcond=None)[0] / (1.0 + damping)
        back /= max(1.0, 2.0 * float(np.max(np.abs(back) / (upper - lower)[free], initial=0.0)))
        delta[free] += back
        outside = free & ((x + delta < lower) | (x + delta > upper))
        if not outside.any():
            break
        delta[outside] = np.clip(x + delta, lower, upper)[outside] - x[outside]
        free &= ~outside
    return delta, float(np.max(np.abs(back) / sizes[free], initial=0.0))


def _damped(
    H: np.ndarray, right: np.ndarray, scale: np.ndarray, damped: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solve (H + diag(damped)) δ = right without components that data do not tell; return these, too."""
    values, vectors = np.linalg.eigh(H / np.outer(scale, scale))
    seen = values > UNIDENTIFIABLE
    basis = vectors[:, seen]
    inner = np.diag(values[seen]) + basis.T @ ((damped / scale**2)[:, None] * basis)
    step: np.ndarray = (basis @ np.linalg.solve(inner, basis.T @ (right / scale))) / scale
    return step, vectors[:, ~seen] / scale[:, None]


def solve(
    problem: Problem,
    start: Point,
    *,
    iterations: int,
    tell: Callable[[str], None],
    stationary: float = STATIONARY,
) -> Solution | None:
    """Minimise the cost from a start; None if its recordings cannot be simulated."""
    point = start
    damping = INITIAL_DAMPING
    penalty = 1.0
    paths = problem.shooting.simulate(point)
    if paths is None:
        return None
    cost = problem.cost(paths, point.x)
    gap = problem.gap(paths)
    evaluations = 1
    status = ""
    history = [0.0]
    history[0] = cost
    count = 0
    returns = 0
    slack = FIRST_SLACK
    while True:
        linear = problem.linear(paths, point.x)
        grams = problem.grams(linear, point.x)
        prior = problem.prior_gram(point.x)
        if count == iterations:
            status = "max_iterations"
        promised = -np.inf  # the largest decrease that is predicted from here
        while not status:
            delta, starts, predicted, returned = problem.step(grams, prior, point.x, damping)
            if gap > 0.0 and predicted - cost > 0.5 * penalty * gap:
                penalty = 2.0 * (predicted - cost) / gap
            decrease = cost - predicted + penalty * gap
            closed = gap <= CLOSED_GAP * (1.0 + np.sqrt(cost))
            remaining_decrease = cost - predicted if closed else decrease
            promised = max(promised, remaining_decrease)
            small = bool((np.abs(delta) <= SMALL_STEP * (1e-6 + np.abs(point.x))).all())
            least = max(stationary * min(1.0, cost / SMALL_COST), SAME_COST * cost)
            home = returned <= SMALL_RETURN or returns >= MAX_RETURNS or stationary > STATIONARY
            fitted = remaining_decrease <= least or (small and closed)
            if fitted and home:
                status = "converged"
                break
            T = problem.parameters.rate(point.x)
            changes = [np.concatenate([one, T @ delta]) for one in starts]
            trial = problem.shooting.moved(point, linear, point.x + delta, changes)
            simulated = problem.shooting.simulate(trial)
            evaluations += 1
            new_cost = np.inf if simulated is None else problem.cost(simulated, trial.x)
            new_gap = np.inf if simulated is None else problem.gap(simulated)
            gained = cost + penalty * gap - new_cost - penalty * new_gap
            level = decrease <= ROUNDING * cost and abs(gained) <= 1e-9 * cost
            level |= fitted and gained >= -RETURN_COST
            returns += fitted
            merit = level or gained > 1e-4 * decrease
            loose = not merit and new_gap <= slack and cost - new_cost > 0.25 * (cost - predicted) > 0.0
            if simulated is not None and (merit or loose):
                quality = 1.0 if level else gained / decrease
                if loose:
                    quality = (cost - new_cost) / (cost - predicted)
                    slack *= 0.5
                damping = max(
                    LEAST_DAMPING, damping * (0.1 if quality > 0.75 else 1.0 if quality > 0.25 else 4.0)
                )
                point = trial
                paths = simulated
                cost = new_cost
                gap = new_gap
                break
            damping *= 10.0 if damping > 1e-6 else 1e3
            if damping > MOST_DAMPING:
                status = "stalled" if promised > MIN_DECREASE else "converged"
        if status:
            information = problem.information(grams, prior)
            return Solution(point, paths, cost, information, status, count, evaluations, history)
        count += 1
        history.append(cost)
        tell(f"iteration {count}: cost {cost:.6g}, defects {gap:.2g}, damping {damping:.0e}")
