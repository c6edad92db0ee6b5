"""How clusters can move: the ranks of their equations, found at closed states; and which of them can be taken alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.parts import End, LoopConstraint, Mechanism
from linkwork.parts.limits import Budget, Limits
from linkwork.parts.names import some
from linkwork.topology.clusters import Cluster, Group, find_clusters, group_of, supports_of
from linkwork.topology.couplings import following
from linkwork.topology.embedding import Embedding, plain_body
from linkwork.topology.kinematics import BodyMotion
from linkwork.topology.motion import ClusterPosture, all_equations, cluster_posture, residuals
from linkwork.topology.numeric import NumericPosture

ATTEMPTS, STEPS = 40, 60  # to close a loop: starting points, and Newton steps from each
CLOSED = 1e-11  # relative to the size of the mechanism
RANK = 1e-7  # of singular values, relative to the largest


def clusters_of(model: Mechanism, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """The clusters of a model, parents before children; with `limits`, LimitError where they would take too long to find.

    A group that stands on several bodies is a cluster of its own if its joints can follow these bodies however they move;
    where its constraints take freedom from them, both groups become one.
    """
    groups = find_clusters(model.joints, model.embedded)
    analyst = Analyst(model, limits)
    found: list[Cluster] = []
    supports, below = _standing(model, groups)
    stood_on = set(below)
    while len(found) < len(groups):
        n = len(found)
        on = below[n]
        try:
            stands = () if on is None else (supports[n], found[on])
            found.append(analyst.cluster(groups[n], *stands, keep=n in stood_on))
        except ModelError as told:  # perhaps not if it is taken together with what it stands on, or with what stands on it
            others = [i for i in range(n + 1, len(groups)) if below[i] == n] if on is None else [on]
            if not others or isinstance(told, LimitError) or (on is None and isinstance(told, CannotClose)):
                raise
            one, two = sorted([n, others[0]])
            (bodies, constraints), (more, further) = groups[one], groups.pop(two)
            groups[one] = sorted([*bodies, *more]), [c for c in model.embedded if c in constraints or c in further]
            del found[one:]
            supports, below = _standing(model, groups)
            stood_on = set(below)
    return tuple(found)


class CannotClose(ModelError):
    """Loops that no state closes, whatever else there is."""


def _standing(model: Mechanism, groups: list[Group]) -> tuple[list[list[int]], list[int | None]]:
    """The supports of each group, and which group it stands on by several; None where it stands on one body."""
    where = group_of(groups)
    supports = [supports_of(model.joints, group) for group in groups]
    return supports, [where[own[0]] if len(own) > 1 else None for own in supports]


def close(
    model: Mechanism,
    bodies: Sequence[int],
    constraints: Sequence[LoopConstraint],
    q: np.ndarray,
    below: ClusterPosture | None = None,
    supports: Sequence[int] = (),
    budget: Budget | None = None,
) -> tuple[np.ndarray, float]:
    """A closed state near q, by Newton steps of least length, and how far it is from closed.

    Where it stands on several supports, the cluster below, whose posture is given, stays. Work is counted in a `budget`.
    """
    q = np.array(q, dtype=float)
    simply = following(bodies, constraints, model.joints)
    if simply:
        q = simply.nearest(q, model.joints)
        return q, simply.miss(q, model.joints)
    best, worst = q, np.inf
    posture = NumericPosture(model, bodies, below, supports)
    work = len(bodies) + sum(c.count(model.joints) for c in constraints)
    for _ in range(STEPS):
        if budget:
            budget.take(work)
        posture.move(q)
        phi = residuals(posture, constraints).astype(float)
        size = float(np.abs(phi).max(initial=0.0))
        miss = max([size, *(float(x) for c in constraints for x in c.turned_over(posture))])
        if miss < worst:
            best, worst = q, miss
        if size < 1e-14 or not np.isfinite(size):
            break
        K = all_equations(posture, constraints)[0].astype(float)
        step = -np.linalg.lstsq(K[:, : posture.size], phi, rcond=1e-9)[0]
        step *= min(1.0, 0.5 / (np.abs(step).max() + 1e-300))
        q = q.copy()
        for k in bodies:
            joint = model.joints[k]
            q[joint.q_slice] = joint.kind.integrate(q[joint.q_slice], step[posture.columns[k]])
    return best, worst


def close_family(model: Mechanism, family: Sequence[Cluster], q: np.ndarray) -> tuple[np.ndarray, float]:
    """The same for clusters that stand on one another: one after the other, or all at once where one cannot be closed so."""
    if len(family) == 1:
        return close(model, family[0].bodies, family[0].constraints, q)
    found = q
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in family:
        below = postures[cluster.below.bodies] if cluster.below else None
        neutral = found.copy()
        for joint in (model.joints[k] for k in cluster.bodies):
            neutral[joint.q_slice] = joint.kind.neutral()
        for start in (found, neutral) if cluster.independent else (neutral, found):
            found, miss = close(model, cluster.bodies, cluster.constraints, start, below, cluster.supports)
            if miss < CLOSED:
                break
        else:
            bodies, constraints = [k for c in family for k in c.bodies], [c for one in family for c in one.constraints]
            return close(model, bodies, constraints, q)
        postures[cluster.bodies] = cluster_posture(model, cluster.bodies, found, below, cluster.supports)
    return found, miss


class State(NamedTuple):
    """A state q, (nq,), in which a cluster is closed, and how the cluster below moves there, where it has several supports."""

    q: np.ndarray
    below: Embedding[BodyMotion] | None


class Analyst:
    """Finds the equations to keep and the independent velocities of a model's clusters, at closed states."""

    def __init__(self, model: Mechanism, limits: Limits | None = None) -> None:
        self.model, self.rng = model, np.random.default_rng(0)
        self.limits, self._budget = limits, Budget(limits)
        self._neutral = model.tree_neutral()
        self._carrying = {joint.parent for joint in model.joints}
        self._known: dict[Any, tuple[Cluster, list[State]]] = {}  # by all that decides it: chains repeat themselves
        self._closed: dict[tuple[int, ...], tuple[Cluster, list[State]]] = {}  # of a cluster's bodies, or of some like them
        self._stood_on: dict[tuple[int, ...], list[State]] = {}

    def cluster(
        self, group: Group, supports: Sequence[int] = (), below: Cluster | None = None, *, keep: bool = True
    ) -> Cluster:
        """The cluster of a group that stands on one body, or on several supports in the cluster below.

        Its closed states are kept, if they are asked to be: others may stand on it.
        """
        bodies, constraints = tuple(group[0]), tuple(group[1])
        if not constraints:
            return Cluster(bodies, independent=tuple(range(self.model.joints[bodies[0]].nv)))
        self._stood_on.pop(bodies, None)
        content = object() if below else (keep, self._content(bodies, constraints))
        if content not in self._known:
            found, states = self._analysed(Cluster(bodies, constraints, supports=tuple(supports), below=below))
            self._known[content] = found, states if keep else []
        like, _ = self._closed[bodies] = self._known[content]
        return replace(like, bodies=bodies, constraints=constraints)

    def _analysed(self, cluster: Cluster) -> tuple[Cluster, list[State]]:
        """The cluster with its equations and independent velocities, and the states that they were found at."""
        model, constraints, rng = self.model, cluster.constraints, np.random.default_rng(0)
        best: tuple[float, np.ndarray, State] | None = None
        nearest, rank = np.inf, 0
        closed: list[tuple[int, State]] = []
        linear = all(c.linear for c in constraints)  # then all states are alike
        simple = self._followed(cluster)
        if simple:
            return simple
        names = some([repr(c.name) for c in constraints])
        links = some([repr(model.bodies[k].name) for k in cluster.bodies])
        if self.limits and len(cluster.bodies) > self.limits.cluster:
            raise LimitError(
                f"{names} tie {len(cluster.bodies)} links together, and at most {self.limits.cluster} are taken: "
                f"{self.limits.raised('cluster')}"
            )
        for attempt in range(ATTEMPTS):
            try:
                state, miss = self._closed_state(cluster, attempt, rng)
            except LimitError as told:
                tried = "" if closed else f"{attempt} tries found no closed state, and the nearest misses by {nearest:.3g}: "
                raise LimitError(f"{names}: {tried}{told}") from None
            nearest = min(nearest, miss)
            if miss < CLOSED:
                posture = self._posture(cluster, state)
                K = all_equations(posture, constraints)[0].astype(float)[:, : posture.size]
                s = np.linalg.svd(K, compute_uv=False)
                r = _rank(s)
                quality = float(s[r - 1] / s[0]) if r else 1.0
                if best is None or r > rank or (r == rank and quality > best[0] * 1.5):
                    best, rank = (quality, K, state), r
                closed.append((r, state))
                if linear or attempt >= (3 if cluster.below else 8):
                    break
        if best is None:
            raise CannotClose(
                f"{names} cannot be closed: the nearest state found misses by {nearest:.3g}; check places and lengths"
            )
        _, K, state = best
        if rank == K.shape[1] and not cluster.below:
            raise ModelError(f"{names} leave the links {links} no freedom: fix them to one another instead")
        rows = _most_independent(K, rank)
        independent = _independent(model, list(cluster.bodies), K[rows], rank, names)
        cluster = replace(cluster, independent=tuple(independent), rows=tuple(rows), count=len(K))
        states = [state for r, state in closed if r == rank]
        if linear and not cluster.below:
            return cluster, states
        for one in states if cluster.below else [state]:  # those below could move it where it cannot go: ask them all
            if not _holds(self._embedding(cluster, one), constraints):
                raise ModelError(
                    f"{names} close in singular states only, from which the links {links} cannot move on: "
                    "check places and lengths"
                )
        return cluster, states

    def _followed(self, cluster: Cluster) -> tuple[Cluster, list[State]] | None:
        """The same for joints that follow others one after the other, as mimics do; None where it is not so simple."""
        joints = self.model.joints
        simply = following(cluster.bodies, cluster.constraints, joints)
        if simply is None:
            return None
        wishes = [joints[k].independent for k in cluster.bodies for _ in range(joints[k].nv)]
        independent = tuple(c for c, wish in enumerate(wishes) if wish is not False)
        start, below = self._stand(cluster.below, 0) if cluster.below else State(self._neutral, None)
        q = simply.nearest(start, joints)
        if not independent or simply.miss(q, joints) >= CLOSED:
            return None
        count = len(cluster.constraints)
        return replace(cluster, independent=independent, rows=tuple(range(count)), count=count), [State(q, below)]

    def _closed_state(self, cluster: Cluster, attempt: int, rng: np.random.Generator) -> tuple[State, float]:
        """A state that may be closed, and by how much it misses: at first from neutral coordinates, then from any.

        On several supports, those below keep their state as long as that does.
        """
        model = self.model
        q, below = self._stand(cluster.below, attempt) if cluster.below else State(self._neutral.copy(), None)
        for k in cluster.bodies if attempt else ():
            q[model.joints[k].q_slice] = model.joints[k].kind.random(rng)
        if cluster.below and attempt >= ATTEMPTS // 2:
            q, _ = close(model, cluster.family, cluster.lineage, q, budget=self._budget)
            below = self._embedding(cluster.below, State(q, None))
        stays = below.posture if below else None
        q, miss = close(model, cluster.bodies, cluster.constraints, q, stays, cluster.supports, self._budget)
        return State(q, below), miss

    def _stand(self, cluster: Cluster, n: int) -> State:
        """A closed state of a cluster that another stands on, and how it moves there."""
        if cluster.bodies not in self._stood_on:
            like, states = self._closed[cluster.bodies]
            here = self._stood_on[cluster.bodies] = []
            for there, below in states:
                q = there.copy()
                for one, other in zip(cluster.bodies, like.bodies):
                    q[self.model.joints[one].q_slice] = there[self.model.joints[other].q_slice]
                here.append(State(q, self._embedding(cluster, State(q, below))))
        states = self._stood_on[cluster.bodies]
        q, embedding = states[n % len(states)]
        return State(q.copy(), embedding)

    def _posture(self, cluster: Cluster, state: State) -> ClusterPosture:
        below = state.below.posture if state.below else None
        return cluster_posture(self.model, cluster.bodies, state.q, below, cluster.supports)

    def _embedding(self, cluster: Cluster, state: State) -> Embedding[BodyMotion]:
        """How a cluster moves in a closed state, with some velocities."""
        if cluster.below and not state.below:
            state = State(state.q, self._embedding(cluster.below, state))
        m = len(cluster.independent)
        dy = self.rng.normal(size=m)
        return Embedding(self._posture(cluster, state), cluster, slice(0, m), dy, state.below, plain_body)

    def _content(self, bodies: tuple[int, ...], constraints: tuple[LoopConstraint, ...]) -> Any:
        """All that decides what will be found for a cluster that stands on one body."""
        index = {k: n for n, k in enumerate(bodies)}

        def there(end: End) -> Any:
            return index.get(end.body), end.place.R.tobytes(), end.place.p.tobytes()

        said: list[Any] = []
        for k in bodies:
            joint = self.model.joints[k]
            said.append((joint.kind, there(End(joint.parent, joint.place)), joint.independent, k in self._carrying))
        said += [c.content(index, there) for c in constraints]
        try:
            hash(tuple(said))
        except TypeError:  # a joint or a function of the user's own that cannot be compared
            return object()
        return tuple(said)


