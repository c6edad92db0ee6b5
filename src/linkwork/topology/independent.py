"""The choice of independent velocities in a cluster: by the conditioning of the dependent part over the reachable range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.parts import Mechanism
from linkwork.parts.names import some
from linkwork.topology.clusters import Cluster
from linkwork.topology.mobility import most_independent
from linkwork.topology.motion import ClusterPosture, all_equations, residuals
from linkwork.topology.numeric import NumericPosture
from linkwork.topology.scales import HELD, Scales, scales_of

STATES = 32  # closed states that are looked at, in small clusters
WORK = 2500  # bodies and equations of all these states: large clusters are looked at in fewer
STEP = 0.25  # between them [rad or lengths of the cluster]
ABOUT_AS_GOOD = 3.0  # a usual choice stays unless another is better by this factor
DETERMINED = 1e-6  # conditioning below which a choice does not determine the other velocities
LOWEST = 0.2  # the part of all states, the worst of them, that a choice is judged by
LARGE = 1.1  # entry of G, in one state, for which an independent velocity becomes a dependent one
SMALL = 2.0  # entries of G in a choice that is as good as any in that state
TURNED = 0.01  # conditioning between two states with a singular one between, relative to theirs

Place = tuple[np.ndarray, ClusterPosture | None]  # a closed state, (nq,), and the posture of the cluster below, if any


class Reached(NamedTuple):
    """A closed state q, (nq,), and the unit-free equations K, (rank, size), that are kept of a cluster there."""

    q: np.ndarray
    K: np.ndarray


Walk = list[Reached]  # each near the one before


class Choice(NamedTuple):
    """Places of the independent velocities of a cluster; those of the given states in which they determine the others.

    Where there is none of these, `reached` is another closed state in which they do.
    """

    independent: list[int]
    good: list[int]
    reached: np.ndarray


def choose_independent(
    model: Mechanism, cluster: Cluster, rows: Sequence[int], states: Sequence[Place], names: str, held: float = HELD
) -> Choice:
    """The independent velocities: those of the joints that users chose, or those that are good over the reachable range.

    The `rows` of the cluster's equations are kept. The first of some regular closed `states` is the best conditioned one, the
    second the one nearest to neutral coordinates, from which others are reached. Modal coordinates count `held` times their
    usual size: little, so that joints depend on them, unless joints alone cannot close the loops.
    """
    scales = scales_of(model, cluster, held)
    linear = all(constraint.linear for constraint in cluster.constraints)  # then all states are alike

    walkers = [_Walker(model, cluster, scales, rows, below) for _, below in (states if cluster.below else states[:1])]
    given = [walker.equations(q)[rows] for walker, (q, _) in zip(cycle(walkers), states)]

    def walks() -> list[Walk]:
        walked = [] if linear else _walks(walkers[1 if cluster.below else 0], states[1][0])
        apart = [[Reached(q, K)] for (q, _), K in zip(states[2:], given[2:])]
        return walked + (apart if cluster.below else [])  # with other states below

    independent = _chosen(model, cluster, given[0], names)
    if independent is None:
        independent = _best(model, cluster, given[0], walks)
    good = [n for n, K in enumerate(given) if not independent or conditioning(K, independent) >= DETERMINED]
    if good:
        return Choice(independent, good, states[good[0]][0])
    reached = max((at for walk in walks() for at in walk), key=lambda at: conditioning(at.K, independent), default=None)
    if reached is None or conditioning(reached.K, independent) < DETERMINED:
        told = _told(model, cluster)
        raise ModelError(f"{names}: the velocities of {told} do not determine the others{_advice(model, cluster, given[0])}")
    return Choice(independent, [], reached.q)


def _chosen(model: Mechanism, cluster: Cluster, K: np.ndarray, names: str) -> list[int] | None:
    """The independent velocities that users chose, or None; K, (rank, size), has the equations that are kept."""
    choices = [choice for k in cluster.bodies for choice in model.joints[k].choices]
    if all(choice is None for choice in choices):
        return None
    rank, size = K.shape
    chosen = [c for c, choice in enumerate(choices) if choice is not False]
    if True not in choices and len(chosen) > size - rank:  # some shall depend, as mimics do; the others are left open
        rest = [c for c in range(size) if c not in chosen]
        if np.linalg.matrix_rank(K[:, rest], tol=DETERMINED * np.linalg.norm(K, 2)) == len(rest):
            chosen = sorted({*chosen} - {*_completing(K, rest, chosen, rank - len(rest))})
    if len(chosen) == size - rank:
        return chosen
    if model.force_held:  # the choice was made for all loops embedded
        return None
    counts = f"{size - rank} degrees of freedom, but {len(chosen)} independent velocities are chosen"
    raise ModelError(f"{names} leave {counts}: {_told(model, cluster) or 'none'}{_advice(model, cluster, K)}")


def _completing(K: np.ndarray, dependent: list[int], candidates: list[int], count: int) -> list[int]:
    """So many of the candidates' columns that are, with those of dependent velocities, the farthest from singular."""
    scaled = K / np.maximum(np.abs(K).max(axis=1, keepdims=True), 1e-300)
    basis = np.linalg.qr(scaled[:, dependent])[0]
    left = scaled[:, candidates] - basis @ (basis.T @ scaled[:, candidates])
    return [candidates[i] for i in most_independent(left.T, count)]


