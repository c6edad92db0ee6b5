"""Builder of attached data: keyframes, actuators, tendons, shapes and contact pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from linkwork.errors import ModelError
from linkwork.mechanism import (
    GROUND,
    WORLD,
    Actuator,
    Around,
    ContactPair,
    Geometry,
    Keyframe,
    Named,
    PlacedJoint,
    SpatialTendon,
    Wrap,
)
from linkwork.mechanism.attached import SHAPES
from linkwork.mechanism.checks import check_name, checked_pose, numbers
from linkwork.mechanism.names import did_you_mean
from linkwork.spatial import Pose
from linkwork.spatial.constants import frozen


class AttachedBuilder:
    """Base class of `ModelBuilder` for attached data."""

    def __init__(self) -> None:
        self._keyframes: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._actuators: list[Actuator] = []
        self._geometries: list[Geometry] = []
        self._contact_pairs: list[ContactPair] = []
        self._tendons: dict[str, _Tendon] = {}

    def add_keyframe(
        self,
        name: str,
        q: Mapping[str, Any],
        v: Mapping[str, Any] | None = None,
        *,
        controls: Mapping[str, float] | None = None,
        activations: Mapping[str, float] | None = None,
    ) -> Self:
        """Add a named state: coordinates and velocities by joint, controls and activations by actuator.

        Joints that are not named are neutral and at rest; controls and activations that are not named are
        zero. `build(start=name)` closes loops from there.
        """
        check_name("keyframe", name)
        if name in self._keyframes:
            raise ModelError(f"keyframe {name!r}: the name is already taken")
        self._keyframes[name] = tuple(dict(x or {}) for x in (q, v, controls, activations))
        return self

    def add_actuator(self, actuator: Actuator) -> Self:
        """Add an actuator."""
        self._actuators.append(actuator)
        return self

    def add_geometry(
        self,
        geometry: Geometry | str,
        shape: str = "point",
        size: float | Sequence[float] = (),
        *,
        link: str = WORLD,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
        **more: Any,
    ) -> Self:
        """Add a shape on a link or the world.

        Parameters
        ----------
        geometry : Geometry or str
            The shape, attached to its `link`; or the name of a shape with the properties below.
        shape : str
            Kind of shape: "point", "sphere", "capsule", "box", "ellipsoid", "cylinder", "hull", "plane",
            "heightfield" or "mesh".
        size : float or sequence of float
            Dimensions [m], as in `Geometry`.
        link : str
            Link that carries the shape, or "world".
        xyz, rpy : sequence of float, shape (3,)
            Position [m] and roll, pitch, yaw [rad] in the link frame.
        place : Pose, optional
            Pose in the link frame, instead of `xyz` and `rpy`.
        **more
            Other attributes of `Geometry`: friction, condim, contype, conaffinity, margin, rgba, visual,
            collision, vertices, heights.

        Returns
        -------
        ModelBuilder
        """
        if not isinstance(geometry, Geometry):
            check_name("geometry", geometry)
            at = checked_pose(f"geometry {geometry!r}", xyz, rpy, place)
            properties: dict[str, Any] = {"place": at, "shape": shape, "size": size, "link": link, **more}
            geometry = Geometry(geometry, **properties)
        if geometry.shape not in SHAPES:
            raise ModelError(
                f"geometry {geometry.name!r}: shape: expected one of {', '.join(SHAPES)}, got "
                f"{geometry.shape!r}"
            )
        self._geometries.append(geometry)
        return self

    def add_contact_pair(self, pair: ContactPair) -> Self:
        """Add a pair of shapes that may touch, or of bodies that may not."""
        self._contact_pairs.append(pair)
        return self

    def add_tendon(
        self,
        name: str,
        points: Sequence[Any] = (),
        *,
        stiffness: float = 0.0,
        damping: float = 0.0,
        rest: float | Sequence[float] = 0.0,
        range: Sequence[float] = (-np.inf, np.inf),
        friction: float = 0.0,
        branches: Sequence[tuple[float, Sequence[Any]]] = (),
    ) -> Self:
        """Add a massless tendon along the shortest path, with a spring, a damper, limits and dry friction.

        Parameters
        ----------
        name : str
            Name of the tendon.
        points : sequence
            At least two names of links or frames whose origins the tendon connects, or pairs of such a name
            and a position in its frame [m]. A `linkwork.mechanism.Wrap` between two of them is a sphere or
            cylinder around which the tendon passes.
        stiffness, damping : float
            Of its length [N/m, N s/m].
        rest : float or (float, float)
            Length at rest [m], or two lengths between which the spring is slack. A tendon that is shorter
            than at rest pushes; (0, length) makes it only pull.
        range : (float, float)
            Limits of the length [m], which time steps keep. Default unlimited.
        friction : float
            Dry friction against the rate of the length [N]; acts in time steps only.
        branches : sequence of (divisor, points)
            Instead of `points`: branches behind pulleys, whose lengths are divided by a divisor.

        Returns
        -------
        ModelBuilder

        Raises
        ------
        ModelError
            If the name is taken or an argument is invalid.
        """
        label = f"tendon {name!r}"
        check_name("tendon", name)
        if name in self._tendons:
            raise ModelError(f"{label}: the name is already taken")
        all_branches = [(1.0, points)] if not branches else [*branches]
        too_short = any(isinstance(branch, str) or len(branch) < 2 for _, branch in all_branches)
        if too_short or (branches and points):
            raise ModelError(f"{label}: expected at least two points, or branches with two each")
        (k, d, dry_friction, slack_from, slack_to) = numbers(
            f"{label}: stiffness, damping, friction, rest",
            [stiffness, damping, friction, *np.broadcast_to(rest, 2)],
            5,
        )
        shortest, longest = numbers(f"{label}: range", range, 2, finite=False)
        divisors = numbers(f"{label}: divisors", [divisor for divisor, _ in all_branches], len(all_branches))
        if min(k, d, dry_friction) < 0.0 or min(divisors) <= 0.0 or slack_from > slack_to:
            raise ModelError(
                f"{label}: expected stiffness, damping and friction of at least 0, positive divisors and "
                f"ascending lengths at rest, got {stiffness!r}, {damping!r}, {friction!r}, {[*divisors]} and "
                f"{rest!r}"
            )
        if not shortest < longest or longest <= 0.0:
            raise ModelError(f"{label}: range: expected ascending lengths of at least 0, got {range!r}")
        named_branches = [
            (divisor, _points(label, branch)) for divisor, (_, branch) in zip(divisors, all_branches)
        ]
        self._tendons[name] = _Tendon(
            named_branches, k, d, (slack_from, slack_to), (shortest, longest), dry_friction
        )
        return self

    def _placed_tendons(self, poses: Mapping[str, tuple[int, Pose]]) -> tuple[SpatialTendon, ...]:
        """Return the tendons with points on bodies."""
        tendons = []
        for name, tendon in self._tendons.items():
            branches = []
            for divisor, points in tendon.branches:
                placed_points = []
                for point in points:
                    frame = point[0]
                    if frame not in poses:
                        problem = f"tendon {name!r}: expected the name of a link or frame, got {frame!r}"
                        raise ModelError(f"{problem}{did_you_mean(frame, poses)}")
                    placed_points.append(_placed(point, *poses[frame]))
                branches.append((divisor, tuple(placed_points)))
            tendons.append(SpatialTendon(name, tuple(branches), *tendon[1:]))
        return tuple(tendons)

    def _attached(
        self, joints: Sequence[PlacedJoint], poses: Mapping[str, tuple[int, Pose]]
    ) -> dict[str, Any]:
        """Return the attached data with links resolved to bodies."""
        shapes = []
        for shape in self._geometries:
            if shape.link in ("", WORLD) and shape.link not in poses:
                shapes.append(replace(shape, body=GROUND))
                continue
            if shape.link not in poses:
                problem = f"shape {shape.name!r}: link: expected the name of a link, got {shape.link!r}"
                raise ModelError(f"{problem}{did_you_mean(shape.link, poses)}")
            body, place = poses[shape.link]
            shapes.append(replace(shape, body=body, place=place.then(shape.place)))
        return {
            "keyframes": Named(
                {
                    name: _keyframe(name, joints, self._actuators, *states)
                    for name, states in self._keyframes.items()
                }
            ),
            "actuators": tuple(self._actuators),
            "geometries": tuple(shapes),
            "contact_pairs": tuple(self._contact_pairs),
            "tendons": self._placed_tendons(poses),
        }


class _Tendon(NamedTuple):
    """A tendon with the names of its points, by branch with divisor."""

    branches: list[tuple[float, list[tuple[str, tuple[float, ...]] | Wrap]]]
    stiffness: float
    damping: float
    rest: tuple[float, float]
    range: tuple[float, float]
    friction: float


def _points(label: str, points: Sequence[Any]) -> list[tuple[str, tuple[float, ...]] | Wrap]:
    """Return the points of a branch, with shapes between two points each."""
    result = [_wrap(label, point) if isinstance(point, Wrap) else _point(label, point) for point in points]
    kinds = [isinstance(point, Wrap) for point in result]
    if kinds[0] or kinds[-1] or any(a and b for a, b in pairwise(kinds)):
        raise ModelError(f"{label}: expected each Wrap between two points")
    return result


def _wrap(label: str, wrap: Wrap) -> Wrap:
    """Return a checked shape with a unit axis."""
    label = f"{label}: Wrap on {wrap.link!r}"
    (radius,) = numbers(f"{label}: radius", [wrap.radius], 1)
    center = numbers(f"{label}: xyz", wrap.xyz, 3)
    axis, side = (() if not len(x) else numbers(f"{label}: axis, side", x, 3) for x in (wrap.axis, wrap.side))
    length = math.sqrt(sum(x * x for x in axis))
    if not radius > 0.0 or (axis and not length > 0.0):
        raise ModelError(f"{label}: expected a positive radius and an axis that is not zero, got {wrap}")
    if side and math.dist(side, center) < radius:
        raise ModelError(f"{label}: side: expected a position outside of the shape, got {wrap.side}")
    return Wrap(wrap.link, radius, center, tuple(x / length for x in axis), side)


def _placed(
    point: tuple[str, tuple[float, ...]] | Wrap, body: int, place: Pose
) -> tuple[int, tuple[float, float, float]] | Around:
    """Return a point or a shape in the frame of its body, in which its frame is at `place`."""

    def at(position: Sequence[float]) -> tuple[float, float, float]:
        x, y, z = (float(each) for each in place.point(np.array(position)))
        return x, y, z

    if not isinstance(point, Wrap):
        return body, at(point[1])
    axis = tuple((place.R @ np.array(point.axis)).tolist()) if point.axis else ()
    return Around(body, at(point.xyz), point.radius, axis, at(point.side) if point.side else ())


def _point(label: str, point: Any) -> tuple[str, tuple[float, ...]]:
    """Return a frame and a position in it, from a name or a pair of both."""
    name, position = (point, (0.0, 0.0, 0.0)) if isinstance(point, str) else point
    return name, numbers(f"{label}: position at {name!r}", position, 3)


def _keyframe(
    name: str,
    joints: Sequence[PlacedJoint],
    actuators: Sequence[Actuator],
    q: Mapping[str, Any],
    v: Mapping[str, Any],
    controls: Mapping[str, Any],
    activations: Mapping[str, Any],
) -> Keyframe:
    joints_by_name = {joint.name: joint for joint in joints}
    coordinates = np.concatenate([np.zeros(0), *(joint.kind.neutral() for joint in joints)])
    velocities = np.zeros(sum(joint.nv for joint in joints))
    for values_by_joint, vector, attribute in ((q, coordinates, "q_slice"), (v, velocities, "v_slice")):
        for joint, values in values_by_joint.items():
            label = f"keyframe {name!r}: joint {joint!r}"
            if joint not in joints_by_name:
                hint = did_you_mean(joint, joints_by_name)
                raise ModelError(f"{label}: expected the name of a moving joint{hint}")
            part = getattr(joints_by_name[joint], attribute)
            vector[part] = numbers(
                label, [values] if np.ndim(values) == 0 else values, part.stop - part.start
            )
    of_actuators = (_by_actuator(name, actuators, values) for values in (controls, activations))
    return Keyframe(frozen(coordinates), frozen(velocities), *of_actuators)


def _by_actuator(
    keyframe: str, actuators: Sequence[Actuator], values_by_actuator: Mapping[str, Any]
) -> np.ndarray:
    """Return one number for each actuator, zero if there is none."""
    vector = np.zeros(len(actuators))
    index = {actuator.name: k for k, actuator in enumerate(actuators)}
    for actuator, value in values_by_actuator.items():
        label = f"keyframe {keyframe!r}: actuator {actuator!r}"
        if actuator not in index:
            raise ModelError(f"{label}: expected the name of an actuator{did_you_mean(actuator, index)}")
        (vector[index[actuator]],) = numbers(label, [value], 1)
    return frozen(vector)
