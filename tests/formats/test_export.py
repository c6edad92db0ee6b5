"""Models written as URDF and MJCF and read again are the same mechanisms; MuJoCo reads what is written for
it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from exported import differences, undescribed
from linkages import LOOP_KINDS, linkage
from linkwork.errors import ModelError
from linkwork.joints import (
    Cylindrical,
    Fixed,
    Free,
    Gimbal,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from linkwork.mechanism import Actuator
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Pose

KINDS: dict[str, Joint] = {
    "revolute": Revolute((0.3, -0.2, 1.0)),
    "prismatic": Prismatic((0, 1, 0)),
    "spherical": Spherical(),
    "universal": Universal(),
    "gimbal": Gimbal(),
    "cylindrical": Cylindrical((1, 1, 0)),
    "helical": Helical(0.1, (0, 1, 1)),
    "planar": Planar((0, 1, 0)),
}


def tree(kind: Joint, base: Joint | None = None) -> Model:
    """Three bodies, a branch, a frame and a merged link, all placed askew."""
    b = ModelBuilder("tree")
    rng = np.random.default_rng(7)
    links = (("a", "world", base or Fixed()), ("b", "a", kind), ("c", "a", Revolute((0, 0, 1))))
    for k, (name, parent, joint) in enumerate(links):
        b.add_body(name, mass=1.0 + k, center=rng.uniform(-0.1, 0.1, 3), inertia=(0.1, 0.12, 0.15))
        place = Pose.from_xyz_rpy(rng.uniform(-0.3, 0.3, 3), rng.uniform(-1.5, 1.5, 3))
        acting = {"damping": 0.2, "stiffness": 3.0, "rest": 0.1, "armature": 0.05, "lower": -2, "upper": 1.5}
        acting = acting if joint.nv == 1 else {}
        b.add_joint(f"to {name}", joint, parent=parent, child=name, place=place, **acting)
    b.add_body("tool", mass=0.5, inertia=(0.01, 0.01, 0.01))
    b.add_joint("hold", Fixed(), parent="b", child="tool", rpy=(1, 2, 0.5))
    b.add_frame("tip", body="tool", xyz=(0.1, 0.2, 0.3), rpy=(0.0, np.pi / 2, 0.3)).add_frame(
        "mark", xyz=(1, 2, 3)
    )
    return b.build()


def same(one: Model, two: Model) -> None:
    """The same bodies, joints and frames, by their numbers."""
    for a, b in zip(one.joints, two.joints, strict=True):
        assert (a.name, a.parent, a.child, type(a.kind)) == (b.name, b.parent, b.child, type(b.kind))
        assert np.allclose(getattr(a.kind, "axis", 0.0), getattr(b.kind, "axis", 0.0), atol=1e-14)
        assert np.allclose(a.place.matrix(), b.place.matrix(), atol=1e-14)
        for word in ("lower", "upper", "damping", "friction", "stiffness", "rest", "armature"):
            assert getattr(a, word) == getattr(b, word), word
    for c, d in zip(one.bodies, two.bodies, strict=True):
        assert np.allclose(c.inertia.dense(), d.inertia.dense(), rtol=1e-13, atol=1e-15)
    places = {frame.name: frame for frame in two.frames}
    for frame in one.frames:
        there = places[frame.name]
        assert frame.body == there.body and np.allclose(
            frame.place.matrix(), there.place.matrix(), atol=1e-14
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_as_urdf(kind: str) -> None:
    model = tree(KINDS[kind])
    again = lw.load(lw.export_urdf(model))
    same(model, again)
    assert [j.name for j in again.joints] == [j.name for j in model.joints]
    assert again.joint("to c").lower == (-2.0,) and again.joint("to c").rest == (0.1,)
    assert lw.load(lw.export_urdf(again)) == again


@pytest.mark.parametrize("kind", LOOP_KINDS)
def test_every_loop_joint_as_urdf(kind: str) -> None:
    model = linkage(f"ring {kind}")
    again = lw.load(lw.export_urdf(model), gravity=model.gravity, start=model.neutral())
    assert [(c.name, type(c)) for c in again.loops] == [(c.name, type(c)) for c in model.loops]
    same(model, again)
    for a, b in zip(model.loops, again.loops, strict=True):
        for end, other in zip(a.ends, b.ends, strict=True):
            assert end.body == other.body and np.allclose(
                end.place.matrix(), other.place.matrix(), atol=1e-14
            )


def test_couplings_as_urdf() -> None:
    """A mimic says that a joint is dependent: it stands for a coupling only where that is so."""
    b = ModelBuilder("gears")
    for k in range(4):
        b.add_body(f"b{k}", mass=1, inertia=(0.1, 0.1, 0.1))
        b.add_joint(f"j{k}", Revolute((0, 0, 1)), parent="world", child=f"b{k}")
    b.add_coupling("differential", {"j0": 1.0, "j1": -2.0, "j2": 0.5}, offset=0.3)
    b.add_coupling("j3 follows j2", {"j3": 1.0, "j2": -3.0}, offset=0.1)
    for independent, mimic in ("j2", True), ("j3", False):
        model = b.build().with_independent("j0", independent)
        text = lw.export_urdf(model)
        assert ('<mimic joint="j2" multiplier="3" offset="0.1"/>' in text) is mimic
        assert '<term joint="j1" coefficient="-2"/>' in text
        again = lw.load(text)
        assert again.v_names == model.v_names == ("j0", independent)
        q, _ = again.random_state(0)
        assert np.isclose(q[0] - 2 * q[1] + 0.5 * q[2], 0.3) and np.isclose(q[3], 3 * q[2] + 0.1)


# MJCF


SOME = [("spherical", "free"), ("universal", "fixed")]
OTHERS = [(kind, base) for kind in KINDS for base in ("fixed", "free") if kind not in ("planar", "helical")]


@pytest.mark.parametrize(
    ("kind", "base"),
    [*SOME, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in OTHERS if pair not in SOME)],
)
def test_a_tree_as_mjcf(kind: str, base: str) -> None:
    pytest.importorskip("mujoco")
    model = tree(KINDS[kind], Free() if base == "free" else None)
    again = lw.load(undescribed(lw.export_mjcf(model)))
    assert again.nv == model.nv and again.nq == model.nq
    q, v = model.random_state(5)
    tau = np.random.default_rng(2).normal(size=model.nv)
    there = q.copy()
    if base == "free":  # its coordinates are the pose in the world there
        T = Pose(model.joints[0].place.R, model.joints[0].place.p).matrix()
        pose = T @ Pose(lw.spatial.rotation.matrix(q[3:7]), q[:3]).matrix()
        there[:3], there[3:7] = pose[:3, 3], lw.spatial.rotation.of_matrix(pose[:3, :3])
    for name in ("a", "b", "c", "tip", "tool", "mark"):
        assert np.allclose(
            lw.frame_pose(model, q, frame=name), lw.frame_pose(again, there, frame=name), atol=1e-10
        ), name
    a = lw.forward_dynamics(model, q, v, tau)
    assert np.allclose(
        a, lw.forward_dynamics(again, there, v, tau), rtol=1e-9, atol=1e-9 * (1 + np.abs(a).max())
    )


@pytest.mark.parametrize("axis", [(0, 1, 0), (0.3, -0.2, 1.0)])
def test_a_planar_joint_as_mjcf(axis: tuple[float, float, float]) -> None:
    """Two slides and a hinge, whose velocities are along axes at rest."""
    pytest.importorskip("mujoco")
    model = tree(Planar(axis))
    again = lw.load(undescribed(lw.export_mjcf(model)))
    assert [j.name for j in again.joints][:3] == ["to b_x", "to b_y", "to b_turn"]
    q, v = model.random_state(5)
    tau = np.random.default_rng(2).normal(size=model.nv)
    for name in ("b", "tip", "tool"):
        assert np.allclose(
            lw.frame_pose(model, q, frame=name), lw.frame_pose(again, q, frame=name), atol=1e-12
        ), name
    c = np.cos(q[2])
    s = np.sin(q[2])
    T = np.eye(model.nv)
    T[:2, :2] = [[c, -s], [s, c]]
    a = lw.forward_dynamics(model, q, v, tau)
    a[:2] += v[2] * np.array([-v[1], v[0]])  # of axes that turn
    assert np.allclose(
        T @ a, lw.forward_dynamics(again, q, T @ v, T @ tau), rtol=1e-9, atol=1e-9 * (1 + np.abs(a).max())
    )


def test_what_acts_in_a_planar_joint_must_be_the_same_along_axes_at_rest() -> None:
    def plate(**acting: object) -> Model:
        b = ModelBuilder("plate").add_body("a", mass=1, inertia=(1, 1, 1))
        return b.add_joint("slip", Planar(), parent="world", child="a", **acting).build()  # type: ignore[arg-type]

    assert 'damping="2"' in lw.export_mjcf(plate(damping=(2, 2, 3)))
    with pytest.raises(
        ModelError, match="'slip': expected equal damping in the plane, since the axes rotate with"
    ):
        lw.export_mjcf(plate(damping=(2, 1, 3)))
    for word in ("armature", "friction"):
        with pytest.raises(ModelError, match=f"'slip': {word} acts along axes that rotate"):
            lw.export_mjcf(plate(**{word: (1, 1, 0)}))


def test_keyframes_as_mjcf() -> None:
    """MuJoCo, put into a keyframe, has all bodies where they are here, and as fast."""
    mujoco = pytest.importorskip("mujoco")
    b = ModelBuilder("many")
    kinds = [
        Free(),
        *(
            KINDS[name]
            for name in ("spherical", "planar", "universal", "cylindrical", "helical", "gimbal", "revolute")
        ),
    ]
    rng = np.random.default_rng(3)
    for k, kind in enumerate(kinds):
        b.add_body(f"b{k}", mass=1 + k, center=rng.uniform(-0.1, 0.1, 3), inertia=(0.1, 0.12, 0.15))
        place = Pose.from_xyz_rpy(rng.uniform(-0.3, 0.3, 3), rng.uniform(-1.5, 1.5, 3))
        b.add_joint(
            f"j{k}", kind, parent="world" if k == 0 else f"b{(k - 1) // 2}", child=f"b{k}", place=place
        )
    bare = b.build()
    q, v = bare.random_state(4)
    model = b.add_keyframe(
        "posed",
        *({j.name: x[getattr(j, s)] for j in bare.joints} for x, s in ((q, "q_slice"), (v, "v_slice"))),
    ).build()
    peer = mujoco.MjModel.from_xml_string(lw.export_mjcf(model))
    data = mujoco.MjData(peer)
    mujoco.mj_resetDataKeyframe(peer, data, 0)
    mujoco.mj_forward(peer, data)
    speed = np.zeros(6)
    for body in model.bodies:
        there = data.body(body.name)
        X = lw.frame_pose(model, q, frame=body.name)
        assert np.allclose(X[:3, 3], there.xpos, atol=1e-12) and np.allclose(
            X[:3, :3], there.xmat.reshape(3, 3), atol=1e-12
        )
        mujoco.mj_objectVelocity(peer, data, mujoco.mjtObj.mjOBJ_XBODY, there.id, speed, 1)
        assert np.allclose(lw.frame_velocity(model, q, v, frame=body.name), speed, atol=1e-12), body.name
    again = lw.load(undescribed(lw.export_mjcf(model)))
    assert "posed" in again.keyframes and again.nv == model.nv


def test_limits_on_one_side_as_mjcf() -> None:
    """MuJoCo's ranges have two bounds; one that it cannot reach is none."""
    pytest.importorskip("mujoco")
    b = ModelBuilder("arms")
    limits: tuple[dict[str, float], ...] = (
        {"lower": -1.0},
        {"upper": 2.0},
        {"max_effort": 3.0},
        {"lower": -1.0, "upper": 1.0},
    )
    for k, words in enumerate(limits):
        b.add_body(f"b{k}", mass=1, inertia=(0.1, 0.1, 0.1))
        b.add_joint(f"j{k}", Revolute((0, 0, 1)), parent="world", child=f"b{k}", **words)
    motor = Actuator("motor", "joint", "j0", (("j0", 1.0),), control_range=(0.0, np.inf))
    model = b.add_actuator(motor).build()
    again = lw.load(undescribed(lw.export_mjcf(model)))
    for word in ("lower", "upper", "max_effort"):
        assert [getattr(j, word) for j in again.joints] == [getattr(j, word) for j in model.joints]
    assert again.actuators[0].control_range == motor.control_range


