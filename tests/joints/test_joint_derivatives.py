"""Derivatives of `integrate` and `difference` where roots and quotients have none: at rest, and where series
begin.

The oracle is mpmath's exponential and logarithm of homogeneous matrices, and differences of these with 60
digits.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Free, Joint, Spherical

SIZES = [
    0.0,
    1e-170,
    1e-12,
    1e-8,
    1e-5,
    1e-3,
    0.0199,
    0.0201,
    0.0399,
    0.0401,
    0.499,
    0.501,
    0.999,
    1.001,
    2.0,
    3.1,
    np.pi - 1e-7,
]
JOINTS = pytest.mark.parametrize("joint", [Spherical(), Free()], ids=["spherical", "free"])
Function = Callable[[mpmath.matrix], mpmath.matrix]


def mp_pose(joint: Joint, q: mpmath.matrix) -> mpmath.matrix:
    """The homogeneous matrix of a joint's coordinates."""
    x, y, z, w = list(q)[-4:]
    s = 2 / (x * x + y * y + z * z + w * w)
    R = [
        [1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
        [s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)],
        [s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)],
    ]
    p = list(q)[:3] if isinstance(joint, Free) else [0, 0, 0]
    return mpmath.matrix([[*row, at] for row, at in zip(R, p)] + [[0, 0, 0, 1]])


def mp_integrate(joint: Joint, q: mpmath.matrix, v: mpmath.matrix) -> mpmath.matrix:
    """The pose after moving with v for one unit of time, its first three rows."""
    a, b, c, *p = [*v, 0, 0, 0]
    twist = mpmath.matrix([[0, -c, b, p[0]], [c, 0, -a, p[1]], [-b, a, 0, p[2]], [0, 0, 0, 0]])
    return mpmath.matrix(list((mp_pose(joint, q) * mpmath.expm(twist, method="taylor"))[:3, :]))


def mp_difference(joint: Joint, q0: mpmath.matrix, q1: mpmath.matrix) -> mpmath.matrix:
    T = mp_pose(joint, q0) ** -1 * mp_pose(joint, q1)
    K = (T[:3, :3] - T[:3, :3].T) / 2  # sin(angle) times the axis
    sine = mpmath.norm([K[2, 1], K[0, 2], K[1, 0]])
    cosine = (T[0, 0] + T[1, 1] + T[2, 2] - 1) / 2
    factor = mpmath.atan2(sine, cosine) / sine if sine else mpmath.mpf(1)
    W = factor * K
    r = [W[2, 1], W[0, 2], W[1, 0]]
    if isinstance(joint, Spherical):
        return mpmath.matrix(r)
    # ∫ exp(t W) dt, as a series
    V = mpmath.eye(3)
    term = mpmath.eye(3)
    for k in range(2, 90):
        term = term * W / k
        V += term
    return mpmath.matrix([*r, *mpmath.lu_solve(V, T[:3, 3])])


def mp_derivatives(f: Function, x: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """f, and its first and second derivative along d."""
    with mpmath.workdps(90):
        x = mpmath.matrix(x)
        d = mpmath.matrix(d)
        h = mpmath.mpf(10) ** -22
        low, mid, high = (f(x + k * h * d) for k in (-1, 0, 1))
        return [
            np.array([float(y) for y in r])
            for r in (mid, (high - low) / (2 * h), (high - 2 * mid + low) / h**2)
        ]


def states(joint: Joint, size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q of some length, a motion v with an angle of `size` [rad], and where it leads to, of another length."""
    rng = np.random.default_rng(7)
    q = joint.random(rng)
    v = rng.normal(size=joint.nv)
    v[:3] *= size / np.linalg.norm(v[:3])
    v[3:] *= 0.0 if size == 0.0 else 1.0
    there = q.copy() if size == 0.0 else np.asarray(joint.integrate(q, v), dtype=float)
    q[-4:] *= 1.7
    there[-4:] *= 0.6
    return q, v, there


def assert_derivatives(
    program: lw.Program, inputs: list[np.ndarray], by: str, d: np.ndarray, wanted: list
) -> None:
    """All modes along d agree with the oracle in each row, and so does the second derivative."""
    weights = np.random.default_rng(8).normal(size=program.outputs[0].size)
    forward = lw.jvp(program, by)
    dense = lw.jacobian(program, "out", by)

    def last(p: lw.Program, *more: np.ndarray) -> np.ndarray:
        return lw.interpret(
            lw.lower(p), *inputs, *(np.broadcast_to(x, (len(SIZES), *x.shape)) for x in more)
        )[-1]

    along = last(forward, d)
    bar = last(lw.vjp(program, by), weights)
    J = last(dense)
    curved = last(lw.jvp(forward, by), d, d)
    H = last(lw.jacobian(dense, f"d_out_d_{by}", by))
    values = lw.interpret(lw.lower(program), *inputs)
    few = [x[:-1].astype(np.float32) for x in inputs]  # the last size is too close to half a turn for float32
    bent = lw.interpret(lw.lower(lw.jacobian(dense, f"d_out_d_{by}", by), "float32"), *few)
    for got, want in zip(bent, (values, J, H)):
        np.testing.assert_allclose(got, want[:-1], rtol=0, atol=1e-4 * (1.0 + np.abs(want).max()))
    for row, (value, slope, bend) in enumerate(wanted):
        slopes = 1e-14 * (1.0 + np.abs(slope).max())
        bends = 1e-13 * (1.0 + np.abs(bend).max())
        said = f"at {SIZES[row]} rad"
        np.testing.assert_allclose(values[row], value, rtol=0, atol=3e-15, err_msg=said)
        np.testing.assert_allclose(along[row], slope, rtol=0, atol=slopes, err_msg=said)
        np.testing.assert_allclose(J[row] @ d, slope, rtol=0, atol=slopes, err_msg=said)
        assert abs(bar[row] @ d - weights @ slope) < slopes * np.abs(weights).sum(), said
        np.testing.assert_allclose(curved[row], bend, rtol=0, atol=bends, err_msg=said)
        np.testing.assert_allclose(H[row] @ d @ d, bend, rtol=0, atol=bends, err_msg=said)


@JOINTS
def test_integrate_by_velocities(joint: Joint) -> None:
    def f(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        T = joint.transform(joint.integrate(q, v))
        return np.block([T.R, np.reshape(T.p, (3, 1))]).ravel()

    q, v, _ = map(np.array, zip(*(states(joint, size) for size in SIZES)))
    d = np.random.default_rng(9).normal(size=joint.nv)
    wanted = [
        mp_derivatives(lambda x, q=row: mp_integrate(joint, mpmath.matrix(q), x), at, d)
        for row, at in zip(q, v)
    ]
    assert_derivatives(lw.trace(f, {"q": joint.nq, "v": joint.nv}), [q, v], "v", d, wanted)


@JOINTS
def test_difference_by_coordinates(joint: Joint) -> None:
    q, _, there = map(np.array, zip(*(states(joint, size) for size in SIZES)))
    d = np.random.default_rng(10).normal(size=joint.nq)
    wanted = [
        mp_derivatives(lambda x, q=row: mp_difference(joint, mpmath.matrix(q), x), at, d)
        for row, at in zip(q, there)
    ]
    program = lw.trace(joint.difference, {"q0": joint.nq, "q1": joint.nq})
    assert_derivatives(program, [q, there], "q1", d, wanted)
