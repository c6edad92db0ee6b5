"""Continuation of closed configurations along the constraint manifold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from linkwork.loops.closing import truncated_inverse
from linkwork.loops.closing_problem import DEFAULT_TOLERANCE
from linkwork.loops.numeric import NumericPosture
from linkwork.loops.scales import length_of, row_units, velocity_units
from linkwork.mechanism import ImplicitConstraint, Loop, LoopConstraint, Mechanism

# steps [rad, or sizes of the loop]
FIRST_STEP = 0.2
MAX_STEP = 2.0
MIN_STEP = 1e-3
# length of paths on constrained loops that are not followed [rad, or sizes of the loop]
NEGLIGIBLE_PATH = 0.05
# corrections, relative to the step: above the first it is halved, below the other doubled
MAX_CORRECTION = 0.3
SMALL_CORRECTION = 0.05
MAX_STEPS = 200  # of a path
MAX_CORRECTIONS = 12  # Newton steps at the end of a path
EXACT_TOL = 1e-15  # residual at which corrections end [rad, or sizes of the loop]
# smallest singular value of the dependent part, relative to the largest: nearer to a singularity no walk goes
MIN_CONDITIONING = 1e-2
DIFFERENCE_STEP = 1e-5  # of central differences [rad or m]
RANK_TOL = 1e-9  # of singular values, where equations are redundant


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return cross products of columns, (3, n), several times as fast as NumPy's."""
    out = np.empty_like(b)
    out[0], out[1], out[2] = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
    return out


class LoopRows:
    """The equations of one loop joint over floats, all rows at once; see `joints.closure.Row`."""

    def __init__(self, loop: Loop, posture: NumericPosture) -> None:
        self.loop = loop
        self.posture = posture
        self.signs = posture.moving(loop.successor.body) - posture.moving(loop.predecessor.body)
        rows = loop.closure_rows
        self.count = len(rows)
        self.across = [i for i, row in enumerate(rows) if row.across is not None]
        self.lengths = [(i, row.length) for i, row in enumerate(rows) if row.length is not None]
        self.along = [i for i, row in enumerate(rows) if row.across is None and row.length is None]
        self.turned = np.array([rows[i].along for i in self.across]).reshape(-1, 3)
        self.stays = np.array([rows[i].across for i in self.across]).reshape(-1, 3)
        self.directions = np.array([rows[i].along for i in self.along]).reshape(-1, 3)

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """Return φ, (count,), and K, (count, width)."""
        P, F = (self.posture.frame(end) for end in self.loop.ends)
        w, u = self.posture.motion(self.signs, F.p)
        phi = np.zeros(self.count)
        K = np.zeros((self.count, self.posture.width))
        d = F.p - P.p
        if self.along:
            normals = self.directions @ P.R.T
            phi[self.along], K[self.along] = normals @ d, normals @ u
        if self.across:
            a = self.turned @ F.R.T
            b = self.stays @ P.R.T
            phi[self.across], K[self.across] = (a * b).sum(axis=1), _cross(a.T, b.T).T @ w
        for i, length in self.lengths:
            phi[i], K[i] = 0.5 * (d @ d - length * length), d @ u
        return phi, K


class ImplicitRows:
    """The equations of an implicit constraint over floats, with K by finite differences."""

    def __init__(self, constraint: ImplicitConstraint, posture: NumericPosture) -> None:
        self.constraint = constraint
        self.posture = posture

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """Return φ, (count,), and K, (count, width), accurate to about 1e-9."""
        coordinates = [self.posture.q(k) for k in self.constraint.joints]
        phi = self._phi(coordinates)
        K = np.zeros((len(phi), self.posture.width))
        for n, k in enumerate(self.constraint.joints):
            kind = self.posture.joint(k).kind
            first = self.posture.columns[k].start
            for column, e in enumerate(DIFFERENCE_STEP * np.eye(kind.nv)):
                forward, back = (
                    self._phi(
                        [*coordinates[:n], kind.numeric_integrate(coordinates[n], x), *coordinates[n + 1 :]]
                    )
                    for x in (e, -e)
                )
                K[:, first + column] = (forward - back) / (2.0 * DIFFERENCE_STEP)
        return phi, K

    def _phi(self, coordinates: list[np.ndarray]) -> np.ndarray:
        return self.constraint.phi(np.concatenate(coordinates)).astype(float)


