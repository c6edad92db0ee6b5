"""Coordinates of parameters in a fit: unconstrained numbers from which the numbers of a model follow.

Masses are exponentials, moments of inertia have log-Cholesky coordinates (Rucker and Wensing 2022), rotations
of placements are rotation vectors. Bodies are physically consistent for any values of these coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.spatial import log_cholesky, parameters_of_log_cholesky

Map = Callable[[np.ndarray], np.ndarray]
AXES = ("x", "y", "z")
LOG_STEP = 1.0  # largest change of a logarithm in one iteration
LARGEST_LOG = 5.0  # change of the logarithm of a radius of gyration: a factor of 150
TURN_STEP = 0.5  # largest change of a placement in one iteration [rad, sizes of the model]
MOMENTS = ("xx", "yy", "zz", "xy", "xz", "yz")
# places of xx yy zz xy xz yz among the ten inertial parameters m, m c, xx xy yy xz yz zz
_AMONG_TEN = np.array([4, 6, 9, 5, 7, 8])


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates x of the numbers of one parameter, or of some of its entries.

    `values(x)` are the numbers as the model takes them, `values_rate(x)` their derivative. `entries(x)` are
    the numbers as they are reported, one per coordinate and label, `entries_rate(x)` their derivative.
    `lower` and `upper` bound x. `sizes` are the natural sizes of entries (see `sizes`), `coordinate_sizes`
    those of coordinates where they do not follow from the entries.
    """

    name: str
    labels: tuple[str, ...]
    start: np.ndarray
    values: Map
    values_rate: Map
    entries: Map
    entries_rate: Map
    lower: np.ndarray
    upper: np.ndarray
    # of bounds that are given for entries; None: no bounds
    to_coordinate: Callable[[float], float] | None = None
    largest_step: Any = np.inf  # of coordinates in one iteration
    sizes: Any = 1.0
    coordinate_sizes: Any = None


def plain(
    name: str,
    labels: tuple[str, ...],
    nominal: np.ndarray,
    varied: np.ndarray,
    least: float,
    sizes: np.ndarray,
    largest_step: float = np.inf,
) -> Coordinates:
    """Return numbers that are their own coordinates, some of them."""
    rate = np.eye(nominal.size)[:, varied]

    def values(x: np.ndarray) -> np.ndarray:
        numbers = nominal.copy()
        numbers[varied] = x
        return numbers

    unit = np.eye(len(varied))
    bound = np.full(len(varied), least)
    same: Map = lambda x: x  # noqa: E731
    no_limit = np.full(len(varied), np.inf)
    return Coordinates(
        name,
        labels,
        nominal[varied],
        values,
        lambda x: rate,
        same,
        lambda x: unit,
        bound,
        no_limit,
        lambda y: y,
        largest_step,
        sizes,
        largest_step if np.isfinite(largest_step) else None,
    )


def logarithm(name: str, nominal: np.ndarray, sizes: np.ndarray) -> Coordinates:
    """Return the logarithm of a positive number."""
    limit = np.full(1, np.inf)
    rate: Map = lambda x: np.exp(x)[:, None]  # noqa: E731
    to_log = lambda y: float(np.log(y)) if y > 0.0 else -np.inf  # noqa: E731
    x = np.log(nominal)
    return Coordinates(
        name, (name,), x, np.exp, rate, np.exp, rate, -limit, limit, to_log, LOG_STEP, sizes, 1.0
    )


def moment_of_inertia(name: str, nominal: np.ndarray, sizes: np.ndarray) -> Coordinates:
    """Return log-Cholesky coordinates of a moment of inertia about the centre of mass (xx, yy, zz, xy, xz,
    yz).

    Entries off the diagonal of the factor are in units of its diagonal's size in the model, so that all six
    coordinates are free of units.
    """
    ten = np.zeros(10)
    ten[0] = 1.0
    ten[_AMONG_TEN] = nominal
    labels = tuple(f"{name}.{axis}" for axis in MOMENTS)
    start = log_cholesky(ten)[1:7]
    unit = np.ones(6)
    unit[3:] = np.sqrt(np.exp(2.0 * start[:3]).mean())
    start = start / unit
    limit = np.concatenate([np.full(3, LARGEST_LOG), np.full(3, np.inf)])
    lower = start - limit
    upper = start + limit
    value: Map = lambda x: _moments(unit * x)  # noqa: E731
    rate: Map = lambda x: _moments_rate(unit * x) * unit  # noqa: E731
    return Coordinates(
        name, labels, start, value, rate, value, rate, lower, upper, None, LOG_STEP, sizes, 1.0
    )


