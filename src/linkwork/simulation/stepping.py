"""The states of a rollout, each in a chart of its own, and the steps that they take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.loops.closing import places_of
from linkwork.algorithms.loops.conditioning import constrained_families
from linkwork.contact import JointLaws
from linkwork.functions.conditioning import constrained_equations, loop_equations
from linkwork.functions.states import spanning_velocity
from linkwork.model import Model
from linkwork.simulation.charts import SINGULAR, ChartKey, ChartQuality, Charts
from linkwork.simulation.closedness import open_rows
from linkwork.simulation.joint_laws import friction_at, remains_on_branch, velocity_with_laws
from linkwork.simulation.monitor import CLOSED, NEAR, POOR, WIDE, coordinate_scales, families, may_pass
from linkwork.simulation.passage import singular_values
from linkwork.simulation.status import Status
from linkwork.simulation.way import rank_passage, split_families

GOING = int(Status.OK)
CLOSED_AT_START = 1e-6
LOST = 1e8  # an entry of unit-free G that leaves velocities few digits
PARTS = (
    3,
    5,
    9,
    17,
    33,
)  # of a step near to a singular state; odd, since its middle is such a state where the ends are alike
DIVISIONS = (2, 4, 8, 16, 32, 64)  # parts of a step that is too coarse to be taken at once
CORRECTION = 2.0  # of a step by closing loops, relative to the step: more is another branch

StepResult = tuple[np.ndarray, np.ndarray, np.ndarray]  # q, w, and how far closing loops moved q
Step = Callable[
    ["Stepping", int, int], StepResult
]  # rows, and which of how many equal parts of a step they take


class Stepping:
    """Rows of states: q, (rows, nq), and the velocities w of all joints of the tree, (rows, nv_spanning), in
    charts.

    Rows in equal charts are computed together. A row that stops keeps its state, its `status` and the `steps`
    that it took.
    """

    def __init__(
        self,
        model: Model,
        q: np.ndarray,
        v: np.ndarray,
        parameters: dict[str, np.ndarray],
        largest: float,
        resume_from: tuple[np.ndarray, list[ChartKey]] | None = None,
        laws: JointLaws | None = None,
    ) -> None:
        """`resume_from`: the velocities w and the charts in which earlier steps arrived here. `laws`: those that
        act in joints.
        """
        self.laws, self.unsolved = (
            laws,
            np.zeros(len(q), dtype=bool),
        )  # rows in which laws were not solved in some step
        rows = len(q)
        self._largest = largest  # entry of unit-free G in a chart that is kept
        self.model, self.charts, self._parameters = model, Charts(model), parameters
        self.q, self.active = q.copy(), np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
        self.status, self.steps = np.full(rows, int(Status.OK)), np.zeros(rows, dtype=int)
        self.before = 0.0  # steps that were over when these began: they say the time
        self.far = np.zeros(rows)  # 1 / σ_min of the mechanism, and σ_max / σ_min
        self.ratio = np.zeros(rows)
        self.divided = np.zeros(rows, dtype=bool)  # a step was too coarse to be taken at once
        self.choices: list[ChartKey] = (
            [self.charts.own] * rows if resume_from is None else list(resume_from[1])
        )
        self._groups: list[tuple[ChartKey, np.ndarray]] | None = None
        self._own = self.charts.places(self.charts.own)
        self._families = families(model)  # of constrained loops
        self._monitored = bool(self.charts.moving or self._families)
        every = constrained_families(model.nominal)
        self._size_of_families = sum(f.count * (len(f.rows) + len(f.independent)) for f in every)
        self._looped, self._scales = looped(self.charts), coordinate_scales(self.charts)
        if resume_from is not None:
            self.w = resume_from[0].copy()
        else:
            self.w = self.called(spanning_velocity, self.q, v) if model.embedded else v.copy()
        self._stop(~self.active, Status.NOT_FINITE)
        self._stop(open_rows(model, self.q, parameters), Status.NOT_CLOSED)
        K, _ = self._equations(self.q)
        measured = self._measured(K)
        self._kept_good(K, measured)
        self._stop(measured.large > LOST, Status.SINGULAR_COORDINATES)
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
        """Return the independent velocities of each row's chart from those of all joints, (rows, nv)."""
        result = np.empty((len(self.q), len(self._own)))
        for choice, rows in self.groups():
            result[rows] = w[rows][:, self.charts.places(choice)]
        return result

    def own_velocity(self, q: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The velocities of the model's own independent joints, (rows, nv), of those of each row's chart in
        states q.
        """
        if all(choice == self.charts.own for choice, _ in self.groups()):
            return y
        w = self.called(spanning_velocity, q, y)
        moving: np.ndarray = np.where(self.active[:, None], w[:, self._own], self.v)
        return moving

    @property
    def in_other_charts(self) -> np.ndarray:
        """Rows whose independent velocities differ from those of the model, (rows,) of bool."""
        if len(groups := self.groups()) == 1 and len(groups[0][1]) == len(self.q):
            return np.full(len(self.q), groups[0][0] != self.charts.own)
        return np.array([choice != self.charts.own for choice in self.choices])

    def groups(self) -> list[tuple[ChartKey, np.ndarray]]:
        """The charts of the active rows, and the rows in each."""
        if self._groups is None:
            result: dict[ChartKey, list[int]] = {}
            for k in np.flatnonzero(self.active):
                result.setdefault(self.choices[k], []).append(int(k))
            self._groups = [(choice, np.array(rows)) for choice, rows in result.items()]
        return self._groups

    def called(self, function: Any, *arrays: np.ndarray) -> Any:
        """Return the value of a function of a model for active rows of arrays, each in its chart.

        NaN for other rows.
        """
        groups = self.groups()
        total = len(self.q)
        if len(groups) == 1 and len(groups[0][1]) == total:
            return self._in_chart(function, groups[0][0], slice(None), arrays)
        result: list[np.ndarray] = []
        several = False
        for choice, rows in groups or [(self.charts.own, np.zeros(0, dtype=int))]:
            answer = self._in_chart(function, choice, rows, arrays)
            several = isinstance(answer, tuple)
            for n, x in enumerate(answer if several else (answer,)):
                if n == len(result):
                    result.append(np.full((total, *x.shape[1:]), np.nan))
                result[n][rows] = x
        return tuple(result) if several else result[0]

    def _in_chart(self, function: Any, choice: ChartKey, rows: Any, arrays: tuple[np.ndarray, ...]) -> Any:
        return self._called(function, self.charts.chart(choice), rows, arrays)

    def _called(self, function: Any, model: Model, rows: Any, arrays: tuple[np.ndarray, ...]) -> Any:
        if not self._parameters:
            return function(model, *(x[rows] for x in arrays))
        return function(
            model, *(x[rows] for x in arrays), parameters={n: x[rows] for n, x in self._parameters.items()}
        )

    def spanning_force(self, tau: np.ndarray) -> np.ndarray:
        """Forces at the model's own independent joints as forces in all joints of the tree, (rows,
        nv_spanning).
        """
        result = np.zeros((len(tau), self.model.nv_spanning))
        result[:, self._own] = tau
        return result

    def held_in_joints(self, free: np.ndarray, dt: float) -> np.ndarray:
        """The velocities of each row's chart after a step, where `free`, (rows, nv), are those without laws
        in joints.
        """
        result: np.ndarray
        result, converged = self.called(
            partial(velocity_with_laws, laws=self.laws), self.q, self.y, free, np.full(len(self.q), dt)
        )
        self.unsolved = self.unsolved | (self.active & (converged < 0.5))
        return result

    def on_same_branch(self, arrived: StepResult) -> np.ndarray:
        """Active rows whose laws in joints are on the branches where they were, (rows,)."""
        y = self.chart_velocity(arrived[1])
        fine = self.called(partial(remains_on_branch, laws=self.laws), self.q, self.y, arrived[0], y)
        same: np.ndarray = fine > 0.5
        return same

    def sliding_friction(self) -> np.ndarray | None:
        """Dry friction against the velocities of all rows, (rows, nv), which are in the model's own chart;
        None without any.
        """
        if self.laws is None or not self.laws.joint_friction:
            return None
        return self.called(partial(friction_at, laws=self.laws), self.q, self.v)

    def final_status(self) -> np.ndarray:
        """The status of all rows, with that of laws that were not solved."""
        failed = self.unsolved & (self.status == GOING)
        return np.where(failed, int(Status.CONTACT_NOT_CONVERGED), self.status)

    def choose(self, rows: np.ndarray) -> None:
        """Have these rows be the active ones, (rows,) of truth values."""
        self.active = rows
        self._groups = None

    def take(self, step: Step, dt: float, agree: float) -> None:
        """One step of all active rows; those that it fails in take it again in the best chart where they are,
        or in parts.

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
            arrived, failed = self._taken_again(step, arrived, again, failed, dt)
            if failed.any():
                arrived, failed = self._in_more_steps(step, arrived, failed, dt)
            K, _ = self._equations(arrived[0])
        measured = self._measured(K)
        near, drops = self._passages(arrived[0], measured.far, ~failed)
        if near.any():
            arrived, lost = self._in_finer_steps(step, arrived, near, dt, agree)
            self._stop(lost & drops, Status.DEAD_POINT)
            K, _ = self._equations(arrived[0])
            measured = self._measured(K)
        self._arrive(arrived, failed, K, measured)

    def _taken_again(
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

    def _in_more_steps(
        self, step: Step, arrived: StepResult, failed: np.ndarray, dt: float
    ) -> tuple[StepResult, np.ndarray]:
        """Return the results of rows whose step was too coarse, in the fewest parts that succeed."""
        remaining = failed
        self.divided = self.divided | failed
        for count in DIVISIONS:
            fine = self._in_parts(step, remaining, count, dt)
            there = remaining & np.isfinite(fine[1]).all(axis=1)
            arrived = _merged(arrived, fine, there)
            remaining = remaining & ~there
            if not remaining.any():
                break
        return arrived, remaining

    def _passages(self, q: np.ndarray, far: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows whose step to states q passes near to a singular state, and those in which the rank drops,
        (rows,) each.

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
            given = {name: x[k] for name, x in self._parameters.items()}
            chart = self.charts.chart(self.choices[k])
            result = rank_passage(self.charts, chart, self.q[k], q[k], float(moved[k]), given)
            drops[k] = result.drops
            near[k] = result.drops or result.conditioning < min(POOR, NEAR * moved[k])
        return near, drops

    def _in_finer_steps(
        self, step: Step, arrived: StepResult, rows: np.ndarray, dt: float, agree: float
    ) -> tuple[StepResult, np.ndarray]:
        """Return the results of some rows in as many parts of a step as agree with fewer, or in most.

        Also return the rows in which none agree, (rows,). Truncation errors grow without bound towards a
        singular state, and finer steps across it agree only where the motion is smooth there for the
        integrator too.
        """
        result = arrived
        coarse = arrived
        remaining = rows
        for count in PARTS:
            fine = self._in_parts(step, remaining, count, dt)
            before, after = (x[1][:, self._looped] for x in (coarse, fine))
            size = np.maximum(np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1))
            agreed = remaining & (np.linalg.norm(after - before, axis=1) <= agree * size)
            if coarse is not arrived:  # a whole step that agrees with its parts is taken as it is
                result = _merged(result, fine, agreed)
            coarse = fine
            remaining = remaining & ~agreed
            if not remaining.any():
                break
        return _merged(result, coarse, remaining & np.isfinite(coarse[1]).all(axis=1)), remaining

    def _in_parts(self, step: Step, rows: np.ndarray, count: int, dt: float) -> StepResult:
        """Return the results of some rows in equal parts of a step, in their charts; w is NaN on failure."""
        start = (self.q, self.w)
        everyone = self.active
        far = np.zeros(len(self.q))
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
        result = self.q, np.where(self.active[:, None], self.w, np.nan), far
        self.q, self.w = start
        self.choose(everyone)
        return result

    def _arrive(
        self, arrived: StepResult, failed: np.ndarray, K: list[np.ndarray], measured: ChartQuality
    ) -> None:
        """Take over states that steps led to; rows that failed stop where they are."""
        q, w, _ = arrived
        if failed.any():
            self._stop(failed & (self.ratio * POOR > 1.0), Status.DEAD_POINT)
            self._stop(failed & ~(np.isfinite(q).all(axis=1) & np.isfinite(w).all(axis=1)), Status.NOT_FINITE)
            self._stop(failed, Status.STEP_TOO_COARSE)
        going = self.active[:, None]
        self.q, self.w = np.where(going, q, self.q), np.where(going, w, self.w)
        self.steps += self.active
        self._kept_good(K, measured)

    def _failed(self, arrived: StepResult, gap: np.ndarray, dt: float) -> np.ndarray:
        """Active rows whose step did not arrive at a closed state on the same branch, (rows,)."""
        q, w, moved = arrived
        fine = np.isfinite(q).all(axis=1) & np.isfinite(w).all(axis=1) & (gap <= CLOSED)
        if self.model.loops:
            fine &= ~open_rows(self.model, np.where(_column(self.active, q), q, np.nan), self._parameters)
        step = np.maximum(_largest(q - self.q), dt * _largest(self.w))
        fine &= self._motion(q) <= WIDE
        failed: np.ndarray = self.active & ~(fine & (moved <= CORRECTION * step + CLOSED_AT_START))
        return failed

    def _motion(self, q: np.ndarray) -> np.ndarray:
        """Return the largest unit-free change of a loop coordinate on the way to states q, (rows,)."""
        result: np.ndarray = (np.abs(q - self.q) * self._scales).max(axis=1, initial=0.0)
        return result

    def _stop(self, rows: np.ndarray, status: Status) -> None:
        """Stop those of some rows that have not stopped."""
        if rows.any() and (stopping := rows & (self.status == GOING)).any():
            self.status[stopping] = int(status)
            self.active = self.active & ~stopping
            self._groups = None

    def _equations(self, q: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Unit-free K of all clusters with loops at q, (rows, count, size) each, and the gap of embedded
        loops, (rows,).

        Families of constrained loops follow. NaN, and a gap of zero, for rows that have stopped; nothing
        where no loop can turn singular.
        """
        result = np.full((len(q), self.charts.numbers), np.nan)
        gap = np.zeros(len(q))
        rows = np.flatnonzero(self.active)
        if len(rows) and self.charts.moving:
            result[rows], gap[rows] = self._called(loop_equations, self.charts.whole, rows, (q,))

        flat = np.full((len(q), self._size_of_families), np.nan)
        if len(rows) and self._families:
            flat[rows] = self._called(constrained_equations, self.model, rows, (q,))
        return self.charts.equations(result) + split_families(self.model, flat), gap

    def _measured(self, K: list[np.ndarray]) -> ChartQuality:
        """Return the quality of each row's chart for equations K; NaN and zeros for stopped rows."""
        rows = len(self.q)
        result = ChartQuality(np.zeros(rows), np.zeros(rows, dtype=bool), np.zeros(rows), np.ones(rows))
        for choice, subset in self.groups() if self.charts.moving else ():
            for x, new in zip(result, self.charts.measured([k[subset] for k in K], choice)):
                x[subset] = new
        going = np.flatnonzero(self.active)
        for family, k in zip(self._families, K[len(self.charts.clusters) :]):
            high, low = singular_values(k[going], len(family.rows))
            with np.errstate(divide="ignore", invalid="ignore"):
                result.far[going] = np.fmax(result.far[going], 1.0 / low)
                result.ratio[going] = np.fmax(result.ratio[going], high / low)
        return result

    def _kept_good(self, K: list[np.ndarray], measured: ChartQuality) -> None:
        """Change charts that have turned bad, by K at q; rows where all are bad stop."""
        self.far = np.where(self.active, measured.far, self.far)
        self.ratio = np.where(self.active, measured.ratio, self.ratio)
        bad = measured.dependent | ~(measured.large <= self._largest)
        for k in np.flatnonzero(bad & self.active):
            self.choices[k], self._groups = self.charts.best([x[k] for x in K]), None
        self._stop(~(self.ratio * SINGULAR <= 1.0), Status.DEAD_POINT)

    def _in_best_charts(self, rows: np.ndarray) -> np.ndarray:
        """Put some rows into the best charts where they are; those that were in other ones, (rows,)."""
        K = self._equations(self.q)[0]
        changed = np.zeros(len(self.q), dtype=bool)
        for k in np.flatnonzero(rows):
            best = self.charts.best([x[k] for x in K], anew=True)
            changed[k], self.choices[k], self._groups = best != self.choices[k], best, None
        return changed


def looped(charts: Charts) -> np.ndarray:
    """The places of velocities of joints in loops that can turn singular, among those of all joints of the
    tree.
    """
    clusters = [charts.clusters[n] for n in charts.moving] + families(charts.whole)
    return np.concatenate([*(places_of(charts.whole, cluster) for cluster in clusters), []]).astype(int)


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
