"""Forces on bodies by compensated weights and by the springs and dampers of spatial tendons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import maximum, minimum, sqrt, where
from linkwork.lazy import cached_property
from linkwork.loops.kinematics import BodyMotion, Ground
from linkwork.mechanism import GROUND
from linkwork.mechanism.body_loads import Around, Point, SpatialTendon, WeightCompensation
from linkwork.sko.wrapping import around
from linkwork.spatial import Inertia, Pose, cross
from linkwork.spatial.constants import product


class MovingPoint(NamedTuple):
    """A point of a body: position [m] and velocity [m/s] in the world."""

    place: np.ndarray
    velocity: np.ndarray


class InWorld(NamedTuple):
    """A point of a body, or of the ground, at a place in the world [m]."""

    body: int
    place: np.ndarray


class BodyLoads:
    """The forces of a model on its bodies in one state, evaluated where they are needed.

    `bodies` are those of the tree in motion, by index; they may still grow.
    """

    def __init__(self, model: Any, bodies: Mapping[int, BodyMotion], ground: Ground) -> None:
        self._bodies = bodies
        self._inertias: list[Inertia] = [body.inertia for body in model.bodies]
        self.tendons = [tendon for tendon in model.tendons if tendon.acts]
        self._compensated = {each.body: each for each in model.weight_compensations}
        self._gravity: dict[Any, np.ndarray] = {ground: np.array(model.gravity, dtype=object)}
        self._poses: dict[Any, Pose] = {ground: Pose.identity()}
        self._velocities: dict[Any, np.ndarray] = {ground: np.zeros(6)}

    def force_on(self, k: int) -> np.ndarray | None:
        """Return the force [m, f] on body k in its own frame, (6,); None if nothing acts on it."""
        total: Any = None
        if k in self._compensated:
            total = self._weight(self._compensated[k])
        for contribution in self._pulls.get(k, ()):
            total = contribution if total is None else total + contribution
        return total

    def _weight(self, compensation: WeightCompensation) -> np.ndarray:
        """Return the force against a part of a body's weight."""
        body = self._bodies[compensation.body]
        mass, h = compensated_mass(compensation, self._inertias[compensation.body])
        g = product(body.C.R, self.gravity_in(body))
        return -np.array([*cross(h, g), *(mass * g)], dtype=object)

    def gravity_in(self, body: Any) -> np.ndarray:
        """Return the gravitational acceleration in the axes of a body's description, (3,)."""
        missing = []
        while body not in self._gravity:
            missing.append(body)
            body = body.on
        for each in reversed(missing):
            self._gravity[each] = product(each.X.R.T, self._gravity[each.on])
        return self._gravity[missing[0] if missing else body]

    @cached_property
    def _pulls(self) -> dict[int, list[np.ndarray]]:
        """The forces of all tendons by body, each in the body's own frame, (6,)."""
        pulls: dict[int, list[np.ndarray]] = {}
        for tendon in self.tendons:
            length, rate, directions = self._path(tendon)
            f = tension(tendon, length, rate)
            for body, pull in self._on_bodies(directions).items():
                pulls.setdefault(body, []).append(pull * f)
        return pulls

    def path_and_pulls(self, tendon: SpatialTendon) -> tuple[Any, dict[int, np.ndarray]]:
        """Return the length [m] and the forces of unit tension by body, in the bodies' own frames, (6,)."""
        length, _, directions = self._path(tendon)
        return length, self._on_bodies(directions)

    def length_and_gradient(self, tendon: SpatialTendon) -> tuple[Any, dict[int, np.ndarray]]:
        """Return the length [m], and the rows, (6,), on the velocities of bodies that give its rate.

        Rows are in the frames of the bodies' descriptions in the tree.
        """
        length, _, directions = self._path(tendon)
        rows: dict[int, np.ndarray] = {}
        for at_point, direction in directions:
            body = at_point.body if isinstance(at_point, InWorld) else at_point[0]
            if body == GROUND:
                continue
            moving = self._bodies[body]
            pose = self._pose(moving)
            force = product(pose.R.T, -direction)
            if isinstance(at_point, InWorld):
                at = product(pose.R.T, at_point.place - pose.p)
            else:
                at = moving.C.inverse().point(np.array(at_point[1]))
            row = np.array([*cross(at, force), *force], dtype=object)
            rows[body] = rows[body] + row if body in rows else row
        return length, rows

    def _on_bodies(self, directions: Sequence[tuple[Point | InWorld, np.ndarray]]) -> dict[int, np.ndarray]:
        """Return forces at points, given in the world's axes, as [m, f] of each body in its own frame."""
        pulls: dict[int, np.ndarray] = {}
        for at_point, direction in directions:
            body = at_point.body if isinstance(at_point, InWorld) else at_point[0]
            if body == GROUND:
                continue
            moving = self._bodies[body]
            pose = self._pose(moving)
            force = product(moving.C.R, product(pose.R.T, direction))
            if isinstance(at_point, InWorld):
                at = moving.C.point(product(pose.R.T, at_point.place - pose.p))
            else:
                at = np.array(at_point[1])
            pull = np.array([*cross(at, force), *force], dtype=object)
            pulls[body] = pulls[body] + pull if body in pulls else pull
        return pulls

    def _path(self, tendon: SpatialTendon) -> tuple[Any, Any, list[tuple[Point | InWorld, np.ndarray]]]:
        """Return length [m], rate of length [m/s], and at each point the force of unit tension."""
        length: Any = 0.0
        rate: Any = 0.0
        directions: list[tuple[Point | InWorld, np.ndarray]] = []
        for divisor, points in tendon.branches:
            for first, shape, second in segments(points):
                if shape is not None:
                    wrapped = self._around(first, shape, second)
                    length = length + wrapped[0] / divisor
                    rate = rate + wrapped[1] / divisor
                    directions += [(at, n / divisor) for at, n in wrapped[2]]
                    continue
                a, b = self._at(first), self._at(second)
                distance, n = along(b.place - a.place)
                length = length + distance / divisor
                if first[0] == second[0]:
                    continue
                rate = rate + product(n, b.velocity - a.velocity) / divisor
                directions += [(first, n / divisor), (second, -n / divisor)]
        return length, rate, directions

    def _around(
        self, first: Point, shape: Around, second: Point
    ) -> tuple[Any, Any, list[tuple[Point | InWorld, np.ndarray]]]:
        """Return length, rate of length, and forces of unit tension of a part of a path around a shape."""
        a, b = self._at(first), self._at(second)
        pose = Pose.identity() if shape.body == GROUND else self._own_pose(shape.body)
        center = pose.point(np.array(shape.center))
        axis, side = (None if not x else np.array(x) for x in (shape.axis, shape.side))
        arc = around(
            a.place - center,
            b.place - center,
            None if axis is None else product(pose.R, axis),
            shape.radius,
            None if side is None else pose.point(side) - center,
        )
        ends = [InWorld(shape.body, center + each) for each in (arc.first, arc.last)]
        straight, n = along(b.place - a.place)
        (to_first, n_a), (from_last, n_b) = (
            along(ends[0].place - a.place),
            along(b.place - ends[1].place),
        )
        length = where(arc.touches, to_first + arc.length + from_last, straight)
        n_first, n_last = (where(arc.touches, each, n) for each in (n_a, n_b))
        on_shape = [where(arc.touches, each, 0.0 * each) for each in (n_a, n_b)]
        v_first, v_last = (self._velocity_at(each) for each in ends)
        rate = product(n_last, b.velocity) - product(n_first, a.velocity)
        rate = rate + product(on_shape[0], v_first) - product(on_shape[1], v_last)
        if first[0] == second[0] == shape.body:
            return length, 0.0, []
        on_ends: list[tuple[Point | InWorld, np.ndarray]] = [(first, n_first), (second, -n_last)]
        return length, rate, [*on_ends, (ends[0], -on_shape[0]), (ends[1], on_shape[1])]

    def _own_pose(self, body: int) -> Pose:
        """Return the pose of a body's own frame in the world."""
        moving = self._bodies[body]
        return self._pose(moving).then(moving.C.inverse())

    def _velocity_at(self, point: InWorld) -> np.ndarray:
        """Return the velocity of the point of a body that is at a place in the world."""
        if point.body == GROUND:
            return np.zeros(3)
        moving = self._bodies[point.body]
        pose = self._pose(moving)
        V = self._velocity(moving)
        return product(pose.R, V[3:] + cross(V[:3], product(pose.R.T, point.place - pose.p)))

    def _at(self, point: Point) -> MovingPoint:
        """Return a point of a body or of the ground in the world."""
        body, position = point
        if body == GROUND:
            return MovingPoint(np.array(position, dtype=object), np.zeros(3))
        moving = self._bodies[body]
        at = moving.C.inverse().point(np.array(position))
        pose = self._pose(moving)
        V = self._velocity(moving)
        return MovingPoint(pose.point(at), product(pose.R, V[3:] + cross(V[:3], at)))

    def _pose(self, body: Any) -> Pose:
        """Return the pose of a body's description frame in the world."""
        if body not in self._poses:
            self._poses[body] = self._pose(body.on).then(body.X)
        return self._poses[body]

    def _velocity(self, body: Any) -> np.ndarray:
        """Return the velocity of a body in its description frame, (6,)."""
        if body not in self._velocities:
            self._velocities[body] = body.velocity(self._velocity(body.on), body.v)
        return self._velocities[body]

    def energy(self) -> Any:
        """Return the potential energy of the tendons' springs [J]."""
        return sum((self.spring_energy(tendon) for tendon in self.tendons), 0.0)

    def spring_energy(self, tendon: SpatialTendon) -> Any:
        """Return the potential energy of a tendon's spring [J]."""
        stretch = stretch_of(tendon, self._path(tendon)[0])
        return 0.5 * tendon.stiffness * stretch * stretch


