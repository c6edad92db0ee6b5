"""Steps of rollouts in charts: repeated in better charts, divided, and refined near singular states."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from linkwork.simulation.chart_states import ChartStates
from linkwork.simulation.charts import ChartQuality
from linkwork.simulation.closedness import open_rows
from linkwork.simulation.joint_laws import remains_on_branch
from linkwork.simulation.monitor import (
    CLOSURE_TOL,
    MAX_LOOP_MOTION,
    MIN_SINGULAR_VALUE,
    REFINEMENT_DISTANCE_FACTOR,
    may_pass,
)
from linkwork.simulation.rank_between_states import rank_between_states
from linkwork.simulation.status import Status

CLOSED_AT_START = 1e-6
# parts of a step near a singular state: odd, since the middle of a step with symmetric ends is singular
PARTS = (3, 5, 7, 9, 13, 17, 33)
# change of velocities, relative to them, by finer steps: singular states between such steps are passed
SMOOTH_TOL = 2e-5
DIVISIONS = (2, 4, 8, 16, 32, 64)  # parts of a step that is too coarse to be taken at once
# motion of loops in a part of a step, unit-free: where such a part opens loops, they cannot stay closed
FINE_STEP = 0.05
MAX_CORRECTION_RATIO = 2.0  # of a step by closing loops, relative to the step; more is another branch

StepResult = tuple[np.ndarray, np.ndarray, np.ndarray]  # q, w, and how far closing loops moved q
Step = Callable[["Stepping", int, int], StepResult]
"""A step of some rows: takes the rows, the number of a part of the step, and the number of equal parts."""


class Stepping(ChartStates):
    """States in charts, and the steps that they take."""

    def on_same_branch(self, arrived: StepResult) -> np.ndarray:
        """Return active rows whose laws in joints are on the branches where they were, (rows,)."""
        y = self.chart_velocity(arrived[1])
        fine = self.called(partial(remains_on_branch, laws=self.laws), self.q, self.y, arrived[0], y)
        same: np.ndarray = fine > 0.5
        return same

    def take(self, step: Step, dt: float, agree: float) -> None:
        """Step all active rows; rows in which the step fails repeat it in their best chart, or in parts.

        Near to a singular state it is refined: velocities must agree to a part `agree` of their size with
        those of parts of it.
        """
        if not self.active.any():
            return
        arrived = step(self, 0, 1)
        K, gap = self._equations(arrived[0])
        failed = self._failed(arrived, gap, dt)
        if failed.any() and self.model.loops:
            again = self._in_best_charts(failed) if self.charts.moving else np.zeros_like(failed)
            arrived, failed = self._repeat_step(step, arrived, again, failed, dt)
            if failed.any():
                arrived, failed = self._divide_step(step, arrived, failed, dt)
            K, _ = self._equations(arrived[0])
        measured = self._measured(K)
        near, drops = self._passages(arrived[0], measured.far, ~failed)
        if near.any():
            arrived, lost = self._refine_step(step, arrived, near, dt, agree)
            self._stop(lost & drops, Status.DEAD_POINT)
            K, _ = self._equations(arrived[0])
            measured = self._measured(K)
        self._arrive(arrived, failed, K, measured)

    def _repeat_step(
        self, step: Step, arrived: StepResult, again: np.ndarray, failed: np.ndarray, dt: float
    ) -> tuple[StepResult, np.ndarray]:
        """Return the results of rows of which some repeat their step, and the rows that failed, (rows,)."""
        if not again.any():
            return arrived, failed
        everyone = self.active
        self.choose(again)
        anew = step(self, 0, 1)
        bad = self._failed(anew, self._equations(anew[0])[1], dt)
        self.choose(everyone)
        return _merged(arrived, anew, again & ~bad), failed & ~(again & ~bad)

    def _divide_step(
        self, step: Step, arrived: StepResult, failed: np.ndarray, dt: float
    ) -> tuple[StepResult, np.ndarray]:
        """Return the results of rows whose step was too coarse, in the fewest parts that succeed."""
        remaining = failed
        self.divided = self.divided | failed
        self.opened = np.zeros(len(failed), dtype=bool)
        for count in DIVISIONS:
            fine = self._in_parts(step, remaining, count, dt)
            there = remaining & np.isfinite(fine[1]).all(axis=1)
            arrived = _merged(arrived, fine, there)
            remaining = remaining & ~there
            if not remaining.any():
                break
        return arrived, remaining

    def _passages(self, q: np.ndarray, far: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows whose step to states q passes near to a singular state, and those in which the rank
        drops, (rows,) each.

        1 / σ_min is `far` at q.
        """
        near = np.zeros(len(q), dtype=bool)
        drops = np.zeros(len(q), dtype=bool)
        if not self._monitored:
            return near, drops
        moved = self._motion(q)
        with np.errstate(invalid="ignore"):
            doubtful = rows & self.active & may_pass(moved, np.fmax(self.far, far))
        for k in np.flatnonzero(doubtful):
            row_parameters = {name: x[k] for name, x in self._parameters.items()}
            chart = self.charts.chart(self.choices[k])
            result = rank_between_states(self.charts, chart, self.q[k], q[k], float(moved[k]), row_parameters)
            drops[k] = result.drops
            near[k] = result.drops or result.conditioning < min(
                MIN_SINGULAR_VALUE, REFINEMENT_DISTANCE_FACTOR * moved[k]
            )
        return near, drops

    def _refine_step(
        self, step: Step, arrived: StepResult, rows: np.ndarray, dt: float, agree: float
    ) -> tuple[StepResult, np.ndarray]:
        """Return the results of some rows in as many parts of a step as agree with fewer, or agree best.

        Also return the rows in which none agree, (rows,). Truncation errors grow without bound towards a
        singular state, and rounding errors in parts that end close to it: finer steps across it agree only
        where the motion is smooth there.
        """
        result = arrived
        coarse = arrived
        remaining = rows
        least = np.full(len(rows), np.inf)
        for count in PARTS:
            fine = self._in_parts(step, remaining, count, dt)
            before, after = (x[1][:, self._looped] for x in (coarse, fine))
            size = np.maximum(np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1))
            with np.errstate(divide="ignore", invalid="ignore"):
                change = np.where(size > 0.0, np.linalg.norm(after - before, axis=1) / size, 0.0)
            agreed = remaining & (change <= agree)
            better = remaining & (change < least)
            least = np.where(better, change, least)
            if coarse is arrived:  # a whole step that agrees with its parts is taken as it is
                better = better & ~agreed
            result = _merged(result, fine, better)
            coarse = fine
            remaining = remaining & ~agreed
            if not remaining.any():
                break
        return result, remaining & ~(least <= SMOOTH_TOL)

    def _in_parts(self, step: Step, rows: np.ndarray, count: int, dt: float) -> StepResult:
        """Return the results of some rows in equal parts of a step, in their charts; w is NaN on failure."""
        start = (self.q, self.w)
        everyone = self.active
        far = np.zeros(len(self.q))
        self.choose(rows)
        for k in range(count):
            q, w, moved = step(self, k, count)
            gap = self._equations(q)[1]
            failed = self._failed((q, w, moved), gap, dt / count)
            self.opened = self.opened | (failed & self._opens(q, w, gap))
            self.choose(self.active & ~failed)
            if not self.active.any():
                break
            going = self.active[:, None]
            self.q = np.where(going, q, self.q)
            self.w = np.where(going, w, self.w)
            far = np.where(self.active, np.maximum(far, moved), far)
        result = self.q, np.where(self.active[:, None], self.w, np.nan), far
        self.q = start[0]
        self.w = start[1]
        self.choose(everyone)
        return result

    def _arrive(
        self, arrived: StepResult, failed: np.ndarray, K: list[np.ndarray], measured: ChartQuality
    ) -> None:
        """Take over states that steps led to; rows that failed stop where they are."""
        q, w, _ = arrived
        if failed.any():
            self._stop(failed & (self.ratio * MIN_SINGULAR_VALUE > 1.0), Status.DEAD_POINT)
            self._stop(failed & ~(np.isfinite(q).all(axis=1) & np.isfinite(w).all(axis=1)), Status.NOT_FINITE)
            self._stop(failed & self.opened, Status.NOT_CLOSED)
            self._stop(failed, Status.STEP_TOO_COARSE)
        going = self.active[:, None]
        self.q = np.where(going, q, self.q)
        self.w = np.where(going, w, self.w)
        self.steps += self.active
        self._update_charts(K, measured)

    def _opens(self, q: np.ndarray, w: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """Active rows whose loops are open after a small part of a step, (rows,)."""
        fine = np.isfinite(q).all(axis=1) & np.isfinite(w).all(axis=1)
        with np.errstate(invalid="ignore"):
            small: np.ndarray = self.active & fine & (self._motion(q) <= FINE_STEP)
        if small.any():
            there = np.where(_column(small, q), q, np.nan)
            small = small & (~(gap <= CLOSURE_TOL) | open_rows(self.model, there, self._parameters))
        return small

    def _failed(self, arrived: StepResult, gap: np.ndarray, dt: float) -> np.ndarray:
        """Return active rows whose step did not arrive at a closed state on the same branch, (rows,)."""
        q, w, moved = arrived
        fine = np.isfinite(q).all(axis=1) & np.isfinite(w).all(axis=1) & (gap <= CLOSURE_TOL)
        if self.model.loops:
            fine &= ~open_rows(self.model, np.where(_column(self.active, q), q, np.nan), self._parameters)
        step = np.maximum(_largest(q - self.q), dt * _largest(self.w))
        fine &= self._motion(q) <= MAX_LOOP_MOTION
        failed: np.ndarray = self.active & ~(fine & (moved <= MAX_CORRECTION_RATIO * step + CLOSED_AT_START))
        return failed

    def _motion(self, q: np.ndarray) -> np.ndarray:
        """Return the largest unit-free change of a loop coordinate on the way to states q, (rows,)."""
        result: np.ndarray = (np.abs(q - self.q) * self._scales).max(axis=1, initial=0.0)
        return result


def _largest(x: np.ndarray) -> np.ndarray:
    """Return the largest magnitude of an entry of each row, (rows,)."""
    result: np.ndarray = np.abs(x).max(axis=1, initial=0.0)
    return result


def _merged(these: StepResult, others: StepResult, rows: np.ndarray) -> StepResult:
    """Return the results `others` in some rows, and `these` elsewhere."""
    q, w, far = (np.where(_column(rows, x), y, x) for x, y in zip(these, others))
    return q, w, far


def _column(mask: np.ndarray, like: np.ndarray) -> np.ndarray:
    return mask.reshape(-1, *(1,) * (like.ndim - 1))
