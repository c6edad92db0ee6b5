"""Charts: models of one mechanism with different independent velocities, and when to change from one to
another.

A row of a batch stays in its chart while no velocity of its clusters depends strongly on the independent
ones: no entry of unit-free G is larger than a limit, which integrators choose. Then it changes, to the
model's own choice where that is good, or to the best conditioned one in its state. Only states decide, so a
row goes the same way alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from linkwork.algorithms.loops.closing import places_of
from linkwork.algorithms.loops.conditioning import looped
from linkwork.loops.clusters import Cluster
from linkwork.loops.independent import independent_in_state
from linkwork.model import Model
from linkwork.simulation.rank_drop import singular_values

RETURN_ENTRY = 1.1  # largest entry of unit-free G at which a row returns to the model's own choice
SINGULAR_TOL = 1e-7  # σ of unit-free K below which the mechanism is singular
# mean 1 / σ of dependent columns above which singular values of all equations are computed
EXACT_CHECK_THRESHOLD = 10.0
# 1 / σ of kept equations' dependent columns, relative to that of all: above, they are nearly dependent
DEPENDENT_ENTRY = 100.0

ChartKey = tuple[
    tuple[tuple[int, ...], tuple[int, ...]], ...
]  # of each cluster with loops: independent velocities, kept equations


class ChartQuality(NamedTuple):
    """Quality of the coordinates of a chart in some states, (rows,) each: the worst of all clusters."""

    large: np.ndarray  # the largest entry of unit-free G
    dependent: np.ndarray  # whether equations are kept that are nearly dependent there, and others are not
    far: (
        np.ndarray
    )  # 1 / σ_min of all equations; an upper bound of it where that is below `EXACT_CHECK_THRESHOLD`
    ratio: np.ndarray  # σ_max / σ_min; 1 where only that bound was computed


class Charts:
    """The charts of a model: each a model with the same q, known by its choice in each cluster with loops.

    Clusters supported by several bodies of another are united with it here: where their joints cannot follow
    these bodies, as at a dead point of a dyad, other velocities of all of them together may be good. `whole`
    is the model with such clusters.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.whole = model if all(c.below is None for c in model.clusters) else _with_united_families(model)
        self.clusters = looped(self.whole)
        self.own: ChartKey = tuple((cluster.independent, cluster.rows) for cluster in self.clusters)
        self.moving = [
            n for n, c in enumerate(self.clusters) if c.rows and not all(x.linear for x in c.constraints)
        ]
        self.numbers = sum(c.count * (len(c.rows) + len(c.independent)) for c in self.clusters)  # of K of all
        self._places: dict[ChartKey, np.ndarray] = {}

    def chart(self, choice: ChartKey) -> Model:
        """Return the model with other independent velocities; the model itself for its own key."""
        if choice == self.own:
            return self.model
        known = self.model.cache.setdefault(Charts, {})  # kernels stay with the model
        if choice not in known:
            known[choice] = self.model.with_clusters(with_choice(self.whole, choice))
        chart: Model = known[choice]
        return chart

    def as_numbers(self, choice: ChartKey) -> list[int]:
        """Return a key as a fixed number of integers, for `from_numbers`."""
        return [k for independent, rows in choice for k in (*independent, *rows)]

    def from_numbers(self, numbers: Sequence[int]) -> ChartKey:
        """Return the key of `as_numbers`."""
        remaining = iter(int(k) for k in numbers)
        return tuple(
            (tuple(islice(remaining, len(cluster.independent))), tuple(islice(remaining, len(cluster.rows))))
            for cluster in self.clusters
        )

    def places(self, choice: ChartKey) -> np.ndarray:
        """Return the indices of the velocities of a chart among those of all joints of the tree, (nv,)."""
        if choice not in self._places:
            model = self.chart(choice)
            result = [places_of(model, cluster)[list(cluster.independent)] for cluster in model.clusters]
            self._places[choice] = np.concatenate([*result, []]).astype(int)
        return self._places[choice]

    def equations(self, flat: np.ndarray) -> list[np.ndarray]:
        """Return K of all clusters with loops, (rows, count, size) each, from flat arrays of rows."""
        result = []
        start = 0
        for cluster in self.clusters:
            size = len(cluster.rows) + len(cluster.independent)
            end = start + cluster.count * size
            result.append(flat[:, start:end].reshape(len(flat), cluster.count, size))
            start = end
        return result

    def measured(self, K: Sequence[np.ndarray], choice: ChartKey) -> ChartQuality:
        """Return how good a choice is in states with unit-free equations K, (rows, count, size) each."""
        rows = len(K[0]) if K else 0
        large = np.zeros(rows)
        far = np.zeros(rows)
        ratio = np.ones(rows)
        dependent = np.zeros(rows, dtype=bool)
        for n in self.moving:
            entries, inverse = self.sizes(K[n], n, choice)
            large = np.maximum(large, entries)
            rank = len(self.clusters[n].rows)
            if len(near := np.flatnonzero(~(inverse <= EXACT_CHECK_THRESHOLD * np.sqrt(rank)))):
                high, low = singular_values(K[n][near], rank)
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio[near] = np.fmax(ratio[near], high / low)
                    dependent[near] |= ~(inverse[near] * low <= DEPENDENT_ENTRY)
                    inverse[near] = 1.0 / low
            far = np.fmax(far, inverse)
        return ChartQuality(large, dependent, far, ratio)

    def sizes(self, K: np.ndarray, n: int, choice: ChartKey) -> tuple[np.ndarray, np.ndarray]:
        """Return what `sizes_in` gives of cluster n in a choice; where it uses more equations than its rank,
        by all of them.
        """
        independent, rows = choice[n]
        return sizes_in(K, independent, self.clusters[n].overdetermined or rows)

    def best(self, K: Sequence[np.ndarray], *, anew: bool = False) -> ChartKey:
        """Return the chart to change to in one state, by K of all clusters there, (count, size) each; the
        best of all if `anew`.
        """
        result = list(self.own)
        for n in self.moving:
            if not np.isfinite(K[n]).all():  # a state that is not finite has no better chart
                continue
            states = [k[None] for k in K]
            measures = self.measured(states, self.own)
            if anew or measures.dependent[0] or not self.sizes(states[n], n, self.own)[0][0] <= RETURN_ENTRY:
                rows = self.clusters[n].rows
                more = self.clusters[n].overdetermined
                result[n] = independent_in_state(K[n], len(rows), rows, overdetermined=more)
        return tuple(result)


