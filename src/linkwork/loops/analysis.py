"""Analysis of clusters: rank of the constraint Jacobian at closed states, and independent velocities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.loops.closing import (
    CLOSURE_TOL,
    RANK_TOL,
    ClosureResult,
    close,
    close_problem,
    close_rows,
    close_within_limits,
    initial_guesses,
)
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.loops.closure_messages import (
    cannot_close_error,
    describe_gap,
    immobile_error,
    link_names,
    loop_names,
    singularity_error,
)
from linkwork.loops.cluster_states import (
    BEND_WEIGHT,
    ClosedState,
    best_conditioned,
    cluster_content,
    cluster_coordinates,
    constraint_gaps,
    independent_rows_of_lineage,
    no_motion_error,
    rank_problem,
    satisfies_all_equations,
)
from linkwork.loops.clusters import Cluster, Group
from linkwork.loops.couplings import explicit_couplings
from linkwork.loops.embedding import Embedding, plain_body
from linkwork.loops.independent import SingularChoice, choose_independent
from linkwork.loops.kinematics import BodyMotion
from linkwork.loops.minimal_equations import minimal_overdetermined_rows
from linkwork.loops.mobility import (
    Rank,
    count_above,
    find_rank,
    find_used_rows,
    finite_mobility,
    most_independent,
    most_independent_everywhere,
    residuals_in_motion,
    sample_closed_states,
    slack_of_rows,
)
from linkwork.loops.motion import ClusterPosture, cluster_posture
from linkwork.loops.scales import LOOP_DEFORMATION
from linkwork.mechanism import Mechanism
from linkwork.mechanism.limits import Budget, Limits

MAX_ATTEMPTS = 24  # random starting points for closing a loop
TRIAL_STATES = 8  # closed configurations analysed in addition to the first
MAX_LOOPS_PER_LINK = 4  # loops and couplings of a cluster per link of the limit
# residual of a dropped equation after a motion by about a radian, relative to the tolerance
FAR_TOL_FACTOR = 15.0
# ... and relative to the size of loops: rods of delta robots, which must not be dropped, have 0.07 and more
MAX_FAR_RESIDUAL = 0.03


# a closed state of a cluster with several supports, its problem, the result of closing, and the Jacobian
Candidate = tuple[ClosedState, ClosureProblem, ClosureResult, np.ndarray]


class ClusterAnalysis:
    """Search for independent equations (row rank) and independent velocities at closed configurations."""

    def __init__(self, model: Mechanism, limits: Limits | None = None) -> None:
        self.model, self.rng = model, np.random.default_rng(0)
        self.limits, self._budget = limits, Budget(limits)
        self._neutral = model.tree_neutral()
        self._known: dict[Any, tuple[Cluster, list[ClosedState]]] = model.analyses  # by content
        self._closed: dict[tuple[int, ...], tuple[Cluster, list[ClosedState]]] = {}  # keyed by bodies
        # keyed by bodies, for clusters whose states are stored
        self._supporting: dict[tuple[int, ...], dict[int, ClosedState]] = {}

    def cluster(
        self, group: Group, supports: Sequence[int] = (), below: Cluster | None = None, *, keep: bool = True
    ) -> Cluster:
        """Return the cluster of a group with one support, or with several in the cluster below.

        If `keep`, its closed states are stored for the clusters that it supports.
        """
        bodies = tuple(group[0])
        constraints = tuple(group[1])
        if not constraints:
            return Cluster(bodies, independent=tuple(range(self.model.joints[bodies[0]].nv)))
        self._supporting.pop(bodies, None)
        content = None if below else cluster_content(self.model, bodies, constraints)
        known = self._known.get((keep, content)) if content else None
        if known is None:
            analysed, states = self._analyse(
                Cluster(bodies, constraints, supports=tuple(supports), below=below)
            )
            known = analysed, states if keep else []
            if content:
                self._known[keep, content] = known
        like, _ = self._closed[bodies] = known
        return replace(like, bodies=bodies, constraints=constraints)

    def _analyse(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """Return the cluster with its equations and independent velocities, and the states analysed."""
        simple = self._analyse_explicit(cluster)
        if simple:
            return simple
        self._check_size(cluster, "links", len(cluster.bodies), 1)
        self._check_size(cluster, "loops and couplings", len(cluster.constraints), MAX_LOOPS_PER_LINK)
        return self._analyse_with_supports(cluster) if cluster.below else self._analyse_alone(cluster)

    def _check_size(self, cluster: Cluster, items: str, count: int, each: int) -> None:
        """Raise LimitError if a cluster has more items than `each` times the limit of links."""
        if self.limits and count > each * self.limits.cluster:
            times = f"{each} times " if each > 1 else ""
            raise LimitError(
                f"{loop_names(cluster)} make one cluster of {count} {items}, more than {times}the limit of "
                f"{self.limits.cluster}: {self.limits.raised('cluster')}"
            )

    def constrained_cluster(self, group: Group) -> Cluster:
        """Return the cluster of a group of constrained loops, with independent equations at closed states."""
        cluster = Cluster(tuple(group[0]), tuple(group[1]))
        self._check_size(cluster, "loops and couplings", len(cluster.constraints), MAX_LOOPS_PER_LINK)
        problem = ClosureProblem(self.model, cluster.bodies, cluster.constraints, budget=self._budget)
        rng = np.random.default_rng(0)
        first = self._first_closed(cluster, problem, rng)
        states = [first, *sample_closed_states(problem, first, 3, rng)]
        cut = RANK_TOL if first.exact else 10.0 * problem.tolerance
        problem, _ = rank_problem(problem, [state.q for state in states])
        best, J = best_conditioned(states, [problem.at(state.q)[1] for state in states], cut)
        rank = find_rank(problem, best, J)
        if rank.rank == J.shape[1] or not rank.moves:  # constrained loops only need to close
            rows = most_independent(J, count_above(np.linalg.svd(J, compute_uv=False), cut))
            residuals = np.max([np.abs(problem.at(state.q)[0]) for state in states], axis=0)
            rank = Rank(len(rows), rows, np.zeros(len(J)) if first.exact else residuals, cut, True)
        slack = slack_of_rows(problem, rank, rank.used)
        return replace(
            cluster, rows=tuple(rank.rows), count=len(J), slack=slack,
            gaps=constraint_gaps(problem, rank) if slack else (),
            closed=cluster_coordinates(self.model, cluster, first.q), overdetermined=rank.used,
        )  # fmt: skip

    def _analyse_alone(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """Return the analysis of a cluster with one support, in the first assembly mode found."""
        model = self.model
        rng = np.random.default_rng(0)
        problem = ClosureProblem(model, cluster.bodies, cluster.constraints, budget=self._budget)
        first = self._first_closed(cluster, problem, rng)
        linear = all(c.linear for c in cluster.constraints)  # then all states are equivalent
        states = [first, *(() if linear else sample_closed_states(problem, first, TRIAL_STATES, rng))]
        problem, held = rank_problem(problem, [state.q for state in states])
        Js = [problem.at(state.q)[1] for state in states]
        best, J = best_conditioned(states, Js, RANK_TOL if first.exact else 10.0 * problem.tolerance)
        rank = find_rank(problem, best, J)
        if linear and rank.rank == J.shape[1]:
            raise ModelError(
                f"{loop_names(cluster)} leave the links {link_names(model, cluster)} no degree of freedom: "
                "use fixed joints instead"
            )
        if not rank.moves:
            raise no_motion_error(model, cluster, problem, first.q, rank)
        if first.exact:
            full_rank = [
                J for J in Js if count_above(np.linalg.svd(J, compute_uv=False), rank.cut) == rank.rank
            ]
            rank = rank._replace(rows=most_independent_everywhere(full_rank or [J], rank.rows))
        used = rank.used
        slack = slack_of_rows(problem, rank, used)
        if slack and not used:
            best, *states = (
                ClosureResult(close_rows(problem, x.q, rank.rows, np.inf)[0], x.residual, exact=False)
                for x in (best, *states)
            )
        ranks = [count_above(np.linalg.svd(J, compute_uv=False), rank.cut) for J in Js]
        regular = [best, *(state for state, r in zip(states, ranks) if r == rank.rank)]
        places = [(state.q, None) for state in regular]
        variant = replace(cluster, overdetermined=used)
        try:
            choice = choose_independent(model, variant, rank.rows, places, loop_names(cluster), held)
        except SingularChoice as error:
            free, mobility = finite_mobility(problem, first.q)
            raise (singularity_error(model, cluster, free, mobility) if mobility < free else error) from None
        result = replace(
            cluster, independent=tuple(choice.independent), rows=tuple(rank.rows), count=len(J), slack=slack,
            gaps=constraint_gaps(problem, rank) if slack else (),
            closed=cluster_coordinates(model, cluster, states[0].q), overdetermined=used,
        )  # fmt: skip
        if used:
            result = replace(result, overdetermined=minimal_overdetermined_rows(model, result, states[0].q))
        good = [regular[n].q for n in choice.good if n] or [choice.reached]
        return result, [ClosedState(q, None) for q in good]

    def _first_closed(
        self, cluster: Cluster, problem: ClosureProblem, rng: np.random.Generator
    ) -> ClosureResult:
        """Return a closed configuration, from the given, the neutral, then random initial guesses.

        Configurations within the joint limits are preferred.
        """
        initial = [] if self.model.start is None else [np.array(self.model.start)]
        tried: list[np.ndarray] = []
        distances: list[float] = []
        outside: ClosureResult | None = None
        preferred = [*initial, self._neutral]
        for n, q in enumerate((*preferred, *initial_guesses(problem, preferred[0], MAX_ATTEMPTS, rng))):
            if outside and n >= len(preferred) + 5:
                break
            try:
                result = close_problem(problem, q, thorough=n < len(preferred))
                tried.append(result.q)
                if result.is_closed and len(problem.limit_violations(result.q)[0]):
                    outside = outside or result
                    result = close_within_limits(problem, result.q) or result._replace(residual=np.inf)
            except LimitError as limit_error:
                if outside:
                    return outside
                raise LimitError(
                    f"{loop_names(cluster)}: {describe_gap(problem, tried or [q])}: {limit_error}"
                ) from None
            if result.is_closed:
                return result
            distances.append(problem.error_norm(result.q))
            if sum(one < 1.02 * min(distances) for one in distances) > 8:  # converged to the same minimum
                break
        if outside:
            return outside
        raise cannot_close_error(cluster, problem, tried)

    def _analyse_with_supports(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]]:
        """Return the analysis of a cluster with several supports, which its joints must be able to follow."""
        candidates = self._closed_candidates(cluster)
        bends = any(rank_problem(problem, [state.q])[1] == BEND_WEIGHT for state, problem, *_ in candidates)
        if bends:
            free = [problem.bending() for _, problem, _, _ in candidates]
            candidates = [
                (state, new, closed, new.at(state.q)[1])
                for new, (state, _, closed, _) in zip(free, candidates)
            ]
        exact = all(closed.exact for _, _, closed, _ in candidates)
        cut = RANK_TOL if exact else 10.0 * candidates[0][1].tolerance
        best, J = best_conditioned(candidates, [J for *_, J in candidates], cut)
        rank = count_above(np.linalg.svd(J, compute_uv=False), cut)
        rows = most_independent(J, rank)
        ranks = [count_above(np.linalg.svd(J, compute_uv=False), cut) for *_, J in candidates]
        regular = [best, *(one for one, r in zip(candidates, ranks) if r == rank)]
        postures = [(state.q, state.below.posture if state.below else None) for state, *_ in regular]
        held = BEND_WEIGHT if bends else LOOP_DEFORMATION
        residuals = np.max([np.abs(problem.at(state.q)[0]) for state, problem, _, _ in candidates], axis=0)
        ranked = Rank(rank, rows, np.zeros(len(J)) if exact else residuals, cut, True)
        used = find_used_rows(best[1], rows, exact=exact, cluster=cluster)
        slack = slack_of_rows(best[1], ranked, used)
        variant = replace(cluster, overdetermined=used)
        choice = choose_independent(self.model, variant, rows, postures, loop_names(cluster), held)
        result = replace(
            cluster, independent=tuple(choice.independent), rows=tuple(rows), count=len(J), slack=slack,
            gaps=constraint_gaps(best[1], ranked) if slack else (),
            closed=cluster_coordinates(self.model, cluster, candidates[0][0].q),
            overdetermined=used,
        )  # fmt: skip
        good = [regular[n] for n in choice.good if n]
        states = [
            ClosedState(close_rows(problem, state.q, rows, np.inf)[0], state.below)
            if slack and not used
            else state
            for state, problem, _, _ in good
        ] or [ClosedState(choice.reached, regular[-1][0].below)]
        best[1].exact = exact
        for state in states:  # motions of the supports may violate redundant equations
            if not satisfies_all_equations(self._embedding(result, state), best[1]):
                raise immobile_error(self.model, cluster)
        if slack and not self._follows_supports(result, states[0].q):
            raise immobile_error(self.model, cluster)
        return result, states

    def _closed_candidates(self, cluster: Cluster) -> list[Candidate]:
        """Return closed states of a cluster with several supports, each with its problem and Jacobian."""
        rng = np.random.default_rng(0)
        candidates: list[Candidate] = []
        tried: list[tuple[ClosureProblem, ClosureResult]] = []
        for attempt in range(MAX_ATTEMPTS):
            try:
                state, problem, closed = self._closed_state(
                    cluster, attempt, rng, candidates[0][0].q if candidates else None
                )
            except LimitError as limit_error:
                near = (
                    describe_gap(tried[-1][0], [tried[-1][1].q]) if tried and not candidates else "not closed"
                )
                raise LimitError(f"{loop_names(cluster)}: {near}: {limit_error}") from None
            tried.append((problem, closed))
            if closed.is_closed:
                candidates.append((state, problem, closed, problem.at(state.q)[1]))
            # not every state of the supporting cluster is within reach
            if candidates and attempt >= (3 if closed.is_closed else 7):
                break
        if not candidates:
            problem, closed = min(tried, key=lambda one: one[1].residual)
            raise cannot_close_error(cluster, problem, [closed.q])
        return candidates

    def _follows_supports(self, cluster: Cluster, q: np.ndarray) -> bool:
        """Return whether dropped equations stay within tolerances for large motions of the supports.

        A single state is not enough: with rounded dimensions, an equation that constrains the supports may
        appear redundant there. Residuals quadratic in an angle, as of the slider in the knee spring of
        Cassie's SDF, are intended motion.
        """
        problem = ClosureProblem(self.model, cluster.family, cluster.lineage, budget=self._budget)
        residuals = residuals_in_motion(problem, q, independent_rows_of_lineage(cluster), far=True)
        return bool(
            np.all(
                residuals[-cluster.count :]
                < max(problem.tolerance, min(FAR_TOL_FACTOR * problem.tolerance, MAX_FAR_RESIDUAL))
            )
        )

    def _analyse_explicit(self, cluster: Cluster) -> tuple[Cluster, list[ClosedState]] | None:
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
        if not independent or explicit.residual(q, joints) >= CLOSURE_TOL:
            return None
        count = len(cluster.constraints)
        return replace(cluster, independent=independent, rows=tuple(range(count)), count=count), [
            ClosedState(q, below)
        ]

    def _closed_state(
        self, cluster: Cluster, attempt: int, rng: np.random.Generator, known: np.ndarray | None
    ) -> tuple[ClosedState, ClosureProblem, ClosureResult]:
        """Return a closed state from a known state, neutral coordinates, then random ones.

        The supporting cluster keeps its state in the first half of the attempts.
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
        if attempt >= MAX_ATTEMPTS // 2:
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
        """Return the embedding of a cluster in a closed state, with random independent velocities."""
        if cluster.below and not state.below:
            state = ClosedState(state.q, self._embedding(cluster.below, state))
        m = len(cluster.independent)
        dy = self.rng.normal(size=m)
        return Embedding(self._posture(cluster, state), cluster, slice(0, m), dy, state.below, plain_body)
