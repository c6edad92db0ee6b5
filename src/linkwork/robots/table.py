"""Robots as tables: one row is a joint and the body that it moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from linkwork.joints import Free, Joint, Revolute
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.parts import Geometry
from linkwork.robots.solids import Point, Solid
from linkwork.spatial import Pose

AXES: dict[str, Point] = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class Motor:
    """A geared motor: what it can do at the joint, and its rotor, which turns `gear` times as fast as the joint."""

    effort: float  # at most, at the joint [N m]
    speed: float  # at most, at the joint [rad/s]
    rotor: float  # moment of inertia [kg m²]
    gear: float
    damping: float  # at the joint [N m s/rad]

    @property
    def armature(self) -> float:
        """The rotor's reflected inertia at the joint [kg m²]."""
        return self.rotor * (self.gear * self.gear)


@dataclass(frozen=True)
class Row:
    """A revolute joint `at` a point of its parent [m], about an axis, with limits [rad], and the body that it moves."""

    joint: str
    parent: str
    body: str
    at: Point
    axis: str
    limits: tuple[float, float]
    motor: Motor
    solid: Solid

    def mirrored(self) -> Row:
        """The same on the right: the axes are kept, so that angles about x and z change their sign."""
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
class Mark:
    """A frame with the axes of its body, `at` a point of it [m]; a `ball` of that radius [m] touches the ground there."""

    name: str
    body: str
    at: Point
    ball: float = 0.0

    def mirrored(self) -> Mark:
        return Mark(right(self.name), right(self.body), across(self.at), self.ball)


def touching(name: str, body: str, at: Point, radius: float) -> Geometry:
    """A ball on a body that touches the ground, and no other ball; it is not drawn."""
    place = Pose.translation(np.array(at))
    return Geometry(name, place=place, shape="sphere", size=(radius,), visual=False, conaffinity=0, link=body)


Part = TypeVar("Part", Row, Mark)


def both_sides(left: Iterable[Part]) -> list[Part]:
    """What is on the left, and then its mirror image on the right."""
    parts = list(left)
    return parts + [part.mirrored() for part in parts]


def right(name: str) -> str:
    """The name on the right of what has this name on the left."""
    return name.replace("left", "right")


def across(point: Point) -> Point:
    """A point's mirror image in the plane y = 0."""
    x, y, z = point
    return x, -y, z


def assemble(
    name: str, base: tuple[str, Solid], rows: Iterable[Row], marks: Iterable[Mark], *, on: Joint | None = None
) -> Model:
    """The model of a base, which is free to move unless a joint `on` the world is given, and of everything that hangs on it."""
    root, solid = base
    builder = ModelBuilder(name).add_body(root, **solid.figures())
    builder.add_joint(root, on or Free(), parent=WORLD, child=root)
    for row in rows:
        lower, upper = row.limits
        builder.add_body(row.body, **row.solid.figures())
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
    for mark in marks:
        builder.add_frame(mark.name, body=mark.body, xyz=mark.at)
        if mark.ball:
            builder.add_geometry(touching(mark.name, mark.body, mark.at, mark.ball))
    return builder.build()
