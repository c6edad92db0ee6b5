"""Flexible links of a builder, and the bodies that they become in a model.

A flexible link is two bodies: a massless one behind its hinge (none if it is fixed to another link), and one
with the mass behind its deformation. Every place on it to which something is attached is a further massless
body, which the modes move.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.body import FlexibleBody
from linkwork.joints.deformation import ModeShape
from linkwork.mechanism import PlacedJoint
from linkwork.model.loop_joints import LoopJoint
from linkwork.spatial import Inertia, Pose

SAME_PLACE_TOL = 1e-9  # distance, relative to its coordinates, up to which two places are one


def modal_joint(
    link: str, flexible_body: FlexibleBody, parent: int, child: int, place: Pose, q: int, v: int
) -> PlacedJoint:
    """Return the deformation of a flexible link as a joint whose coordinates begin at q and v."""
    m = flexible_body.modes
    free = (np.inf,) * m
    none = (0.0,) * m
    springs: dict[str, Any] = {
        name: tuple(np.diag(getattr(flexible_body, name)).tolist()) for name in ("stiffness", "damping")
    }
    limits: dict[str, Any] = {
        "lower": (-np.inf,) * m,
        "upper": free,
        "max_velocity": free,
        "max_effort": free,
    }
    options: dict[str, Any] = {"friction": none, "rest": none, "armature": none}
    return PlacedJoint(
        f"{link}.modes", flexible_body.deformation, parent, child, place, q, v, **springs, **limits, **options
    )


def massless() -> Inertia:
    """Return a zero inertia."""
    return Inertia.rigid(0.0, np.zeros(3), np.zeros((3, 3)))


class FlexibleLinks:
    """Flexible links by name, and the places on them to which something is attached."""

    def __init__(self, links: dict[str, FlexibleBody]) -> None:
        self.links = links
        self._places: dict[str, list[tuple[np.ndarray, ModeShape]]] = {name: [] for name in links}

    def attach(self, label: str, link: str, place: Pose) -> None:
        """Register an attachment at a place on a link, if the link is flexible."""
        if link in self.links and self._find(link, place.p) is None:
            at = np.array(place.p, dtype=float)
            try:
                shape = self.links[link].place(at)
            except ModelError as error:
                raise ModelError(f"{label}: {error}") from None
            body = self.links[link]
            if not isinstance(shape, ModeShape) or shape.shape.shape != (3, body.modes):
                raise ModelError(
                    f"{label}: place of flexible body {body.name!r}: expected a ModeShape of {body.modes} "
                    "modes"
                )
            if not shape.is_still:
                self._places[link].append((at, shape))

    def _find(self, link: str, p: np.ndarray) -> int | None:
        size = SAME_PLACE_TOL * max(1e-3, float(np.abs(p).max()))
        return next((n for n, (at, _) in enumerate(self._places[link]) if np.abs(at - p).max() <= size), None)

    def nodes(self, link: str) -> Iterable[tuple[str, np.ndarray, ModeShape]]:
        """Return name, position and mode shape of all bodies that the modes of a link move."""
        return [(f"{link}.node{n + 1}", at, shape) for n, (at, shape) in enumerate(self._places[link])]

    def holder(self, link: str, place: Pose) -> tuple[str, Pose]:
        """Return the link that carries a place, and the pose there; a node if the modes move the place."""
        n = self._find(link, place.p) if link in self.links else None
        if n is None:
            return link, place
        return f"{link}.node{n + 1}", Pose(place.R, np.zeros(3))

    def of_loop(self, spec: LoopJoint) -> LoopJoint:
        """Return a loop joint with its ends on the bodies that modes move."""
        changed: dict[str, Any] = {}
        for end, word in (("predecessor", "place"), ("successor", "successor_place")):
            link = getattr(spec, end)
            place = getattr(spec, word)
            if link in self.links:
                changed[end], changed[word] = self.holder(link, place)
        return replace(spec, **changed) if changed else spec
