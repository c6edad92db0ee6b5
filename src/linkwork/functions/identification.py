"""The public functions of identification: regressors of a model's inertial parameters, and base parameters."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms import regressor as linear
from linkwork.errors import LinkworkError, ModelError, ShapeError
from linkwork.functions.call_arguments import as_numbers
from linkwork.functions.model_function import model_function
from linkwork.model import Model
from linkwork.parts.names import shown
from linkwork.simplify.trees import tree


@model_function(q="nq", v="nv", a="nv")
def inverse_dynamics_regressor(model: Model, q: Any, v: Any, a: Any) -> Any:
    """Y with tau = Y π, (..., nv, 10 bodies), where π is laid out as `Model.inertial_parameters` (Atkeson et al. 1986).

    Gravity is that of the model; loops and gears that are embedded act. What `inverse_dynamics` takes for armature, damping
    and stiffness is not in Y: it is tau - Y π. The model's own masses and inertias do not matter.
    """
    _check_rigid(model, "inverse_dynamics_regressor")
    return linear.inverse_dynamics_regressor(tree(model, q, v), a)


@model_function(q="nq", v="nv")
def energy_regressor(model: Model, q: Any, v: Any) -> Any:
    """The row whose product with π is the kinetic and potential energy of all bodies, (..., 10 bodies) [J per unit of π].

    π as in `inverse_dynamics_regressor`. Without the energy of armatures and of springs.
    """
    _check_rigid(model, "energy_regressor")
    return linear.energy_regressor(tree(model, q, v))


def _check_rigid(model: Model, what: str) -> None:
    if model.is_flexible:
        raise ModelError(
            f"{what}: {shown(model.name)} has flexible bodies, whose modal integrals are not among the parameters π"
        )


class BaseParameters(NamedTuple):
    """What data can tell of parameters π: `combination` π, (base, parameters), with Y = Y[..., columns] @ combination.

    `columns`, (base,): places of parameters whose columns of Y are independent; all others are combinations of these.
    """

    columns: np.ndarray
    combination: np.ndarray


def base_parameters(regressor: Any, *, tolerance: float = 1e-9) -> BaseParameters:
    """The base parameters of stacked regressors (..., rows, parameters), by QR with column pivoting (Gautier 1991).

    Give regressors of many random states, (states, nv, 10 bodies); columns of one's own, of friction say, may stand beside. A
    column counts as dependent where less than `tolerance` of its length is left by others, or its length is less than
    `tolerance` times that of the longest.
    """
    Y = as_numbers(regressor)
    if Y.ndim < 2:
        raise ShapeError(f"base_parameters: regressors must be numbers of shape (..., rows, parameters), not {Y.shape}")
    if not np.isfinite(Y).all():
        raise LinkworkError("base_parameters: regressors must be finite")
    part = as_numbers(tolerance)
    if part.shape or not 0.0 <= part < 1.0:
        raise LinkworkError(f"base_parameters: tolerance must be a part of a length, between 0 and 1, not {tolerance!r}")
    R: Any = np.linalg.qr(Y.reshape(prod(Y.shape[:-1]), Y.shape[-1]), mode="r")  # the same dependences in fewer rows
    length = np.linalg.norm(R, axis=0)
    seen = length > tolerance * length.max(initial=0.0)
    R = np.where(seen, R, 0.0) / np.where(seen, length, 1.0)
    columns = _independent(R, tolerance)
    combination = np.linalg.lstsq(R[:, columns], R, rcond=None)[0]
    combination[np.abs(combination) < tolerance] = 0.0
    combination[:, columns] = np.eye(len(columns))
    return BaseParameters(columns, combination * length / length[columns, None])


def _independent(R: np.ndarray, tolerance: float) -> np.ndarray:
    """The places of independent columns among those of unit length, in order."""
    left, found = R.copy(), list[int]()
    for _ in range(min(R.shape)):
        sizes = np.linalg.norm(left, axis=0)
        best = int(np.argmax(sizes))
        if sizes[best] <= tolerance:
            break
        found.append(best)
        q = left[:, best] / sizes[best]
        left = left - np.outer(q, q @ left)
        left[:, best] = 0.0
    return np.array(sorted(found), dtype=int)
