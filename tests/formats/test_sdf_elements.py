"""SDF, element by element, against forward kinematics written from the specification."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from linkwork.model import Model
from linkwork.spatial import Pose

INERTIAL = "<inertial><mass>1</mass></inertial>"
A = "0.1 0.2 0.3 0.1 0.2 0.3"
B = "0.5 -0.2 0.4 0.4 -0.2 1.3"
C = "0.9 0.1 0.2 -0.4 0.7 0.3"
PLACES = {"a": A, "b": B, "c": C}


def pose_of(numbers: str) -> np.ndarray:
    values = [float(x) for x in numbers.split()]
    return np.asarray(Pose.from_xyz_rpy(values[:3], values[3:]).matrix(), dtype=float)


POSES = {name: pose_of(where) for name, where in PLACES.items()}


def link(name: str, more: str = "") -> str:
    return f'<link name="{name}"><pose>{PLACES[name]}</pose>{INERTIAL}{more}</link>'


def joint(name: str, kind: str, parent: str, child: str, inside: str = "") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{inside}</joint>'
    )


def model(*parts: str, version: str = "1.9", name: str = "m") -> str:
    return f'<sdf version="{version}"><model name="{name}">{"".join(parts)}</model></sdf>'


def pose(found: Model, q: np.ndarray, frame: str) -> np.ndarray:
    return np.asarray(lw.frame_pose(found, q, frame=frame), dtype=float)


def turned(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rodrigues' formula."""
    x, y, z = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    T = np.eye(4)
    T[:3, :3] += np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
    return T


def between(found: Model, q: np.ndarray, parent: str, child: str) -> np.ndarray:
    """How the child has moved as seen from the parent, in the child's frame at zero, where the joint is."""
    at_zero = np.linalg.inv(POSES[parent]) @ POSES[child]
    return np.linalg.inv(pose(found, q, parent) @ at_zero) @ pose(found, q, child)


def axis(xyz: str, tag: str = "axis", more: str = "", keys: str = "") -> str:
    return f"<{tag}><xyz {keys}>{xyz}</xyz>{more}</{tag}>"


# versions

AXIS = np.array([0.2, -0.4, 0.6])
XYZ = "0.2 -0.4 0.6"
IN_MODEL = "<use_parent_model_frame>true</use_parent_model_frame>"
# version, what the axis says more: whether it is given in the model's frame, and not in the joint's
VERSIONS = {
    **{(version, ""): True for version in ("1.2", "1.3", "1.4")},
    **{(version, ""): False for version in ("1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11", "1.12")},
    **{(version, IN_MODEL): True for version in ("1.5", "1.6")},
}


def seen(found: Model, of: str, *, in_model: bool) -> None:
    """The hinge between a and b has the axis that its file's version means."""
    q = np.zeros(found.nq)
    q[found.joint(f"{of}j").q_slice] = 0.7
    names = [f"{of}{name}" for name in "ab"]
    rest = [pose(found, np.zeros(found.nq), name) for name in names]
    moved = [pose(found, q, name) for name in names]
    at_b = AXIS if not in_model else POSES["b"][:3, :3].T @ AXIS
    expected = np.linalg.inv(rest[0]) @ rest[1] @ turned(at_b, 0.7)
    assert np.allclose(np.linalg.inv(moved[0]) @ moved[1], expected, atol=1e-12)


@pytest.mark.parametrize(("version", "more"), VERSIONS)
def test_an_axis_is_given_in_the_frame_of_its_version(version: str, more: str) -> None:
    parts = (
        link("a"),
        link("b"),
        joint("fast", "fixed", "world", "a"),
        joint("j", "revolute", "a", "b", axis(XYZ, more=more)),
    )
    seen(lw.load(model(*parts, version=version)), "", in_model=VERSIONS[version, more])


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(("1.4", "1.6", "1.9", "1.12"), repeat=2)))
def test_each_included_file_has_its_own_version(outer: str, inner: str, tmp_path: Path) -> None:
    parts = (link("a"), link("b"), joint("j", "revolute", "a", "b", axis(XYZ)))
    (tmp_path / "arm.sdf").write_text(model(*parts, version=inner, name="arm"))
    include = "<include><uri>arm.sdf</uri><pose>1 2 3 0.3 0.2 0.1</pose></include>"
    own = f'<model name="own">{"".join(parts)}</model>'
    (tmp_path / "world.sdf").write_text(
        f'<sdf version="{outer}"><world name="w">{include}{own}</world></sdf>'
    )
    found = lw.load(tmp_path / "world.sdf", base="fixed")
    seen(found, "arm::", in_model=inner == "1.4")
    seen(found, "own::", in_model=outer == "1.4")


