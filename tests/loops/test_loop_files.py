"""YAML files with the loops of parallel robots, beside URDF files that are trees."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from linkwork.joints import Fixed, Spherical

INERTIA = '<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>'
LINK = f'<inertial><origin xyz="0.1 0 0"/><mass value="1"/>{INERTIA}</inertial>'


def joint(name: str, parent: str, child: str, xyz: str, kind: str = "continuous") -> str:
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}"/><axis xyz="0 0 1"/>'
    return f'<joint name="{name}" type="{kind}">{ends}</joint>'


URDF = f"""<robot name="bars"><link name="base"/>
{"".join(f'<link name="{name}">{LINK}</link>' for name in ("crank", "rod", "rocker", "arm"))}
<link name="tip"/><link name="pin"/>{joint("pivot", "base", "rocker", "0.6 0 0")}
{joint("motor", "base", "crank", "0 0 0")}{joint("elbow", "crank", "rod", "0.2 0 0")}
{joint("rod_end", "rod", "tip", "0.6 0 0", "fixed")}{joint("rocker_end", "rocker", "pin", "0.5 0 0", "fixed")}
{joint("shoulder", "base", "arm", "0 0 0.2")}</robot>"""

FORMS = {
    "brackets": "closed_loop: [['tip', \"pin\"]]  # a pin\ntype: ['3D']\nname_mot: [motor]\n",
    "dashes": "closed_loop:\n  - [tip, pin]\ntype:\n  - 3d\nname_mot:\n- motor\n",
    "nested dashes": "---\ntype: [3d]\nclosed_loop:\n- - tip\n  - pin\nname_mot: [motor]\n",
    "lines": "closed_loop: [\n    # the pin\n    [tip,\n     pin],\n  ]\ntype: [3d]\nname_mot:\n  [\n    motor,\n  ]\n",
    "joints": "closed_loop: [[rod_end, rocker_end]]\ntype: [3d]\nname_mot: [motor]\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: str, tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(URDF)
    (tmp_path / "robot.yaml").write_text(FORMS[form])
    model = lw.load(tmp_path / "robot.urdf", loops=tmp_path / "robot.yaml")
    assert model.nv == 2 and isinstance(model.loops[0].kind, Spherical)
    assert [(a.name, a.joints) for a in model.actuators] == [("motor", (("motor", 1.0),))]
    q, _ = model.random_state(0)
    tip, pin = (lw.frame_pose(model, q, frame=name)[:3, 3] for name in ("tip", "pin"))
    assert np.allclose(tip, pin, atol=1e-12)


def test_joints_that_are_others_in_truth(tmp_path: Path) -> None:
    yaml = tmp_path / "robot.yml"
    yaml.write_text(
        "closed_loop: []\ntype: []\njoint_name: [shoulder, elbow, pivot]\njoint_type: [SPHERICAL, UJOINT_XY, FIXED]\n"
    )
    model = lw.load(URDF, loops=str(yaml))
    names = [joint.name for joint in model.joints]
    assert names == ["motor", "elbow_X", "elbow_Y", "shoulder"] and isinstance(
        model.joint("shoulder").kind, Spherical
    )
    assert [model.joint(name).kind.axis for name in names[1:3]] == [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)]


def test_a_loop_of_six_dimensions(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("closed_loop: [[arm, crank]]\ntype: [6D]\n")
    model = lw.load(URDF.replace("0 0 0.2", "0 0 0"), loops=tmp_path / "a.yaml")
    assert isinstance(model.loops[0].kind, Fixed) and model.nv == 3


FAULTS = {
    "key": ("closed_loops: []", ":1: unknown key 'closed_loops'"),
    "twice": ("type: []\ntype: []", ":2: duplicate key"),
    "open": ("closed_loop: [[a, b]\n", ":2: invalid YAML: expected ',' or ']'"),
    "too many": ("closed_loop: []]", ":1: invalid YAML"),
    "alias": ("name_mot: &a [motor]\njoint_name: *a", ":2: aliases are not supported"),
    "mapping": ("name_mot: {motor: 1}", ":1: expected a name or a list of names, got a mapping"),
    "count": ("closed_loop: [[tip, pin]]\ntype: []", "type: expected 1 entries"),
    "triple": ("closed_loop: [[tip, pin, arm]]\ntype: [3d]", "pairs of names"),
    "dimension": ("closed_loop: [[tip, pin]]\ntype: [2d]", "type: expected 3D or 6D, got 2d"),
    "frame": (
        "closed_loop: [[tip, pint]]\ntype: [3d]",
        "name of a link or frame, got 'pint' (did you mean 'pin'",
    ),
    "motor": ("name_mot: [motr]", "no joint named 'motr' in the model file (did you mean 'motor'?)"),
    "joint type": ("joint_name: [motor]\njoint_type: [HINGE]", "SPHERICAL, FIXED or UJOINT_XY, got HINGE"),
    "deep": ("closed_loop: " + "[" * 100, "nested deeper than 5"),
    "text": ("nothing", "expected a key"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_told(fault: str, tmp_path: Path) -> None:
    text, words = FAULTS[fault]
    (tmp_path / "robot.yaml").write_text(text)
    with pytest.raises(ModelError) as told:
        lw.load(URDF, loops=tmp_path / "robot.yaml")
    assert words in str(told.value)


def test_without_pyyaml_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "robot.yaml").write_text("type: []")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(lw.MissingPackageError, match=r"linkwork\[yaml\]"):
        lw.load(URDF, loops=tmp_path / "robot.yaml")