def with_choice(model: Model, choice: ChartKey) -> tuple[Cluster, ...]:
    """Return the clusters of a model with other independent velocities and kept equations."""
    result: dict[tuple[int, ...], Cluster] = {}
    remaining = iter(choice)
    for cluster in model.clusters:
        independent, rows = next(remaining) if cluster.constraints else (cluster.independent, cluster.rows)
        result[cluster.bodies] = replace(cluster, independent=independent, rows=rows)
    return tuple(result.values())


def _with_united_families(model: Model) -> Model:
    """Return the model with clusters supported by several bodies of another united with it; kept with
    the model.
    """
    known: Model | None = model.cache.get(_with_united_families)
    if known is None:
        roots: dict[tuple[int, ...], list[Cluster]] = {}
        for cluster in model.clusters:
            root = cluster
            while root.below:
                root = root.below
            roots.setdefault(root.bodies, []).append(cluster)
        joined = tuple(
            several[0] if len(several) == 1 else _joined(model, several) for several in roots.values()
        )
        known = model.cache[_with_united_families] = model.with_clusters(joined)
    return known


def _joined(model: Model, several: Sequence[Cluster]) -> Cluster:
    """Return connected clusters as one, with the same independent velocities and kept equations."""
    columns = {k: range(model.joints[k].nv) for cluster in several for k in cluster.bodies}
    bodies = tuple(sorted(columns))
    places = {key: n for n, key in enumerate((k, i) for k in bodies for i in columns[k])}
    independent: list[int] = []
    rows: list[int] = []
    used: list[int] = []
    slack: list[float] = []
    for cluster in several:
        velocities = [(k, i) for k in cluster.bodies for i in columns[k]]
        independent += [places[velocities[c]] for c in cluster.independent]
        rows += [len(slack) + row for row in cluster.rows]
        used += [len(slack) + row for row in cluster.used]
        slack += cluster.slack or (0.0,) * cluster.count
    return Cluster(
        bodies,
        tuple(constraint for cluster in several for constraint in cluster.constraints),
        tuple(sorted(independent)),
        tuple(rows),
        len(slack),
        slack=tuple(slack) if any(slack) else (),
        overdetermined=tuple(used) if len(used) > len(rows) else (),
    )


def sizes_in(K: np.ndarray, independent: Sequence[int], rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return, for unit-free equations K, (n, count, size), the largest entry of G = -K_d⁻¹ K_i and the norm
    of K_d⁻¹ (Frobenius).

    Infinite where K_d is singular.
    """
    retained = K[:, list(rows)]
    dependent = sorted({*range(K.shape[2])} - {*independent})
    one = np.broadcast_to(np.eye(len(rows)), (len(K), len(rows), len(rows)))
    sizes = np.abs(
        _solved(retained[..., dependent], np.concatenate([retained[..., list(independent)], one], axis=-1))
    )
    sizes[~np.isfinite(sizes)] = np.inf
    free = len(independent)
    return sizes[..., :free].max(axis=(1, 2), initial=0.0), np.sqrt((sizes[..., free:] ** 2).sum(axis=(1, 2)))


def test_vector(size: int) -> np.ndarray:
    """Return a vector in no special direction, (size,)."""
    return np.cos(1.0 + 3.0 * np.arange(size))


def _solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return x of A x = b, row by row of a batch, in the sense of least squares; infinite where A is
    singular.
    """
    if A.shape[1] > A.shape[2]:
        fine = np.isfinite(A).all(axis=(1, 2))
        inverse = np.linalg.pinv(np.where(fine[:, None, None], A, 0.0), rcond=1e-14)
        result: np.ndarray = np.where(fine[:, None, None], inverse @ b, np.inf)
        return result
    try:
        return np.linalg.solve(A, b)
    except np.linalg.LinAlgError:
        if len(A) == 1:
            return np.full(b.shape, np.inf)
        return np.concatenate([_solved(A[k : k + 1], b[k : k + 1]) for k in range(len(A))])
