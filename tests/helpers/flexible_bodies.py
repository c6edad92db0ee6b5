"""Flexible bodies for tests: clouds of mass points with random shapes, and the Lagrangian of mechanisms made
of them.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np

import linkwork as lw
from linkwork.flexible.integrals import Cloud
from linkwork.joints.deformation import ModeShape


def cloud(rng, points=6, modes=3, short=0.0):
    """Mass points with random shapes and slopes that vanish at the origin, which is the first of them."""
    at = rng.normal(size=(points, 3)) * 0.4
    shapes = rng.normal(size=(points, 3, modes))
    slopes = rng.normal(size=(points, 3, modes))
    g = short * rng.normal(size=(points, modes, modes, 3))
    g = g + g.transpose(0, 2, 1, 3)
    at[0], shapes[0], slopes[0], g[0] = 0.0, 0.0, 0.0, 0.0
    return Cloud(rng.uniform(0.1, 0.5, points), at, shapes, g), slopes


def flexible(cloud, slopes, rng, name="bar", size=0.1):
    m = slopes.shape[2]
    K = rng.normal(size=(m, m))

    def place(p):
        n = int(np.argmin(np.linalg.norm(cloud.points - p, axis=1)))
        return ModeShape(cloud.shapes[n], slopes[n], cloud.short[n])

    names = tuple(f"mode{j}" for j in range(m))
    K = K @ K.T + np.eye(m)
    D = 0.1 * np.eye(m) + 0.01
    return lw.flexible.FlexibleBody(
        name, *cloud.rigid(), names, cloud.integrals(), K, D, place, size * np.ones(m)
    )


def turned(axis, angle):
    """Rodrigues' formula over mpmath."""
    A = skew(mp.matrix([mp.mpf(float(x)) for x in axis]) / mp.norm(mp.matrix(list(map(float, axis)))))
    return mp.eye(3) + mp.sin(angle) * A + (1 - mp.cos(angle)) * A * A


def cayley(theta):
    """(1 - [θ]/2)⁻¹ (1 + [θ]/2)."""
    A = skew(theta) / 2
    return mp.inverse(mp.eye(3) - A) * (mp.eye(3) + A)


def skew(r):
    return mp.matrix([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])


def vector(x):
    return mp.matrix([mp.mpf(float(y)) for y in x])


def lagrange(points, potential, q, v, a):
    """d/dt ∂T/∂v - ∂T/∂q + ∂U/∂q of mass points [(m, position(q))], (n,), by differences with 60 digits."""
    with mp.workdps(60):
        h, (q, v, a) = mp.mpf(10) ** -15, (list(map(mp.mpf, map(float, x))) for x in (q, v, a))

        def accelerations(position):
            def at(t):
                return position([x + t * y + t * t / 2 * z for x, y, z in zip(q, v, a)])

            return (at(h) - 2 * at(0) + at(-h)) / h**2

        total = []
        moving = [(m, position, accelerations(position)) for m, position in points]
        for k in range(len(q)):

            def shifted(f, sign, k=k):
                return f([x + (sign * h if i == k else 0) for i, x in enumerate(q)])

            force = (shifted(potential, 1) - shifted(potential, -1)) / (2 * h)
            for m, position, acceleration in moving:
                push = (shifted(position, 1) - shifted(position, -1)) / (2 * h)
                force += m * mp.fdot(push, acceleration)
            total.append(float(force))
        return np.array(total)
