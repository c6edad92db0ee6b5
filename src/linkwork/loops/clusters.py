"""From loops to clusters: loop-closure aggregation of bodies (Loops Sec. II-D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from linkwork.mechanism import GROUND, LoopConstraint, PlacedJoint


@dataclass(frozen=True)
class Cluster:
    """Bodies that move together: one node of the tree of clusters.

    `independent` are the places of its m velocities among those of its joints, one body after the other;
    `rows` the equations of its constraints that are kept, of `count` in all: as many as their rank. Where
    redundant equations are redundant in closed configurations only, which of them say something changes along
    the motion: then `overdetermined` are these and `rows`, and the motion is their solution of least squares.
    A body in no loop is a cluster of its own. Most clusters are supported by one body; those supported by
    several, their `supports`, know the cluster `below` that these are in.

    Where its numbers have too few digits for all equations to hold, those that are dropped may miss by what
    is `slack`, one number for each of `count` equations [m or rad], and `gaps` are what its constraints
    were seen to miss by [m, rad]. `closed` are coordinates of its joints, one body after the other, that
    close it; they decide nothing else.
    """

    bodies: tuple[int, ...]
    constraints: tuple[LoopConstraint, ...] = ()
    independent: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    count: int = 0
    supports: tuple[int, ...] = ()
    below: Cluster | None = None
    slack: tuple[float, ...] = ()
    gaps: tuple[tuple[float, float], ...] = field(default=(), compare=False)
    closed: tuple[float, ...] = field(default=(), compare=False)
    overdetermined: tuple[int, ...] = ()

    @property
    def used(self) -> tuple[int, ...]:
        """The equations that the motion satisfies: independent ones, and those not always redundant."""
        return self.overdetermined or self.rows

    @property
    def dependent(self) -> list[int]:
        """The places of the other velocities: as many as equations are kept."""
        independent = set(self.independent)
        return [c for c in range(len(self.rows) + len(independent)) if c not in independent]

    @property
    def family(self) -> tuple[int, ...]:
        """Its bodies and those of the clusters below, down to the one with a single support."""
        return (*self.below.family, *self.bodies) if self.below else self.bodies

    @property
    def lineage(self) -> tuple[LoopConstraint, ...]:
        """The constraints of all these."""
        return (*self.below.lineage, *self.constraints) if self.below else self.constraints


Group = tuple[list[int], list[LoopConstraint]]


def find_clusters(joints: Sequence[PlacedJoint], constraints: Sequence[LoopConstraint]) -> list[Group]:
    """Return minimal groups of bodies with their constraints, such that each has one supporting group.

    The paths from a constraint's ends to the nearest group in which all meet, without that group, are
    aggregated: a group supported by two bodies of another need not be part of it (Loops footnote 2).
    Constraints that reach deep and span little come first, so that others find groups to attach to. The time
    is about linear in bodies and ends.
    """
    acting = [c for c in constraints if c.constrains]
    tree = Ancestors([joint.parent for joint in joints])
    groups = _Groups(tree.parent)
    flexible = any(joint.follows is not None for joint in joints)
    for constraint in sorted(acting, key=partial(_reach, tree)):
        ends = constraint.bodies
        meeting = reduce(tree.common, ends)
        for k in ends if flexible else ():  # frames that modes move are in one group with the modes
            while k != meeting:
                if joints[k].follows is not None:
                    groups.unite(k, joints[k].parent)
                k = tree.parent[k]
        bent = (
            flexible
            and meeting != GROUND
            and joints[meeting].kind.elastic
            and any(end != meeting for end in ends)
        )
        groups.join(ends, meeting, named=not constraint.ends, bent=bent)
    groups_by_top: dict[int, Group] = {}
    depth = {GROUND: 0}
    for k in range(len(joints)):
        top = groups.top(k)
        if top not in depth:  # the first body of the group, supported by another group
            depth[top] = depth[groups.top(joints[k].parent)] + 1
        groups_by_top.setdefault(top, ([], []))[0].append(k)
    for constraint in acting:
        outermost = max((groups.top(k) for k in constraint.bodies), key=depth.__getitem__)
        groups_by_top[outermost][1].append(constraint)
    return sorted(groups_by_top.values(), key=lambda pair: pair[0][0])


def _reach(tree: Ancestors, constraint: LoopConstraint) -> tuple[int, int, bool]:
    """Return the depth of the common ancestor of a constraint's ends, and the bodies on the paths to it."""
    ends = constraint.bodies
    is_loop = bool(constraint.ends)
    meeting = reduce(tree.common, ends)
    below = (
        meeting if is_loop or meeting not in ends else tree.parent[meeting]
    )  # a joint that is named belongs to it
    if len(ends) == 2:
        above = tree.depth[ends[0]] + tree.depth[ends[1]] - 2 * tree.depth[meeting]
        return tree.depth[below], above + (below != meeting), is_loop
    on_paths: set[int] = set()
    for k in ends:
        while k != below and k not in on_paths:
            on_paths.add(k)
            k = tree.parent[k]
    return tree.depth[below], len(on_paths), is_loop


