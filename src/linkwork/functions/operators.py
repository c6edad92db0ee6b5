"""Spatial operators of a model, and functions based on them (SKO Sec. 3 to 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import nodes_for
from linkwork.algorithms.tree.articulated import Hinges
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.mass_matrix import mass_matrix_product as composite_product
from linkwork.compiler.ir.functions import log
from linkwork.constraints import Weld
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.constrained import is_mass_matrix_candidate
from linkwork.functions.constrained_derivatives import is_on_ground, normalize_frames
from linkwork.functions.engine.model_function import model_function
from linkwork.model import Model
from linkwork.sko import Tree
from linkwork.sko.prepare.trees import body_tree, hinge_tree
from linkwork.sko.tree import TreeState
from linkwork.spatial_operators import Operators

METHODS = {"articulated_body": lambda _: True, "mass_matrix": is_mass_matrix_candidate}


def operators(
    model: Model | Tree | TreeState[Any], q: Any = None, v: Any = None, f_ext: Any = None
) -> Operators:
    """Return the spatial operators of a model in a state: A, H, M, P, D, G, K, psi, Omega and others.

    Parameters
    ----------
    model : Model, linkwork.sko.Tree or nodes
        Nodes (`linkwork.nodes`) are in a state already: `operators(nodes)` takes no further arguments.
    q : array_like, shape (nq,)
        One configuration, of numbers or of symbols inside a trace.
    v : array_like, shape (nv,), optional
        Velocities in the vectors a and b. Default zero.
    f_ext : array_like, shape (bodies, 6), optional
        External wrench on each body, in b.

    Returns
    -------
    linkwork.spatial_operators.Operators
        Lazy operators with ``@``, ``.T`` and ``+``. Every body is in its own frame with rows [w, v]; rotors
        are bodies like any other. Constrained loops are open.

    Raises
    ------
    ShapeError
        If q or v is not a single state.

    Examples
    --------
    >>> arm = lw.robots.chain(3)
    >>> ops = lw.operators(arm, np.zeros(3))
    >>> np.allclose(ops.mass_matrix.dense().astype(float), lw.mass_matrix(arm, np.zeros(3)))
    True
    """
    if isinstance(model, TreeState):
        if q is not None or v is not None or f_ext is not None:
            raise ModelError("operators: nodes are in a state already; expected no q, v or f_ext")
        return Operators(model)
    if not isinstance(model, (Model, Tree)):
        raise ModelError(
            f"operators: first argument: expected a model or its nodes, got {type(model).__name__}"
        )
    state: Any = {"q": _vector("q", q, model.nq), "v": None if v is None else _vector("v", v, model.nv)}
    model_or_tree: Any = model
    return Operators(body_tree(model_or_tree, **state, f_ext=None if f_ext is None else np.asarray(f_ext)))


def _vector(name: str, x: Any, n: int) -> np.ndarray:
    array = np.asarray(x) if x is not None else np.zeros(())
    if array.shape != (n,):
        problem = "is missing" if x is None else f"has shape {array.shape}"
        raise ShapeError(f"operators: {name} {problem}; expected one state, ({n},)")
    return array


def _pivots(model: Model, q: Any, method: str) -> list[Any]:
    """Return the pivots of all D(k), or of the mass matrix; their product is its determinant."""
    nodes = hinge_tree(model, q, partition=True)
    if method == "mass_matrix":
        return list(factorised(nodes).pivots)
    hinges = Hinges(nodes)
    return [pivot for k in nodes.tips_to_base() for pivot in hinges[k].D.pivots]


@model_function(q="nq", methods=METHODS, custom_trees=True)
def mass_matrix_determinant(model: Model, q: Any, *, method: str = "auto") -> Any:
    """Return the determinant of the mass matrix, (...), the product of det D(k) over all nodes (SKO Eq. 53).

    Linear time. With many velocities it exceeds the range of floats; `mass_matrix_log_determinant` does not.
    Constrained loops are open, as in `mass_matrix`.
    """
    total: Any = 1.0
    for pivot in _pivots(model, q, method):
        total = total * pivot
    return total


@model_function(q="nq", methods=METHODS, custom_trees=True)
def mass_matrix_log_determinant(model: Model, q: Any, *, method: str = "auto") -> Any:
    """Return the logarithm of the determinant of the mass matrix, (...), in linear time (SKO Eq. 53).

    Constrained loops are open, as in `mass_matrix`.
    """
    total: Any = 0.0
    for pivot in _pivots(model, q, method):
        total = total + log(pivot)
    return total


@model_function(q="nq", v="nv", custom_trees=True)
def mass_matrix_product(model: Model, q: Any, v: Any) -> Any:
    """Return the mass matrix times v, (..., nv), without the matrix: H A M A* H* v (SKO Eq. 3).

    One scatter and one gather. Constrained loops are open, as in `mass_matrix`.
    """
    return composite_product(hinge_tree(model, q, partition=True), v)


@model_function(q="nq", tau="nv", methods=METHODS, custom_trees=True)
def mass_matrix_solve(model: Model, q: Any, tau: Any, *, method: str = "auto") -> Any:
    """Return M⁻¹ tau, (..., nv), without M or its inverse: (1 - H ψ K)* D⁻¹ (1 - H ψ K) tau (SKO Eq. 51).

    Constrained loops are open, as in `mass_matrix`; in `forward_dynamics` they act.
    """
    nodes = hinge_tree(model, q, partition=True)
    return (
        factorised(nodes).solve(tau)
        if method == "mass_matrix"
        else Operators(nodes).mass_matrix_inverse @ tau
    )


@model_function(q="nq", custom_trees=True)
def newton_euler_factors(model: Model, q: Any) -> tuple[Any, Any]:
    """Return H A, (..., nv, rows), and node inertias M, with mass matrix (H A) M (H A)* (SKO Eq. 3).

    Rows are those of `operators(model, q)`: (H A)* maps generalized velocities to the motions of all nodes. M
    is block-diagonal; each row holds only its block, (..., rows, widest block), padded with zeros. If every
    node is a body without armature, M reshaped to (..., bodies, 6, 6) holds the bodies' inertias. Constrained
    loops are open.
    """
    ops = Operators(body_tree(model, q))
    widest = max(ops.rows.rows_of(k) for k in range(len(ops.rows)))
    M = np.zeros((ops.rows.size, widest), dtype=object)
    for k, rows in enumerate(ops.rows.slices):
        M[rows, : rows.stop - rows.start] = ops.M.entry(k, k)
    return (ops.H @ ops.A).dense(), M


@model_function(q="nq", custom_trees=True)
def innovations_factors(model: Model, q: Any, *, inverse: bool = False) -> tuple[Any, Any]:
    """Return L = 1 + H A K and D, each (..., nv, nv), with mass matrix L D L* (SKO Eq. 49).

    D is block-diagonal and det L = 1. With `inverse` the results are L⁻¹ = 1 - H ψ K and D⁻¹, with inverse
    mass matrix (L⁻¹)* D⁻¹ L⁻¹ (SKO Eq. 50 and 51). Constrained loops are open.
    """
    ops = Operators(hinge_tree(model, q, partition=True))
    if inverse:
        return ops.innovations_inverse.dense(), ops.D.inverse.dense()
    return ops.innovations_factor.dense(), ops.D.dense()


@model_function(q="nq", tau="nv", custom_trees=True)
def innovations_product(
    model: Model, q: Any, tau: Any, *, inverse: bool = False, transpose: bool = False
) -> Any:
    """Return L tau, (..., nv), in linear time without the factor L of the mass matrix (SKO Eq. 49).

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    tau : array_like, shape (..., nv)
        Vectors to multiply.
    inverse : bool, optional
        Use L⁻¹ = 1 - H ψ K (SKO Eq. 50) instead of L = 1 + H A K.
    transpose : bool, optional
        Use the transpose.

    Returns
    -------
    ndarray, shape (..., nv)
        Constrained loops are open.
    """
    ops = Operators(hinge_tree(model, q, partition=True))
    L = ops.innovations_inverse if inverse else ops.innovations_factor
    return (L.T if transpose else L) @ tau


def _compliance_options(model: Model, frames: Any, columns: Any) -> dict[str, Any]:
    options = normalize_frames(model, frames)
    return options | {"columns": None if columns is None else normalize_frames(model, columns)["frames"]}


@model_function(q="nq", options=_compliance_options, custom_trees=True)
def operational_compliance(
    model: Model, q: Any, *, frames: Sequence[str], columns: Sequence[str] | None = None
) -> Any:
    """Return J M⁻¹ J* of frames, (..., 6 n, 6 n), without J and M, by the recursion for Υ (SKO Eq. 60).

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    frames : sequence of str
        Names of n frames. J stacks `frame_jacobian` in this order with reference "body".
    columns : sequence of str, optional
        Return only the blocks for forces on these m frames, (..., 6 n, 6 m).

    Returns
    -------
    ndarray, shape (..., 6 n, 6 n)
        Accelerations of the frames per unit force on them; defined also where frames cannot move in all
        directions. Constrained loops are open.

    See Also
    --------
    operational_inertia : The inverse.
    """
    moving = [name for name in {*frames, *(columns or ())} if not is_on_ground(model, name)]
    ops = Operators(nodes_for(model, tuple(map(Weld, moving)), q, partition=True))
    if columns is None or columns == frames:
        return ops.compliance(*frames).dense()
    return (ops.B(*frames).T @ ops.Omega @ ops.B(*columns)).dense()
