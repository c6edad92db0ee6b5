"""Selection of independent velocities by the conditioning of the dependent part over the reachable range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.loops.clusters import Cluster
from linkwork.loops.mobility import most_independent
from linkwork.loops.motion import ClusterPosture
from linkwork.loops.null_space import combined, conditioning, null_space
from linkwork.loops.scales import LOOP_DEFORMATION, scales_of
from linkwork.loops.walker import Walk, Walker, WalkState, path_score, sample_walks
from linkwork.mechanism import Mechanism
from linkwork.mechanism.names import join_names

PREFERENCE_FACTOR = 3.0  # the preferred choice is kept unless another is better by this factor
MIN_CONDITIONING = 1e-6  # below it a choice does not determine the other velocities
EXCHANGE_ENTRY = 1.1  # entries of G at which an independent velocity is exchanged with a dependent one
ACCEPTED_ENTRY = 2.0  # entries of G up to which a choice counts as optimal in a state

Place = tuple[
    np.ndarray, ClusterPosture | None
]  # a closed state, (nq,), and the posture of the cluster below, if any


class SingularChoice(ModelError):
    """No choice of independent velocities is regular in any closed configuration that was found."""


class Choice(NamedTuple):
    """Columns of the independent velocities, and the given states where they determine the others.

    If there are none, `reached` is another closed state where they do.
    """

    independent: list[int]
    good: list[int]
    reached: np.ndarray


def choose_independent(
    model: Mechanism,
    cluster: Cluster,
    rows: Sequence[int],
    states: Sequence[Place],
    names: str,
    held: float = LOOP_DEFORMATION,
) -> Choice:
    """Return the independent velocities: those chosen by users, or well-conditioned ones.

    The `rows` of the cluster's equations are used. The first of the regular closed `states` is the best
    conditioned one, the second the one nearest to neutral coordinates, from which others are reached. Modal
    coordinates count `held` times their usual size, so that they depend on joints only if joints alone cannot
    close the loops.
    """
    scales = scales_of(model, cluster, held)
    rows = list(rows)
    linear = all(constraint.linear for constraint in cluster.constraints)  # then all states are equivalent

    walkers = [
        Walker(model, cluster, scales, rows, below) for _, below in (states if cluster.below else states[:1])
    ]
    equations = [walker.independent_equations(q) for walker, (q, _) in zip(cycle(walkers), states)]

    def walks() -> list[Walk]:
        walked = [] if linear else sample_walks(walkers[1 if cluster.below else 0], states[1][0])
        apart = [[WalkState(q, K)] for (q, _), K in zip(states[2:], equations[2:])]
        return walked + (apart if cluster.below else [])  # with other states below

    independent = _chosen(model, cluster, equations[0], names)
    if independent is None:
        independent = _best(model, cluster, equations[0], walks)
    good = [
        n
        for n, K in enumerate(equations)
        if not independent or conditioning(K, independent) >= MIN_CONDITIONING
    ]
    if good:
        return Choice(independent, good, states[good[0]][0])
    reached = max(
        (at for walk in walks() for at in walk), key=lambda at: conditioning(at.K, independent), default=None
    )
    if reached is None or conditioning(reached.K, independent) < MIN_CONDITIONING:
        if all(choice is None for k in cluster.bodies for choice in model.joints[k].choices):
            raise SingularChoice(
                f"{names}: no independent velocities determine the others in any configuration found"
            )
        labels = _told(model, cluster)
        raise ModelError(
            f"{names}: the velocities of {labels} do not determine the "
            f"others{_advice(model, cluster, equations[0])}"
        )
    return Choice(independent, [], reached.q)


def _chosen(model: Mechanism, cluster: Cluster, K: np.ndarray, names: str) -> list[int] | None:
    """Return the independent velocities chosen by users, or None; K is (rank, size)."""
    choices = [choice for k in cluster.bodies for choice in model.joints[k].choices]
    if all(choice is None for choice in choices):
        return None
    rank, size = K.shape
    columns = [c for c, choice in enumerate(choices) if choice is not False]
    if (
        True not in choices and len(columns) > size - rank
    ):  # some shall depend, as mimics do; the others are left open
        others = [c for c in range(size) if c not in columns]
        if np.linalg.matrix_rank(K[:, others], tol=MIN_CONDITIONING * np.linalg.norm(K, 2)) == len(others):
            columns = sorted({*columns} - {*_completing(K, others, columns, rank - len(others))})
    if len(columns) == size - rank:
        return columns
    if model.constrained_loops:  # the choice was made for all loops embedded
        return None
    counts = f"{size - rank} degrees of freedom, but {len(columns)} independent velocities are chosen"
    raise ModelError(f"{names} leave {counts}: {_told(model, cluster) or 'none'}{_advice(model, cluster, K)}")


def _completing(K: np.ndarray, dependent: list[int], candidates: list[int], count: int) -> list[int]:
    """Return candidate columns that, with those of dependent velocities, are farthest from singular."""
    scaled = K / np.maximum(np.abs(K).max(axis=1, keepdims=True), 1e-300)
    basis = np.linalg.qr(scaled[:, dependent])[0]
    remainder = scaled[:, candidates] - basis @ (basis.T @ scaled[:, candidates])
    return [candidates[i] for i in most_independent(remainder.T, count)]


def _advice(model: Mechanism, cluster: Cluster, K: np.ndarray) -> str:
    """Return possible independent velocities, for an error message."""
    every = [name for k in cluster.bodies for name in model.joints[k].v_names]
    best = usual_independent(model, cluster.bodies, K)
    return (
        f"; choose {len(best)} of {join_names([repr(x) for x in every])}, such as "
        f"{join_names([repr(every[c]) for c in best])}"
    )


def _told(model: Mechanism, cluster: Cluster) -> str:
    """Return the names of joints or components that users chose."""
    names: list[str] = []
    for joint in (model.joints[k] for k in cluster.bodies):
        components = [name for name, choice in zip(joint.v_names, joint.choices) if choice is not False]
        names += [joint.name] if len(components) == joint.nv else components
    return join_names([repr(name) for name in names])


def _best(
    model: Mechanism, cluster: Cluster, K: np.ndarray, walks: Callable[[], Sequence[Walk]]
) -> list[int]:
    """Return the independent velocities with the best conditioning over the walks.

    Those of `usual_independent` for K, (rank, size), unless others are much better: its choices in other
    states and, for one degree of freedom, velocities that never vanish.
    """
    rank, size = K.shape
    usual = usual_independent(model, cluster.bodies, K)
    paths = walks() if 0 < rank < size else []
    if not paths:
        return usual
    candidates = [tuple(usual)]
    candidates += [
        tuple(usual_independent(model, cluster.bodies, at.K)) for path in paths for at in path[::4]
    ]
    if size - rank == 1:  # each by its share in the motion: the others are as good as it is large
        shares = np.abs([null_space(at.K)[-1] for path in paths for at in path]).min(axis=0)
        candidates += [(int(c),) for c in np.argsort(-shares, kind="stable")[:3]]
    scores = {choice: path_score(choice, paths) for choice in dict.fromkeys(candidates)}
    best = max(scores, key=scores.__getitem__)
    return list(best) if scores[best] > PREFERENCE_FACTOR * scores[tuple(usual)] else usual


def usual_independent(model: Mechanism, bodies: Sequence[int], K: np.ndarray) -> list[int]:
    """Return independent velocities with a well-conditioned dependent part in one state; K is (rank, size).

    Leaves of the tree are preferred as dependent: rotors depend on links.
    """
    rank, size = K.shape
    carrying = {joint.parent for joint in model.joints}
    tips = [k not in carrying for k in bodies for _ in range(model.joints[k].nv)]
    scaled = K / np.maximum(np.abs(K).max(axis=1, keepdims=True), 1e-300)
    for candidates in (np.flatnonzero(tips), np.arange(size)):
        if len(candidates) >= rank:
            dependent = candidates[most_independent(scaled[:, candidates].T, rank)]
            s = np.linalg.svd(scaled[:, dependent], compute_uv=False)
            if rank == 0 or s[-1] > 1e-3 * s[0]:
                break
    return sorted({*range(size)} - {*dependent.tolist()})


def independent_in_state(
    K: np.ndarray, rank: int, rows: Sequence[int], *, overdetermined: Sequence[int] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the best conditioned independent velocities and equations in one state.

    K, (count, size), is unit-free. The given `rows` are kept if nearly as good as any, or if `overdetermined`
    ones are used. Dependent velocities are exchanged for independent ones one by one while that enlarges the
    determinant of the dependent part by far: then no entry of G is large.
    """
    used = list(rows)
    size = K.shape[1]
    if overdetermined:
        return independent_in_state(combined(K[list(overdetermined)], rank), rank, range(rank))[0], tuple(
            rows
        )
    if (
        np.linalg.svd(K[used], compute_uv=False)[-1:]
        < 0.1 * np.linalg.svd(K, compute_uv=False)[rank - 1 : rank]
    ):
        used = most_independent(K, rank)
    dependent = most_independent(K[used].T, rank)
    independent = sorted({*range(size)} - {*dependent})
    for _ in range(2 * size):
        G = np.abs(np.linalg.lstsq(K[used][:, dependent], K[used][:, independent], rcond=None)[0])
        if G.size == 0 or not G.max() > EXCHANGE_ENTRY:
            break
        out, into = np.unravel_index(int(np.argmax(G)), G.shape)
        dependent[out], independent[into] = independent[into], dependent[out]
    return tuple(sorted(independent)), tuple(used)


