"""The robots that bench/peers gives to Pinocchio and MuJoCo are the ones of bench/robots.json."""

from pathlib import Path

import pytest

pytest.importorskip("pinocchio")
pytest.importorskip("mujoco")


@pytest.mark.parametrize("robot", ["iiwa14", "solo12", "g1", "talos"])
def test_the_same_robot_everywhere(robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    from peers import models

    state = models.states(robot, 1)[0]
    ours = models.our_results(robot, state)
    pinocchio, mujoco = models.pinocchio_results(robot, state), models.mujoco_results(robot, state)
    assert set(ours) == set(pinocchio) == set(mujoco)
    assert models.difference(pinocchio, ours) < 1e-10
    assert models.difference(mujoco, ours) < 1e-10
    assert models.difference(mujoco, pinocchio) < 1e-9
