"""What a model is made of: bodies, joints between them, and named frames. All frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from linkwork.joints import Joint
from linkwork.spatial import Inertia, Pose
from linkwork.spatial.constants import put

WORLD = "world"  # the name of what does not move
GROUND = -1  # its index, where bodies are counted


@dataclass(frozen=True)
class Body:
    """A rigid body: everything that moves together. Links joined by fixed joints are one body, named after the first.

    `inertia` is in the body's own frame, which is the frame of that first link.
    """

    name: str
    index: int
    inertia: Inertia
    links: tuple[str, ...]

    def __post_init__(self) -> None:
        put(self, "inertia", self.inertia.frozen())
        put(self, "links", tuple(self.links))

    @property
    def mass(self) -> float:
        """[kg]"""
        assert self.inertia.mass is not None
        return self.inertia.mass

    @property
    def center(self) -> np.ndarray:
        """The centre of mass in the body's frame [m], (3,); zero where there is no mass."""
        return self.inertia.h / self.mass if self.mass else np.zeros(3)

    @property
    def moment(self) -> np.ndarray:
        """The moment of inertia about the centre of mass, in the body's axes [kg m²], (3, 3)."""
        return Inertia.rigid(-self.mass, self.center, self.inertia.A).A


class MassProperties(NamedTuple):
    """Mass [kg], centre of mass [m], (3,), and moment of inertia about it [kg m²], (3, 3), in a body's own frame."""

    mass: Any
    center: np.ndarray
    moment: np.ndarray


_NUMBERS = ("lower", "upper", "max_velocity", "max_effort", "damping", "friction", "stiffness", "rest", "armature")


@dataclass(frozen=True)
class PlacedJoint:
    """A joint of some kind between two bodies, with its placement, limits and passive elements.

    `place` is the joint's frame in the parent body; with neutral coordinates the child body's frame coincides with it. The
    tuples have one number for each velocity: `damping` [N m s/rad or N s/m], `friction` (dry, in steps with contact) [N m or
    N], `stiffness` [N m/rad or N/m] around the neutral coordinates moved by `rest`, `armature` [kg m² or kg], and the limits
    `max_velocity` and `max_effort`; `lower` and `upper` have one for each coordinate.
    """

    name: str
    kind: Joint
    parent: int  # index of a body, or GROUND
    child: int
    place: Pose
    q_start: int = 0
    v_start: int = 0
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    max_velocity: tuple[float, ...] = ()
    max_effort: tuple[float, ...] = ()
    damping: tuple[float, ...] = ()
    friction: tuple[float, ...] = ()
    stiffness: tuple[float, ...] = ()
    rest: tuple[float, ...] = ()
    armature: tuple[float, ...] = ()
    # in a loop: whether its velocities, or each of them, are chosen as independent; None leaves the choice open
    independent: bool | tuple[bool | None, ...] | None = None
    follows: int | None = None  # the flexible body whose modal coordinates move it; it has none of its own then
    base: str = field(default="", compare=False)  # on the ground: the link fixed to the world that holds it, or the world

    def __post_init__(self) -> None:
        put(self, "kind", self.kind.settled())
        put(self, "place", self.place.frozen())
        for word in _NUMBERS:
            if type(self.__dict__[word]) is not tuple:
                put(self, word, tuple(self.__dict__[word]))
        if isinstance(self.independent, tuple) and len(set(self.independent)) < 2:
            put(self, "independent", self.independent[0] if self.independent else None)

    @property
    def choices(self) -> tuple[bool | None, ...]:
        """For each of its velocities, whether it is chosen as independent; None leaves that open."""
        return self.independent if isinstance(self.independent, tuple) else (self.independent,) * self.nv

    @property
    def nq(self) -> int:
        return self.kind.nq

    @property
    def nv(self) -> int:
        return self.kind.nv

    def times(self, factor: float) -> PlacedJoint:
        """The same in another unit of mass."""
        damping, stiffness, armature = (
            tuple(factor * x for x in each) for each in (self.damping, self.stiffness, self.armature)
        )
        return replace(self, damping=damping, stiffness=stiffness, armature=armature)

    def part(self, kind: Joint, name: str, at_q: int, at_v: int) -> PlacedJoint:
        """A joint of a kind that is part of it, from these of its coordinates and velocities on, with their numbers."""
        q, v = slice(at_q, at_q + kind.nq), slice(at_v, at_v + kind.nv)
        numbers = {word: getattr(self, word)[q if word in ("lower", "upper") else v] for word in _NUMBERS}
        return replace(self, name=name, kind=kind, q_start=self.q_start + at_q, v_start=self.v_start + at_v, **numbers)

    @property
    def q_slice(self) -> slice:
        """Where its coordinates are in q."""
        return slice(self.q_start, self.q_start + self.kind.nq)

    @property
    def pose_slice(self) -> slice:
        """Where the coordinates that move it are in q: its own, or those of the flexible body that it follows."""
        return slice(self.q_start, self.q_start + self.kind.nq + self.kind.followed)

    @property
    def v_slice(self) -> slice:
        """Where its velocities are in the velocity of the spanning tree."""
        return slice(self.v_start, self.v_start + self.kind.nv)

    @property
    def v_names(self) -> tuple[str, ...]:
        """A name for each velocity: the joint's own, with the component where there are several."""
        return (self.name,) if self.nv == 1 else tuple(f"{self.name}.{c}" for c in self.kind.components)


@dataclass(frozen=True)
class Frame:
    """A named place on a body: a link of the file, or one that was added. `joint` is the fixed joint that held the link."""

    name: str
    body: int  # index of a body, or GROUND
    place: Pose = field(default_factory=Pose.identity)
    joint: str | None = None

    def __post_init__(self) -> None:
        put(self, "place", self.place.frozen())


def path_to_ground(body: int, joints: Sequence[PlacedJoint]) -> list[int]:
    """The bodies from one down to the ground, which is not among them."""
    found = []
    while body != GROUND:
        found.append(body)
        body = joints[body].parent
    return found
