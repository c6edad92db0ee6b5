"""Builder of loop joints, couplings and implicit constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints import Fixed, Joint
from linkwork.loops.clusters import Ancestors
from linkwork.mechanism import ImplicitConstraint, LoopConstraint, PlacedJoint
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import did_you_mean
from linkwork.model.loop_joints import (
    ConstraintSpec,
    CouplingSpec,
    ImplicitConstraintSpec,
    LoopJoint,
    LoopOptions,
    Place,
    moving_joint,
)
from linkwork.spatial import Inertia, Pose


class LoopBuilder:
    """Base class of `ModelBuilder` for loops, couplings and implicit constraints."""

    add_body: Callable[..., Any]
    add_joint: Callable[..., Any]

    def __init__(self) -> None:
        self._links: dict[str, Inertia] = {}
        # joint, parent link and child link by name; body indices are assigned by `build`
        self._joints: dict[str, tuple[PlacedJoint, str, str]] = {}
        self._constraints: dict[str, ConstraintSpec] = {}
        self._constrained_names: set[str] = set()  # names of constrained loops

    def add_loop(
        self,
        name: str,
        kind: Joint,
        *,
        predecessor: str,
        successor: str,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
        successor_xyz: Sequence[float] = (0.0, 0.0, 0.0),
        successor_rpy: Sequence[float] = (0.0, 0.0, 0.0),
        successor_place: Pose | None = None,
        embed: bool = True,
        in_tree: bool = False,
        stiffness: Any = None,
        rest: Any = None,
        damping: Any = None,
        armature: Any = None,
        friction: Any = None,
        lower: Any = None,
        upper: Any = None,
    ) -> Self:
        """Add a loop joint between two links that the spanning tree already connects.

        The frames in predecessor and successor coincide at neutral joint coordinates.

        Parameters
        ----------
        name : str
            Name of the loop joint.
        kind : Joint
            Joint type from `linkwork.joints`.
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
            Add the joint to the spanning tree as a dependent joint, which moves a massless link "<name>.held"
            that is fixed to the successor, so that the joint has coordinates. Implied by the properties
            below.
        stiffness, rest, damping, armature, friction, lower, upper : optional
            Properties of the joint, as in `ModelBuilder.add_joint`.

        Returns
        -------
        ModelBuilder

        Raises
        ------
        ModelError
            If the name is taken or an argument is invalid.
        """
        properties: dict[str, Any] = {
            "stiffness": stiffness,
            "rest": rest,
            "damping": damping,
            "armature": armature,
        }
        properties |= {"friction": friction, "lower": lower, "upper": upper, "in_tree": in_tree}
        placement: dict[str, Any] = {"xyz": xyz, "rpy": rpy, "place": place, "embed": embed}
        placement |= {
            "successor_xyz": successor_xyz,
            "successor_rpy": successor_rpy,
            "successor_place": successor_place,
        }
        return self._add(
            LoopJoint(name, kind, predecessor=predecessor, successor=successor, **placement, **properties)
        )

    def _add_in_tree(self, spec: LoopJoint) -> Self:
        """Add a loop joint to the tree, with a massless link that is fixed to the successor."""
        link = f"{spec.name}.held"
        attachment = {"parent": spec.predecessor, "child": link, "place": spec.place}
        self.add_joint(spec.name, spec.kind, **attachment, independent=False, **spec.of_joint)
        self.add_body(link)
        loop = LoopJoint(
            spec.name,
            Fixed(),
            predecessor=link,
            successor=spec.successor,
            place=Pose.identity(),
            embed=spec.embed,
        )
        return self._add(replace(loop, successor_place=spec.successor_place))

    def add_coupling(
        self,
        name: str,
        terms: Mapping[str, float] | None = None,
        *,
        offset: float = 0.0,
        predecessor: str | None = None,
        successor: str | None = None,
        ratio: float | None = None,
        embed: bool = True,
    ) -> Self:
        """Add a linear coupling of joints: gears, belts, mimic joints, differentials.

        Parameters
        ----------
        name : str
            Name of the coupling.
        terms : mapping of str to float, optional
            Coefficients by joint of one coordinate: Σ coefficient · coordinate = `offset`.
        offset : float
            Constant offset [rad or m].
        predecessor, successor, ratio : optional
            Instead of `terms`, two links: `ratio` times the sum of the joint coordinates from their common
            ancestor to `predecessor`, minus the sum to `successor`, equals `offset`.
        embed : bool
            Embed the coupling in the coordinates (default), or enforce it by constraint forces.

        Returns
        -------
        ModelBuilder
        """
        return self._add(CouplingSpec.checked(name, terms, offset, predecessor, successor, ratio, embed))

    def add_implicit_constraint(
        self, name: str, function: Callable[[Any], Any], *, joints: Sequence[str], embed: bool = True
    ) -> Self:
        """Add an implicit constraint φ(q) = 0 of joint coordinates.

        Parameters
        ----------
        name : str
            Name of the constraint.
        function : callable
            Takes the coordinates of `joints`, concatenated, and returns one or several numbers. It must be
            traceable: array operations, and no branches on values.
        joints : sequence of str
            Names of the joints.
        embed : bool
            Embed the constraint in the coordinates (default), or enforce it by constraint forces.

        Returns
        -------
        ModelBuilder
        """
        return self._add(ImplicitConstraintSpec.checked(name, function, joints, embed))

    def add(self, loops: LoopOptions) -> dict[str, Any]:
        """Add the loops of `loops`, and return the options of `build` in it."""
        for loop in loops.added:
            self._add(loop)
        return {"start": loops.start, "tolerance": loops.tolerance, "embed": loops.embed}

    def order_constraints(self, names: Sequence[str]) -> None:
        """Move the loops, couplings and implicit constraints in `names` to the front, in this order."""
        for name in names:
            if name not in self._constraints:
                hint = did_you_mean(name, self._constraints)
                raise ModelError(f"expected the name of a loop, coupling or constraint, got {name!r}{hint}")
        first = {name: self._constraints[name] for name in names}
        self._constraints = first | {
            name: spec for name, spec in self._constraints.items() if name not in first
        }

    def _add(self, spec: ConstraintSpec) -> Self:
        """Add the specification of a loop constraint."""
        if spec.name in self._constraints:
            raise ModelError(
                f"loop, coupling or implicit constraint {spec.name!r}: the name is already taken"
            )
        if isinstance(spec, LoopJoint) and (spec.in_tree or spec.of_joint):
            return self._add_in_tree(spec)
        self._constraints[spec.name] = spec
        if not spec.embed:
            self._constrained_names.add(spec.name)
        return self

    def _constraint(
        self,
        spec: ConstraintSpec,
        attachments: Mapping[str, Place],
        joints: list[PlacedJoint],
        joint_indices: dict[str, int],
        tree: Ancestors,
        limits: Limits | None,
    ) -> LoopConstraint:
        """Return the constraint that a specification describes, on the bodies and joints of a model."""
        name = spec.name

        def joint_of(joint: str) -> int:
            return moving_joint(name, joint, joint_indices, joint in self._joints)

        def place_of(end: str) -> Place:
            if end not in attachments:
                hint = did_you_mean(end, attachments)
                raise ModelError(f"{name!r}: expected the name of a link or frame, got {end!r}{hint}")
            return attachments[end]

        if isinstance(spec, ImplicitConstraintSpec):
            indices = tuple(joint_of(j) for j in spec.joints)
            _check_function(name, spec.function, np.concatenate([joints[k].kind.neutral() for k in indices]))
            return ImplicitConstraint(name, indices, spec.function)
        if isinstance(spec, LoopJoint):
            return spec.on(place_of)
        return spec.on(joint_of, place_of, joints, tree, limits)

    def _no_link(self, name: str) -> str:
        """Return the end of an error message on an unknown link."""
        return f"expected the name of a link, got {name!r}{did_you_mean(name, self._links)}"


def _check_function(name: str, function: Callable[[Any], Any], q: np.ndarray) -> None:
    """Raise ModelError unless the function of an implicit constraint returns one or several numbers."""
    try:
        value = np.asarray(function(q), dtype=float)
    except Exception as error:
        raise ModelError(
            f"implicit constraint {name!r}: the function raised {type(error).__name__} at {q.tolist()}: "
            f"{error}"
        ) from error
    if value.ndim > 1 or value.size == 0:
        raise ModelError(
            f"implicit constraint {name!r}: function: expected one number or a vector, got shape "
            f"{value.shape}"
        )
