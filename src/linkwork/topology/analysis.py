"""Mobility of clusters: the ranks of their constraint Jacobians at closed states, and their independent velocities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.parts import End, LoopConstraint, Mechanism
from linkwork.parts.limits import Budget, Limits
from linkwork.parts.names import some
from linkwork.topology.closing import CLOSED, RANK, Closed, close, close_problem, kept_closed, starts, within_limits
from linkwork.topology.closing_notes import CannotClose, cannot_close, links_of, names_of, open_by, stuck
from linkwork.topology.closing_problem import Closing
from linkwork.topology.clusters import Cluster, Group, find_clusters, find_families, group_of, supports_of
from linkwork.topology.couplings import explicit_couplings
from linkwork.topology.embedding import Embedding, plain_body
from linkwork.topology.independent import choose_independent
from linkwork.topology.kinematics import BodyMotion
from linkwork.topology.mobility import (
    Rank,
    accepted_errors,
    count_above,
    explored,
    find_rank,
    independent_everywhere,
    missed_in_motion,
    most_independent,
)
from linkwork.topology.motion import ClusterPosture, all_equations, cluster_posture
from linkwork.topology.scales import HELD

ATTEMPTS = 24  # to close a loop: random starting points
STATES = 8  # closed configurations that are looked at besides the first
BENDS = 1.0  # what modal coordinates of their usual size count where modes must follow
LOOPS = 4  # and couplings of a cluster, for each link that it may have
FAR = 15.0  # tolerances that an equation may miss by that is dropped, after motion by about a radian
FAR_AT_MOST = 0.03  # of the size of loops: the rods of a delta robot that must not be dropped miss by 0.07 and more

S = TypeVar("S")


def clusters_of(model: Mechanism, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """The clusters of a model, parents before children; with `limits`, LimitError where they would take too long to find.

    What `model.analyses` knows of clusters, from models that this one is a variant of, is not analysed again.

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
    if found and not any(cluster.independent for cluster in found):
        names, links = some([repr(c.name) for c in model.embedded]), some([repr(body.name) for body in model.bodies])
        raise ModelError(
            f"{names} leave the links {links} no degree of freedom: use fixed joints instead, or, if they should move, "
            "numbers with more digits or a larger tolerance="
        )
    return tuple(found)


