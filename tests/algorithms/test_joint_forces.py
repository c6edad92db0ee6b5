"""What tree joints transmit: Newton's and Euler's laws for each body by itself, statics by hand, and
Pinocchio.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_loops import along, close, state

import linkwork as lw
from linkages import CATALOGUE, floats, numbers, poses, tree
from linkwork.joints import (
    Cylindrical,
    Fixed,
    Gimbal,
    Joint,
    Planar,
    PointOnLine,
    Prismatic,
    Revolute,
    Rod,
    Spherical,
)
from linkwork.mechanism import Loop
from linkwork.model import GROUND, Model, ModelBuilder
from linkwork.sko.prepare.rotors import lumped
from linkwork.spatial import Inertia, Pose

every = pytest.mark.parametrize("name", list(CATALOGUE))
some = pytest.mark.sweep(6)  # of laws that take long


def to_world(T: Pose, f: Any) -> np.ndarray:
    """A force given in a frame, at the world's origin."""
    R = numbers(T.R)
    p = numbers(T.p)
    return np.concatenate([R @ f[:3] + np.cross(p, R @ f[3:]), R @ f[3:]])


def momentum(m: Model, k: int, q: Any, v: Any) -> Any:
    """[l, p] of one body about the world's origin."""
    body = m.bodies[k]
    T = poses(m, q)[k]
    V = lw.frame_velocity.body(m, q, v, frame=body.name)
    return T.gather(Inertia.rigid(body.mass, body.center, body.moment) @ V)


def missing(
    m: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray, V: np.ndarray, f: np.ndarray, F: np.ndarray
) -> np.ndarray:
    """What each body's balance lacks, besides gravity, f and the forces F of tree joints, at the world's
    origin.
    """
    T = poses(m, q)
    out = np.zeros((len(m.bodies), 6))
    for k, body in enumerate(m.bodies):
        change = along(m, lambda q, v, k=k: momentum(m, k, q, v), q, V, v, a)
        weight = body.mass * np.array(m.gravity)
        center = numbers(T[k].point(body.center))
        out[k] += (
            change
            - np.concatenate([np.cross(center, weight), weight])
            - to_world(T[k], f[k])
            - to_world(T[k], F[k])
        )
        if m.joints[k].parent != GROUND:
            out[m.joints[k].parent] += to_world(T[k], F[k])
    return out


def in_joints(m: Model, q: np.ndarray, V: np.ndarray, A: np.ndarray, F: np.ndarray) -> np.ndarray:
    """What drives each joint: its force along its velocities, and what spring, damper and armature take."""
    found = []
    for k, j in enumerate(m.joints):
        stretch = (
            j.kind.difference(j.kind.neutral(), q[j.q_slice]) - np.array(j.rest)
            if any(j.stiffness)
            else np.zeros(j.nv)
        )
        taken = (
            np.array(j.damping) * V[j.v_slice]
            + np.array(j.armature) * A[j.v_slice]
            + np.array(j.stiffness) * stretch
        )
        found.append(numbers(j.kind.subspace(q[j.q_slice])).T @ F[k] + numbers(taken))
    return np.concatenate(found)


def free_motions(kind: Joint, P: Pose, F: Pose) -> list[np.ndarray]:
    """Motions that a loop joint allows its successor, as seen from its predecessor: about and of the
    successor's origin.
    """
    none = np.zeros(3)
    turns = [np.concatenate([e, np.zeros(3)]) for e in np.eye(3)]
    u = numbers(P.R) @ np.array(getattr(kind, "axis", (0.0, 0.0, 1.0)))
    about = np.concatenate([u, none])
    moving = np.concatenate([none, u])
    if isinstance(kind, Fixed):
        return []
    if isinstance(kind, (Spherical, Gimbal)):
        return turns
    if isinstance(kind, (Rod, PointOnLine)):
        r = numbers(F.p - P.p)
        flat = [np.cross(r, e) for e in np.eye(3)] if isinstance(kind, Rod) else [u]
        return turns + [np.concatenate([none, x]) for x in flat]
    if isinstance(kind, Planar):
        return [about, *(np.concatenate([none, np.cross(u, e)]) for e in np.eye(3))]
    if isinstance(kind, (Revolute, Prismatic, Cylindrical)):
        return [
            x
            for x, kinds in ((about, (Revolute, Cylindrical)), (moving, (Prismatic, Cylindrical)))
            if isinstance(kind, kinds)
        ]
    return [np.concatenate([numbers(x), none]) for x in (P.R[:, 0], F.R[:, 1])]  # universal


