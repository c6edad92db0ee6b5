"""Random comparisons of the library with dense algebra, over generated mechanisms and custom trees.

    PYTHONPATH=src:tests/helpers python tests/helpers/random_sweep.py --comparisons 1000000 --seed 0

A comparison is one function in one state of one mechanism. States in which the loops or the mass matrix are
nearly singular are left out, and counted; so is what the library refuses, with the reason.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import linkages
import linkwork as lw
from dense_mechanics import Dense, apply
from linkwork.errors import LinkworkError
from linkwork.model import Model
from linkwork.sko import Node, Tree
from mechanisms import KINDS, random_model
from product_models import flexible_arm

Random = np.random.Generator
TREES = tuple(kind for kind in KINDS if kind not in ("planar about another axis", "skew planar"))
RINGS = ("revolute", "prismatic", "cylindrical", "universal", "spherical", "planar", "rod", "point on line")
CUSTOM = "custom tree"
MAX_CONDITION = 1e6  # of the scaled mass matrix, and of the loop equations
TOLERANCE = 1e-8  # relative to the largest entry; most agree to 1e-11


@dataclass
class Tally:
    """What a sweep found."""

    compared: Counter[str] = field(default_factory=Counter)  # by family
    wrong: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    singular: int = 0
    worst: float = 0.0


def constrained(model: Model) -> Model:
    """Return a model with all of its loops enforced by constraint forces."""
    return model.with_loops(constrain=[loop.name for loop in model.loops])


def flexible_with_points(rng: Random) -> tuple[Model, Any]:
    """Return an arm with a flexible link, and the mass points that this is made of."""
    case = flexible_arm(rng)
    return case.model, case.clouds


FAMILIES: dict[str, Callable[[Random], tuple[Model, Any]]] = {
    "tree": lambda rng: (random_model(rng, int(rng.integers(1, 7)), kinds=TREES), {}),
    "embedded loop": lambda rng: (
        linkages.ring(rng, RINGS[rng.integers(len(RINGS))], ground=bool(rng.integers(2))),
        {},
    ),
    "constrained loop": lambda rng: (constrained(linkages.ring(rng, RINGS[rng.integers(len(RINGS))])), {}),
    "embedded gears": lambda rng: (
        linkages.geared(rng, int(rng.integers(3, 7)), int(rng.integers(1, 3))),
        {},
    ),
    "constrained gears": lambda rng: (constrained(linkages.geared(rng, int(rng.integers(3, 7)), 1)), {}),
    "flexible": flexible_with_points,
}


class StackedTree:
    """A random custom tree, and its equations as stacked matrices: α = Aᵀ α + Hᵀ θ̈ + a, f = A f + M α + b.

    Weights of any rank change with the sine of one coordinate, and a, b and passive forces with velocities.
    """

    def __init__(self, rng: Random) -> None:
        count = int(rng.integers(1, 6))
        self.parents = [int(rng.integers(-1, k)) if k else -1 for k in range(count)]
        self.rows = rng.integers(1, 10, size=count)
        self.dofs = np.array([int(rng.integers(1, min(rows, 3) + 1)) for rows in self.rows])
        self.first = np.concatenate([[0], np.cumsum(self.rows)])
        self.own = np.concatenate([[0], np.cumsum(self.dofs)])
        n = self.first[-1]
        nv = self.own[-1]
        self.A = np.zeros((2, n, n))  # weights and their amplitudes
        self.H = np.zeros((nv, n))
        self.M = np.zeros((n, n))
        self.a, self.b = rng.normal(size=(2, n))
        self.by_speed = rng.normal(size=(2, n, nv))
        self.damping = rng.normal(size=nv)
        self.armature = np.zeros((nv, nv))
        nodes = []
        for k, parent in enumerate(self.parents):
            at, dofs = slice(*self.first[k : k + 2]), slice(*self.own[k : k + 2])
            factor = rng.normal(size=(self.rows[k], self.rows[k]))
            self.M[at, at] = factor @ factor.T + 0.5 * np.eye(self.rows[k])
            factor = rng.normal(size=(self.dofs[k], self.dofs[k]))
            self.armature[dofs, dofs] = 0.1 * factor @ factor.T
            self.H[dofs, at] = rng.normal(size=(self.dofs[k], self.rows[k]))
            more = {}
            if parent >= 0:
                above = slice(*self.first[parent : parent + 2])
                self.A[:, above, at] = rng.normal(size=(2, self.rows[parent], self.rows[k])) / self.rows[k]
                more = {"parent": f"node{parent}", "A": self._weight(above, at, dofs.start)}
            nodes.append(
                Node(
                    f"node{k}",
                    H=self.H[dofs, at],
                    M=self.M[at, at],
                    a=lambda q, v, at=at: self.a[at] + self.by_speed[0, at] @ v,
                    b=lambda q, v, at=at: self.b[at] + self.by_speed[1, at] @ v,
                    armature=self.armature[dofs, dofs],
                    passive_force=lambda q, v, dofs=dofs: self.damping[dofs] * v[dofs],
                    **more,
                )
            )
        self.tree = Tree("random", nodes)

    def _weight(self, above: slice, at: slice, place: int) -> Callable[[Any, Any], Any]:
        return lambda q, v: self.A[0, above, at] + lw.sincos(q[place])[0] * self.A[1, above, at]

    def comparisons(self, q: np.ndarray, v: np.ndarray, rng: Random) -> Iterator[tuple[str, Any, Any]]:
        """Yield functions' names, results, and what these shall be."""
        a, tau = rng.normal(size=(2, *v.shape))
        turned = np.repeat(np.sin(q[:, self.own[:-1]]), self.rows, axis=1)
        E = self.A[0] + turned[:, None, :] * self.A[1]
        propagated = np.linalg.inv(np.eye(len(self.M)) - E)  # (1 - A)⁻¹
        up = self.H @ propagated
        down = up.transpose(0, 2, 1)
        M = up @ self.M @ down + self.armature
        rest = apply(propagated.transpose(0, 2, 1), self.a + v @ self.by_speed[0].T)
        f = apply(np.broadcast_to(self.M, propagated.shape), rest) + self.b + v @ self.by_speed[1].T
        h = apply(up, f) + self.damping * v
        yield "mass_matrix", lw.mass_matrix(self.tree, q), M
        yield "mass_matrix_inverse", lw.mass_matrix_inverse(self.tree, q), np.linalg.inv(M)
        yield "bias_force", lw.bias_force(self.tree, q, v), h
        yield "inverse_dynamics", lw.inverse_dynamics(self.tree, q, v, a), apply(M, a) + h
        free = np.linalg.solve(M, (tau - h)[..., None])[..., 0]
        yield "forward_dynamics", lw.forward_dynamics(self.tree, q, v, tau), free
        yield (
            "mass_matrix_log_determinant",
            lw.mass_matrix_log_determinant(self.tree, q),
            np.linalg.slogdet(M)[1],
        )
        moved = apply(down, v)
        energy = 0.5 * (v * apply(np.broadcast_to(self.armature, M.shape), v)).sum(1)
        energy += 0.5 * np.einsum("bi,ij,bj->b", moved, self.M, moved)
        yield "kinetic_energy", lw.kinetic_energy(self.tree, q, v), energy
        if len(tau[0]) > 1:
            known = rng.permutation(len(tau[0])) < len(tau[0]) // 2
            given = np.where(known, a, 0.0)
            missing = (tau - h - apply(M, given))[:, ~known]
            found = given.copy()
            found[:, ~known] = np.linalg.solve(M[:, ~known][:, :, ~known], missing[..., None])[..., 0]
            ours = lw.hybrid_dynamics(self.tree, q, v, a, tau, prescribed=known)
            yield "hybrid_dynamics", np.stack(ours, 1), np.stack([found, apply(M, found) + h], 1)


