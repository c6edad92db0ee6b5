"""Public function of second derivatives on the tangent space."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.loops import embedded_derivatives as embedded
from linkwork.compiler.autodiff.in_trace import jacobian_along, jacobian_of
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.engine.tangent import rates
from linkwork.model import Model


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", custom_trees=True)
def inverse_dynamics_second_derivatives(
    model: Model, q: Any, v: Any, a: Any, f_ext: Any = None
) -> tuple[Any, ...]:
    """Return second derivatives of `inverse_dynamics` by q q, v v, q v and a q, each (..., nv, nv, nv).

    Parameters
    ----------
    q, v, a, f_ext
        As in `inverse_dynamics`.

    Returns
    -------
    tuple of ndarray, shapes (..., nv, nv, nv)
        ∂²/∂q∂q, ∂²/∂v∂v, ∂²/∂q∂v and ∂²/∂a∂q; all others vanish. Entry [i, j, k] of ∂²/∂x∂y is the derivative
        of tau[i] with respect to x[j] and y[k]. ∂²/∂a∂q is the derivative of the mass matrix.

    See Also
    --------
    hvp : Products with a direction in linear time.

    Notes
    -----
    ∂²/∂q∂q is the change of ∂tau/∂q along q on the tangent space: ∂/∂q[k] of (∂tau[i]/∂q[j]). Where rotations
    of a joint do not commute it is not symmetric in j and k. Its symmetric part gives second derivatives
    along geodesics: d²/dt² of tau[i] at `integrate(q, t δ)` is the sum of [i, j, k] δ[j] δ[k].

    The first derivatives are analytic and differentiated once more in forward mode, in which entries that a
    tree cannot fill cost nothing: work grows with the third power of depth. Constrained loops are open.
    """
    nv = model.nv
    block = nv * nv

    def first(x: Any) -> np.ndarray:
        parts = embedded.of_inverse_dynamics(model, x, v, a, f_ext, jacobian_of, jacobian_along)
        return np.concatenate([np.ravel(part) for part in parts])

    def by_v(x: Any) -> np.ndarray:
        return np.ravel(embedded.of_inverse_dynamics(model, q, x, a, f_ext, jacobian_of, jacobian_along).by_v)

    second = jacobian_along(first, q, rates(model, q))[1]
    qq, vq, aq = (second[k * block : (k + 1) * block].reshape(nv, nv, nv) for k in range(3))
    vv = jacobian_of(by_v, v)[1].reshape(nv, nv, nv)
    return qq, vv, np.swapaxes(vq, 1, 2), aq
