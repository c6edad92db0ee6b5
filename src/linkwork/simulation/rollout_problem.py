"""A rollout whose arguments have been checked and broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.model import Model
from linkwork.simulation.adaptive import Adaptive
from linkwork.simulation.control import Control


@dataclass(frozen=True)
class Schedule:
    """Steps of a rollout: `steps` steps of `dt` [s], recorded after every `record_every`."""

    dt: float
    steps: int
    record_every: int
    integrator: str | Adaptive


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
