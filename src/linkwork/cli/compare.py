"""`linkwork compare`: compare the dynamics of a robot with Pinocchio and MuJoCo.

The other programs read the same file where they can, and otherwise the spanning tree of linkwork's model.
They ignore the loops of a URDF, so a robot with loops is compared as its spanning tree. Joints that represent
fixed tendons of MJCF stay.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import linkwork as lw
from linkwork.cli.robot import as_json, load_robot
from linkwork.cli.terminal import Paint, table, working
from linkwork.formats.export_mjcf_tendons import tendons_of
from linkwork.formats.mjcf_names import tendon_joint
from linkwork.interop import mujoco as from_mujoco
from linkwork.interop import pinocchio as from_pinocchio
from linkwork.interop.pinocchio_model import pinocchio_tree
from linkwork.mechanism.names import plain, printable

ROUNDING_TOL = 1e-9  # largest difference due to rounding, relative to the largest number


class Peer(NamedTuple):
    """Functions of another program in linkwork's conventions; each returns one row for a state."""

    name: str
    inverse_dynamics: Callable[..., np.ndarray]
    mass_matrix: Callable[..., np.ndarray]
    forward_dynamics: Callable[..., np.ndarray]


def run(args: argparse.Namespace) -> int:
    """Print a table of differences; return 1 if one is too large or no other program is installed."""
    robot = load_robot(args)
    model = _without_loops(robot)
    if model.constrained_loops:
        raise lw.ModelError("compare: expected --loops embed, since loops are compared as a spanning tree")
    rng = np.random.default_rng(0)
    q, v = map(np.array, zip(*(model.random_state(rng) for _ in range(args.states))))
    a, tau = rng.normal(size=(2, *v.shape))
    calls = {"inverse_dynamics": (q, v, a), "mass_matrix": (q,), "forward_dynamics": (q, v, tau)}
    with working(f"compiling the dynamics of {printable(model.name)}"):
        ours = {name: getattr(lw, name)(model, *inputs) for name, inputs in calls.items()}
    rows = []
    missing = []
    for make in (_pinocchio, _mujoco):
        try:
            peer = make(model, args)
        except (ImportError, ValueError, RuntimeError, lw.LinkworkError) as error:
            missing.append(
                f"{make.__name__[1:]}: "
                f"{plain(str(error).splitlines()[0] if str(error) else type(error).__name__)}"
            )
            continue
        for name, inputs in calls.items():
            theirs = getattr(peer, name)(*inputs)
            result = ours[name]
            difference = float(np.abs(theirs - result).max() / max(np.abs(result).max(), 1e-300))
            rows.append(
                {
                    "peer": peer.name,
                    "function": name,
                    "difference": difference,
                    "same": difference <= ROUNDING_TOL,
                }
            )
    same = bool(rows) and all(row["same"] for row in rows)
    if args.json:
        values = {
            "name": robot.name,
            "states": args.states,
            "same": same,
            "spanning_tree": model is not robot,
        }
        print(as_json({**values, "compared": rows, "missing": missing}))
    else:
        _print(robot, model, args.states, rows, missing)
    return 0 if same else 1


def _without_loops(robot: lw.Model) -> lw.Model:
    """Return a model without embedded loops, but with the couplings that represent fixed tendons."""
    tendons = {id(coupling) for coupling in tendons_of(robot).values()}
    retained = tuple(loop for loop in robot.embedded if id(loop) in tendons)
    if robot.constrained_loops or len(retained) == len(robot.embedded):
        return robot
    return replace(robot, embedded=retained, kernels={}).with_loops()


