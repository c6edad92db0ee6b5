"""Body frames that give short programs.

Any frame fixed to a body can describe it. Behind a hinge it may be shifted along the axis and rotated about
it, on either side of the hinge. Offsets along axes and angles about axes then vanish from the poses between
bodies; an offset along an axis shared by two poses remains in one of them, as in the Denavit-Hartenberg
convention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import atan2
from linkwork.joints.joint import Symmetry
from linkwork.loops.kinematics import JointFrame, own_frame
from linkwork.mechanism import GROUND, PlacedJoint
from linkwork.model import Model, cached_on_model
from linkwork.sko.bodies import BodyDescription
from linkwork.sko.prepare.rotors import lumped
from linkwork.spatial import Inertia, Pose, snapped
from linkwork.spatial.constants import product
from linkwork.spatial.modal import ModalIntegrals

# Approximate costs in instructions: an offset in a pose, an entry of a rotation other than 0 and ±1, a
# nonzero number of an inertia, and an angle that is added to q.
LENGTH_COST = 10.0
ROTATION_ENTRY_COST = 5.0
INERTIA_NUMBER_COST = 1.0
PHASE_COST = 1.0
# Factor by which a shifted frame may increase a moment of inertia; 10 costs one decimal digit.
MAX_INERTIA_GROWTH = 10.0
# Shift of a frame along an axis, relative to the distances of attachments on its body.
MAX_SHIFT = 4.0
POINT_LIKE = 1e-6  # relative size of a moment of inertia below which a body counts as a point mass
ROUNDING = 4e-15  # rounding of a few products of rotations


def deformation(joint: PlacedJoint) -> ModalIntegrals | None:
    """Return the inertia of the deformation of the body behind a joint, or None."""
    return getattr(joint.kind, "integrals", None)


@cached_on_model
def in_own_frames(model: Model) -> tuple[BodyDescription, ...]:
    """Return the bodies in their own frames, up to rotations that align joint axes with coordinate axes."""
    descriptions: list[BodyDescription] = []
    for joint, (inertia, rotor, _) in zip(model.joints, lumped(model)):
        frame = own_frame(joint, Pose.identity() if joint.parent == GROUND else descriptions[joint.parent].C)
        descriptions.append(
            BodyDescription(
                frame, frame.C.inverse().congruence(inertia), None, rotor, deformation=deformation(joint)
            )
        )
    return tuple(descriptions)


@cached_on_model
def in_body_frames(model: Model) -> tuple[BodyDescription, ...]:
    """Return the bodies in exactly their own frames, as in the documented stacked vectors."""
    identity = Pose.identity()
    return tuple(
        BodyDescription(
            JointFrame(joint.kind, joint.place, 0.0, identity), body.inertia, deformation=deformation(joint)
        )
        for joint, body in zip(model.joints, model.bodies)
    )


@cached_on_model
def without_lumping(model: Model) -> tuple[BodyDescription, ...]:
    """Return the bodies in their own frames with their own inertias, without lumped rotors."""
    descriptions: list[BodyDescription] = []
    for joint, body in zip(model.joints, model.bodies):
        frame = own_frame(joint, Pose.identity() if joint.parent == GROUND else descriptions[joint.parent].C)
        descriptions.append(
            BodyDescription(frame, frame.C.inverse().congruence(body.inertia), deformation=deformation(joint))
        )
    return tuple(descriptions)


class NodeFrame(NamedTuple):
    """Frames of a joint; `side` is the pose of the frame before the joint in the joint's own."""

    frame: JointFrame
    side: Pose
    point_like: bool


@cached_on_model
def node_frames(model: Model) -> tuple[NodeFrame, ...]:
    """Return frames of all bodies that make programs short."""
    return _Frames(model).node_frames()


@cached_on_model
def in_node_frames(model: Model) -> tuple[BodyDescription, ...]:
    """Return the bodies in frames that make programs short, chosen by the nominal numbers."""
    frames = node_frames(model.nominal)
    descriptions = []
    for k, (joint, (frame, side, point_like), (inertia, rotor, added)) in enumerate(
        zip(model.joints, frames, lumped(model))
    ):
        if joint.place is not model.nominal.joints[k].place:
            below = Pose.identity() if joint.parent == GROUND else frames[joint.parent].frame.C
            frame = frame._replace(place=below.inverse().then(joint.place).then(side))
        described = _described(model, k, frame.C, inertia, added)
        descriptions.append(BodyDescription(frame, described, None, rotor, point_like, deformation(joint)))
    return tuple(descriptions)


def _described(model: Model, k: int, C: Pose, inertia: Inertia, added: Inertia | None) -> Inertia:
    """Return the inertia of body k with its rotors in a frame at C, from inputs where it is one."""
    if k not in model.inertia_inputs:
        return C.inverse().congruence(inertia).frozen_constant()
    properties = model.inertia_inputs[k]
    inverse = C.inverse()
    moved = Inertia.rigid(
        properties.mass, inverse.point(properties.center), inverse.rotated(properties.moment)
    )
    return moved if added is None else moved + inverse.congruence(added)


