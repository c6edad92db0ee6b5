"""Derivatives of `integrate` and `difference` on the tangent space, and of how perturbations of a motion go on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.inverse_dynamics_derivatives import Differentiate, rates
from linkwork.joints import Joint
from linkwork.spatial.constants import product


def of_integrate(kind: Joint, q: np.ndarray, v: np.ndarray, by: Differentiate) -> tuple[np.ndarray, np.ndarray]:
    """What a joint's `integrate` makes of changes of q and of v, each (nv, nv), in the tangent space where it ends."""
    end = kind.integrate(q, v)
    from_q = by(lambda x: kind.difference(end, kind.integrate(x, v)), q)[1]
    from_v = by(lambda x: kind.difference(end, kind.integrate(q, x)), v)[1]
    return product(from_q, rates(kind, q)), from_v


def of_difference(kind: Joint, q0: np.ndarray, q1: np.ndarray, by: Differentiate) -> tuple[np.ndarray, np.ndarray]:
    """What a joint's `difference` makes of changes of q0 and of q1, each (nv, nv)."""
    from_0, from_1 = by(lambda x: kind.difference(x, q1), q0)[1], by(lambda x: kind.difference(q0, x), q1)[1]
    return product(from_0, rates(kind, q0)), product(from_1, rates(kind, q1))


def of_motion(kind: Joint, q: np.ndarray, v: np.ndarray, by: Differentiate) -> np.ndarray:
    """K with δ̇ = δv + K δ for a perturbation of a joint's motion, (nv, nv): zero where v is the rate of coordinates.

    Both d/dt and δ of q are rates of q, Q v and Q δ; they commute, so Q δ̇ = Q δv + ∂(Q v) Q δ - ∂(Q δ) Q v.
    """
    Q = rates(kind, q)
    back = by(lambda x: kind.difference(q, x), q)[1]
    of_v = product(by(lambda x: kind.rate(x, v), q)[1], Q)
    dq = product(Q, v)
    of_each = [product(by(partial(_rate, kind, e), q)[1], dq) for e in np.eye(kind.nv)]
    return product(back, of_v - np.array(of_each, dtype=object).reshape(kind.nv, kind.nq).T)


def _rate(kind: Joint, v: np.ndarray, q: np.ndarray) -> np.ndarray:
    return kind.rate(q, v)


def in_blocks(joints: Any, of: Callable[[Any], tuple[np.ndarray, ...]], count: int) -> list[np.ndarray]:
    """Block-diagonal matrices, (nv, nv), of what every joint gives."""
    n = sum(joint.nv for joint in joints)
    out = [np.zeros((n, n), dtype=object) for _ in range(count)]
    for joint in joints:
        for whole, block in zip(out, of(joint)):
            whole[joint.v_slice, joint.v_slice] = block
    return out
