"""Numeric continuation: predictor-corrector walks along the manifold of closed configurations, over floats.

From a closed configuration, a step along the tangent of φ(q) = 0 (predictor) leaves the manifold by a term of the second order,
which Newton's method takes back (corrector). A correction that is not small against the step is refused and a shorter step
taken, so a walk stays on its assembly mode (Allgower and Georg, Numerical Continuation Methods, Sec. 6.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from linkwork.parts import ImplicitConstraint, Loop, LoopConstraint, Mechanism
from linkwork.topology.numeric import NumericPosture
from linkwork.topology.scales import length_of, row_units, velocity_units

FIRST, LONGEST, SHORTEST = 0.2, 2.0, 1e-3  # steps [rad, or sizes of the loop]
SHORT = 0.05  # way along force-held loops that is not worth walking [rad, or sizes of the loop]
REFUSED, WELCOME = 0.3, 0.05  # corrections, relative to the step: above the first it is halved, below the other doubled
STEPS = 200  # most steps of a walk
NEWTON = 12  # most corrections at its end
EXACT = 1e-15  # residual that these go on to [rad, or sizes of the loop]
WORST = 1e-2  # smallest singular value of the dependent part, relative to the largest: nearer to a singularity no walk goes
DIFFERENCE = 1e-5  # of central differences [rad or m]
RANK = 1e-9  # of singular values, where equations are redundant


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cross products of columns, (3, n): NumPy's own takes several times as long."""
    out = np.empty_like(b)
    out[0], out[1], out[2] = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
    return out


class LoopRows:
    """The equations of one loop joint over floats, all rows at once; see `joints.closure.Row`."""

    def __init__(self, loop: Loop, posture: NumericPosture) -> None:
        self.loop, self.posture = loop, posture
        self.signs = posture.moving(loop.successor.body) - posture.moving(loop.predecessor.body)
        rows = loop.every_row
        self.count = len(rows)
        self.across = [i for i, row in enumerate(rows) if row.across is not None]
        self.lengths = [(i, row.length) for i, row in enumerate(rows) if row.length is not None]
        self.along = [i for i, row in enumerate(rows) if row.across is None and row.length is None]
        self.turned = np.array([rows[i].along for i in self.across]).reshape(-1, 3)
        self.stays = np.array([rows[i].across for i in self.across]).reshape(-1, 3)
        self.directions = np.array([rows[i].along for i in self.along]).reshape(-1, 3)

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """φ, (count,), and K, (count, width)."""
        P, F = (self.posture.frame(end) for end in self.loop.ends)
        w, u = self.posture.motion(self.signs, F.p)
        phi, K = np.zeros(self.count), np.zeros((self.count, self.posture.width))
        d = F.p - P.p
        if self.along:
            normals = self.directions @ P.R.T
            phi[self.along], K[self.along] = normals @ d, normals @ u
        if self.across:
            a, b = self.turned @ F.R.T, self.stays @ P.R.T
            phi[self.across], K[self.across] = (a * b).sum(axis=1), _cross(a.T, b.T).T @ w
        for i, length in self.lengths:
            phi[i], K[i] = 0.5 * (d @ d - length * length), d @ u
        return phi, K


class ImplicitRows:
    """The equations of an implicit constraint over floats; K by differences, since its derivatives are programs."""

    def __init__(self, constraint: ImplicitConstraint, posture: NumericPosture) -> None:
        self.constraint, self.posture = constraint, posture

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """φ, (count,), and K, (count, width), right to about 1e-9."""
        own = [self.posture.q(k) for k in self.constraint.joints]
        phi = self._phi(own)
        K = np.zeros((len(phi), self.posture.width))
        for n, k in enumerate(self.constraint.joints):
            kind, first = self.posture.joint(k).kind, self.posture.columns[k].start
            for column, e in enumerate(DIFFERENCE * np.eye(kind.nv)):
                there, back = (self._phi([*own[:n], kind.numeric_integrate(own[n], x), *own[n + 1 :]]) for x in (e, -e))
                K[:, first + column] = (there - back) / (2.0 * DIFFERENCE)
        return phi, K

    def _phi(self, own: list[np.ndarray]) -> np.ndarray:
        return self.constraint.phi(np.concatenate(own)).astype(float)


class OtherRows:
    """The equations of any other loop constraint over floats: as it gives them itself."""

    def __init__(self, constraint: LoopConstraint, posture: NumericPosture) -> None:
        self.constraint, self.posture = constraint, posture

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        phi = np.asarray(self.constraint.residual(self.posture), dtype=float)
        return phi, np.asarray(self.constraint.equations(self.posture)[0], dtype=float)


def _rows(constraint: LoopConstraint, posture: NumericPosture) -> LoopRows | ImplicitRows | OtherRows:
    if isinstance(constraint, Loop):
        return LoopRows(constraint, posture)
    if isinstance(constraint, ImplicitConstraint):
        return ImplicitRows(constraint, posture)
    return OtherRows(constraint, posture)