def _holds(embedding: Embedding[BodyMotion], constraints: Sequence[LoopConstraint]) -> bool:
    """Whether its motion keeps all equations, also those that were dropped, and those for accelerations."""
    posture, size = embedding.posture, embedding.posture.size
    K, k = (x.astype(float) for x in all_equations(posture, constraints, embedding.speeds))
    v, g = embedding.v.astype(float), embedding.whole.g
    V, alpha = np.zeros(0), np.zeros(0)
    if embedding.below:
        V = embedding.V.astype(float)
        alpha = np.concatenate([embedding.below.alpha(support) for support in posture.supports]).astype(float)
    speeds = K[:, :size] @ v + K[:, size:] @ V
    left = K[:, :size] @ g.astype(float) + K[:, size:] @ alpha - k
    largest = max(np.abs(x).max(initial=0.0) for x in (v, V, alpha, k))
    return bool(max(np.abs(speeds).max(initial=0.0), np.abs(left).max(initial=0.0)) <= 1e-6 * (1.0 + largest))


def kept_loops(model: Mechanism, cluster: Cluster) -> list[LoopConstraint]:
    """The constraints of a cluster, loop joints knowing which of their equations are kept."""
    found, start = [], 0
    for constraint in cluster.constraints:
        size = constraint.count(model.joints)
        found.append(constraint.with_kept(tuple(r - start for r in cluster.rows if start <= r < start + size)))
        start += size
    return found


def _rank(s: np.ndarray) -> int:
    """How many of a matrix's singular values, the largest first, are not zero."""
    return int(np.sum(s > RANK * s[0])) if len(s) and s[0] > 0 else 0


def _independent(model: Mechanism, bodies: list[int], K: np.ndarray, rank: int, names: str, *, asked: bool = True) -> list[int]:
    """The independent velocities: those that joints ask for, or those that leave the others best determined."""
    size = K.shape[1]
    wishes = [model.joints[k].independent for k in bodies for _ in range(model.joints[k].nv)]
    if asked and any(wish is not None for wish in wishes):
        chosen = [c for c, wish in enumerate(wishes) if wish is not False]
        told = some([repr(model.joints[k].name) for k in bodies if model.joints[k].independent is not False])
        if len(chosen) != size - rank and model.force_held:  # the wishes were for all loops embedded
            return _independent(model, bodies, K, rank, names, asked=False)
        if len(chosen) != size - rank:
            raise ModelError(f"{names} leave {size - rank} independent velocities, but {len(chosen)} are named: {told}")
        rest = sorted({*range(size)} - {*chosen})
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
    return sorted({*range(size)} - {*dependent.tolist()})


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
