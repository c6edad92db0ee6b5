"""The contact problem where many contacts are on few bodies: w = T V + g, with V = C Tᵀ λ the motion of these
bodies.

Eight points on a foot have rows of rank six: what they do to each other goes through the foot's own motion.
So a Newton step solves for V (the matrix inversion lemma) instead of using all of G = T C Tᵀ. Points between
two bodies depend on the motion of one relative to the other, which has six components instead of twelve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.symbol import Symbol
from linkwork.spatial import cross, is_zero, mirrored
from linkwork.spatial.factor import nonzero_entries, sparse_product


class RelativeMotion(NamedTuple):
    """The motion of one body less that of another, at the origin of the other and in axes of the world.

    `first` and `other` are the places of both motions: angular velocities and those of origins. `arm`, (3,),
    leads from the origin of the first body to that of the other [m]. The rows of contacts between them act on
    the relative motion with -T[:, other].
    """

    first: list[int]
    other: list[int]
    arm: np.ndarray

    def of(self, V: np.ndarray) -> np.ndarray:
        """Return this motion, (6,), of the motions of all bodies."""
        turn = V[self.first[:3]]
        moved = V[self.first[3:]] + cross(turn, self.arm)
        return np.array([*(turn - V[self.other[:3]]), *(moved - V[self.other[3:]])], dtype=object)

    def add_force(self, total: np.ndarray, force: np.ndarray) -> None:
        """Add the forces on both bodies by one on this motion, (6,), to those on all."""
        total[self.other] = total[self.other] - force
        total[self.first] = total[self.first] + self._at_first(force)

    def compliance(self, C: np.ndarray) -> np.ndarray:
        """Return what impulses on this motion do to it, (6, 6); C is that of all motions of bodies."""
        columns = np.array([self.of(column) for column in C.T], dtype=object).T  # by impulses on all motions
        return mirrored(np.array([self.of(row) for row in columns], dtype=object))

    def add_matrix(self, total: np.ndarray, K: np.ndarray) -> None:
        """Add the forces on both bodies that their motions cause to those of all; K, (6, 6), is that matrix
        for this motion.
        """
        by_first = np.array([self._at_first(row) for row in K], dtype=object)  # K X
        for rows, columns, part in (
            (self.other, self.other, K),
            (self.other, self.first, -by_first),
            (self.first, self.other, -self._columns_at_first(K)),
            (self.first, self.first, self._columns_at_first(by_first)),
        ):
            at = np.ix_(rows, columns)
            total[at] = total[at] + part

    def within(self, columns: Sequence[int]) -> RelativeMotion:
        """Return this among some motions only."""
        first, other = ([list(columns).index(i) for i in part] for part in (self.first, self.other))
        return RelativeMotion(first, other, self.arm)

    def _at_first(self, force: np.ndarray) -> np.ndarray:
        """Return a force at the origin of the other body as one at that of the first: Xᵀ f, (6,)."""
        return np.array([*(force[:3] + cross(self.arm, force[3:])), *force[3:]], dtype=object)

    def _columns_at_first(self, K: np.ndarray) -> np.ndarray:
        return np.array([self._at_first(column) for column in K.T], dtype=object).T


def rows_of_motion(
    T: np.ndarray,
    groups: Sequence[list[int]],
    relative: Sequence[RelativeMotion | None],
    V: np.ndarray,
) -> np.ndarray:
    """Return T V, the velocities of rows, (m,); contacts between bodies follow their relative motion."""
    result: np.ndarray = sparse_product(without_relative(T, groups, relative), V)
    for group, motion in zip(groups, relative):
        if motion is not None:
            result[group] = -T[np.ix_(group, motion.other)] @ motion.of(V)
    return result


def forces_of_rows(
    T: np.ndarray,
    groups: Sequence[list[int]],
    relative: Sequence[RelativeMotion | None],
    lam: np.ndarray,
) -> np.ndarray:
    """Return Tᵀ λ, the forces on bodies and joints, (D,); those between bodies are opposite and equal."""
    result: np.ndarray = sparse_product(without_relative(T, groups, relative).T, lam)
    for pair, contacts in by_pair(relative):
        parts = [-T[np.ix_(groups[k], pair.other)].T @ lam[groups[k]] for k in contacts]
        pair.add_force(result, sum(parts[1:], parts[0]))
    return result


def without_relative(
    T: np.ndarray, groups: Sequence[list[int]], relative: Sequence[RelativeMotion | None]
) -> np.ndarray:
    """Return T, (m, D), with zeros in the rows of contacts between bodies."""
    between = [i for group, motion in zip(groups, relative) if motion is not None for i in group]
    if not between:
        return T
    result = np.array(T, dtype=object)
    result[between] = 0.0
    return result


def by_pair(relative: Sequence[RelativeMotion | None]) -> list[tuple[RelativeMotion, list[int]]]:
    """Return the relative motions of contacts, each with the contacts that act on it, by index."""
    contacts: dict[tuple[int, int], list[int]] = {}
    motions: dict[tuple[int, int], RelativeMotion] = {}
    for k, motion in enumerate(relative):
        if motion is not None:
            key = motion.first[0], motion.other[0]
            motions.setdefault(key, motion)
            contacts.setdefault(key, []).append(k)
    return [(motions[key], members) for key, members in contacts.items()]


class Carried(NamedTuple):
    """T, (m, D), leads from the motions of bodies and joints to rows, and C, (D, D), is what impulses on
    these do to them.

    `soft`, (m,), is the compliance of rows; `groups` are the rows of each contact, and `relative`, if it is
    not empty, the relative motion that each of them acts on, or None. All other rows are in joints. Where
    bodies are many, `B` leads to their motions from the velocities of all joints, and C is what impulses on
    these do to them: then w = T B V + g.
    """

    T: np.ndarray
    C: np.ndarray
    soft: np.ndarray
    groups: list[list[int]]
    B: np.ndarray | None = None
    relative: Sequence[RelativeMotion | None] = ()

    def every_group(self) -> list[list[int]]:
        """Return the rows of each contact, then single rows in joints."""
        contacts = {i for group in self.groups for i in group}
        return [*self.groups, *([i] for i in range(len(self.T)) if i not in contacts)]

    def reaches(self) -> list[tuple[list[int], RelativeMotion | None]]:
        """Return the rows of each contact or joint, and the relative motion that they act on, if any."""
        groups = self.every_group()
        relative = [*self.relative, *([None] * (len(groups) - len(self.relative)))]
        return list(zip(groups, relative))

    def delassus_blocks(self) -> np.ndarray:
        """Return G where rows of one contact, or one joint, meet, (m, m); zero elsewhere."""
        m = len(self.T)
        G: Any = np.zeros((m, m), dtype=object)
        felt: dict[tuple[int, ...], np.ndarray] = {}
        for rows, relative in self.reaches():
            columns = self.columns(rows)
            T = self.T[np.ix_(rows, columns)]
            if relative is not None:
                T = -self.T[np.ix_(rows, relative.other)]
                columns = [*relative.first, *relative.other]
                if tuple(columns) not in felt:
                    felt[tuple(columns)] = relative.within(columns).compliance(self._felt(columns))
            elif tuple(columns) not in felt:
                felt[tuple(columns)] = self._felt(columns)
            G[np.ix_(rows, rows)] = mirrored(T @ felt[tuple(columns)] @ T.T) + np.diag(self.soft[rows])
        return G

    def _felt(self, columns: list[int]) -> np.ndarray:
        """Return the velocities of some motions of bodies caused by impulses on them."""
        if self.B is None:
            return self.C[np.ix_(columns, columns)]
        used, B = self.joints(columns)
        return mirrored(B @ self.C[np.ix_(used, used)] @ B.T)

    def joints(self, columns: Sequence[int]) -> tuple[list[int], np.ndarray]:
        """Return the joints' velocities that some motions of bodies depend on, and that part of B."""
        assert self.B is not None
        used = [j for j in range(self.B.shape[1]) if not all(is_zero(x) for x in self.B[list(columns), j])]
        return used, self.B[np.ix_(columns, used)]

    def columns(self, rows: Sequence[int]) -> list[int]:
        """Return the columns in which T is not zero for some rows."""
        return np.flatnonzero(nonzero_entries(self.T[list(rows)]).any(axis=0)).tolist()

    def motion(self, lam: np.ndarray) -> np.ndarray:
        """Return the motions of bodies by all impulses."""
        f = forces_of_rows(self.T, self.groups, self.relative, lam)
        if self.B is None:
            return sparse_product(self.C, f)
        return self.B @ (self.C @ (self.B.T @ f))

    def of_rows(self, V: np.ndarray) -> np.ndarray:
        """Return velocities of rows, (m,), by motions of bodies."""
        return rows_of_motion(self.T, self.groups, self.relative, V)

    def in_axes_of_contact(self) -> Carried:
        """Return the rows with the motions of bodies in the axes of their contacts, where several rows share
        these; the rows themselves where there are contacts between bodies.

        T is then made of ones and of the places of points, as on a plane.
        """
        if any(each is not None for each in self.relative):
            return self
        T = np.array(self.T, dtype=object)
        C = np.array(self.C, dtype=object)
        B = None if self.B is None else np.array(self.B, dtype=object)
        used: dict[tuple[int, ...], list[list[int]]] = {}
        for group in self.groups:
            used.setdefault(tuple(self.columns(group)), []).append(group)
        for columns, groups in used.items():
            apart = all(not set(columns) & set(others) for others in used if others != columns)
            if not (apart and len(columns) == 6 and all(len(group) >= 3 for group in groups)):
                continue
            turn = list(columns[:3])
            linear = list(columns[3:])
            A = self.T[np.ix_(groups[0][:3], linear)]
            if not all(_same(A, self.T[np.ix_(group[:3], linear)]) for group in groups):
                continue
            for group in groups:
                T[np.ix_(group, columns)] = _turned(self.T[np.ix_(group[:3], turn)], A, len(group))
            for part in (turn, linear):
                if B is not None:
                    B[part] = sparse_product(A, B[part])
                    continue
                C[part] = sparse_product(A, C[part])
                C[:, part] = sparse_product(C[:, part], A.T)
        return self._replace(T=T, C=mirrored(C), B=B)


def _same(A: np.ndarray, B: np.ndarray) -> bool:
    return all(_number(x) == _number(y) for x, y in zip(A.ravel(), B.ravel()))


def _number(x: Any) -> Any:
    return (id(x.builder), x.value) if isinstance(x, Symbol) else float(x)


def _turned(moments: np.ndarray, A: np.ndarray, size: int) -> np.ndarray:
    """Return rows of a contact, (size, 6), in its axes A; `moments` are those of its first three rows, rows
    of p x A.
    """
    P: Any = np.zeros((3, 3), dtype=object)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        P[i, j] = moments[i] @ A[j]
        P[j, i] = -P[i, j]
    result: Any = np.zeros((6, 6), dtype=object)
    result[:3, :3] = P
    result[:3, 3:] = np.eye(3)
    result[3:, :3] = np.eye(3)
    return result[:size]