class Linearisation(NamedTuple):
    """φ and K of the kept equations at a state, in units of the loop's size."""

    phi: np.ndarray
    K: np.ndarray


class ClosureManifold:
    """The closed configurations of some bodies: φ(q) = 0 for the kept `rows` of their constraints.

    With `blocks`, each (rows, dependent velocities) of one cluster among these, the other velocities are independent, and
    tangents are given by them; without, tangents are projected onto the null space of K, as force-held loops need it.
    """

    def __init__(
        self,
        model: Mechanism,
        bodies: Sequence[int],
        constraints: Sequence[LoopConstraint],
        rows: Sequence[int] | None = None,
        blocks: Sequence[tuple[Sequence[int], Sequence[int]]] | None = None,
    ) -> None:
        self.model, self.bodies, self.constraints = model, tuple(bodies), tuple(constraints)
        self.posture = NumericPosture(model, bodies)
        self._equations = [_rows(c, self.posture) for c in constraints]
        size = length_of(model, bodies, constraints)
        self._units = row_units(model, constraints, size)
        self.rows = list(range(len(self._units)) if rows is None else rows)
        self.velocity_units = velocity_units(model, bodies, size)
        self.blocks = blocks and [(list(rows), list(dependent)) for rows, dependent in blocks]
        self.dependent = sorted(c for _, dependent in self.blocks or () for c in dependent)
        self.independent = [c for c in range(self.posture.size) if c not in self.dependent]
        places = [(model.joints[k].q_slice, self.posture.own[k]) for k in bodies]
        simple = [(q, v) for k, (q, v) in zip(bodies, places) if model.joints[k].nq == model.joints[k].nv == 1]
        self._simple = np.array([q.start for q, _ in simple], dtype=int), np.array([v.start for _, v in simple], dtype=int)
        self._other = [k for k in bodies if not model.joints[k].nq == model.joints[k].nv == 1]
        self.coordinates = np.concatenate([np.arange(q.start, q.stop) for q, _ in places])
        self.lower = np.concatenate([np.array(model.joints[k].lower) for k in bodies])
        self.upper = np.concatenate([np.array(model.joints[k].upper) for k in bodies])

    def at(self, q: np.ndarray, rows: list[int] | None = None) -> Linearisation:
        """The kept equations at q, (nq,), or others."""
        self.posture.move(q)
        found = [one.evaluate() for one in self._equations]
        phi, K = np.concatenate([phi for phi, _ in found]), np.concatenate([K for _, K in found])
        chosen = self.rows if rows is None else rows
        scale = 1.0 / self._units[chosen]
        return Linearisation(phi[chosen] * scale, K[chosen] * scale[:, None])

    def missed(self, q: np.ndarray) -> float:
        """The largest residual of all equations at q, also of those that are not kept; infinite where an axis is flipped."""
        self.posture.move(q)
        phi = np.concatenate([one.evaluate()[0] for one in self._equations]) / self._units
        flipped = any(x > 0.0 for c in self.constraints for x in c.flipped_axes(self.posture))
        return np.inf if flipped else float(np.abs(phi).max(initial=0.0))

    def retract(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        """q, (nq,), moved by a step of these bodies' joints, (size,)."""
        q = q.copy()
        places, columns = self._simple
        q[places] += step[columns]
        for joint in (self.model.joints[k] for k in self._other):
            q[joint.q_slice] = joint.kind.numeric_integrate(q[joint.q_slice], step[self.posture.own[joint.child]])
        return q

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """The step from q0 to q1, (size,)."""
        joints = [self.model.joints[k] for k in self.bodies]
        return np.concatenate([np.asarray(j.kind.difference(q0[j.q_slice], q1[j.q_slice]), dtype=float) for j in joints])

    def length(self, step: np.ndarray) -> float:
        """The largest entry of a step, in radians or sizes of the loop."""
        return float(np.abs(step / self.velocity_units).max(initial=0.0))

    def within(self, q: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> bool:
        """Whether these bodies' coordinates are within some limits, up to rounding."""
        own = q[self.coordinates]
        return bool(np.all(own >= lower - 1e-12) and np.all(own <= upper + 1e-12))

    def steps(self, here: Linearisation, way: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The Newton correction that closes the loops, and the tangent along a way of the independent velocities, (size,) each.

        LinAlgError at a singularity of the coordinates. Without independent velocities the first is the one of least norm, and
        the second the part of the way along the manifold.
        """
        units = self.velocity_units
        if self.blocks is None:
            inverse = units[:, None] * np.linalg.pinv(here.K * units, rcond=RANK)
            return -inverse @ here.phi, way - inverse @ (here.K @ way)
        answer = np.linalg.solve(here.K[:, self.dependent], np.column_stack([here.phi, here.K @ way]))
        correction, tangent = np.zeros(len(units)), way.copy()
        correction[self.dependent], tangent[self.dependent] = -answer[:, 0], -answer[:, 1]
        return correction, tangent

    def conditioning(self, here: Linearisation) -> float:
        """The smallest singular value of the dependent part, relative to the largest: 0 at a singularity of the coordinates.

        Where no velocities are chosen, it is that of K: 0 also where equations are redundant.
        """
        every = [(range(len(self.rows)), range(self.posture.size))] if self.blocks is None else self.blocks
        found = 1.0
        for rows, columns in every:
            s = np.linalg.svd(here.K[np.ix_(rows, columns)] * self.velocity_units[columns], compute_uv=False)
            found = min(found, float(s[-1] / s[0]) if len(s) and s[0] > 0.0 else 1.0)
        return found

    def orientation(self, here: Linearisation) -> tuple[float, ...]:
        """The sign of the determinant of each cluster's dependent part: it changes at singularities of the coordinates."""
        return tuple(float(np.linalg.slogdet(here.K[np.ix_(rows, columns)])[0]) for rows, columns in self.blocks or ())

    def corrected(self, q: np.ndarray) -> tuple[np.ndarray, float]:
        """The closed configuration near q by Newton steps of least norm, while these help, and its largest residual.

        What is closed already stays as it is. Equations that are not kept are closed too, as exactly as the model's numbers let
        them without opening the others.
        """
        closed, left = self._corrected(q, self.rows)
        if len(self.rows) < len(self._units) and EXACT < left + self.missed(closed) < np.inf:
            every, _ = self._corrected(closed, list(range(len(self._units))))
            kept = float(np.abs(self.at(every).phi).max(initial=0.0))
            if kept <= max(left, 10.0 * EXACT) and self.missed(every) < self.missed(closed):
                return every, kept
        return closed, left

    def _corrected(self, q: np.ndarray, rows: list[int]) -> tuple[np.ndarray, float]:
        best, left = q, np.inf
        for _ in range(NEWTON):
            here = self.at(q, rows)
            residual = float(np.abs(here.phi).max(initial=0.0))
            if not residual < left:
                break
            best, left = q, residual
            if residual <= EXACT:
                break
            units = self.velocity_units
            step = -units * np.linalg.lstsq(here.K * units, here.phi, rcond=RANK)[0]
            q = self.retract(q, step * min(1.0, 0.5 / max(self.length(step), 1e-300)))
        return best, left


class Waypoint(NamedTuple):
    """A configuration on a walk, closed up to a small error, and the part of the way that is done, from 0 to 1."""

    q: np.ndarray
    part: float


def walk(manifold: ClosureManifold, start: np.ndarray, way: np.ndarray) -> Iterator[Waypoint]:
    """Waypoints from a closed configuration along a way: a change of the independent velocities, (size,), zero for the others.

    It ends where the way is done, or before a singularity of the coordinates (their conditioning is poor, or an orientation
    would change), a limit of a joint, or the end of what can be closed. Waypoints are closed up to a part of a step:
    `ClosureManifold.corrected` closes those that are wanted. For force-held loops the way is a change of all velocities, of
    which the part along the manifold is walked until nothing of it is left.
    """
    free, own = manifold.blocks is None, start[manifold.coordinates]
    lower, upper = np.minimum(manifold.lower, own), np.maximum(manifold.upper, own)  # what it starts beyond, it may keep
    target = manifold.retract(start, way) if free else start
    here = manifold.at(start)
    orientation, worst = manifold.orientation(here), min(WORST, 0.05 * manifold.conditioning(here))
    q, part, stride = start, 0.0, FIRST
    yield Waypoint(q, part)
    try:
        correction, tangent = manifold.steps(here, way)
    except np.linalg.LinAlgError:
        return
    for _ in range(STEPS):
        whole = manifold.length(tangent)
        if whole == 0.0 or (free and whole < SHORT):
            return
        fraction = min(1.0 - part, stride / whole)
        there = manifold.retract(q, fraction * tangent + correction)
        ahead = manifold.at(there)
        aim = manifold.difference(there, target) if free else way
        try:
            next_correction, next_tangent = manifold.steps(ahead, aim)
            off = manifold.length(next_correction) / (fraction * whole)
        except np.linalg.LinAlgError:
            off = np.inf
        kept = off <= REFUSED and manifold.within(there, lower, upper) and manifold.orientation(ahead) == orientation
        if kept and manifold.conditioning(ahead) >= worst:
            q, correction, tangent = there, next_correction, next_tangent
            part = 0.0 if free else part + fraction
            stride = min(2.0 * stride, LONGEST) if off < WELCOME else stride
            yield Waypoint(q, part)
            if part >= 1.0:
                return
        else:
            stride = fraction * whole / 4.0
            if stride < SHORTEST:
                return
