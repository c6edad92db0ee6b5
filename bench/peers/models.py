"""The robots of `robots.json` for Pinocchio and MuJoCo, their conventions, and a check that all compute the
same.

A free base's coordinates, from here to the peers (here: q = x y z qx qy qz qw, v = angular, linear, both in
the body frame):

| | q | v | a |
| --- | --- | --- | --- |
| Pinocchio | the same | linear, angular, both in the body frame | change of v |
| MuJoCo | quaternion as w x y z | linear in the world frame, angular in the body frame | change of v |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robots import bodies

GRAVITY = 9.81
COUNT = 256
ALGORITHMS = ("inverse dynamics", "mass matrix", "full mass matrix", "forward dynamics")

State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""q, v, a and tau of one state."""


def floating(robot: str) -> bool:
    """Return whether the robot has a free base, which then is its first body."""
    free = [body["axis"] is None for body in bodies(robot)]
    assert not any(free[1:])
    return free[0]


def nv(robot: str) -> int:
    """Return the number of degrees of freedom."""
    return len(bodies(robot)) + 5 * floating(robot)


def states(robot: str, count: int = COUNT, seed: int = 1) -> list[State]:
    """Return random states in linkwork's conventions, with unit quaternions."""
    rng = np.random.default_rng(seed)
    n = nv(robot)
    out = []
    for _ in range(count):
        q = rng.normal(size=n + floating(robot))
        v = rng.normal(size=n)
        a = rng.normal(size=n)
        tau = rng.normal(size=n)
        if floating(robot):
            q[3:7] /= np.linalg.norm(q[3:7])
        out.append((q, v, a, tau))
    return out


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a unit quaternion x y z w."""
    x, y, z, w = quaternion
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * K + 2 * K @ K


def turn(robot: str, q: np.ndarray, peer: str) -> np.ndarray:
    """Return the orthogonal T with v of the peer = T v of linkwork; also for tau, and M of linkwork = T' M T."""
    T = np.eye(nv(robot))
    if floating(robot):
        T[:6, :6] = 0
        T[:3, 3:6] = rotation(q[3:7]) if peer == "mujoco" else np.eye(3)
        T[3:6, :3] = np.eye(3)
    return T


def shift(robot: str, q: np.ndarray, v: np.ndarray, peer: str) -> np.ndarray:
    """Return the term of the peer's acceleration besides T a: MuJoCo's linear velocity is in world axes."""
    out = np.zeros(len(v))
    if floating(robot) and peer == "mujoco":
        out[:3] = rotation(q[3:7]) @ np.cross(v[:3], v[3:6])
    return out


def to_peer(robot: str, state: State, peer: str) -> State:
    """Return a state of linkwork in the conventions of `peer`, "pinocchio" or "mujoco"."""
    q, v, a, tau = state
    T = turn(robot, q, peer)
    q_peer = q.copy()
    if floating(robot) and peer == "mujoco":
        q_peer[3:7] = q[[6, 3, 4, 5]]
    return q_peer, T @ v, T @ a + shift(robot, q, v, peer), T @ tau


def from_peer(robot: str, state: State, peer: str, results: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return results of a peer on a state, by algorithm, in linkwork's conventions."""
    q, v, _, _ = state
    T = turn(robot, q, peer)
    out = {}
    for name, x in results.items():
        algorithm = name.split("/")[0]
        if algorithm == "inverse dynamics":
            out[name] = T.T @ x
        elif algorithm == "forward dynamics":
            out[name] = T.T @ (x - shift(robot, q, v, peer))
        else:
            out[name] = T.T @ np.reshape(x, T.shape) @ T
    return out


def states_text(robot: str, peer: str, given: list[State]) -> str:
    """Return states of linkwork as the C and C++ programs read them."""
    rows = (np.concatenate(to_peer(robot, s, peer)) for s in given)
    return "\n".join([str(len(given)), *(numbers(row) for row in rows), ""])


def bodies_text(robot: str) -> str:
    """Return the bodies as the C++ program reads them."""
    lines = [str(len(bodies(robot)))]
    for b in bodies(robot):
        axis = -1 if b["axis"] is None else "xyz".index(b["axis"])
        reals = np.concatenate([np.ravel(b[key]) for key in ("R", "p", "mass", "com", "inertia")])
        lines.append(f"{b['parent']} {axis} {numbers(reals)}")
    return "\n".join([*lines, ""])


def numbers(values: Any) -> str:
    """Return numbers in full precision, separated by blanks."""
    return " ".join(repr(float(x)) for x in np.ravel(values))


def mjcf(robot: str) -> str:
    """Return the robot as MJCF, with everything but gravity and inertia disabled."""
    children: dict[int, list[int]] = {}
    for i, b in enumerate(bodies(robot)):
        children.setdefault(b["parent"], []).append(i)

    def body(i: int) -> str:
        b = bodies(robot)[i]
        I = np.array(b["inertia"], dtype=float)
        axis = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}.get(b["axis"])
        joint = f'<joint type="hinge" axis="{axis}" limited="false"/>' if axis else "<freejoint/>"
        full = numbers([I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])
        R = np.array(b["R"], dtype=float)
        return (
            f'<body name="body{i}" pos="{numbers(b["p"])}" xyaxes="{numbers(R[:, :2].T)}">{joint}'
            f'<inertial pos="{numbers(b["com"])}" mass="{b["mass"]!r}" fullinertia="{full}"/>'
            + "".join(body(k) for k in children.get(i, []))
            + "</body>\n"
        )

    off = (
        "constraint",
        "equality",
        "frictionloss",
        "limit",
        "contact",
        "spring",
        "damper",
        "actuation",
        "sensor",
        "warmstart",
    )
    flags = " ".join(f'{name}="disable"' for name in off)
    return (
        f'<mujoco model="{robot}">\n'
        '<compiler angle="radian" autolimits="false" inertiafromgeom="false" balanceinertia="false" boundmass="0"'
        ' boundinertia="0" discardvisual="false" fusestatic="false"/>\n'
        f'<option gravity="0 0 {-GRAVITY}"><flag {flags}/></option>\n'
        f"<worldbody>\n{''.join(body(i) for i in children[-1])}</worldbody>\n</mujoco>\n"
    )


