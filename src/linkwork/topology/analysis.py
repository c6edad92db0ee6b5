"""Mobility of clusters: the ranks of their constraint Jacobians at closed states, and their independent velocities."""

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
from linkwork.topology.couplings import explicit_couplings
from linkwork.topology.embedding import Embedding, plain_body
from linkwork.topology.kinematics import BodyMotion
from linkwork.topology.motion import ClusterPosture, all_equations, cluster_posture, residuals
from linkwork.topology.numeric import NumericPosture

ATTEMPTS, STEPS = 40, 60  # to close a loop: starting points, and Newton steps from each
CLOSED = 1e-11  # relative to the size of the mechanism
RANK = 1e-7  # of singular values, relative to the largest


def clusters_of(model: Mechanism, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """The clusters of a model, parents before children; with `limits`, LimitError where they would take too long to find.

    A group that hangs on several bodies, its supports, is a cluster of its own if its joints can follow these however they
    move; where its constraints reduce their degrees of freedom, both groups become one.
    """
    groups = find_clusters(model.joints, model.embedded)
    analysis = ClusterAnalysis(model, limits)
    found: list[Cluster] = []
    supports, below = _supports_of_groups(model, groups)
    supporting = set(below)
    while len(found) < len(groups):
        n = len(found)
        on = below[n]
        try:
            hanging = () if on is None else (supports[n], found[on])
            found.append(analysis.cluster(groups[n], *hanging, keep=n in supporting))
        except ModelError as told:  # perhaps not in one cluster with what it hangs on, or with what hangs on it
            others = [i for i in range(n + 1, len(groups)) if below[i] == n] if on is None else [on]
            if not others or isinstance(told, LimitError) or (on is None and isinstance(told, CannotClose)):
                raise
            one, two = sorted([n, others[0]])
            (bodies, constraints), (more, further) = groups[one], groups.pop(two)
            groups[one] = sorted([*bodies, *more]), [c for c in model.embedded if c in constraints or c in further]
            del found[one:]
            supports, below = _supports_of_groups(model, groups)
            supporting = set(below)
    return tuple(found)


class CannotClose(ModelError):
    """Loops that no configuration closes."""


def _supports_of_groups(model: Mechanism, groups: list[Group]) -> tuple[list[list[int]], list[int | None]]:
    """The supports of each group, and the group that they are in where there are several; None where it hangs on one body."""
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
    """A closed configuration near q, by Gauss-Newton steps of least norm, and its residual [m or rad].

    Where it hangs on several supports, the cluster below, whose posture is given, stays. Work is counted in a `budget`.
    """
    q = np.array(q, dtype=float)
    explicit = explicit_couplings(bodies, constraints, model.joints)
    if explicit:
        q = explicit.nearest(q, model.joints)
        return q, explicit.residual(q, model.joints)
    best, worst = q, np.inf
    posture = NumericPosture(model, bodies, below, supports)
    work = len(bodies) + sum(c.count(model.joints) for c in constraints)
    for _ in range(STEPS):
        if budget:
            budget.take(work)
        posture.move(q)
        phi = residuals(posture, constraints).astype(float)
        size = float(np.abs(phi).max(initial=0.0))
        residual = max([size, *(float(x) for c in constraints for x in c.flipped_axes(posture))])
        if residual < worst:
            best, worst = q, residual
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
    """The same for clusters that hang on one another: one after the other, or all at once where one cannot be closed so."""
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
            found, residual = close(model, cluster.bodies, cluster.constraints, start, below, cluster.supports)
            if residual < CLOSED:
                break
        else:
            bodies, constraints = [k for c in family for k in c.bodies], [c for one in family for c in one.constraints]
            return close(model, bodies, constraints, q)
        postures[cluster.bodies] = cluster_posture(model, cluster.bodies, found, below, cluster.supports)
    return found, residual


class ClosedState(NamedTuple):
    """A configuration q, (nq,), that closes a cluster, and the embedding of the cluster below, if it has several supports."""

    q: np.ndarray
    below: Embedding[BodyMotion] | None


class ClusterAnalysis:
    """Finds independent equations (row rank) and independent velocities of a model's clusters, at closed configurations."""

    def __init__(self, model: Mechanism, limits: Limits | None = None) -> None:
        self.model, self.rng = model, np.random.default_rng(0)
        self.limits, self._budget = limits, Budget(limits)
        self._neutral = model.tree_neutral()
        self._carrying = {joint.parent for joint in model.joints}
        self._known: dict[Any, tuple[Cluster, list[ClosedState]]] = {}  # by all that decides it: chains repeat themselves
        self._closed: dict[tuple[int, ...], tuple[Cluster, list[ClosedState]]] = {}  # by its bodies
        self._supporting: dict[tuple[int, ...], list[ClosedState]] = {}

    def cluster(
        self, group: Group, supports: Sequence[int] = (), below: Cluster | None = None, *, keep: bool = True
    ) -> Cluster:
        """The cluster of a group that hangs on one body, or on several supports in the cluster below.

        Its closed states are kept with `keep`: other clusters may hang on it.
        """
        bodies, constraints = tuple(group[0]), tuple(group[1])
        if not constraints:
            return Cluster(bodies, independent=tuple(range(self.model.joints[bodies[0]].nv)))
        self._supporting.pop(bodies, None)
        content = object() if below else (keep, self._content(bodies, constraints))
        if content not in self._known:
            found, states = self._analysed(Cluster(bodies, constraints, supports=tuple(supports), below=below))
            self._known[content] = found, states if keep else []
        like, _ = self._closed[bodies] = self._known[content]
        return replace(like, bodies=bodies, constraints=constraints)

    def _analysed(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """The cluster with its equations and independent velocities, and the states that they were found at."""
        model, constraints, rng = self.model, cluster.constraints, np.random.default_rng(0)
        best: tuple[float, np.ndarray, ClosedState] | None = None
        nearest, rank = np.inf, 0
        closed: list[tuple[int, ClosedState]] = []
        linear = all(c.linear for c in constraints)  # then all states are alike
        simple = self._by_substitution(cluster)
        if simple:
            return simple
        names = some([repr(c.name) for c in constraints])
        links = some([repr(model.bodies[k].name) for k in cluster.bodies])
        if self.limits and len(cluster.bodies) > self.limits.cluster:
            raise LimitError(
                f"{names} make one cluster of {len(cluster.bodies)} links, more than the limit of {self.limits.cluster}: "
                f"{self.limits.raised('cluster')}"
            )
        for attempt in range(ATTEMPTS):
            try:
                state, residual = self._closed_state(cluster, attempt, rng)
            except LimitError as told:
                tried = f"not closed from {attempt} starting points, the smallest residual is {nearest:.3g}: "
                raise LimitError(f"{names}: {'' if closed else tried}{told}") from None
            nearest = min(nearest, residual)
            if residual < CLOSED:
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
                f"{names} cannot be closed: the smallest residual found is {nearest:.3g}; check placements and lengths"
            )
        _, K, state = best
        if rank == K.shape[1] and not cluster.below:
            raise ModelError(f"{names} leave the links {links} no degree of freedom: use fixed joints instead")
        rows = _most_independent(K, rank)
        independent = _independent(model, list(cluster.bodies), K[rows], rank, names)
        cluster = replace(cluster, independent=tuple(independent), rows=tuple(rows), count=len(K))
        states = [state for r, state in closed if r == rank]
        if linear and not cluster.below:
            return cluster, states
        for one in states if cluster.below else [state]:  # supports may move it into violations
            if not _holds(self._embedding(cluster, one), constraints):
                raise ModelError(
                    f"{names} close in singular configurations only, in which the links {links} cannot move: "
                    "check placements and lengths"
                )
        return cluster, states

    def _by_substitution(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]] | None:
        """The same for couplings that substitution solves, such as mimic joints; None where they are not of that form."""
        joints = self.model.joints
        explicit = explicit_couplings(cluster.bodies, cluster.constraints, joints)
        if explicit is None:
            return None
        choices = [joints[k].independent for k in cluster.bodies for _ in range(joints[k].nv)]
        independent = tuple(c for c, choice in enumerate(choices) if choice is not False)
        start, below = self._supporting_state(cluster.below, 0) if cluster.below else ClosedState(self._neutral, None)
        q = explicit.nearest(start, joints)
        if not independent or explicit.residual(q, joints) >= CLOSED:
            return None
        count = len(cluster.constraints)
        return replace(cluster, independent=independent, rows=tuple(range(count)), count=count), [ClosedState(q, below)]

    def _closed_state(self, cluster: Cluster, attempt: int, rng: np.random.Generator) -> tuple[ClosedState, float]:
        """A configuration that may be closed, and its residual: first from neutral coordinates, then from random ones.

        On several supports, the cluster below keeps its state in the first half of the attempts.
        """
        model = self.model
        q, below = self._supporting_state(cluster.below, attempt) if cluster.below else ClosedState(self._neutral.copy(), None)
        for k in cluster.bodies if attempt else ():
            q[model.joints[k].q_slice] = model.joints[k].kind.random(rng)
        if cluster.below and attempt >= ATTEMPTS // 2:
            q, _ = close(model, cluster.family, cluster.lineage, q, budget=self._budget)
            below = self._embedding(cluster.below, ClosedState(q, None))
        stays = below.posture if below else None
        q, residual = close(model, cluster.bodies, cluster.constraints, q, stays, cluster.supports, self._budget)
        return ClosedState(q, below), residual

    def _supporting_state(self, cluster: Cluster, n: int) -> ClosedState:
        """A closed state of a cluster that supports another, and its embedding there."""
        if cluster.bodies not in self._supporting:
            like, states = self._closed[cluster.bodies]
            here = self._supporting[cluster.bodies] = []
            for there, below in states:
                q = there.copy()
                for one, other in zip(cluster.bodies, like.bodies):
                    q[self.model.joints[one].q_slice] = there[self.model.joints[other].q_slice]
                here.append(ClosedState(q, self._embedding(cluster, ClosedState(q, below))))
        states = self._supporting[cluster.bodies]
        q, embedding = states[n % len(states)]
        return ClosedState(q.copy(), embedding)

    def _posture(self, cluster: Cluster, state: ClosedState) -> ClusterPosture:
        below = state.below.posture if state.below else None
        return cluster_posture(self.model, cluster.bodies, state.q, below, cluster.supports)

    def _embedding(self, cluster: Cluster, state: ClosedState) -> Embedding[BodyMotion]:
        """How a cluster moves in a closed state, with some velocities."""
        if cluster.below and not state.below:
            state = ClosedState(state.q, self._embedding(cluster.below, state))
        m = len(cluster.independent)
        dy = self.rng.normal(size=m)
        return Embedding(self._posture(cluster, state), cluster, slice(0, m), dy, state.below, plain_body)

    def _content(self, bodies: tuple[int, ...], constraints: tuple[LoopConstraint, ...]) -> Any:
        """All that decides the analysis of a cluster that hangs on one body."""
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
    """Whether its motion satisfies all equations, also redundant ones that were dropped, in velocities and accelerations."""
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
    """The independent velocities: those of the joints chosen, or those that leave the dependent ones best conditioned."""
    size = K.shape[1]
    choices = [model.joints[k].independent for k in bodies for _ in range(model.joints[k].nv)]
    if asked and any(choice is not None for choice in choices):
        chosen = [c for c, choice in enumerate(choices) if choice is not False]
        told = some([repr(model.joints[k].name) for k in bodies if model.joints[k].independent is not False])
        if True not in choices and len(chosen) > size - rank:  # some shall depend, as mimics do; the others are left open
            rest = [c for c in range(size) if c not in chosen]
            if _rank(np.linalg.svd(K[:, rest], compute_uv=False)) == len(rest):
                chosen = sorted({*chosen} - {*_completing(K, rest, chosen, rank - len(rest))})
        if len(chosen) != size - rank and model.force_held:  # the choice was made for all loops embedded
            return _independent(model, bodies, K, rank, names, asked=False)
        if len(chosen) != size - rank:
            counts = f"{size - rank} degrees of freedom, but {len(chosen)} independent velocities are chosen"
            raise ModelError(f"{names} leave {counts}: {told or 'none'}{_advice(model, bodies, K, rank)}")
        rest = sorted({*range(size)} - {*chosen})
        s = np.linalg.svd(K[:, rest], compute_uv=False)
        if rank and s[-1] < 1e-6 * s[0]:
            raise ModelError(f"{names}: the velocities of {told} do not determine the others{_advice(model, bodies, K, rank)}")
        return chosen
    # Prefer dependent velocities of bodies that carry nothing: rotors depend on links, and not the reverse.
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


