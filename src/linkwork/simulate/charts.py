"""Charts: models of one mechanism with different independent velocities, and when to change from one to another.

A row of a batch stays in its chart while no velocity of its clusters depends strongly on the independent ones: no entry of
unit-free G is larger than a limit, which integrators choose. Then it changes, to the model's own choice where that is good, or
to the best conditioned one in its state. Only states decide, so a row goes the same way alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from linkwork.algorithms.closing import places_of
from linkwork.algorithms.conditioning import looped
from linkwork.model import Model
from linkwork.topology.clusters import Cluster
from linkwork.topology.independent import independent_in_state

RETURN = 1.1  # largest entry of unit-free G in the model's own choice, to go back to it
SINGULAR = 1e-7  # σ of unit-free K, about: below it the mechanism itself is singular

Choice = tuple[
    tuple[tuple[int, ...], tuple[int, ...]], ...
]  # of each cluster with loops: independent velocities, kept equations


class Charts:
    """The charts of a model: each a model with the same q, known by its choice in each cluster with loops.

    Clusters that hang on several bodies of another are one with it here: where their joints cannot follow these bodies, as at a
    dead point of a dyad, other velocities of all of them together may be good. `whole` is the model with such clusters.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.whole = model if all(c.below is None for c in model.clusters) else _with_whole_families(model)
        self.clusters = looped(self.whole)
        self.own: Choice = tuple((cluster.independent, cluster.rows) for cluster in self.clusters)
        self.moving = [n for n, c in enumerate(self.clusters) if c.rows and not all(x.linear for x in c.constraints)]
        self.numbers = sum(c.count * (len(c.rows) + len(c.independent)) for c in self.clusters)  # of K of all
        self._places: dict[Choice, np.ndarray] = {}

    def chart(self, choice: Choice) -> Model:
        """The model with other independent velocities; the model itself for its own choice."""
        if choice == self.own:
            return self.model
        known = self.model.memory.setdefault(Charts, {})  # kernels stay with the model
        if choice not in known:
            known[choice] = self.model.with_clusters(with_choice(self.whole, choice))
        chart: Model = known[choice]
        return chart

    def as_numbers(self, choice: Choice) -> list[int]:
        """A choice as whole numbers, always as many: what can be written down, and read by `from_numbers`."""
        return [k for independent, rows in choice for k in (*independent, *rows)]

    def from_numbers(self, numbers: Sequence[int]) -> Choice:
        """The choice of `as_numbers`."""
        left = iter(int(k) for k in numbers)
        return tuple(
            (tuple(islice(left, len(cluster.independent))), tuple(islice(left, len(cluster.rows)))) for cluster in self.clusters
        )

    def places(self, choice: Choice) -> np.ndarray:
        """Where a chart's velocities are among those of all joints of the tree, (nv,)."""
        if choice not in self._places:
            model = self.chart(choice)
            found = [places_of(model, cluster)[list(cluster.independent)] for cluster in model.clusters]
            self._places[choice] = np.concatenate([*found, []]).astype(int)
        return self._places[choice]

    def equations(self, flat: np.ndarray) -> list[np.ndarray]:
        """K of all clusters with loops, (rows, count, size) each, from the numbers of all, row by row, (rows, numbers)."""
        found, start = [], 0
        for cluster in self.clusters:
            size = len(cluster.rows) + len(cluster.independent)
            end = start + cluster.count * size
            found.append(flat[:, start:end].reshape(len(flat), cluster.count, size))
            start = end
        return found

    def measured(self, K: Sequence[np.ndarray], choice: Choice) -> tuple[np.ndarray, np.ndarray]:
        """The largest entry of G, and about 1 / σ of the mechanism, each of all clusters, (rows,); see `sizes_in`."""
        rows = len(K[0]) if K else 0
        large, far = np.zeros(rows), np.zeros(rows)
        for n in self.moving:
            a, b = sizes_in(K[n], *choice[n])
            large, far = np.maximum(large, a), np.maximum(far, b)
        return large, far

    def best(self, K: Sequence[np.ndarray], *, anew: bool = False) -> Choice:
        """The chart to change to in one state, by K of all clusters there, (count, size) each; the best of all if `anew`."""
        found = list(self.own)
        for n in self.moving:
            if anew or not sizes_in(K[n][None], *self.own[n])[0][0] <= RETURN:
                found[n] = independent_in_state(K[n], len(self.clusters[n].rows), self.clusters[n].rows)
        return tuple(found)


