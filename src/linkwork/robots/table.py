"""Robots as tables, with one row per joint and the body that it moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from linkwork.joints import Free, Joint, Revolute
from linkwork.mechanism import Geometry
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.solids import Point, Solid
from linkwork.spatial import Pose

AXES: dict[str, Point] = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class Motor:
    """A geared motor with limits at the joint; its rotor turns `gear` times as fast as the joint."""

    effort: float  # largest torque at the joint [N m]
    speed: float  # largest rate of the joint [rad/s]
    rotor: float  # moment of inertia [kg m²]
    gear: float
    damping: float  # at the joint [N m s/rad]

    @property
    def armature(self) -> float:
        """The reflected inertia of the rotor at the joint [kg m²]."""
        return self.rotor * (self.gear * self.gear)


@dataclass(frozen=True)
class Row:
    """A revolute joint `at` a point of its parent [m], with axis, limits [rad], motor and moved body."""

    joint: str
    parent: str
    body: str
    at: Point
    axis: str
    limits: tuple[float, float]
    motor: Motor
    solid: Solid

    def mirrored(self) -> Row:
        """Return the row of the right side.

        Axes are kept, so that angles about x and z change their sign.
        """
        lower, upper = self.limits
        return replace(
            self,
            joint=right(self.joint),
            parent=right(self.parent),
            body=right(self.body),
            at=across(self.at),
            limits=self.limits if self.axis == "y" else (-upper, -lower),
            solid=self.solid.mirrored(),
        )


@dataclass(frozen=True)
class AttachedFrame:
    """A frame with the axes of its body, `at` a point of it [m].

    A `ball` of that radius [m] collides with the ground there.
    """

    name: str
    body: str
    at: Point
    ball: float = 0.0

    def mirrored(self) -> AttachedFrame:
        return AttachedFrame(right(self.name), right(self.body), across(self.at), self.ball)


def ground_contact(name: str, body: str, at: Point, radius: float) -> Geometry:
    """Return a sphere of a body that collides with the ground only, and is not drawn."""
    place = Pose.translation(np.array(at))
    return Geometry(name, place=place, shape="sphere", size=(radius,), visual=False, conaffinity=0, link=body)


Part = TypeVar("Part", Row, AttachedFrame)


def both_sides(left_parts: Iterable[Part]) -> list[Part]:
    """Return the parts of the left side and their mirror images."""
    parts = list(left_parts)
    return parts + [part.mirrored() for part in parts]


def right(name: str) -> str:
    """Return the name on the right side of a name on the left side."""
    return name.replace("left", "right")


def across(point: Point) -> Point:
    """Return the mirror image of a point in the plane y = 0."""
    x, y, z = point
    return x, -y, z


def assemble(
    name: str,
    base: tuple[str, Solid],
    rows: Iterable[Row],
    frames: Iterable[AttachedFrame],
    *,
    on: Joint | None = None,
) -> Model:
    """Return the model of a base with all rows and frames.

    The base is free unless a joint `on` the world is given.
    """
    root, solid = base
    builder = ModelBuilder(name).add_body(root, **solid.body_args())
    builder.add_joint(root, on or Free(), parent=WORLD, child=root)
    for row in rows:
        lower, upper = row.limits
        builder.add_body(row.body, **row.solid.body_args())
        builder.add_joint(
            row.joint,
            Revolute(AXES[row.axis]),
            parent=row.parent,
            child=row.body,
            xyz=row.at,
            lower=lower,
            upper=upper,
            max_velocity=row.motor.speed,
            max_effort=row.motor.effort,
            damping=row.motor.damping,
            armature=row.motor.armature,
        )
    for frame in frames:
        builder.add_frame(frame.name, body=frame.body, xyz=frame.at)
        if frame.ball:
            builder.add_geometry(ground_contact(frame.name, frame.body, frame.at, frame.ball))
    return builder.build()