def independent_at(
    model: Mechanism, cluster: Cluster, q: np.ndarray, below: ClusterPosture | None = None
) -> tuple[int, ...]:
    """Return the best conditioned independent velocities of a cluster at a closed state q, (nq,).

    The present ones if they are about as good.
    """
    K = Walker(model, cluster, scales_of(model, cluster), cluster.rows, below).equations(q)
    if not np.isfinite(K).all():
        raise ModelError(f"independent velocities: q: expected finite numbers, got {q.tolist()}")
    if (
        not cluster.rows
        or np.abs(coefficients(K, cluster.independent, cluster.used)).max(initial=0.0) <= ACCEPTED_ENTRY
    ):
        return cluster.independent
    return independent_in_state(K, len(cluster.rows), cluster.rows, overdetermined=cluster.overdetermined)[0]


def coefficients(K: np.ndarray, independent: Sequence[int], rows: Sequence[int]) -> np.ndarray:
    """Return -G of `rows` of K, (count, size): dependent velocities by independent ones.

    By least squares if there are more rows than dependent velocities; infinite if they do not follow.
    """
    used = K[list(rows)]
    dependent = sorted({*range(K.shape[1])} - {*independent})
    try:
        if len(used) > len(dependent):
            Q, R = np.linalg.qr(used[:, dependent])
            return np.linalg.solve(R, Q.T @ used[:, list(independent)])
        return np.linalg.solve(used[:, dependent], used[:, list(independent)])
    except np.linalg.LinAlgError:
        return np.full((len(dependent), len(independent)), np.inf)