class _Frames:
    """Frames of all bodies: orientations from base to tips, then positions along their axes.

    The frame of body k is at `R[k]` and `R[k] s[k]` in the body's own; the pose of its joint's frame in the
    frame of the body below is `before[k]` and `_length(k)`.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.joints = model.joints
        self._lumped = lumped(model)
        straight = [joint.kind.axis_aligned() for joint in model.joints]
        self.kinds = [kind for kind, _ in straight]
        self.R = [C.R for _, C in straight]
        self.before: list[np.ndarray] = []
        self.sides: list[np.ndarray] = []  # how the joint's frame is turned in the joint's own
        self.phase = [0.0] * len(straight)
        self.s = [np.zeros(3) for _ in straight]
        # what else is fixed to each body, and must be described there: children without rotors, and ends of
        # loops
        self.children: list[list[int]] = [[] for _ in straight]
        for k, joint in enumerate(model.joints):
            if joint.parent != GROUND and not self._lumped[k].rotor:
                self.children[joint.parent].append(k)
        self.ends: list[list[Pose]] = [[] for _ in straight]
        for loop in model.loops:
            for end in loop.ends:
                if end.body != GROUND:
                    self.ends[end.body].append(end.place)
        self.point_like = [self._is_point_like(k) for k in range(len(straight))]
        fixed = [
            point_like or body.rotor is not None for point_like, body in zip(self.point_like, self._lumped)
        ]
        self.symmetry = [
            Symmetry() if fixed_joint else kind.symmetry() for fixed_joint, kind in zip(fixed, self.kinds)
        ]
        for k in range(len(straight)):
            self._turn(k)
        for _ in range(2):
            for k in range(len(straight)):
                for axis in self.symmetry[k].shifts:
                    self._shift(k, axis)

    def node_frames(self) -> tuple[NodeFrame, ...]:
        frames = []
        for k in range(len(self.joints)):
            place = Pose(self.before[k], self._length(k, ground=True)).frozen()
            frame = JointFrame(self.kinds[k], place, self.phase[k], self._frame(k).frozen())
            side = Pose(self.sides[k], product(self.sides[k], self.s[k])).frozen()
            frames.append(NodeFrame(frame, side, self.point_like[k]))
        return tuple(frames)

    def _frame(self, k: int) -> Pose:
        return Pose(self.R[k], product(self.R[k], self.s[k]))

    def _inertia(self, k: int) -> Inertia:
        """Return the inertia of body k in its frame."""
        return self._frame(k).inverse().congruence(self._lumped[k].inertia)

    def _is_point_like(self, k: int) -> bool:
        """Return whether a body without its rotors is nearly a point mass or rod."""
        body = self.model.bodies[k]
        lengths = [self.joints[c].place.p for c in self.children[k]]
        if any(
            self.joints[c].kind.elastic for c in self.children[k]
        ):  # the hinge of a flexible body, which has the mass
            return False
        size = np.trace(body.inertia.A) + body.mass * max((product(p, p) for p in lengths), default=0.0)
        return bool(np.linalg.eigvalsh(body.moment)[0] <= POINT_LIKE * size)

    def _turn(self, k: int) -> None:
        """Turn the frame of body k about its joint axis: first with its joint frame, then alone."""
        joint, (_, axis, phase) = self.joints[k], self.symmetry[k]
        below = np.eye(3) if joint.parent == GROUND else self.R[joint.parent]
        before = product(product(below.T, joint.place.R), self.R[k])
        angle = 0.0 if axis is None else _aligning_angle(before, axis)
        self.before.append(snapped(product(before, _about(axis, angle)), ROUNDING))
        self.R[k] = product(self.R[k], _about(axis, angle))
        self.sides.append(self.R[k])
        if axis is not None and phase:
            angle = min(self._angles(k, axis), key=lambda angle: self._cost_of_turning(k, axis, angle))
            self.R[k] = product(self.R[k], _about(axis, angle))
            self.phase[k] = phase * angle

    def _angles(self, k: int, axis: int) -> Iterator[float]:
        """Return candidate rotations of body k's frame that align attachments with coordinate axes."""
        yield 0.0
        for c in self.children[k]:
            place = self.joints[c].place
            turn = self.symmetry[c].turn
            yield from _zeroing(product(self.R[k].T, place.p), axis)
            if turn is not None:
                yield from _zeroing(product(product(self.R[k].T, place.R), self.R[c][:, turn]), axis)
        for place in self.ends[k]:
            yield from _zeroing(product(self.R[k].T, place.p), axis)
        inertia = self._inertia(k)  # before any frame is moved
        yield from _zeroing(inertia.h, axis)
        a = (axis + 1) % 3
        b = (axis + 2) % 3
        yield _acute(0.5 * atan2(2.0 * inertia.A[a, b], inertia.A[a, a] - inertia.A[b, b]))

    def _cost_of_turning(self, k: int, axis: int, angle: float) -> float:
        R = product(self.R[k], _about(axis, angle))
        cost = PHASE_COST if angle else 0.0
        cost += INERTIA_NUMBER_COST * _count_numbers(
            Pose(R, np.zeros(3)).inverse().congruence(self._lumped[k].inertia)
        )
        for c in self.children[k]:
            place = self.joints[c].place
            turn = self.symmetry[c].turn
            before = product(product(R.T, place.R), self.R[c])
            if turn is not None:
                before = product(before, _about(turn, _aligning_angle(before, turn)))
            cost += ROTATION_ENTRY_COST * _count_odd_entries(before)
        for place in (*(self.joints[c].place for c in self.children[k]), *self.ends[k]):
            cost += LENGTH_COST * np.count_nonzero(np.delete(_with_exact_zeros(product(R.T, place.p)), axis))
        return cost

    def _length(self, k: int, *, ground: bool = False) -> np.ndarray:
        """Return the position of body k's joint frame in the frame of the body below; zero on the ground."""
        joint = self.joints[k]
        if joint.parent == GROUND:
            return joint.place.p + product(self.before[k], self.s[k]) if ground else np.zeros(3)
        position = product(self.R[joint.parent].T, joint.place.p)
        return _with_exact_zeros(
            position + product(self.before[k], self.s[k]) - self.s[joint.parent],
            np.abs(position).max(initial=0.0),
        )

    def _shift(self, k: int, axis: int) -> None:
        """Move the frame of body k with its joint frame along an axis to where lengths vanish."""

        def at(x: float) -> np.ndarray:
            return np.where(np.arange(3) == axis, x, self.s[k])

        now = self.s[k][axis]
        along = self.before[k][:, axis]
        length = self._length(k)
        largest = int(np.argmax(np.abs(along)))
        places = [0.0, now]
        if abs(along[largest]) == 1.0:
            places.append(now - length[largest] * along[largest])
        others = [self._length(c) for c in self.children[k]] + self._ends(k)
        places += [now + p[axis] for p in others]
        fixed = [self.joints[k].place, *(self.joints[c].place for c in self.children[k]), *self.ends[k]]
        near = max(np.abs(place.p).max() for place in fixed)
        costs = []
        for x in places:
            self.s[k] = at(x)
            costs.append(self._cost_of_place(k) if abs(x) <= MAX_SHIFT * near else np.inf)
        self.s[k] = at(places[int(np.argmin(costs))])

    def _ends(self, k: int) -> list[np.ndarray]:
        """Return the positions of loop ends on body k in its frame."""
        return [
            _with_exact_zeros(product(self.R[k].T, place.p) - self.s[k], np.abs(place.p).max())
            for place in self.ends[k]
        ]

    def _cost_of_place(self, k: int) -> float:
        """Return the cost of the position of body k's frame, infinite if its inertia would lose digits."""
        moved = self._inertia(k)
        if np.trace(moved.A) > MAX_INERTIA_GROWTH * np.trace(self._lumped[k].inertia.A):
            return float("inf")
        lengths = [self._length(k), *(self._length(c) for c in self.children[k]), *self._ends(k)]
        return INERTIA_NUMBER_COST * _count_numbers(moved) + LENGTH_COST * sum(
            np.count_nonzero(p) for p in lengths
        )