def _print(
    robot: lw.Model, model: lw.Model, states: int, rows: list[dict[str, Any]], missing: list[str]
) -> None:
    paint = Paint()
    loops = ", as a spanning tree: other programs ignore the loops of a URDF" if model is not robot else ""
    print(f"{paint(plain(robot.name), 'bold')} in {states} random states{loops}\n")
    if rows:
        lines = [("", "function", "largest relative difference", "")]
        for row in rows:
            lines.append(
                (
                    row["peer"],
                    row["function"],
                    f"{row['difference']:.1e}",
                    "same" if row["same"] else "DIFFERS",
                )
            )
        print("\n".join(table(lines, right=(2,))))
    for line in missing:
        print(paint(f"not compared with {line}", "yellow"))


def _pinocchio(model: lw.Model, args: argparse.Namespace) -> Peer:
    import pinocchio as pin

    if args.robot.lower().endswith(".urdf") and os.path.exists(args.robot):
        root = [pin.JointModelFreeFlyer()] if args.base == "free" else []
        peer = pin.buildModelFromUrdf(args.robot, *root)
        peer.gravity.linear = np.array(model.gravity)
    else:
        peer = pinocchio_tree(pin, model)
    convert = from_pinocchio.States(model.spanning_tree(), peer)
    data = peer.createData()
    passive = _passive_forces(model)
    coupled = bool(model.embedded)  # Pinocchio computes the spanning tree

    def inverse(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        all_v, all_a = v, a
        if coupled:
            all_v, all_a = lw.spanning_velocity(model, q, v), lw.spanning_acceleration(model, q, v, a)
        rows = zip(convert.q_to(q), convert.v_to(all_v), convert.v_to(all_a))
        result = convert.tau_from(np.array([pin.rnea(peer, data, *row).copy() for row in rows]))
        return (lw.independent_force(model, q, result) if coupled else result) + passive(q, v)

    def mass(q: np.ndarray) -> np.ndarray:
        result = []
        for row in convert.q_to(q):
            upper = np.triu(np.array(pin.crba(peer, data, row)))
            result.append(convert.matrix_from(upper + np.triu(upper, 1).T))
        if not coupled:
            return np.array(result)
        M = np.array([lw.independent_force(model, np.tile(x, (len(y), 1)), y) for x, y in zip(q, result)])
        M = M.swapaxes(-1, -2)
        return np.array([lw.independent_force(model, np.tile(x, (len(y), 1)), y) for x, y in zip(q, M)])

    def forward(q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        if coupled:
            bias = inverse(q, v, np.zeros_like(v))
            return np.linalg.solve(mass(q), (tau - bias)[..., None])[..., 0]
        acting = tau - passive(q, v)
        rows = zip(convert.q_to(q), convert.v_to(v), convert.tau_to(acting))
        return convert.v_from(np.array([pin.aba(peer, data, *row).copy() for row in rows]))

    return Peer("Pinocchio", inverse, mass, forward)


def _passive_forces(model: lw.Model) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function for the forces, (rows, nv), that Pinocchio does not model: springs and dampers of
    joints, spatial tendons and compensated weights.
    """
    if not (
        any(any(joint.stiffness) or any(joint.damping) for joint in model.joints)
        or model.tendons
        or model.weight_compensations
    ):
        return lambda q, v: np.zeros((len(q), model.nv))
    rigid = replace(model.without_passive_forces(), gravity=model.gravity, kernels={})
    return lambda q, v: lw.bias_force(model, q, v) - lw.bias_force(rigid, q, v)


def _mujoco(model: lw.Model, args: argparse.Namespace) -> Peer:
    import mujoco

    peer = _mujoco_model(mujoco, model, args)
    peer.opt.gravity[:] = model.gravity
    disable = mujoco.mjtDisableBit
    peer.opt.disableflags |= (
        int(disable.mjDSBL_CONSTRAINT) | int(disable.mjDSBL_CONTACT) | int(disable.mjDSBL_ACTUATION)
    )
    # these have no counterpart here, as the model's notes say
    peer.opt.density = peer.opt.viscosity = 0.0
    _leave_out_tendons(model, peer)
    convert = from_mujoco.States(model, peer)
    data = mujoco.MjData(peer)

    def at(q: np.ndarray, v: np.ndarray) -> None:
        data.qpos[:] = convert.q_to(q)
        data.qvel[:] = convert.v_to(q, v)

    def inverse(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        result = []
        for row in zip(q, v, a):
            at(*row[:2])
            data.qacc[:] = convert.a_to(*row)
            mujoco.mj_inverse(peer, data)
            result.append(convert.tau_from(row[0], data.qfrc_inverse.copy()))
        return np.array(result)

    def mass(q: np.ndarray) -> np.ndarray:
        result = []
        full = np.zeros((peer.nv, peer.nv))
        for row in q:
            at(row, np.zeros(model.nv))
            mujoco.mj_forward(peer, data)
            for k, unit in enumerate(np.eye(peer.nv)):
                mujoco.mj_mulM(peer, data, full[k], unit)
            result.append(convert.matrix_from(row, full))
        return np.array(result)

    def forward(q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        result = []
        for row in zip(q, v, tau):
            at(*row[:2])
            data.qfrc_applied[:] = convert.tau_to(row[0], row[2])
            mujoco.mj_forward(peer, data)
            result.append(convert.a_from(*row[:2], data.qacc.copy()))
        return np.array(result)

    return Peer("MuJoCo", inverse, mass, forward)


def _leave_out_tendons(model: lw.Model, peer: Any) -> None:
    """Remove forces and armatures of tendons from MuJoCo's model that have no counterpart here."""
    spatial = {tendon.name for tendon in model.tendons}
    joints = {joint.name: joint for joint in model.joints}
    for k in range(peer.ntendon):
        name = peer.tendon(k).name or f"tendon{k}"
        joint = joints.get(tendon_joint(name))
        words: tuple[str, ...] = ("stiffness", "damping", "armature") if joint is None else ()
        if name in spatial:
            words = ("armature",)
        if joint is not None:  # not a spring with a slack range, and nothing that is not linear
            words = tuple(word for word in ("stiffness", "damping") if not any(getattr(joint, word)))
        for word in words:
            getattr(peer, f"tendon_{word}")[k] = 0.0


def _mujoco_model(mujoco: Any, model: lw.Model, args: argparse.Namespace) -> Any:
    """Return MuJoCo's model of the same file, or of an MJCF export where MuJoCo cannot read the file."""
    suffix = os.path.splitext(args.robot)[1].lower() if os.path.exists(args.robot) else ""
    if suffix not in (".urdf", ".xml"):
        mechanics = replace(
            model, geometries=(), contact_pairs=(), actuators=(), kernels={}
        )  # all that is compared
        return mujoco.MjModel.from_xml_string(lw.export_mjcf(mechanics))
    spec = mujoco.MjSpec.from_file(args.robot)
    if suffix == ".urdf":
        spec.compiler.balanceinertia = False
        spec.compiler.boundmass = 0.0
        spec.compiler.boundinertia = 0.0
        spec.compiler.discardvisual = True
        spec.compiler.fusestatic = False
        for mesh in list(spec.meshes):
            for geom in [g for g in spec.geoms if g.meshname == mesh.name]:
                _delete(spec, geom)
            _delete(spec, mesh)
        for weight in model.weight_compensations:  # MuJoCo does not read Gazebo's elements
            body = spec.body(model.bodies[weight.body].name)
            if body is not None and weight.mass is None:
                body.gravcomp = weight.fraction
    if (
        args.base == "free"
        and spec.worldbody.first_body() is not None
        and not any(j.type == 0 for j in spec.joints)
    ):
        spec.worldbody.first_body().add_freejoint()
    return spec.compile()


def _delete(spec: Any, element: Any) -> None:
    """Delete an element of a specification, with this or an older version of MuJoCo."""
    if hasattr(spec, "delete"):
        spec.delete(element)
    else:
        element.delete()