class OtherRows:
    """The equations of any other loop constraint over floats: as it gives them itself."""

    def __init__(self, constraint: LoopConstraint, posture: NumericPosture) -> None:
        self.constraint = constraint
        self.posture = posture

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

    With a `rank`, which is less than the number of rows, redundant equations are among these: all are closed
    in the sense of least squares, by as many directions as the rank. With `blocks`, each (rows, dependent
    velocities) of one cluster among these, the other velocities are independent, and tangents are given by
    them; without, tangents are projected onto the null space of K, as constrained loops need it.
    """

    def __init__(
        self,
        model: Mechanism,
        bodies: Sequence[int],
        constraints: Sequence[LoopConstraint],
        rows: Sequence[int] | None = None,
        blocks: Sequence[tuple[Sequence[int], Sequence[int]]] | None = None,
        rank: int | None = None,
    ) -> None:
        self.model, self.bodies, self.constraints = model, tuple(bodies), tuple(constraints)
        self.posture = NumericPosture(model, bodies)
        self._equations = [_rows(c, self.posture) for c in constraints]
        size = length_of(model, bodies, constraints)
        self._units = row_units(model, constraints, size)
        self.rows = list(range(len(self._units)) if rows is None else rows)
        self.rank = rank
        self.velocity_units = velocity_units(model, bodies, size)
        self.blocks = blocks and [(list(rows), list(dependent)) for rows, dependent in blocks]
        self.dependent = sorted(c for _, dependent in self.blocks or () for c in dependent)
        self.independent = [c for c in range(self.posture.size) if c not in self.dependent]
        places = [(model.joints[k].q_slice, self.posture.own[k]) for k in bodies]
        simple = [
            (q, v) for k, (q, v) in zip(bodies, places) if model.joints[k].nq == model.joints[k].nv == 1
        ]
        self._simple = (
            np.array([q.start for q, _ in simple], dtype=int),
            np.array([v.start for _, v in simple], dtype=int),
        )
        self._other = [k for k in bodies if not model.joints[k].nq == model.joints[k].nv == 1]
        self.coordinates = np.concatenate([np.arange(q.start, q.stop) for q, _ in places])
        self.lower = np.concatenate([np.array(model.joints[k].lower) for k in bodies])
        self.upper = np.concatenate([np.array(model.joints[k].upper) for k in bodies])

    def at(self, q: np.ndarray, rows: list[int] | None = None) -> Linearisation:
        """Return the linearized equations at q, (nq,)."""
        self.posture.move(q)
        evaluated = [one.evaluate() for one in self._equations]
        phi = np.concatenate([phi for phi, _ in evaluated])
        K = np.concatenate([K for _, K in evaluated])
        used_rows = self.rows if rows is None else rows
        scale = 1.0 / self._units[used_rows]
        return Linearisation(phi[used_rows] * scale, K[used_rows] * scale[:, None])

    def missed(self, q: np.ndarray) -> float:
        """Return the largest residual of all equations at q; infinite if an axis is flipped."""
        self.posture.move(q)
        phi = np.concatenate([one.evaluate()[0] for one in self._equations]) / self._units
        flipped = any(x > 0.0 for c in self.constraints for x in c.flipped_axes(self.posture))
        return np.inf if flipped else float(np.abs(phi).max(initial=0.0))

    def has_rank(self, q: np.ndarray) -> bool:
        """Return whether redundant equations are redundant at q too, (nq,):
        on other branches they may not be.
        """
        if self.rank is None:
            return True
        K = self.at(q, list(range(len(self._units)))).K * self.velocity_units
        s = np.linalg.svd(K, compute_uv=False)
        tolerance = DEFAULT_TOLERANCE if self.model.tolerance is None else self.model.tolerance
        return bool(len(s) == self.rank or s[self.rank] <= 10.0 * max(tolerance, DEFAULT_TOLERANCE) * s[0])

    def retract(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return q, (nq,), moved by a step of these bodies' joints, (size,)."""
        q = q.copy()
        places, columns = self._simple
        q[places] += step[columns]
        for joint in (self.model.joints[k] for k in self._other):
            q[joint.q_slice] = joint.kind.numeric_integrate(
                q[joint.q_slice], step[self.posture.own[joint.child]]
            )
        return q

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """Return the step from q0 to q1, (size,)."""
        joints = [self.model.joints[k] for k in self.bodies]
        return np.concatenate(
            [np.asarray(j.kind.difference(q0[j.q_slice], q1[j.q_slice]), dtype=float) for j in joints]
        )

    def length(self, step: np.ndarray) -> float:
        """Return the largest entry of a step [rad, or lengths of the loop]."""
        return float(np.abs(step / self.velocity_units).max(initial=0.0))

    def within(self, q: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> bool:
        """Return whether the coordinates are within limits, up to rounding."""
        values = q[self.coordinates]
        return bool(np.all(values >= lower - 1e-12) and np.all(values <= upper + 1e-12))

    def steps(self, linearisation: Linearisation, way: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Newton correction that closes the loops, and the tangent along a path of the independent
        velocities, (size,) each.

        LinAlgError at a singularity of the coordinates. Without independent velocities the first is the one
        of least norm, and the second the part of the way along the manifold.
        """
        units = self.velocity_units
        if self.blocks is None:
            inverse = units[:, None] * self._inverse(linearisation.K * units)
            return -inverse @ linearisation.phi, way - inverse @ (linearisation.K @ way)
        A = linearisation.K[:, self.dependent]
        b = np.column_stack([linearisation.phi, linearisation.K @ way])
        if len(A) > A.shape[1]:
            Q, A = np.linalg.qr(A)
            b = Q.T @ b
        answer = np.linalg.solve(A, b)
        correction = np.zeros(len(units))
        tangent = way.copy()
        correction[self.dependent], tangent[self.dependent] = -answer[:, 0], -answer[:, 1]
        return correction, tangent

    def _inverse(self, K: np.ndarray) -> np.ndarray:
        """Return the pseudo-inverse of unit-free equations, by as many directions as their rank."""
        if self.rank is None:
            return np.linalg.pinv(K, rcond=RANK_TOL)
        return truncated_inverse(K, self.rank)

    def conditioning(self, linearisation: Linearisation) -> float:
        """Return the smallest singular value of the dependent part, relative to the largest: 0 at a
        singularity of the coordinates.

        Where no velocities are chosen, it is that of K: 0 also where equations are redundant.
        """
        every = [(range(len(self.rows)), range(self.posture.size))] if self.blocks is None else self.blocks
        worst = 1.0
        for rows, columns in every:
            s = np.linalg.svd(
                linearisation.K[np.ix_(rows, columns)] * self.velocity_units[columns], compute_uv=False
            )
            last = -1 if self.rank is None or self.blocks else self.rank - 1
            worst = min(worst, float(s[last] / s[0]) if len(s) and s[0] > 0.0 else 1.0)
        return worst

    def same_side(self, one: Linearisation, other: Linearisation) -> bool:
        """Return whether no singularity of the coordinates is between two states: a dependent part would
        change its orientation.

        Where redundant equations are used, the states must be near each other. Without chosen coordinates,
        their rank must not drop on the way.
        """
        if self.blocks is None and self.rank is not None:
            A, B = (state.K * self.velocity_units for state in (one, other))
            across = np.linalg.svd(A)[0][:, : self.rank]
            return bool(np.linalg.slogdet(across.T @ B @ A.T @ across)[0] > 0.0)
        for rows, columns in self.blocks or ():
            A, B = (state.K[np.ix_(rows, columns)] for state in (one, other))
            tall = len(rows) > len(columns)
            sign = (
                np.linalg.slogdet(A.T @ B)[0] if tall else np.linalg.slogdet(A)[0] * np.linalg.slogdet(B)[0]
            )
            if not sign > 0.0 and len(columns):
                return False
        return True

    def corrected(self, q: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the closed configuration near q by Newton steps of least norm, while these help, and its
        largest residual.

        What is closed already stays as it is. Equations that are not kept are closed too, as exactly as the
        model's numbers let them without opening the others.
        """
        closed, residual = self._corrected(q, self.rows)
        if self.rank is not None:
            return closed, residual
        if len(self.rows) < len(self._units) and EXACT_TOL < residual + self.missed(closed) < np.inf:
            every, _ = self._corrected(closed, list(range(len(self._units))))
            full_residual = float(np.abs(self.at(every).phi).max(initial=0.0))
            if full_residual <= max(residual, 10.0 * EXACT_TOL) and self.missed(every) < self.missed(closed):
                return every, full_residual
        return closed, residual

    def _corrected(self, q: np.ndarray, rows: list[int]) -> tuple[np.ndarray, float]:
        best = q
        best_residual = np.inf
        for _ in range(MAX_CORRECTIONS):
            linearisation = self.at(q, rows)
            units = self.velocity_units
            if self.rank is None:
                step = -units * np.linalg.lstsq(linearisation.K * units, linearisation.phi, rcond=RANK_TOL)[0]
                residual = float(np.abs(linearisation.phi).max(initial=0.0))
            else:
                step = -units * (self._inverse(linearisation.K * units) @ linearisation.phi)
                residual = float(np.abs(linearisation.K @ step).max(initial=0.0))  # what can be closed
            if not residual < best_residual:
                break
            best = q
            best_residual = residual
            if residual <= EXACT_TOL:
                break
            q = self.retract(q, step * min(1.0, 0.5 / max(self.length(step), 1e-300)))
        return best, best_residual


class Waypoint(NamedTuple):
    """A configuration on a walk, closed up to a small error, and the part of the way that is done, from 0 to
    1.
    """

    q: np.ndarray
    part: float


def walk(manifold: ClosureManifold, start: np.ndarray, way: np.ndarray) -> Iterator[Waypoint]:
    """Yield waypoints from a closed configuration along a path: a change of the independent velocities,
    (size,), zero for the others.

    It ends where the way is done, or before a singularity of the coordinates (their conditioning is poor, or
    an orientation would change), a limit of a joint, or the end of what can be closed. Waypoints are closed
    up to a part of a step: `ClosureManifold.corrected` closes those that are wanted. For constrained loops
    the way is a change of all velocities, of which the part along the manifold is walked until nothing of it
    is left.
    """
    free = manifold.blocks is None
    start_values = start[manifold.coordinates]
    # what it starts beyond, it may keep
    lower = np.minimum(manifold.lower, start_values)
    upper = np.maximum(manifold.upper, start_values)
    target = manifold.retract(start, way) if free else start
    anchor = manifold.at(start)
    worst = min(MIN_CONDITIONING, 0.05 * manifold.conditioning(anchor))
    q = start
    part = 0.0
    stride = FIRST_STEP
    yield Waypoint(q, part)
    try:
        correction, tangent = manifold.steps(anchor, way)
    except np.linalg.LinAlgError:
        return
    for _ in range(MAX_STEPS):
        tangent_length = manifold.length(tangent)
        if tangent_length == 0.0 or (free and tangent_length < NEGLIGIBLE_PATH):
            return
        fraction = min(1.0 - part, stride / tangent_length)
        candidate = manifold.retract(q, fraction * tangent + correction)
        ahead = manifold.at(candidate)
        aim = manifold.difference(candidate, target) if free else way
        try:
            next_correction, next_tangent = manifold.steps(ahead, aim)
            off = manifold.length(next_correction) / (fraction * tangent_length)
        except np.linalg.LinAlgError:
            off = np.inf
        accepted = (
            off <= MAX_CORRECTION
            and manifold.within(candidate, lower, upper)
            and manifold.same_side(anchor, ahead)
        )
        if accepted and manifold.conditioning(ahead) >= worst:
            anchor = ahead
            q = candidate
            correction = next_correction
            tangent = next_tangent
            part = 0.0 if free else part + fraction
            stride = min(2.0 * stride, MAX_STEP) if off < SMALL_CORRECTION else stride
            yield Waypoint(q, part)
            if part >= 1.0:
                return
        else:
            stride = fraction * tangent_length / 4.0
            if stride < MIN_STEP:
                return
