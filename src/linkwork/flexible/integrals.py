"""Integrals over mass points that move with mode shapes. Sums are rounded once, so that no machine gives other bits."""

from __future__ import annotations

from math import fsum
from typing import Any, NamedTuple

import numpy as np

from linkwork.spatial.constants import product
from linkwork.spatial.modal import ModalIntegrals

NOTHING = 1e-13  # of a product's size: what rounding leaves where an integral vanishes


class Cloud(NamedTuple):
    """Mass points: `masses` [kg], (n,), at `points` [m], (n, 3), moved by `shapes`, (n, 3, m), and by `short`, (n, m, m, 3)."""

    masses: np.ndarray
    points: np.ndarray
    shapes: np.ndarray
    short: np.ndarray

    def rigid(self) -> tuple[float, np.ndarray, np.ndarray]:
        """Mass [kg], centre [m], (3,), and moment of inertia about it [kg m²], (3, 3)."""
        mass = fsum(self.masses.tolist())
        center = np.array([fsum((self.masses * x).tolist()) for x in self.points.T]) / mass
        r = self.points - center
        J = self._moments(r[:, :, None], r[:, :, None])[0, 0]
        return mass, center, np.eye(3) * (J[0, 0] + J[1, 1] + J[2, 2]) - J

    def integrals(self) -> ModalIntegrals:
        """Those of the modes."""
        m = self.shapes.shape[2]
        one = np.ones((len(self.masses), 1, 1))
        first = self._moments(one, self.shapes)[0, :, 0, :]
        at = self.points[:, :, None]
        short = self.short.transpose(0, 3, 1, 2).reshape(len(self.masses), 3, m * m)
        return ModalIntegrals(
            first,
            self._moments(at, self.shapes)[0],
            self._moments(self.shapes, self.shapes),
            self._moments(one, short)[0, :, 0, :].reshape(m, m, 3),
            self._moments(at, short)[0].reshape(m, m, 3, 3),
        )

    def _moments(self, f: np.ndarray, g: np.ndarray) -> np.ndarray:
        """∫ f_j g_kᵀ dm of fields f, (n, a, j), and g, (n, b, k): (j, k, a, b)."""
        found = np.zeros((f.shape[2], g.shape[2], f.shape[1], g.shape[1]))
        for j, k, a, b in np.ndindex(found.shape):
            x, y = f[:, a, j], g[:, b, k]
            if not (x.any() and y.any()):
                continue
            terms = self.masses * x * y
            total, size = fsum(terms.tolist()), fsum(np.abs(terms).tolist())
            found[j, k, a, b] = total if abs(total) > NOTHING * size else 0.0
        return found

    @staticmethod
    def gram(mass: float, center: np.ndarray, inertia: np.ndarray, of: ModalIntegrals) -> np.ndarray:
        """∫ f g dm of the functions 1, x, y, z and all components of all modes, (4 + 3 m, 4 + 3 m)."""
        m = of.modes
        G = np.zeros((4 + 3 * m, 4 + 3 * m))
        G[0, 0], G[0, 1:4] = mass, mass * center
        about = 0.5 * np.trace(inertia) * np.eye(3) - inertia
        G[1:4, 1:4] = about + mass * np.outer(center, center)
        for j in range(m):
            own = slice(4 + 3 * j, 7 + 3 * j)
            G[0, own], G[1:4, own] = of.first[j], of.mixed[j]
            for k in range(m):
                G[own, 4 + 3 * k : 7 + 3 * k] = of.second[j, k]
        return np.triu(G) + np.triu(G, 1).T

    @staticmethod
    def motions(gram: np.ndarray, m: int) -> np.ndarray:
        """The inertia of six rigid motions (three turns, three shifts) and m modes, (6 + m, 6 + m)."""
        fields: list[Any] = []  # of each motion: the coefficients of its three components in the functions of `gram`
        for i in range(3):
            turn = np.zeros((3, len(gram)))
            a, b = (i + 1) % 3, (i + 2) % 3
            turn[b, 1 + a], turn[a, 1 + b] = 1.0, -1.0
            fields.append(turn)
        for i in range(3):
            shift = np.zeros((3, len(gram)))
            shift[i, 0] = 1.0
            fields.append(shift)
        for j in range(m):
            mode = np.zeros((3, len(gram)))
            for i in range(3):
                mode[i, 4 + 3 * j + i] = 1.0
            fields.append(mode)
        return np.array([[sum(float(product(x, product(gram, y))) for x, y in zip(f, g)) for g in fields] for f in fields])
