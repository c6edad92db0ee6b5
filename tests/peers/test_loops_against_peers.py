"""Mechanisms with loops in Pinocchio, and in MuJoCo with the equations of its own constraints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_loops import close, places, state_of

import linkwork as lw
from linkages import closed_by, floats, four_bar, moderate, slider_crank, tree, with_constraints
from linkwork.joints import Fixed, Free, Prismatic, Revolute, Spherical
from linkwork.mechanism.loops import Loop
from linkwork.model import GROUND, Model
from linkwork.spatial import Pose
from mechanisms import make


def ring(
    seed: int, kind: Any, *, free: bool = False, pairs: tuple[tuple[int, int], ...] = ((3, 6),)
) -> Model:
    """Two branches and what hangs on them, closed by joints of one kind; without springs and dampers."""
    rng = np.random.default_rng(seed)
    kinds = [
        "free" if free else "skew revolute",
        "revolute",
        "skew revolute",
        "spherical",
        "skew prismatic",
        "revolute",
    ]
    kinds += ["spherical", "skew revolute", "revolute"]
    t = make(rng, [-1, 0, 1, 2, 0, 4, 5, 3, 5], kinds, fixed=False, resisting=False, gravity=False)
    q = moderate(t, rng)
    loops = [closed_by(t, kind, i, j, q, rng, f"loop{n}") for n, (i, j) in enumerate(pairs)]
    return with_constraints(t, *loops)


CASES = {
    "spherical": lambda: ring(0, Spherical()),
    "fixed": lambda: ring(1, Fixed()),
    "free base, fixed": lambda: ring(2, Fixed(), free=True),
    "free base, through the ground": lambda: ring(
        3, Spherical(), free=True, pairs=((GROUND, 3), (GROUND, 6))
    ),
    "two that share bodies": lambda: ring(4, Spherical(), pairs=((3, 6), (2, 8))),
    "onto an ancestor": lambda: ring(5, Spherical(), pairs=((0, 7),)),
    "four-bar": lambda: four_bar(2, kind=Spherical()).build(),
}


# Pinocchio


def in_pinocchio(pin: Any, m: Model) -> tuple[Any, Any]:
    theirs = pin.Model()
    theirs.gravity.linear = np.array(m.gravity)
    armature = []

    def se3(T: Pose) -> Any:
        return pin.SE3(np.asarray(T.R, dtype=float), np.asarray(T.p, dtype=float))

    for j, b in zip(m.joints, m.bodies):
        if isinstance(j.kind, Revolute):
            kind = pin.JointModelRevoluteUnaligned(np.array(j.kind.axis))
        elif isinstance(j.kind, Prismatic):
            kind = pin.JointModelPrismaticUnaligned(np.array(j.kind.axis))
        else:
            kind = pin.JointModelSpherical() if isinstance(j.kind, Spherical) else pin.JointModelFreeFlyer()
        k = theirs.addJoint(j.parent + 1, kind, se3(j.place), j.name)
        theirs.appendBodyToJoint(k, pin.Inertia(b.mass, b.center, b.moment), pin.SE3.Identity())
        armature += list(j.armature)
    theirs.armature = np.array(armature)[swapped(m)]
    constraints = pin.StdVec_RigidConstraintModel()
    for c in m.embedded:
        assert isinstance(c, Loop)
        kind = pin.ContactType.CONTACT_3D if isinstance(c.kind, Spherical) else pin.ContactType.CONTACT_6D
        P = c.predecessor
        F = c.successor
        constraints.append(
            pin.RigidConstraintModel(
                kind, theirs, P.body + 1, se3(P.place), F.body + 1, se3(F.place), pin.ReferenceFrame.LOCAL
            )
        )
    return theirs, constraints


def swapped(m: Model) -> np.ndarray:
    """Free joints have their linear velocities first there."""
    order = np.arange(m.nv_spanning)
    for j in m.joints:
        if isinstance(j.kind, Free):
            order[j.v_slice] = np.roll(order[j.v_slice], 3)
    return order


@pytest.mark.parametrize("name", list(CASES))
def test_pinocchio(name: str) -> None:
    pin = pytest.importorskip("pinocchio")
    m = CASES[name]()
    _, q, v, _, tau, _, V, *_ = state_of(m)
    theirs, constraints = in_pinocchio(pin, m)
    full = np.zeros(m.nv_spanning)
    full[places(m)] = tau
    order = swapped(m)
    data = theirs.createData()
    datas = pin.StdVec_RigidConstraintData()
    for c in constraints:
        datas.append(c.createData())
    pin.initConstraintDynamics(theirs, data, constraints, datas)
    tight = pin.ProximalSettings(1e-14, 1e-10, 300)
    A = pin.constraintDynamics(theirs, data, q, V[order], full[order], constraints, datas, tight)
    a = floats(lw.forward_dynamics, m, q, v, tau, method="articulated_body")
    assert close(floats(lw.spanning_acceleration, m, q, v, a)[order], A, 1e-7)
    M = pin.crba(theirs, theirs.createData(), q)
    M = np.triu(M) + np.triu(M, 1).T
    assert close(floats(lw.mass_matrix, tree(m), q)[np.ix_(order, order)], M, 1e-10)


# MuJoCo


def in_mujoco(mujoco: Any, model: Model) -> Any:
    """MuJoCo's model, with balls at the loops. It compiles no body without mass: all masses are put in
    afterwards.
    """

    def words(x: Any) -> str:
        return " ".join(repr(float(y)) for y in np.ravel(x))

    def quaternion(R: Any) -> np.ndarray:
        found = np.zeros(4)
        mujoco.mju_mat2Quat(found, np.asarray(R, dtype=float).ravel())
        return found

    sites: dict[int, str] = {}
    equalities = ""
    for loop in model.embedded:
        assert isinstance(loop, Loop)
        for end, side in ((loop.predecessor, "P"), (loop.successor, "F")):
            sites[end.body] = (
                sites.get(end.body, "") + f'<site name="{loop.name}{side}" pos="{words(end.place.p)}"/>'
            )
        equalities += f'<connect site1="{loop.name}F" site2="{loop.name}P"/>'

    def text(k: int) -> str:
        joint = model.joints[k]
        kind = {Revolute: "hinge", Prismatic: "slide", Spherical: "ball", Free: "free"}[type(joint.kind)]
        axis = f' axis="{words(joint.kind.axis)}"' if kind in ("hinge", "slide") else ""
        armature = (
            f' armature="{words(joint.armature[0])}"'
            if kind != "free" and len(set(joint.armature)) == 1
            else ""
        )
        children = "".join(text(i) for i, other in enumerate(model.joints) if other.parent == k)
        return (
            f'<body name="{model.bodies[k].name}" pos="{words(joint.place.p)}" quat="{words(quaternion(joint.place.R))}">'
            f'<joint name="{joint.name}" type="{kind}"{axis}{armature}/>'
            f'<inertial pos="1 2 3" mass="1" fullinertia="2 2 2 .1 .2 .3"/>{sites.get(k, "")}{children}</body>'
        )

    bodies = "".join(text(k) for k, joint in enumerate(model.joints) if joint.parent == GROUND)
    options = f'<compiler angle="radian" autolimits="false"/><option gravity="{words(model.gravity)}" jacobian="dense"/>'
    world = f"<worldbody>{bodies}{sites.get(GROUND, '')}</worldbody><equality>{equalities}</equality>"
    made = mujoco.MjModel.from_xml_string(f"<mujoco>{options}{world}</mujoco>")
    for body in model.bodies:
        k = made.body(body.name).id
        moments, axes = np.linalg.eigh(body.moment)
        made.body_mass[k], made.body_inertia[k], made.body_ipos[k] = body.mass, moments, body.center
        made.body_iquat[k] = quaternion(axes * np.linalg.det(axes))
    mujoco.mj_setConst(made, mujoco.MjData(made))
    return made


@pytest.mark.parametrize(
    "name", ["spherical", "two that share bodies", "onto an ancestor", "four-bar", "slider-crank"]
)
def test_mujoco(name: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    if name == "slider-crank":
        m = slider_crank(np.random.default_rng(1))
        rest = {"damping": (0.0,), "stiffness": (0.0,), "rest": (0.0,)}
        joints = tuple(replace(j, **rest) for j in m.joints)
        m = replace(m, joints=joints, kernels={})
    else:
        m = CASES[name]()
    uneven = [j for j in m.joints if len(set(j.armature)) > 1]
    m = replace(
        m,
        joints=tuple(replace(j, armature=(0.0,) * j.nv) if j in uneven else j for j in m.joints),
        kernels={},
    )
    _, q, v, _, tau, _, V, *_ = state_of(m)
    theirs = in_mujoco(mujoco, m)
    data = mujoco.MjData(theirs)

    def there(q: np.ndarray) -> np.ndarray:
        out = q.copy()
        for j in m.joints:
            if isinstance(j.kind, Spherical):
                out[j.q_slice] = np.roll(q[j.q_slice], 1)
        return out

    def rows(q: np.ndarray) -> np.ndarray:
        data.qpos[:], data.qvel[:] = there(q), V
        mujoco.mj_forward(theirs, data)
        return np.array(data.efc_J).reshape(-1, theirs.nv)[: 3 * len(m.embedded)].copy()

    h = 1e-5
    ahead, back = (rows(floats(lw.integrate, tree(m), q, s * h * V)) for s in (1.0, -1.0))
    K = rows(q)
    k = -(ahead - back) @ V / (2 * h)
    assert np.abs(K @ V).max() < 1e-9
    M = np.zeros((theirs.nv, theirs.nv))
    mujoco.mj_fullM(theirs, data, M)
    bias = np.array(data.qfrc_bias)
    full = np.zeros(m.nv_spanning)
    full[places(m)] = tau
    KKT = np.block([[M, K.T], [K, np.zeros((len(K), len(K)))]])
    A = np.linalg.lstsq(KKT, np.concatenate([full - bias, k]), rcond=1e-12)[0][: m.nv_spanning]
    a = floats(lw.forward_dynamics, m, q, v, tau, method="mass_matrix")
    assert close(floats(lw.spanning_acceleration, m, q, v, a), A, 1e-7)
    assert close(floats(lw.bias_force, tree(m), q, V), bias, 1e-9) and close(
        floats(lw.mass_matrix, tree(m), q), M, 1e-9
    )