def test_meshes_as_mjcf(tmp_path: Path) -> None:
    """Named from the folder that has them, and at their places; files that MuJoCo does not read are left out."""
    mujoco = pytest.importorskip("mujoco")
    corners = [(0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 3)]
    (tmp_path / "robot/meshes").mkdir(parents=True)
    (tmp_path / "robot/meshes/wedge.obj").write_text(
        "".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    shapes = "".join(
        f'<{tag}><origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/><geometry><mesh filename="package://robot/meshes/{file}" '
        f'scale="0.5 0.5 2"/></geometry></{tag}>'
        for tag, file in (("visual", "wedge.dae"), ("collision", "wedge.obj"))
    )
    text = f"""<robot name="r"><link name="world"/><link name="a"><inertial><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>{shapes}</link>
      <joint name="j" type="continuous"><parent link="world"/><child link="a"/></joint></robot>"""
    model = lw.load(text)
    with pytest.raises(
        ModelError,
        match="shape 'a::collision1': a mesh cannot be exported; pass the folder of its file with meshes=",
    ):
        lw.export_mjcf(model)
    assert "mesh" not in undescribed(lw.export_mjcf(model, allow_loss=["collision shapes"]))
    lw.export_mjcf(model, tmp_path / "out.xml", meshes=tmp_path / "robot")
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    assert peer.ngeom == 1
    found = peer.mesh_vert @ data.geom_xmat[0].reshape(3, 3).T + data.geom_xpos[0]
    place = model.geometries[1].place
    wanted = (np.array(corners) * (0.5, 0.5, 2)) @ np.asarray(place.R, dtype=float).T + np.asarray(
        place.p, dtype=float
    )
    assert np.allclose(sorted(found.tolist()), sorted(wanted.tolist()), atol=1e-6)
    assert differences(model, lw.load(tmp_path / "out.xml")) == []
    again = lw.load(undescribed((tmp_path / "out.xml").read_text()), folders=[tmp_path]).geometries[0]
    assert again.mesh == "robot/meshes/wedge.obj" and again.scale == (0.5, 0.5, 2.0)
    assert np.allclose(again.place.matrix().astype(float), place.matrix().astype(float), atol=1e-6)
    with pytest.raises(ModelError, match="mesh 'package://robot/meshes/wedge.obj': file not found"):
        lw.export_mjcf(model, meshes=tmp_path / "robot/meshes")


LOOPED: dict[str, Callable[[], Model]] = {
    "four-bar": lw.robots.four_bar,
    "stewart": lw.robots.stewart,
    "slider-crank": lw.robots.slider_crank,
    "ring spherical": lambda: linkage("ring spherical"),
}


@pytest.mark.parametrize(
    "name", ["four-bar", *(pytest.param(n, marks=pytest.mark.slow) for n in LOOPED if n != "four-bar")]
)
def test_loops_as_mjcf(name: str) -> None:
    """What is closed here is closed in MuJoCo, and the file read again has as many degrees of freedom."""
    mujoco = pytest.importorskip("mujoco")
    model = LOOPED[name]()
    text = undescribed(lw.export_mjcf(model))
    peer = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(peer)
    again = lw.load(text)
    assert again.nv == model.nv
    q, _ = again.random_state(3)
    data.qpos[:] = lw.interop.mujoco.States(again.spanning_tree(), peer).q_to(q)
    mujoco.mj_forward(peer, data)
    rows = data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    assert rows.any() and np.abs(data.efc_pos[rows]).max() < 1e-9


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    b = (
        ModelBuilder("one")
        .add_body("a", mass=1, inertia=(1, 1, 1))
        .add_joint("j", Revolute(), parent="world", child="a")
    )
    b.add_body("b", mass=1, inertia=(1, 1, 1)).add_joint("k", Revolute(), parent="world", child="b")
    b.add_implicit_constraint("cam", lambda q: q[0] - lw.sin(q[1]), joints=["j", "k"])
    model = b.build()
    for export in (lw.export_urdf, lw.export_mjcf):
        with pytest.raises(ModelError, match="'cam' is an implicit constraint"):
            export(model)
        with pytest.raises(ModelError, match="expected a linkwork.Model, got str"):
            export("robot.urdf")  # type: ignore[arg-type]
    text = lw.export_urdf(tree(Revolute()), tmp_path / "out.urdf")
    assert (tmp_path / "out.urdf").read_text() == text
