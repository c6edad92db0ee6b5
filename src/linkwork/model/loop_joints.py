"""Loop joints and couplings by names, as users give them, and what they are on the bodies and joints of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.joints import Joint
from linkwork.parts import Coupling, End, Keyframe, Loop, PlacedJoint
from linkwork.parts.checks import check_name, numbers, placed
from linkwork.parts.limits import Limits
from linkwork.parts.names import did_you_mean, shown, some
from linkwork.spatial import Pose
from linkwork.spatial.constants import put
from linkwork.topology.clusters import Ancestors

Place = tuple[int, Pose]  # the index of a body, or GROUND, and a pose in its frame


@dataclass(frozen=True)
class LoopJoint:
    """A loop joint to add to a file: `linkwork.load(path, loops=[LoopJoint(...)])`.

    `predecessor` and `successor` name links, frames, or "world". Its frame is at `xyz` [m] turned by `rpy` [rad], or at the
    pose `place`, in the predecessor, and likewise in the successor: without, it joins the two that are named. With neutral
    coordinates of the joint both frames coincide. `kind` is one of `linkwork.joints`, any that can close a loop. Unless
    `embed`, it is force-held: all velocities stay independent, and constraint forces close it.
    """

    name: str
    kind: Joint
    _: KW_ONLY
    predecessor: str
    successor: str
    xyz: Sequence[float] = (0.0, 0.0, 0.0)
    rpy: Sequence[float] = (0.0, 0.0, 0.0)
    place: Pose | None = None
    successor_xyz: Sequence[float] = (0.0, 0.0, 0.0)
    successor_rpy: Sequence[float] = (0.0, 0.0, 0.0)
    successor_place: Pose | None = None
    embed: bool = True

    def __post_init__(self) -> None:
        check_name("loop", self.name)
        what = f"loop {self.name!r}"
        check_embed(what, self.embed)
        if not isinstance(self.kind, Joint):
            raise ModelError(f"{what}: its kind must be one of linkwork.joints, not {self.kind!r}")
        try:
            self.kind.closure()
        except NotImplementedError as why:
            raise ModelError(f"{what}: {why}") from None
        for word in ("predecessor", "successor"):
            if not isinstance(getattr(self, word), str):
                raise ModelError(f"{what}: its {word} must be the name of a link or frame, not {getattr(self, word)!r}")
        put(self, "place", placed(what, self.xyz, self.rpy, self.place).frozen())
        there = placed(f"{what}, successor", self.successor_xyz, self.successor_rpy, self.successor_place)
        put(self, "successor_place", there.frozen())
        for word in ("xyz", "rpy", "successor_xyz", "successor_rpy"):  # they are in the poses now
            put(self, word, (0.0, 0.0, 0.0))

    def on(self, place_of: Callable[[str], Place]) -> Loop:
        """The loop joint between the bodies that its names stand for."""
        ends = []
        for name, place in ((self.predecessor, self.place), (self.successor, self.successor_place)):
            body, there = place_of(name)
            assert place is not None
            ends.append(End(body, there.then(place)))
        if ends[0].body == ends[1].body:
            raise ModelError(f"loop {self.name!r} joins {self.predecessor!r} to {self.successor!r}, which are one body")
        return Loop(self.name, self.kind, ends[0], ends[1])


class GivenCoupling(NamedTuple):
    """A coupling by names of joints, or between two links."""

    name: str
    terms: dict[str, float] | None
    offset: float
    predecessor: str | None = None
    successor: str | None = None
    ratio: float = 0.0
    embed: bool = True

    @classmethod
    def checked(
        cls,
        name: str,
        terms: Mapping[str, float] | None,
        offset: float,
        predecessor: str | None,
        successor: str | None,
        ratio: float | None,
        embed: bool = True,
    ) -> GivenCoupling:
        """The same with every mistake named that can be seen without a model."""
        check_name("coupling", name)
        check_embed(f"coupling {name!r}", embed)
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
            return cls(name, given, offset_, embed=embed)
        (ratio_,) = numbers(f"coupling {name!r}: ratio", [ratio], 1)
        if ratio_ == 0.0:
            raise ModelError(f"coupling {name!r}: its ratio must not be zero, which would lock {successor!r}")
        return cls(name, None, offset_, str(predecessor), str(successor), ratio_, embed)

    def on(
        self,
        joint_of: Callable[[str], int],
        place_of: Callable[[str], Place],
        joints: Sequence[PlacedJoint],
        tree: Ancestors,
        limits: Limits | None = None,
    ) -> Coupling:
        """The coupling of the joints that its names stand for."""
        name = self.name
        if self.terms is not None:
            terms = {joint_of(joint): c for joint, c in self.terms.items() if c}
        else:
            assert self.predecessor is not None and self.successor is not None
            bodies = [place_of(link)[0] for link in (self.predecessor, self.successor)]
            meeting = tree.common(*bodies)
            size = sum(tree.depth[k] - tree.depth[meeting] for k in bodies)
            if limits and size > limits.cluster:
                told = f"coupling {name!r} couples {size} joints, more than the limit of {limits.cluster}"
                raise LimitError(f"{told}: {limits.raised('cluster')}")
            terms = {}
            for k, factor in zip(bodies, (self.ratio, -1.0)):
                while k != meeting:
                    terms[k] = factor
                    k = tree.parent[k]
            if not terms:
                raise ModelError(f"coupling {name!r}: no joint lies between {self.predecessor!r} and {self.successor!r}")
        for k in terms:
            if joints[k].nv != 1 or joints[k].nq != 1:
                raise ModelError(f"coupling {name!r}: joint {joints[k].name!r} has {joints[k].nv} velocities, not one")
        return Coupling(name, tuple((k, 0, c) for k, c in terms.items()), self.offset)


class GivenImplicit(NamedTuple):
    """An implicit constraint by names of joints."""

    name: str
    function: Callable[[Any], Any]
    joints: tuple[str, ...]
    embed: bool = True

    @classmethod
    def checked(cls, name: str, function: Any, joints: Any, embed: bool = True) -> GivenImplicit:
        """The same with every mistake named that can be seen without a model."""
        check_name("implicit constraint", name)
        check_embed(f"implicit constraint {name!r}", embed)
        if not callable(function):
            raise ModelError(f"implicit constraint {name!r}: its function must be callable, not {function!r}")
        names = (joints,) if isinstance(joints, str) else tuple(joints)
        if not names or len(set(names)) < len(names):
            raise ModelError(
                f"implicit constraint {name!r}: joints must be names of different joints, at least one, not {joints!r}"
            )
        return cls(name, function, names, embed)


Given = LoopJoint | GivenCoupling | GivenImplicit
WORDS = {  # of mappings, those that must be there first
    GivenImplicit: ("name", "function", "joints", "embed"),
    GivenCoupling: ("name", "terms", "offset", "predecessor", "successor", "ratio", "embed"),
}


def given_loop(given: Any) -> Given:
    """What was given as a loop to add: a `LoopJoint`, or a mapping with the words of one, of a coupling or of a function."""
    if isinstance(given, LoopJoint):
        return given
    if isinstance(given, Mapping) and "kind" not in given:
        if "function" in given:
            words = _words("an implicit constraint", given, WORDS[GivenImplicit], 3)
            return GivenImplicit.checked(**words)
        if "terms" in given or "ratio" in given:
            words = _words("a coupling", given, WORDS[GivenCoupling], 1)
            return GivenCoupling.checked(**{"terms": None, "offset": 0.0, **dict.fromkeys(BETWEEN), **words})
    if not isinstance(given, Mapping):
        raise ModelError(
            "a loop to add is given as LoopJoint(name, kind, predecessor=, successor=), or as a mapping with these words, with "
            f"name and terms of a coupling, or with name, function and joints of an implicit constraint, not {given!r}"
        )
    return LoopJoint(**_words("a loop", given, tuple(field.name for field in fields(LoopJoint)), 4))


BETWEEN = ("predecessor", "successor", "ratio")


def _words(what: str, given: Mapping[str, Any], words: Sequence[str], needed: int) -> dict[str, Any]:
    """What was given, of known words only, with those that are needed."""
    unknown = [word for word in given if word not in words]
    missing = [word for word in words[:needed] if word not in given]
    if unknown or missing:
        told = f"has no word {unknown[0]!r}; it has {', '.join(words)}" if unknown else f"needs {', '.join(missing)}"
        raise ModelError(f"{what} to add {told}")
    return dict(given)


class LoopOptions(NamedTuple):
    """What a caller says about the loops of a file: further ones, and how all are closed; see `linkwork.load`."""

    added: tuple[Given, ...] = ()
    embed: bool = True  # otherwise all are force-held
    start: Any = None
    tolerance: float | None = None
    motors: tuple[str, ...] = ()  # joints that have one
    retyped: Mapping[str, str] = {}  # joints of the file that are others in truth: SPHERICAL, FIXED, UJOINT_XY


AS_THE_FILE_SAYS = LoopOptions()


def check_embed(what: str, embed: Any) -> None:
    """That whether to embed is said by a truth value."""
    if not isinstance(embed, bool):
        raise ModelError(f"{what}: embed must be True or False, not {embed!r}")


def moving_joint(name: str, joint: str, places: Mapping[str, int], fixed: bool) -> int:
    """The index of a joint that a constraint names, among those that move."""
    if joint not in places:
        told = " (it is fixed)" if fixed else did_you_mean(joint, places)
        raise ModelError(f"{name!r} names joint {joint!r}, which is no moving joint{told}")
    return places[joint]


def checked_tolerance(tolerance: Any) -> float:
    """A tolerance for closing loops, relative to their lengths."""
    (found,) = numbers("tolerance", [tolerance], 1)
    if not 0.0 < found < 1.0:
        raise ModelError(f"tolerance must be a number between 0 and 1, relative to the length of a loop, not {tolerance!r}")
    return found


def start_coordinates(joints: Sequence[PlacedJoint], start: Any, keyframes: Mapping[str, Keyframe]) -> tuple[float, ...]:
    """Coordinates of all joints, (nq,), from what was given: by joint, all of them, or a keyframe's name."""
    nq = sum(joint.nq for joint in joints)
    if isinstance(start, str):
        if start not in keyframes:
            there = f"there are {some([repr(x) for x in keyframes])}" if keyframes else "the model has none"
            raise ModelError(f"start: there is no keyframe named {start!r}{did_you_mean(start, keyframes)}; {there}")
        return tuple(keyframes[start].q.tolist())
    if not isinstance(start, Mapping):
        return numbers("start", start, nq)
    named = {joint.name: joint for joint in joints}
    q = np.concatenate([np.zeros(0), *(joint.kind.neutral() for joint in joints)])
    for name, given in start.items():
        if name not in named:
            raise ModelError(f"start: there is no moving joint named {name!r}{did_you_mean(name, named)}")
        joint = named[name]
        q[joint.q_slice] = numbers(f"start: joint {name!r}", [given] if np.ndim(given) == 0 else given, joint.nq)
    return tuple(q.tolist())
