"""The robots that bench/peers gives to Pinocchio and MuJoCo are ours, and so are the constraints."""

from pathlib import Path

import numpy as np
import pytest

import linkwork as lw

pytest.importorskip("pinocchio")
pytest.importorskip("mujoco")


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))


@pytest.mark.parametrize(
    "robot",
    ["iiwa14", "solo12", "g1", "talos", "tree21", pytest.param("talos_hands", marks=pytest.mark.slow)],
)
@pytest.mark.sweep(3)
def test_the_same_robot_everywhere(robot: str) -> None:
    from peers import models

    state = models.states(robot, 1)[0]
    ours = models.our_results(robot, state)
    pinocchio = models.pinocchio_results(robot, state)
    mujoco = models.mujoco_results(robot, state)
    assert set(ours) == set(pinocchio) == set(mujoco)
    assert models.difference(pinocchio, ours) < 1e-10
    assert models.difference(mujoco, ours) < 1e-10
    assert models.difference(mujoco, pinocchio) < 1e-9


@pytest.mark.parametrize("size", [3, 6])
@pytest.mark.parametrize("robot", ["iiwa14", "talos"])
@pytest.mark.sweep(4)
def test_constrained_results_in_our_conventions(robot: str, size: int) -> None:
    """Pinocchio's accelerations keep our model's frames together, and the forces on them are what is left of
    tau.
    """
    from constraint_sets import SETS
    from peers.constrained import PythonSolvers, dense

    constraints = SETS[f"iiwa14 H{size}" if robot == "iiwa14" else f"talos F6x2, hand to hand {size}"]
    model = constraints.model()
    peer = PythonSolvers(constraints)
    q, v, _, tau = peer.states[0]
    found = peer.results(0, iterations=5)
    by_hand = dense(constraints, peer.states[0], iterations=5)
    a = found["acceleration/constraintDynamics"]
    force = by_hand["force"]
    for solver in ("constraintDynamics", "lcaba"):
        np.testing.assert_allclose(
            found[f"acceleration/{solver}"], by_hand["acceleration"], atol=1e-6 * np.max(np.abs(a))
        )
    np.testing.assert_allclose(
        found["damped inverse/Cholesky"], by_hand["damped inverse"], rtol=1e-6, atol=1e-9
    )

    left = tau - lw.inverse_dynamics(model, q, v, a)
    for i, c in enumerate(constraints.constraints):
        held = force[: c.size]
        force = force[c.size :]
        pose = lw.frame_pose(model, q, frame=f"held{i}")
        R = pose[:3, :3]
        p = pose[:3, 3]
        frames = [f"held{i}", f"holder{i}"][: 1 + (c.to >= 0)]
        where = {"reference": "world" if c.size == 6 else "world_aligned"}
        V = [lw.frame_velocity(model, q, v, frame=frame, **where) for frame in frames]
        A = [
            lw.frame_acceleration(model, q, v, a, frame=frame, classical=c.size == 3, **where)
            for frame in frames
        ]
        if c.size == 6:
            error = A[0] - A[1] + crossed(*V) if c.to >= 0 else A[0]
            pushed = np.concatenate([R @ held[:3] + np.cross(p, R @ held[3:]), R @ held[3:]])
        else:
            error = (A[0] - A[1])[3:] if c.to >= 0 else A[0][3:]
            pushed = np.concatenate([np.zeros(3), R @ held])
        np.testing.assert_allclose(error, 0, atol=1e-8 * np.max(np.abs(a)))
        for sign, frame in zip((1, -1), frames):
            left = left + sign * lw.frame_jacobian(model, q, frame=frame, **where).T @ pushed
    np.testing.assert_allclose(left, 0, atol=1e-9 * np.max(np.abs(by_hand["force"])))


def crossed(V: np.ndarray, W: np.ndarray) -> np.ndarray:
    """V × W of two spatial velocities (w, v)."""
    return np.concatenate([np.cross(V[:3], W[:3]), np.cross(V[:3], W[3:]) + np.cross(V[3:], W[:3])])
