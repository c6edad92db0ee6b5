"""A rollout whose arguments have been checked, and one whose arrays have been broadcast too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.contact import Contacts
from linkwork.model import Model
from linkwork.simulation.adaptive import Adaptive
from linkwork.simulation.control import Control
from linkwork.simulation.traced import Laws


@dataclass(frozen=True)
class Schedule:
    """Steps of a rollout: `steps` steps of `dt` [s], recorded after every `record_every`."""

    dt: float
    steps: int
    record_every: int
    integrator: str | Adaptive


@dataclass(frozen=True)
class RolloutCall:
    """Checked arguments of a rollout.

    `control` is evaluated inside a kernel; it is None if `tau` is a Python function. `parameters` are those
    of the model, `coefficients` those of contacts.
    """

    model: Model
    q: Any
    v: Any
    tau: Any
    control: Control | None
    control_arrays: dict[str, tuple[Any, tuple[int, ...]]]  # each with the shape of one row
    is_feedback: bool  # forces depend on the state, by PD control or a policy
    parameters: dict[str, Any]
    coefficients: dict[str, Any]
    laws: Laws | None
    warm_start: Any
    status: Any
    schedule: Schedule
    dtype: str

    @property
    def contacts(self) -> Contacts | None:
        """Contacts of the rollout, or None."""
        return self.laws if isinstance(self.laws, Contacts) else None


@dataclass(frozen=True)
class RolloutProblem:
    """A rollout on the CPU: a batch of initial states, its inputs as rows, and the steps to take.

    `tau` are the forces of the call, `earlier` the status of rows that are continued, (rows,).
    """

    model: Model
    control: Control | None
    batch: tuple[int, ...]
    start: tuple[np.ndarray, np.ndarray]  # q, (rows, nq), and v, (rows, nv)
    rows: dict[str, np.ndarray]
    tau: Any
    earlier: np.ndarray
    schedule: Schedule