def compensated_mass(compensation: WeightCompensation, inertia: Inertia) -> tuple[Any, np.ndarray]:
    """Return the mass [kg] and first moment [kg m], (3,), of a body on which gravity does not act."""
    if compensation.mass is not None:
        return compensation.mass, np.array(compensation.first_moment)
    assert inertia.mass is not None
    return compensation.fraction * inertia.mass, compensation.fraction * inertia.h


def segments(points: Sequence[Point | Around]) -> Iterator[tuple[Point, Around | None, Point]]:
    """Yield pairs of successive points of a path, with the shape between them."""
    first: Point | None = None
    shape: Around | None = None
    for each in points:
        if isinstance(each, Around):
            shape = each
            continue
        if first is not None:
            yield first, shape, each
        first, shape = each, None


def along(d: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the length of a vector and its direction, zero for the zero vector."""
    square = product(d, d)
    positive = square > 0.0
    length = where(positive, sqrt(where(positive, square, 1.0)), 0.0)
    return length, d / where(positive, length, 1.0)


def stretch_of(tendon: SpatialTendon, length: Any) -> Any:
    """Return the extension of a tendon beyond its range of rest [m]; negative where it is shorter."""
    low, high = tendon.rest
    return length - high if low == high else maximum(length - high, 0.0) + minimum(length - low, 0.0)


def tension(tendon: SpatialTendon, length: Any, rate: Any) -> Any:
    """Return the tension of spring and damper [N]."""
    force: Any = tendon.damping * rate if tendon.damping else 0.0
    return force + tendon.stiffness * stretch_of(tendon, length) if tendon.stiffness else force
