"""Analysis of clusters: ranks of their constraint Jacobians at closed states, and independent velocities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.loops.closing import (
    CLOSED,
    RANK,
    ClosureResult,
    close,
    close_problem,
    kept_closed,
    starts,
    within_limits,
)
from linkwork.loops.closing_notes import (
    CannotClose,
    branches_meet,
    cannot_close,
    links_of,
    misses_in_motion,
    names_of,
    open_by,
    singular_everywhere,
    stuck,
)
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.loops.clusters import Cluster, Group, find_clusters, find_families, group_of, supports_of
from linkwork.loops.couplings import explicit_couplings
from linkwork.loops.embedding import Embedding, plain_body
from linkwork.loops.independent import SingularChoice, choose_independent
from linkwork.loops.kinematics import BodyMotion
from linkwork.loops.mobility import (
    Rank,
    count_above,
    explored,
    find_rank,
    finite_mobility,
    independent_everywhere,
    missed_in_motion,
    most_independent,
    slack_of_rows,
    used_equations,
)
from linkwork.loops.motion import ClusterPosture, all_equations, cluster_posture
from linkwork.loops.scales import HELD
from linkwork.loops.sufficient import sufficient_rows
from linkwork.mechanism import End, LoopConstraint, Mechanism
from linkwork.mechanism.limits import Budget, Limits
from linkwork.mechanism.names import join_names

ATTEMPTS = 24  # to close a loop: random starting points
STATES = 8  # closed configurations that are looked at besides the first
BENDS = 1.0  # what modal coordinates of their usual size count where modes must follow
LOOPS = 4  # and couplings of a cluster, for each link that it may have
COARSE = (
    30.0  # tolerances that redundant equations miss by in motion, up to which coarse numbers are the reason
)
FAR = 15.0  # tolerances that an equation may miss by that is dropped, after motion by about a radian
FAR_AT_MOST = (
    0.03  # of the size of loops: the rods of a delta robot that must not be dropped miss by 0.07 and more
)

S = TypeVar("S")


def clusters_of(model: Mechanism, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """Return the clusters of a model, parents before children.

    Raise LimitError if the analysis exceeds `limits`. Clusters known in `model.analyses`, from models that
    this one is a variant of, are not analysed again. A group with several supporting bodies is a cluster of
    its own if its joints can follow any motion of these; if its constraints reduce their degrees of freedom,
    both groups become one.
    """
    groups = find_clusters(model.joints, model.embedded)
    analysis = ClusterAnalysis(model, limits)
    clusters: list[Cluster] = []
    supports, below = _supports_of_groups(model, groups)
    supporting = set(below)
    while len(clusters) < len(groups):
        n = len(clusters)
        on = below[n]
        try:
            hanging = () if on is None else (supports[n], clusters[on])
            clusters.append(analysis.cluster(groups[n], *hanging, keep=n in supporting))
        except (
            ModelError
        ) as told:  # perhaps not in one cluster with what it hangs on, or with what hangs on it
            others = [i for i in range(n + 1, len(groups)) if below[i] == n] if on is None else [on]
            if not others or isinstance(told, LimitError) or (on is None and isinstance(told, CannotClose)):
                raise
            one, two = sorted([n, others[0]])
            (bodies, constraints), (more, further) = groups[one], groups.pop(two)
            groups[one] = (
                sorted([*bodies, *more]),
                [c for c in model.embedded if c in constraints or c in further],
            )
            del clusters[one:]
            supports, below = _supports_of_groups(model, groups)
            supporting = set(below)
    if clusters and not any(cluster.independent for cluster in clusters):
        names = join_names([repr(c.name) for c in model.embedded])
        links = join_names([repr(body.name) for body in model.bodies])
        raise ModelError(
            f"{names} leave the links {links} no degree of freedom: use fixed joints instead, or, if they "
            "should move, "
            "numbers with more digits or a larger tolerance="
        )
    return tuple(clusters)


def constrained_clusters(model: Mechanism, limits: Limits | None = None) -> tuple[Cluster, ...]:
    """Return the clusters of a model whose loops will be constrained.

    They have no independent velocities where none can be chosen.
    """
    try:
        return clusters_of(model, limits)
    except (LimitError, CannotClose):
        raise
    except ModelError:  # they can be closed, and that is enough
        analysis = ClusterAnalysis(model, limits)
        groups = find_families(model.joints, model.embedded)
        return tuple(analysis.held(group) for group in groups if group[1])


def _supports_of_groups(model: Mechanism, groups: list[Group]) -> tuple[list[list[int]], list[int | None]]:
    """Return the supports of each group and the group they are in; None for a single support."""
    where = group_of(groups)
    supports = [supports_of(model.joints, group) for group in groups]
    return supports, [where[supporting[0]] if len(supporting) > 1 else None for supporting in supports]


def close_family(model: Mechanism, family: Sequence[Cluster], q: np.ndarray) -> tuple[np.ndarray, float]:
    """Return a closed configuration of coupled clusters, closed in turn or, failing that, at once."""
    if len(family) == 1:
        return _close_cluster(model, family[0], q, None)
    closed = q
    postures: dict[tuple[int, ...], ClusterPosture] = {}
    for cluster in family:
        below = postures[cluster.below.bodies] if cluster.below else None
        neutral = closed.copy()
        for joint in (model.joints[k] for k in cluster.bodies):
            neutral[joint.q_slice] = joint.kind.neutral()
        for start in (closed, neutral) if cluster.independent else (neutral, closed):
            closed, residual = _close_cluster(model, cluster, start, below)
            if residual < CLOSED:
                break
        else:
            bodies = [k for c in family for k in c.bodies]
            constraints = [c for one in family for c in one.constraints]
            return close(model, bodies, constraints, q)
        postures[cluster.bodies] = cluster_posture(model, cluster.bodies, closed, below, cluster.supports)
    return closed, residual


def _close_cluster(
    model: Mechanism, cluster: Cluster, q: np.ndarray, below: ClusterPosture | None
) -> tuple[np.ndarray, float]:
    rows = None if cluster.overdetermined else cluster.rows
    slack = cluster.slack
    if cluster.closed and not cluster.independent and not cluster.supports:  # a truss has one posture
        q = np.array(q, dtype=float)
        at = 0
        for joint in (model.joints[k] for k in cluster.bodies):
            q[joint.q_slice] = cluster.closed[at : at + joint.nq]
            at += joint.nq
        return q, 0.0
    return close(
        model, cluster.bodies, cluster.constraints, q, below, cluster.supports, rows=rows, slack=slack
    )


class ClosedState(NamedTuple):
    """A closed configuration q, (nq,), of a cluster, and the embedding of the cluster that supports it."""

    q: np.ndarray
    below: Embedding[BodyMotion] | None


class ClusterAnalysis:
    """Search for independent equations (row rank) and independent velocities at closed configurations."""

    def __init__(self, model: Mechanism, limits: Limits | None = None) -> None:
        self.model, self.rng = model, np.random.default_rng(0)
        self.limits, self._budget = limits, Budget(limits)
        self._neutral = model.tree_neutral()
        self._carrying = {joint.parent for joint in model.joints}
        self._known: dict[Any, tuple[Cluster, list[ClosedState]]] = model.analyses  # by all that decides it
        self._closed: dict[tuple[int, ...], tuple[Cluster, list[ClosedState]]] = {}  # by its bodies
        self._supporting: dict[
            tuple[int, ...], dict[int, ClosedState]
        ] = {}  # by its bodies, those that were asked for

    def cluster(
        self, group: Group, supports: Sequence[int] = (), below: Cluster | None = None, *, keep: bool = True
    ) -> Cluster:
        """Return the cluster of a group with one support, or with several in the cluster below.

        With `keep`, its closed states are stored for clusters that it supports.
        """
        bodies = tuple(group[0])
        constraints = tuple(group[1])
        if not constraints:
            return Cluster(bodies, independent=tuple(range(self.model.joints[bodies[0]].nv)))
        self._supporting.pop(bodies, None)
        content = None if below else self._content(bodies, constraints)
        known = self._known.get((keep, content)) if content else None
        if known is None:
            analysed, states = self._analysed(
                Cluster(bodies, constraints, supports=tuple(supports), below=below)
            )
            known = analysed, states if keep else []
            if content:
                self._known[keep, content] = known
        like, _ = self._closed[bodies] = known
        return replace(like, bodies=bodies, constraints=constraints)

    def _analysed(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """Return the cluster with its equations and independent velocities, and the states analysed."""
        simple = self._by_substitution(cluster)
        if simple:
            return simple
        self._check_size(cluster, "links", len(cluster.bodies), 1)
        self._check_size(cluster, "loops and couplings", len(cluster.constraints), LOOPS)
        return self._on_supports(cluster) if cluster.below else self._on_one_body(cluster)

    def _check_size(self, cluster: Cluster, items: str, count: int, each: int) -> None:
        """Raise LimitError if a cluster has more items than `each` times the limit of links."""
        if self.limits and count > each * self.limits.cluster:
            times = f"{each} times " if each > 1 else ""
            raise LimitError(
                f"{names_of(cluster)} make one cluster of {count} {items}, more than {times}the limit of "
                f"{self.limits.cluster}: {self.limits.raised('cluster')}"
            )

    def held(self, group: Group) -> Cluster:
        """Return the cluster of a group of constrained loops, with independent equations at closed states."""
        cluster = Cluster(tuple(group[0]), tuple(group[1]))
        self._check_size(cluster, "loops and couplings", len(cluster.constraints), LOOPS)
        problem = ClosureProblem(self.model, cluster.bodies, cluster.constraints, budget=self._budget)
        rng = np.random.default_rng(0)
        first = self._first_closed(cluster, problem, rng)
        states = [first, *explored(problem, first, 3, rng)]
        cut = RANK if first.exact else 10.0 * problem.tolerance
        problem, _ = _bent(problem, [state.q for state in states])
        best, J = _best_conditioned(states, [problem.at(state.q)[1] for state in states], cut)
        rank = find_rank(problem, best, J)
        if rank.rank == J.shape[1] or not rank.moves:  # they can be closed, and that is enough
            rows = most_independent(J, count_above(np.linalg.svd(J, compute_uv=False), cut))
            missed = np.max([np.abs(problem.at(state.q)[0]) for state in states], axis=0)
            rank = Rank(len(rows), rows, np.zeros(len(J)) if first.exact else missed, cut, True)
        slack = slack_of_rows(problem, rank, rank.used)
        return replace(
            cluster, rows=tuple(rank.rows), count=len(J), slack=slack,
            gaps=_gaps(problem, rank) if slack else (),
            closed=_own(self.model, cluster, first.q), overdetermined=rank.used,
        )  # fmt: skip

    def _on_one_body(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """Return the analysis of a cluster with one support, by the first assembly mode found."""
        model = self.model
        rng = np.random.default_rng(0)
        problem = ClosureProblem(model, cluster.bodies, cluster.constraints, budget=self._budget)
        first = self._first_closed(cluster, problem, rng)
        linear = all(c.linear for c in cluster.constraints)  # then all states are alike
        states = [first, *(() if linear else explored(problem, first, STATES, rng))]
        problem, held = _bent(problem, [state.q for state in states])
        Js = [problem.at(state.q)[1] for state in states]
        best, J = _best_conditioned(states, Js, RANK if first.exact else 10.0 * problem.tolerance)
        rank = find_rank(problem, best, J)
        if linear and rank.rank == J.shape[1]:
            raise ModelError(
                f"{names_of(cluster)} leave the links {links_of(model, cluster)} no degree of freedom: use "
                "fixed joints instead"
            )
        if not rank.moves:
            raise _why_stuck(model, cluster, problem, first.q, rank)
        if first.exact:
            full_rank = [
                J for J in Js if count_above(np.linalg.svd(J, compute_uv=False), rank.cut) == rank.rank
            ]
            rank = rank._replace(rows=independent_everywhere(full_rank or [J], rank.rows))
        used = rank.used
        slack = slack_of_rows(problem, rank, used)
        if slack and not used:
            best, *states = (
                ClosureResult(kept_closed(problem, x.q, rank.rows, np.inf)[0], x.left, exact=False)
                for x in (best, *states)
            )
        ranks = [count_above(np.linalg.svd(J, compute_uv=False), rank.cut) for J in Js]
        regular = [best, *(state for state, r in zip(states, ranks) if r == rank.rank)]
        places = [(state.q, None) for state in regular]
        variant = replace(cluster, overdetermined=used)
        try:
            choice = choose_independent(model, variant, rank.rows, places, names_of(cluster), held)
        except SingularChoice as error:
            free, mobility = finite_mobility(problem, first.q)
            raise singular_everywhere(model, cluster, free, mobility) if mobility < free else error from None
        made = replace(
            cluster, independent=tuple(choice.independent), rows=tuple(rank.rows), count=len(J), slack=slack,
            gaps=_gaps(problem, rank) if slack else (), closed=_own(model, cluster, states[0].q),
            overdetermined=used,
        )  # fmt: skip
        if used:
            made = replace(made, overdetermined=sufficient_rows(model, made, states[0].q))
        good = [regular[n].q for n in choice.good if n] or [choice.reached]
        return made, [ClosedState(q, None) for q in good]

    def _first_closed(
        self, cluster: Cluster, problem: ClosureProblem, rng: np.random.Generator
    ) -> ClosureResult:
        """Return a closed configuration from the given, the neutral, then random starts.

        Configurations within the joint limits are preferred.
        """
        initial = [] if self.model.start is None else [np.array(self.model.start)]
        tried: list[np.ndarray] = []
        distances: list[float] = []
        outside: ClosureResult | None = None
        ready = [*initial, self._neutral]
        for n, q in enumerate((*ready, *starts(problem, ready[0], ATTEMPTS, rng))):
            if outside and n >= len(ready) + 5:
                break
            try:
                result = close_problem(problem, q, thorough=n < len(ready))
                tried.append(result.q)
                if result.is_closed and len(problem.limits_missed(result.q)[0]):
                    outside = outside or result
                    result = within_limits(problem, result.q) or result._replace(left=np.inf)
            except LimitError as told:
                if outside:
                    return outside
                raise LimitError(f"{names_of(cluster)}: {open_by(problem, tried or [q])}: {told}") from None
            if result.is_closed:
                return result
            distances.append(problem.distance(result.q))
            if (
                sum(one < 1.02 * min(distances) for one in distances) > 8
            ):  # the same again and again: there is nothing better
                break
        if outside:
            return outside
        raise cannot_close(cluster, problem, tried)

    def _on_supports(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """Return the analysis of a cluster with several supports, which its joints must be able to follow."""
        rng = np.random.default_rng(0)
        candidates: list[tuple[ClosedState, ClosureProblem, ClosureResult, np.ndarray]] = []
        tried: list[tuple[ClosureProblem, ClosureResult]] = []
        for attempt in range(ATTEMPTS):
            try:
                state, problem, closed = self._closed_state(
                    cluster, attempt, rng, candidates[0][0].q if candidates else None
                )
            except LimitError as told:
                near = open_by(tried[-1][0], [tried[-1][1].q]) if tried and not candidates else "not closed"
                raise LimitError(f"{names_of(cluster)}: {near}: {told}") from None
            tried.append((problem, closed))
            if closed.is_closed:
                candidates.append((state, problem, closed, problem.at(state.q)[1]))
            if candidates and attempt >= (
                3 if closed.is_closed else 7
            ):  # not all states below are within its reach
                break
        if not candidates:
            problem, closed = min(tried, key=lambda one: one[1].left)
            raise cannot_close(cluster, problem, [closed.q])
        bends = any(_bent(problem, [state.q])[1] == BENDS for state, problem, _, _ in candidates)
        if bends:
            free = [problem.bending() for _, problem, _, _ in candidates]
            candidates = [
                (state, new, closed, new.at(state.q)[1])
                for new, (state, _, closed, _) in zip(free, candidates)
            ]
        exact = all(closed.exact for _, _, closed, _ in candidates)
        tolerance = candidates[0][1].tolerance
        cut = RANK if exact else 10.0 * tolerance
        best, J = _best_conditioned(candidates, [J for *_, J in candidates], cut)
        rank = count_above(np.linalg.svd(J, compute_uv=False), cut)
        rows = most_independent(J, rank)
        ranks = [count_above(np.linalg.svd(J, compute_uv=False), cut) for *_, J in candidates]
        regular = [best, *(one for one, r in zip(candidates, ranks) if r == rank)]
        postures = [(state.q, state.below.posture if state.below else None) for state, *_ in regular]
        held = BENDS if bends else HELD
        missed = np.max([np.abs(problem.at(state.q)[0]) for state, problem, _, _ in candidates], axis=0)
        ranked = Rank(rank, rows, np.zeros(len(J)) if exact else missed, cut, True)
        used = used_equations(best[1], rows, exact=exact, cluster=cluster)
        slack = slack_of_rows(best[1], ranked, used)
        variant = replace(cluster, overdetermined=used)
        choice = choose_independent(self.model, variant, rows, postures, names_of(cluster), held)
        made = replace(
            cluster, independent=tuple(choice.independent), rows=tuple(rows), count=len(J), slack=slack,
            gaps=_gaps(best[1], ranked) if slack else (),
            closed=_own(self.model, cluster, candidates[0][0].q),
            overdetermined=used,
        )  # fmt: skip
        good = [regular[n] for n in choice.good if n]
        states = [
            ClosedState(kept_closed(problem, state.q, rows, np.inf)[0], state.below)
            if slack and not used
            else state
            for state, problem, _, _ in good
        ] or [ClosedState(choice.reached, regular[-1][0].below)]
        best[1].exact = exact
        for state in states:  # supports may move it into violations
            if not _holds(self._embedding(made, state), best[1]):
                raise stuck(self.model, cluster)
        if slack and not self._follows(made, states[0].q):
            raise stuck(self.model, cluster)
        return made, states

    def _follows(self, cluster: Cluster, q: np.ndarray) -> bool:
        """Return whether dropped equations stay within tolerances while the supports move far.

        A single state does not tell: with few digits, an equation that ties the supports may look redundant
        there. Residuals quadratic in an angle, as of the slider in the knee spring of Cassie's SDF, are
        intended motion.
        """
        problem = ClosureProblem(self.model, cluster.family, cluster.lineage, budget=self._budget)
        missed = missed_in_motion(problem, q, _kept_of_lineage(cluster), far=True)
        return bool(
            np.all(
                missed[-cluster.count :] < max(problem.tolerance, min(FAR * problem.tolerance, FAR_AT_MOST))
            )
        )

    def _by_substitution(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]] | None:
        """Return the analysis of couplings solvable by substitution, such as mimic joints, or None."""
        joints = self.model.joints
        explicit = explicit_couplings(cluster.bodies, cluster.constraints, joints)
        if explicit is None:
            return None
        choices = [choice for k in cluster.bodies for choice in joints[k].choices]
        independent = tuple(c for c, choice in enumerate(choices) if choice is not False)
        start, below = (
            self._supporting_state(cluster.below, 0) if cluster.below else ClosedState(self._neutral, None)
        )
        q = explicit.nearest(start, joints)
        if not independent or explicit.residual(q, joints) >= CLOSED:
            return None
        count = len(cluster.constraints)
        return replace(cluster, independent=independent, rows=tuple(range(count)), count=count), [
            ClosedState(q, below)
        ]

    def _closed_state(
        self, cluster: Cluster, attempt: int, rng: np.random.Generator, known: np.ndarray | None
    ) -> tuple[ClosedState, ClosureProblem, ClosureResult]:
        """Return a candidate from a known state, neutral coordinates, then random ones.

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
        problem = ClosureProblem(
            model, cluster.bodies, cluster.constraints, stays, cluster.supports, self._budget
        )
        result = close_problem(problem, q, thorough=known is None)
        return ClosedState(result.q, below), problem, result

    def _supporting_state(self, cluster: Cluster, n: int) -> ClosedState:
        """Return a closed state of a supporting cluster, and its embedding there."""
        like, states = self._closed[cluster.bodies]
        known = self._supporting.setdefault(cluster.bodies, {})
        n %= len(states)
        if n not in known:
            state_above, below = states[n]
            q = state_above.copy()
            for one, other in zip(cluster.bodies, like.bodies):
                q[self.model.joints[one].q_slice] = state_above[self.model.joints[other].q_slice]
            known[n] = ClosedState(q, self._embedding(cluster, ClosedState(q, below)))
        q, embedding = known[n]
        return ClosedState(q.copy(), embedding)

    def _posture(self, cluster: Cluster, state: ClosedState) -> ClusterPosture:
        below = state.below.posture if state.below else None
        return cluster_posture(self.model, cluster.bodies, state.q, below, cluster.supports)

    def _embedding(self, cluster: Cluster, state: ClosedState) -> Embedding[BodyMotion]:
        """Return the embedding of a cluster in a closed state, for given independent velocities."""
        if cluster.below and not state.below:
            state = ClosedState(state.q, self._embedding(cluster.below, state))
        m = len(cluster.independent)
        dy = self.rng.normal(size=m)
        return Embedding(self._posture(cluster, state), cluster, slice(0, m), dy, state.below, plain_body)

    def _content(self, bodies: tuple[int, ...], constraints: tuple[LoopConstraint, ...]) -> Any:
        """Return all data that decide the analysis of a cluster with one support, or None."""
        index = {k: n for n, k in enumerate(bodies)}

        def there(end: End) -> Any:
            return index.get(end.body), end.place.R.tobytes(), end.place.p.tobytes()

        content: list[Any] = [self.model.tolerance]
        for k in bodies:
            joint = self.model.joints[k]
            limits = (
                joint.lower,
                joint.upper,
                None if self.model.start is None else self.model.start[joint.q_slice],
            )
            content.append(
                (
                    joint.kind,
                    there(End(joint.parent, joint.place)),
                    joint.independent,
                    k in self._carrying,
                    limits,
                )
            )
        content += [c.content(index, there) for c in constraints]
        try:
            hash(tuple(content))
        except TypeError:  # a joint or a function of the user's own that cannot be compared
            return None
        return tuple(content)


