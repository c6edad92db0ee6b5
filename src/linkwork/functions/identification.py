"""Public functions of identification: regressors of inertial parameters, and base parameters."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.tree import regressor as linear
from linkwork.errors import LinkworkError, ModelError, ShapeError
from linkwork.functions.engine.call_arguments import as_numbers
from linkwork.functions.engine.model_function import model_function
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree


@model_function(q="nq", v="nv", a="nv")
def inverse_dynamics_regressor(model: Model, q: Any, v: Any, a: Any) -> Any:
    """Return the regressor Y, (..., nv, 10 bodies), with tau = Y π (Atkeson, An and Hollerbach 1986).

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations of the independent joints [rad/s², m/s²].

    Returns
    -------
    ndarray, shape (..., nv, 10 bodies)
        Columns as in `Model.inertial_parameters`, π.

    Notes
    -----
    Gravity is that of the model; embedded loops and gears act. Forces of armature, damping and stiffness are
    not in Y: they are tau - Y π. The model's own masses and inertias do not matter. Constrained loops are
    open, as in `inverse_dynamics`: measured forces differ from Y π by those that the loops transmit.
    """
    _check_rigid(model, "inverse_dynamics_regressor")
    return linear.inverse_dynamics_regressor(tree(model, q, v), a)


@model_function(q="nq", v="nv")
def energy_regressor(model: Model, q: Any, v: Any) -> Any:
    """Return the row, (..., 10 bodies), whose product with π is the energy of all bodies [J].

    Kinetic plus potential energy.

    π as in `inverse_dynamics_regressor`. Energies of armatures and springs are not included.
    """
    _check_rigid(model, "energy_regressor")
    return linear.energy_regressor(tree(model, q, v))


def _check_rigid(model: Model, function: str) -> None:
    if model.is_flexible:
        raise ModelError(
            f"{function}: {printable(model.name)} has flexible bodies, whose modal integrals are not among "
            "the parameters π"
        )


KIND_OF_INERTIAL = (0, 1, 1, 1, 2, 2, 2, 2, 2, 2)  # of a body's ten inertial parameters: m, m c and inertia
TIE_TOL = 1e-6  # relative difference of lengths up to which the first column is chosen
NOISE_TOL = 1e-14  # length of a column, relative to the longest, up to which it is rounding error


class BaseParameters(NamedTuple):
    """Identifiable combinations of parameters: `combination` π, with Y = Y[..., columns] @ combination.

    `columns` (base,) are indices of parameters with independent columns of Y; `combination` is (base,
    parameters).
    """

    columns: np.ndarray
    combination: np.ndarray


def base_parameters(regressor: Any, *, tolerance: float = 1e-9) -> BaseParameters:
    """Return the base parameters of stacked regressors, by QR with column pivoting (Gautier 1991).

    `regressor` has shape (..., rows, parameters), such as regressors of many random states, (states, nv, 10
    bodies); other columns, such as friction, may be appended. A column is dependent if less than `tolerance`
    of its length is independent of the others, or its length is less than `tolerance` times the longest of
    its kind. Masses, first moments and second moments of all bodies are kinds, and so is every column after
    the last ten: columns of other units are not compared, so that the unit of length does not matter.
    """
    Y = as_numbers(regressor)
    if Y.ndim < 2:
        raise ShapeError(
            f"base_parameters: regressors: expected numbers of shape (..., rows, parameters), got {Y.shape}"
        )
    if not np.isfinite(Y).all():
        raise LinkworkError("base_parameters: regressors: expected finite numbers")
    fraction = as_numbers(tolerance)
    if fraction.shape or not 0.0 <= fraction < 1.0:
        raise LinkworkError(f"base_parameters: tolerance: expected a number from 0 to 1, got {tolerance!r}")
    R: Any = np.linalg.qr(
        Y.reshape(prod(Y.shape[:-1]), Y.shape[-1]), mode="r"
    )  # the same dependences in fewer rows
    length = np.linalg.norm(R, axis=0)
    is_observable = length > np.maximum(
        tolerance * _longest_of_kind(length), NOISE_TOL * length.max(initial=0.0)
    )
    R = np.where(is_observable, R, 0.0) / np.where(is_observable, length, 1.0)
    columns = _independent(R, tolerance)
    combination = np.linalg.lstsq(R[:, columns], R, rcond=None)[0]
    combination[np.abs(combination) < tolerance] = 0.0
    combination[:, columns] = np.eye(len(columns))
    return BaseParameters(columns, combination * length / length[columns, None])


def _longest_of_kind(length: np.ndarray) -> np.ndarray:
    """Return for each column the length of the longest whose parameter has the same unit, (parameters,)."""
    kinds = np.arange(len(length)) + len(KIND_OF_INERTIAL)
    inertial = len(length) - len(length) % len(KIND_OF_INERTIAL)
    kinds[:inertial] = np.resize(KIND_OF_INERTIAL, inertial)
    return np.array([length[kinds == kind].max() for kind in kinds])


def _independent(R: np.ndarray, tolerance: float) -> np.ndarray:
    """Return indices of independent columns among those of unit length, in order."""
    remainder = R.copy()
    columns = list[int]()
    for _ in range(min(R.shape)):
        lengths = np.linalg.norm(remainder, axis=0)
        best = int(np.argmax(lengths >= (1.0 - TIE_TOL) * lengths.max()))  # rounding errors must not decide
        if lengths[best] <= tolerance:
            break
        columns.append(best)
        q = remainder[:, best] / lengths[best]
        remainder = remainder - np.outer(q, q @ remainder)
        remainder[:, best] = 0.0
    return np.array(sorted(columns), dtype=int)
