"""Random files of what is valid and unusual, against the reference software of each format, or by the
specification.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from random_mjcf import mjcf
from random_sdf import Motion, sdf
from random_urdf import urdf

QUICK = 10  # files of each format
MANY = {"mjcf": 1000, "urdf": 10_000, "sdf": 3000}  # in the slow test


def value(function: Any, model: lw.Model, *args: Any, **options: Any) -> np.ndarray:
    """Return what a function means, over plain floats: sooner than a kernel."""
    return np.array(function.body(model, *args, **function.normalize_options(model, options)), dtype=float)


def close(found: Any, expected: Any, told: str, tolerance: float = 1e-10) -> None:
    size = max(1e-6, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * size, err_msg=told)


def check_mjcf(text: str) -> str:
    """Compare a file with MuJoCo: "", or why it is not compared."""
    mujoco = pytest.importorskip("mujoco")
    try:
        theirs = mujoco.MjModel.from_xml_string(text)
    except ValueError:
        with pytest.raises(ModelError):
            lw.load(text)
        return "refused by both"
    model = lw.load(text)
    lost = [
        line
        for line in model.report().splitlines()
        if re.search("does not act|no counterpart|in MuJoCo", line)
    ]
    if lost:
        return lost[0].partition(":")[0].strip()
    off = mujoco.mjtDisableBit
    theirs.opt.disableflags |= int(off.mjDSBL_CONSTRAINT)
    data = mujoco.MjData(theirs)
    states = lw.interop.mujoco.States(model, theirs)
    rng = np.random.default_rng(0)
    data.qpos[:], data.qvel[:] = rng.normal(size=theirs.nq), rng.normal(size=theirs.nv)
    data.ctrl[:] = rng.normal(size=theirs.nu)
    mujoco.mj_normalizeQuat(theirs, data.qpos)
    q = states.q_from(data.qpos)
    v = states.v_from(q, data.qvel)
    tau = rng.normal(size=theirs.nv)
    data.qfrc_applied[:] = states.tau_to(q, tau)
    mujoco.mj_forward(theirs, data)
    M = np.zeros((theirs.nv, theirs.nv))
    for row, unit in zip(M, np.eye(theirs.nv)):
        mujoco.mj_mulM(theirs, data, row, unit)
    close(states.matrix_to(q, value(lw.mass_matrix, model, q)), M, text)
    if theirs.nu:
        tau = tau + value(lw.actuation, model, q, v, data.ctrl.copy())
    a = states.a_from(q, v, data.qacc)
    force = value(lw.inverse_dynamics, model, q, v, a)  # no worse where M is nearly singular
    close(force, tau, text, 1e-10 * (1.0 + np.abs(M).max() * np.abs(a).max()))
    return ""


def check_urdf(text: str) -> str:
    """Compare a file with Pinocchio: "", or why it is not compared."""
    pin = pytest.importorskip("pinocchio")
    rng = np.random.default_rng(0)
    for base in ("fixed", "free"):
        root = () if base == "fixed" else (pin.JointModelFreeFlyer(),)
        theirs, model = pin.buildModelFromXML(text, *root), lw.load(text, base=base)
        if not model.nv:
            return "nothing moves"
        states = lw.interop.pinocchio.States(model, theirs)
        data = theirs.createData()
        q, v = model.random_state(rng)
        a = rng.normal(size=model.nv)
        there = states.q_to(q), states.v_to(v), states.v_to(a)
        M = np.array(pin.crba(theirs, data, there[0]))
        M = np.triu(M) + np.triu(M, 1).T
        close(value(lw.mass_matrix, model, q), states.matrix_from(M), text)
        bias = pin.nonLinearEffects(theirs, data, *there[:2]).copy()
        size = (
            np.abs(bias).max() + np.abs(M).max()
        )  # where gravity does no work, the bias is what rounding leaves
        np.testing.assert_allclose(
            value(lw.bias_force, model, q, v),
            states.tau_from(bias),
            rtol=0.0,
            atol=1e-10 * size,
            err_msg=text,
        )
        tau = pin.rnea(theirs, data, *there).copy()
        close(value(lw.inverse_dynamics, model, q, v, a), states.tau_from(tau), text)
    return ""


def check_sdf(made: tuple[str, Motion]) -> str:
    """Compare a file with the motion that it was written from."""
    text, motion = made
    model = lw.load(text)
    q, _ = model.random_state(1)
    assert model.nq == model.nv
    named = {}
    for joint in model.joints:
        names = [joint.name] if joint.nq == 1 else [f"{joint.name}_{k + 1}" for k in range(joint.nq)]
        named |= dict(zip(names, map(float, q[joint.q_slice])))
    assert sorted(named) == sorted({name for link in motion.links for name, _ in link.above}), text
    for name, pose in motion.poses(named).items():
        close(value(lw.frame_pose, model, q, frame=name), pose, text)
    M, gravity = motion.dynamics(named, np.asarray(model.gravity))
    close(value(lw.mass_matrix, model, q), M, text)
    close(value(lw.gravity_force, model, q), gravity, text, 1e-9)
    return ""


NUMBERS = (
    "lower",
    "upper",
    "max_velocity",
    "max_effort",
    "damping",
    "friction",
    "stiffness",
    "rest",
    "armature",
)


def check_round_trips(model: lw.Model, text: str) -> str:
    """Write a model as URDF and as MJCF: what is read again is the same, or the export names what it cannot
    write.
    """
    refused = ""
    q, v = model.random_state(2)
    for export in (lw.export_urdf, lw.export_mjcf):
        try:
            written = export(model)
        except ModelError as error:
            refused = str(error).rpartition(": ")[2]
            continue
        again = lw.load(written)
        assert (again.q_names, again.v_names, again.actuators) == (
            model.q_names,
            model.v_names,
            model.actuators,
        ), text
        for word in NUMBERS:
            assert [getattr(joint, word) for joint in again.joints] == [
                getattr(joint, word) for joint in model.joints
            ], text
        frames = [frame.name for frame in model.frames]
        close(*(value(lw.frame_pose, each, q, frame=frames) for each in (again, model)), text, 1e-11)
        if model.nv:
            close(*(value(lw.mass_matrix, each, q) for each in (again, model)), text, 1e-12)
            close(*(value(lw.bias_force, each, q, v) for each in (again, model)), text, 1e-12)
    return refused


TEXTS: dict[str, Any] = {"mjcf": mjcf, "urdf": urdf, "sdf": lambda seed: sdf(seed)[0]}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("format_", TEXTS)
def test_random_round_trips(format_: str, seed: int) -> None:
    text = TEXTS[format_](seed)
    check_round_trips(lw.load(text), text)


@pytest.mark.slow
@pytest.mark.parametrize("format_", TEXTS)
def test_many_random_round_trips(format_: str) -> None:
    outcomes: dict[str, int] = {}
    for seed in range(2000, 2200):
        text = TEXTS[format_](seed)
        told = check_round_trips(lw.load(text), text)
        outcomes[told] = outcomes.get(told, 0) + 1
    assert outcomes[""] > 100, outcomes


CHECKS: dict[str, tuple[Any, Any]] = {
    "mjcf": (mjcf, check_mjcf),
    "urdf": (urdf, check_urdf),
    "sdf": (sdf, check_sdf),
}


@pytest.mark.parametrize("seed", range(QUICK))
@pytest.mark.parametrize("format_", CHECKS)
def test_random_files(format_: str, seed: int) -> None:
    make, check = CHECKS[format_]
    check(make(seed))


@pytest.mark.slow
@pytest.mark.parametrize("format_", CHECKS)
def test_many_random_files(format_: str) -> None:
    make, check = CHECKS[format_]
    outcomes: dict[str, int] = {}
    for seed in range(1000, 1000 + MANY[format_]):
        told = check(make(seed))
        outcomes[told] = outcomes.get(told, 0) + 1
    assert outcomes[""] > 0.7 * MANY[format_], outcomes