@every
@some
def test_every_body_moves_as_its_joints_push_it(name: str) -> None:
    m, q, v, a, _, f, V, A, G = state(name)
    F = floats(lw.joint_forces, m, q, v, a, f)
    lacks = missing(m, q, v, a, V, f, F)
    size = 1.0 + np.abs(F).max()
    loops = [c for c in m.embedded if isinstance(c, Loop)]
    held = {end.body for c in loops for end in (c.predecessor, c.successor)}
    for k in range(len(m.bodies)):
        assert k in held or np.abs(lacks[k]).max() < 1e-10 * size
    driven = in_joints(m, q, V, A, F)
    assert close(G.T @ driven, floats(lw.inverse_dynamics, m, q, v, a, f), 1e-10)
    if loops == list(m.embedded):  # couplings act in joints
        passive = np.ones(m.nv_spanning, dtype=bool)
        names = [n for j in m.joints for n in j.v_names]
        passive[[names.index(n) for n in m.v_names]] = False
        assert np.abs(driven[passive]).max(initial=0.0) < 1e-10 * size
    ends = [end.body for c in loops for end in (c.predecessor, c.successor) if end.body != GROUND]
    for c in loops if len(set(ends)) == len(ends) else ():  # then each loop's force is what its ends lack
        T = poses(m, q)
        P, S = (T[end.body].then(end.place) for end in (c.predecessor, c.successor))
        push = lacks[c.successor.body] if c.successor.body != GROUND else -lacks[c.predecessor.body]
        if GROUND not in (c.predecessor.body, c.successor.body):
            assert close(lacks[c.predecessor.body], -push, 1e-10)
        here = np.concatenate([push[:3] - np.cross(numbers(S.p), push[3:]), push[3:]])
        for motion in free_motions(c.kind, P, S):
            assert abs(motion @ here) < 1e-9 * size


@pytest.mark.parametrize("name", ["four-bar", "ring rod", "loop and gear", "standing"])
def test_forces_elsewhere_change_what_loops_carry(name: str) -> None:
    """With forces in all joints that do the same, each joint is driven by its own, and bodies still balance."""
    m, q, v, a, _, f, V, A, G = state(name)
    rng = np.random.default_rng(2)
    tau = rng.normal(size=m.nv_spanning)
    tau += np.linalg.lstsq(G.T, floats(lw.inverse_dynamics, m, q, v, a, f) - G.T @ tau, rcond=None)[0]
    F = floats(lw.joint_forces, m, q, v, a, f, tau)
    if all(isinstance(c, Loop) for c in m.embedded):
        assert close(in_joints(m, q, V, A, F), tau, 1e-9)
    held = {end.body for c in m.embedded if isinstance(c, Loop) for end in (c.predecessor, c.successor)}
    lacks = missing(m, q, v, a, V, f, F)
    assert all(k in held or np.abs(x).max() < 1e-10 * (1.0 + np.abs(F).max()) for k, x in enumerate(lacks))


