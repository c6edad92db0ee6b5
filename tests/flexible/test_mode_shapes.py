"""Laws of frames that modes move, for every number of axes about which modes turn them: the pose's
derivative by the modal coordinates, its second derivative by time, and small deformations.
"""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints.deformation import ModeShape
from linkwork.spatial import axial

MODES = 3


def shape_about(axes: tuple[int, ...], short: bool) -> tuple[ModeShape, np.ndarray, np.ndarray]:
    """A frame that modes turn about these axes of the body, modal coordinates and their rates."""
    rng = np.random.default_rng(17)
    slope = np.zeros((3, MODES))
    slope[list(axes)] = rng.normal(size=(len(axes), MODES))
    half = rng.normal(size=(MODES, MODES, 3))
    both = half + half.transpose(1, 0, 2) if short else np.zeros_like(half)
    return ModeShape(rng.normal(size=(3, MODES)), slope, both), *rng.normal(size=(2, MODES))


def pose_of(frame: ModeShape, eta: np.ndarray) -> np.ndarray:
    pose = frame.transform(eta)
    return np.concatenate([np.asarray(pose.R).ravel(), np.asarray(pose.p).ravel()])


@pytest.mark.parametrize("short", [False, True], ids=["", "foreshortened"])
@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 1), (0, 1, 2)], ids=str)
def test_the_subspace_and_the_bias_are_derivatives_of_the_pose(axes: tuple[int, ...], short: bool) -> None:
    frame, eta, rate = shape_about(axes, short)
    pose, moved = lw.jvp_of(lambda x: pose_of(frame, x), eta, rate)
    R = pose[:9].astype(float).reshape(3, 3)
    assert np.allclose(R @ R.T, np.eye(3), atol=1e-14) and np.linalg.det(R) > 0.0
    omega = R.T @ moved[:9].astype(float).reshape(3, 3)
    V = np.concatenate([axial(omega), R.T @ moved[9:].astype(float)]).astype(float)
    assert np.allclose(omega, -omega.T, atol=1e-13)
    S = np.asarray(frame.subspace(eta), dtype=float)
    assert S.shape == (6, MODES) and np.allclose(S @ rate, V, atol=1e-13)
    change = lw.jvp_of(lambda x: np.asarray(frame.subspace(x)) @ rate, eta, rate)[1]
    assert np.allclose(np.asarray(frame.bias(eta, rate), dtype=float), change.astype(float), atol=1e-12)


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 1), (0, 1, 2)], ids=str)
def test_small_deformations_are_those_of_the_shapes(axes: tuple[int, ...]) -> None:
    """At η = 0 the frame is where the body frame is, and moves by `shape` η and `slope` η; the shortening is
    of second order, with the symmetric matrices of `short` as its second derivatives.
    """
    frame, eta, _ = shape_about(axes, True)
    assert np.array_equal(pose_of(frame, np.zeros(MODES)).astype(float), [*np.eye(3).ravel(), 0.0, 0.0, 0.0])
    S = np.asarray(frame.subspace(np.zeros(MODES)), dtype=float)
    assert np.allclose(S, np.concatenate([frame.slope, frame.shape]), atol=1e-15)
    ends = [np.asarray(frame.transform(x).p, dtype=float) for x in (eta, -eta)]
    assert np.allclose(ends[0] + ends[1], np.einsum("i,ijk,j->k", eta, frame.short, eta), atol=1e-14)


def test_a_frame_that_modes_leave_has_no_motion_of_its_own() -> None:
    still = ModeShape(np.zeros((3, MODES)), np.zeros((3, MODES)), np.zeros((MODES, MODES, 3)))
    assert still.is_still and still.units(0.5).shape == (still.nv,) == (0,)
    for k in range(3):
        moved = [np.zeros((3, MODES)), np.zeros((3, MODES)), np.zeros((MODES, MODES, 3))]
        moved[k].flat[1] = 1e-3
        assert not ModeShape(*moved).is_still
