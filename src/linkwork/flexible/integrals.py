"""Integrals over mass points that move with mode shapes, with exactly rounded sums."""

from __future__ import annotations

from math import fsum
from typing import Any, NamedTuple

import numpy as np

from linkwork.spatial.constants import product
from linkwork.spatial.modal import ModalIntegrals

ZERO_TOL = 1e-13  # of an integral that vanishes, relative to the sum of magnitudes


class Cloud(NamedTuple):
    """Mass points and their modal displacements.

    `masses` [kg], (n,), at `points` [m], (n, 3), move by `shapes`, (n, 3, m), and by `short`, (n, m, m, 3).
    """

    masses: np.ndarray
    points: np.ndarray
    shapes: np.ndarray
    short: np.ndarray

    def rigid(self) -> tuple[float, np.ndarray, np.ndarray]:
        """Return mass [kg], center of mass [m], (3,), and inertia about it [kg m²], (3, 3)."""
        mass = fsum(self.masses.tolist())
        center = np.array([fsum((self.masses * x).tolist()) for x in self.points.T]) / mass
        r = self.points - center
        J = self._moments(r[:, :, None], r[:, :, None])[0, 0]
        return mass, center, np.eye(3) * (J[0, 0] + J[1, 1] + J[2, 2]) - J

    def integrals(self) -> ModalIntegrals:
        """Return the modal integrals."""
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
        """Return ∫ f_j g_kᵀ dm of fields f, (n, a, j), and g, (n, b, k): (j, k, a, b)."""
        moments = np.zeros((f.shape[2], g.shape[2], f.shape[1], g.shape[1]))
        for j, k, a, b in np.ndindex(moments.shape):
            x = f[:, a, j]
            y = g[:, b, k]
            if not (x.any() and y.any()):
                continue
            terms = self.masses * x * y
            total = fsum(terms.tolist())
            magnitude = fsum(np.abs(terms).tolist())
            moments[j, k, a, b] = total if abs(total) > ZERO_TOL * magnitude else 0.0
        return moments

    @staticmethod
    def gram(mass: float, center: np.ndarray, inertia: np.ndarray, integrals: ModalIntegrals) -> np.ndarray:
        """Return ∫ f g dm of the functions 1, x, y, z and all components of all modes, (4 + 3 m, 4 + 3 m)."""
        m = integrals.modes
        G = np.zeros((4 + 3 * m, 4 + 3 * m))
        G[0, 0] = mass
        G[0, 1:4] = mass * center
        second_moments = 0.5 * np.trace(inertia) * np.eye(3) - inertia
        G[1:4, 1:4] = second_moments + mass * np.outer(center, center)
        for j in range(m):
            rows = slice(4 + 3 * j, 7 + 3 * j)
            G[0, rows] = integrals.first[j]
            G[1:4, rows] = integrals.mixed[j]
            for k in range(m):
                G[rows, 4 + 3 * k : 7 + 3 * k] = integrals.second[j, k]
        return np.triu(G) + np.triu(G, 1).T

    @staticmethod
    def motions(gram: np.ndarray, m: int) -> np.ndarray:
        """Return the inertia of six rigid motions (rotations, translations) and m modes, (6 + m, 6 + m)."""
        # For each motion, the coefficients of its three components in the functions of `gram`.
        fields: list[Any] = []
        for i in range(3):
            turn = np.zeros((3, len(gram)))
            a = (i + 1) % 3
            b = (i + 2) % 3
            turn[b, 1 + a] = 1.0
            turn[a, 1 + b] = -1.0
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
        return np.array(
            [[sum(float(product(x, product(gram, y))) for x, y in zip(f, g)) for g in fields] for f in fields]
        )
