"""Builder of models: parts in any order, with errors raised where a part is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.loops.closure_messages import closure_notes
from linkwork.loops.cluster_search import clusters_of
from linkwork.loops.clusters import Ancestors
from linkwork.mechanism import Frame, LoopConstraint
from linkwork.mechanism.checks import numbers
from linkwork.mechanism.limits import Limits
from linkwork.model.attached_builder import AttachedBuilder
from linkwork.model.finish_loops import check_dependent_joints, constrain_all
from linkwork.model.joint_properties import check_component_names
from linkwork.model.loop_joints import LoopJoint, checked_tolerance, start_coordinates
from linkwork.model.loop_variants import with_used_equations
from linkwork.model.model import Model
from linkwork.model.tree_builder import TreeBuilder
from linkwork.model.tree_layout import TreeLayout
from linkwork.spatial import Pose
from linkwork.spatial.constants import set_frozen

GRAVITY = (0.0, 0.0, -9.81)  # [m/s²]


class ModelBuilder(TreeBuilder, AttachedBuilder):
    """Builder of frozen models from links, joints, frames, loops and attached data, added in any order.

    Links behind fixed joints are merged into the body that carries them, and stay as frames. Bodies are
    numbered depth first, in the order in which joints were added. All methods return the builder.

    Parameters
    ----------
    name : str
        Name of the model.
    gravity : sequence of float, shape (3,)
        Gravitational acceleration in the world frame [m/s²].
    """

    def __init__(self, name: str = "mechanism", *, gravity: Sequence[float] = GRAVITY) -> None:
        TreeBuilder.__init__(self)
        AttachedBuilder.__init__(self)
        self.name = name
        self.gravity = numbers("gravity", gravity, 3)

    def build(
        self,
        *,
        limits: Limits | None = None,
        start: Mapping[str, Any] | Sequence[float] | np.ndarray | str | None = None,
        tolerance: float | None = None,
        embed: bool = True,
    ) -> Model:
        """Return the frozen model of all parts added so far.

        Parameters
        ----------
        limits : Limits, optional
            Bounds on the size of the model and on the analysis of its loops, for untrusted files.
        start : mapping, array_like or str, optional
            Coordinates from which loops are closed: by joint, such as ``{"knee": 0.8}`` with the others
            neutral; all of them, (nq,); or the name of a keyframe. Neutral by default.
        tolerance : float, optional
            Accepted residual of redundant equations, relative to the length of the loop and in rad, for
            loops whose numbers have few digits. Default 1e-4.
        embed : bool
            If False, all loops are constrained, and loops that cannot be embedded raise no error.

        Returns
        -------
        Model

        Raises
        ------
        ModelError
            If links are not connected to the world, or a part refers to an unknown name.
        ClosureError
            If the loops cannot be closed.
        LimitError
            If the model or the analysis of its loops exceeds `limits`.

        Examples
        --------
        >>> import linkwork as lw
        >>> from linkwork.joints import Revolute
        >>> builder = lw.ModelBuilder("pendulum")
        >>> _ = builder.add_body("rod", mass=1.0, center=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
        >>> _ = builder.add_joint("hinge", Revolute((0, 1, 0)), parent="world", child="rod")
        >>> builder.build().nv
        1
        """
        tolerance = None if tolerance is None else checked_tolerance(tolerance)
        layout = TreeLayout(self._links, self._joints, self._children(), self._flexible_links())
        for name in self._links:
            if name not in layout.poses:
                raise ModelError(self._disconnected(name))
        at_origin: dict[str, bool] = {}  # links whose frame is that of their body
        for name, (link, place) in self._frames.items():
            if link not in layout.poses:
                raise ModelError(f"frame {name!r}: body: {self._no_link(link)}")
            link, place = layout.flexible.holder(link, place)
            body, offset = layout.poses[link]
            if link not in at_origin:
                at_origin[link] = offset.is_identity
            layout.frames.append(Frame(name, body, place if at_origin[link] else offset.then(place)))
        poses = layout.attachments()
        embedded, constrained_loops = self._loop_constraints(layout, poses, limits)
        attached = self._attached(layout.joints, poses)
        check_component_names(layout.joints)
        model = Model(
            self.name,
            layout.bodies,
            tuple(layout.joints),
            tuple(layout.frames),
            self.gravity,
            tuple(self.notes),
            embedded,
            constrained_loops,
            start=None if start is None else start_coordinates(layout.joints, start, attached["keyframes"]),
            tolerance=tolerance,
            weight_compensations=self._weight_compensations(layout.bodies, layout.poses),
            **attached,
        )
        if embedded and not embed:
            return constrain_all(model, limits)
        model = with_used_equations(model, limits) if constrained_loops else model
        if limits and embedded:
            set_frozen(model, "clusters", clusters_of(model, limits))
        check_dependent_joints(model)  # also raises if loops cannot be closed
        set_frozen(model, "notes", (*model.notes, *closure_notes(model, model.clusters)))
        return model

    def _loop_constraints(
        self, layout: TreeLayout, poses: Mapping[str, tuple[int, Pose]], limits: Limits | None
    ) -> tuple[tuple[LoopConstraint, ...], tuple[LoopConstraint, ...]]:
        """Return the embedded and the constrained loops and couplings on the bodies of a tree."""
        indices = {joint.name: k for k, joint in enumerate(layout.joints)}
        tree = Ancestors([joint.parent for joint in layout.joints])
        specs = [
            layout.flexible.of_loop(spec) if isinstance(spec, LoopJoint) else spec
            for spec in self._constraints.values()
        ]
        loops = [self._constraint(spec, poses, layout.joints, indices, tree, limits) for spec in specs]
        return (
            tuple(loop for loop in loops if loop.name not in self._constrained_names),
            tuple(loop for loop in loops if loop.name in self._constrained_names),
        )