def _bent(problem: ClosureProblem, states: Sequence[np.ndarray]) -> tuple[ClosureProblem, float]:
    """Return the problem that decides which equations are independent, and the weight of modal coordinates.

    If joints alone can satisfy all equations, modes hardly count. Otherwise, as at a pin that also holds a
    rod bending out of the plane of its loop, modes must follow.
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


def _why_stuck(
    model: Mechanism, cluster: Cluster, problem: ClosureProblem, q: np.ndarray, rank: Rank
) -> ModelError:
    """Return the error for a closed cluster without coordinates: immobile, singular, or coarse numbers."""
    free, mobility = finite_mobility(problem, q)
    if 0 < mobility < free:
        return singular_everywhere(model, cluster, free, mobility)
    if problem.tolerance <= rank.coarse < COARSE * problem.tolerance:
        return misses_in_motion(model, cluster, rank.coarse, problem.tolerance)
    return branches_meet(model, cluster, mobility) if mobility else stuck(model, cluster)


def _best_conditioned(states: Sequence[S], Js: Sequence[np.ndarray], cut: float) -> tuple[S, np.ndarray]:
    """Return the best conditioned state of largest rank, or the first of those about as good."""
    best = 0
    rank = -1
    most = 0.0
    for n, J in enumerate(Js):
        s = np.linalg.svd(J, compute_uv=False)
        r = count_above(s, cut)
        quality = float(s[r - 1] / s[0]) if r else 1.0
        if r > rank or (r == rank and quality > 1.5 * most):
            best = n
            rank = r
            most = quality
    return states[best], Js[best]


def _gaps(problem: ClosureProblem, rank: Rank) -> tuple[tuple[float, float], ...]:
    """Return the gaps of each constraint [m, rad]."""
    missed = rank.missed * problem.units
    gaps = []
    for c, rows in zip(problem.constraints, problem.rows):
        lengths = c.lengths(problem.model.joints)
        gaps.append(
            (float(missed[rows][lengths].max(initial=0.0)), float(missed[rows][~lengths].max(initial=0.0)))
        )
    return tuple(gaps)


def _own(model: Mechanism, cluster: Cluster, q: np.ndarray) -> tuple[float, ...]:
    """Return the coordinates of a cluster's joints."""
    return tuple(x for k in cluster.bodies for x in q[model.joints[k].q_slice].tolist())


