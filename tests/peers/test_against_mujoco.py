"""The same mechanisms in MuJoCo: mass matrix, bias, passive forces, inverse and forward dynamics agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError, ShapeError
from linkwork.interop.mujoco import States
from linkwork.joints import Fixed, Free, Prismatic, Revolute, Spherical
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Pose

mujoco = pytest.importorskip("mujoco")

KINDS = {"hinge": Revolute, "slide": Prismatic}


class Part:
    """A body and the joint that holds it, said once for both."""

    def __init__(
        self, name: str, parent: str, joint: str, rng: np.random.Generator, axis: Any = (0, 0, 1), **more: Any
    ) -> None:
        self.name = name
        self.parent = parent
        self.joint = joint
        self.axis = axis
        self.more = more
        self.place = Pose.from_xyz_rpy(rng.uniform(-0.4, 0.4, 3), rng.uniform(-2.0, 2.0, 3))
        self.mass, self.center = float(rng.uniform(0.5, 2.0)), rng.uniform(-0.1, 0.1, 3)
        x, y, z, *mixed = rng.uniform(0.02, 0.06, 6)
        self.inertia = np.diag([y + z, z + x, x + y]) + 0.1 * (np.diag(mixed[:2], 1) + np.diag(mixed[:2], -1))

    def add(self, b: ModelBuilder) -> None:
        b.add_body(self.name, mass=self.mass, center=self.center, inertia=self.inertia)
        kind: Any = {"free": Free(), "ball": Spherical(), "fixed": Fixed()}.get(self.joint)
        more = {} if self.joint == "fixed" else {word: x for word, x in self.more.items() if word != "ref"}
        kind = kind or KINDS[self.joint](self.axis)
        b.add_joint(f"{self.name} joint", kind, parent=self.parent, child=self.name, place=self.place, **more)

    def mjcf(self, inside: str) -> str:
        words = {
            "stiffness": "stiffness",
            "damping": "damping",
            "armature": "armature",
            "rest": "springref",
            "ref": "ref",
        }
        more = " ".join(f'{words[word]}="{x!r}"' for word, x in self.more.items())
        I = self.inertia
        axis = f'axis="{text(self.axis)}"' if self.joint in KINDS else ""
        joint = (
            ""
            if self.joint == "fixed"
            else f'<joint name="{self.name} joint" type="{self.joint}" {axis} {more}/>'
        )
        return f"""<body name="{self.name}" pos="{text(self.place.p)}" xyaxes="{text(self.place.R[:, :2].T.ravel())}">{joint}
            <inertial pos="{text(self.center)}" mass="{self.mass!r}"
             fullinertia="{text([I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])}"/>{inside}</body>"""


def text(x: Any) -> str:
    return " ".join(repr(float(y)) for y in x)


def both(parts: list[Part], *, reverse: bool = False) -> tuple[Model, Any]:
    """The mechanism here and there; `reverse` lists siblings the other way round there."""
    b = ModelBuilder("robot", gravity=(1.0, -2.0, -9.0))
    for part in parts:
        part.add(b)

    def inside(parent: str) -> str:
        children = [part for part in parts if part.parent == parent]
        return "".join(part.mjcf(inside(part.name)) for part in (children[::-1] if reverse else children))

    xml = f"""<mujoco><compiler angle="radian" autolimits="false" balanceinertia="false" boundmass="0" boundinertia="0"/>
        <option gravity="1 -2 -9"><flag constraint="disable" contact="disable"/></option>
        <worldbody>{inside("world")}</worldbody></mujoco>"""
    return b.build(), mujoco.MjModel.from_xml_string(xml)


def arm() -> tuple[Model, Any]:
    rng = np.random.default_rng(1)
    parts = [
        Part("a", "world", "hinge", rng, (0, 0, 1), damping=0.4, armature=0.3),
        Part("b", "a", "hinge", rng, (1.0, -2.0, 0.5), stiffness=3.0, rest=0.2),
        Part("c", "b", "slide", rng, (0.3, 0.4, 0.5), stiffness=30.0, rest=-0.1, damping=2.0, armature=0.5),
        Part("c2", "c", "fixed", rng),
        Part("d", "c2", "hinge", rng, (0, -1, 0), ref=0.3),
        Part("e", "a", "hinge", rng, (1, 0, 0), ref=-0.2, damping=0.1),
    ]
    return both(parts, reverse=True)


def floating() -> tuple[Model, Any]:
    rng = np.random.default_rng(2)
    parts = [
        Part("base", "world", "free", rng),
        Part("shoulder", "base", "ball", rng, damping=0.3, armature=0.2, stiffness=4.0),
        Part("hand", "shoulder", "slide", rng, (0, 1, 0), armature=0.1),
        Part("hip", "base", "hinge", rng, (0, 1, 0)),
        Part("foot", "hip", "ball", rng),
        Part("other", "world", "slide", rng, (1, 1, 0), stiffness=2.0),
        Part("loose", "world", "free", rng),
    ]
    return both(parts, reverse=True)


def close(a: Any, b: Any, tolerance: float = 1e-11) -> bool:
    a = np.asarray(a)
    b = np.asarray(b)
    assert a.shape == b.shape
    return bool(np.abs(a - b).max() <= tolerance * (1.0 + np.abs(b).max()))


MECHANISMS = {"arm": arm, "floating": floating}
every = pytest.mark.parametrize("name", MECHANISMS)


@every
def test_the_same_dynamics(name: str) -> None:
    model, peer = MECHANISMS[name]()
    states = States(model, peer)
    data = mujoco.MjData(peer)
    assert [j.name for j in model.joints] != [peer.joint(k).name for k in range(peer.njnt)]
    rng = np.random.default_rng(4)
    for _ in range(10):
        q, v = model.random_state(rng)
        a, tau = rng.normal(size=(2, model.nv))
        data.qpos[:], data.qvel[:] = states.q_to(q), states.v_to(q, v)
        data.qfrc_applied[:] = states.tau_to(q, tau)
        mujoco.mj_forward(peer, data)
        M = np.zeros((peer.nv, peer.nv))
        mujoco.mj_fullM(peer, M, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(peer, data, M)
        assert close(lw.mass_matrix(model, q), states.matrix_from(q, M))
        # bias there is Coriolis and gravity in its own coordinates: the term of free joints' accelerations
        # comes on top
        zero = states.a_to(q, v, np.zeros(model.nv))
        resisting = states.tau_from(q, np.array(data.qfrc_bias) - np.array(data.qfrc_passive) + M @ zero)
        assert close(lw.bias_force(model, q, v), resisting)
        assert close(lw.forward_dynamics(model, q, v, tau), states.a_from(q, v, np.array(data.qacc)), 1e-10)
        data.qacc[:] = states.a_to(q, v, a)
        mujoco.mj_inverse(peer, data)
        assert close(lw.inverse_dynamics(model, q, v, a), states.tau_from(q, np.array(data.qfrc_inverse)))
        mass = np.array(peer.body_mass)
        assert close(lw.center_of_mass(model, q), mass @ data.xipos / mass.sum())
        mujoco.mj_energyPos(peer, data)
        mujoco.mj_energyVel(peer, data)
        assert close(lw.potential_energy(model, q), data.energy[0]) and close(
            lw.kinetic_energy(model, q, v), data.energy[1]
        )
        mujoco.mj_subtreeVel(peer, data)
        momentum = [*data.subtree_angmom[0], *(mass.sum() * data.subtree_linvel[0])]
        assert close(lw.momentum(model, q, v), momentum)
        for body in model.bodies:
            there = peer.body(body.name).id
            T = lw.frame_pose(model, q, frame=body.name)
            assert close(T[:3, 3], data.xpos[there]) and close(T[:3, :3].ravel(), data.xmat[there])
            rows = np.zeros((2, 3, peer.nv))
            mujoco.mj_jacBody(peer, data, rows[1], rows[0], there)
            J = states.jacobian_from(q, rows.reshape(6, -1))
            assert close(lw.frame_jacobian(model, q, frame=body.name, reference="world_aligned"), J)


@every
def test_turns_are_kept_there_and_back(name: str) -> None:
    model, peer = MECHANISMS[name]()
    q = model.random_state(1)[0]
    states = States(model, peer)
    turning = [j.q_start for j in model.joints if isinstance(j.kind, Revolute)]
    q[turning] += 40.0
    assert turning and close(states.q_from(states.q_to(q))[turning], q[turning], 1e-13)


def test_velocities_with_quaternions_of_any_length() -> None:
    model, peer = MECHANISMS["floating"]()
    q, v = model.random_state(2)
    states = States(model, peer)
    base = next(j for j in model.joints if isinstance(j.kind, Free))
    wanted = states.v_to(q, v)
    for length in (2.0**-1000, 2.0**1000):
        q[base.q_slice][3:] *= length
        assert np.array_equal(states.v_to(q, v), wanted)
        q[base.q_slice][3:] /= length


def test_quaternions_are_units_there() -> None:
    model, peer = MECHANISMS["floating"]()
    q, _ = model.random_state(2)
    states = States(model, peer)
    wanted = states.q_to(q)
    quaternions = [
        slice(j.q_start + j.nq - 4, j.q_start + j.nq)
        for j in model.joints
        if isinstance(j.kind, (Free, Spherical))
    ]
    assert len(quaternions) > 1
    for length in (3.0, 1e-3, 2.0**1000):
        longer = q.copy()
        for where in quaternions:
            longer[where] *= length
        assert close(states.q_to(longer), wanted)


@every
def test_states_there_and_back(name: str) -> None:
    model, peer = MECHANISMS[name]()
    states = States(model, peer)
    rng = np.random.default_rng(0)
    q = np.array([model.random_state(rng)[0] for _ in range(6)]).reshape(2, 3, -1)
    v, a = rng.normal(size=(2, 2, 3, model.nv))
    back = states.q_from(states.q_to(q))
    assert close(lw.forward_kinematics(model, back), lw.forward_kinematics(model, q))
    assert close(np.abs(back), np.abs(q))  # a quaternion may come back with the other sign
    assert states.q_to(q).shape == (2, 3, peer.nq) and close(
        states.q_to(q)[1, 2], states.q_to(q[1, 2]), 1e-15
    )
    for to, back_ in ((states.v_to, states.v_from), (states.tau_to, states.tau_from)):
        assert close(back_(q, to(q, v)), v) and close(to(q, v)[1, 2], to(q[1, 2], v[1, 2]))
    assert close(states.a_from(q, v, states.a_to(q, v, a)), a)
    assert close(np.sum(states.tau_to(q, a) * states.v_to(q, v), -1), np.sum(a * v, -1))  # power is power
    M = rng.normal(size=(2, 3, model.nv, model.nv))
    J = rng.normal(size=(2, 3, 6, model.nv))
    assert close(states.matrix_from(q, states.matrix_to(q, M)), M) and close(
        states.jacobian_from(q, states.jacobian_to(q, J)), J
    )
    assert close(states.q_from(peer.qpos0), model.neutral())


@pytest.mark.parametrize(
    "half_turn", [(1.0, -1.0, -1.0), (-1.0, 1.0, -1.0), (-1.0, -1.0, 1.0), (1.0, 1.0, 1.0)]
)
def test_free_joints_that_do_not_start_at_the_origin(half_turn: tuple[float, float, float]) -> None:
    """A free joint counts from its place here, from the world's origin there."""
    b = ModelBuilder("loose").add_body("b", mass=1.0, inertia=(1, 1, 1))
    place = Pose(np.diag(half_turn), np.array([1.0, 2.0, 3.0]))
    model = b.add_joint("j", Free(), parent="world", child="b", place=place).build()
    body = '<body name="b"><freejoint name="j"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>'
    peer = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    states = States(model, peer)
    data = mujoco.MjData(peer)
    q, _ = model.random_state(5)
    data.qpos[:] = states.q_to(q)
    mujoco.mj_kinematics(peer, data)
    T = lw.frame_pose(model, q, frame="b")
    assert close(data.xpos[1], T[:3, 3]) and close(data.xmat[1], T[:3, :3].ravel())
    assert close(lw.frame_pose(model, states.q_from(data.qpos), frame="b"), T)