@pytest.mark.parametrize(
    ("version", "pose", "axes", "told"),
    [
        ("1.9", '<pose frame="b">0 0 0 0 0 0</pose>', "", "frame in <pose> is unknown in SDF 1.9"),
        ("1.7", '<pose frame="b">0 0 0 0 0 0</pose>', "", "frame in <pose> is unknown in SDF 1.7"),
        (
            "1.8",
            "",
            "<use_parent_model_frame>1</use_parent_model_frame>",
            "<use_parent_model_frame> in <axis> is unknown",
        ),
        ("1.9", '<pose frame="">0 0 0 0 0 0</pose>', "", ""),
        ("1.6", '<pose frame="b">0 0 0 0 0 0</pose>', "", ""),
        ("1.9", "", "<use_parent_model_frame>0</use_parent_model_frame>", ""),
    ],
)
def test_what_a_version_no_longer_has_is_ignored_and_reported(
    version: str, pose: str, axes: str, told: str
) -> None:
    parts = link("a"), link("b"), joint("fast", "fixed", "world", "a")
    text = model(*parts, joint("j", "revolute", "a", "b", pose + axis(XYZ, more=axes)), version=version)
    found = lw.load(text)
    seen(found, "", in_model=False)
    assert (told in found.report()) if told else ("unknown" not in found.report())
    if told:
        with pytest.raises(ModelError, match=re.escape(told)):
            lw.load(text, strict=True)


@pytest.mark.parametrize(
    ("version", "xyz", "more", "told"),
    [
        ("1.4", 'xyz expressed_in="a"', "", "expressed_in: the axis is in the frame of the model already"),
        (
            "1.4",
            "xyz",
            "<use_parent_model_frame>0</use_parent_model_frame>",
            "expected true, as always before",
        ),
    ],
)
def test_frames_of_an_axis_that_contradict_its_version_are_refused(
    version: str, xyz: str, more: str, told: str
) -> None:
    text = model(link("a"), joint("j", "revolute", "world", "a", axis(XYZ, more=more)), version=version)
    with pytest.raises(ModelError, match=told):
        lw.load(text.replace("<xyz", f"<{xyz}"))


def test_gravity_of_a_later_physics_is_reported() -> None:
    world = '<sdf version="{}"><world name="w"><physics><gravity>0 0 -3</gravity></physics>{}</world></sdf>'
    inner = f'<model name="m">{link("a")}</model>'
    assert lw.load(world.format("1.5", inner)).gravity == (0.0, 0.0, -3.0)
    later = lw.load(world.format("1.9", inner))
    assert later.gravity == (0.0, 0.0, -9.81)
    assert "<gravity> in <physics> is unknown in SDF 1.9 and ignored" in later.report()


def test_infinite_limits_are_none() -> None:
    """The defaults of SDF 1.9 and later, as `gz sdf -p` writes them."""
    words = {"lower": "-inf", "upper": "inf", "effort": "inf", "velocity": "Infinity"}
    limit = "".join(f"<{word}>{value}</{word}>" for word, value in words.items())
    parts = link("a"), joint("j", "revolute", "world", "a", axis(XYZ, more=f"<limit>{limit}</limit>"))
    found = lw.load(model(*parts)).joint("j")
    bare = lw.load(model(link("a"), joint("j", "revolute", "world", "a", axis(XYZ)))).joint("j")
    for word in ("lower", "upper", "max_effort", "max_velocity"):
        assert getattr(found, word) == getattr(bare, word)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.13", "2", "0.9"])
def test_versions_that_are_not_known_are_refused(version: str, tmp_path: Path) -> None:
    old = '<link name="a"><inertial mass="3"/></link>'
    with pytest.raises(ModelError, match=rf"<sdf>: SDF {version} "):
        lw.load(model(old, version=version))
    (tmp_path / "old.sdf").write_text(model(old, version=version))
    (tmp_path / "new.sdf").write_text(model(link("a"), "<include><uri>old.sdf</uri></include>"))
    with pytest.raises(ModelError, match=rf"old.sdf:1: <sdf>: SDF {version} "):
        lw.load(tmp_path / "new.sdf")


# gearboxes

GEAR = "<gearbox_ratio>3</gearbox_ratio><gearbox_reference_body>{}</gearbox_reference_body>"
Z = np.array([0.0, 0.0, 1.0])
# the joints between the reference b and the others: parent, child, axis; backwards where b is the child
TURNS = {
    "out": (("b", "a", "0 0 1"), ("b", "c", "0 0 1")),
    "one reversed": (("b", "a", "0 0 -1"), ("b", "c", "0 0 1")),
    "one backwards": (("a", "b", "0 0 1"), ("b", "c", "0 0 1")),
    "the other backwards": (("b", "a", "0 0 1"), ("c", "b", "0 0 -1")),
    "both backwards": (("a", "b", "0 0 -1"), ("c", "b", "0 0 1")),
}