def comparisons(model: Model, oracle: Dense, rng: Random) -> Iterator[tuple[str, Any, Any]]:
    """Yield functions' names, results, and what these shall be."""
    q = oracle.q
    v = oracle.v
    a, tau = rng.normal(size=(2, *v.shape))
    f_ext = rng.normal(size=(len(q), len(model.bodies), 6))
    a_s = apply(oracle.G, a) + oracle.g
    yield "mass_matrix", lw.mass_matrix(model, q), oracle.M
    yield (
        "inverse_dynamics",
        lw.inverse_dynamics(model, q, v, a, f_ext),
        oracle.project(oracle.inverse_dynamics_s(a_s, f_ext)),
    )
    yield "bias_force", lw.bias_force(model, q, v), oracle.inverse_dynamics(0.0 * a)
    yield (
        "forward_dynamics",
        lw.forward_dynamics(model, q, v, tau, f_ext),
        oracle.forward_dynamics(tau, f_ext),
    )
    yield "spanning_acceleration", lw.spanning_acceleration(model, q, v, a), a_s
    yield "kinetic_energy", lw.kinetic_energy(model, q, v), oracle.kinetic_energy
    yield "potential_energy", lw.potential_energy(model, q), oracle.potential_energy
    yield "momentum", lw.momentum(model, q, v), apply(oracle.centroidal_map_s(q), oracle.v_s)
    yield "momentum_rate", lw.momentum_rate(model, q, v, a), oracle.momentum_rate(a)
    yield "center_of_mass", lw.center_of_mass(model, q), oracle.center_of_mass


