"""Builder of the spanning tree: links, joints and frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.body import FlexibleBody
from linkwork.joints import Joint
from linkwork.mechanism import GROUND, WORLD, Body, PlacedJoint, WeightCompensation
from linkwork.mechanism.checks import check_name, checked_pose, frozen_joint, numbers
from linkwork.mechanism.names import join_names
from linkwork.model.flexible_links import FlexibleLinks
from linkwork.model.joint_properties import check_properties, property_values
from linkwork.model.loop_builder import LoopBuilder
from linkwork.model.loop_joints import LoopJoint
from linkwork.model.weights import of_scaled_links
from linkwork.spatial import Inertia, Pose, physical_problems
from linkwork.spatial.constants import reals


class TreeBuilder(LoopBuilder):
    """Base class of `ModelBuilder` for links, joints and frames."""

    def __init__(self) -> None:
        LoopBuilder.__init__(self)
        self.notes: list[str] = []  # remarks of file readers for the model's report
        self._frames: dict[str, tuple[str, Pose]] = {}  # link and pose, by frame
        self._flexible: dict[str, FlexibleBody] = {}
        self._gravity_scales: dict[str, float] = {}  # by link, of those that are not 1
        self._compensations: dict[str, WeightCompensation] = {}  # of whole bodies, by link

    def add_body(
        self,
        name: str | None = None,
        *,
        mass: float = 0.0,
        center: Sequence[float] = (0.0, 0.0, 0.0),
        inertia: Any = (0.0, 0.0, 0.0),
        check: bool | None = True,
        flexible: FlexibleBody | None = None,
        gravity_scale: float = 1.0,
    ) -> Self:
        """Add a rigid or flexible link.

        Parameters
        ----------
        name : str
            Name of the link; optional for a flexible link, which has one.
        mass : float
            Mass [kg].
        center : sequence of float, shape (3,)
            Centre of mass in the link frame [m].
        inertia : array_like, shape (3, 3) or (3,)
            Moment of inertia about the centre of mass in the axes of the link frame [kg m²], or its diagonal.
        check : bool or None
            If True (default), physically inconsistent inertias raise; if False, they are notes in the report
            of the model. None skips the check.
        flexible : FlexibleBody, optional
            A flexible body of `linkwork.flexible`, which has its own mass. Joints, loops and frames on it
            move with its modes; the modal coordinates belong to a joint named "<name>.modes".
        gravity_scale : float
            Factor of its weight: 0 where gravity does not act or is compensated. Rigid links only.

        Returns
        -------
        ModelBuilder

        Raises
        ------
        ModelError
            If the name is taken, or the inertia is invalid.
        """
        if flexible is not None:
            if gravity_scale != 1.0:
                raise ModelError(f"body {name!r}: gravity_scale: expected 1 for a flexible body")
            return self._add_flexible(name, flexible, (mass, *center, *np.ravel(inertia)))
        check_name("body", name)
        assert name is not None
        self._check_free(name)
        label = f"body {name!r}"
        (mass_,) = numbers(f"{label}: mass", [mass], 1)
        center_ = np.array(numbers(f"{label}: center", center, 3))
        try:
            moment = reals(inertia)
        except (TypeError, ValueError):
            raise ModelError(f"{label}: inertia: expected numbers, (3,) or (3, 3), got {inertia!r}") from None
        moment = np.diag(moment) if moment.shape == (3,) else moment
        if moment.shape != (3, 3):
            raise ModelError(f"{label}: inertia: expected shape (3,) or (3, 3), got {moment.shape}")
        problems = [] if check is None else physical_problems(mass_, moment)
        if problems and (check or not np.isfinite([mass_, *moment.ravel()]).all()):
            raise ModelError(f"{label}: {'; '.join(problems)}")
        self.notes += [f"{label}: {problem}" for problem in problems]
        (scale,) = numbers(f"{label}: gravity_scale", [gravity_scale], 1)
        if scale != 1.0:
            self._gravity_scales[name] = scale
        self._links[name] = Inertia.rigid(mass_, center_, 0.5 * (moment + moment.T))
        return self

    def compensate_weight(
        self,
        link: str,
        *,
        fraction: float = 1.0,
        mass: float | None = None,
        first_moment: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> Self:
        """Compensate a part of the weight of the body that contains a link.

        Parameters
        ----------
        link : str
            First link of the body.
        fraction : float
            Compensated part of the weight of the whole body.
        mass, first_moment : float and sequence of float, shape (3,), optional
            Instead of `fraction`: mass [kg] and first moment [kg m] in the frame of the body on which gravity
            does not act.

        Returns
        -------
        ModelBuilder

        See Also
        --------
        add_body : `gravity_scale` of single links.
        """
        label = f"weight of link {link!r}"
        part, *moment = numbers(label, [fraction if mass is None else mass, *first_moment], 4)
        self._compensations[link] = (
            WeightCompensation(GROUND, part)
            if mass is None
            else WeightCompensation(GROUND, mass=part, first_moment=tuple(moment))
        )
        return self

    def _add_flexible(self, name: str | None, flexible: FlexibleBody, rigid: Sequence[float]) -> Self:
        """Add a flexible link."""
        if not isinstance(flexible, FlexibleBody):
            raise ModelError(
                f"flexible: expected a body of linkwork.flexible, such as beam(...), got {flexible!r}"
            )
        name = flexible.name if name is None else name
        if any(rigid):
            raise ModelError(
                f"body {name!r}: a flexible body has its own mass: omit mass, center and inertia"
            )
        self.add_body(name, mass=flexible.mass, center=flexible.center.tolist(), inertia=flexible.inertia)
        self._flexible[name] = flexible
        return self

    def add_joint(
        self,
        name: str,
        kind: Joint,
        *,
        parent: str,
        child: str,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
        lower: Any = None,
        upper: Any = None,
        max_velocity: Any = None,
        max_effort: Any = None,
        damping: Any = 0.0,
        friction: Any = 0.0,
        stiffness: Any = 0.0,
        rest: Any = 0.0,
        armature: Any = 0.0,
        independent: bool | Sequence[bool | None] | None = None,
    ) -> Self:
        """Add a joint of the spanning tree between two links, which may be added later.

        Properties are one number, or one for each velocity (for each coordinate in `lower` and `upper`).

        Parameters
        ----------
        name : str
            Name of the joint.
        kind : Joint
            Joint type from `linkwork.joints`, such as ``Revolute((0, 0, 1))``.
        parent : str
            Parent link, or "world".
        child : str
            Child link.
        xyz, rpy : sequence of float, shape (3,)
            Position [m] and roll, pitch, yaw [rad] of the joint frame in the parent.
        place : Pose, optional
            Pose of the joint frame in the parent, instead of `xyz` and `rpy`.
        lower, upper : float or sequence of float, optional
            Limits of the coordinates [rad or m]. Default unlimited. One number in `upper` of a spherical
            joint limits its rotation about any axis.
        max_velocity, max_effort : float or sequence of float, optional
            Limits of velocity [rad/s or m/s] and joint force [N m or N]. Default unlimited.
        damping : float or sequence of float
            Viscous damping [N m s/rad or N s/m].
        friction : float or sequence of float
            Dry friction [N m or N]; acts in time steps only.
        stiffness, rest : float or sequence of float
            Spring stiffness [N m/rad or N/m] and rest position [rad or m].
        armature : float or sequence of float
            Reflected rotor inertia [kg m² or kg].
        independent : bool or sequence of bool, optional
            Whether its velocities are independent in loops; None (default) lets the analysis choose.

        Returns
        -------
        ModelBuilder

        Raises
        ------
        ModelError
            If the name is taken or an argument is invalid.
        """
        label = f"joint {name!r}"
        self._check_joint(name, kind, parent, child)
        kind = frozen_joint(label, kind.frozen)
        choice = _independent_choice(label, kind.nv, independent)
        place = checked_pose(label, xyz, rpy, place)
        nq = kind.nq
        nv = kind.nv

        def values(
            argument: str, value: Any, n: int, *, default: float = 0.0, low: float = -np.inf
        ) -> tuple[float, ...]:
            return property_values(f"{label}: {argument}", value, n, default, low)

        upper, max_angle = (None, upper) if kind.has_angle and np.ndim(upper) == 0 else (upper, None)
        max_angle = values("upper", max_angle, 1, default=np.inf, low=0.0)[0]
        joint = PlacedJoint(
            name,
            kind,
            GROUND,
            GROUND,
            place,
            lower=values("lower", lower, nq, default=-np.inf),
            upper=values("upper", upper, nq, default=np.inf),
            max_velocity=values("max_velocity", max_velocity, nv, default=np.inf, low=0.0),
            max_effort=values("max_effort", max_effort, nv, default=np.inf, low=0.0),
            damping=values("damping", damping, nv, low=0.0),
            friction=values("friction", friction, nv, low=0.0),
            stiffness=values("stiffness", stiffness, nv, low=0.0),
            rest=values("rest", rest, nv),
            armature=values("armature", armature, nv, low=0.0),
            max_angle=max_angle,
            independent=choice,
        )
        check_properties(label, joint)
        self._joints[name] = (joint, parent, child)
        return self

    def _check_joint(self, name: str, kind: Joint, parent: str, child: str) -> None:
        """Raise ModelError if a joint of this name, type and links cannot be added."""
        check_name("joint", name)
        label = f"joint {name!r}"
        if name in self._joints:
            raise ModelError(f"joint {name!r}: the name is already taken")
        if not isinstance(kind, Joint):
            raise ModelError(
                f"{label}: kind: expected one of linkwork.joints, such as Revolute((0, 0, 1)), got {kind!r}"
            )
        if not kind.tree:
            raise ModelError(f"{label}: {type(kind).__name__} is a loop joint only: use add_loop")
        if child == WORLD:
            raise ModelError(f"{label}: the world cannot be the child of a joint")
        if child == parent:
            raise ModelError(f"{label}: expected different links, got {child!r} as parent and child")

    def add_frame(
        self,
        name: str,
        *,
        body: str = WORLD,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
    ) -> Self:
        """Add a named frame on a link or in the world.

        Parameters
        ----------
        name : str
            Name of the frame.
        body : str
            Link, or "world".
        xyz, rpy : sequence of float, shape (3,)
            Position [m] and roll, pitch, yaw [rad] in the link frame.
        place : Pose, optional
            Pose in the link frame, instead of `xyz` and `rpy`.

        Returns
        -------
        ModelBuilder
        """
        check_name("frame", name)
        self._check_free(name)
        label = f"frame {name!r}"
        self._frames[name] = (body, checked_pose(label, xyz, rpy, place))
        return self

    def _flexible_links(self) -> FlexibleLinks:
        """Return the flexible links that have modes, with all that is attached to them."""
        flexible_links = FlexibleLinks(self._flexible)
        for name, (joint, parent, _) in self._joints.items():
            flexible_links.attach(f"joint {name!r}", parent, joint.place)
        for name, (link_name, place) in self._frames.items():
            flexible_links.attach(f"frame {name!r}", link_name, place)
        for spec in self._constraints.values():
            if isinstance(spec, LoopJoint):
                flexible_links.attach(f"loop {spec.name!r}", spec.predecessor, spec.place or Pose.identity())
                flexible_links.attach(
                    f"loop {spec.name!r}", spec.successor, spec.successor_place or Pose.identity()
                )
        flexible_links.links = {name: body for name, body in self._flexible.items() if body.modes}
        taken_names = {*self._links, *self._frames, *self._joints}
        for link in flexible_links.links:
            for name in (
                f"{link}.hinge",
                f"{link}.modes",
                *(node for node, _, _ in flexible_links.nodes(link)),
            ):
                if name in taken_names:
                    raise ModelError(
                        f"{name!r}: the name is reserved for a part of the flexible body {link!r}"
                    )
        return flexible_links

    def _weight_compensations(
        self, bodies: Sequence[Body], poses: Mapping[str, tuple[int, Pose]]
    ) -> tuple[WeightCompensation, ...]:
        """Return the compensated weights of bodies, in order."""
        compensations = of_scaled_links(bodies, poses, self._links, self._gravity_scales)
        for link, compensation in self._compensations.items():
            if link not in poses or poses[link][0] == GROUND:
                raise ModelError(f"weight of link {link!r}: {self._no_link(link)}")
            body = poses[link][0]
            if any(each.body == body for each in compensations):
                raise ModelError(
                    f"weight of link {link!r}: expected one compensation for body {bodies[body].name!r}, got "
                    "another by compensate_weight or gravity_scale"
                )
            compensations.append(replace(compensation, body=body))
        return tuple(sorted(compensations, key=lambda each: each.body))

    def _children(self) -> dict[str, list[str]]:
        """Return the child joints of each link."""
        children: dict[str, list[str]] = {WORLD: [], **{name: [] for name in self._links}}
        parent_joints: dict[str, str] = {}
        for name, (_, parent, child) in self._joints.items():
            for role, link in (("parent", parent), ("child", child)):
                if link not in children:
                    raise ModelError(f"joint {name!r}: {role}: {self._no_link(link)}")
            if child in parent_joints:
                raise ModelError(
                    f"link {child!r}: expected one parent joint, got {parent_joints[child]!r} and {name!r}: "
                    "use add_loop for the joint that closes the loop"
                )
            parent_joints[child] = name
            children[parent].append(name)
        return children

    def _disconnected(self, link: str) -> str:
        """Return an error message on a link that is not connected to the world."""
        by_child = {child: (name, parent) for name, (_, parent, child) in self._joints.items()}
        path = {link: None}  # in order
        while link in by_child:
            link = by_child[link][1]
            if link in path:
                names = list(path)
                cycle = join_names([repr(name) for name in names[names.index(link) :]])
                return f"links {cycle} form a cycle of joints that is not connected to the world"
            path[link] = None
        return (
            f"link {link!r} is not connected to the world: add a joint with child={link!r} and "
            "parent='world' or another link"
        )

    def _check_free(self, name: str) -> None:
        """Raise ModelError if a link or frame has this name."""
        if name in self._links or name in self._frames or name == WORLD:
            raise ModelError(f"body or frame {name!r}: the name is already taken")


def _independent_choice(label: str, nv: int, independent: Any) -> Any:
    """Return `independent` of a joint as one Boolean or None, or as a tuple of them."""
    is_sequence = isinstance(independent, (tuple, list)) and len(independent) == nv
    flags: Any = independent if is_sequence else (independent,)
    if not all(x in (True, False, None) for x in flags):
        alternative = f", or {nv} of True and False" if nv > 1 else ""
        raise ModelError(
            f"{label}: independent: expected True, False or None{alternative}, got {independent!r}"
        )
    return tuple(x if x is None else bool(x) for x in flags) if is_sequence else independent
