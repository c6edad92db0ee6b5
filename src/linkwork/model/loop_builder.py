"""Loop constraints for a builder: loop joints, couplings and implicit constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.joints import Joint
from linkwork.parts import Coupling, End, ImplicitConstraint, Loop, LoopConstraint, PlacedJoint
from linkwork.parts.checks import check_name, numbers, placed
from linkwork.parts.limits import Limits
from linkwork.parts.names import did_you_mean, shown
from linkwork.spatial import Inertia, Pose
from linkwork.topology.clusters import Ancestors


class _Loop(NamedTuple):
    kind: Joint
    predecessor: str
    successor: str
    place: Pose
    successor_place: Pose


class _Coupling(NamedTuple):
    terms: dict[str, float] | None
    offset: float
    predecessor: str | None = None
    successor: str | None = None
    ratio: float = 0.0


class _Implicit(NamedTuple):
    function: Callable[[Any], Any]
    joints: tuple[str, ...]


class LoopBuilder:
    """The part of `ModelBuilder` that collects loops, couplings and implicit constraints."""

    def __init__(self) -> None:
        self._links: dict[str, Inertia] = {}
        self._joints: dict[str, tuple[PlacedJoint, str, str]] = {}  # with parent and child; its indices come with `build`
        self._constraints: dict[str, _Loop | _Coupling | _Implicit] = {}
        self._force_held: set[str] = set()  # names of force-held constraints

    def add_loop(
        self,
        name: str,
        kind: Joint,
        *,
        predecessor: str,
        successor: str,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
        successor_xyz: Sequence[float] = (0.0, 0.0, 0.0),
        successor_rpy: Sequence[float] = (0.0, 0.0, 0.0),
        successor_place: Pose | None = None,
        embed: bool = True,
    ) -> Self:
        """A loop joint between link `predecessor` and link `successor`, both of which are in the spanning tree already.

        Its frame is at `xyz` [m] turned by `rpy` [rad], or at the pose `place`, in the predecessor, and likewise in the
        successor. With neutral coordinates both frames coincide. Unless `embed`, it is force-held: all velocities stay
        independent, and constraint forces close it.
        """
        self._check_constraint("loop", name, embed)
        if not isinstance(kind, Joint):
            raise ModelError(f"loop {name!r}: its kind must be one of linkwork.joints, not {kind!r}")
        try:
            kind.closure()
        except NotImplementedError as why:
            raise ModelError(f"loop {name!r}: {why}") from None
        first = placed(f"loop {name!r}", xyz, rpy, place)
        second = placed(f"loop {name!r}, successor", successor_xyz, successor_rpy, successor_place)
        self._constraints[name] = _Loop(kind, predecessor, successor, first, second)
        return self

    def add_coupling(
        self,
        name: str,
        terms: Mapping[str, float] | None = None,
        *,
        offset: float = 0.0,
        predecessor: str | None = None,
        successor: str | None = None,
        ratio: float | None = None,
        embed: bool = True,
    ) -> Self:
        """Σ coefficient * coordinate = offset over joints of one coordinate each: gears, belts, mimics, differentials.

        `terms` gives the coefficients by joint. Or, between two links: `ratio` times the sum of the joints from their common
        ancestor to `predecessor`, less that to `successor`. `embed` as in `add_loop`.
        """
        self._check_constraint("coupling", name, embed)
        between = (predecessor, successor, ratio)
        if any(x is not None for x in between) if terms is not None else any(x is None for x in between):
            raise ModelError(f"coupling {name!r}: give terms, or predecessor, successor and ratio")
        if terms is not None and not isinstance(terms, Mapping):
            raise ModelError(f"coupling {name!r}: terms must be coefficients by joint: {{'a': 1, 'b': -6}}, not {terms!r}")
        (offset_,) = numbers(f"coupling {name!r}: offset", [offset], 1)
        if terms is not None:
            given = {joint: numbers(f"coupling {name!r}: {shown(joint)}", [c], 1)[0] for joint, c in terms.items()}
            if not any(given.values()):
                raise ModelError(f"coupling {name!r}: at least one coefficient must not be zero")
            self._constraints[name] = _Coupling(given, offset_)
        else:
            (ratio_,) = numbers(f"coupling {name!r}: ratio", [ratio], 1)
            if ratio_ == 0.0:
                raise ModelError(f"coupling {name!r}: its ratio must not be zero, which would lock {successor!r}")
            self._constraints[name] = _Coupling(None, offset_, str(predecessor), str(successor), ratio_)
        return self

    def add_implicit_constraint(
        self, name: str, function: Callable[[Any], Any], *, joints: Sequence[str], embed: bool = True
    ) -> Self:
        """φ(q) = 0: `function` takes the coordinates of `joints`, one after the other, and gives one or several numbers.

        It must work on symbols, as any function that is traced. `embed` as in `add_loop`.
        """
        self._check_constraint("implicit constraint", name, embed)
        if not callable(function):
            raise ModelError(f"implicit constraint {name!r}: its function must be callable, not {function!r}")
        names = (joints,) if isinstance(joints, str) else tuple(joints)
        if not names or len(set(names)) < len(names):
            raise ModelError(
                f"implicit constraint {name!r}: joints must be names of different joints, at least one, not {joints!r}"
            )
        self._constraints[name] = _Implicit(function, names)
        return self

    def _check_constraint(self, what: str, name: Any, embed: bool) -> None:
        check_name(what, name)
        if name in self._constraints:
            raise ModelError(f"there is already a loop, coupling or implicit constraint named {name!r}")
        if not isinstance(embed, bool):
            raise ModelError(f"{what} {name!r}: embed must be True or False, not {embed!r}")
        if not embed:
            self._force_held.add(name)

    def _constraint(
        self,
        name: str,
        given: _Loop | _Coupling | _Implicit,
        found: dict[str, tuple[int, Pose]],
        joints: list[PlacedJoint],
        places: dict[str, int],
        tree: Ancestors,
        limits: Limits | None,
    ) -> LoopConstraint:
        """A constraint of what was given, on the bodies and joints of the model; `places` are those of the joints."""

        def joint_of(joint: str) -> int:
            if joint not in places:
                fixed = " (it is fixed)" if joint in self._joints else did_you_mean(joint, places)
                raise ModelError(f"{name!r} names joint {joint!r}, which is no moving joint{fixed}")
            return places[joint]

        def link_of(link: str) -> tuple[int, Pose]:
            if link not in found:
                raise ModelError(f"{name!r} names link {link!r}{self._no_link(link)}")
            return found[link]

        if isinstance(given, _Implicit):
            of = tuple(joint_of(j) for j in given.joints)
            _check_function(name, given.function, np.concatenate([joints[k].kind.neutral() for k in of]))
            return ImplicitConstraint(name, of, given.function)
        if isinstance(given, _Loop):
            ends = []
            for link, place in ((given.predecessor, given.place), (given.successor, given.successor_place)):
                body, there = link_of(link)
                ends.append(End(body, there.then(place)))
            if ends[0].body == ends[1].body:
                raise ModelError(f"loop {name!r} joins {given.predecessor!r} to {given.successor!r}, which are one body")
            return Loop(name, given.kind, ends[0], ends[1])
        if given.terms is not None:
            terms = {joint_of(joint): c for joint, c in given.terms.items() if c}
        else:
            assert given.predecessor is not None and given.successor is not None
            bodies = [link_of(link)[0] for link in (given.predecessor, given.successor)]
            meeting = tree.common(*bodies)
            size = sum(tree.depth[k] - tree.depth[meeting] for k in bodies)
            if limits and size > limits.cluster:
                told = f"coupling {name!r} couples {size} joints, more than the limit of {limits.cluster}"
                raise LimitError(f"{told}: {limits.raised('cluster')}")
            terms = {}
            for k, factor in zip(bodies, (given.ratio, -1.0)):
                while k != meeting:
                    terms[k] = factor
                    k = tree.parent[k]
            if not terms:
                raise ModelError(f"coupling {name!r}: no joint lies between {given.predecessor!r} and {given.successor!r}")
        for k in terms:
            if joints[k].nv != 1 or joints[k].nq != 1:
                raise ModelError(f"coupling {name!r}: joint {joints[k].name!r} has {joints[k].nv} velocities, not one")
        return Coupling(name, tuple((k, 0, c) for k, c in terms.items()), given.offset)

    def _no_link(self, name: str) -> str:
        return f", and there is no link of that name{did_you_mean(name, self._links)}"


def _check_function(name: str, function: Callable[[Any], Any], q: np.ndarray) -> None:
    """That an implicit constraint's function takes coordinates, and gives one number or several."""
    try:
        value = np.asarray(function(q), dtype=float)
    except Exception as error:
        raise ModelError(
            f"implicit constraint {name!r}: its function fails at {q.tolist()}: {type(error).__name__}: {error}"
        ) from error
    if value.ndim > 1 or value.size == 0:
        raise ModelError(
            f"implicit constraint {name!r}: its function must give one number, or several in a row, not shape {value.shape}"
        )
