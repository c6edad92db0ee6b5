"""Constraints on custom trees, through the pick-off operators of their frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.constraints.constraint import Constraint
from linkwork.constraints.frames import BetweenFrames
from linkwork.constraints.relative_motion import BodyKinematics
from linkwork.constraints.rows import Rows
from linkwork.errors import ModelError
from linkwork.mechanism import WORLD
from linkwork.sko.custom import CustomTreeState
from linkwork.sko.tree import ModelTree, TreeState


def rows_of(nodes: TreeState[Any], constraints: Sequence[Constraint]) -> list[Rows]:
    """Return the equations of each constraint in one state."""
    if isinstance(nodes, CustomTreeState):
        return [_through_pick_off(nodes, constraint) for constraint in constraints]
    assert isinstance(nodes, ModelTree)
    kinematics = BodyKinematics(nodes)
    return [constraint.equations(nodes.model, kinematics) for constraint in constraints]


def _through_pick_off(nodes: CustomTreeState, constraint: Constraint) -> Rows:
    """Return K = c B and k = -c bias of a frame constrained in its own axes against the world."""
    if not isinstance(constraint, BetweenFrames) or constraint.to != WORLD or not constraint.in_frame:
        raise ModelError(
            f"{constraint}: custom nodes can be constrained only relative to the world, in the axes of "
            "their frames"
        )
    if constraint.gains.stiffness or constraint.gains.damping or constraint.at is not None:
        raise ModelError(
            f"{constraint}: frames of custom nodes have no position, so gains and `at` are undefined"
        )
    c = np.concatenate(constraint.coefficients(None), axis=1)  # type: ignore[arg-type]
    pick = nodes.pick_off(nodes.frame(constraint.frame))
    if len(pick.bias) != c.shape[1]:
        raise ModelError(
            f"{constraint}: the frame {constraint.frame!r} has {len(pick.bias)} rows; constraints want "
            f"frames of {c.shape[1]}"
        )
    K = pick.force(np.array(c.T, dtype=object)).T
    return Rows([(pick.node, slice(0, pick.node.rows), K)], (), -(c @ pick.bias))