def pinocchio_model(robot: str) -> Any:
    """Return the robot as a Pinocchio model."""
    import pinocchio as pin

    kinds = {
        None: pin.JointModelFreeFlyer,
        "x": pin.JointModelRX,
        "y": pin.JointModelRY,
        "z": pin.JointModelRZ,
    }
    model = pin.Model()
    model.gravity = pin.Motion(np.array([0, 0, -GRAVITY]), np.zeros(3))
    for i, b in enumerate(bodies(robot)):
        place = pin.SE3(np.array(b["R"], dtype=float), np.array(b["p"], dtype=float))
        joint = model.addJoint(b["parent"] + 1, kinds[b["axis"]](), place, f"joint{i}")
        inertia = pin.Inertia(
            float(b["mass"]), np.array(b["com"], dtype=float), np.array(b["inertia"], dtype=float)
        )
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    return model


def mujoco_model(robot: str) -> Any:
    """Return the robot as a MuJoCo model."""
    import mujoco

    return mujoco.MjModel.from_xml_string(mjcf(robot))


def pinocchio_results(robot: str, state: State) -> dict[str, np.ndarray]:
    """Return Pinocchio's results on a state of linkwork, in its conventions, through the Python module."""
    import pinocchio as pin

    model = pinocchio_model(robot)
    data = model.createData()
    q, v, a, tau = to_peer(robot, state, "pinocchio")
    upper = np.triu(pin.crba(model, data, q))
    results = {
        "inverse dynamics": pin.rnea(model, data, q, v, a).copy(),
        "full mass matrix": upper + np.triu(upper, 1).T,
        "forward dynamics": pin.aba(model, data, q, v, tau).copy(),
    }
    return from_peer(robot, state, "pinocchio", results)


def mujoco_results(robot: str, state: State) -> dict[str, np.ndarray]:
    """Return MuJoCo's results on a state of linkwork, in its conventions, through the Python module."""
    import mujoco

    model = mujoco_model(robot)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.qacc[:], data.qfrc_applied[:] = to_peer(robot, state, "mujoco")
    mujoco.mj_inverse(model, data)
    tau = data.qfrc_inverse.copy()
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    results = {"inverse dynamics": tau, "full mass matrix": M, "forward dynamics": data.qacc.copy()}
    return from_peer(robot, state, "mujoco", results)


def our_results(robot: str, state: State) -> dict[str, np.ndarray]:
    """Return the results of linkwork's programs, run by the interpreter."""
    import linkwork as lw
    import robots
    from linkwork.compiler.passes import lower

    q, v, a, tau = state
    values = {"q": q, "v": v, "a": a, "tau": tau}
    out = {}
    for name, program in robots.programs(robot).items():
        if name in ("inverse dynamics", "full mass matrix", "forward dynamics"):
            out[name] = np.asarray(
                lw.interpret(lower(program), *(values[i.name] for i in program.inputs)), dtype=float
            )
    return out


def difference(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """Return the largest difference relative to the largest entry of each result; names may have a variant
    after a slash.
    """
    worst = 0.0
    for name, x in a.items():
        y = b[name.split("/")[0]]
        worst = max(worst, float(np.max(np.abs(x - y)) / np.max(np.abs(y))))
    return worst
