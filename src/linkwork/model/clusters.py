"""From loops to clusters: which bodies must be taken together, and how they can move (Loops Sec. II-D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from linkwork.errors import ModelError
from linkwork.model.embedding import all_equations, cluster_motion, error, turned_over
from linkwork.model.loops import Constraint, Coupling, Loop
from linkwork.model.parts import PlacedJoint, way_down

if TYPE_CHECKING:
    from linkwork.model.model import Model

ATTEMPTS, STEPS = 40, 60  # to close a loop: starting points, and Newton steps from each
CLOSED = 1e-11  # relative to the size of the mechanism
RANK = 1e-7  # of singular values, relative to the largest


@dataclass(frozen=True)
class Cluster:
    """Bodies that move together: one node of the tree of clusters.

    `independent` are the places of its m velocities among those of its joints, one body after the other; `rows` the
    equations of its constraints that are kept, of `count` in all. A body in no loop is a cluster of its own.
    """

    bodies: tuple[int, ...]
    constraints: tuple[Constraint, ...] = ()
    independent: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    count: int = 0

    @property
    def dependent(self) -> list[int]:
        """The places of the other velocities: as many as equations are kept."""
        return [c for c in range(len(self.rows) + len(self.independent)) if c not in self.independent]


def kept_loops(model: Model, cluster: Cluster) -> list[Loop]:
    """The loops of a cluster, each knowing which of its equations are kept."""
    found, start = [], 0
    for constraint in cluster.constraints:
        if isinstance(constraint, Loop):
            size = len(constraint.kind.closure())
            found.append(replace(constraint, kept=tuple(r - start for r in cluster.rows if start <= r < start + size)))
        elif isinstance(constraint, Coupling):
            size = 1
        else:
            size = len(constraint.phi(np.concatenate([model.joints[j].kind.neutral() for j in constraint.joints])))
        start += size
    return found


def find_clusters(joints: Sequence[PlacedJoint], constraints: Sequence[Constraint]) -> list[tuple[list[int], list[Constraint]]]:
    """The smallest groups of bodies, each in order, such that every loop's bodies are in one, with their constraints.

    The ways of a loop's two ends from their nearest common ancestor, without that one, belong together. Such ways make
    circles in the graph of parents and children, and groups are its strongly connected parts.
    """
    group = list(range(len(joints)))

    def top(k: int) -> int:
        while group[k] != k:
            k = group[k]
        return k

    members: list[tuple[Constraint, list[int]]] = []
    for constraint in constraints:
        if isinstance(constraint, Loop) and not constraint.kind.closure():
            continue  # it leaves all freedom
        ends = _ends(constraint)
        ways = [way_down(end, joints) for end in ends]
        common = set(ways[0]).intersection(*ways[1:]) if ways else set()
        if not isinstance(constraint, Loop):
            common -= set(ends)  # a joint that is named belongs to it, also where the others hang on it
        loop = sorted({k for path in ways for k in path} - common)
        members.append((constraint, loop))
    for _, loop in members:
        for k in loop[1:]:
            group[top(k)] = top(loop[0])
    found: dict[int, tuple[list[int], list[Constraint]]] = {}
    for k in range(len(joints)):
        found.setdefault(top(k), ([], []))[0].append(k)
    for constraint, loop in members:
        if loop:
            found[top(loop[0])][1].append(constraint)
    return sorted(found.values(), key=lambda pair: pair[0][0])


def _ends(constraint: Constraint) -> tuple[int, ...]:
    if isinstance(constraint, Loop):
        return constraint.predecessor.body, constraint.successor.body
    return tuple(k for k, _, _ in constraint.terms) if isinstance(constraint, Coupling) else constraint.joints


def clusters_of(model: Model) -> tuple[Cluster, ...]:
    """The clusters of a model, parents before children."""
    if not model.constraints:
        return tuple(Cluster((k,), independent=tuple(range(joint.nv))) for k, joint in enumerate(model.joints))
    found = []
    for bodies, constraints in find_clusters(model.joints, model.constraints):
        if constraints:
            found.append(_analysed(model, bodies, constraints))
        else:
            found.append(Cluster(tuple(bodies), independent=tuple(range(model.joints[bodies[0]].nv))))
    return tuple(found)


def close(model: Model, bodies: Sequence[int], constraints: Sequence[Constraint], q: np.ndarray) -> tuple[np.ndarray, float]:
    """A closed state near q, by Newton steps of least length, and how far it is from closed."""
    q = np.array(q, dtype=float)
    best, worst = q, np.inf
    for _ in range(STEPS):
        motion = cluster_motion(model, bodies, q)
        phi = np.concatenate([error(motion, c) for c in constraints]).astype(float)
        size = float(np.abs(phi).max(initial=0.0))
        miss = max([size, *(float(x) for c in constraints for x in turned_over(motion, c))])
        if miss < worst:
            best, worst = q, miss
        if size < 1e-14 or not np.isfinite(size):
            break
        K = all_equations(motion, constraints)[0].astype(float)
        step = -np.linalg.lstsq(K, phi, rcond=1e-9)[0]
        step *= min(1.0, 0.5 / (np.abs(step).max() + 1e-300))
        q = q.copy()
        for k in bodies:
            joint = model.joints[k]
            q[joint.q_slice] = joint.kind.integrate(q[joint.q_slice], step[motion.columns[k]])
    return best, worst


def _analysed(model: Model, bodies: list[int], constraints: list[Constraint]) -> Cluster:
    """The cluster with its rank, the equations to keep and its independent velocities, found at closed states."""
    rng = np.random.default_rng(0)
    best: tuple[float, np.ndarray, bool] | None = None
    nearest, rank = np.inf, 0
    linear = all(isinstance(c, Coupling) for c in constraints)  # then all states are alike
    start = model.tree_neutral()
    for attempt in range(ATTEMPTS):
        q, miss = close(model, bodies, constraints, start)
        nearest = min(nearest, miss)
        if miss < CLOSED:
            K = all_equations(cluster_motion(model, bodies, q), constraints)[0].astype(float)
            s = np.linalg.svd(K, compute_uv=False)
            r = _rank(s)
            quality = float(s[r - 1] / s[0]) if r else 1.0
            if best is None or r > rank or (r == rank and quality > best[0] * 1.5):
                best, rank = (quality, K, _can_move(model, bodies, constraints, q, K, rng)), r
            if linear or attempt >= 8:
                break
        start = model.tree_random(rng)
    names = ", ".join(repr(c.name) for c in constraints)
    if best is None:
        raise ModelError(f"{names} cannot be closed: the nearest state found misses by {nearest:.3g}; check places and lengths")
    K = best[1]
    size = K.shape[1]
    if rank == size:
        raise ModelError(f"{names} leave the links {_links(model, bodies)} no freedom: fix them to one another instead")
    if not best[2]:
        raise ModelError(
            f"{names} close in singular states only, from which the links {_links(model, bodies)} cannot move on: "
            "check places and lengths"
        )
    rows = _most_independent(K, rank)
    independent = _independent(model, bodies, K[rows], rank, names)
    return Cluster(tuple(bodies), tuple(constraints), tuple(independent), tuple(rows), len(K))


def _rank(s: np.ndarray) -> int:
    """How many of a matrix's singular values, the largest first, are not zero."""
    return int(np.sum(s > RANK * s[0])) if len(s) and s[0] > 0 else 0