def _advice(model: Mechanism, cluster: Cluster, K: np.ndarray) -> str:
    """Which independent velocities could be chosen, for an error about others."""
    every = [name for k in cluster.bodies for name in model.joints[k].v_names]
    best = usual_independent(model, cluster.bodies, K)
    return f"; choose {len(best)} of {some([repr(x) for x in every])}, such as {some([repr(every[c]) for c in best])}"


def _told(model: Mechanism, cluster: Cluster) -> str:
    """The joints that users chose, and components of joints where these are not all."""
    found: list[str] = []
    for joint in (model.joints[k] for k in cluster.bodies):
        chosen = [name for name, choice in zip(joint.v_names, joint.choices) if choice is not False]
        found += [joint.name] if len(chosen) == joint.nv else chosen
    return some([repr(name) for name in found])


def _best(model: Mechanism, cluster: Cluster, K: np.ndarray, walks: Callable[[], Sequence[Walk]]) -> list[int]:
    """The independent velocities by the conditioning of the dependent part over the walks.

    What `usual_independent` says for K, (rank, size), unless another choice is better by far: what it says in other states,
    and, with one degree of freedom, velocities that never rest.
    """
    rank, size = K.shape
    usual = usual_independent(model, cluster.bodies, K)
    paths = walks() if 0 < rank < size else []
    if not paths:
        return usual
    candidates = [tuple(usual)]
    candidates += [tuple(usual_independent(model, cluster.bodies, at.K)) for path in paths for at in path[::4]]
    if size - rank == 1:  # each by its share in the motion: the others are as good as it is large
        shares = np.abs([null_space(at.K)[-1] for path in paths for at in path]).min(axis=0)
        candidates += [(int(c),) for c in np.argsort(-shares, kind="stable")[:3]]
    scores = {choice: _score(choice, paths) for choice in dict.fromkeys(candidates)}
    best = max(scores, key=scores.__getitem__)
    return list(best) if scores[best] > ABOUT_AS_GOOD * scores[tuple(usual)] else usual


