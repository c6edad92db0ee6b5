"""Specifications of loop joints, couplings and implicit constraints by names of links and joints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.joints import Joint
from linkwork.loops.clusters import Ancestors
from linkwork.mechanism import Coupling, End, Keyframe, Loop, PlacedJoint
from linkwork.mechanism.checks import check_name, checked_pose, numbers
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import did_you_mean, join_names, printable
from linkwork.spatial import Pose
from linkwork.spatial.constants import set_frozen

Place = tuple[int, Pose]  # the index of a body, or GROUND, and a pose in its frame


@dataclass(frozen=True)
class LoopJoint:
    """A loop joint to add to a file: `linkwork.load(path, loops=[LoopJoint(...)])`.

    The arguments are those of `ModelBuilder.add_loop`. The frames in predecessor and successor coincide at
    neutral joint coordinates.

    Parameters
    ----------
    name : str
        Name of the loop joint.
    kind : Joint
        Joint type from `linkwork.joints` that can close a loop.
    predecessor, successor : str
        Links, frames or "world".
    xyz, rpy : sequence of float, shape (3,)
        Position [m] and roll, pitch, yaw [rad] of the joint frame in the predecessor.
    place : Pose, optional
        Pose of the joint frame in the predecessor, instead of `xyz` and `rpy`.
    successor_xyz, successor_rpy, successor_place
        The joint frame in the successor.
    embed : bool
        Embed the loop in the coordinates (default). If False, all joints stay independent, and constraint
        forces close the loop.
    in_tree : bool
        Make the coordinates of the loop joint coordinates of the model; implied by the properties below.
    stiffness, rest, damping, armature, friction, lower, upper : optional
        Properties of the joint, as in `ModelBuilder.add_joint`.
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
    in_tree: bool = False
    stiffness: Any = None
    rest: Any = None
    damping: Any = None
    armature: Any = None
    friction: Any = None
    lower: Any = None
    upper: Any = None

    @property
    def of_joint(self) -> dict[str, Any]:
        """The joint properties that are not None, as arguments of `ModelBuilder.add_joint`."""
        words = ("stiffness", "rest", "damping", "armature", "friction", "lower", "upper")
        return {word: getattr(self, word) for word in words if getattr(self, word) is not None}

    def __post_init__(self) -> None:
        check_name("loop", self.name)
        label = f"loop {self.name!r}"
        check_embed(label, self.embed)
        if not isinstance(self.in_tree, bool):
            raise ModelError(f"{label}: in_tree: expected True or False, got {self.in_tree!r}")
        if not isinstance(self.kind, Joint):
            raise ModelError(f"{label}: kind: expected one of linkwork.joints, got {self.kind!r}")
        try:
            self.kind.closure()
        except NotImplementedError as why:
            if not (self.in_tree or self.of_joint):
                raise ModelError(f"{label}: {why}; use in_tree=True") from None
        for word in ("predecessor", "successor"):
            if not isinstance(getattr(self, word), str):
                raise ModelError(
                    f"{label}: {word}: expected the name of a link or frame, got {getattr(self, word)!r}"
                )
        set_frozen(self, "place", checked_pose(label, self.xyz, self.rpy, self.place).frozen())
        successor_pose = checked_pose(
            f"{label}, successor", self.successor_xyz, self.successor_rpy, self.successor_place
        )
        set_frozen(self, "successor_place", successor_pose.frozen())
        for word in ("xyz", "rpy", "successor_xyz", "successor_rpy"):  # contained in the poses
            set_frozen(self, word, (0.0, 0.0, 0.0))

    def on(self, place_of: Callable[[str], Place]) -> Loop:
        """Return the loop joint between the bodies that its names stand for."""
        ends = []
        for name, place in ((self.predecessor, self.place), (self.successor, self.successor_place)):
            body, link_pose = place_of(name)
            assert place is not None
            ends.append(End(body, link_pose.then(place)))
        if ends[0].body == ends[1].body:
            raise ModelError(
                f"loop {self.name!r}: expected two different bodies, got {self.predecessor!r} and "
                f"{self.successor!r}, which belong to the same body"
            )
        return Loop(self.name, self.kind, ends[0], ends[1])