def _kept_of_lineage(cluster: Cluster) -> list[int]:
    """Return the independent equations of a cluster among those of its lineage."""
    rows = list(cluster.rows)
    one = cluster.below
    while one:
        rows, one = [*one.rows, *(one.count + row for row in rows)], one.below
    return rows


def _holds(embedding: Embedding[BodyMotion], problem: ClosureProblem) -> bool:
    """Return whether the motion satisfies all equations, redundant ones included, up to accelerations."""
    posture = embedding.posture
    size = embedding.posture.size
    K, k = (x.astype(float) for x in all_equations(posture, problem.constraints, embedding.speeds))
    K = K / problem.units[:, None]
    k = k / problem.units
    v = embedding.v.astype(float)
    g = embedding.whole.g
    V = embedding.V.astype(float)
    alpha = np.zeros(0)
    if embedding.below:
        alpha = np.concatenate([embedding.below.alpha(support) for support in posture.supports]).astype(float)
    speeds = K[:, :size] @ v + K[:, size:] @ V
    residual = K[:, :size] @ g.astype(float) + K[:, size:] @ alpha - k
    six = np.tile([1.0] * 3 + [problem.length] * 3, len(posture.supports))
    largest = max(np.abs(x).max(initial=0.0) for x in (v / problem.columns, V / six, alpha / six, k))
    return bool(
        max(np.abs(speeds).max(initial=0.0), np.abs(residual).max(initial=0.0))
        <= problem.allowed * (1.0 + largest)
    )


def find_independent_rows(model: Mechanism, cluster: Cluster) -> list[tuple[int, ...]]:
    """Return the independent equations of each constraint of a cluster."""
    independent = []
    start = 0
    for constraint in cluster.constraints:
        size = constraint.count(model.joints)
        independent.append(tuple(r - start for r in cluster.used if start <= r < start + size))
        start += size
    return independent


def loops_with_independent_rows(model: Mechanism, cluster: Cluster) -> list[LoopConstraint]:
    """Return the constraints of a cluster, with independent rows and slack of loop joints."""
    parts = zip(cluster.constraints, find_independent_rows(model, cluster), slack_shares(model, cluster))
    return [loop.with_independent_rows(rows, slack) for loop, rows, slack in parts]


def slack_shares(model: Mechanism, cluster: Cluster) -> list[tuple[float, ...]]:
    """Return the slack of the equations of each constraint [m or rad]; () where they hold exactly."""
    ends = np.cumsum([0, *(constraint.count(model.joints) for constraint in cluster.constraints)]).tolist()
    return [share if any(share := cluster.slack[a:b]) else () for a, b in pairwise(ends)]
