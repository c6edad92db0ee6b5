"""The contact problem where many contacts are on few bodies: w = T V + g, with V = C Tᵀ λ the motion of these
bodies.

Eight points on a foot have rows of rank six: what they do to each other goes through the foot's own motion.
So a Newton step solves for V (the matrix inversion lemma) instead of using all of G = T C Tᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.symbol import Symbol
from linkwork.spatial import is_zero, mirrored


class Carried(NamedTuple):
    """T, (m, D), leads from the motions of bodies and joints to rows, and C, (D, D), is what impulses on
    these do to them.

    `soft`, (m,), is the compliance of rows; `groups` are the rows of each contact. All other rows are in
    joints. Where bodies are many, `B` leads to their motions from the velocities of all joints, and C is what
    impulses on these do to them: then w = T B V + g.
    """

    T: np.ndarray
    C: np.ndarray
    soft: np.ndarray
    groups: list[list[int]]
    B: np.ndarray | None = None

    def every_group(self) -> list[list[int]]:
        """Return the rows of each contact, then single rows in joints."""
        contacts = {i for group in self.groups for i in group}
        return [*self.groups, *([i] for i in range(len(self.T)) if i not in contacts)]

    def delassus_blocks(self) -> np.ndarray:
        """Return G where rows of one contact, or one joint, meet, (m, m); zero elsewhere."""
        m = len(self.T)
        G: Any = np.zeros((m, m), dtype=object)
        felt: dict[tuple[int, ...], np.ndarray] = {}
        for rows in self.every_group():
            columns = self.columns(rows)
            T = self.T[np.ix_(rows, columns)]
            if tuple(columns) not in felt:
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
        return [j for j in range(self.T.shape[1]) if not all(is_zero(x) for x in self.T[list(rows), j])]

    def motion(self, lam: np.ndarray) -> np.ndarray:
        """Return the motions of bodies by all impulses."""
        f = self.T.T @ lam
        return self.C @ f if self.B is None else self.B @ (self.C @ (self.B.T @ f))

    def in_axes_of_contact(self) -> Carried:
        """Return the rows with the motions of bodies in the axes of their contacts, where several rows share
        these.

        T is then made of ones and of the places of points, as on a plane.
        """
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
                    B[part] = A @ B[part]
                    continue
                C[part] = A @ C[part]
                C[:, part] = C[:, part] @ A.T
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