class CouplingSpec(NamedTuple):
    """A coupling by names of joints or links."""

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
    ) -> CouplingSpec:
        """Return a coupling after all checks that need no model; raise ModelError if one fails."""
        check_name("coupling", name)
        check_embed(f"coupling {name!r}", embed)
        link_arguments = (predecessor, successor, ratio)
        if (
            any(x is not None for x in link_arguments)
            if terms is not None
            else any(x is None for x in link_arguments)
        ):
            raise ModelError(f"coupling {name!r}: expected either terms, or predecessor, successor and ratio")
        if terms is not None and not isinstance(terms, Mapping):
            raise ModelError(
                f"coupling {name!r}: terms: expected coefficients by joint, such as {{'a': 1, 'b': -6}}, "
                f"got {terms!r}"
            )
        (offset_,) = numbers(f"coupling {name!r}: offset", [offset], 1)
        if terms is not None:
            coefficients = {
                joint: numbers(f"coupling {name!r}: {printable(joint)}", [c], 1)[0]
                for joint, c in terms.items()
            }
            if not any(coefficients.values()):
                raise ModelError(f"coupling {name!r}: expected at least one non-zero coefficient")
            return cls(name, coefficients, offset_, embed=embed)
        (ratio_,) = numbers(f"coupling {name!r}: ratio", [ratio], 1)
        if ratio_ == 0.0:
            raise ModelError(
                f"coupling {name!r}: ratio: expected a non-zero number; zero would lock {successor!r}"
            )
        return cls(name, None, offset_, str(predecessor), str(successor), ratio_, embed)

    def on(
        self,
        joint_of: Callable[[str], int],
        place_of: Callable[[str], Place],
        joints: Sequence[PlacedJoint],
        tree: Ancestors,
        limits: Limits | None = None,
    ) -> Coupling:
        """Return the coupling of the joints that its names stand for."""
        name = self.name
        if self.terms is not None:
            terms = {joint_of(joint): c for joint, c in self.terms.items() if c}
        else:
            assert self.predecessor is not None and self.successor is not None
            bodies = [place_of(link)[0] for link in (self.predecessor, self.successor)]
            meeting = tree.common(*bodies)
            size = sum(tree.depth[k] - tree.depth[meeting] for k in bodies)
            if limits and size > limits.cluster:
                problem = f"coupling {name!r} couples {size} joints, more than the limit of {limits.cluster}"
                raise LimitError(f"{problem}: {limits.raised('cluster')}")
            terms = {}
            for k, factor in zip(bodies, (self.ratio, -1.0)):
                while k != meeting:
                    terms[k] = factor
                    k = tree.parent[k]
            if not terms:
                raise ModelError(
                    f"coupling {name!r}: no joint lies between {self.predecessor!r} and {self.successor!r}"
                )
        for k in terms:
            if joints[k].nv != 1 or joints[k].nq != 1:
                raise ModelError(
                    f"coupling {name!r}: joint {joints[k].name!r}: expected one velocity, got {joints[k].nv}"
                )
        return Coupling(name, tuple((k, 0, c) for k, c in terms.items()), self.offset)


class ImplicitConstraintSpec(NamedTuple):
    """An implicit constraint by names of joints."""

    name: str
    function: Callable[[Any], Any]
    joints: tuple[str, ...]
    embed: bool = True

    @classmethod
    def checked(cls, name: str, function: Any, joints: Any, embed: bool = True) -> ImplicitConstraintSpec:
        """Return a constraint after all checks that need no model; raise ModelError if one fails."""
        check_name("implicit constraint", name)
        check_embed(f"implicit constraint {name!r}", embed)
        if not callable(function):
            raise ModelError(f"implicit constraint {name!r}: function: expected a callable, got {function!r}")
        names = (joints,) if isinstance(joints, str) else tuple(joints)
        if not names or len(set(names)) < len(names):
            raise ModelError(
                f"implicit constraint {name!r}: joints: expected names of different joints, at least one, "
                f"got {joints!r}"
            )
        return cls(name, function, names, embed)


ConstraintSpec = LoopJoint | CouplingSpec | ImplicitConstraintSpec
SPEC_KEYS = {  # keys of mappings, required ones first
    ImplicitConstraintSpec: ("name", "function", "joints", "embed"),
    CouplingSpec: ("name", "terms", "offset", "predecessor", "successor", "ratio", "embed"),
}