def conditions(oracle: Dense) -> np.ndarray:
    """Return condition numbers of the mass matrix and of the loop equations in each state."""
    scale = 1.0 / np.sqrt(np.einsum("bii->bi", oracle.M))
    worst = np.linalg.cond(oracle.M * scale[:, :, None] * scale[:, None])
    for K in (oracle.K[:, :, oracle.bound], oracle.held()[0]):
        if K.shape[1] and K.shape[2]:
            values = np.linalg.svd(K, compute_uv=False)
            rank = (values > 1e-8 * values[:, :1]).sum(axis=1).max()
            worst = np.maximum(worst, 1e3 * values[:, 0] / np.maximum(values[:, rank - 1], 1e-300))
    return worst


def generated(family: str, rng: Random, states: int, tally: Tally) -> Iterator[tuple[str, Any, Any]]:
    """Return comparisons of one generated mechanism in some states that are not singular."""
    if family == CUSTOM:
        stacked = StackedTree(rng)
        q, v = rng.normal(size=(2, states, stacked.tree.nv))
        return stacked.comparisons(q, v, rng)
    model, clouds = FAMILIES[family](rng)
    pairs = [model.random_state(rng) for _ in range(states)]
    q, v = (np.array(x) for x in zip(*pairs))
    good = conditions(Dense(model, q, v, clouds)) < MAX_CONDITION
    tally.singular += int((~good).sum())
    return comparisons(model, Dense(model, q[good], v[good], clouds), rng) if good.any() else iter(())


def compare(family: str, seed: int, states: int, tally: Tally) -> None:
    """Compare all functions of one generated mechanism in some states."""
    rng = np.random.default_rng([seed, *map(ord, family)])
    try:
        for name, result, expected in generated(family, rng, states, tally):
            result = np.asarray(result)
            expected = np.asarray(expected)
            flat = (len(expected), -1)
            error = np.abs(result - expected).reshape(flat).max(axis=1, initial=0.0)
            size = np.maximum(np.abs(expected).reshape(flat).max(axis=1, initial=0.0), 1e-3)
            off = np.where(np.isfinite(error), error / size, np.inf)
            tally.compared[family] += len(off)
            tally.worst = max(tally.worst, float(off.max()))
            if off.max() > TOLERANCE:
                tally.wrong.append(
                    f"{family}, seed {seed}, {name}: {off.max():.1e} in {(off > TOLERANCE).sum()} of {len(off)} states"
                )
    except LinkworkError as error:
        tally.refused[f"{family}: {type(error).__name__}: {' '.join(str(error).split()[:12])}"] += 1


def sweep(wanted: int, seed: int = 0, states: int = 200) -> Tally:
    """Compare until so many comparisons are made, family by family in turn."""
    tally = Tally()
    while tally.compared.total() < wanted:
        for family in (*FAMILIES, CUSTOM):
            compare(family, seed, states, tally)
        seed += 1
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--states", type=int, default=200)
    args = parser.parse_args()
    tally = sweep(args.comparisons, args.seed, args.states)
    print(
        f"{tally.compared.total()} comparisons, {len(tally.wrong)} wrong, worst deviation {tally.worst:.1e}"
    )
    print(", ".join(f"{family}: {count}" for family, count in tally.compared.items()))
    print(f"{tally.singular} states left out as nearly singular; refused mechanisms:")
    for reason, count in tally.refused.most_common():
        print(f"{count:6d}  {reason}")
    for line in tally.wrong:
        print("WRONG", line)


if __name__ == "__main__":
    main()