class Ancestors:
    """Lowest common ancestors in the spanning tree, in a time that grows with the logarithm of the depth.

    Each body knows one farther down to jump to (Myers, An applicative random-access stack, 1983). The ground
    is the last.
    """

    def __init__(self, parents: Sequence[int]) -> None:
        self.parent, self.depth, self.jump = (
            [*parents, GROUND],
            [0] * (len(parents) + 1),
            [GROUND] * (len(parents) + 1),
        )
        for k, below in enumerate(parents):
            self.depth[k] = self.depth[below] + 1
            one = self.jump[below]
            two = self.jump[one]
            even = self.depth[below] - self.depth[one] == self.depth[one] - self.depth[two]
            self.jump[k] = two if even else below

    def common(self, a: int, b: int) -> int:
        """Return the lowest common ancestor of two bodies, GROUND if there is none."""
        if self.depth[a] < self.depth[b]:
            a, b = b, a
        while self.depth[a] > self.depth[b]:
            a = self.jump[a] if self.depth[self.jump[a]] >= self.depth[b] else self.parent[a]
        while a != b:
            far = self.jump[a] != self.jump[b]
            a, b = (self.jump[a], self.jump[b]) if far else (self.parent[a], self.parent[b])
        return a


class _Groups:
    """Disjoint sets of bodies (union-find) that form a tree; each is represented by its top body."""

    def __init__(self, parents: Sequence[int]) -> None:
        self._next = [*range(len(parents) - 1), GROUND]  # toward the top
        self._size = [1] * len(parents)
        self._below = list(parents)  # of a top: a body of the group that its own hangs on

    def top(self, k: int) -> int:
        """Return the top body of a body's group."""
        while self._next[k] != k:
            self._next[k] = k = self._next[self._next[k]]
        return k

    def unite(self, k: int, on: int) -> None:
        """Unite the group of a body with that of its parent."""
        one = self.top(k)
        other = self.top(on)
        if one != other:
            below = self._below[other]
            top, gone = (one, other) if self._size[one] > self._size[other] else (other, one)
            self._next[gone] = top
            self._size[top] += self._size[gone]
            self._below[top] = below

    def join(self, ends: Sequence[int], meeting: int, *, named: bool, bent: bool = False) -> None:
        """Unite the groups on the paths from the ends to the group where all meet, without that one.

        `meeting` is the body where the paths meet. If joints are `named`, the group of an end is always
        included; and if that body is `bent` by attachments, its own group.
        """
        path = [self.top(ends[0])]
        while path[-1] != self.top(meeting):
            path.append(self.top(self._below[path[-1]]))
        place = {group: n for n, group in enumerate(path)}
        ring = set()
        met = 0
        for end in ends[1:]:
            group = self.top(end)
            while group not in place and group not in ring:
                ring.add(group)
                group = self.top(self._below[group])
            met = max(met, place.get(group, 0))
        below = path[met]
        ring.update(path[:met])
        if (named and any(self.top(end) == below for end in ends)) or (bent and below == self.top(meeting)):
            ring.add(below)
            below = self.top(self._below[below])
        if ring:
            top = max(ring, key=lambda group: (self._size[group], -group))
            for group in ring - {top}:
                self._next[group] = top
                self._size[top] += self._size[group]
            self._below[top] = below


def supports_of(joints: Sequence[PlacedJoint], group: Group) -> list[int]:
    """Return the bodies outside a group to which its tree joints or loops connect."""
    bodies, constraints = group
    touched = {joints[k].parent for k in bodies} | {k for c in constraints for k in c.bodies}
    return sorted(touched - set(bodies))


def find_families(joints: Sequence[PlacedJoint], constraints: Sequence[LoopConstraint]) -> list[Group]:
    """Return the groups united with those that support them by several bodies."""
    groups = find_clusters(joints, constraints)
    where = group_of(groups)
    n = 0
    while n < len(groups):
        supports = supports_of(joints, groups[n])
        below = where[supports[-1]] if len(supports) > 1 else n
        if below == n:
            n += 1
            continue
        n, two = sorted([n, below])  # clusters before have one support each
        (bodies, held), (more, further) = groups[n], groups.pop(two)
        groups[n] = sorted([*bodies, *more]), [*held, *further]
        where = group_of(groups)
    return groups


def group_of(groups: Sequence[Group]) -> dict[int, int]:
    """Return the index of each body's group."""
    return {k: n for n, (bodies, _) in enumerate(groups) for k in bodies}


def with_constraints(
    clusters: Sequence[Cluster], constraints: Sequence[LoopConstraint]
) -> tuple[Cluster, ...]:
    """Return the clusters with other constraints of the same names."""
    named = {constraint.name: constraint for constraint in constraints}
    changed: dict[tuple[int, ...], Cluster] = {}
    for cluster in clusters:
        below = changed[cluster.below.bodies] if cluster.below else None
        replacements = tuple(named[constraint.name] for constraint in cluster.constraints)
        changed[cluster.bodies] = replace(cluster, constraints=replacements, below=below)
    return tuple(changed.values())