def constraint_spec(spec: Any) -> ConstraintSpec:
    """Return the specification of a loop constraint from a `LoopJoint` or a mapping."""
    if isinstance(spec, LoopJoint):
        return spec
    if isinstance(spec, Mapping) and "kind" not in spec:
        if "function" in spec:
            arguments = _checked_keys("an implicit constraint", spec, SPEC_KEYS[ImplicitConstraintSpec], 3)
            return ImplicitConstraintSpec.checked(**arguments)
        if "terms" in spec or "ratio" in spec:
            arguments = _checked_keys("a coupling", spec, SPEC_KEYS[CouplingSpec], 1)
            return CouplingSpec.checked(
                **{"terms": None, "offset": 0.0, **dict.fromkeys(LINK_KEYS), **arguments}
            )
    if not isinstance(spec, Mapping):
        raise ModelError(
            "loops: expected LoopJoint(name, kind, predecessor=, successor=), or a mapping with these keys, "
            "with name and terms of a coupling, or with name, function and joints of an implicit constraint, "
            f"got {spec!r}"
        )
    return LoopJoint(**_checked_keys("a loop", spec, tuple(field.name for field in fields(LoopJoint)), 4))


LINK_KEYS = ("predecessor", "successor", "ratio")


def _checked_keys(label: str, spec: Mapping[str, Any], keys: Sequence[str], needed: int) -> dict[str, Any]:
    """Return a mapping as a dictionary, or raise ModelError on unknown or missing keys."""
    unknown = [key for key in spec if key not in keys]
    missing = [key for key in keys[:needed] if key not in spec]
    if unknown or missing:
        problem = (
            f"unknown key {unknown[0]!r}; expected {', '.join(keys)}"
            if unknown
            else f"missing {', '.join(missing)}"
        )
        raise ModelError(f"{label} to add: {problem}")
    return dict(spec)


class LoopOptions(NamedTuple):
    """Additional loops of a file and options of their closure; see `linkwork.load`."""

    added: tuple[ConstraintSpec, ...] = ()
    embed: bool = True  # if False, all loops are constrained
    start: Any = None
    tolerance: float | None = None
    motors: tuple[str, ...] = ()  # joints with a motor
    retyped: Mapping[str, str] = {}  # joint types that replace those of the file: SPHERICAL, FIXED, UJOINT_XY


DEFAULT_OPTIONS = LoopOptions()


def check_embed(label: str, embed: Any) -> None:
    """Raise ModelError unless `embed` is True or False."""
    if not isinstance(embed, bool):
        raise ModelError(f"{label}: embed: expected True or False, got {embed!r}")


def moving_joint(name: str, joint: str, joint_indices: Mapping[str, int], fixed: bool) -> int:
    """Return the index of a joint that a constraint names, or raise ModelError if it cannot move."""
    if joint not in joint_indices:
        hint = " (it is fixed)" if fixed else did_you_mean(joint, joint_indices)
        raise ModelError(f"{name!r}: expected the name of a moving joint, got {joint!r}{hint}")
    return joint_indices[joint]


def checked_tolerance(tolerance: Any) -> float:
    """Return a closure tolerance relative to the length of loops, or raise ModelError."""
    (number,) = numbers("tolerance", [tolerance], 1)
    if not 0.0 < number < 1.0:
        raise ModelError(
            "tolerance: expected a number between 0 and 1, relative to the length of a loop, got "
            f"{tolerance!r}"
        )
    return number


def start_coordinates(
    joints: Sequence[PlacedJoint], start: Any, keyframes: Mapping[str, Keyframe]
) -> tuple[float, ...]:
    """Return coordinates of all joints, (nq,), from a mapping by joint, an array or a keyframe name."""
    nq = sum(joint.nq for joint in joints)
    if isinstance(start, str):
        if start not in keyframes:
            available = join_names([repr(x) for x in keyframes]) if keyframes else "a model with keyframes"
            raise ModelError(f"start: expected {available}; got {start!r}{did_you_mean(start, keyframes)}")
        return tuple(keyframes[start].q.tolist())
    if not isinstance(start, Mapping):
        return numbers("start", start, nq)
    joints_by_name = {joint.name: joint for joint in joints}
    q = np.concatenate([np.zeros(0), *(joint.kind.neutral() for joint in joints)])
    for name, values in start.items():
        if name not in joints_by_name:
            hint = did_you_mean(name, joints_by_name)
            raise ModelError(f"start: expected names of moving joints, got {name!r}{hint}")
        joint = joints_by_name[name]
        q[joint.q_slice] = numbers(
            f"start: joint {name!r}", [values] if np.ndim(values) == 0 else values, joint.nq
        )
    return tuple(q.tolist())
