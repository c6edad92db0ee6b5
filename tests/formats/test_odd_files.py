"""Valid but unusual files, written by hand, mean what Pinocchio and the rules of SDFormat say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from file_checks import check_urdf, value
from odd_sdf import SDF
from odd_urdf import URDF
from sdf_reference import reference


@pytest.mark.sweep(5)
@pytest.mark.parametrize("label", URDF)
def test_urdf_agrees_with_pinocchio(label: str) -> None:
    pytest.importorskip("pinocchio")
    assert check_urdf(URDF[label]) in ("", "nothing moves")


def pose_in_world(model: lw.Model, name: str) -> np.ndarray:
    frame = model.frame(name)
    T = np.eye(4)
    if frame.body >= 0:
        return value(lw.frame_pose, model, model.neutral(), frame=name)
    T[:3, :3], T[:3, 3] = frame.place.R, frame.place.p
    return T


@pytest.mark.sweep(3)
@pytest.mark.parametrize("label", SDF)
def test_sdf_agrees_with_its_rules(label: str, tmp_path: Path) -> None:
    text, files = SDF[label]
    for name, other in files.items():
        (tmp_path / name).write_text(other)
    (tmp_path / "main.sdf").write_text(text)
    model = lw.load(str(tmp_path / "main.sdf"), folders=[str(tmp_path)], strict=True)
    links, axes, inertias = reference(text, files)
    names = {frame.name for frame in model.frames}
    for name, expected in links.items():
        short = name if name in names else name.partition("::")[2]
        np.testing.assert_allclose(pose_in_world(model, short), expected, atol=1e-12, err_msg=name)
    joints = {joint.name: joint for joint in model.joints}
    for name, axis in axes.items():
        joint = joints[name if name in joints else name.partition("::")[2]]
        if joint.nv > 1:
            continue
        T = np.eye(4) if joint.parent < 0 else pose_in_world(model, model.bodies[joint.parent].name)
        R, p = T[:3, :3] @ joint.place.R, T[:3, 3] + T[:3, :3] @ joint.place.p
        np.testing.assert_allclose(R @ np.array(joint.kind.axis), axis.direction, atol=1e-12, err_msg=name)
        if axis.type != "prismatic":
            assert np.linalg.norm(np.cross(p - axis.point, axis.direction)) < 1e-12, name
    fixed = {name for name in links if name not in names and name.partition("::")[2] not in names}
    if fixed or sum(x.mass for x in inertias.values()) > model.mass + 1e-9:
        return  # links that are fixed to the world have no inertia here
    center = sum(x.mass * x.center for x in inertias.values()) / model.mass
    found = value(lw.center_of_mass, model, model.neutral())
    np.testing.assert_allclose(found, center, atol=1e-12)
    total = np.zeros((3, 3))
    for body in model.bodies:
        T = pose_in_world(model, body.name)
        total += _about_origin(
            body.mass, T[:3, 3] + T[:3, :3] @ body.center, T[:3, :3] @ body.moment @ T[:3, :3].T
        )
    np.testing.assert_allclose(total, sum(_about_origin(*x) for x in inertias.values()), atol=1e-11)


def _about_origin(mass: float, center: np.ndarray, moment: np.ndarray) -> np.ndarray:
    return moment + mass * ((center @ center) * np.eye(3) - np.outer(center, center))
