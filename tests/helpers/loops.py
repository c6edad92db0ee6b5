"""The laws of mechanisms with loops, checked by numbers against their spanning tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.loops.embedding import tree_equations
from linkwork.loops.motion import cluster_posture
from linkwork.model import Model


def on_numbers(function: Any, model: Model, *args: Any, **options: Any) -> np.ndarray:
    """A function of a model as plain NumPy code, without compiling it."""
    return np.asarray(function.body(model, *args, **options), dtype=float)


def spanning_tree(model: Model) -> Model:
    """The same mechanism with every loop cut: its v is the spanning velocity."""
    return dataclasses.replace(model, embedded=(), kernels={}, name=f"{model.name} cut")


def spanning_places(model: Model) -> np.ndarray:
    """Where each entry of v is in the spanning velocity, (nv,)."""
    found = [_columns(model, cluster)[list(cluster.independent)] for cluster in model.clusters]
    return np.concatenate(found)


def _columns(model: Model, cluster: Any) -> np.ndarray:
    every = np.arange(model.nv_spanning)
    return np.concatenate([every[model.joints[k].v_slice] for k in cluster.bodies])


def loop_equations(
    model: Model, q: np.ndarray, v_spanning: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """φ, (rows,), K, (rows, nv_spanning), and k, (rows,), of all loops: φ = 0, K v = 0, K a = k. No row is
    left out.
    """
    phi = [np.zeros(0)]
    K = [np.zeros((0, model.nv_spanning))]
    k = [np.zeros(0)]
    for cluster in model.clusters:
        if cluster.constraints:
            own, bias = tree_equations(model, cluster, q, v_spanning)
            K.append(own.astype(float))
            k.append(bias.astype(float))
            posture = cluster_posture(model, cluster.family, q)
            phi += [constraint.residual(posture).astype(float) for constraint in cluster.constraints]
    return np.concatenate(phi), np.concatenate(K), np.concatenate(k)


def closure_error(model: Model, q: np.ndarray) -> float:
    """The largest error of any loop [m, rad, or that of a closure's own equation]."""
    return float(np.abs(loop_equations(model, q, np.zeros(model.nv_spanning))[0]).max(initial=0.0))


Terms = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def tree_terms(tree: Model) -> Terms:
    """M and the bias of a tree by this library, for (q, v)."""
    return lambda q, v: (on_numbers(lw.mass_matrix, tree, q), on_numbers(lw.bias_force, tree, q, v))


def kkt_acceleration(
    model: Model, q: np.ndarray, v_spanning: np.ndarray, tau_spanning: np.ndarray, terms: Terms | None = None
) -> np.ndarray:
    """The spanning acceleration from [M Kᵀ; K 0] [a; -λ] = [tau - bias; k] on the spanning tree,
    (nv_spanning,).
    """
    _, K, k = loop_equations(model, q, v_spanning)
    M, bias = (terms or tree_terms(spanning_tree(model)))(q, v_spanning)
    system = np.block([[M, K.T], [K, np.zeros((len(k), len(k)))]])
    return np.linalg.lstsq(system, np.concatenate([tau_spanning - bias, k]), rcond=1e-13)[0][
        : model.nv_spanning
    ]


def loop_laws(model: Model, *, states: int = 2, seed: int = 0) -> dict[str, float]:
    """How well the laws of loops hold at random states: the largest error of each, relative where that has a
    meaning.

    `closed`: φ = 0. `velocity`: K v = 0. `acceleration`: K a = k. `inverse`: the torque is that of the
    spanning tree, seen by the independent velocities. `kkt`: so is the acceleration that this torque gives.
    `forward`, `factorised`: forward dynamics gives back the acceleration. `mass`: M a + bias is the torque.
    `energy`: v·M v / 2 is the kinetic energy.
    """
    rng = np.random.default_rng(seed)
    tree = spanning_tree(model)
    places = spanning_places(model)
    worst: dict[str, float] = {}

    def note(law: str, found: Any, right: Any = 0.0, scale: float = 1.0) -> None:
        error = float(np.abs(np.asarray(found) - right).max(initial=0.0)) / scale
        worst[law] = max(worst.get(law, 0.0), error)

    for _ in range(states):
        q, v = model.random_state(rng)
        a = rng.normal(size=model.nv)
        vs = on_numbers(lw.spanning_velocity, model, q, v)
        spread = on_numbers(lw.spanning_acceleration, model, q, v, a)
        phi, K, k = loop_equations(model, q, vs)
        note("closed", phi)
        note("velocity", K @ vs, scale=1.0 + np.abs(vs).max())
        note("acceleration", K @ spread, k, 1.0 + np.abs(spread).max())
        tau = on_numbers(lw.inverse_dynamics, model, q, v, a)
        force = on_numbers(lw.inverse_dynamics, tree, q, vs, spread)
        note("inverse", tau, on_numbers(lw.independent_force, model, q, force), np.abs(tau).max())
        tau_spanning = np.zeros(model.nv_spanning)
        tau_spanning[places] = tau
        note("kkt", kkt_acceleration(model, q, vs, tau_spanning), spread, np.abs(spread).max())
        for law, method in (("forward", "articulated_body"), ("factorised", "mass_matrix")):
            note(law, on_numbers(lw.forward_dynamics, model, q, v, tau, method=method), a, np.abs(a).max())
        M = on_numbers(lw.mass_matrix, model, q)
        bias = on_numbers(lw.bias_force, model, q, v)
        note("mass", M @ a + bias, tau, np.abs(tau).max())
        energy = 0.5 * v @ M @ v
        note("energy", on_numbers(lw.kinetic_energy, model, q, v), energy, energy)
    return worst
