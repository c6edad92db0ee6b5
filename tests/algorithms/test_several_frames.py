"""Several frames in one call: the same numbers as one after the other, and no work done twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import ModelError

CALLS: list[tuple[lw.ModelFunction, dict[str, Any]]] = [
    (lw.frame_pose, {}),
    (lw.frame_velocity, {"reference": "world"}),
    (lw.frame_acceleration, {"classical": True}),
    (lw.frame_jacobian, {"reference": "world_aligned"}),
    (lw.frame_jacobian_rate, {}),
]


@pytest.mark.parametrize("robot", ["quadruped", "mit_humanoid_leg", "planar_leg_linkage"])
def test_stacked_in_their_order(robot: str) -> None:
    """Also of rotors, whose bodies have rows of their own only where they are asked for, and of the world."""
    model = getattr(lw.robots, robot)()
    q, v = model.random_state(0)
    frames = [model.bodies[-1].name, "world", model.bodies[1].name, model.frame(model.joints[-1].name)]
    for fn, options in CALLS:
        args = [q, v, np.cos(v)][: len(fn.required)]
        found = lw.interpret(lw.lower(fn.program(model, frame=frames, **options)), *args)
        for row, frame in zip(found, frames, strict=True):
            alone = lw.interpret(lw.lower(fn.program(model, frame=frame, **options)), *args)
            assert row.shape == alone.shape and np.abs(row - alone).max() < 1e-12, (fn, frame)


def test_shapes_batches_and_one_frame() -> None:
    model = lw.robots.quadruped()
    feet = [frame.name for frame in model.frames][-2:]
    q, v = model.random_state(0)
    batch = np.tile(v, (3, 1))
    assert lw.frame_velocity(model, q, batch, frame=feet).shape == (3, 2, 6)
    assert lw.frame_velocity(model, q, batch, frame=feet[:1]).shape == (3, 1, 6)
    assert lw.frame_jacobian(model, q, frame=tuple(feet)).shape == (2, 6, model.nv)
    again = lw.frame_jacobian(model, q, frame=iter(feet))
    assert np.array_equal(again, lw.frame_jacobian(model, q, frame=[model.frame(name) for name in feet]))


def test_what_frames_share_is_computed_once() -> None:
    model = lw.robots.arm()
    two = [model.bodies[-1].name, model.bodies[-2].name]
    alone = lw.count_operations(lw.frame_jacobian, model, frame=two[0])["total"]
    assert lw.count_operations(lw.frame_jacobian, model, frame=[two[0]])["total"] == alone
    assert (
        lw.count_operations(lw.frame_pose, model, frame=two)["total"]
        < 1.5 * lw.count_operations(lw.frame_pose, model, frame=two[0])["total"]
    )


@pytest.mark.parametrize(
    ("frame", "words"), [([], "empty sequence"), (["tool", "nobody"], "'nobody'"), (3, "no frame named 3")]
)
def test_refused(frame: Any, words: str) -> None:
    model = lw.robots.arm()
    with pytest.raises(ModelError, match=words):
        lw.frame_pose(model, np.zeros(model.nq), frame=frame)