def test_a_loaded_parallelogram_by_hand() -> None:
    """Weightless links, a load F down on the coupler: the rocker carries along itself, the crank's motor F L
    cos.
    """
    L = 0.5
    W = 0.8
    x = 0.3
    load = 100.0
    angle = 0.7
    b = ModelBuilder("parallelogram", gravity=(0.0, 0.0, 0.0))
    for name, on, at in (("crank", "world", 0.0), ("coupler", "crank", L), ("rocker", "world", W)):
        b.add_body(name)
        b.add_joint(
            f"to {name}", Revolute(), parent=on, child=name, xyz=(at, 0.0, 0.0), independent=name == "crank"
        )
    b.add_loop(
        "pin", Revolute(), predecessor="coupler", successor="rocker", xyz=(W, 0, 0), successor_xyz=(L, 0, 0)
    )
    m = b.build()
    c = np.cos(angle)
    s = np.sin(angle)
    push = np.zeros((3, 6))
    push[1] = [0.0, 0.0, -load * x, 0.0, -load, 0.0]  # the coupler stays level: its axes are the world's
    q = np.zeros(3)
    q[[j.q_start for j in (m.joint("to crank"), m.joint("to coupler"), m.joint("to rocker"))]] = (
        angle,
        -angle,
        angle,
    )
    F = lw.joint_forces(m, q, [0.0], [0.0], push)
    rocker = load * x / (W * s)  # by moments about the crank's pin
    crank = np.array([-rocker * c, load - rocker * s])
    by = {name: F[m.body(name).index] for name in ("crank", "coupler", "rocker")}
    assert np.allclose(by["rocker"], [0, 0, 0, rocker, 0, 0], atol=1e-10)
    assert np.allclose(by["coupler"], [0, 0, 0, *crank, 0], atol=1e-10)
    turned = np.array([[c, s], [-s, c]]) @ crank
    assert np.allclose(by["crank"], [0, 0, load * L * c, *turned, 0], atol=1e-10)
    lam = lw.loop_forces(m, q, [0.0], [0.0], push)
    assert np.isclose(np.linalg.norm(lam), rocker)


def test_forces_in_a_tree_are_pinocchios() -> None:
    pin = pytest.importorskip("pinocchio")
    from linkwork.interop.pinocchio import States

    axes = ("RX", "RY", "RZ", "PX", "PY", "PZ")
    kinds = [cls(tuple(e)) for cls in (Revolute, Prismatic) for e in np.eye(3)]
    rng = np.random.default_rng(0)
    peer = pin.Model()
    b = ModelBuilder("tree")
    for k, parent in enumerate([0, 1, 2, 2, 4, 5]):
        place = pin.SE3.Random()
        index = peer.addJoint(parent, getattr(pin, f"JointModel{axes[k]}")(), place, f"joint{k}")
        mass = rng.uniform(1, 2)
        centre = rng.normal(size=3)
        size = rng.uniform(0.5, 1.0, 3)
        moment = np.diag(
            [size[1] ** 2 + size[2] ** 2, size[0] ** 2 + size[2] ** 2, size[0] ** 2 + size[1] ** 2]
        )
        peer.appendBodyToJoint(index, pin.Inertia(mass, centre, moment), pin.SE3.Identity())
        b.add_body(f"body{k}", mass=mass, center=centre, inertia=moment)
        on = "world" if parent == 0 else f"body{parent - 1}"
        b.add_joint(
            f"joint{k}", kinds[k], parent=on, child=f"body{k}", place=Pose(place.rotation, place.translation)
        )
    m = b.build()
    states = States(m, peer)
    data = peer.createData()
    q, v = m.random_state(rng)
    a = rng.normal(size=m.nv)
    pin.rnea(peer, data, states.q_to(q), states.v_to(v), states.v_to(a))
    F = lw.joint_forces(m, q, v, a)
    for body in m.bodies:
        theirs = data.f[peer.getJointId(m.joints[body.index].name)]
        assert np.allclose(F[body.index], [*theirs.angular, *theirs.linear], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["loaded four-bar", "rotors"])
def test_kernels_give_the_same_in_batches(name: str) -> None:
    m, q, v, a, _, f, *_ = state(name)
    many = lw.joint_forces(m, np.stack([q, q]), v, a, f)
    assert many.shape == (2, len(m.bodies), 6) and close(many[0], floats(lw.joint_forces, m, q, v, a, f))
    assert np.array_equal(many[0], many[1])


def test_rotors_are_held_by_their_own_joints() -> None:
    m, q, v, a, *_ = state("rotors")
    assert any(each.rotor for each in lumped(m))
    whole = floats(lw.joint_forces, tree(m), q, *state("rotors")[6:8])
    assert close(floats(lw.joint_forces, m, q, v, a), whole)  # couplings act in the joints
    rotor = m.body("rotor0").index
    assert np.abs(whole[rotor, 3:]).max() > 0.1 * m.bodies[rotor].mass