def held_clusters(model: Mechanism, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """The clusters of a model whose loops will be force-held: without independent velocities where these cannot be chosen."""
    try:
        return clusters_of(model, limits)
    except (LimitError, CannotClose):
        raise
    except ModelError:  # they can be closed, and that is enough
        analysis = ClusterAnalysis(model, limits)
        groups = find_families(model.joints, model.embedded)
        return tuple(analysis.held(group) for group in groups if group[1])


def _supports_of_groups(model: Mechanism, groups: list[Group]) -> tuple[list[list[int]], list[int | None]]:
    """The supports of each group, and the group that they are in where there are several; None where it hangs on one body."""
    where = group_of(groups)
    supports = [supports_of(model.joints, group) for group in groups]
    return supports, [where[own[0]] if len(own) > 1 else None for own in supports]


def close_family(model: Mechanism, family: Sequence[Cluster], q: np.ndarray) -> tuple[np.ndarray, float]:
    """The same for clusters that hang on one another: one after the other, or all at once where one cannot be closed so."""
    if len(family) == 1:
        return _close_cluster(model, family[0], q, None)
    found = q
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in family:
        below = postures[cluster.below.bodies] if cluster.below else None
        neutral = found.copy()
        for joint in (model.joints[k] for k in cluster.bodies):
            neutral[joint.q_slice] = joint.kind.neutral()
        for start in (found, neutral) if cluster.independent else (neutral, found):
            found, residual = _close_cluster(model, cluster, start, below)
            if residual < CLOSED:
                break
        else:
            bodies, constraints = [k for c in family for k in c.bodies], [c for one in family for c in one.constraints]
            return close(model, bodies, constraints, q)
        postures[cluster.bodies] = cluster_posture(model, cluster.bodies, found, below, cluster.supports)
    return found, residual


def _close_cluster(model: Mechanism, cluster: Cluster, q: np.ndarray, below: ClusterPosture | None) -> tuple[np.ndarray, float]:
    rows, accepted = cluster.rows, cluster.accepted
    if cluster.closed and not cluster.independent and not cluster.supports:  # a truss has one posture
        q, at = np.array(q, dtype=float), 0
        for joint in (model.joints[k] for k in cluster.bodies):
            q[joint.q_slice] = cluster.closed[at : at + joint.nq]
            at += joint.nq
        return q, 0.0
    return close(model, cluster.bodies, cluster.constraints, q, below, cluster.supports, rows=rows, accepted=accepted)


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
        self._known: dict[Any, tuple[Cluster, list[ClosedState]]] = model.analyses  # by all that decides it
        self._closed: dict[tuple[int, ...], tuple[Cluster, list[ClosedState]]] = {}  # by its bodies
        self._supporting: dict[tuple[int, ...], dict[int, ClosedState]] = {}  # by its bodies, those that were asked for

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
        content = None if below else self._content(bodies, constraints)
        known = self._known.get((keep, content)) if content else None
        if known is None:
            found, states = self._analysed(Cluster(bodies, constraints, supports=tuple(supports), below=below))
            known = found, states if keep else []
            if content:
                self._known[keep, content] = known
        like, _ = self._closed[bodies] = known
        return replace(like, bodies=bodies, constraints=constraints)

    def _analysed(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """The cluster with its equations and independent velocities, and the states that they were found at."""
        simple = self._by_substitution(cluster)
        if simple:
            return simple
        self._check_size(cluster, "links", len(cluster.bodies), 1)
        self._check_size(cluster, "loops and couplings", len(cluster.constraints), LOOPS)
        return self._on_supports(cluster) if cluster.below else self._on_one_body(cluster)

    def _check_size(self, cluster: Cluster, what: str, count: int, each: int) -> None:
        """That a cluster has not more of something than `each` times the limit of its links."""
        if self.limits and count > each * self.limits.cluster:
            times = f"{each} times " if each > 1 else ""
            raise LimitError(
                f"{names_of(cluster)} make one cluster of {count} {what}, more than {times}the limit of "
                f"{self.limits.cluster}: {self.limits.raised('cluster')}"
            )

    def held(self, group: Group) -> Cluster:
        """A group whose loops will be force-held: the equations that say something where it is closed, and no more."""
        cluster = Cluster(tuple(group[0]), tuple(group[1]))
        self._check_size(cluster, "loops and couplings", len(cluster.constraints), LOOPS)
        problem = Closing(self.model, cluster.bodies, cluster.constraints, budget=self._budget)
        rng = np.random.default_rng(0)
        first = self._first_closed(cluster, problem, rng)
        states = [first, *explored(problem, first, 3, rng)]
        cut = RANK if first.exact else 10.0 * problem.tolerance
        problem, _ = _bent(problem, [state.q for state in states])
        _, J = _best_conditioned(states, [problem.at(state.q)[1] for state in states], cut)
        rows = most_independent(J, count_above(np.linalg.svd(J, compute_uv=False), cut))
        missed = np.max([np.abs(problem.at(state.q)[0]) for state in states], axis=0)
        gaps = () if first.exact else _gaps(problem, Rank(len(rows), rows, missed, cut, True))
        return replace(cluster, rows=tuple(rows), count=len(J), gaps=gaps, closed=_own(self.model, cluster, first.q))

    def _on_one_body(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """The same for a cluster that hangs on one body: its rank is that of the assembly mode that is found first."""
        model, rng = self.model, np.random.default_rng(0)
        problem = Closing(model, cluster.bodies, cluster.constraints, budget=self._budget)
        first = self._first_closed(cluster, problem, rng)
        linear = all(c.linear for c in cluster.constraints)  # then all states are alike
        states = [first, *(() if linear else explored(problem, first, STATES, rng))]
        problem, held = _bent(problem, [state.q for state in states])
        Js = [problem.at(state.q)[1] for state in states]
        best, J = _best_conditioned(states, Js, RANK if first.exact else 10.0 * problem.tolerance)
        found = find_rank(problem, best, J)
        if linear and found.rank == J.shape[1]:
            raise ModelError(
                f"{names_of(cluster)} leave the links {links_of(model, cluster)} no degree of freedom: use fixed joints instead"
            )
        if not found.moves:
            raise stuck(model, cluster)
        if first.exact:
            alike = [J for J in Js if count_above(np.linalg.svd(J, compute_uv=False), found.cut) == found.rank]
            found = found._replace(rows=independent_everywhere(alike or [J], found.rows))
        accepted = accepted_errors(problem, found)
        if accepted:
            best, *states = (
                Closed(kept_closed(problem, x.q, found.rows, np.inf)[0], x.left, exact=False) for x in (best, *states)
            )
        ranks = [count_above(np.linalg.svd(J, compute_uv=False), found.cut) for J in Js]
        regular = [best, *(state for state, r in zip(states, ranks) if r == found.rank)]
        places = [(state.q, None) for state in regular]
        choice = choose_independent(model, cluster, found.rows, places, names_of(cluster), held)
        made = replace(
            cluster, independent=tuple(choice.independent), rows=tuple(found.rows), count=len(J), accepted=accepted,
            gaps=_gaps(problem, found) if accepted else (), closed=_own(model, cluster, states[0].q),
        )  # fmt: skip
        good = [regular[n].q for n in choice.good if n] or [choice.reached]
        return made, [ClosedState(q, None) for q in good]

    def _first_closed(self, cluster: Cluster, problem: Closing, rng: np.random.Generator) -> Closed:
        """A closed configuration: from the start that is given, from neutral coordinates, then from random ones.

        One that keeps the joints' limits is preferred.
        """
        given = [] if self.model.start is None else [np.array(self.model.start)]
        tried: list[np.ndarray] = []
        distances: list[float] = []
        outside: Closed | None = None
        ready = [*given, self._neutral]
        for n, q in enumerate((*ready, *starts(problem, ready[0], ATTEMPTS, rng))):
            if outside and n >= len(ready) + 5:
                break
            try:
                found = close_problem(problem, q, thorough=n < len(ready))
                tried.append(found.q)
                if found.is_closed and len(problem.limits_missed(found.q)[0]):
                    outside = outside or found
                    found = within_limits(problem, found.q) or found._replace(left=np.inf)
            except LimitError as told:
                if outside:
                    return outside
                raise LimitError(f"{names_of(cluster)}: {open_by(problem, tried or [q])}: {told}") from None
            if found.is_closed:
                return found
            distances.append(problem.distance(found.q))
            if sum(one < 1.02 * min(distances) for one in distances) > 8:  # the same again and again: there is nothing better
                break
        if outside:
            return outside
        raise cannot_close(cluster, problem, tried)

    def _on_supports(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """The same for a cluster that hangs on several bodies: its joints must be able to follow these."""
        rng = np.random.default_rng(0)
        found: list[tuple[ClosedState, Closing, Closed, np.ndarray]] = []
        tried: list[tuple[Closing, Closed]] = []
        for attempt in range(ATTEMPTS):
            try:
                state, problem, closed = self._closed_state(cluster, attempt, rng, found[0][0].q if found else None)
            except LimitError as told:
                near = open_by(tried[-1][0], [tried[-1][1].q]) if tried and not found else "not closed"
                raise LimitError(f"{names_of(cluster)}: {near}: {told}") from None
            tried.append((problem, closed))
            if closed.is_closed:
                found.append((state, problem, closed, problem.at(state.q)[1]))
            if found and attempt >= (3 if closed.is_closed else 7):  # not all states below are within its reach
                break
        if not found:
            problem, closed = min(tried, key=lambda one: one[1].left)
            raise cannot_close(cluster, problem, [closed.q])
        bends = any(_bent(problem, [state.q])[1] == BENDS for state, problem, _, _ in found)
        if bends:
            free = [problem.bending() for _, problem, _, _ in found]
            found = [(state, new, closed, new.at(state.q)[1]) for new, (state, _, closed, _) in zip(free, found)]
        exact = all(closed.exact for _, _, closed, _ in found)
        tolerance = found[0][1].tolerance
        cut = RANK if exact else 10.0 * tolerance
        best, J = _best_conditioned(found, [J for *_, J in found], cut)
        rank = count_above(np.linalg.svd(J, compute_uv=False), cut)
        rows = most_independent(J, rank)
        ranks = [count_above(np.linalg.svd(J, compute_uv=False), cut) for *_, J in found]
        regular = [best, *(one for one, r in zip(found, ranks) if r == rank)]
        postures = [(state.q, state.below.posture if state.below else None) for state, *_ in regular]
        held = BENDS if bends else HELD
        choice = choose_independent(self.model, cluster, rows, postures, names_of(cluster), held)
        missed = np.max([np.abs(problem.at(state.q)[0]) for state, problem, _, _ in found], axis=0)
        ranked = Rank(rank, rows, np.zeros(len(J)) if exact else missed, cut, True)
        accepted = accepted_errors(best[1], ranked)
        made = replace(
            cluster, independent=tuple(choice.independent), rows=tuple(rows), count=len(J), accepted=accepted,
            gaps=_gaps(best[1], ranked) if accepted else (), closed=_own(self.model, cluster, found[0][0].q),
        )  # fmt: skip
        good = [regular[n] for n in choice.good if n]
        states = [
            ClosedState(kept_closed(problem, state.q, rows, np.inf)[0], state.below) if accepted else state
            for state, problem, _, _ in good
        ] or [ClosedState(choice.reached, regular[-1][0].below)]
        best[1].exact = exact
        for state in states:  # supports may move it into violations
            if not _holds(self._embedding(made, state), best[1]):
                raise stuck(self.model, cluster)
        if accepted and not self._follows(made, states[0].q):
            raise stuck(self.model, cluster)
        return made, states

    def _follows(self, cluster: Cluster, q: np.ndarray) -> bool:
        """Whether equations that are dropped miss by no more than some tolerances while supports move far.

        In one state that cannot be told: of few digits, an equation that ties the supports may be as good as redundant there.
        What misses by the square of an angle, as the slider in the knee spring of Cassie's SDF does, is meant to move.
        """
        problem = Closing(self.model, cluster.family, cluster.lineage, budget=self._budget)
        missed = missed_in_motion(problem, q, _kept_of_lineage(cluster), far=True)
        return bool(np.all(missed[-cluster.count :] < max(problem.tolerance, min(FAR * problem.tolerance, FAR_AT_MOST))))

    def _by_substitution(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]] | None:
        """The same for couplings that substitution solves, such as mimic joints; None where they are not of that form."""
        joints = self.model.joints
        explicit = explicit_couplings(cluster.bodies, cluster.constraints, joints)
        if explicit is None:
            return None
        choices = [choice for k in cluster.bodies for choice in joints[k].choices]
        independent = tuple(c for c, choice in enumerate(choices) if choice is not False)
        start, below = self._supporting_state(cluster.below, 0) if cluster.below else ClosedState(self._neutral, None)
        q = explicit.nearest(start, joints)
        if not independent or explicit.residual(q, joints) >= CLOSED:
            return None
        count = len(cluster.constraints)
        return replace(cluster, independent=independent, rows=tuple(range(count)), count=count), [ClosedState(q, below)]

    def _closed_state(
        self, cluster: Cluster, attempt: int, rng: np.random.Generator, known: np.ndarray | None
    ) -> tuple[ClosedState, Closing, Closed]:
        """A configuration that may be closed: from a known one, from neutral coordinates, then from random ones.

        The cluster below keeps its state in the first half of the attempts.
        """
        model = self.model
        assert cluster.below is not None
        q, below = self._supporting_state(cluster.below, attempt)
        for joint in (model.joints[k] for k in cluster.bodies):
            if known is not None:
                q[joint.q_slice] = known[joint.q_slice]
            elif attempt:
                q[joint.q_slice] = joint.kind.random(rng)
            elif model.start is not None:
                q[joint.q_slice] = model.start[joint.q_slice]
        if attempt >= ATTEMPTS // 2:
            q, _ = close(model, cluster.family, cluster.lineage, q, budget=self._budget)
            below = self._embedding(cluster.below, ClosedState(q, None))
        stays = below.posture if below else None
        problem = Closing(model, cluster.bodies, cluster.constraints, stays, cluster.supports, self._budget)
        found = close_problem(problem, q, thorough=known is None)
        return ClosedState(found.q, below), problem, found

    def _supporting_state(self, cluster: Cluster, n: int) -> ClosedState:
        """A closed state of a cluster that supports another, and its embedding there."""
        like, states = self._closed[cluster.bodies]
        known = self._supporting.setdefault(cluster.bodies, {})
        n %= len(states)
        if n not in known:
            there, below = states[n]
            q = there.copy()
            for one, other in zip(cluster.bodies, like.bodies):
                q[self.model.joints[one].q_slice] = there[self.model.joints[other].q_slice]
            known[n] = ClosedState(q, self._embedding(cluster, ClosedState(q, below)))
        q, embedding = known[n]
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
        """All that decides the analysis of a cluster that hangs on one body; None where it cannot be compared."""
        index = {k: n for n, k in enumerate(bodies)}

        def there(end: End) -> Any:
            return index.get(end.body), end.place.R.tobytes(), end.place.p.tobytes()

        said: list[Any] = [self.model.tolerance]
        for k in bodies:
            joint = self.model.joints[k]
            limits = joint.lower, joint.upper, None if self.model.start is None else self.model.start[joint.q_slice]
            said.append((joint.kind, there(End(joint.parent, joint.place)), joint.independent, k in self._carrying, limits))
        said += [c.content(index, there) for c in constraints]
        try:
            hash(tuple(said))
        except TypeError:  # a joint or a function of the user's own that cannot be compared
            return None
        return tuple(said)


def _bent(problem: Closing, states: Sequence[np.ndarray]) -> tuple[Closing, float]:
    """The problem that tells which equations of loops say something at closed states, and what modal coordinates count there.

    Where joints alone can meet all equations, bodies bend as they are told, and modes hardly count. Where they cannot, as at a
    pin that also holds a rod which bends out of the plane of its loop, modes must follow.
    """
    if not problem.elastic.any():
        return problem, HELD
    free = problem.bending()
    ranks = [
        [count_above(np.linalg.svd(J, compute_uv=False), RANK) for J in (J, J[:, ~problem.elastic])]
        for J in (free.at(q)[1] for q in states)
    ]
    every, joints = np.max(ranks, axis=0)
    return (free, BENDS) if every > joints else (problem, HELD)


def _best_conditioned(states: Sequence[S], Js: Sequence[np.ndarray], cut: float) -> tuple[S, np.ndarray]:
    """The state of largest rank whose Jacobian is best conditioned, or the first of those that are about as good."""
    best, rank, most = 0, -1, 0.0
    for n, J in enumerate(Js):
        s = np.linalg.svd(J, compute_uv=False)
        r = count_above(s, cut)
        quality = float(s[r - 1] / s[0]) if r else 1.0
        if r > rank or (r == rank and quality > 1.5 * most):
            best, rank, most = n, r, quality
    return states[best], Js[best]


def _gaps(problem: Closing, found: Rank) -> tuple[tuple[float, float], ...]:
    """What the equations of each constraint miss by [m, rad]."""
    missed, gaps = found.missed * problem.units, []
    for c, own in zip(problem.constraints, problem.rows):
        lengths = c.lengths(problem.model.joints)
        gaps.append((float(missed[own][lengths].max(initial=0.0)), float(missed[own][~lengths].max(initial=0.0))))
    return tuple(gaps)


def _own(model: Mechanism, cluster: Cluster, q: np.ndarray) -> tuple[float, ...]:
    """The coordinates of a cluster's joints, one body after the other."""
    return tuple(x for k in cluster.bodies for x in q[model.joints[k].q_slice].tolist())


def _kept_of_lineage(cluster: Cluster) -> list[int]:
    """The equations that are kept among those of its lineage."""
    rows, one = list(cluster.rows), cluster.below
    while one:
        rows, one = [*one.rows, *(one.count + row for row in rows)], one.below
    return rows


def _holds(embedding: Embedding[BodyMotion], problem: Closing) -> bool:
    """Whether its motion satisfies all equations, also redundant ones that were dropped, in velocities and accelerations."""
    posture, size = embedding.posture, embedding.posture.size
    K, k = (x.astype(float) for x in all_equations(posture, problem.constraints, embedding.speeds))
    K, k = K / problem.units[:, None], k / problem.units
    v, g = embedding.v.astype(float), embedding.whole.g
    V = embedding.V.astype(float)
    alpha = np.zeros(0)
    if embedding.below:
        alpha = np.concatenate([embedding.below.alpha(support) for support in posture.supports]).astype(float)
    speeds = K[:, :size] @ v + K[:, size:] @ V
    left = K[:, :size] @ g.astype(float) + K[:, size:] @ alpha - k
    six = np.tile([1.0] * 3 + [problem.length] * 3, len(posture.supports))
    largest = max(np.abs(x).max(initial=0.0) for x in (v / problem.columns, V / six, alpha / six, k))
    return bool(max(np.abs(speeds).max(initial=0.0), np.abs(left).max(initial=0.0)) <= problem.allowed * (1.0 + largest))


def kept_rows(model: Mechanism, cluster: Cluster) -> list[tuple[int, ...]]:
    """Which equations of each of its constraints are kept."""
    found, start = [], 0
    for constraint in cluster.constraints:
        size = constraint.count(model.joints)
        found.append(tuple(r - start for r in cluster.rows if start <= r < start + size))
        start += size
    return found


def kept_loops(model: Mechanism, cluster: Cluster) -> list[LoopConstraint]:
    """The constraints of a cluster, loop joints knowing which of their equations are kept."""
    return [loop.with_kept(rows) for loop, rows in zip(cluster.constraints, kept_rows(model, cluster))]
