"""Results of rollouts as tuples."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import linkwork as lw
from linkwork.simulation.status import has_status

COPIES = {
    "_replace": lambda result: result._replace(status=result.status),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda result: pickle.loads(pickle.dumps(result)),
}


@pytest.mark.parametrize("duplicate", COPIES)
@pytest.mark.parametrize("robot", ["arm", "four_bar"])
def test_copies_keep_all_attributes(duplicate: str, robot: str) -> None:
    model = getattr(lw.robots, robot)()
    q, v = model.random_state(0)
    result = lw.rollout(model, q, v, dt=1e-3, steps=3)
    copied = COPIES[duplicate](result)
    assert type(copied) is lw.Rollout
    for name in ("q", "v", "status", "steps", "causes", "impulses", "residual", "iterations"):
        np.testing.assert_array_equal(getattr(copied, name), getattr(result, name))


def test_replace_changes_named_attributes_only() -> None:
    arm = lw.robots.arm()
    result = lw.rollout(arm, arm.neutral(), np.zeros(arm.nv), dt=1e-3, steps=3)
    changed = result._replace(steps=np.array(7), status=np.array(2))
    assert changed.steps == 7
    assert changed.status == 2
    assert changed.q is result.q
    assert result.steps == 3
    with pytest.raises(ValueError, match="speed"):
        result._replace(speed=1.0)


def test_rollouts_without_contacts_have_no_impulses() -> None:
    arm = lw.robots.arm()
    assert lw.rollout(arm, arm.neutral(), np.zeros(arm.nv), dt=1e-3, steps=1).impulses is None


def test_has_status_is_isin() -> None:
    status = np.array([int(each) for each in lw.Status])
    for kinds in ((), (lw.Status.OK,), (lw.Status.OK, lw.Status.STOPPED), tuple(lw.Status)):
        assert has_status(status, kinds).tolist() == np.isin(status, kinds).tolist()