def _can_move(
    model: Model,
    bodies: Sequence[int],
    constraints: Sequence[Constraint],
    q: np.ndarray,
    K: np.ndarray,
    rng: np.random.Generator,
) -> bool:
    """Whether some acceleration keeps the loops closed in a random motion that does so: K v̇ = k for a v with K v = 0."""
    _, s, Vt = np.linalg.svd(K)
    null = Vt[_rank(s) :]
    v = null.T @ rng.normal(size=len(null))
    k = all_equations(cluster_motion(model, bodies, q), constraints, v)[1].astype(float)
    left = K @ np.linalg.lstsq(K, k, rcond=RANK)[0] - k
    return bool(np.abs(left).max(initial=0.0) <= 1e-6 * (1.0 + np.abs(k).max(initial=0.0)))


def _independent(model: Model, bodies: list[int], K: np.ndarray, rank: int, names: str) -> list[int]:
    """The independent velocities: those that joints ask for, or those that leave the others best determined."""
    size = K.shape[1]
    wishes = [model.joints[k].independent for k in bodies for _ in range(model.joints[k].nv)]
    if any(wish is not None for wish in wishes):
        chosen = [c for c, wish in enumerate(wishes) if wish is not False]
        told = ", ".join(repr(model.joints[k].name) for k in bodies if model.joints[k].independent is not False)
        if len(chosen) != size - rank and model.held:  # the wishes were for all loops embedded
            return _independent(model.without_wishes(), bodies, K, rank, names)
        if len(chosen) != size - rank:
            raise ModelError(f"{names} leave {size - rank} independent velocities, but {len(chosen)} are named: {told}")
        rest = [c for c in range(size) if c not in chosen]
        s = np.linalg.svd(K[:, rest], compute_uv=False)
        if rank and s[-1] < 1e-6 * s[0]:
            raise ModelError(f"{names}: the velocities of {told} do not determine the others; name other independent joints")
        return chosen
    # Rather those of bodies that carry nothing depend on the others: rotors on links, and not the reverse.
    carrying = {joint.parent for joint in model.joints}
    tips = [k not in carrying for k in bodies for _ in range(model.joints[k].nv)]
    scaled = K / np.abs(K).max(axis=1, keepdims=True)
    for candidates in (np.flatnonzero(tips), np.arange(size)):
        if len(candidates) >= rank:
            dependent = candidates[_most_independent(scaled[:, candidates].T, rank)]
            s = np.linalg.svd(scaled[:, dependent], compute_uv=False)
            if rank == 0 or s[-1] > 1e-3 * s[0]:
                break
    return [c for c in range(size) if c not in dependent]


def _most_independent(rows: np.ndarray, count: int) -> list[int]:
    """So many rows of a matrix, each the farthest from the span of those before it; in order."""
    left = np.array(rows, dtype=float)
    chosen: list[int] = []
    for _ in range(count):
        lengths = np.linalg.norm(left, axis=1)
        lengths[chosen] = -1.0
        first = int(np.argmax(lengths > 0.9 * lengths.max()))  # the first of those that are about as good as the best
        chosen.append(first)
        direction = left[first] / max(lengths[first], 1e-300)
        left = left - np.outer(left @ direction, direction)
    return sorted(chosen)


def _links(model: Model, bodies: Sequence[int]) -> str:
    return ", ".join(repr(model.bodies[k].name) for k in bodies)
