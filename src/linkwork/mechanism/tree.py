"""Bodies, joints and frames of models, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from linkwork.joints import Joint
from linkwork.mechanism.checks import frozen_joint
from linkwork.spatial import Inertia, Pose
from linkwork.spatial.constants import set_frozen

WORLD = "world"  # name of the fixed frame
GROUND = -1  # body index of the world


@dataclass(frozen=True)
class Body:
    """A rigid body: links joined by fixed joints, named after the first link.

    `inertia` is in the body frame, which is the frame of the first link.
    """

    name: str
    index: int
    inertia: Inertia
    links: tuple[str, ...]

    def __post_init__(self) -> None:
        set_frozen(self, "inertia", self.inertia.frozen())
        set_frozen(self, "links", tuple(self.links))

    @property
    def mass(self) -> float:
        """Mass [kg]."""
        assert self.inertia.mass is not None
        return self.inertia.mass

    @property
    def center(self) -> np.ndarray:
        """Centre of mass in the body frame [m], (3,); zero for massless bodies."""
        return self.inertia.h / self.mass if self.mass else np.zeros(3)

    @property
    def moment(self) -> np.ndarray:
        """Moment of inertia about the centre of mass in the body axes [kg m²], (3, 3)."""
        return Inertia.rigid(-self.mass, self.center, self.inertia.A).A


class MassProperties(NamedTuple):
    """Mass [kg], centre [m], (3,), and central moment of inertia [kg m²], (3, 3), in the body frame."""

    mass: Any
    center: np.ndarray
    moment: np.ndarray


_NUMERIC_FIELDS = (
    "lower",
    "upper",
    "max_velocity",
    "max_effort",
    "damping",
    "friction",
    "stiffness",
    "rest",
    "armature",
)


@dataclass(frozen=True)
class PlacedJoint:
    """A joint of some kind between two bodies, with its placement, limits and passive elements.

    `place` is the joint's frame in the parent body; with neutral coordinates the child body's frame coincides
    with it. The tuples have one number for each velocity: `damping` [N m s/rad or N s/m], `friction` (dry, in
    time steps) [N m or N], `stiffness` [N m/rad or N/m] around the neutral coordinates moved by
    `rest`, `armature` [kg m² or kg], and the limits `max_velocity` and `max_effort`; `lower` and `upper` have
    one for each coordinate. `max_angle` [rad] limits the rotation of a spherical joint, about any axis.
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
    max_angle: float = field(default=np.inf, metadata={"later": True})
    # in a loop: whether its velocities, or each of them, are independent; None: chosen by the analysis
    independent: bool | tuple[bool | None, ...] | None = None
    follows: int | None = None  # the flexible body whose modal coordinates move it, in place of its own
    base: str = field(default="", compare=False)  # for joints on the ground: the fixed link or world it is on

    def __post_init__(self) -> None:
        set_frozen(self, "kind", frozen_joint(f"joint {self.name!r}", self.kind.frozen))
        set_frozen(self, "place", self.place.frozen())
        for name in _NUMERIC_FIELDS:
            if type(self.__dict__[name]) is not tuple:
                set_frozen(self, name, tuple(self.__dict__[name]))
        if isinstance(self.independent, tuple) and len(set(self.independent)) < 2:
            set_frozen(self, "independent", self.independent[0] if self.independent else None)

    @property
    def choices(self) -> tuple[bool | None, ...]:
        """For each velocity, whether it is chosen as independent; None if undecided."""
        return self.independent if isinstance(self.independent, tuple) else (self.independent,) * self.nv

    @property
    def nq(self) -> int:
        return self.kind.nq

    @property
    def nv(self) -> int:
        return self.kind.nv

    def times(self, factor: float) -> PlacedJoint:
        """Return a copy with damping, stiffness and armature in another unit of mass."""
        damping, stiffness, armature = (
            tuple(factor * x for x in each) for each in (self.damping, self.stiffness, self.armature)
        )
        kind = self.kind.times(factor)
        return replace(self, kind=kind, damping=damping, stiffness=stiffness, armature=armature)

    def part(self, kind: Joint, name: str, at_q: int, at_v: int) -> PlacedJoint:
        """Return the part of a compound joint that begins at these coordinates and velocities."""
        q = slice(at_q, at_q + kind.nq)
        v = slice(at_v, at_v + kind.nv)
        numbers = {
            field: getattr(self, field)[q if field in ("lower", "upper") else v] for field in _NUMERIC_FIELDS
        }
        return replace(
            self, name=name, kind=kind, q_start=self.q_start + at_q, v_start=self.v_start + at_v, **numbers
        )

    @property
    def q_slice(self) -> slice:
        """Slice of its coordinates in q."""
        return slice(self.q_start, self.q_start + self.kind.nq)

    @property
    def pose_slice(self) -> slice:
        """Slice in q of the coordinates that move it: its own, or those of the flexible body it follows."""
        return slice(self.q_start, self.q_start + self.kind.nq + self.kind.followed)

    @property
    def v_slice(self) -> slice:
        """Slice of its velocities in the velocity of the spanning tree."""
        return slice(self.v_start, self.v_start + self.kind.nv)

    @property
    def v_names(self) -> tuple[str, ...]:
        """Names of the velocities: the joint's name, with component if there are several."""
        return (self.name,) if self.nv == 1 else tuple(f"{self.name}.{c}" for c in self.kind.components)


@dataclass(frozen=True)
class Frame:
    """A named frame on a body: a link, or an added frame.

    `joint` is the fixed joint that connected the link.
    """

    name: str
    body: int  # index of a body, or GROUND
    place: Pose = field(default_factory=Pose.identity)
    joint: str | None = None

    def __post_init__(self) -> None:
        set_frozen(self, "place", self.place.frozen())


def path_to_ground(body: int, joints: Sequence[PlacedJoint]) -> list[int]:
    """Return a body and its ancestors, without the ground."""
    path = []
    while body != GROUND:
        path.append(body)
        body = joints[body].parent
    return path
