"""Comparisons of generated files with the reference software of each format, or with the motion that a file was
written from.

    PYTHONPATH=src:tests/helpers python tests/helpers/file_checks.py mjcf --files 100000 --seed 0
"""

from __future__ import annotations

import argparse
import contextlib
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.loops import closing
from linkwork.errors import LinkworkError, ModelError
from linkwork.formats import mjcf_child, mjcf_document
from linkwork.formats.mjcf_names import body_names, joint_names
from linkwork.formats.mjcf_process import Compiled, CompilerError
from linkwork.mechanism.actuator_laws import unsupported_reason
from linkwork.sko.prepare.trees import tree
from random_mjcf import mjcf_folder
from random_sdf import Motion, sdf
from random_urdf import urdf

try:
    import mujoco
    import pinocchio as pin
except ImportError:  # checks that need them are skipped
    pass


def value(function: Any, model: lw.Model, *args: Any, **options: Any) -> np.ndarray:
    """Return what a function means, over plain floats: sooner than a kernel."""
    return np.array(function.body(model, *args, **function.normalize_options(model, options)), dtype=float)


def spanning_map(model: lw.Model, q: Any) -> np.ndarray:
    """Return G, (nv_spanning, nv): spanning velocities of unit independent velocities."""
    prepared = tree(model, q)
    units = np.eye(sum(joint.nv for joint in model.joints))
    return np.array([closing.independent_force(prepared, unit) for unit in units], dtype=float)


def close(found: Any, expected: Any, told: str, tolerance: float = 1e-10) -> None:
    # terms of the order of 1 cancel in what is nearly zero
    size = max(1e-2, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * size, err_msg=told)


@contextlib.contextmanager
def compiled_here() -> Iterator[None]:
    """Run MuJoCo's compiler for MJCF in this process, which takes 5 ms instead of 100 ms for a file.

    The same code runs as in the other process, without limits of memory and time.
    """

    def compile_mjcf(
        xml: str, models: dict[str, str], meshes: dict[str, list[str]], *, free: bool
    ) -> Compiled:
        request = {"xml": xml, "models": models, "meshes": meshes, "free": free, "memory": 0, "seconds": 0}
        try:
            return Compiled(*mjcf_child.compiled(request))
        except (ValueError, mujoco.FatalError, mjcf_child.NeededMesh) as error:
            raise CompilerError(f"MuJoCo's compiler: {error}") from None

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of MuJoCo, on what it deprecates
        patch.setattr(mjcf_document, "compile_mjcf", compile_mjcf)
        patch.setattr(mjcf_child, "restrict", lambda memory, seconds: None)
        yield