@every
def test_rates_of_coordinates(name: str) -> None:
    """A step along v there is a step along v here."""
    model, peer = MECHANISMS[name]()
    states = States(model, peer)
    rng = np.random.default_rng(3)
    q, v = model.random_state(rng)
    for h in (1e-5,):
        there = states.q_to(q)
        mujoco.mj_integratePos(peer, there, states.v_to(q, v), h)
        assert close(lw.difference(model, q, states.q_from(there)) / h, v, 1e-4)


def test_models_that_do_not_match() -> None:
    def there(joints: str) -> Any:
        body = f'<body>{joints}<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>'
        return mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")

    def here(kind: Any, name: str = "j") -> Model:
        return (
            ModelBuilder("one")
            .add_body("b", mass=1.0)
            .add_joint(name, kind, parent="world", child="b")
            .build()
        )

    with pytest.raises(ModelError, match="joint 'j' of one is not in the MuJoCo model"):
        States(here(Revolute()), there('<joint name="k" type="hinge"/>'))
    with pytest.raises(ModelError, match="joint 'j' of one is not in the MuJoCo model"):
        States(here(Revolute()), there('<joint type="hinge"/>'))
    with pytest.raises(ModelError, match="joint 'k' of the MuJoCo model is not in one"):
        States(here(Revolute()), there('<joint name="j" type="hinge"/><joint name="k" type="slide"/>'))
    with pytest.raises(ModelError, match="joint 'j' is Revolute in one, but slide in the MuJoCo model"):
        States(here(Revolute()), there('<joint name="j" type="slide"/>'))
    with pytest.raises(ModelError, match="expected a MuJoCo model, got str"):
        States(here(Revolute()), "robot.xml")
    States(here(Free()), there("<freejoint/>"))  # the only free joint of both
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    nameless = f"<body><freejoint/>{inertial}</body><body><joint/>{inertial}</body>"
    with pytest.raises(ModelError, match="joint 'body2_joint' of the MuJoCo model is not in one"):
        States(
            here(Free()),
            mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{nameless}</worldbody></mujoco>"),
        )
    b = ModelBuilder("two").add_body("a", mass=1.0).add_body("b", mass=1.0)
    b.add_joint("i", Revolute(), parent="world", child="a").add_joint("j", Free(), parent="a", child="b")
    two = """<mujoco><worldbody><body><joint name="i"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
        <body><freejoint name="j"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody></mujoco>"""
    with pytest.raises(ModelError, match="joint 'j' of two is free, but not on the world"):
        States(b.build(), mujoco.MjModel.from_xml_string(two))
    with pytest.raises(ShapeError, match=r"v\b.* shape \(\.\.\., 6\),.* \(5,\)"):
        States(here(Free()), there("<freejoint/>")).v_to(np.array([0, 0, 0, 0, 0, 0, 1.0]), np.zeros(5))
