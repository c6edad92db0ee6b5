"""Random comparisons of the library with dense algebra, over generated mechanisms of every kind.

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
from mechanisms import KINDS, random_model
from product_models import flexible_arm

Random = np.random.Generator
TREES = tuple(kind for kind in KINDS if kind not in ("planar about another axis", "skew planar"))
RINGS = ("revolute", "prismatic", "cylindrical", "universal", "spherical", "planar", "rod", "point on line")
MAX_CONDITION = 1e6  # of the scaled mass matrix, and of the loop equations
TOLERANCE = 1e-7  # relative to the largest entry; most agree to 1e-11


@dataclass
class Tally:
    """What a sweep found."""

    compared: int = 0
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


def compare(family: str, seed: int, states: int, tally: Tally) -> None:
    """Compare all functions of one generated mechanism in some states."""
    rng = np.random.default_rng([seed, *map(ord, family)])
    try:
        model, clouds = FAMILIES[family](rng)
        pairs = [model.random_state(rng) for _ in range(states)]
    except LinkworkError as error:
        tally.refused[f"{family}: {type(error).__name__}: {' '.join(str(error).split()[-6:])}"] += 1
        return
    q, v = (np.array(x) for x in zip(*pairs))
    good = conditions(Dense(model, q, v, clouds)) < MAX_CONDITION
    tally.singular += int((~good).sum())
    if not good.any():
        return
    oracle = Dense(model, q[good], v[good], clouds)
    found = comparisons(model, oracle, rng)
    while True:
        try:
            name, result, expected = next(found)
        except StopIteration:
            return
        except LinkworkError as error:
            tally.refused[f"{family}: {type(error).__name__}: {' '.join(str(error).split()[:8])}"] += 1
            return
        result = np.asarray(result)
        expected = np.asarray(expected)
        flat = (len(expected), -1)
        error = np.abs(result - expected).reshape(flat).max(axis=1, initial=0.0)
        size = np.maximum(np.abs(expected).reshape(flat).max(axis=1, initial=0.0), 1e-3)
        off = np.where(np.isfinite(error), error / size, np.inf)
        tally.compared += len(off)
        tally.worst = max(tally.worst, float(off.max()))
        if off.max() > TOLERANCE:
            tally.wrong.append(
                f"{family}, seed {seed}, {name}: {off.max():.1e} in {(off > TOLERANCE).sum()} of {len(off)} states"
            )


def sweep(wanted: int, seed: int = 0, states: int = 200) -> Tally:
    """Compare until so many comparisons are made, family by family in turn."""
    tally = Tally()
    while tally.compared < wanted:
        for family in FAMILIES:
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
    print(f"{tally.compared} comparisons, {len(tally.wrong)} wrong, worst deviation {tally.worst:.1e}")
    print(f"{tally.singular} states left out as nearly singular; refused mechanisms:")
    for reason, count in tally.refused.most_common():
        print(f"{count:6d}  {reason}")
    for line in tally.wrong:
        print("WRONG", line)


if __name__ == "__main__":
    main()
