"""Linkages whose redundant equations depend on the state, in any orientation; and their motion by dense
algebra.

The algebra is independent of the package's own: equations φ(q) = 0 are written from poses of the spanning
tree, differentiated as programs, and solved by truncated singular values, so that no equation is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

import linkwork as lw
import planar_mechanisms as planar
import spatial_mechanisms as spatial
from drawings import Drawing
from linkages import equations, floats, tree
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.model import Model
from linkwork.spatial import Pose

# singular values that count, relative to the largest: of exact and of rounded numbers
EXACT = 1e-7
ROUNDED = 1e-3

LINKAGES: dict[str, Callable[..., Drawing]] = {
    "Bennett": spatial.bennett,
    "Goldberg": spatial.goldberg,
    "Myard": spatial.myard,
    "Schatz": spatial.schatz,
    "Bricard, trihedral": lambda **more: spatial.bricard("trihedral", **more),
    "Bricard, line": lambda **more: spatial.bricard("line", **more),
    "Bricard, plane": lambda **more: spatial.bricard("plane", **more),
    "Sarrus": spatial.sarrus,
    "Sarrus, three legs": lambda **more: spatial.sarrus(3, **more),
    "parallel bars": spatial.parallel_bars,
    "tripteron": spatial.tripteron,
    "four-bars, braced": lambda **more: planar.four_bars_in_a_row(4, braced=True, **more),
    "four-bar in space": lambda **more: planar.four_bar(0.3, 0.8, 0.6, 0.9, **more),
    "scissors in space": lambda **more: planar.scissors(3, **more),
}


def base(seed: int) -> Pose:
    """A frame in any orientation."""
    rng = np.random.default_rng(seed)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return Pose(R * np.sign(np.linalg.det(R)), 0.3 * rng.normal(size=3))


@cache
def redundant(name: str, digits: int | None = None, seed: int = 0, *, constrained: bool = False) -> Model:
    """A linkage of these in some orientation, its numbers with so many digits, its loops embedded or
    constrained.
    """
    model = LINKAGES[name](digits=digits, base=base(seed)).builder.build()
    return model.with_loops(constrain=[loop.name for loop in model.loops]) if constrained else model


class Motion(NamedTuple):
    """Of all joints of the tree: velocities, accelerations by least residual of all equations, and what
    velocities miss.
    """

    v: np.ndarray
    a: np.ndarray
    missed: float


def motion(model: Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray, cut: float) -> Motion:
    """The motion of a model under forces tau of its velocities, with singular values of its loop equations
    above a cut.
    """
    names = [name for joint in model.joints for name in joint.v_names]
    own = model.with_loops(embed=[loop.name for loop in model.loops]) if model.constrained_loops else model
    if model.constrained_loops:
        speeds = in_order(names, model, v)
    else:
        speeds = floats(lw.spanning_velocity, model, q, v)
    forces = in_order(names, model, tau)
    _, K, k = equations(own, q, speeds)
    M = floats(lw.mass_matrix, tree(own), q)
    bias = floats(lw.bias_force, tree(own), q, speeds)
    u, s, vt = np.linalg.svd(K)
    rank = int(np.sum(s > cut * s[0]))
    part = vt[:rank].T @ ((u[:, :rank].T @ k) / s[:rank])
    N = vt[rank:].T
    a = part + N @ np.linalg.solve(N.T @ M @ N, N.T @ (forces - bias - M @ part))
    return Motion(speeds, a, float(np.abs(K @ speeds).max()))


def in_order(names: list[str], model: Model, x: np.ndarray) -> np.ndarray:
    """Numbers of a model's velocities as those of all joints; zero where a joint has none."""
    known = dict(zip(model.v_names, x))
    return np.array([known.get(name, 0.0) for name in names])


def accelerations(model: Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Of all joints, as the model's functions give them."""
    names = [name for joint in model.joints for name in joint.v_names]
    a = floats(lw.forward_dynamics, model, q, v, tau)
    return (
        in_order(names, model, a)
        if model.constrained_loops
        else floats(lw.spanning_acceleration, model, q, v, a)
    )


def along(model: Model, count: int, step: float) -> Iterator[np.ndarray]:
    """States along the motion of a linkage with one degree of freedom and one cluster, by least squares of
    all equations.

    They end before a bifurcation, where the rank of these drops.
    """
    problem = ClosureProblem(model, model.clusters[0].bodies, model.clusters[0].constraints)
    q = model.neutral()
    before: np.ndarray | None = None
    for _ in range(count):
        e, J = problem.at(q)
        _, s, directions = np.linalg.svd(J)
        if np.abs(e).max() > 1e-10 or s[len(model.clusters[0].rows) - 1] < 0.02 * s[0]:
            break
        yield q
        tangent = directions[-1]
        tangent *= -1.0 if before is not None and tangent @ before < 0.0 else 1.0
        q = problem.retract(q, step * tangent)
        before = tangent
        for _ in range(6):
            phi, K = problem.at(q)
            q = problem.retract(q, -np.linalg.lstsq(K, phi, rcond=EXACT)[0])
