"""Sensors measure what the logged motion says: poses, their rates by time, and forces that change momenta."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Free, Universal
from linkwork.mechanism import Frame, Geometry
from linkwork.simulation import IMU, ContactForce, FramePose, FrameVelocity
from linkwork.spatial import axial

DT = 1e-4


def tumbler() -> lw.Model:
    """A tumbling body with an arm; the frame at its end is turned about all axes."""
    builder = lw.ModelBuilder("tumbler")
    builder.add_body("trunk", mass=3.0, center=(0.1, 0.0, -0.1), inertia=(0.1, 0.2, 0.25))
    builder.add_body("arm", mass=1.0, center=(0.0, 0.2, 0.1), inertia=(0.03, 0.02, 0.04))
    builder.add_joint("free", Free(), parent="world", child="trunk")
    builder.add_joint("shoulder", Universal(), parent="trunk", child="arm", xyz=(0.2, 0.1, 0.3))
    return builder.add_frame("hand", body="arm", xyz=(0.3, -0.2, 0.4), rpy=(0.5, -0.7, 1.1)).build()


def matrices(quaternions: np.ndarray) -> np.ndarray:
    """Rotation matrices of unit quaternions (x, y, z, w)."""
    x, y, z, w = quaternions.T
    Q = np.array([[w, -z, y], [z, w, -x], [-y, x, w]])
    return np.einsum("ijn,jkn->nik", Q, Q) + np.einsum("in,jn->nij", [x, y, z], [x, y, z])


def test_sensors_of_a_frame_measure_one_motion() -> None:
    """Of poses, velocities and specific forces at a frame, the latter are the former's rates by time."""
    model = tumbler()
    q, v = model.random_state(3)
    sensors = {
        reference: FrameVelocity("hand", reference) for reference in ("body", "world_aligned", "world")
    }
    every = {"pose": FramePose("hand"), "imu": IMU("hand"), **sensors}
    log = lw.simulate(model, q, v, 20 * DT, dt=DT, integrator="rk4", sensors=every)
    R = matrices(log.sensors["pose"][:, 3:])
    p = log.sensors["pose"][:, :3]
    assert np.allclose(lw.frame_pose(model, log.q, frame="hand")[:, :3, :3], R, atol=1e-13)
    p_rate = (p[2:] - p[:-2]) / (2 * DT)
    W = (R[2:] - R[:-2]) / (2 * DT) @ R[1:-1].transpose(0, 2, 1)
    w = np.array([axial(each) for each in W])
    R, p = R[1:-1], p[1:-1]
    expected = {
        "body": np.einsum("nji,bnj->bni", R, [w, p_rate]),
        "world_aligned": [w, p_rate],
        "world": [w, p_rate - np.cross(w, p)],
    }
    for reference, (angular, linear) in expected.items():
        velocity = log.sensors[reference][1:-1]
        assert np.allclose(velocity, np.hstack([angular, linear]), atol=1e-5), reference
    velocities = log.sensors["world_aligned"][:, 3:]
    falling = (velocities[1:] - velocities[:-1]) / DT - model.gravity
    imu = log.sensors["imu"][1:-1]
    assert np.allclose(imu[:, :3], expected["body"][0], atol=1e-5)
    # the specific force is that of the end of a step, with its mean acceleration: right to first order
    assert np.allclose(
        imu[:, 3:], np.einsum("nji,nj->ni", R, falling[:-1]), atol=0.02 * np.abs(falling).max()
    )


@pytest.mark.parametrize("order", [("left", "right"), ("right", "left")])
def test_forces_between_bodies_are_opposite_and_change_their_momenta(order: tuple[str, str]) -> None:
    """Two balls and a wall: whichever body a contact counts as its first."""
    builder = lw.ModelBuilder("balls")
    for name in order:
        builder.add_body(name, mass=1.0 + len(name), inertia=(0.01, 0.01, 0.01))
        builder.add_joint(f"{name} free", Free(), parent="world", child=name)
        builder.add_geometry(Geometry(name, shape="sphere", size=(0.1,), link=name))
    model = builder.build()
    q, v = model.neutral(), np.zeros(12)
    for name, x, speed in (("left", -0.101, 1.0), ("right", 0.101, -2.0)):
        q[model.joint(f"{name} free").q_slice.start] = x
        v[model.joint(f"{name} free").v_slice.start + 3] = speed
    sensors = {name: ContactForce(name) for name in order}
    log = lw.simulate(
        model, q, v, 5e-3, dt=1e-3, contacts=lw.Contacts(ground=None, pairs="all"), sensors=sensors,
        parameters={"gravity": np.zeros(3)},
    )  # fmt: skip
    felt = {name: log.sensors[name][1:] for name in order}
    assert felt["right"][:, 0].max() > 100.0
    for name in order:
        at = model.joint(f"{name} free").v_slice.start + 3
        change = model.body(name).mass * np.diff(log.v[:, at : at + 3], axis=0) / 1e-3
        assert np.allclose(felt[name], change, rtol=0.0, atol=1e-8)
    assert np.allclose(felt["left"], -felt["right"], rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("rows", [(), (2,)])
def test_both_ends_of_a_constrained_loop_measure_one_acceleration_before_the_first_step(
    rows: tuple[int, ...],
) -> None:
    """The bodies share the point in which the loop joint connects them, so its specific force is one."""
    embedded = lw.robots.four_bar()
    loop = embedded.loops[0]
    model = embedded.with_loops(constrain=[loop.name])
    names = [f"end {k}" for k in range(2)]
    ends = tuple(Frame(name, end.body, end.place) for name, end in zip(names, loop.ends))
    model = replace(model, frames=(*model.frames, *ends))
    q, v = model.random_state(2)
    q = np.broadcast_to(q, (*rows, len(q)))
    log = lw.simulate(model, q, 3.0 * v, duration=0.001, sensors={name: IMU(name) for name in names})
    one, other = (np.linalg.norm(log.sensors[name][..., 0, 3:], axis=-1) for name in names)
    assert np.allclose(one, other, rtol=1e-10)
    w = log.a[..., 0, :]
    J = lw.constraint_jacobian(model, q, constraints=())
    bias = lw.constraint_bias(model, q, 3.0 * v, constraints=())
    assert np.allclose(np.einsum("...ij,...j->...i", J, w) + bias, 0.0, atol=1e-9)
