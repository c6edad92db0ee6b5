"""Rows of contacts as wrenches on the bodies that they act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.contact.carried import RelativeMotion, forces_of_rows, rows_of_motion
from linkwork.constraints import BodyKinematics, Rows
from linkwork.contact import Candidate
from linkwork.contact.rows import rows_at
from linkwork.mechanism import GROUND
from linkwork.spatial.constants import product

# rows of contacts, and rows for a motion of a body, from which on bodies carry contacts
MIN_CARRIED_ROWS = 13
ROWS_PER_MOTION = 1.5

Key = tuple[Any, int, int]  # a node, and its rows that are the motion of a body


class OnBodies(NamedTuple):
    """Motions that contacts act on: `moving` are the motions of bodies, then rows in joints; or the
    velocities of all joints.

    T leads from motions of bodies to all rows, B to them from the velocities of all joints, if these are
    `moving`. `groups` are the rows of each contact, and `relative` what each of them acts on, if some are
    between bodies (see `Carried`).
    """

    moving: list[Rows]
    T: np.ndarray
    groups: list[list[int]]
    B: np.ndarray | None = None
    relative: Sequence[RelativeMotion | None] = ()

    def of_rows(self, motion: np.ndarray) -> np.ndarray:
        """Return velocities of rows, (m,), by what is moving."""
        V = motion if self.B is None else self.B @ motion
        return rows_of_motion(self.T, self.groups, self.relative, V)

    def onto(self, impulses: np.ndarray) -> np.ndarray:
        """Return impulses on what is moving, from those of rows, (m,)."""
        result = forces_of_rows(self.T, self.groups, self.relative, impulses)
        return result if self.B is None else self.B.T @ result


def on_bodies(
    kinematics: BodyKinematics, rows: Sequence[Rows], candidates: Sequence[Candidate]
) -> OnBodies | None:
    """Return contacts on the bodies that carry them, where motions of these, or of all joints if that is
    less, are fewer than rows. `rows` are those of the candidates, then those in joints.
    """
    nodes = kinematics.nodes
    contacts = rows[: len(candidates)]
    keys = list(
        dict.fromkeys((node, block.start, block.stop) for each in contacts for node, block, _ in each.nodes)
    )
    count = sum(len(each.k) for each in contacts)
    size = sum(stop - start for _, start, stop in keys)
    if count < MIN_CARRIED_ROWS or count < ROWS_PER_MOTION * min(size, nodes.nv):
        return None
    if any(each.other != GROUND for each in candidates):
        result = _in_axes_of_world(kinematics, rows, candidates, keys)
    else:
        result = _on_bodies(rows, keys, [np.eye(stop - start) for _, start, stop in keys])
    if result.T.shape[1] <= nodes.nv:
        return result
    every = sorted(nodes.base_to_tips(), key=lambda k: k.dofs.start)
    joints = [
        Rows((), [(k, np.eye(n))], np.zeros(n, dtype=object))
        for k in every
        if (n := k.dofs.stop - k.dofs.start)
    ]
    return result._replace(moving=joints, B=ConstraintRows.of(nodes, result.moving).jacobian())


def _in_axes_of_world(
    kinematics: BodyKinematics, rows: Sequence[Rows], candidates: Sequence[Candidate], keys: Sequence[Key]
) -> OnBodies:
    """Return the contacts on bodies, whose motions are in axes of the world."""
    below = kinematics.nodes.below
    contacts = []
    turns: dict[Key, np.ndarray] = {}
    relative: list[RelativeMotion | None] = []
    first = {key: 6 * n for n, key in enumerate(keys)}
    arms: dict[tuple[int, int], np.ndarray] = {}
    for each, contact in zip(candidates, rows):
        touch = each.touch(kinematics)
        frames = [kinematics.pose(kinematics.nodes[body], below) for body in each.bodies]
        own_keys = [(node, block.start, block.stop) for node, block, _ in contact.nodes]
        turns.update((key, frame.R) for key, frame in zip(own_keys, frames))
        axes = touch.other_axes
        at = product(frames[0].R, touch.point)
        if each.other == GROUND:
            K = [rows_at(at, axes, each.dimension)]
            relative.append(None)
        else:
            R = frames[1].R
            if each.bodies not in arms:
                to_first = kinematics.pose(kinematics.nodes[each.body], kinematics.nodes[each.other])
                arms[each.body, each.other] = -product(R, to_first.p)
            arm = arms[each.body, each.other]
            axes = product(axes, R.T)
            at = product(R, touch.other_point)
            K = [rows_at(at + arm, axes, each.dimension), -rows_at(at, axes, each.dimension)]
            places = [list(range(first[key], first[key] + 6)) for key in own_keys]
            relative.append(RelativeMotion(places[0], places[1], arm))
        nodes = [(node, block, part) for (node, block, _), part in zip(contact.nodes, K)]
        contacts.append(contact._replace(nodes=nodes))
    turned = [np.kron(np.eye(2), np.ones((3, 3))) * np.tile(turns[key], (2, 2)) for key in keys]
    result = _on_bodies([*contacts, *rows[len(candidates) :]], keys, turned)
    return result._replace(relative=relative)


def _on_bodies(rows: Sequence[Rows], keys: Sequence[Key], motions: Sequence[np.ndarray]) -> OnBodies:
    """Return the contacts on bodies by the blocks of nodes that carry contacts.

    `motions`: their motions by the rows of nodes.
    """
    size = sum(stop - start for _, start, stop in keys)
    first = {key: sum(stop - start for _, start, stop in keys[:n]) for n, key in enumerate(keys)}
    moving = [
        Rows([(node, slice(a, b), K)], (), np.zeros(b - a, dtype=object))
        for (node, a, b), K in zip(keys, motions)
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
