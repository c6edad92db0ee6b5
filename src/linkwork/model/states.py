"""States of a model that keep its promise: every loop closed, on the assembly mode of the neutral state, within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from linkwork.errors import ClosureError, ModelError
from linkwork.model.data import ModelData
from linkwork.parts import LoopConstraint
from linkwork.parts.names import shown, some
from linkwork.topology.analysis import close_family, kept_loops
from linkwork.topology.closing import CLOSED, RANK, close
from linkwork.topology.closing_problem import Closing
from linkwork.topology.clusters import Cluster, find_families
from linkwork.topology.continuation import ClosureManifold, Waypoint, walk
from linkwork.topology.motion import all_equations, cluster_posture

WIDE = 1e3  # limits as far away as this [rad or m] bound nothing: files write 1e16 for none
ATTEMPTS = 20  # starting points from which loops are closed before it is an error
EXACT = 1e-12  # residual of a state that is given out [rad, or sizes of the loop]
BOUNDED = 8  # of them, those that are tried to keep limits too
REGULAR = 1e-6  # conditioning of the coordinates below which no walk can begin
BRANCHES = ("neutral", "any")


def neutral(model: ModelData) -> np.ndarray:
    """The coordinates with every joint neutral or, in loops, closed ones near to that, (nq,)."""
    if "neutral" not in model.memory:
        q = model.tree_start()
        rng = np.random.default_rng(0)
        with families(model) as found:
            for family in found:
                q = family.closed(q, rng, within=True)
        model.memory["neutral"] = q
    return np.array(model.memory["neutral"])


def random_state(model: ModelData, rng: np.random.Generator, branch: str) -> tuple[np.ndarray, np.ndarray]:
    """Random q, (nq,), with every loop closed, and random v, (nv,)."""
    if branch not in BRANCHES:
        raise ModelError(f"branch must be one of {', '.join(map(repr, BRANCHES))}, not {branch!r}")
    q = random_tree(model, rng)
    start = neutral(model) if model.loops and branch == "neutral" else q
    with families(model) as found:
        for family in found:
            q = family.walked(start, q, rng) if branch == "neutral" else family.closed(q, rng)
    v = rng.normal(size=model.nv)
    return q, _projected(model, q, v) if model.force_held else v


def random_tree(model: ModelData, rng: np.random.Generator) -> np.ndarray:
    """Random coordinates within the limits where they are finite, whether or not loops are closed, (nq,)."""
    q = [np.zeros(0)]
    for joint in model.joints:
        lower, upper = np.array(joint.lower), np.array(joint.upper)
        anywhere = joint.kind.random(rng)
        bounded = (np.abs(lower) < WIDE) & (np.abs(upper) < WIDE)
        within = rng.uniform(np.where(bounded, lower, 0.0), np.where(bounded, upper, 1.0))
        q.append(np.where(bounded, within, np.clip(anywhere, lower, upper)))
    return np.concatenate(q)


class Family:
    """Loops that are closed together: those of one cluster, of clusters that hang on one another, or of force-held loops."""

    def __init__(
        self,
        model: ModelData,
        bodies: Sequence[int],
        constraints: Sequence[LoopConstraint],
        near: Callable[[np.ndarray], tuple[np.ndarray, float]],
        manifold: ClosureManifold | None,
    ) -> None:
        self.model, self.bodies, self.constraints = model, tuple(bodies), tuple(constraints)
        self.near, self.manifold = near, manifold  # None where all equations are linear
        joints = [model.joints[k] for k in bodies]
        self.places = np.concatenate([np.arange(j.q_slice.start, j.q_slice.stop) for j in joints])
        self.lower = np.concatenate([np.array(j.lower) for j in joints])
        self.upper = np.concatenate([np.array(j.upper) for j in joints])
        self._anchor: np.ndarray | None = None

    def closed(self, q: np.ndarray, rng: np.random.Generator, *, within: bool = False) -> np.ndarray:
        """q with these loops closed nearby; where that fails, from other starting points. ClosureError where none leads there.

        `within`: where the limits of joints are not kept, closed coordinates near those that keep them, if there are any.
        """
        first: np.ndarray | None = None
        for n, start in enumerate(self._starts(q, rng)):
            closed = self._closed_near(start)
            if closed is not None and (not within or self._is_within(closed)):
                return closed
            first = closed if first is None else first
            if first is not None and n >= BOUNDED:
                break
        if first is None:
            raise ClosureError(self._gap(q))
        return first

    def _starts(self, q: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        yield q
        bounded = q.copy()
        bounded[self.places] = np.clip(q[self.places], self.lower, self.upper)
        yield bounded
        for _ in range(ATTEMPTS):
            other = q.copy()
            other[self.places] = random_tree(self.model, rng)[self.places]
            yield other

    def _closed_near(self, q: np.ndarray) -> np.ndarray | None:
        """Closed coordinates near q, or None."""
        found, residual = self.near(q)
        if self.manifold is None:
            return found if residual < CLOSED else None
        closed, left = self.manifold.corrected(found)
        return closed if left <= EXACT and (residual < CLOSED or self.manifold.missed(closed) < CLOSED) else None

    def walked(self, start: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """q with these loops closed on the assembly mode of the closed coordinates `start`: as far towards q as that goes."""
        part = rng.uniform() if self.manifold else 1.0
        found = q.copy()
        if self.manifold is None:
            found[self.places] = self._bounded(start, self.closed(q, rng))[self.places]
            return found
        manifold, anchor = self.manifold, self._regular(start)
        way = manifold.difference(anchor, q)
        way[manifold.dependent] = 0.0
        waypoints = list(walk(manifold, anchor, way))
        if waypoints[-1].part >= 1.0 or manifold.blocks is None:
            part = 1.0
        reached = _along(manifold, waypoints, part)
        closed = next((q for q in map(partial(self._arrived, anchor), reversed(reached)) if q is not None), anchor)
        found[self.places] = closed[self.places]
        return found

    def _arrived(self, anchor: np.ndarray, q: np.ndarray) -> np.ndarray | None:
        """A waypoint of a walk from the anchor, exactly closed; None where that leads beyond limits or a singularity."""
        assert self.manifold is not None
        closed, residual = self.manifold.corrected(q)
        first, last = (self.manifold.orientation(self.manifold.at(x)) for x in (anchor, closed))
        kept = residual <= EXACT and first == last and (self._is_within(closed) or not self._is_within(anchor))
        return closed if kept else None

    def _regular(self, start: np.ndarray) -> np.ndarray:
        """The coordinates from which walks begin: `start`, or where its coordinates are singular, better ones near to it."""
        if self._anchor is None:
            assert self.manifold is not None
            self._anchor, rng = start, np.random.default_rng(0)
            best = self.manifold.conditioning(self.manifold.at(start)) if self.manifold.blocks else 1.0
            for n in range(20 if best < REGULAR else 0):
                away = rng.normal(size=self.manifold.posture.size) * (0.1 + 0.02 * n) * self.manifold.velocity_units
                closed = self._closed_near(self.manifold.retract(start, away))
                if closed is not None:
                    found = self.manifold.conditioning(self.manifold.at(closed))
                    if found > 2.0 * best and (self._is_within(closed) or not self._is_within(start)):
                        self._anchor, best = closed, found
        return self._anchor

    def _is_within(self, q: np.ndarray) -> bool:
        own = q[self.places]
        return bool(np.all(own >= self.lower - 1e-9) and np.all(own <= self.upper + 1e-9))

    def _bounded(self, start: np.ndarray, q: np.ndarray) -> np.ndarray:
        """The point of the line between two closed states of linear equations that is nearest to q and within the limits."""
        plain = all(self.model.joints[k].nq == self.model.joints[k].nv for k in self.bodies)
        if self._is_within(q) or not self._is_within(start) or not plain:
            return q
        a, d = start[self.places], q[self.places] - start[self.places]
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(d > 0.0, (self.upper - a) / d, np.where(d < 0.0, (self.lower - a) / d, np.inf))
        found = q.copy()
        found[self.places] = a + d * float(np.clip(room.min(), 0.0, 1.0))
        return found

    def _gap(self, q: np.ndarray) -> str:
        """What is wrong where nothing closes: the loop that is open widest near q."""
        found, _ = self.near(q)
        gaps = Closing(self.model, self.bodies, self.constraints).gaps(found)
        (metres, radians), name = max(zip(gaps, (c.name for c in self.constraints)), key=lambda gap: max(gap[0]))
        names = some([repr(c.name) for c in self.constraints])
        return (
            f"{shown(self.model.name)}: {names} cannot be closed from {ATTEMPTS} starting points: near the neutral state "
            f"{name!r} misses by {metres:.3g} m and {radians:.3g} rad; check placements, lengths and limits of joints"
        )


def _along(manifold: ClosureManifold, waypoints: Sequence[Waypoint], part: float) -> list[np.ndarray]:
    """The waypoints up to a part of a walk, and between the last of them and the next the configuration there."""
    aim = part * waypoints[-1].part
    reached = [w for w in waypoints if w.part <= aim]
    found = [w.q for w in reached]
    if len(reached) < len(waypoints):
        last, following = reached[-1], waypoints[len(reached)]
        share = (aim - last.part) / (following.part - last.part)
        found.append(manifold.retract(last.q, share * manifold.difference(last.q, following.q)))
    return found


@contextmanager
def families(model: ModelData) -> Iterator[list[Family]]:
    """The families of a model, for one thread at a time: they are kept with the model, and made anew where all are in use."""
    kept = model.memory.setdefault("families", [])
    try:
        found = kept.pop()
    except IndexError:
        found = _force_held_families(model) if model.force_held else _embedded_families(model)
    yield found
    kept.append(found)


def _embedded_families(model: ModelData) -> list[Family]:
    together: dict[int, list[Cluster]] = {}  # clusters that hang on several bodies of one another
    for cluster in model.clusters if model.embedded else ():
        if cluster.constraints:
            together.setdefault(cluster.family[0], []).append(cluster)
    found = []
    for clusters in together.values():
        bodies, constraints = [k for c in clusters for k in c.bodies], [c for one in clusters for c in one.constraints]
        manifold = None if all(c.linear for c in constraints) else _manifold(model, clusters)
        found.append(Family(model, bodies, constraints, partial(close_family, model, clusters), manifold))
    return found


def _manifold(model: ModelData, clusters: Sequence[Cluster]) -> ClosureManifold:
    """The closed configurations of clusters that hang on one another, in their independent velocities."""
    bodies, constraints = [k for c in clusters for k in c.bodies], [c for one in clusters for c in one.constraints]
    rows: list[int] = []
    blocks, equations, velocities = [], 0, 0
    for cluster in clusters:
        kept = range(len(rows), len(rows) + len(cluster.rows))
        blocks.append((kept, [velocities + c for c in cluster.dependent]))
        rows += [equations + row for row in cluster.rows]
        equations += sum(c.count(model.joints) for c in cluster.constraints)
        velocities += sum(model.joints[k].nv for k in cluster.bodies)
    return ClosureManifold(model, bodies, constraints, rows, blocks)


def _force_held_families(model: ModelData) -> list[Family]:
    """Embedded loops and force-held ones at once."""
    kept = {loop.name: loop for cluster in model.clusters if cluster.constraints for loop in kept_loops(model, cluster)}
    found = []
    for bodies, loops in find_families(model.joints, model.loops):
        if not loops:
            continue
        rows, equations = [], 0
        for loop in loops:
            count, chosen = loop.count(model.joints), getattr(kept.get(loop.name, loop), "kept", None)
            rows += [equations + i for i in (range(count) if chosen is None else chosen)]
            equations += count
        manifold = None if all(c.linear for c in loops) else ClosureManifold(model, bodies, loops, rows)
        found.append(Family(model, bodies, loops, partial(close, model, bodies, loops), manifold))
    return found


def _projected(model: ModelData, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The velocities v, (nv,), projected onto the null space of the force-held loops' Jacobian."""
    places = {name: k for k, name in enumerate(model.v_names)}
    for bodies, constraints in find_families(model.joints, model.loops):
        if set(constraints) & set(model.force_held):
            K = all_equations(cluster_posture(model, bodies, q), constraints)[0].astype(float)
            names = [name for k in bodies for name in model.joints[k].v_names]
            own = np.array([v[places[name]] if name in places else 0.0 for name in names])
            own -= np.linalg.pinv(K, rcond=RANK) @ (K @ own)
            for name, x in zip(names, own):
                if name in places:
                    v[places[name]] = x
    return v
