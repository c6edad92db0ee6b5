"""Inertial parameters of all bodies as one vector, in which the dynamics are linear."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.mechanism.names import printable
from linkwork.model.data import ModelData
from linkwork.spatial import Inertia
from linkwork.spatial.constants import reals

MOMENT_INDICES = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))  # xx xy yy xz yz zz


def read(model: ModelData) -> np.ndarray:
    """Return m, m c, (3,), and the moment about the frame origin, (6,), of each body, (10 · bodies,)."""
    rows = [
        [body.mass, *body.inertia.h, *(body.inertia.A[i, j] for i, j in MOMENT_INDICES)]
        for body in model.bodies
    ]
    return np.array(rows, dtype=float).reshape(-1)


def as_parameters(model: ModelData, values: Any) -> dict[str, np.ndarray]:
    """Return the vector as mass, centre and central moment of inertia, for `with_parameters`."""
    try:
        numbers = reals(values)
    except (TypeError, ValueError):
        raise ModelError(f"inertial parameters: expected real numbers, got {values!r}") from None
    if numbers.shape != (10 * len(model.bodies),):
        raise ShapeError(
            f"inertial parameters: expected shape ({10 * len(model.bodies)},), got {numbers.shape}"
        )
    mass = []
    center = []
    inertia = []
    for body, (m, *others) in zip(model.bodies, numbers.reshape(-1, 10)):
        h = np.array(others[:3])
        moment = np.empty((3, 3))
        for (i, j), x in zip(MOMENT_INDICES, others[3:]):
            moment[i, j] = moment[j, i] = x
        if not np.isfinite([m, *others]).all():
            raise ModelError(
                f"body {printable(body.name)!r}: inertial parameters: expected finite numbers, got "
                f"{[float(x) for x in (m, *others)]}"
            )
        if m <= 0.0 and (m < 0.0 or h.any()):
            raise ModelError(
                f"body {printable(body.name)!r}: expected a positive mass, or zero with zero first moments; "
                f"got {m:g} kg and {h.tolist()} kg m"
            )
        c = h / m if m else h
        central_moment = Inertia.rigid(-m, c, moment).A  # a negative mass: from the origin to the centre
        mass.append(m)
        center.append(c)
        inertia.append([central_moment[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))])
    shape = len(model.bodies)
    arrays = {"mass": np.array(mass), "center": np.array(center), "inertia": np.array(inertia)}
    return {name: x.reshape((shape, *x.shape[1:])) for name, x in arrays.items()}