@pytest.mark.parametrize("fast", "abc")
@pytest.mark.parametrize("signs", list(itertools.product((1, -1), repeat=2)))
@pytest.mark.parametrize("way", TURNS)
def test_a_gearbox_counts_angles_about_its_axes(way: str, signs: tuple[int, int], fast: str) -> None:
    """θ₂ = -ratio θ₁: the angles from the reference body to its parent about <axis>, and to its child about
    <axis2>.
    """
    level = [
        f'<link name="{name}"><pose>{x} 0 0 0 0 {x}</pose>{INERTIAL}</link>'
        for name, x in zip("abc", (0.2, 0.5, 0.9))
    ]
    hinges = [joint(f"j{k}", "revolute", p, c, axis(xyz)) for k, (p, c, xyz) in enumerate(TURNS[way])]
    axes = "".join(axis(f"0 0 {sign}", tag) for sign, tag in zip(signs, ("axis", "axis2")))
    gear = joint("gear", "gearbox", "a", "c", GEAR.format("b") + axes)
    found = lw.load(model(*level, joint("fast", "fixed", "world", fast), *hinges, gear))
    assert found.nv == 1
    q, _ = found.random_state(5)
    rest = np.zeros(found.nq)
    angles = []
    for end in "ac":
        moved = np.linalg.inv(pose(found, q, "b")) @ pose(found, q, end)
        still = np.linalg.inv(pose(found, rest, "b")) @ pose(found, rest, end)
        T = moved @ np.linalg.inv(still)
        angles.append(np.arctan2(T[1, 0], T[0, 0]))
    off = signs[1] * angles[1] + 3 * signs[0] * angles[0]
    assert abs(np.remainder(off + np.pi, 2 * np.pi) - np.pi) < 1e-9 and abs(angles[0]) > 1e-3


def test_a_gearbox_about_other_axes_is_refused() -> None:
    parts = [link(name) for name in "abc"]
    hinges = [
        joint("j0", "revolute", "b", "a", axis("0 0 1")),
        joint("j1", "revolute", "b", "c", axis("0 0 1")),
    ]
    gear = joint("gear", "gearbox", "a", "c", GEAR.format("b") + axis("1 0 0"))
    with pytest.raises(ModelError, match=r"gear.*<axis>: expected the axis of joint 'j0'"):
        lw.load(model(*parts, *hinges, gear))


# static models

HINGE = axis("0 0 1")
STATIC = "<static>true</static>"
FREE = "<static>false</static>"


def in_world(*models: str) -> str:
    return f'<sdf version="1.9"><world name="w">{"".join(models)}</world></sdf>'


def named(name: str, *parts: str) -> str:
    return f'<model name="{name}">{"".join(parts)}</model>'


PAIR = (link("a"), link("b"), joint("j", "revolute", "a", "b", HINGE))
AT_REST = {
    "joints": named("m", STATIC, *PAIR),
    "nested models": named("m", STATIC, link("c"), named("n", *PAIR)),
    "models that are nested and say otherwise": named("m", STATIC, named("n", FREE, *PAIR)),
    "joints in the world": named("m", STATIC, *PAIR, joint("k", "revolute", "world", "a", HINGE)),
    "a nested static model": named(
        "m", joint("k", "fixed", "world", "c"), link("c"), named("n", STATIC, *PAIR)
    ),
}


@pytest.mark.parametrize("case", AT_REST)
@pytest.mark.parametrize("base", [None, "fixed"])
def test_static_models_do_not_move(case: str, base: str | None) -> None:
    found = lw.load(in_world(AT_REST[case]), base=base)
    assert found.nv == 0 and not found.loops
    for frame in found.frames:
        name = frame.name.rpartition("::")[2]
        if name in PLACES:
            assert np.allclose(pose(found, np.zeros(found.nq), frame.name), POSES[name], atol=1e-12)
    if "j" in case:
        assert "a joint between links fixed in the world is ignored" in found.report()


def test_a_model_on_static_models_moves_alone() -> None:
    wall = named("wall", STATIC, link("a"))
    arm = named("arm", link("b"))
    for hinge in (
        joint("j", "revolute", "wall::a", "arm::b", HINGE),
        joint("j", "revolute", "arm::b", "wall::a", HINGE),
    ):
        found = lw.load(in_world(wall, arm, hinge))
        assert found.nv == 1 and found.joints[0].parent == -1
        assert np.allclose(pose(found, np.array([0.4]), "wall::a"), POSES["a"], atol=1e-12)