def _about(axis: int | None, angle: float) -> np.ndarray:
    """Return a rotation about a coordinate axis, (3, 3)."""
    return (
        np.eye(3)
        if axis is None or not angle
        else snapped(Pose.rotation_about(axis, angle).R.astype(float), ROUNDING)
    )


def _count_odd_entries(R: np.ndarray) -> int:
    """Return the number of entries of a rotation that are neither zero nor ±one."""
    return int(np.count_nonzero(~np.isin(np.abs(snapped(R, ROUNDING)), (0.0, 1.0))))


def _aligning_angle(R: np.ndarray, axis: int) -> float:
    """Return the angle about the child's `axis` that minimizes the odd entries of a constant rotation."""
    if not _count_odd_entries(R):
        return 0.0
    a = (axis + 1) % 3
    b = (axis + 2) % 3
    angles = [0.0, *map(atan2, -R[:, a], R[:, b]), *map(atan2, R[:, b], R[:, a])]
    return min(map(_acute, angles), key=lambda angle: _count_odd_entries(product(R, _about(axis, angle))))


def _zeroing(x: np.ndarray, axis: int) -> Iterator[float]:
    """Return the angle about an axis that zeroes a component of x, or None if only one is across."""
    a = x[(axis + 1) % 3]
    b = x[(axis + 2) % 3]
    if a and b:
        yield _acute(atan2(b, a))


def _acute(angle: float) -> float:
    """Return the smallest angle that differs by right angles."""
    return float((angle + np.pi / 4) % (np.pi / 2) - np.pi / 4)


def _with_exact_zeros(x: np.ndarray, scale: float | None = None) -> np.ndarray:
    """Return x with exact zeros where rounding missed them, relative to a size."""
    return np.where(np.abs(x) <= ROUNDING * (np.abs(x).max(initial=0.0) if scale is None else scale), 0.0, x)


def _count_numbers(inertia: Inertia) -> int:
    """Return the number of non-zero numbers of a rigid inertia."""
    constant = inertia.constant()
    return int(np.count_nonzero(np.triu(constant.A)) + np.count_nonzero(_with_exact_zeros(constant.h)))