def _moments(x: np.ndarray) -> np.ndarray:
    moments: np.ndarray = parameters_of_log_cholesky(np.concatenate([[0.0], x, np.zeros(3)]))[_AMONG_TEN]
    return moments


def _moments_rate(x: np.ndarray) -> np.ndarray:
    """Return the derivative of the moment trace(Σ) 1 - Σ with Σ = U Uᵀ by the six coordinates of U, (6,
    6).
    """
    e, (s12, s23, s13) = np.exp(x[:3]), x[3:]
    U = np.array([[e[0], s12, s13], [0.0, e[1], s23], [0.0, 0.0, e[2]]])
    rate = np.empty((6, 6))
    for k, (i, j) in enumerate(((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2))):
        dU = np.zeros((3, 3))
        dU[i, j] = U[i, i] if i == j else 1.0
        change = dU @ U.T + U @ dU.T
        moment = np.trace(change) * np.eye(3) - change
        rate[:, k] = moment[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    return rate


def placement(
    name: str, labels: tuple[str, ...], nominal: np.ndarray, varied: np.ndarray, sizes: np.ndarray
) -> Coordinates:
    """Return poses (x, y, z and a quaternion each): positions, and rotation vectors from the model's own
    orientations.
    """
    poses = nominal.reshape(-1, 7)
    origin = np.zeros((len(poses), 6))
    origin[:, :3] = poses[:, :3]
    full = origin.ravel()

    def six(x: np.ndarray) -> np.ndarray:
        pose = full.copy()
        pose[varied] = x
        return pose.reshape(-1, 6)

    def values(x: np.ndarray) -> np.ndarray:
        turned = [_left(pose[3:]) @ _exponential(r) for pose, r in zip(poses, six(x)[:, 3:])]
        return np.concatenate([six(x)[:, :3], turned], axis=1).ravel()

    def values_rate(x: np.ndarray) -> np.ndarray:
        rate = np.zeros((len(poses), 7, len(poses), 6))
        for k, (pose, r) in enumerate(zip(poses, six(x)[:, 3:])):
            rate[k, :3, k, :3] = np.eye(3)
            rate[k, 3:, k, 3:] = _left(pose[3:]) @ _exponential_rate(r)
        return rate.reshape(nominal.size, full.size)[:, varied]

    unit = np.eye(len(varied))
    limit = np.full(len(varied), np.inf)
    same: Map = lambda x: x  # noqa: E731
    return Coordinates(
        name,
        labels,
        full[varied],
        values,
        values_rate,
        same,
        lambda x: unit,
        -limit,
        limit,
        lambda y: y,
        TURN_STEP * sizes,
        sizes,
        sizes,
    )


def _left(q: np.ndarray) -> Any:
    """Return the matrix of the product q p of quaternions (x, y, z, w) as a function of p."""
    x, y, z, w = q / np.linalg.norm(q)
    return np.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])


def _exponential(r: np.ndarray) -> np.ndarray:
    """Return the quaternion (x, y, z, w) of a rotation vector."""
    angle = float(np.linalg.norm(r))
    return np.append(0.5 * np.sinc(0.5 * angle / np.pi) * r, np.cos(0.5 * angle))


def _exponential_rate(r: np.ndarray) -> np.ndarray:
    """Return the derivative of `_exponential`, (4, 3)."""
    angle = float(np.linalg.norm(r))
    part = 0.5 * np.sinc(0.5 * angle / np.pi)
    slope = -1.0 / 24.0 if angle < 1e-4 else (0.5 * np.cos(0.5 * angle) - part) / (angle * angle)
    return np.concatenate([part * np.eye(3) + slope * np.outer(r, r), -0.5 * part * r[None, :]])
