"""Closed states of models: neutral and random, on one assembly mode, within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from linkwork.errors import ClosureError, ModelError
from linkwork.loops.analysis import ClusterAnalysis
from linkwork.loops.close_family import close_family
from linkwork.loops.closing import CLOSURE_TOL, RANK_TOL, close
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.loops.closure_messages import CannotClose
from linkwork.loops.clusters import Cluster, find_families
from linkwork.loops.continuation import ClosureManifold, Waypoint, walk
from linkwork.loops.independent_rows import loops_with_independent_rows
from linkwork.loops.motion import all_equations, cluster_posture
from linkwork.loops.scales import length_of, row_units, velocity_units
from linkwork.mechanism import LoopConstraint
from linkwork.mechanism.names import join_names, printable
from linkwork.model.data import ModelData

UNBOUNDED = 1e3  # [rad or m]; larger limits count as none: files write 1e16
MAX_ATTEMPTS = 20  # random starting points before ClosureError
EXACT_TOL = 1e-12  # residual of returned states [rad, or lengths of the loop]
MAX_LIMITED_ATTEMPTS = 8  # starting points tried for a state within limits
MIN_CONDITIONING = 1e-6  # of the coordinates where continuation begins
BRANCHES = ("neutral", "any")


def neutral(model: ModelData) -> np.ndarray:
    """Return the neutral coordinates, closed and within limits where possible, (nq,)."""
    if "neutral" not in model.cache:
        q = model.tree_start()
        rng = np.random.default_rng(0)
        with families(model) as loop_families:
            for family in loop_families:
                q = family.closed(q, rng, within=True)
        model.cache["neutral"] = q
    return np.array(model.cache["neutral"])


def random_state(model: ModelData, rng: np.random.Generator, branch: str) -> tuple[np.ndarray, np.ndarray]:
    """Return random q, (nq,), with every loop closed, and random v, (nv,)."""
    if branch not in BRANCHES:
        raise ModelError(f"branch: expected {' or '.join(map(repr, BRANCHES))}, got {branch!r}")
    q = random_tree(model, rng)
    start = neutral(model) if model.loops and branch == "neutral" else q
    with families(model) as loop_families:
        for family in loop_families:
            q = family.walked(start, q, rng) if branch == "neutral" else family.closed(q, rng)
    v = rng.normal(size=model.nv)
    return q, _projected(model, q, v) if model.constrained_loops else v


def random_tree(model: ModelData, rng: np.random.Generator) -> np.ndarray:
    """Return random coordinates within finite limits, (nq,); loops may be open."""
    q = [np.zeros(0)]
    for joint in model.joints:
        lower = np.array(joint.lower)
        upper = np.array(joint.upper)
        unlimited = joint.kind.random(rng)
        if joint.max_angle < np.pi:
            turn = rng.normal(size=3)
            turn *= joint.max_angle * rng.uniform() / np.linalg.norm(turn)
            unlimited = joint.kind.numeric_integrate(joint.kind.neutral(), turn)
        bounded = (np.abs(lower) < UNBOUNDED) & (np.abs(upper) < UNBOUNDED)
        within = rng.uniform(np.where(bounded, lower, 0.0), np.where(bounded, upper, 1.0))
        q.append(np.where(bounded, within, np.clip(unlimited, lower, upper)))
    return np.concatenate(q)


class Family:
    """Loops that are closed together: of one cluster, of coupled clusters, or constrained loops."""

    def __init__(
        self,
        model: ModelData,
        bodies: Sequence[int],
        constraints: Sequence[LoopConstraint],
        near: Callable[[np.ndarray], tuple[np.ndarray, float]],
        manifold: ClosureManifold | None,
    ) -> None:
        self.model = model
        self.bodies = tuple(bodies)
        self.constraints = tuple(constraints)
        self.near = near
        self.manifold = manifold  # None if all equations are linear
        joints = [model.joints[k] for k in bodies]
        self.places = np.concatenate([np.arange(j.q_slice.start, j.q_slice.stop) for j in joints])
        self.lower = np.concatenate([np.array(j.lower) for j in joints])
        self.upper = np.concatenate([np.array(j.upper) for j in joints])
        self._anchor: np.ndarray | None = None

    def closed(self, q: np.ndarray, rng: np.random.Generator, *, within: bool = False) -> np.ndarray:
        """Return q with these loops closed nearby, or from other starting points.

        With `within`, a closed state within the joint limits is preferred. Raise ClosureError if no starting
        point leads to a closed state.
        """
        first: np.ndarray | None = None
        for n, start in enumerate(self._start_points(q, rng)):
            closed = self._closed_near(start)
            if closed is not None and (not within or self._is_within(closed)):
                return closed
            first = closed if first is None else first
            if first is not None and n >= MAX_LIMITED_ATTEMPTS:
                break
        if first is None:
            raise ClosureError(self._failure_message(q))
        return first

    def _start_points(self, q: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield q, q clipped to the limits, and random coordinates."""
        yield q
        bounded = q.copy()
        bounded[self.places] = np.clip(q[self.places], self.lower, self.upper)
        yield bounded
        for _ in range(MAX_ATTEMPTS):
            other = q.copy()
            other[self.places] = random_tree(self.model, rng)[self.places]
            yield other

    def _closed_near(self, q: np.ndarray) -> np.ndarray | None:
        """Return closed coordinates near q, or None."""
        candidate, residual = self.near(q)
        if self.manifold is None:
            return candidate if residual < CLOSURE_TOL else None
        closed, corrected_residual = self.manifold.corrected(candidate)
        is_exact = corrected_residual <= EXACT_TOL and (
            residual < CLOSURE_TOL or self.manifold.missed(closed) < CLOSURE_TOL
        )
        return closed if is_exact and self._is_accepted(closed) else None

    def _is_accepted(self, q: np.ndarray) -> bool:
        """Return whether all loop gaps are within `closure_tolerance`, and the rank is the model's."""
        assert self.manifold is not None
        if not self.manifold.has_rank(q):
            return False
        posture = self.manifold.posture
        tolerances = dict(zip([c.name for c in self.model.loops], self.model.closure_tolerance))
        posture.move(q)
        return all(
            np.all(np.array(c.gap(posture), dtype=float) <= tolerances[c.name]) for c in self.constraints
        )

    def walked(self, start: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the point closest to q on the closed path from `start` that keeps limits and regularity."""
        fraction = rng.uniform() if self.manifold else 1.0
        result = q.copy()
        if self.manifold is None:
            result[self.places] = self._clipped_to_limits(start, self.closed(q, rng))[self.places]
            return result
        manifold = self.manifold
        anchor = self._regular_anchor(start)
        displacement = manifold.difference(anchor, q)
        displacement[manifold.dependent] = 0.0
        waypoints = list(walk(manifold, anchor, displacement))
        if waypoints[-1].part >= 1.0 or manifold.blocks is None:
            fraction = 1.0
        reached = _waypoints_up_to(manifold, waypoints, fraction)
        closed = next(
            (q for q in map(partial(self._accepted_waypoint, anchor), reversed(reached)) if q is not None),
            anchor,
        )
        result[self.places] = closed[self.places]
        return result

    def _accepted_waypoint(self, anchor: np.ndarray, q: np.ndarray) -> np.ndarray | None:
        """Return a waypoint closed exactly, or None beyond limits or a singularity."""
        assert self.manifold is not None
        closed, residual = self.manifold.corrected(q)
        # with redundant equations, only nearby states can be compared
        reference = q if self.manifold.rank is not None else anchor
        accepted = residual <= EXACT_TOL and self.manifold.same_side(
            self.manifold.at(reference), self.manifold.at(closed)
        )
        accepted = (
            accepted
            and self._is_accepted(closed)
            and (self._is_within(closed) or not self._is_within(anchor))
        )
        return closed if accepted else None

    def _regular_anchor(self, start: np.ndarray) -> np.ndarray:
        """Return the start of continuation: `start`, or a better conditioned closed state near it."""
        if self._anchor is None:
            assert self.manifold is not None
            self._anchor = start
            rng = np.random.default_rng(0)
            best = self.manifold.conditioning(self.manifold.at(start))
            min_gain = 0.0 if self.manifold.blocks else MIN_CONDITIONING  # all equations may be dependent
            for n in range(20 if best < MIN_CONDITIONING else 0):
                displacement = (
                    rng.normal(size=self.manifold.posture.size)
                    * (0.1 + 0.02 * n)
                    * self.manifold.velocity_units
                )
                closed = self._closed_near(self.manifold.retract(start, displacement))
                if closed is not None:
                    conditioning = self.manifold.conditioning(self.manifold.at(closed))
                    is_better = conditioning > max(2.0 * best, min_gain)
                    if is_better and (self._is_within(closed) or not self._is_within(start)):
                        self._anchor = closed
                        best = conditioning
        return self._anchor

    def _is_within(self, q: np.ndarray) -> bool:
        """Return whether q is within the joint limits."""
        values = q[self.places]
        return bool(np.all(values >= self.lower - 1e-9) and np.all(values <= self.upper + 1e-9))

    def _clipped_to_limits(self, start: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return the point within limits nearest to q on the line from `start`, for linear equations."""
        is_vector_space = all(self.model.joints[k].nq == self.model.joints[k].nv for k in self.bodies)
        if self._is_within(q) or not self._is_within(start) or not is_vector_space:
            return q
        a = start[self.places]
        d = q[self.places] - start[self.places]
        with np.errstate(divide="ignore", invalid="ignore"):
            to_lower = np.where(d < 0.0, (self.lower - a) / d, np.inf)
            to_limit = np.where(d > 0.0, (self.upper - a) / d, to_lower)
        clipped = q.copy()
        clipped[self.places] = a + d * float(np.clip(to_limit.min(), 0.0, 1.0))
        return clipped

    def _failure_message(self, q: np.ndarray) -> str:
        """Return an error message that names the loop with the widest gap near q."""
        closest, _ = self.near(q)
        gaps = ClosureProblem(self.model, self.bodies, self.constraints).gaps(closest)
        (metres, radians), name = max(
            zip(gaps, (c.name for c in self.constraints)), key=lambda gap: max(gap[0])
        )
        names = join_names([repr(c.name) for c in self.constraints])
        return (
            f"{printable(self.model.name)}: {names} cannot be closed from {MAX_ATTEMPTS} starting points: "
            f"near the neutral state, {name!r} is open by {metres:.3g} m and {radians:.3g} rad; check "
            "placements, lengths and limits of joints"
        )


def _waypoints_up_to(
    manifold: ClosureManifold, waypoints: Sequence[Waypoint], part: float
) -> list[np.ndarray]:
    """Return the waypoints up to a fraction of the path, and the interpolated configuration there."""
    target = part * waypoints[-1].part
    reached = [w for w in waypoints if w.part <= target]
    configurations = [w.q for w in reached]
    if len(reached) < len(waypoints):
        last = reached[-1]
        following = waypoints[len(reached)]
        share = (target - last.part) / (following.part - last.part)
        configurations.append(manifold.retract(last.q, share * manifold.difference(last.q, following.q)))
    return configurations


@contextmanager
def families(model: ModelData) -> Iterator[list[Family]]:
    """Borrow the loop families of a model, for one thread at a time.

    They are cached with the model, and created anew if all are in use.
    """
    cached = model.cache.setdefault("families", [])
    try:
        loop_families = cached.pop()
    except IndexError:
        loop_families = _constrained_families(model) if model.constrained_loops else _embedded_families(model)
    yield loop_families
    cached.append(loop_families)


def _embedded_families(model: ModelData) -> list[Family]:
    """Return the families of embedded loops, joining clusters that share supports."""
    coupled_clusters: dict[int, list[Cluster]] = {}  # clusters by common supporting bodies
    for cluster in model.clusters if model.embedded else ():
        if cluster.constraints:
            coupled_clusters.setdefault(cluster.family[0], []).append(cluster)
    loop_families = []
    for clusters in coupled_clusters.values():
        bodies = [k for c in clusters for k in c.bodies]
        constraints = [c for cluster in clusters for c in cluster.constraints]
        manifold = None if all(c.linear for c in constraints) else _manifold(model, clusters)
        loop_families.append(
            Family(model, bodies, constraints, partial(close_family, model, clusters), manifold)
        )
    return loop_families


def _manifold(model: ModelData, clusters: Sequence[Cluster]) -> ClosureManifold:
    """Return the closed configurations of coupled clusters over independent velocities."""
    bodies = [k for c in clusters for k in c.bodies]
    constraints = [c for one in clusters for c in one.constraints]
    rows: list[int] = []
    blocks = []
    equations = 0
    velocities = 0
    for cluster in clusters:
        used = range(len(rows), len(rows) + len(cluster.used))
        blocks.append((used, [velocities + c for c in cluster.dependent]))
        rows += [equations + row for row in cluster.used]
        equations += sum(c.count(model.joints) for c in cluster.constraints)
        velocities += sum(model.joints[k].nv for k in cluster.bodies)
    rank = sum(len(c.rows) for c in clusters) if any(c.overdetermined for c in clusters) else None
    return ClosureManifold(model, bodies, constraints, rows, blocks, rank)


def _constrained_families(model: ModelData) -> list[Family]:
    """Return the families of all loops of a model with constrained loops."""
    reduced_loops = {
        loop.name: loop
        for cluster in model.clusters
        if cluster.constraints
        for loop in loops_with_independent_rows(model, cluster)
    }
    loop_families = []
    for bodies, loops in find_families(model.joints, model.loops):
        if not loops:
            continue
        rows = []
        equations = 0
        for loop in loops:
            count = loop.count(model.joints)
            independent = getattr(reduced_loops.get(loop.name, loop), "independent_rows", None)
            rows += [equations + i for i in (range(count) if independent is None else independent)]
            equations += count
        linear = all(c.linear for c in loops)
        cluster = None if linear else closable_cluster(model, bodies, loops)
        manifold: ClosureManifold | None
        if cluster and cluster.overdetermined:
            near = partial(close, model, bodies, loops, slack=cluster.slack)
            manifold = ClosureManifold(model, bodies, loops, rank=len(cluster.rows))
        else:
            near = partial(close, model, bodies, loops)
            manifold = None if linear else ClosureManifold(model, bodies, loops, rows)
        loop_families.append(Family(model, bodies, loops, near, manifold))
    return loop_families


def closable_cluster(
    model: ModelData, bodies: Sequence[int], loops: Sequence[LoopConstraint]
) -> Cluster | None:
    """Return `constrained_cluster`, or None where no configuration closes the loops.

    Whoever closes them then raises a ClosureError with the distances.
    """
    try:
        return constrained_cluster(model, bodies, loops)
    except CannotClose:
        return None


def constrained_cluster(model: ModelData, bodies: Sequence[int], loops: Sequence[LoopConstraint]) -> Cluster:
    """Return the cluster of loops that share bodies, with independent equations at closed states; cached."""
    cached = model.cache.setdefault(constrained_cluster, {})
    key = tuple(bodies)
    if key not in cached:
        cached[key] = ClusterAnalysis(model).constrained_cluster(
            (list(bodies), [loop.with_independent_rows(None) for loop in loops])
        )
    cluster: Cluster = cached[key]
    return cluster


def _projected(model: ModelData, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return v, (nv,), projected onto the velocities that keep the constrained loops closed.

    Only as many combinations of the loop equations are used as their rank: with rounded numbers, redundant
    equations contradict each other, and all of them together would permit no motion.
    """
    places = {name: k for k, name in enumerate(model.v_names)}
    for bodies, loops in find_families(model.joints, model.loops):
        if set(loops) & set(model.constrained_loops):
            names = [name for k in bodies for name in model.joints[k].v_names]
            family_velocity = np.array([v[places[name]] if name in places else 0.0 for name in names])
            normals = _normals(model, q, bodies, loops)
            family_velocity -= np.linalg.pinv(normals) @ (normals @ family_velocity)
            for name, x in zip(names, family_velocity):
                if name in places:
                    v[places[name]] = x
    return v


def _normals(
    model: ModelData, q: np.ndarray, bodies: Sequence[int], loops: Sequence[LoopConstraint]
) -> np.ndarray:
    """Return combinations of the equations of loops, as many as their rank, (rank, velocities)."""
    size = length_of(model, bodies, loops)
    columns = velocity_units(model, bodies, size)
    K = all_equations(cluster_posture(model, bodies, q), loops)[0].astype(float)
    _, s, directions = np.linalg.svd(K * columns / row_units(model, loops, size)[:, None])
    rank = min(
        len(constrained_cluster(model, bodies, loops).rows), int(np.sum(s > RANK_TOL * s.max(initial=0.0)))
    )
    normals: np.ndarray = directions[:rank] / columns
    return normals
