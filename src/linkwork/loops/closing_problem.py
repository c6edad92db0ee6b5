"""Loop closure of a cluster as one unit-free least-squares problem."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np

from linkwork.loops.motion import ClusterPosture
from linkwork.loops.numeric import NumericPosture
from linkwork.loops.scales import LOOP_DEFORMATION
from linkwork.mechanism import GROUND, LoopConstraint, Mechanism
from linkwork.mechanism.limits import Budget

# accepted residual of redundant equations [lengths of the loop, or rad], since files have few digits
DEFAULT_TOLERANCE = 1e-4
MAX_CACHED_STATES = 40  # configurations whose errors are cached
UNBOUNDED_LIMIT = 1e3  # larger joint limits [rad or m] count as none: some files have 1e16


class ClosureProblem:
    """Closure of a cluster's loops: lengths in units of their loop, angles in rad.

    If the cluster has several supports, `below` is the fixed posture of the cluster that contains them. Work
    is counted in `budget`.
    """

    def __init__(
        self,
        model: Mechanism,
        bodies: Sequence[int],
        constraints: Sequence[LoopConstraint],
        below: ClusterPosture | None = None,
        supports: Sequence[int] = (),
        budget: Budget | None = None,
    ) -> None:
        self.model = model
        self.bodies = bodies
        self.constraints = constraints
        self._budget = budget
        self.posture = NumericPosture(model, bodies, below, supports)
        self.joints = [model.joints[k] for k in bodies]
        self._places = [(j.kind, j.q_slice, self.posture.own[k]) for k, j in zip(bodies, self.joints)]
        self.bends = False  # whether elastic modes must deform to close the loops
        self.exact = True  # whether all equations can hold exactly
        self._known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}  # errors at the last configurations
        self.tolerance = DEFAULT_TOLERANCE if model.tolerance is None else model.tolerance
        counts = [c.count(model.joints) for c in constraints]
        ends = np.cumsum([0, *counts])
        self.rows = [slice(a, b) for a, b in pairwise(ends.tolist())]  # of each constraint
        self.count = int(ends[-1])
        self._work = len(bodies) + self.count
        self.sizes = [loop_length(model, c) for c in constraints]  # [m]
        known = [size for size in self.sizes if size > 0.0]
        self.length = math.exp(sum(map(math.log, known)) / len(known)) if known else 1.0
        self.sizes = [size or self.length for size in self.sizes]
        self.columns, self.elastic = np.ones(self.posture.size), np.zeros(self.posture.size, dtype=bool)
        for k, joint in zip(bodies, self.joints):
            if joint.kind.elastic or not joint.nv:
                self.elastic[self.posture.own[k]] = joint.kind.elastic
                self.columns[self.posture.own[k]] = LOOP_DEFORMATION * joint.kind.units(self.length)
                continue
            S = joint.kind.subspace(joint.kind.neutral()).astype(float)
            self.columns[self.posture.own[k]] = np.where(S[:3].any(axis=0), 1.0, self.length)
        self.units = np.ones(self.count)
        for c, row_indices, size in zip(constraints, self.rows, self.sizes):
            self.units[row_indices] = (
                np.where(c.lengths(model.joints), size, 1.0) if c.ends else self._own_units(c)
            )
        far = max((abs(x) for p in _points(model, bodies, constraints) for x in p), default=0.0)
        self.rounding = 4e-15 * far / min(self.sizes, default=1.0)

    def _own_units(self, constraint: LoopConstraint) -> np.ndarray:
        """Return the largest slopes of the rows of a coupling, which have units of their own."""
        rng = np.random.default_rng(0)
        units: Any = 0.0
        for attempt in range(1 if constraint.linear else 3):
            q = self.model.tree_neutral()
            for joint in self.joints if attempt else ():
                q[joint.q_slice] = joint.kind.random(rng)
            self.posture.move(q)
            J = constraint.closing_error(self.posture)[1] * self.columns
            units = np.maximum(units, np.abs(np.where(np.isfinite(J), J, 0.0)).max(axis=1, initial=0.0))
        return np.where(units > 0.0, units, 1.0)

    def at(self, q: np.ndarray, active: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return unit-free errors, (equations,), and Jacobian, (equations, velocities), at q.

        With `active`, rows of other constraints are zero.
        """
        if active is not None:
            return self._counted(q, active)
        key = q.tobytes()
        if key not in self._known:
            if len(self._known) > MAX_CACHED_STATES:
                self._known.clear()
            self._known[key] = self._counted(q)
        return self._known[key]

    def _counted(self, q: np.ndarray, active: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
        if self._budget:
            self._budget.spend(self._work)
        return self.errors(q, active)

    def errors(self, q: np.ndarray, active: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the errors at q, (equations,), without counting work."""
        self.posture.move(q)
        e = np.zeros(self.count)
        J = np.zeros((self.count, self.posture.size))
        for n, (constraint, row_indices) in enumerate(zip(self.constraints, self.rows)):
            if active is None or n in active:
                e[row_indices], J[row_indices] = constraint.closing_error(self.posture)
        return e / self.units, J * (self.columns / self.units[:, None])

    def retract(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return q integrated over a unit-free step."""
        q = q.copy()
        step = step * self.columns
        for kind, q_slice, columns in self._places:
            q[q_slice] = kind.numeric_integrate(q[q_slice], step[columns])
        return q

    def difference(self, q: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the unit-free velocities from one configuration to another in unit time."""
        steps = [joint.kind.difference(q[joint.q_slice], target[joint.q_slice]) for joint in self.joints]
        return np.concatenate([np.zeros(0), *steps]).astype(float) / self.columns

    def max_difference(self, q: np.ndarray, target: np.ndarray) -> float:
        """Return the largest magnitude in `difference`."""
        return float(np.abs(self.difference(q, target)).max(initial=0.0))

    def limit_violations(self, q: np.ndarray, inset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return the violations of joint limits and their Jacobian, unit-free.

        Limits are narrowed by the fraction `inset` of their range.
        """
        off = np.zeros(self.posture.size)
        for k, joint in zip(self.bodies, self.joints):
            if joint.nq == joint.nv:
                values = q[joint.q_slice]
                low = np.array(joint.lower)
                high = np.array(joint.upper)
                margin = inset * np.minimum(high - low, 1.0)
                low = low + margin
                high = high - margin
                off[self.posture.own[k]] = np.maximum(values - high, 0.0) + np.minimum(values - low, 0.0)
        off /= self.columns
        beyond = np.abs(off) > 1e-9
        return off[beyond], np.eye(len(off))[beyond]

    def at_limits(self, q: np.ndarray) -> list[str]:
        """Return the joints at or beyond a limit."""
        names = []
        for joint in self.joints:
            values = q[joint.q_slice]
            low = np.array(joint.lower)
            high = np.array(joint.upper)
            bounded = np.abs(low) < UNBOUNDED_LIMIT, np.abs(high) < UNBOUNDED_LIMIT
            if (bounded[0] & (values < low + 1e-3)).any() or (bounded[1] & (values > high - 1e-3)).any():
                names.append(joint.name)
        return names

    def gaps(self, q: np.ndarray) -> list[tuple[float, float]]:
        """Return the gap of each constraint at q [m, rad or own unit]."""
        e = self.errors(q)[0] * self.units
        gaps = []
        for c, rows in zip(self.constraints, self.rows):
            lengths = c.lengths(self.model.joints)
            gaps.append((float(np.linalg.norm(e[rows][lengths])), float(np.linalg.norm(e[rows][~lengths]))))
        return gaps

    @property
    def allowed(self) -> float:
        """The accepted relative residual of redundant equations in velocities and accelerations."""
        return 1e-6 if self.exact else 30.0 * self.tolerance

    def bending(self) -> ClosureProblem:
        """Return the problem with modal coordinates at full weight, as if bodies bent freely."""
        problem = copy(self)
        problem._known = {}
        problem.bends = True
        problem.columns = self.columns / np.where(self.elastic, LOOP_DEFORMATION, 1.0)
        return problem

    def unlimited(self) -> ClosureProblem:
        """Return the problem without counting work."""
        problem = copy(self)
        problem._budget = None
        return problem

    def error_norm(self, q: np.ndarray) -> float:
        """Return the Euclidean norm of the unit-free errors at q."""
        norm = float(np.linalg.norm(self.errors(q)[0]))
        return norm if math.isfinite(norm) else math.inf

    def max_error(self, e: np.ndarray) -> float:
        """Return the largest magnitude of some errors beyond rounding."""
        largest = float(np.abs(e).max(initial=0.0))
        return max(0.0, largest - self.rounding) if math.isfinite(largest) else math.inf


def _points(
    model: Mechanism, bodies: Sequence[int], constraints: Sequence[LoopConstraint]
) -> Iterator[np.ndarray]:
    yield from (model.joints[k].place.p for k in bodies)
    yield from (end.place.p for c in constraints for end in c.ends)


def loop_length(model: Mechanism, constraint: LoopConstraint) -> float:
    """Return half the length of a loop along its joints [m]; zero if all axes meet in a point."""
    if not constraint.ends:
        return 0.0
    paths: list[list[int]] = []
    for end in constraint.ends:
        path = []
        k = end.body
        while k != GROUND:
            path.append(k)
            k = model.joints[k].parent
        paths.append(path)
    inner = set(paths[0]) & set(paths[1]) if len(paths) > 1 else set()
    total = 0.0
    largest = 0.0
    meeting = []
    for end, path in zip(constraint.ends, paths):
        at = end.place.p
        for k in path:
            if k in inner:
                break
            total += math.dist(at, (0.0, 0.0, 0.0))
            at = model.joints[k].place.p
            largest = max(largest, *map(abs, at))
        meeting.append(at)
    total += math.dist(*meeting) if len(meeting) == 2 else 0.0
    rod = sum(row.length or 0.0 for row in getattr(constraint, "closure_rows", ()))
    total = 0.5 * (total + rod)
    return total if total > 1e-12 * largest else 0.0
