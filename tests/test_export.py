"""Models written as URDF and MJCF and read again are the same mechanisms; MuJoCo reads what is written for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from linkages import LOOP_KINDS, linkage
from linkwork.errors import ModelError
from linkwork.joints import Cylindrical, Fixed, Free, Gimbal, Helical, Joint, Planar, Prismatic, Revolute, Spherical, Universal
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
        place = Pose.placed(rng.uniform(-0.3, 0.3, 3), rng.uniform(-1.5, 1.5, 3))
        acting = {"damping": 0.2, "stiffness": 3.0, "rest": 0.1, "armature": 0.05, "lower": -2, "upper": 1.5}
        acting = acting if joint.nv == 1 else {}
        b.add_joint(f"to {name}", joint, parent=parent, child=name, place=place, **acting)
    b.add_body("tool", mass=0.5, inertia=(0.01, 0.01, 0.01))
    b.add_joint("hold", Fixed(), parent="b", child="tool", rpy=(1, 2, 0.5))
    b.add_frame("tip", body="tool", xyz=(0.1, 0.2, 0.3), rpy=(0.0, np.pi / 2, 0.3)).add_frame("mark", xyz=(1, 2, 3))
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
        assert frame.body == there.body and np.allclose(frame.place.matrix(), there.place.matrix(), atol=1e-14)


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
            assert end.body == other.body and np.allclose(end.place.matrix(), other.place.matrix(), atol=1e-14)


def test_couplings_as_urdf() -> None:
    b = ModelBuilder("gears")
    for k in range(4):
        b.add_body(f"b{k}", mass=1, inertia=(0.1, 0.1, 0.1))
        b.add_joint(f"j{k}", Revolute((0, 0, 1)), parent="world", child=f"b{k}")
    b.add_coupling("differential", {"j0": 1.0, "j1": -2.0, "j2": 0.5}, offset=0.3)
    b.add_coupling("j3 follows j2", {"j3": 1.0, "j2": -3.0}, offset=0.1)
    model = b.build()
    text = lw.export_urdf(model)
    assert '<mimic joint="j2" multiplier="3" offset="0.1"/>' in text and '<term joint="j1" coefficient="-2"/>' in text
    again = lw.load(text)
    q, _ = again.random_state(0)
    assert np.isclose(q[0] - 2 * q[1] + 0.5 * q[2], 0.3) and np.isclose(q[3], 3 * q[2] + 0.1)


# MJCF


SOME = [("spherical", "free"), ("universal", "fixed")]
OTHERS = [(kind, base) for kind in KINDS for base in ("fixed", "free") if kind not in ("planar", "helical")]


@pytest.mark.parametrize(
    ("kind", "base"), [*SOME, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in OTHERS if pair not in SOME)]
)
def test_a_tree_as_mjcf(kind: str, base: str) -> None:
    pytest.importorskip("mujoco")
    model = tree(KINDS[kind], Free() if base == "free" else None)
    again = lw.load(lw.export_mjcf(model))
    assert again.nv == model.nv and again.nq == model.nq
    q, v = model.random_state(5)
    tau = np.random.default_rng(2).normal(size=model.nv)
    there = q.copy()
    if base == "free":  # its coordinates are the pose in the world there
        T = Pose(model.joints[0].place.R, model.joints[0].place.p).matrix()
        pose = T @ Pose(lw.spatial.rotation.matrix(q[3:7]), q[:3]).matrix()
        there[:3], there[3:7] = pose[:3, 3], lw.spatial.rotation.of_matrix(pose[:3, :3])
    for name in ("a", "b", "c", "tip", "tool", "mark"):
        assert np.allclose(lw.frame_pose(model, q, frame=name), lw.frame_pose(again, there, frame=name), atol=1e-10), name
    a = lw.forward_dynamics(model, q, v, tau)
    assert np.allclose(a, lw.forward_dynamics(again, there, v, tau), rtol=1e-9, atol=1e-9 * (1 + np.abs(a).max()))


LOOPED: dict[str, Callable[[], Model]] = {
    "four-bar": lw.robots.four_bar,
    "stewart": lw.robots.stewart,
    "slider-crank": lw.robots.slider_crank,
    "ring spherical": lambda: linkage("ring spherical"),
}


@pytest.mark.parametrize("name", ["four-bar", *(pytest.param(n, marks=pytest.mark.slow) for n in LOOPED if n != "four-bar")])
def test_loops_as_mjcf(name: str) -> None:
    """What is closed here is closed in MuJoCo, and the file read again has as many degrees of freedom."""
    mujoco = pytest.importorskip("mujoco")
    model = LOOPED[name]()
    text = lw.export_mjcf(model)
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
    b = ModelBuilder("one").add_body("a", mass=1, inertia=(1, 1, 1)).add_joint("j", Revolute(), parent="world", child="a")
    b.add_body("b", mass=1, inertia=(1, 1, 1)).add_joint("k", Revolute(), parent="world", child="b")
    b.add_implicit_constraint("cam", lambda q: q[0] - lw.sin(q[1]), joints=["j", "k"])
    model = b.build()
    for export in (lw.export_urdf, lw.export_mjcf):
        with pytest.raises(ModelError, match="'cam' is an implicit constraint"):
            export(model)
        with pytest.raises(ModelError, match="a linkwork model is needed, not str"):
            export("robot.urdf")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="to b.*Planar"):
        lw.export_mjcf(tree(Planar()))
    text = lw.export_urdf(tree(Revolute()), tmp_path / "out.urdf")
    assert (tmp_path / "out.urdf").read_text() == text
