"""Rows of contacts as wrenches on the bodies that they act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.constraints import Rows
from linkwork.sko.tree import ModelTree

# rows of contacts, and rows for a motion of a body, from which on bodies carry contacts
MIN_CARRIED_ROWS = 13


ROWS_PER_MOTION = 1.5


class OnBodies(NamedTuple):
    """Motions that contacts act on: `moving` are the motions of bodies, then rows in joints; or the
    velocities of all joints.

    T leads from motions of bodies to all rows, B to them from the velocities of all joints, if these are
    `moving`. `groups` are the rows of each contact.
    """

    moving: list[Rows]
    T: np.ndarray
    groups: list[list[int]]
    B: np.ndarray | None = None

    def of_rows(self, motion: np.ndarray) -> np.ndarray:
        """Return velocities of rows, (m,), by what is moving."""
        return self.T @ (motion if self.B is None else self.B @ motion)

    def onto(self, impulses: np.ndarray) -> np.ndarray:
        """Return impulses on what is moving, from those of rows, (m,)."""
        result = self.T.T @ impulses
        return result if self.B is None else self.B.T @ result


def on_bodies(nodes: ModelTree[Any], rows: Sequence[Rows]) -> OnBodies | None:
    """Return contacts on the bodies that carry them, where motions of these, or of all joints if that is
    less, are fewer than rows.
    """
    contacts = [each for each in rows if each.nodes]
    keys = list(
        dict.fromkeys((node, block.start, block.stop) for each in contacts for node, block, _ in each.nodes)
    )
    count = sum(len(each.k) for each in contacts)
    size = sum(stop - start for _, start, stop in keys)
    if count < MIN_CARRIED_ROWS or count < ROWS_PER_MOTION * min(size, nodes.nv):
        return None
    result = _on_bodies(rows, keys)
    if result.T.shape[1] <= nodes.nv:
        return result
    every = sorted(nodes.base_to_tips(), key=lambda k: k.dofs.start)
    joints = [
        Rows((), [(k, np.eye(n))], np.zeros(n, dtype=object))
        for k in every
        if (n := k.dofs.stop - k.dofs.start)
    ]
    return result._replace(moving=joints, B=ConstraintRows.of(nodes, result.moving).jacobian())


def _on_bodies(rows: Sequence[Rows], keys: Sequence[tuple[Any, int, int]]) -> OnBodies:
    """Return the contacts on bodies by the blocks of nodes that carry contacts."""
    size = sum(stop - start for _, start, stop in keys)
    first = {key: sum(stop - start for _, start, stop in keys[:n]) for n, key in enumerate(keys)}
    moving = [
        Rows([(node, slice(a, b), np.eye(b - a))], (), np.zeros(b - a, dtype=object)) for node, a, b in keys
    ]
    in_joints = [each for each in rows if not each.nodes]
    T: Any = np.zeros(
        (sum(len(each.k) for each in rows), size + sum(len(each.k) for each in in_joints)), dtype=object
    )
    groups = []
    at = 0
    joint = size
    for each in rows:
        row_indices = list(range(at, at + len(each.k)))
        at += len(row_indices)
        if not each.nodes:
            T[row_indices, range(joint, joint + len(row_indices))] = 1.0
            joint += len(row_indices)
            continue
        groups.append(row_indices)
        for node, block, K in each.nodes:
            start = first[node, block.start, block.stop]
            T[row_indices, start : start + K.shape[1]] = T[row_indices, start : start + K.shape[1]] + K
    return OnBodies([*moving, *in_joints], T, groups)
