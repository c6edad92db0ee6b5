"""The result of a fit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from linkwork.identification.directions import Direction
from linkwork.model import Model


@dataclass(frozen=True, eq=False)
class FitResult:
    """Result of `fit_parameters`; ``print(result)`` shows a report.

    Attributes
    ----------
    status : str
        "converged", "max_iterations", or "stalled" if no step reduces the cost.
    values : dict of str to array
        Fitted parameters by name, as `Model.with_parameters` takes them, and delays [s].
    model : Model
        The model with these values.
    labels : tuple of str
        Names of single entries, such as ``inertia@link2.xx``: of `estimate`, `standard_errors` and
        `covariance`.
    start : ndarray, shape (entries,)
        Initial values of entries.
    estimate : ndarray, shape (entries,)
        Values of entries.
    covariance : ndarray, shape (entries, entries)
        Covariance of entries in identifiable directions, from noise and priors.
    standard_errors : ndarray, shape (entries,)
        Its square roots on the diagonal; ``inf`` for entries that are part of an unidentifiable direction.
    unidentifiable : tuple of Direction
        Combinations of entries along which residuals do not change. Along them entries are nearest to their
        start.
    at_bounds : tuple of str
        Entries at a bound, and moments of inertia that come close to impossible ones. The covariance is that
        without bounds.
    residuals : list of ndarray
        For each recording, simulated minus measured positions of joints (and velocities), in units of their
        noise.
    sigma_q, sigma_v : list
        For each recording, the standard deviations of the noise, given or estimated; None without velocities.
    initial_states : list of tuple
        Fitted (q, v) at the first sample of each recording.
    cost : float
        Half of the sum of squares of residuals and priors.
    degrees_of_freedom : int
        Number of residuals and priors minus that of estimated numbers.
    iterations, evaluations : int
        Accepted steps, and simulations of all recordings.
    """

    status: str
    values: dict[str, np.ndarray]
    model: Model
    labels: tuple[str, ...]
    start: np.ndarray = field(repr=False)
    estimate: np.ndarray = field(repr=False)
    covariance: np.ndarray = field(repr=False)
    standard_errors: np.ndarray = field(repr=False)
    unidentifiable: tuple[Direction, ...] = field(repr=False)
    at_bounds: tuple[str, ...] = field(repr=False)
    residuals: list[np.ndarray] = field(repr=False)
    sigma_q: list[np.ndarray] = field(repr=False)
    sigma_v: list[np.ndarray | None] = field(repr=False)
    initial_states: list[tuple[np.ndarray, np.ndarray]] = field(repr=False)
    cost: float
    degrees_of_freedom: int
    iterations: int
    evaluations: int

    @property
    def chi_square(self) -> float:
        """Sum of squared residuals per degree of freedom: 1 where noise alone separates motion and model."""
        return 2.0 * self.cost / max(1, self.degrees_of_freedom)

    def __str__(self) -> str:
        """Return a report: a table of entries, and directions that are not identifiable."""
        width = max(map(len, self.labels))
        lines = [
            f"{self.status} after {self.iterations} iterations; cost {self.cost:.6g}, "
            f"χ² per degree of freedom {self.chi_square:.3g}",
            f"{'parameter':{width}}  {'start':>12}  {'estimate':>12}  {'std. error':>10}",
        ]
        for label, start, estimate, error in zip(
            self.labels, self.start, self.estimate, self.standard_errors
        ):
            error_text = f"{error:10.2g}" if np.isfinite(error) else f"{'unknown':>10}"
            lines.append(f"{label:{width}}  {start:12.6g}  {estimate:12.6g}  {error_text}")
        if self.at_bounds:
            lines.append(f"at a bound: {', '.join(self.at_bounds)}")
        if self.unidentifiable:
            lines.append("not identifiable from these recordings:")
            lines += [f"  {direction}" for direction in self.unidentifiable]
        return "\n".join(lines)
