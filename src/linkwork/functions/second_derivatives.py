"""The public functions of second derivatives, on the tangent space."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms import embedded_derivatives as embedded
from linkwork.functions.model_function import model_function
from linkwork.functions.tangent import rates
from linkwork.model import Model
from linkwork.passes.differentiate import jacobian_along, jacobian_of


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6")
def inverse_dynamics_second_derivatives(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None) -> tuple[Any, ...]:
    """∂²/∂q∂q, ∂²/∂v∂v, ∂²/∂q∂v and ∂²/∂a∂q of `inverse_dynamics`, each (..., nv, nv, nv); all others vanish.

    Entry [i, j, k] of ∂²/∂x∂y is the derivative of tau[i] by x[j] and y[k]. ∂²/∂q∂q is the change of ∂tau/∂q along q, on the
    tangent space: ∂/∂q[k] of (∂tau[i]/∂q[j]). Where turns of a joint do not commute, it is not symmetric in j and k; its
    symmetric part has the second derivatives of tau along straight motions: d²/dt² of tau[i] at `integrate(q, t δ)` is the sum
    of [i, j, k] δ[j] δ[k]. ∂²/∂a∂q is the derivative of the mass matrix.

    The first derivatives are analytic, and differentiated once more in forward mode, in which entries that a tree cannot fill
    cost nothing: work grows with the third power of depth. `lw.hvp` gives products with a direction in linear time.
    """
    nv = model.nv
    n = nv * nv

    def first(x: Any) -> np.ndarray:
        found = embedded.of_inverse_dynamics(model, x, v, a, f_ext, jacobian_of, jacobian_along)
        return np.concatenate([np.ravel(part) for part in found])

    def by_v(x: Any) -> np.ndarray:
        return np.ravel(embedded.of_inverse_dynamics(model, q, x, a, f_ext, jacobian_of, jacobian_along).by_v)

    moved = jacobian_along(first, q, rates(model, q))[1]
    qq, vq, aq = (moved[k * n : (k + 1) * n].reshape(nv, nv, nv) for k in range(3))
    vv = jacobian_of(by_v, v)[1].reshape(nv, nv, nv)
    return qq, vv, np.swapaxes(vq, 1, 2), aq