def usual_independent(model: Mechanism, bodies: Sequence[int], K: np.ndarray) -> list[int]:
    """The independent velocities that leave the dependent ones well conditioned in one state; K is (rank, size).

    Bodies that carry nothing are preferred as dependent ones: rotors depend on links, and not the reverse.
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


def null_space(K: np.ndarray) -> np.ndarray:
    """Unit velocities at right angles that satisfy equations K, (rank, size), of full rank: (size - rank, size)."""
    return np.linalg.qr(K.T, mode="complete")[0][:, len(K) :].T


def conditioning(K: np.ndarray, independent: Sequence[int]) -> float:
    """The smallest singular value of the dependent part over the largest of unit-free equations K, (rank, size)."""
    rest = sorted({*range(K.shape[1])} - {*independent})
    largest = float(np.linalg.norm(K, 2)) if rest else 0.0
    return float(np.linalg.svd(K[:, rest], compute_uv=False)[-1]) / largest if largest else 1.0 - len(rest)


def _score(independent: Sequence[int], paths: Sequence[Walk]) -> float:
    """How well conditioned a choice is in the worst states of some walks: a geometric mean.

    Where the determinant of the dependent part changes its sign between two states, it is singular on the way.
    """
    found: list[float] = []
    for path in paths:
        rest = sorted({*range(path[0].K.shape[1])} - {*independent})
        values = [conditioning(at.K, independent) for at in path]
        signs = [np.linalg.slogdet(at.K[:, rest])[0] for at in path]
        turned = [k for k in range(1, len(path)) if signs[k] != signs[k - 1]]
        found += values + [TURNED * min(values[k - 1 : k + 1]) for k in turned]
    worst = np.sort(found)[: max(1, round(LOWEST * len(found)))]
    return float(np.exp(np.mean(np.log(np.maximum(worst, 1e-300)))))


def _walks(walker: _Walker, q: np.ndarray) -> list[Walk]:
    """Closed states that can be reached from a closed one, (nq,): in several directions, each in both senses."""
    freedoms, rng = walker.freedoms, np.random.default_rng(0)
    if freedoms == 0:
        return []
    directions = min(freedoms, 3)
    count = min(STATES, WORK // walker.work) // (2 * directions)
    found = []
    for _ in range(directions):
        towards = rng.normal(size=freedoms)
        found += [walker.walk(q, sense * towards, max(count, 2)) for sense in (1.0, -1.0)]
    return found


class _Walker:
    """Walks along the closed states of a cluster: steps in the null space of K, and Gauss-Newton corrections."""

    def __init__(
        self, model: Mechanism, cluster: Cluster, scales: Scales, rows: Sequence[int], below: ClusterPosture | None
    ) -> None:
        self.cluster, self.scales, self.rows, self.rank = cluster, scales, list(rows), len(rows)
        self.joints = [model.joints[k] for k in cluster.bodies]
        self.posture = NumericPosture(model, cluster.bodies, below, cluster.supports)
        self.freedoms, self.work = len(scales.columns) - self.rank, len(self.joints) + len(scales.rows)

    def equations(self, q: np.ndarray) -> np.ndarray:
        """K of all equations at q, without units."""
        self.posture.move(q)
        return self.scales(all_equations(self.posture, self.cluster.constraints)[0].astype(float))

    def walk(self, q: np.ndarray, towards: np.ndarray, count: int) -> Walk:
        """So many states from q on, or fewer where limits of joints, where these are finite, or a singular state end it."""
        K = self.equations(q)
        found = [Reached(q, K[self.rows])]
        direction = null_space(K[self.rows]).T @ towards
        for _ in range(count):
            free = null_space(K[self.rows])
            direction = free.T @ (free @ direction)
            size = float(np.abs(direction).max())
            closed = self._closed(self._moved(q, STEP / size * direction)) if size > 1e-9 else None
            if closed is None or self._outside(closed) > max(self._outside(q), 0.0):
                break
            q, K = closed, self.equations(closed)
            found.append(Reached(q, K[self.rows]))
        return found

    def _closed(self, q: np.ndarray) -> np.ndarray | None:
        """The closed state near q, by Gauss-Newton steps of least norm; None where they do not lead to one nearby."""
        for _ in range(8):
            K = self.equations(q)
            phi = self.scales.rows * residuals(self.posture, self.cluster.constraints).astype(float)
            u, s, vt = np.linalg.svd(K, full_matrices=False)
            u, s, vt = u[:, : self.rank], s[: self.rank], vt[: self.rank]
            if not np.isfinite(s).all() or s[-1] <= 1e-9 * s[0]:
                return None
            move = -vt.T @ ((u.T @ phi) / s)
            if np.abs(move).max(initial=0.0) > 2.0 * STEP:
                return None
            q = self._moved(q, move)
            if np.abs(move).max(initial=0.0) < 1e-4:  # the next one would be its square
                return q
        return None

    def _moved(self, q: np.ndarray, move: np.ndarray) -> np.ndarray:
        """q moved by unit-free velocities of the cluster's joints."""
        q, move, first = q.copy(), move * self.scales.columns, 0
        for joint in self.joints:
            q[joint.q_slice] = joint.kind.numeric_integrate(q[joint.q_slice], move[first : first + joint.nv])
            first += joint.nv
        return q

    def _outside(self, q: np.ndarray) -> float:
        """How far a state is beyond limits of joints; below zero where it is within all."""
        found = [-np.inf]
        for joint in self.joints:
            found += [*(np.array(joint.lower) - q[joint.q_slice]), *(q[joint.q_slice] - np.array(joint.upper))]
        return float(np.max(found))


def independent_in_state(K: np.ndarray, rank: int, rows: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The best conditioned independent velocities in one state, and the equations to keep, of unit-free K, (count, size).

    The given `rows` are kept where they are nearly as good as any. Dependent velocities are changed for independent ones one by
    one, as long as that makes the dependent part's determinant larger by far: none of G's entries is large then.
    """
    kept, size = list(rows), K.shape[1]
    if np.linalg.svd(K[kept], compute_uv=False)[-1:] < 0.1 * np.linalg.svd(K, compute_uv=False)[rank - 1 : rank]:
        kept = most_independent(K, rank)
    dependent = most_independent(K[kept].T, rank)
    independent = sorted({*range(size)} - {*dependent})
    for _ in range(2 * size):
        G = np.abs(np.linalg.lstsq(K[kept][:, dependent], K[kept][:, independent], rcond=None)[0])
        if G.size == 0 or not G.max() > LARGE:
            break
        out, into = np.unravel_index(int(np.argmax(G)), G.shape)
        dependent[out], independent[into] = independent[into], dependent[out]
    return tuple(sorted(independent)), tuple(kept)


def independent_at(model: Mechanism, cluster: Cluster, q: np.ndarray, below: ClusterPosture | None = None) -> tuple[int, ...]:
    """The best conditioned independent velocities of a cluster at a closed state q, (nq,); its own where they are as good."""
    K = _Walker(model, cluster, scales_of(model, cluster), cluster.rows, below).equations(q)
    if not cluster.rows or np.abs(coefficients(K, cluster.independent, cluster.rows)).max(initial=0.0) <= SMALL:
        return cluster.independent
    return independent_in_state(K, len(cluster.rows), cluster.rows)[0]


def coefficients(K: np.ndarray, independent: Sequence[int], rows: Sequence[int]) -> np.ndarray:
    """Dependent velocities by independent ones: -G of kept `rows` of K, (count, size); infinite where they do not follow."""
    kept = K[list(rows)]
    dependent = sorted({*range(K.shape[1])} - {*independent})
    try:
        return np.linalg.solve(kept[:, dependent], kept[:, list(independent)])
    except np.linalg.LinAlgError:
        return np.full((len(dependent), len(independent)), np.inf)
