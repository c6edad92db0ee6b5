"""Motions that excite parameters: periodic trajectories whose information matrix has a large determinant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linkwork.errors import LinkworkError, ModelError
from linkwork.functions.derivatives import inverse_dynamics_derivatives
from linkwork.functions.dynamics import inverse_dynamics
from linkwork.functions.engine.tangent import is_plain
from linkwork.identification.parameters import Parameters
from linkwork.model import Model
from linkwork.model.parameters import entries_of, parse

INFORMATION_POINTS = 100  # times at which information is summed while a trajectory is optimised
OFFSPRING = 16
SLIDING_SPEED = 1e-2  # velocity above which dry friction opposes a motion [rad/s or m/s]
# eigenvalue of scaled information, relative to the largest, of directions that motions excite
MIN_EIGENVALUE = 1e-9


@dataclass(frozen=True, eq=False)
class Excitation:
    """A sampled periodic motion.

    Attributes
    ----------
    t : ndarray, shape (n,)
        Times [s].
    q, v, a, tau : ndarray, shape (n, nq) and (n, nv)
        Positions, velocities, accelerations and joint forces.
    log_determinant : float
        Logarithm of the determinant of the information matrix, restricted to parameters that some motion
        identifies, with each parameter in units of its size.
    initial_log_determinant : float
        That of the best random motion, from which the optimization started.
    """

    t: np.ndarray
    q: np.ndarray = field(repr=False)
    v: np.ndarray = field(repr=False)
    a: np.ndarray = field(repr=False)
    tau: np.ndarray = field(repr=False)
    log_determinant: float
    initial_log_determinant: float


def excitation_trajectory(
    model: Model,
    parameters: str | Iterable[str],
    *,
    duration: float,
    dt: float = 1e-2,
    harmonics: int = 5,
    lower: Any = None,
    upper: Any = None,
    max_velocity: Any = None,
    max_acceleration: Any = None,
    sigma_tau: Any = 1.0,
    iterations: int = 60,
    seed: int = 0,
) -> Excitation:
    """Return a periodic motion within joint limits that is informative about parameters.

    Parameters
    ----------
    model : Model
        A tree of joints with one coordinate for each velocity.
    parameters : str or sequence of str
        Parameters that act on joint forces, as in `fit_parameters`, without delays.
    duration : float
        Period [s].
    dt : float, optional
        Time between samples [s].
    harmonics : int, optional
        Number of multiples of the basic frequency in each joint.
    lower, upper, max_velocity : array_like, optional
        Limits, (nv,). By default the model's, and ±π [rad or m] where it has none.
    max_acceleration : array_like, optional
        Limit of accelerations, (nv,). By default none.
    sigma_tau : float or array_like, optional
        Standard deviations of joint forces, (nv,), by which joints are weighted.
    iterations, seed : int, optional
        Generations of the evolution strategy that maximises the determinant, and its seed.

    Returns
    -------
    Excitation
        The motion at multiples of `dt`, over one period.

    Raises
    ------
    LinkworkError
        If limits are empty, or no motion is informative about the parameters.

    Notes
    -----
    Each joint moves by a Fourier series that is scaled into its limits, so that limits hold at all samples
    (Swevers et al. 1997). Information is that of inverse dynamics; dry friction counts with the sign of
    velocities.
    """
    _check(model, duration, dt, harmonics, iterations)
    search = _Search(model, Parameters(model, parameters, duration), duration, harmonics, sigma_tau)
    search.set_limits(lower, upper, max_velocity, max_acceleration)
    rng = np.random.default_rng(seed)
    shape = (2, harmonics, model.nv)
    best, score, first = _evolved(search, rng, shape, iterations)
    t = dt * np.arange(max(2, int(np.ceil(duration / dt - 1e-9))))
    q, v, a = (x[0] for x in search.motions(best[None], t))
    return Excitation(t, q, v, a, inverse_dynamics(model, q, v, a), score, first)


def _evolved(
    search: _Search, rng: np.random.Generator, shape: tuple[int, ...], iterations: int
) -> tuple[np.ndarray, float, float]:
    """Maximise by an evolution strategy: the best, its value, and that of the best random start."""
    many = rng.normal(size=(OFFSPRING, *shape)) / (1.0 + np.arange(shape[1]))[:, None]
    scores = search.scores(many)
    best = many[int(np.argmax(scores))]
    score = float(scores.max())
    width = 0.3
    first = score
    for _ in range(iterations):
        many = best + width * rng.normal(size=(OFFSPRING, *shape))
        scores = search.scores(many)
        better = int(np.count_nonzero(scores > score))
        width *= 1.2 if better > OFFSPRING // 5 else 0.85
        if better:
            best = many[int(np.argmax(scores))]
            score = float(scores.max())
    return best, score, first


class _Search:
    """The objective: log-determinants of the information of motions, given by Fourier coefficients."""

    def __init__(
        self, model: Model, parameters: Parameters, duration: float, harmonics: int, sigma_tau: Any
    ) -> None:
        if parameters.delays:
            raise ModelError("excitation_trajectory: delays are not parameters of inverse dynamics")
        self.model = model
        self.chosen = parameters
        self.frequencies = 2.0 * np.pi / duration * np.arange(1, harmonics + 1)
        self.times = duration / INFORMATION_POINTS * np.arange(INFORMATION_POINTS)
        self.weights = 1.0 / _numbers("sigma_tau", sigma_tau, model.nv)
        if not ((self.weights > 0.0) & np.isfinite(self.weights)).all():
            raise LinkworkError(
                f"excitation_trajectory: sigma_tau: expected positive numbers, got {sigma_tau!r}"
            )
        x = parameters.start
        self.values = parameters.arrays(x)
        self.rate = parameters.rate(x) * parameters.coordinate_sizes()
        self.basis: np.ndarray | None = None

    def set_limits(self, lower: Any, upper: Any, max_velocity: Any, max_acceleration: Any) -> None:
        """Set limits of positions, velocities and accelerations; the model's where none are given."""
        model_limits = {name: self._of_joints(name) for name in ("lower", "upper", "max_velocity")}
        low = model_limits["lower"] if lower is None else _numbers("lower", lower, self.model.nv)
        high = model_limits["upper"] if upper is None else _numbers("upper", upper, self.model.nv)
        self.low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2 * np.pi, -np.pi))
        self.high = np.where(np.isfinite(high), high, self.low + 2.0 * np.pi)
        speed = (
            model_limits["max_velocity"]
            if max_velocity is None
            else _numbers("max_velocity", max_velocity, self.model.nv)
        )
        limit = np.inf if max_acceleration is None else max_acceleration
        self.speed = speed
        self.acceleration = _numbers("max_acceleration", limit, self.model.nv)
        if not ((self.low < self.high) & (self.speed > 0.0) & (self.acceleration > 0.0)).all():
            raise LinkworkError(
                "excitation_trajectory: limits: expected lower < upper and positive velocities"
            )

    def _of_joints(self, name: str) -> np.ndarray:
        return np.array([x for joint in self.model.joints for x in getattr(joint, name)], dtype=float)

    def motions(self, coefficients: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions, velocities and accelerations of many motions at times t, (many, times, nv),
        within limits.
        """
        dense = np.linspace(0.0, 2.0 * np.pi / self.frequencies[0], 20 * len(self.frequencies) + 1)
        q, v, a = self._series(coefficients, dense)
        high = q.max(axis=1)
        low = q.min(axis=1)
        ratios = [
            (self.high - self.low) / (high - low),
            self.speed / np.abs(v).max(axis=1),
            self.acceleration / np.abs(a).max(axis=1),
        ]
        scale = 0.95 * np.min(ratios, axis=0)[:, None]  # peaks between these times are a little higher
        center = 0.5 * (self.high + self.low) - scale * 0.5 * (high + low)[:, None]
        q, v, a = self._series(coefficients, t)
        return center + scale * q, scale * v, scale * a

    def _series(self, coefficients: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        w = self.frequencies
        sine = np.sin(np.outer(t, w))
        cosine = np.cos(np.outer(t, w))
        by_sine = coefficients[:, 0]
        by_cosine = coefficients[:, 1]
        q = sine @ by_sine + cosine @ by_cosine
        v = (cosine * w) @ by_sine - (sine * w) @ by_cosine
        a = -(sine * w * w) @ by_sine - (cosine * w * w) @ by_cosine
        return q, v, a

    def scores(self, coefficients: np.ndarray) -> np.ndarray:
        """Return log-determinants of the information of many motions."""
        G = self.information(coefficients)
        if self.basis is None:
            values, vectors = np.linalg.eigh(G.sum(axis=0))
            seen = values > MIN_EIGENVALUE * values[-1]
            if not values[-1] > 0.0:
                raise LinkworkError("excitation_trajectory: no motion is informative about the parameters")
            self.basis = vectors[:, seen]
        sign, log_determinant = np.linalg.slogdet(self.basis.T @ G @ self.basis)
        return np.where(sign > 0.0, log_determinant, -np.inf)

    def information(self, coefficients: np.ndarray) -> np.ndarray:
        """Return information matrices of many motions, with parameters in units of their sizes."""
        q, v, a = self.motions(coefficients, self.times)
        names = self.chosen.names
        regressors = inverse_dynamics_derivatives(self.model, q, v, a, wrt=names, parameters=self.values)
        blocks = [x.reshape(*q.shape, -1) for x in (regressors if len(names) > 1 else [regressors])]
        for name, block in zip(names, blocks):
            if parse(name)[0] == "friction":
                joints = range(self.model.nv)[entries_of(self.model, name)]
                for k, joint in enumerate(joints):
                    block[..., joint, k] = np.tanh(v[..., joint] / SLIDING_SPEED)
        Y = np.concatenate(blocks, axis=-1) @ self.rate * self.weights[:, None]
        Y = Y.reshape(len(q), -1, Y.shape[-1])
        result: np.ndarray = np.swapaxes(Y, 1, 2) @ Y
        return result


def _numbers(name: str, value: Any, size: int) -> np.ndarray:
    try:
        numbers = np.broadcast_to(np.asarray(value, dtype=float), (size,))
    except (TypeError, ValueError):
        raise LinkworkError(
            f"excitation_trajectory: {name}: expected a number or shape ({size},), got {value!r}"
        ) from None
    if np.isnan(numbers).any():
        raise LinkworkError(f"excitation_trajectory: {name}: expected numbers, got nan")
    return numbers


def _check(model: Any, duration: Any, dt: Any, harmonics: Any, iterations: Any) -> None:
    """Raise if an argument is invalid."""
    if not isinstance(model, Model) or model.loops or not model.nv or not is_plain(model):
        raise ModelError(
            "excitation_trajectory: expected a tree of joints with one coordinate for each velocity"
        )
    for name, value in (("duration", duration), ("dt", dt)):
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float | np.number)
            or not 0.0 < value < np.inf
        ):
            raise LinkworkError(
                f"excitation_trajectory: {name}: expected a positive number of seconds, got {value!r}"
            )
    for name, value in (("harmonics", harmonics), ("iterations", iterations)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise LinkworkError(f"excitation_trajectory: {name}: expected a positive integer, got {value!r}")