@contextlib.contextmanager
def written(files: dict[str, str]) -> Iterator[str]:
    """Write files into a folder, and yield the path of the first."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text)
        yield str(Path(folder, next(iter(files))))


def loaded(files: str | dict[str, str]) -> lw.Model:
    """Return the model of a text, or of the first of several files."""
    if isinstance(files, str):
        return lw.load(files)
    with written(files) as path:
        return lw.load(path)


REPORTED = "not supported|supported only|no counterpart|mocap|in MuJoCo$|in MuJoCo:"  # notes on what changes the motion


def check_mjcf(files: dict[str, str]) -> str:
    """Compare files with MuJoCo: "", or why they are not compared."""
    pytest.importorskip("mujoco")
    told = "\n".join(f"{name}: {text}" for name, text in files.items())
    with written(files) as path:
        try:
            theirs = mujoco.MjModel.from_xml_path(path)
        except ValueError as error:
            with pytest.raises(ModelError):
                lw.load(path)
            return f"refused by both: {_kind_of(error)}"
        try:
            model = lw.load(path)
        except LinkworkError as error:
            if theirs.neq and re.search(
                "cannot be closed|is open by|no degree of freedom|Jacobian|singular|redundant equations",
                str(error),
            ):
                return f"refused: {_kind_of(error)}"
            raise
    lost = [line for line in model.report().splitlines() if re.search(REPORTED, line)]
    changed = [line for line in lost if not re.search("the actuator is ignored", line)]
    data = mujoco.MjData(theirs)
    rng = np.random.default_rng(0)
    q, v = model.random_state(rng)
    a = rng.normal(size=model.nv)
    data.act[:] = rng.normal(size=theirs.na)
    data.ctrl[:] = rng.normal(size=theirs.nu)
    differs = dynamics_differ(model, theirs, data, (q, v, a), told, compare=not changed)
    _compare_places(model, q, theirs, data, told)
    _compare_limits(model, theirs, told)
    _compare_keyframes(model, theirs, told)
    if changed:
        return changed[0].partition(":")[0].strip()
    return differs or (f"without actuators: {lost[0].partition(':')[0].strip()}" if lost else "")


def dynamics_differ(
    model: lw.Model,
    theirs: Any,
    data: Any,
    state: tuple[Any, Any, Any],
    told: str,
    *,
    compare: bool = True,
    actuators: bool = True,
) -> str:
    """Compare forces of actuators, mass matrix and inverse dynamics with MuJoCo, without constraints.

    `data` gets the state q, v and a. `compare`: not only the forces of `actuators`.
    """
    q, v, a = state
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    states = lw.interop.mujoco.States(model, theirs)
    select = _their_velocities(model)
    v_s, a_s = (value(lw.spanning_velocity, model, q, v), value(lw.spanning_acceleration, model, q, v, a))
    G = spanning_map(model, q)[select]
    data.qpos[:] = states.q_to(q)
    data.qvel[:] = states.v_to(q, v_s[select])
    data.qacc[:] = qacc = states.a_to(q, v_s[select], a_s[select])
    mujoco.mj_forward(theirs, data)
    if actuators:
        _compare_actuators(model, q, v, theirs, data, states, G, told)
    if not model.nv:
        return "nothing moves"
    if not compare:
        return ""
    M = np.zeros((theirs.nv, theirs.nv))
    for row, unit in zip(M, np.eye(theirs.nv)):
        mujoco.mj_mulM(theirs, data, row, unit)
    close(value(lw.mass_matrix, model, q), G.T @ states.matrix_from(q, M) @ G, told)
    data.qacc[:] = qacc
    mujoco.mj_inverse(theirs, data)
    force = G.T @ states.tau_from(q, data.qfrc_inverse)
    size = 1e-10 * (1.0 + np.abs(M).max() * np.abs(qacc).max() + np.abs(data.qfrc_inverse).max())
    np.testing.assert_allclose(
        value(lw.inverse_dynamics, model, q, v, a), force, rtol=0.0, atol=size, err_msg=told
    )
    return ""


def _compare_keyframes(model: lw.Model, theirs: Any, told: str) -> None:
    """Compare states that the file names."""
    states = lw.interop.mujoco.States(model, theirs)
    select = _their_velocities(model)
    for k in range(theirs.nkey):
        key = model.keyframes[theirs.key(k).name or f"key{k}"]
        close(states.q_to(key.q), theirs.key_qpos[k], told)
        close(states.v_to(key.q, key.v[select]), theirs.key_qvel[k], told)
        if theirs.nu == len(model.actuators):
            close(key.controls, theirs.key_ctrl[k], told)
            places = theirs.actuator_actadr
            x = [theirs.key_act[k][at] if at >= 0 else 0.0 for at in places]
            close(key.activations, x, told)


def _kind_of(error: Exception) -> str:
    """Return an error without its numbers and names."""
    return re.sub(r"'[^']*'|\d\S*|line.*|/\S*", "", str(error).partition("\n")[0].rpartition(">: ")[2])[:70]


def _their_velocities(model: lw.Model) -> list[int]:
    """Return the spanning velocities that MuJoCo has too, in the order of `States`."""
    tendons = {loop.name for loop in model.loops} & {joint.name for joint in model.joints}
    spanning = [name for joint in model.joints for name in joint.v_names]
    ours = [name for joint in model.joints if joint.name not in tendons for name in joint.v_names]
    names = model.v_names if tendons and sorted(ours) == sorted(model.v_names) else ours
    return [spanning.index(name) for name in names]


def _compare_places(model: lw.Model, q: Any, theirs: Any, data: Any, told: str) -> None:
    """Compare poses of bodies, sites and shapes."""
    bodies = body_names([theirs.body(k).name for k in range(theirs.nbody)])[1:]
    if not bodies:
        return
    poses = value(lw.frame_pose, model, q, frame=bodies)
    expected = np.tile(np.eye(4), (len(bodies), 1, 1))
    expected[:, :3, :3] = data.xmat[1:].reshape(-1, 3, 3)
    expected[:, :3, 3] = data.xpos[1:]
    close(poses, expected, told)
    sites = [theirs.site(k).name for k in range(theirs.nsite)]
    sites = [f"{name}_site" if name in bodies else name for name in sites]
    named = [k for k, name in enumerate(sites) if name and name in {frame.name for frame in model.frames}]
    if named:
        poses = value(lw.frame_pose, model, q, frame=[sites[k] for k in named])
        close(poses[:, :3, :3], data.site_xmat[named].reshape(-1, 3, 3), told)
        close(poses[:, :3, 3], data.site_xpos[named], told)
    assert len(model.geometries) == theirs.ngeom, told
    everywhere = dict(zip(bodies, expected))
    for k, shape in enumerate(
        model.geometries.values() if hasattr(model.geometries, "values") else model.geometries
    ):
        if theirs.geom_type[k] == mujoco.mjtGeom.mjGEOM_MESH or theirs.geom_dataid[k] >= 0:
            continue
        name = bodies[theirs.geom_bodyid[k] - 1] if theirs.geom_bodyid[k] else None
        body = model.bodies[shape.body].name if shape.body >= 0 else None
        T = np.eye(4)
        if body is not None:
            T = everywhere[body] if body in everywhere else value(lw.frame_pose, model, q, frame=body)
        R = T[:3, :3] @ shape.place.R
        close(R, data.geom_xmat[k].reshape(3, 3), f"geom {k} of {name}: {told}")
        close(T[:3, 3] + T[:3, :3] @ shape.place.p, data.geom_xpos[k], f"geom {k} of {name}: {told}")


def _compare_limits(model: lw.Model, theirs: Any, told: str) -> None:
    """Compare limits and friction of hinges and slides."""
    bodies = body_names([theirs.body(k).name for k in range(theirs.nbody)])
    names = joint_names([theirs.joint(k).name for k in range(theirs.njnt)], bodies, theirs.jnt_bodyid)
    acts = not theirs.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    spatial = {tendon.name: tendon for tendon in model.tendons}
    for k in range(theirs.ntendon):
        tendon = spatial.get(theirs.tendon(k).name)
        if tendon is not None and theirs.tendon_limited[k] and acts:
            close(tendon.range, theirs.tendon_range[k], told)
        assert tendon is None or tendon.limited == bool(theirs.tendon_limited[k] and acts), told
    for k, name in enumerate(names):
        joint = model.joint(name)
        if theirs.jnt_type[k] == mujoco.mjtJoint.mjJNT_BALL:
            limit = theirs.jnt_range[k].max() if acts and theirs.jnt_limited[k] else np.inf
            assert joint.max_angle == limit, told
        if joint.nv > 1:
            continue
        limits = (-np.inf, np.inf)
        if acts and theirs.jnt_limited[k]:
            limits = tuple(theirs.jnt_range[k] - theirs.qpos0[theirs.jnt_qposadr[k]])
        close(
            [*joint.lower, *joint.upper] if np.isfinite(limits).all() else [0.0],
            limits if np.isfinite(limits).all() else [0.0],
            told,
        )
        close(joint.damping, 0.0 * theirs.dof_damping[theirs.jnt_dofadr[k]] + joint.damping, told)


def _compare_actuators(
    model: lw.Model, q: Any, v: Any, theirs: Any, data: Any, states: Any, G: Any, told: str
) -> None:
    """Compare joint forces of the actuators that are read."""
    kinds = {joint.name: joint.kind for joint in model.joints}
    able = [k for k, each in enumerate(model.actuators) if not unsupported_reason(each, kinds)]
    if not able:
        return
    selected = [model.actuators[k] for k in able]
    if theirs.jnt_actfrclimited.any() and (len(able) < theirs.nu or "asymmetric" in model.report()):
        return  # the sum of all is limited
    force = np.zeros(theirs.nv)
    moment = np.zeros((theirs.nu, theirs.nv))
    mujoco.mju_sparse2dense(
        moment, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
    )
    force = moment[able].T @ data.actuator_force[able] if len(able) < theirs.nu else data.qfrc_actuator
    x = np.zeros(len(able))
    for n, k in enumerate(able):
        if theirs.actuator_actadr[k] >= 0:
            x[n] = data.act[theirs.actuator_actadr[k]]
    tau = value(lw.actuation, model, q, v, data.ctrl[able].copy(), x, actuators=selected)
    close(tau, G.T @ states.tau_from(q, force), told, 1e-9)


def check_urdf(text: str) -> str:
    """Compare a file with Pinocchio: "", or why it is not compared."""
    pytest.importorskip("pinocchio")
    rng = np.random.default_rng(0)
    for base in ("fixed", "free"):
        root = () if base == "fixed" else (pin.JointModelFreeFlyer(),)
        model = lw.load(text, base=base)
        assert not re.search("unknown|not supported|ignored", model.report()), model.report()
        theirs = pin.buildModelFromXML(text, *root)
        q, v = model.random_state(rng)
        _compare_joints(model, q, text)
        if not model.nv:
            return "nothing moves"
        states = lw.interop.pinocchio.States(model, theirs)
        data = theirs.createData()
        a = rng.normal(size=model.nv)
        v_s, a_s = value(lw.spanning_velocity, model, q, v), value(lw.spanning_acceleration, model, q, v, a)
        G = spanning_map(model, q)
        there = states.q_to(q), states.v_to(v_s), states.v_to(a_s)
        M = np.array(pin.crba(theirs, data, there[0]))
        M = states.matrix_from(np.triu(M) + np.triu(M, 1).T)
        M += np.diag([x for joint in model.joints for x in np.broadcast_to(joint.armature, joint.nv)])
        close(value(lw.mass_matrix, model, q), G.T @ M @ G, text)
        passive = np.zeros(len(v_s))
        for joint in model.joints:
            if joint.nv:
                passive[joint.v_slice] = (
                    joint.damping * v_s[joint.v_slice] + joint.armature * a_s[joint.v_slice]
                )
        tau = G.T @ (states.tau_from(pin.rnea(theirs, data, *there)) + passive)
        size = 1e-10 * (
            np.abs(M).max() * (1.0 + np.abs(a_s).max() + np.abs(v_s).max() ** 2) + np.abs(tau).max()
        )
        found = value(lw.inverse_dynamics, model, q, v, a)
        np.testing.assert_allclose(found, tau, rtol=0.0, atol=size, err_msg=text)
        pin.framesForwardKinematics(theirs, data, there[0])
        links = [body.name for body in model.bodies if theirs.existBodyName(body.name)]
        poses = value(lw.frame_pose, model, q, frame=links)
        expected = [data.oMf[theirs.getFrameId(name, pin.FrameType.BODY)].homogeneous for name in links]
        close(poses, np.array(expected), text)
    return ""


def _compare_joints(model: lw.Model, q: Any, text: str) -> None:
    """Compare limits, passive elements, rotors and couplings of joints with the elements of a URDF."""
    root = ElementTree.fromstring(text)
    rotors: dict[str, float] = {}
    for transmission in root.iter("transmission"):
        (joint,) = (element.get("name", "") for element in transmission.iter("joint"))
        ratio, rotor = (
            float(next(transmission.iter("{http://drake.mit.edu}" + tag)).get("value", "0"))
            for tag in ("gear_ratio", "rotor_inertia")
        )
        rotors[joint] = ratio**2 * rotor
    for element in root.findall("joint"):
        type_, name = element.get("type"), element.get("name", "")
        if type_ not in ("revolute", "continuous", "prismatic"):
            continue
        joint = model.joint(name)
        limit = element.find("limit")
        words = {} if limit is None else {key: float(x) for key, x in limit.attrib.items()}
        bounds = [words.get("lower", 0.0), words.get("upper", 0.0)]
        if type_ == "continuous" or bounds == [0.0, 0.0]:
            bounds = [-np.inf, np.inf]
        assert [*joint.lower, *joint.upper] == bounds, f"{name}: {text}"
        assert [*joint.max_effort, *joint.max_velocity] == [
            words.get("effort", np.inf),
            words.get("velocity", np.inf),
        ], f"{name}: {text}"
        dynamics = element.find("dynamics")
        values = [
            0.0 if dynamics is None else float(dynamics.get(word, "0")) for word in ("damping", "friction")
        ]
        assert [*joint.damping, *joint.friction] == values, f"{name}: {text}"
        close(joint.armature, [rotors.get(name, 0.0)], f"{name}: {text}")
        mimic = element.find("mimic")
        if mimic is not None:
            (leader,) = q[model.joint(mimic.get("joint", "")).q_slice]
            law = float(mimic.get("multiplier", "1")) * leader + float(mimic.get("offset", "0"))
            np.testing.assert_allclose(
                q[joint.q_slice], [law], rtol=0.0, atol=1e-12, err_msg=f"{name}: {text}"
            )


def check_sdf(made: tuple[dict[str, str], Motion]) -> str:
    """Compare files with the motion that they were written from."""
    files, motion = made
    told = "\n".join(f"{name}: {text}" for name, text in files.items())
    model = loaded(files)
    rng = np.random.default_rng(1)
    q, v = model.random_state(rng)
    a = rng.normal(size=model.nv)
    steps = motion.steps()
    moving = [joint for joint in model.joints if joint.nv]
    parts: dict[str, tuple[int, ...]] = {}  # of every step, its velocities here
    by_name = {}
    for joint in moving:
        names = [joint.name] if joint.nv != 2 else [f"{joint.name}_1", f"{joint.name}_2"]
        for k, name in enumerate(names):
            columns = np.arange(joint.v_start, joint.v_start + joint.nv).reshape(len(names), -1)[k]
            parts[name] = tuple(columns.tolist())
            by_name[name] = q[joint.q_slice].reshape(len(names), -1)[k]
    assert sorted(by_name) == sorted(steps), told
    assert np.allclose(model.gravity, motion.gravity, rtol=0.0, atol=1e-15), told
    names = [link.name for link in motion.links] + [*motion.frames]
    poses = motion.poses(by_name)
    found = value(lw.frame_pose, model, q, frame=names)
    close(found, np.array([poses[name] for name in names]), told)
    limits = {joint.name: joint for joint in moving if joint.nv == 1}
    for name, joint in limits.items():
        if name in motion.limits:
            values = (joint.lower[0], joint.upper[0], joint.max_effort[0], joint.max_velocity[0])
            assert values == motion.limits[name], f"{name}: {values}, {motion.limits[name]}: {told}"
    for follower, leader, factor, offset in motion.couplings:
        close(by_name[follower], factor * by_name[leader] + offset, told)
    if not model.nv:
        return "nothing moves"
    v_s = value(lw.spanning_velocity, model, q, v)
    a_s = value(lw.spanning_acceleration, model, q, v, a)
    given = [{name: x[list(columns)] for name, columns in parts.items()} for x in (v_s, a_s)]
    M, tau, starts = motion.dynamics(by_name, *given)
    order = [start for name, start in starts.items() for start in range(start, start + steps[name].size)]
    here = [column for name in starts for column in parts[name]]
    G = spanning_map(model, q)[here]
    close(value(lw.mass_matrix, model, q), G.T @ M[np.ix_(order, order)] @ G, told)
    size = 1e-10 * (np.abs(M).max() * (1.0 + np.abs(a_s).max() + np.abs(v_s).max() ** 2) + np.abs(tau).max())
    np.testing.assert_allclose(
        value(lw.inverse_dynamics, model, q, v, a), G.T @ tau[order], rtol=0.0, atol=size, err_msg=told
    )
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
        losses: list[str] = []
        try:
            written = _written_without(export, model, losses)
        except ModelError as error:
            refused = str(error).rpartition(": ")[2]
            continue
        if losses and export is lw.export_mjcf:
            refused = f"with losses: {', '.join(losses)}"
        again = lw.load(written)
        assert [joint.name for joint in again.joints] == [joint.name for joint in model.joints], text
        assert (again.q_names, again.v_names, again.actuators) == (
            model.q_names,
            model.v_names,
            model.actuators,
        ), text
        assert [loop.name for loop in again.loops] == [loop.name for loop in model.loops], text
        assert again.gravity == model.gravity and [*again.keyframes] == [*model.keyframes], text
        for name, key in model.keyframes.items():
            close(again.keyframes[name].q, key.q, text, 1e-12)
            close(again.keyframes[name].v, key.v, text, 1e-12)
        for word in NUMBERS:
            assert [getattr(joint, word) for joint in again.joints] == [
                getattr(joint, word) for joint in model.joints
            ], text
        frames = [frame.name for frame in model.frames]
        close(*(value(lw.frame_pose, each, q, frame=frames) for each in (again, model)), text, 1e-11)
        if model.nv:
            close(*(value(lw.mass_matrix, each, q) for each in (again, model)), text, 1e-12)
            close(*(value(lw.bias_force, each, q, v) for each in (again, model)), text, 1e-12)
        kinds = {type(joint.kind).__name__ for joint in model.joints}
        same = {*losses} <= {"collision shapes", "actuators"}
        if export is lw.export_mjcf and same and kinds <= {"Revolute", "Prismatic", "Spherical", "Free"}:
            theirs = mujoco.MjModel.from_xml_string(written)
            data = mujoco.MjData(theirs)
            data.ctrl[:] = np.arange(theirs.nu)
            forces = "actuators" not in losses
            dynamics_differ(model, theirs, data, (q, v, v[::-1]), f"{text} as {written}", actuators=forces)
    return refused


def _written_without(export: Any, model: lw.Model, losses: list[str]) -> str:
    """Write a model, and accept each loss that the export names, which is added to `losses`."""
    while True:
        try:
            return str(export(model, allow_loss=losses) if losses else export(model))
        except ModelError as error:
            named = re.search(r"allow_loss=\['([^']*)'\]", str(error))
            if named is None or named[1] in losses:
                raise
            losses.append(named[1])


def _check_round_trips(files: str | dict[str, str]) -> str:
    try:
        model = loaded(files)
    except LinkworkError as error:
        return f"refused: {_kind_of(error)}"
    return check_round_trips(model, str(files))


FILES: dict[str, Callable[[int], Any]] = {"mjcf": mjcf_folder, "urdf": urdf, "sdf": lambda seed: sdf(seed)[0]}
CHECKS: dict[str, tuple[Callable[[int], Any], Callable[[Any], str]]] = {
    "mjcf": (mjcf_folder, check_mjcf),
    "urdf": (urdf, check_urdf),
    "sdf": (sdf, check_sdf),
    **{f"{name} round trips": (files, _check_round_trips) for name, files in FILES.items()},
}


def sweep(format_: str, files: int, seed: int, seconds: float = np.inf) -> tuple[Counter[str], list[str]]:
    """Return how many files had each outcome, and what is wrong in others.

    It ends early when it has taken so many `seconds` of processor time.
    """
    make, check = CHECKS[format_]
    outcomes: Counter[str] = Counter()
    wrong = []
    with compiled_here():
        for k in range(seed, seed + files):
            if time.process_time() > seconds:
                break
            try:
                outcomes[check(make(k)) or "compared"] += 1
            except Exception as error:  # the sweep goes on
                outcomes["WRONG"] += 1
                wrong.append(f"seed {k}: {type(error).__name__}: {str(error)[:400]}")
    return outcomes, wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("format", choices=CHECKS)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf, help="of processor time, at most")
    args = parser.parse_args()
    outcomes, wrong = sweep(args.format, args.files, args.seed, args.seconds)
    for outcome, count in outcomes.most_common():
        print(f"{count:7d}  {outcome}")
    for line in wrong:
        print("WRONG", line)


if __name__ == "__main__":
    main()