def test_a_model_between_two_static_models_is_a_loop() -> None:
    walls = [named("one", STATIC, link("a")), named("two", STATIC, link("c"))]
    hinges = [joint("j", "ball", "one::a", "arm::b"), joint("k", "ball", "arm::b", "two::c")]
    found = lw.load(in_world(*walls, named("arm", link("b")), *hinges))
    assert len(found.loops) == 1 and found.nv == 1
    q, _ = found.random_state(3)
    hold = np.linalg.inv(POSES["b"]) @ POSES["c"]
    assert np.allclose((pose(found, q, "arm::b") @ hold)[:3, 3], POSES["c"][:3, 3], atol=1e-9)
    assert np.allclose(pose(found, q, "arm::b")[:3, 3], POSES["b"][:3, 3], atol=1e-9)


def test_a_base_that_cannot_float_is_refused() -> None:
    assert lw.load(model(STATIC, link("a")), base="free").nv == 6
    with pytest.raises(ModelError, match="base='free'"):
        lw.load(model(link("a"), joint("k", "fixed", "world", "a")), base="free")


# names of axes

TWO = axis("0 0 1") + axis("0 1 0", "axis2", "<dynamics><damping>3</damping></dynamics>")


@pytest.mark.parametrize("kind", ["revolute2", "universal"])
@pytest.mark.parametrize("backwards", [False, True])
def test_axes_keep_their_names_when_a_joint_is_taken_backwards(kind: str, backwards: bool) -> None:
    fast = joint("fast", "fixed", "world", "b" if backwards else "a")
    found = lw.load(model(link("a"), link("b"), fast, joint("j", kind, "a", "b", TWO)))
    chain = kind == "revolute2" or backwards
    places = (
        [found.joint(f"j_{k}").q_start for k in (1, 2)]
        if chain
        else [found.joint("j").q_start + k for k in (0, 1)]
    )
    damping = [found.joint(f"j_{k}").damping[0] for k in (1, 2)] if chain else list(found.joint("j").damping)
    q = np.zeros(2)
    q[places] = 0.3, -0.8
    expected = turned(np.array([0.0, 0.0, 1.0]), 0.3) @ turned(np.array([0.0, 1.0, 0.0]), -0.8)
    assert np.allclose(between(found, q, "a", "b"), expected, atol=1e-12) and damping == [0.0, 3.0]
    assert ("reversed (child to parent)" in found.report()) == (kind == "universal" and backwards)


# what does not act in loops

LIMITS = "<limit><lower>-1</lower><upper>2</upper></limit>"


def test_limits_of_closing_joints_are_reported() -> None:
    at = {"a": "0 0 0 0 0 0", "b": "0 0.3 0 0 0 0", "c": "0.6 0 0 0 0 0.2"}
    parts = [f'<link name="{name}"><pose>{where}</pose>{INERTIAL}</link>' for name, where in at.items()]
    parts += [joint("ja", "revolute", "world", "a", HINGE), joint("jb", "revolute", "a", "b", HINGE)]
    parts += [joint("jc", "revolute", "world", "c", HINGE)]
    pin = "<pose>0.1 0.4 0 0 0 0</pose>" + axis("0 0 1", more=LIMITS)
    found = lw.load(model(*parts, joint("pin", "revolute", "b", "c", pin)))
    assert (
        "lower, upper in a joint that closes a loop is not supported and ignored: joint 'pin'"
        in found.report()
    )


@pytest.mark.parametrize(
    "normal",
    ["", "0 0 1", "0 0 2.5", "0 0 -1", "1 0 0", "0 -3 0", "0 4 3", "-1 2 -2"],
    ids=lambda n: n or "none",
)
def test_planes_face_along_their_normals(normal: str) -> None:
    """At rest in the world, or on a link: through the origin of their pose, and +z where none is given."""
    inside = f"<plane>{normal and f'<normal>{normal}</normal>'}</plane>"
    shape = f'<collision name="floor"><pose>{B}</pose><geometry>{inside}</geometry></collision>'
    found = lw.load(model(link("a", shape)), base="free")
    plane = next(each for each in found.geometries if each.shape == "plane")
    R = np.asarray(plane.place.R, dtype=float)
    expected = np.array([float(x) for x in (normal or "0 0 1").split()])
    assert np.allclose(R @ R.T, np.eye(3), atol=1e-14) and np.linalg.det(R) > 0.0
    at_zero = pose(found, found.neutral(), "a") @ np.asarray(plane.place.matrix(), dtype=float)
    there = pose(found, found.neutral(), "a") @ POSES["b"]
    assert np.allclose(at_zero[:3, 2], there[:3, :3] @ expected / np.linalg.norm(expected), atol=1e-14)
    assert np.allclose(at_zero[:3, 3], there[:3, 3], atol=1e-14)


def test_a_plane_needs_a_normal_of_some_length() -> None:
    shape = "<collision name='c'><geometry><plane><normal>0 0 0</normal></plane></geometry></collision>"
    with pytest.raises(ModelError, match="normal: expected a nonzero vector"):
        lw.load(model(link("a", shape)))
