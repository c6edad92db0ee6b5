"""How clusters can move: the ranks of their equations, found at closed states; and which of them can be taken alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.model.clusters import Cluster, Group, feet_of, find_clusters, group_of
from linkwork.model.couplings import following
from linkwork.model.embedding import Embedding, Motion, all_equations, cluster_motion, equations, error, turned_over
from linkwork.model.limits import Budget, Limits
from linkwork.model.loops import Constraint, Coupling, End, Loop, count_rows
from linkwork.model.names import some
from linkwork.model.standing import Standing

if TYPE_CHECKING:
    from linkwork.model.model import Model

ATTEMPTS, STEPS = 40, 60  # to close a loop: starting points, and Newton steps from each
CLOSED = 1e-11  # relative to the size of the mechanism
RANK = 1e-7  # of singular values, relative to the largest


def clusters_of(model: Model, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """The clusters of a model, parents before children; with `limits`, LimitError where they would take too long to find.

    A group that stands on several bodies is a cluster of its own if its joints can follow these bodies however they move;
    where its constraints take freedom from them, both groups become one.
    """
    groups = find_clusters(model.joints, model.constraints)
    analyst = Analyst(model, limits)
    found: list[Cluster] = []
    feet, below = _standing(model, groups)
    stood_on = set(below)
    while len(found) < len(groups):
        n = len(found)
        on = below[n]
        try:
            stands = () if on is None else (feet[n], found[on])
            found.append(analyst.cluster(groups[n], *stands, keep=n in stood_on))
        except ModelError as told:  # perhaps not if it is taken together with what it stands on, or with what stands on it
            others = [i for i in range(n + 1, len(groups)) if below[i] == n] if on is None else [on]
            if not others or isinstance(told, LimitError) or (on is None and isinstance(told, CannotClose)):
                raise
            one, two = sorted([n, others[0]])
            (bodies, constraints), (more, further) = groups[one], groups.pop(two)
            groups[one] = sorted([*bodies, *more]), [c for c in model.constraints if c in constraints or c in further]
            del found[one:]
            feet, below = _standing(model, groups)
            stood_on = set(below)
    return tuple(found)


class CannotClose(ModelError):
    """Loops that no state closes, whatever else there is."""


def _standing(model: Model, groups: list[Group]) -> tuple[list[list[int]], list[int | None]]:
    """The feet of each group, and which group it stands on by several; None where it stands on one body."""
    where = group_of(groups)
    feet = [feet_of(model.joints, group) for group in groups]
    return feet, [where[own[0]] if len(own) > 1 else None for own in feet]


def close(
    model: Model,
    bodies: Sequence[int],
    constraints: Sequence[Constraint],
    q: np.ndarray,
    below: Motion | None = None,
    feet: Sequence[int] = (),
    budget: Budget | None = None,
) -> tuple[np.ndarray, float]:
    """A closed state near q, by Newton steps of least length, and how far it is from closed.

    Where it stands on several feet, the cluster below, whose motion is given, stays. Work is counted in a `budget`.
    """
    q = np.array(q, dtype=float)
    simply = following(bodies, constraints, model.joints)
    if simply:
        q = simply.nearest(q, model.joints)
        return q, simply.miss(q, model.joints)
    best, worst = q, np.inf
    motion = Standing(model, bodies, below, feet)
    rows = [c.kind.closure() if isinstance(c, Loop) else None for c in constraints]
    work = len(bodies) + sum(count_rows(c, model.joints) if own is None else len(own) for c, own in zip(constraints, rows))
    for _ in range(STEPS):
        if budget:
            budget.take(work)
        motion.move(q)
        phi = np.concatenate([error(motion, c, own) for c, own in zip(constraints, rows)]).astype(float)
        size = float(np.abs(phi).max(initial=0.0))
        miss = max([size, *(float(x) for c, own in zip(constraints, rows) for x in turned_over(motion, c, own))])
        if miss < worst:
            best, worst = q, miss
        if size < 1e-14 or not np.isfinite(size):
            break
        K = np.concatenate([equations(motion, c, None, own)[0] for c, own in zip(constraints, rows)]).astype(float)
        step = -np.linalg.lstsq(K[:, : motion.size], phi, rcond=1e-9)[0]
        step *= min(1.0, 0.5 / (np.abs(step).max() + 1e-300))
        q = q.copy()
        for k in bodies:
            joint = model.joints[k]
            q[joint.q_slice] = joint.kind.integrate(q[joint.q_slice], step[motion.columns[k]])
    return best, worst


def close_family(model: Model, family: Sequence[Cluster], q: np.ndarray) -> tuple[np.ndarray, float]:
    """The same for clusters that stand on one another: one after the other, or all at once where one cannot be closed so."""
    if len(family) == 1:
        return close(model, family[0].bodies, family[0].constraints, q)
    found = q
    motions: dict[tuple[int, ...], Motion] = {}
    for cluster in family:
        below = motions[cluster.below.bodies] if cluster.below else None
        neutral = found.copy()
        for joint in (model.joints[k] for k in cluster.bodies):
            neutral[joint.q_slice] = joint.kind.neutral()
        for start in (found, neutral) if cluster.independent else (neutral, found):
            found, miss = close(model, cluster.bodies, cluster.constraints, start, below, cluster.feet)
            if miss < CLOSED:
                break
        else:
            bodies, constraints = [k for c in family for k in c.bodies], [c for one in family for c in one.constraints]
            return close(model, bodies, constraints, q)
        motions[cluster.bodies] = cluster_motion(model, cluster.bodies, found, below, cluster.feet)
    return found, miss


class State(NamedTuple):
    """A state q, (nq,), in which a cluster is closed, and how the cluster below moves there, where it has several feet."""

    q: np.ndarray
    below: Embedding | None


class Analyst:
    """Finds the equations to keep and the independent velocities of a model's clusters, at closed states."""

    def __init__(self, model: Model, limits: Limits | None = None) -> None:
        self.model, self.rng = model, np.random.default_rng(0)
        self.limits, self._budget = limits, Budget(limits)
        self._neutral = model.tree_neutral()
        self._carrying = {joint.parent for joint in model.joints}
        self._known: dict[Any, tuple[Cluster, list[State]]] = {}  # by all that decides it: chains repeat themselves
        self._closed: dict[tuple[int, ...], tuple[Cluster, list[State]]] = {}  # of a cluster's bodies, or of some like them
        self._stood_on: dict[tuple[int, ...], list[State]] = {}

    def cluster(self, group: Group, feet: Sequence[int] = (), below: Cluster | None = None, *, keep: bool = True) -> Cluster:
        """The cluster of a group that stands on one body, or on several feet in the cluster below.

        Its closed states are kept, if they are asked to be: others may stand on it.
        """
        bodies, constraints = tuple(group[0]), tuple(group[1])
        if not constraints:
            return Cluster(bodies, independent=tuple(range(self.model.joints[bodies[0]].nv)))
        self._stood_on.pop(bodies, None)
        content = object() if below else (keep, self._content(bodies, constraints))
        if content not in self._known:
            found, states = self._analysed(Cluster(bodies, constraints, feet=tuple(feet), below=below))
            self._known[content] = found, states if keep else []
        like, _ = self._closed[bodies] = self._known[content]
        return replace(like, bodies=bodies, constraints=constraints)

    def _analysed(self, cluster: Cluster) -> tuple[Cluster, list[State]]:
        """The cluster with its equations and independent velocities, and the states that they were found at."""
        model, constraints, rng = self.model, cluster.constraints, np.random.default_rng(0)
        best: tuple[float, np.ndarray, State] | None = None
        nearest, rank = np.inf, 0
        closed: list[tuple[int, State]] = []
        linear = all(isinstance(c, Coupling) for c in constraints)  # then all states are alike
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
                motion = self._motion(cluster, state)
                K = all_equations(motion, constraints)[0].astype(float)[:, : motion.size]
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

        On several feet, those below keep their state as long as that does.
        """
        model = self.model
        q, below = self._stand(cluster.below, attempt) if cluster.below else State(self._neutral.copy(), None)
        for k in cluster.bodies if attempt else ():
            q[model.joints[k].q_slice] = model.joints[k].kind.random(rng)
        if cluster.below and attempt >= ATTEMPTS // 2:
            q, _ = close(model, cluster.family, cluster.lineage, q, budget=self._budget)
            below = self._embedding(cluster.below, State(q, None))
        stays = below.motion if below else None
        q, miss = close(model, cluster.bodies, cluster.constraints, q, stays, cluster.feet, self._budget)
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

    def _motion(self, cluster: Cluster, state: State) -> Motion:
        below = state.below.motion if state.below else None
        return cluster_motion(self.model, cluster.bodies, state.q, below, cluster.feet)

    def _embedding(self, cluster: Cluster, state: State) -> Embedding:
        """How a cluster moves in a closed state, with some velocities."""
        if cluster.below and not state.below:
            state = State(state.q, self._embedding(cluster.below, state))
        m = len(cluster.independent)
        return Embedding(self._motion(cluster, state), cluster, slice(0, m), self.rng.normal(size=m), state.below)

    def _content(self, bodies: tuple[int, ...], constraints: tuple[Constraint, ...]) -> Any:
        """All that decides what will be found for a cluster that stands on one body."""
        index = {k: n for n, k in enumerate(bodies)}

        def there(end: End) -> Any:
            return index.get(end.body), end.place.R.tobytes(), end.place.p.tobytes()

        said: list[Any] = []
        for k in bodies:
            joint = self.model.joints[k]
            said.append((joint.kind, there(End(joint.parent, joint.place)), joint.independent, k in self._carrying))
        for c in constraints:
            if isinstance(c, Loop):
                said.append((c.kind, there(c.predecessor), there(c.successor)))
            elif isinstance(c, Coupling):
                said.append((tuple((index[k], component, x) for k, component, x in c.terms), c.offset))
            else:
                said.append((c.function, tuple(index[k] for k in c.joints)))
        try:
            hash(tuple(said))
        except TypeError:  # a joint or a function of the user's own that cannot be compared
            return object()
        return tuple(said)


def _holds(embedding: Embedding, constraints: Sequence[Constraint]) -> bool:
    """Whether its motion keeps all equations, also those that were dropped, and those for accelerations."""
    motion, size = embedding.motion, embedding.motion.size
    K, k = (x.astype(float) for x in all_equations(motion, constraints, embedding.v))
    v, _, g = embedding.v.astype(float), *embedding.whole[1:]
    V, alpha = np.zeros(0), np.zeros(0)
    if embedding.below:
        V = motion.feet_motion().astype(float)
        alpha = np.concatenate([embedding.below.alpha(foot) for foot in motion.feet]).astype(float)
    speeds = K[:, :size] @ v + K[:, size:] @ V
    left = K[:, :size] @ g.astype(float) + K[:, size:] @ alpha - k
    largest = max(np.abs(x).max(initial=0.0) for x in (v, V, alpha, k))
    return bool(max(np.abs(speeds).max(initial=0.0), np.abs(left).max(initial=0.0)) <= 1e-6 * (1.0 + largest))


def kept_loops(model: Model, cluster: Cluster) -> list[Loop]:
    """The loops of a cluster, each knowing which of its equations are kept."""
    found, start = [], 0
    for constraint in cluster.constraints:
        size = count_rows(constraint, model.joints)
        if isinstance(constraint, Loop):
            found.append(replace(constraint, kept=tuple(r - start for r in cluster.rows if start <= r < start + size)))
        start += size
    return found


def _rank(s: np.ndarray) -> int:
    """How many of a matrix's singular values, the largest first, are not zero."""
    return int(np.sum(s > RANK * s[0])) if len(s) and s[0] > 0 else 0


def _independent(model: Model, bodies: list[int], K: np.ndarray, rank: int, names: str) -> list[int]:
    """The independent velocities: those that joints ask for, or those that leave the others best determined."""
    size = K.shape[1]
    wishes = [model.joints[k].independent for k in bodies for _ in range(model.joints[k].nv)]
    if any(wish is not None for wish in wishes):
        chosen = [c for c, wish in enumerate(wishes) if wish is not False]
        told = some([repr(model.joints[k].name) for k in bodies if model.joints[k].independent is not False])
        if len(chosen) != size - rank and model.held:  # the wishes were for all loops embedded
            return _independent(model.without_wishes(), bodies, K, rank, names)
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
