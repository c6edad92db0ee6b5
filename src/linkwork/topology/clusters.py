"""From loops to clusters: which bodies are taken together (Loops Sec. II-D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from linkwork.parts import LoopConstraint, PlacedJoint, path_to_ground


@dataclass(frozen=True)
class Cluster:
    """Bodies that move together: one node of the tree of clusters.

    `independent` are the places of its m velocities among those of its joints, one body after the other; `rows` the
    equations of its constraints that are kept, of `count` in all. A body in no loop is a cluster of its own. Most clusters
    hang on one body; those that hang on several, their `supports`, know the cluster `below` that these are in.
    """

    bodies: tuple[int, ...]
    constraints: tuple[LoopConstraint, ...] = ()
    independent: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    count: int = 0
    supports: tuple[int, ...] = ()
    below: Cluster | None = None

    @property
    def dependent(self) -> list[int]:
        """The places of the other velocities: as many as equations are kept."""
        return [c for c in range(len(self.rows) + len(self.independent)) if c not in self.independent]

    @property
    def family(self) -> tuple[int, ...]:
        """Its bodies and those of the clusters below, down to the one that stands on a single body."""
        return (*self.below.family, *self.bodies) if self.below else self.bodies

    @property
    def lineage(self) -> tuple[LoopConstraint, ...]:
        """The constraints of all these."""
        return (*self.below.lineage, *self.constraints) if self.below else self.constraints


Group = tuple[list[int], list[LoopConstraint]]


def find_clusters(joints: Sequence[PlacedJoint], constraints: Sequence[LoopConstraint]) -> list[Group]:
    """Small groups of bodies, each in order, with their constraints, such that every group stands on one other.

    The ways from a constraint's ends down to the nearest group in which all of them meet, without that one, belong together:
    who stands on two bodies of a group need not be of it (Loops footnote 2). Constraints that reach down far and span little
    come first, so that others find groups to stand on.
    """
    group = list(range(len(joints)))

    def top(k: int) -> int:
        while group[k] != k:
            k = group[k]
        return k

    def ring(constraint: LoopConstraint) -> tuple[set[int], set[int]]:
        """The bodies on the ways of a constraint's ends down to where they meet, and the groups from there on down."""
        ends = constraint.bodies
        ways = [path_to_ground(end, joints) for end in ends]
        met = [{top(k) for k in way} for way in ways]
        if not constraint.ends:  # a joint that is named belongs to it, also where the others hang on it
            met = [tops - {top(end)} for tops, end in zip(met, ends)]
        common = set.intersection(*met)
        return {k for way in ways for k in way if top(k) not in common}, common

    def reach(constraint: LoopConstraint) -> tuple[int, int, bool]:
        bodies, common = ring(constraint)
        return len(common), len(bodies), bool(constraint.ends)

    acting = [c for c in constraints if c.acts]
    for constraint in sorted(acting, key=reach):
        held = sorted(ring(constraint)[0])
        for k in held:
            group[top(k)] = top(held[0])
    found: dict[int, Group] = {}
    for k in range(len(joints)):
        found.setdefault(top(k), ([], []))[0].append(k)
    for constraint in acting:
        outermost = max(constraint.bodies, key=lambda k: len({top(j) for j in path_to_ground(k, joints)}))
        found[top(outermost)][1].append(constraint)
    return sorted(found.values(), key=lambda pair: pair[0][0])


def supports_of(joints: Sequence[PlacedJoint], group: Group) -> list[int]:
    """The bodies that a group stands on, or holds by a loop, without being of it."""
    bodies, constraints = group
    touched = {joints[k].parent for k in bodies} | {k for c in constraints for k in c.bodies}
    return sorted(touched - set(bodies))


def find_families(joints: Sequence[PlacedJoint], constraints: Sequence[LoopConstraint]) -> list[Group]:
    """The same groups, those that stand on several bodies of another taken together with it."""
    groups = find_clusters(joints, constraints)
    n = 0
    while n < len(groups):
        supports = supports_of(joints, groups[n])
        below = next((i for i, (bodies, _) in enumerate(groups) if supports[-1] in bodies), n) if len(supports) > 1 else n
        if below == n:
            n += 1
            continue
        one, two = sorted([n, below])
        (bodies, held), (more, further) = groups[one], groups.pop(two)
        groups[one] = sorted([*bodies, *more]), [*held, *further]
        n = 0
    return groups


def with_constraints(clusters: Sequence[Cluster], constraints: Sequence[LoopConstraint]) -> tuple[Cluster, ...]:
    """The same clusters with other constraints of the same names in them."""
    named = {constraint.name: constraint for constraint in constraints}
    found: dict[tuple[int, ...], Cluster] = {}
    for cluster in clusters:
        below = found[cluster.below.bodies] if cluster.below else None
        own = tuple(named[constraint.name] for constraint in cluster.constraints)
        found[cluster.bodies] = replace(cluster, constraints=own, below=below)
    return tuple(found.values())
