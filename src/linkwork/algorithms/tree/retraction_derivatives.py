"""Derivatives of `integrate` and `difference` on the tangent space, and propagation of perturbations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.tree.inverse_dynamics_derivatives import Differentiate, rates
from linkwork.joints import Joint
from linkwork.spatial.constants import product


def of_integrate(
    kind: Joint, q: np.ndarray, v: np.ndarray, differentiate: Differentiate
) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives of a joint's `integrate` with respect to q and v, each (nv, nv).

    They are in the tangent space at the end.
    """
    end = kind.integrate(q, v)
    from_q = differentiate(lambda x: kind.difference(end, kind.integrate(x, v)), q)[1]
    from_v = differentiate(lambda x: kind.difference(end, kind.integrate(q, x)), v)[1]
    return product(from_q, rates(kind, q)), from_v


def of_difference(
    kind: Joint, q0: np.ndarray, q1: np.ndarray, differentiate: Differentiate
) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivatives of a joint's `difference` with respect to q0 and q1, each (nv, nv)."""
    from_0 = differentiate(lambda x: kind.difference(x, q1), q0)[1]
    from_1 = differentiate(lambda x: kind.difference(q0, x), q1)[1]
    return product(from_0, rates(kind, q0)), product(from_1, rates(kind, q1))


def of_motion(kind: Joint, q: np.ndarray, v: np.ndarray, differentiate: Differentiate) -> np.ndarray:
    """Return K with δ̇ = δv + K δ for a perturbation of a joint's motion, (nv, nv).

    K is zero where v is the rate of coordinates. Both d/dt and δ of q are rates of q, Q v and Q δ; they
    commute, so Q δ̇ = Q δv + ∂(Q v) Q δ - ∂(Q δ) Q v.
    """
    Q = rates(kind, q)
    inverse_rates = differentiate(lambda x: kind.difference(q, x), q)[1]
    along_v = product(differentiate(lambda x: kind.rate(x, v), q)[1], Q)
    dq = product(Q, v)
    along_units = [product(differentiate(partial(_rate, kind, e), q)[1], dq) for e in np.eye(kind.nv)]
    return product(inverse_rates, along_v - np.array(along_units, dtype=object).reshape(kind.nv, kind.nq).T)


def _rate(kind: Joint, v: np.ndarray, q: np.ndarray) -> np.ndarray:
    return kind.rate(q, v)


def in_blocks(joints: Any, of: Callable[[Any], tuple[np.ndarray, ...]], count: int) -> list[np.ndarray]:
    """Return block-diagonal matrices, (nv, nv), with blocks from each joint."""
    n = sum(joint.nv for joint in joints)
    matrices = [np.zeros((n, n), dtype=object) for _ in range(count)]
    for joint in joints:
        for matrix, block in zip(matrices, of(joint)):
            matrix[joint.v_slice, joint.v_slice] = block
    return matrices
