"""The least-squares problem of a fit, and its damped linear problems with bounds and priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linkwork.identification.parameters import Parameters
from linkwork.identification.shooting import Linear, Shooting, Trajectory

# eigenvalue of the information matrix with unit diagonal, below which no step is taken
UNIDENTIFIABLE = 1e-12
WITHOUT_EFFECT = 1e-10  # effect of a parameter relative to the largest, below which it is of rounding errors
LEAST_SCALE = 1e-2  # of a coordinate in damping, relative to the largest, by sizes


@dataclass
class Information:
    """The normal equations of the parameters alone: H δ = -g, with initial states eliminated.

    `products` are those of residuals' derivatives before that, `scale` the square roots of their diagonal,
    zero for parameters without effect.
    """

    H: np.ndarray
    g: np.ndarray
    products: np.ndarray
    scale: np.ndarray


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
        scales = self.parameters.scales
        nv = self.shooting.model.nv
        for path, (of_q, of_v), one in zip(paths, self.shooting.weights, self.shooting.signals):
            weight_q = float(np.max(of_q * scales.units, initial=0.0))
            if of_v is None:
                weight_v = weight_q * float(np.diff(one.t).mean())
            else:
                weight_v = float(np.max(of_v * scales.independent_units, initial=0.0))
            sizes = np.abs(path.defects) / np.tile(scales.independent_units, 2)
            total += float(weight_q * sizes[:, :nv].sum() + weight_v * sizes[:, nv:].sum())
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
        products = prior[:-1, :-1].copy()
        for G in grams:
            products += G[nx:-1, nx:-1]
            H += G[nx:, nx:]
            if self.shooting.free_start:
                H -= G[nx:, :nx] @ self._initial(G, damping, G[:nx, nx:])
        scale = np.sqrt(np.diag(products))
        effect = scale * self.sizes
        unseen = effect <= WITHOUT_EFFECT * effect.max(initial=0.0)
        scale[unseen] = 0.0
        H[:-1][unseen] = H[:, :-1][:, unseen] = 0.0
        return Information(H[:-1, :-1], H[:-1, -1], products, scale)

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
    """Solve (H + diag(damped)) δ = right without components that data do not determine; return these, too."""
    values, vectors = np.linalg.eigh(H / np.outer(scale, scale))
    seen = values > UNIDENTIFIABLE
    basis = vectors[:, seen]
    inner = np.diag(values[seen]) + basis.T @ ((damped / scale**2)[:, None] * basis)
    step: np.ndarray = (basis @ np.linalg.solve(inner, basis.T @ (right / scale))) / scale
    return step, vectors[:, ~seen] / scale[:, None]
