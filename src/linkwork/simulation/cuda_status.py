"""The status of rows of a rollout on a GPU, from their initial and final states there."""

from __future__ import annotations

import numpy as np

from linkwork.compiler.runtime.cuda.memory import Memory
from linkwork.functions.contact import COEFFICIENTS
from linkwork.model import Model
from linkwork.simulation.closedness import immobile_rows, open_rows
from linkwork.simulation.control import Control
from linkwork.simulation.failure import CONTINUING_STATUSES, merge_status, stopped_status
from linkwork.simulation.rollout_problem import Schedule
from linkwork.simulation.status import Status, has_status
from linkwork.simulation.traced import CARRIED

FETCHED_SINGLY = 32  # rows; of more, the whole array is copied at once
Rows = tuple[int, int]  # address, and distance of rows in numbers: 0 for one row for all


class FinalStates:
    """Rows of the arrays of a rollout, fetched from the GPU where the status of rows needs them."""

    def __init__(
        self, memory: Memory, model: Model, places: dict[str, Rows], row_shapes: dict[str, tuple[int, ...]],
        inputs: tuple[int, tuple[str, ...], Control], is_per_step: bool,
    ) -> None:  # fmt: skip
        self.memory = memory
        self.kernel = memory.kernel
        self.model = model
        self.places = places
        self.row_shapes = row_shapes
        self.is_per_step = is_per_step
        self.rows, self.names, self.control = inputs
        self.itemsize = np.dtype(memory.kernel.dtype).itemsize

    def unclosed(self) -> np.ndarray:
        """Return rows whose loops are open at the start, (rows,) of bool."""
        if not self.model.loops:
            return np.zeros(self.rows, dtype=bool)
        q = self._fetch("q", None).astype(float)
        parameters = self._parameters(None)
        is_open = open_rows(self.model, q, parameters, dtype=str(np.dtype(self.kernel.dtype)))
        return is_open | immobile_rows(self.model, q, parameters)

    def status(
        self, before: np.ndarray, unclosed: np.ndarray, step_counts: int, carried: int | None, width: int,
        schedule: Schedule,
    ) -> np.ndarray:  # fmt: skip
        """Return the status of all rows, (rows,).

        `before` is that of an earlier rollout, (rows,); `step_counts` and `carried` are addresses of the
        numbers of steps and of carried numbers, `width` for each row.
        """
        taken = self._fetch_rows((step_counts, 1), (), None)
        is_continued = has_status(before, CONTINUING_STATUSES)
        status = np.zeros(self.rows, dtype=int)  # Status.OK
        ends = None
        if carried is not None:
            ends = self._fetch_rows((carried, width), (width,), None)
            status[ends[:, -1] > 0.0] = int(Status.CONTACT_NOT_CONVERGED)
        stopped = np.flatnonzero(((taken != schedule.steps) | unclosed) & is_continued)
        if len(stopped):
            solved = np.zeros(len(stopped), dtype=bool)
            if ends is not None:
                solved = np.isfinite(ends[stopped]).all(axis=1)
            start = self._fetch("q", stopped), self._fetch("v", stopped)
            last = self._states_after(start, stopped, taken[stopped].astype(int), width, schedule.dt)
            start, last = ((x[0].astype(float), x[1].astype(float)) for x in (start, last))
            status[stopped] = stopped_status(
                self.model,
                start,
                last,
                unclosed[stopped],
                solved,
                schedule.dt,
                schedule.integrator,
                self._parameters(stopped),
            )
        return merge_status(before, status)

    def _fetch(self, name: str, rows: np.ndarray | None) -> np.ndarray:
        return self._fetch_rows(self.places[name], self.row_shapes[name], rows)

    def _fetch_rows(self, place: Rows, row_shape: tuple[int, ...], rows: np.ndarray | None) -> np.ndarray:
        """Return selected rows (default: all) of an array on the GPU, (selected, *row_shape)."""
        address, stride = place
        count = self.rows if rows is None else len(rows)
        result = np.empty((count, *row_shape), self.kernel.dtype)
        if not result.size:
            return result
        if stride == 0:
            self.memory.fetch(result[:1], address)
            result[:] = result[0]
        elif rows is None or count > FETCHED_SINGLY:
            every = result if rows is None else np.empty((self.rows, *row_shape), self.kernel.dtype)
            self.memory.fetch_rows(every, address, stride)
            return every if rows is None else every[rows]
        else:
            for k, row in enumerate(rows.tolist()):
                self.memory.fetch(result[k : k + 1], address + row * stride * self.itemsize)
        return result

    def _parameters(self, rows: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the parameters of the model in selected rows."""
        names = [name for name in self.names if name not in COEFFICIENTS]
        return {name: self._fetch(name, rows).astype(float) for name in names}

    def _states_after(
        self, start: tuple[np.ndarray, np.ndarray], rows: np.ndarray, taken: np.ndarray, width: int, dt: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the states of rows after the steps that they took, by taking the same steps again."""
        q = start[0].copy()
        v = start[1].copy()
        subset = np.flatnonzero(taken > 0)
        if not len(subset):
            return q, v
        inputs = {name: self._fetch(name, rows[subset]) for name in (*self.control.inputs, *self.names)}
        state = [q[subset], v[subset], np.zeros(len(subset), self.kernel.dtype)]
        if width:
            carried = np.zeros((len(subset), width), self.kernel.dtype)
            if "warm_start" in self.places:
                carried[:, : width - len(CARRIED)] = self._fetch("warm_start", rows[subset])
            state.append(carried)
        ends = [state[0].copy(), state[1].copy()]
        count = taken[subset]
        for previous in range(int(count.max()) if self.is_per_step else 1):
            remaining = np.flatnonzero(count > previous)
            step_arguments = np.column_stack([np.full(len(remaining), x) for x in (dt, 1.0, 0.0, previous)])
            if not self.is_per_step:
                step_arguments[:, 1] = count
            values = [
                x[remaining, previous] if name == "tau" and self.is_per_step else x[remaining]
                for name, x in inputs.items()
            ]
            result = self.kernel(
                *(x[remaining] for x in state), step_arguments.astype(self.kernel.dtype), *values
            )
            for x, new in zip(state, result, strict=True):
                x[remaining] = new
            ends[0][remaining] = result[0]
            ends[1][remaining] = result[1]
        q[subset], v[subset] = ends
        return q, v
