"""States of a rollout, each in a chart of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.loops.closing import places_of
from linkwork.algorithms.loops.conditioning import constrained_families
from linkwork.contact import JointLaws
from linkwork.functions.conditioning import constrained_equations, loop_equations
from linkwork.functions.states import spanning_velocity
from linkwork.model import Model
from linkwork.simulation.charts import SINGULAR_TOL, ChartKey, ChartQuality, Charts
from linkwork.simulation.closedness import immobile_rows, open_rows
from linkwork.simulation.joint_laws import friction_at, velocity_with_laws
from linkwork.simulation.monitor import coordinate_scales, families
from linkwork.simulation.rank_between_states import split_families
from linkwork.simulation.rank_drop import singular_values
from linkwork.simulation.status import Status

GOING = int(Status.OK)
MAX_ENTRY = 1e8  # of unit-free G; at larger entries velocities lose most digits


class ChartStates:
    """Rows of states, each in a chart: coordinates q, (rows, nq), and velocities w, (rows, nv_spanning).

    w are the velocities of all joints of the tree. Rows in equal charts are computed together. A row that
    stops keeps its state, its `status` and the number of `steps` that it took.
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
        """`resume_from`: the velocities w and the charts in which earlier steps arrived here. `laws`: those
        that act in joints.
        """
        self.laws = laws
        self.unsolved = np.zeros(len(q), dtype=bool)  # rows in which laws were not solved in some step
        rows = len(q)
        self._largest = largest  # entry of unit-free G in a chart that is kept
        self.model = model
        self.charts = Charts(model)
        self._parameters = parameters
        self.q = q.copy()
        self.active = np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
        self.status = np.full(rows, int(Status.OK))
        self.steps = np.zeros(rows, dtype=int)
        self.before = 0.0  # steps that were over when these began: they say the time
        self.far = np.zeros(rows)  # 1 / σ_min of the mechanism, and σ_max / σ_min
        self.ratio = np.zeros(rows)
        self.divided = np.zeros(rows, dtype=bool)  # a step was too coarse to be taken at once
        self.opened = np.zeros(
            rows, dtype=bool
        )  # even a small part of the last step that was divided opened loops
        self.choices: list[ChartKey] = (
            [self.charts.own] * rows if resume_from is None else list(resume_from[1])
        )
        self._groups: list[tuple[ChartKey, np.ndarray]] | None = None
        self._own = self.charts.places(self.charts.own)
        self._families = families(model)  # of constrained loops
        self._monitored = bool(self.charts.moving or self._families)
        every = constrained_families(model.nominal)
        self._size_of_families = sum(f.count * (len(f.rows) + len(f.independent)) for f in every)
        self._looped = looped(self.charts)
        self._scales = coordinate_scales(self.charts)
        if resume_from is not None:
            self.w = resume_from[0].copy()
        else:
            self.w = self.called(spanning_velocity, self.q, v) if model.embedded else v.copy()
        self._stop(~self.active, Status.NOT_FINITE)
        self._stop(open_rows(model, self.q, parameters), Status.NOT_CLOSED)
        self._stop(immobile_rows(model, self.q, parameters), Status.NOT_CLOSED)
        K, _ = self._equations(self.q)
        measured = self._measured(K)
        self._update_charts(K, measured)
        self._stop(measured.large > MAX_ENTRY, Status.SINGULAR_COORDINATES)
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
        """Return the velocities of the model's own independent joints, (rows, nv), of those of each row's
        chart in states q.
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
        """Return the charts of the active rows, and the rows in each."""
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
        """Return forces at the model's own independent joints as forces in all joints of the tree, (rows,
        nv_spanning).
        """
        result = np.zeros((len(tau), self.model.nv_spanning))
        result[:, self._own] = tau
        return result

    def held_in_joints(self, free: np.ndarray, dt: float) -> np.ndarray:
        """Return the velocities of each row's chart after a step, where `free`, (rows, nv), are those without
        laws in joints.
        """
        result: np.ndarray
        result, converged = self.called(
            partial(velocity_with_laws, laws=self.laws), self.q, self.y, free, np.full(len(self.q), dt)
        )
        self.unsolved = self.unsolved | (self.active & (converged < 0.5))
        return result

    def sliding_friction(self) -> np.ndarray | None:
        """Return dry friction against the velocities of all rows, (rows, nv), which are in the model's own
        chart; None without any.
        """
        if self.laws is None or not self.laws.joint_friction:
            return None
        return self.called(partial(friction_at, laws=self.laws), self.q, self.v)

    def final_status(self) -> np.ndarray:
        """Return the status of all rows, with that of laws that were not solved."""
        failed = self.unsolved & (self.status == GOING)
        return np.where(failed, int(Status.CONTACT_NOT_CONVERGED), self.status)

    def choose(self, rows: np.ndarray) -> None:
        """Have these rows be the active ones, (rows,) of truth values."""
        self.active = rows
        self._groups = None

    def _stop(self, rows: np.ndarray, status: Status) -> None:
        """Stop those of some rows that have not stopped."""
        if rows.any() and (stopping := rows & (self.status == GOING)).any():
            self.status[stopping] = int(status)
            self.active = self.active & ~stopping
            self._groups = None

    def _equations(self, q: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Return unit-free K of all clusters with loops at q, (rows, count, size) each, and the gap of
        embedded loops, (rows,).

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

    def _update_charts(self, K: list[np.ndarray], measured: ChartQuality) -> None:
        """Change charts that have become ill-conditioned, by K at q; stop rows without a regular chart."""
        self.far = np.where(self.active, measured.far, self.far)
        self.ratio = np.where(self.active, measured.ratio, self.ratio)
        bad = measured.dependent | ~(measured.large <= self._largest)
        for k in np.flatnonzero(bad & self.active):
            self.choices[k] = self.charts.best([x[k] for x in K])
            self._groups = None
        self._stop(~(self.ratio * SINGULAR_TOL <= 1.0), Status.DEAD_POINT)

    def _in_best_charts(self, rows: np.ndarray) -> np.ndarray:
        """Put some rows into the best charts where they are; those that were in other ones, (rows,)."""
        K = self._equations(self.q)[0]
        changed = np.zeros(len(self.q), dtype=bool)
        for k in np.flatnonzero(rows):
            best = self.charts.best([x[k] for x in K], anew=True)
            changed[k] = best != self.choices[k]
            self.choices[k] = best
            self._groups = None
        return changed


def looped(charts: Charts) -> np.ndarray:
    """Return the places of velocities of joints in loops that can turn singular, among those of all joints of
    the tree.
    """
    clusters = [charts.clusters[n] for n in charts.moving] + families(charts.whole)
    return np.concatenate([*(places_of(charts.whole, cluster) for cluster in clusters), []]).astype(int)