def _advice(model: Mechanism, bodies: list[int], K: np.ndarray, rank: int) -> str:
    """Which independent velocities could be chosen, for an error about others."""
    every = [name for k in bodies for name in model.joints[k].v_names]
    best = _independent(model, bodies, K, rank, "", asked=False)
    return f"; choose {len(best)} of {some([repr(x) for x in every])}, such as {some([repr(every[c]) for c in best])}"


def independent_equations(K: np.ndarray) -> list[int]:
    """The places of as many rows of a Jacobian as its rank, those that are the most independent, in order."""
    return _most_independent(K, _rank(np.linalg.svd(K, compute_uv=False)))


def _completing(K: np.ndarray, dependent: list[int], candidates: list[int], count: int) -> list[int]:
    """So many of the candidates' columns that are, with those of dependent velocities, the farthest from singular."""
    scaled = K / np.abs(K).max(axis=1, keepdims=True)
    basis = np.linalg.qr(scaled[:, dependent])[0]
    left = scaled[:, candidates] - basis @ (basis.T @ scaled[:, candidates])
    return [candidates[i] for i in _most_independent(left.T, count)]


def _most_independent(rows: np.ndarray, count: int) -> list[int]:
    """So many rows of a matrix by pivoted Gram-Schmidt, each the farthest from the span of those before it; in order."""
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