def with_choice(model: Model, choice: Choice) -> tuple[Cluster, ...]:
    """The clusters of a model with other independent velocities and kept equations in those with loops."""
    found: dict[tuple[int, ...], Cluster] = {}
    left = iter(choice)
    for cluster in model.clusters:
        independent, rows = next(left) if cluster.constraints else (cluster.independent, cluster.rows)
        found[cluster.bodies] = replace(cluster, independent=independent, rows=rows)
    return tuple(found.values())


def _with_whole_families(model: Model) -> Model:
    """The model with clusters that hang on several bodies of another in one cluster with it; kept with the model."""
    known: Model | None = model.memory.get(_with_whole_families)
    if known is None:
        roots: dict[tuple[int, ...], list[Cluster]] = {}
        for cluster in model.clusters:
            root = cluster
            while root.below:
                root = root.below
            roots.setdefault(root.bodies, []).append(cluster)
        joined = tuple(several[0] if len(several) == 1 else _joined(model, several) for several in roots.values())
        known = model.memory[_with_whole_families] = model.with_clusters(joined)
    return known


def _joined(model: Model, several: Sequence[Cluster]) -> Cluster:
    """Clusters that hang on one another as one, with the same independent velocities and kept equations."""
    columns = {k: range(model.joints[k].nv) for cluster in several for k in cluster.bodies}
    bodies = tuple(sorted(columns))
    places = {key: n for n, key in enumerate((k, i) for k in bodies for i in columns[k])}
    independent: list[int] = []
    rows: list[int] = []
    accepted: list[float] = []
    for cluster in several:
        own = [(k, i) for k in cluster.bodies for i in columns[k]]
        independent += [places[own[c]] for c in cluster.independent]
        rows += [len(accepted) + row for row in cluster.rows]
        accepted += cluster.accepted or (0.0,) * cluster.count
    return Cluster(
        bodies,
        tuple(constraint for cluster in several for constraint in cluster.constraints),
        tuple(sorted(independent)),
        tuple(rows),
        len(accepted),
        accepted=tuple(accepted) if any(accepted) else (),
    )


def sizes_in(K: np.ndarray, independent: Sequence[int], rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Of unit-free equations K, (n, count, size): the largest entry of G = -K_d⁻¹ K_i, and of K_d⁻¹ times a test vector.

    The second is about 1 / σ_min of K_d, and, where the first is small, of K itself. Infinite where K_d is singular.
    """
    kept = K[:, list(rows)]
    dependent = sorted({*range(K.shape[2])} - {*independent})
    test = np.broadcast_to(test_vector(len(rows)), (len(K), len(rows)))
    right = np.concatenate([kept[..., list(independent)], test[..., None]], axis=-1)
    answer = _solved(kept[..., dependent], right)
    sizes = np.abs(answer)
    sizes[~np.isfinite(sizes)] = np.inf
    return sizes[..., :-1].max(axis=(1, 2), initial=0.0), sizes[..., -1].max(axis=1, initial=0.0)


def test_vector(size: int) -> np.ndarray:
    """A vector in no special direction, (size,)."""
    return np.cos(1.0 + 3.0 * np.arange(size))


def _solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x of A x = b, row by row of a batch; infinite where A is singular."""
    try:
        return np.linalg.solve(A, b)
    except np.linalg.LinAlgError:
        if len(A) == 1:
            return np.full(b.shape, np.inf)
        return np.concatenate([_solved(A[k : k + 1], b[k : k + 1]) for k in range(len(A))])
