"""Spatial operators of a model, and what they give as functions that compile on first use (SKO Sec. 3 to 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algebra import Operators
from linkwork.algorithms.articulated import Hinges
from linkwork.algorithms.constraint_rows import nodes_for
from linkwork.algorithms.forward_dynamics import factorised
from linkwork.algorithms.mass_matrix import mass_matrix_product as composite_product
from linkwork.constraints import Weld
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.constrained import shallow
from linkwork.functions.constrained_derivatives import chosen_frames
from linkwork.functions.model_function import model_function
from linkwork.ir.functions import log
from linkwork.model import WORLD, Model
from linkwork.simplify.trees import body_tree, hinge_tree
from linkwork.sko import Tree
from linkwork.sko.tree import TreeState

METHODS = {"articulated_body": lambda _: True, "mass_matrix": shallow}


def operators(model: Model | Tree | TreeState[Any], q: Any = None, v: Any = None, f_ext: Any = None) -> Operators:
    """The spatial operators of a model at q, (nq,): A, H, M, P, D, G, K, psi, Omega and others, lazy, with `@`, `.T`, `+`.

    With v, (nv,), the vectors a and b are those of this velocity; `f_ext` (bodies, 6) is in b. Over numbers, or symbols inside
    of a trace. Every body is in its own frame, with rows [w, v]; rotors are bodies as any. Nodes of your own are taken too:
    `operators(nodes)`.
    """
    if isinstance(model, TreeState):
        if q is not None or v is not None or f_ext is not None:
            raise ModelError("nodes are in a state already: operators(nodes) takes no q, v or f_ext")
        return Operators(model)
    if not isinstance(model, (Model, Tree)):
        raise ModelError(f"operators: the first argument must be a model or its nodes, not {type(model).__name__}")
    given: Any = {"q": _vector("q", q, model.nq), "v": None if v is None else _vector("v", v, model.nv)}
    either: Any = model
    return Operators(body_tree(either, **given, f_ext=None if f_ext is None else np.asarray(f_ext)))


def _vector(name: str, x: Any, n: int) -> np.ndarray:
    array = np.asarray(x) if x is not None else np.zeros(())
    if array.shape != (n,):
        told = "is missing" if x is None else f"has shape {array.shape}"
        raise ShapeError(f"operators: {name} {told}; it must be one state, ({n},)")
    return array


def _pivots(model: Model, q: Any, method: str) -> list[Any]:
    """The pivots of all D(k), or of the mass matrix: their product is its determinant, either way."""
    nodes = hinge_tree(model, q, partition=True)
    if method == "mass_matrix":
        return list(factorised(nodes).pivots)
    hinges = Hinges(nodes)
    return [pivot for k in nodes.tips_to_base() for pivot in hinges[k].D.pivots]


@model_function(q="nq", methods=METHODS, by_hand=True)
def mass_matrix_determinant(model: Model, q: Any, *, method: str = "auto") -> Any:
    """The determinant of the mass matrix, (...), in linear time: the product of det D(k) over all nodes (SKO Eq. 53).

    Of many velocities it leaves the range of floats; `mass_matrix_log_determinant` does not.
    """
    total: Any = 1.0
    for pivot in _pivots(model, q, method):
        total = total * pivot
    return total


@model_function(q="nq", methods=METHODS, by_hand=True)
def mass_matrix_log_determinant(model: Model, q: Any, *, method: str = "auto") -> Any:
    """The logarithm of the determinant of the mass matrix, (...), in linear time: the sum of log det D(k) (SKO Eq. 53)."""
    total: Any = 0.0
    for pivot in _pivots(model, q, method):
        total = total + log(pivot)
    return total


@model_function(q="nq", v="nv", by_hand=True)
def mass_matrix_product(model: Model, q: Any, v: Any) -> Any:
    """The mass matrix times v, (..., nv), without the matrix: H A M A* H* v, one scatter and one gather (SKO Eq. 3)."""
    return composite_product(hinge_tree(model, q, partition=True), v)


@model_function(q="nq", tau="nv", methods=METHODS, by_hand=True)
def mass_matrix_solve(model: Model, q: Any, tau: Any, *, method: str = "auto") -> Any:
    """The inverse of the mass matrix times tau, (..., nv), without either: (1 - H ψ K)* D⁻¹ (1 - H ψ K) tau (SKO Eq. 51)."""
    nodes = hinge_tree(model, q, partition=True)
    return factorised(nodes).solve(tau) if method == "mass_matrix" else Operators(nodes).mass_matrix_inverse @ tau


@model_function(q="nq", by_hand=True)
def newton_euler_factors(model: Model, q: Any) -> tuple[Any, Any]:
    """H A, (..., nv, rows), and the inertias M of all nodes, with mass matrix = (H A) M (H A)* (SKO Eq. 3).

    Rows are those of `operators(model, q)`: (H A)* takes generalised velocities to the motions of all nodes. M is
    block-diagonal; of each row only the block is given, (..., rows, widest block), with zeros behind a shorter one. Where every
    node is a body without armature, reshaped to (..., bodies, 6, 6) these are the bodies' inertias.
    """
    given = Operators(body_tree(model, q))
    widest = max(given.rows.rows_of(k) for k in range(len(given.rows)))
    M = np.zeros((given.rows.size, widest), dtype=object)
    for k, own in enumerate(given.rows.slices):
        M[own, : own.stop - own.start] = given.M.entry(k, k)
    return (given.H @ given.A).dense(), M


@model_function(q="nq", by_hand=True)
def innovations_factors(model: Model, q: Any, *, inverse: bool = False) -> tuple[Any, Any]:
    """L = 1 + H A K and D, each (..., nv, nv), with mass matrix = L D L* (SKO Eq. 49). D is block-diagonal, and det L = 1.

    `inverse`: L⁻¹ = 1 - H ψ K and D⁻¹, with inverse mass matrix = (L⁻¹)* D⁻¹ L⁻¹ (SKO Eq. 50 and 51).
    """
    given = Operators(hinge_tree(model, q, partition=True))
    if inverse:
        return given.innovations_inverse.dense(), given.D.inverse.dense()
    return given.innovations_factor.dense(), given.D.dense()


@model_function(q="nq", tau="nv", by_hand=True)
def innovations_product(model: Model, q: Any, tau: Any, *, inverse: bool = False, transpose: bool = False) -> Any:
    """L times a vector, (..., nv), without L = 1 + H A K, the factor of the mass matrix L D L* (SKO Eq. 49); in linear time.

    `inverse`: L⁻¹ = 1 - H ψ K in its place (SKO Eq. 50); `transpose`: their transposes.
    """
    given = Operators(hinge_tree(model, q, partition=True))
    L = given.innovations_inverse if inverse else given.innovations_factor
    return (L.T if transpose else L) @ tau


def _rows_and_columns(model: Model, frames: Any, columns: Any) -> dict[str, Any]:
    chosen = chosen_frames(model, frames)
    return chosen | {"columns": None if columns is None else chosen_frames(model, columns)["frames"]}


@model_function(q="nq", options=_rows_and_columns, by_hand=True)
def operational_compliance(model: Model, q: Any, *, frames: Sequence[str], columns: Sequence[str] | None = None) -> Any:
    """J M⁻¹ J* of frames, (..., 6 n, 6 n), without J and M: B* Ω B, by the recursion for Υ and its branches (SKO Eq. 60).

    J stacks `frame_jacobian` of the frames, in their order and with reference "body". It is how frames accelerate for forces on
    them; defined also where they cannot move in all directions. `columns`: only the blocks with forces on these frames,
    (..., 6 n, 6 m). `operational_inertia` is the inverse. Loops that forces hold are not in it.
    """
    given = Operators(nodes_for(model, tuple(map(Weld, {*frames, *(columns or ())} - {WORLD})), q, partition=True))
    if columns is None or columns == frames:
        return given.compliance(*frames).dense()
    return (given.B(*frames).T @ given.Omega @ given.B(*columns)).dense()
