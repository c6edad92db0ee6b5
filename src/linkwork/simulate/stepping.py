"""The states of a rollout, each in a chart of its own, and the steps that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.algorithms.closing import places_of
from linkwork.functions.conditioning import loop_equations
from linkwork.functions.states import spanning_velocity
from linkwork.model import Model
from linkwork.simulate.charts import SINGULAR, Charts, Choice
from linkwork.simulate.status import Status

GOING = int(Status.OK)
CLOSED = 1e-9  # gap of loops after a step, relative to their length
CLOSED_AT_START = 1e-6
LOST = 1e8  # an entry of unit-free G that leaves velocities few digits
NEAR = 10.0  # steps: so near to a singular state another branch may be taken
WITHIN = 3.0  # steps: so near, one may lie within the step
CHANGED = 0.05  # change of velocities in one step that such a state may be the cause of, relative to their size
TURNED = 0.5  # change that shows another branch
PARTS = (3, 5, 9, 17, 33)  # of a step near to a singular state; odd, since its middle is such a state where the ends are alike
CORRECTION = 2.0  # of a step by closing loops, relative to the step: more is another branch

Arrived = tuple[np.ndarray, np.ndarray, np.ndarray]  # q, w, and how far closing loops moved q
Step = Callable[["Stepping", int, int], Arrived]  # rows, and which of how many equal parts of a step they take


class Stepping:
    """Rows of states: q, (rows, nq), and the velocities w of all joints of the tree, (rows, nv_spanning), in charts.

    Rows in equal charts are computed together. A row that stops keeps its state, its `status` and the `steps` that it took.
    """

    def __init__(
        self,
        model: Model,
        q: np.ndarray,
        v: np.ndarray,
        parameters: dict[str, np.ndarray],
        largest: float,
        went_on: tuple[np.ndarray, list[Choice]] | None = None,
    ) -> None:
        """`went_on`: the velocities w and the charts in which earlier steps arrived here."""
        rows = len(q)
        self._largest = largest  # entry of unit-free G in a chart that is kept
        self.model, self.charts, self._parameters = model, Charts(model), parameters
        self.q, self.active = q.copy(), np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
        self.status, self.steps = np.full(rows, int(Status.OK)), np.zeros(rows, dtype=int)
        self.before = 0  # steps that were over when these began: they say the time
        self.far = np.zeros(rows)  # about 1 / σ of the mechanism
        self.choices: list[Choice] = [self.charts.own] * rows if went_on is None else list(went_on[1])
        self._groups: list[tuple[Choice, np.ndarray]] | None = None
        self._own = self.charts.places(self.charts.own)
        self._looped = looped(self.charts)
        if went_on is not None:
            self.w = went_on[0].copy()
        else:
            self.w = self.called(spanning_velocity, self.q, v) if model.embedded else v.copy()
        self._stop(~self.active, Status.NOT_FINITE)
        K, gap = self._equations(self.q)
        self._stop(~(gap <= CLOSED_AT_START), Status.NOT_CLOSED)
        large = self._kept_good(K)
        self._stop(large > LOST, Status.SINGULAR_COORDINATES)
        self._stop(~np.isfinite(self.w).all(axis=1), Status.NOT_FINITE)

    @property
    def v(self) -> np.ndarray:
        """The velocities of the model's own independent joints, (rows, nv)."""
        return self.w[:, self._own]

    @property
    def y(self) -> np.ndarray:
        """The independent velocities of each row's chart, (rows, nv)."""
        return self.chart_velocity(self.w)

    def chart_velocity(self, w: np.ndarray) -> np.ndarray:
        """The same of velocities of all joints of the tree, (rows, nv_spanning)."""
        found = np.empty((len(self.q), len(self._own)))
        for choice, rows in self.groups():
            found[rows] = w[rows][:, self.charts.places(choice)]
        return found

    def own_velocity(self, q: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The velocities of the model's own independent joints, (rows, nv), of those of each row's chart in states q."""
        if all(choice == self.charts.own for choice, _ in self.groups()):
            return y
        w = self.called(spanning_velocity, q, y)
        moving: np.ndarray = np.where(self.active[:, None], w[:, self._own], self.v)
        return moving

    @property
    def in_other_charts(self) -> np.ndarray:
        """Which rows have other independent velocities than the model, (rows,)."""
        if len(groups := self.groups()) == 1 and len(groups[0][1]) == len(self.q):
            return np.full(len(self.q), groups[0][0] != self.charts.own)
        return np.array([choice != self.charts.own for choice in self.choices])

    def groups(self) -> list[tuple[Choice, np.ndarray]]:
        """The charts of the active rows, and the rows in each."""
        if self._groups is None:
            found: dict[Choice, list[int]] = {}
            for k in np.flatnonzero(self.active):
                found.setdefault(self.choices[k], []).append(int(k))
            self._groups = [(choice, np.array(rows)) for choice, rows in found.items()]
        return self._groups

    def called(self, function: Any, *arrays: np.ndarray) -> Any:
        """What a function of a model gives for the active rows of arrays, each in its chart; NaN for other rows."""
        groups, total = self.groups(), len(self.q)
        if len(groups) == 1 and len(groups[0][1]) == total:
            return self._in_chart(function, groups[0][0], slice(None), arrays)
        found: list[np.ndarray] = []
        several = False
        for choice, rows in groups or [(self.charts.own, np.zeros(0, dtype=int))]:
            answer = self._in_chart(function, choice, rows, arrays)
            several = isinstance(answer, tuple)
            for n, x in enumerate(answer if several else (answer,)):
                if n == len(found):
                    found.append(np.full((total, *x.shape[1:]), np.nan))
                found[n][rows] = x
        return tuple(found) if several else found[0]

    def _in_chart(self, function: Any, choice: Choice, rows: Any, arrays: tuple[np.ndarray, ...]) -> Any:
        return self._called(function, self.charts.chart(choice), rows, arrays)

    def _called(self, function: Any, model: Model, rows: Any, arrays: tuple[np.ndarray, ...]) -> Any:
        if not self._parameters:
            return function(model, *(x[rows] for x in arrays))
        return function(model, *(x[rows] for x in arrays), parameters={n: x[rows] for n, x in self._parameters.items()})

    def spanning_force(self, tau: np.ndarray) -> np.ndarray:
        """Forces at the model's own independent joints as forces in all joints of the tree, (rows, nv_spanning)."""
        found = np.zeros((len(tau), self.model.nv_spanning))
        found[:, self._own] = tau
        return found

    def choose(self, rows: np.ndarray) -> None:
        """Have these rows be the active ones, (rows,) of truth values."""
        self.active, self._groups = rows, None

    def take(self, step: Step, dt: float, agree: float) -> None:
        """One step of all active rows; those that it fails in take it again in the best chart where they are.

        Near to a singular state it is compared with several parts of it: velocities must agree to a part `agree` of their size.
        """
        if not self.active.any():
            return
        arrived = step(self, 0, 1)
        K, gap = self._equations(arrived[0])
        failed = self._failed(arrived, gap, dt)
        again = self._in_best_charts(failed) if failed.any() and self.charts.moving else failed
        if again.any() and self.charts.moving:
            everyone, self.active, self._groups = self.active, again, None
            anew = step(self, 0, 1)
            self.active, self._groups = everyone, None
            arrived = tuple(np.where(_column(again, x), y, x) for x, y in zip(arrived, anew))  # type: ignore[assignment]
            K, gap = self._equations(arrived[0])
            failed = self._failed(arrived, gap, dt)
        watched = self._watched(arrived[1], K, dt) & ~failed
        if watched.any():
            arrived, lost = self._in_finer_steps(step, arrived, watched, dt, agree)
            self._stop(lost, Status.DEAD_POINT)
            K, _ = self._equations(arrived[0])
        self._arrive(arrived, failed, K, dt)

    def _watched(self, w: np.ndarray, K: list[np.ndarray], dt: float) -> np.ndarray:
        """Active rows whose step to velocities w and equations K may have passed a singular state of the mechanism, (rows,)."""
        watched = np.zeros(len(w), dtype=bool)
        if not self.charts.moving:
            return watched
        far = np.zeros(len(w))
        for choice, rows in self.groups():
            _, far[rows] = self.charts.measured([k[rows] for k in K], choice)
        before, after = self.w[:, self._looped], w[:, self._looped]  # how fast a base falls brings no loop to such a state
        with np.errstate(invalid="ignore"):
            near = np.maximum(self.far * dt * _largest(before), far * dt * _largest(after))
            size = np.maximum(np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1))
            changed = np.linalg.norm(after - before, axis=1) > CHANGED * size
        watched |= self.active & ((near * WITHIN > 1.0) | ((near * NEAR > 1.0) & changed))
        return watched

    def _in_finer_steps(
        self, step: Step, arrived: Arrived, rows: np.ndarray, dt: float, agree: float
    ) -> tuple[Arrived, np.ndarray]:
        """Where some rows arrive in as many parts of their step as agree with fewer; and those where none do, (rows,).

        Truncation errors grow without bound towards a singular state, and finer steps across it agree only where the motion
        is smooth there for the integrator too.
        """
        found, coarse, left = arrived, arrived, rows
        for count in PARTS:
            fine = self._in_parts(step, left, count, dt)
            before, after = (x[1][:, self._looped] for x in (coarse, fine))
            size = np.maximum(np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1))
            agreed = left & (np.linalg.norm(after - before, axis=1) <= agree * size)
            if coarse is not arrived:  # a whole step that agrees with its parts is taken as it is
                found = tuple(np.where(_column(agreed, x), y, x) for x, y in zip(found, fine))  # type: ignore[assignment]
            coarse, left = fine, left & ~agreed
            if not left.any():
                break
        return found, left

    def _in_parts(self, step: Step, rows: np.ndarray, count: int, dt: float) -> Arrived:
        """Where some rows arrive in so many equal parts of a step, in the charts where they are; w is NaN where one fails."""
        start, everyone, far = (self.q, self.w), self.active, np.zeros(len(self.q))
        self.choose(rows)
        for k in range(count):
            q, w, moved = step(self, k, count)
            failed = self._failed((q, w, moved), self._equations(q)[1], dt / count)
            self.choose(self.active & ~failed)
            if not self.active.any():
                break
            going = self.active[:, None]
            self.q, self.w = np.where(going, q, self.q), np.where(going, w, self.w)
            far = np.where(self.active, np.maximum(far, moved), far)
        found = self.q, np.where(self.active[:, None], self.w, np.nan), far
        self.q, self.w = start
        self.choose(everyone)
        return found

    def _arrive(self, arrived: Arrived, failed: np.ndarray, K: list[np.ndarray], dt: float) -> None:
        """Take over states that steps led to; rows that failed stop where they are."""
        q, w, _ = arrived
        near = self._near_singular(dt)
        if failed.any():
            self._stop(failed & near, Status.DEAD_POINT)
            self._stop(failed & ~(np.isfinite(q).all(axis=1) & np.isfinite(w).all(axis=1)), Status.NOT_FINITE)
            self._stop(failed, Status.NOT_CLOSED)
        before, going = self.w, self.active
        self.q, self.w = np.where(going[:, None], q, self.q), np.where(going[:, None], w, self.w)
        self.steps += going
        if self.charts.moving:
            self._kept_good(K)
            near = near | self._near_singular(dt)
            if near.any():
                before, after = (x[:, self._looped] for x in (before, self.w))
                size = np.maximum(np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1))
                other = near & self.active & (np.linalg.norm(after - before, axis=1) > TURNED * size)
                self.steps -= other
                self._stop(other, Status.DEAD_POINT)

    def _near_singular(self, dt: float) -> np.ndarray:
        """Rows that are a few steps away from a singular state of the mechanism, (rows,)."""
        near: np.ndarray = self.far * (NEAR * dt * _largest(self.w[:, self._looped])) > 1.0
        return near

    def _failed(self, arrived: Arrived, gap: np.ndarray, dt: float) -> np.ndarray:
        """Active rows whose step did not arrive at a closed state on the same branch, (rows,)."""
        q, w, moved = arrived
        fine = np.isfinite(q).all(axis=1) & np.isfinite(w).all(axis=1) & (gap <= CLOSED)
        step = np.maximum(_largest(q - self.q), dt * _largest(self.w))
        failed: np.ndarray = self.active & ~(fine & (moved <= CORRECTION * step + CLOSED_AT_START))
        return failed

    def _stop(self, rows: np.ndarray, status: Status) -> None:
        """Stop those of some rows that have not stopped."""
        if rows.any() and (stopping := rows & (self.status == GOING)).any():
            self.status[stopping] = int(status)
            self.active, self._groups = self.active & ~stopping, None

    def _equations(self, q: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Unit-free K of all clusters with loops at q, (rows, count, size) each, and the gap of loops, (rows,).

        NaN, and a gap of zero, for rows that have stopped; nothing where no loop can turn singular.
        """
        found, gap = np.full((len(q), self.charts.numbers), np.nan), np.zeros(len(q))
        rows = np.flatnonzero(self.active)
        if len(rows) and self.charts.moving:
            found[rows], gap[rows] = self._called(loop_equations, self.charts.whole, rows, (q,))
        return self.charts.equations(found), gap

    def _kept_good(self, K: list[np.ndarray]) -> np.ndarray:
        """Change charts that have turned bad, by K at q; rows where all are bad stop. The largest entry of G, before that."""
        before = np.zeros(len(self.q))
        if not self.charts.moving or not self.active.any():
            return before
        for choice, rows in self.groups():
            before[rows], self.far[rows] = self.charts.measured([k[rows] for k in K], choice)
        for k in np.flatnonzero(~(before <= self._largest) & self.active):
            here = [x[k : k + 1] for x in K]
            self.choices[k] = self.charts.best([x[0] for x in here])
            self._groups = None
            large, far = self.charts.measured(here, self.choices[k])
            self.far[k] = far[0] if large[0] <= self._largest else np.inf
        self._stop(self.far * SINGULAR > 1.0, Status.DEAD_POINT)
        return before

    def _in_best_charts(self, rows: np.ndarray) -> np.ndarray:
        """Put some rows into the best charts where they are; those that were in other ones, (rows,)."""
        K, changed = self._equations(self.q)[0], np.zeros(len(self.q), dtype=bool)
        for k in np.flatnonzero(rows):
            best = self.charts.best([x[k] for x in K], anew=True)
            changed[k], self.choices[k], self._groups = best != self.choices[k], best, None
        return changed


def looped(charts: Charts) -> np.ndarray:
    """The places of velocities of joints in loops that can turn singular, among those of all joints of the tree."""
    clusters = [charts.clusters[n] for n in charts.moving]
    return np.concatenate([*(places_of(charts.whole, cluster) for cluster in clusters), []]).astype(int)


def _largest(x: np.ndarray) -> np.ndarray:
    """The largest size of an entry of each row, (rows,)."""
    found: np.ndarray = np.abs(x).max(axis=1, initial=0.0)
    return found


def _column(mask: np.ndarray, like: np.ndarray) -> np.ndarray:
    return mask.reshape(-1, *(1,) * (like.ndim - 1))
