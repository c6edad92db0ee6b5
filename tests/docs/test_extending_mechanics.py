"""Recipes of docs/extending.md for constraints, collision functions and formats: each ends in public calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from chain_format import read_chain
from fixed_distance import FixedDistance
from linkwork.contact.pairs import ON_SURFACES
from linkwork.formats.load import READERS
from tyre import tyre

PAGE = Path(__file__).resolve().parents[2] / "docs/extending.md"


@pytest.mark.parametrize("name", ["fixed_distance.py", "tyre.py", "chain_format.py"])
def test_the_page_includes_the_example(name: str) -> None:
    assert f"{{literalinclude}} ../tests/helpers/{name}" in PAGE.read_text(encoding="utf-8")


ENDS = [("arm", "tool", "world"), ("quadruped", "front_left_foot", "front_right_foot")]


def origin(model: lw.Model, q: np.ndarray, frame: str) -> np.ndarray:
    return np.zeros(3) if frame == "world" else lw.frame_pose(model, q, frame=frame)[:3, 3]


@pytest.mark.parametrize(("robot", "frame", "to"), ENDS)
def test_the_row_of_a_distance_is_its_gradient(robot: str, frame: str, to: str) -> None:
    model = getattr(lw.robots, robot)()
    q, _ = model.random_state(0)
    rod = FixedDistance(frame, 0.5, to)

    def distance(step: np.ndarray) -> float:
        moved = lw.integrate(model, q, step)
        return float(np.linalg.norm(origin(model, moved, frame) - origin(model, moved, to)))

    h = 1e-6
    gradient = [(distance(h * e) - distance(-h * e)) / (2 * h) for e in np.eye(model.nv)]
    np.testing.assert_allclose(lw.constraint_jacobian(model, q, constraints=rod)[0], gradient, atol=1e-9)


@pytest.mark.parametrize(("robot", "frame", "to"), ENDS)
def test_accelerations_keep_the_rate_of_a_distance(robot: str, frame: str, to: str) -> None:
    model = getattr(lw.robots, robot)()
    q, v = model.random_state(0)
    tau = np.random.default_rng(0).normal(size=model.nv)
    rod = FixedDistance(frame, 0.5, to)
    a, forces = lw.constrained_dynamics(model, q, v, tau, constraints=rod)

    def rate(h: float) -> float:
        moved = lw.integrate(model, q, h * v)
        return float(lw.constraint_jacobian(model, moved, constraints=rod)[0] @ (v + h * a))

    h = 1e-4
    assert abs(rate(h) - rate(-h)) / (2 * h) < 1e-4
    residual = lw.inverse_dynamics(model, q, v, a) - tau
    np.testing.assert_allclose(
        residual, lw.constraint_jacobian(model, q, constraints=rod).T @ forces, atol=1e-9
    )


def wheel() -> lw.Model:
    builder = lw.ModelBuilder("wheel with a tyre")
    builder.add_body("wheel", mass=1.0, inertia=(0.1, 0.1, 0.2))
    builder.add_joint("free", lw.joints.Free(), parent="world", child="wheel")
    builder.add_geometry("tyre", "cylinder", (0.3, 0.1), link="wheel")
    builder.add_geometry("ground", "plane", (0.0, 0.0, 0.1))
    return builder.build()


@pytest.mark.parametrize("lean", [0.3, 0.7, 1.2, np.pi / 2])
def test_a_tyre_touches_with_the_lowest_point_of_a_torus(
    lean: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ON_SURFACES, "cylinder", tyre)
    model = wheel()
    q = np.array([0.0, 0.0, 1.0, np.sin(lean / 2), 0.0, 0.0, np.cos(lean / 2)])
    gap, point, normal = lw.contact_points(model, q)
    height = 1.0 - 0.25 * np.sin(lean) - 0.05
    np.testing.assert_allclose(gap, [height], atol=1e-12)
    np.testing.assert_allclose(normal, [[0.0, 0.0, 1.0]], atol=1e-12)
    np.testing.assert_allclose(point[0, 0], 0.0, atol=1e-12)


CHAIN = '<chain name="whip"><link name="a" length="0.5" mass="1.0"/><link name="b" length="0.3" mass="0.4"/></chain>'


def test_files_of_a_new_format_are_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(READERS, "chain", read_chain)
    (tmp_path / "whip.xml").write_text(CHAIN)
    whip = lw.load(tmp_path / "whip.xml")
    assert [body.name for body in whip.bodies] == ["a", "b"]
    hanging = lw.gravity_force(whip, np.array([np.pi / 2, 0.0]))
    np.testing.assert_allclose(np.abs(hanging), [9.81 * (0.25 * 1.0 + 0.65 * 0.4), 9.81 * 0.15 * 0.4])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHAIN.replace("mass", "masse"), ":1: .*unknown attribute 'masse'"),
        (CHAIN.replace("<link", "<rod", 1).replace("/>", "/>", 1), "unknown element; expected <link>"),
        (CHAIN.replace('length="0.3" ', ""), "missing attribute length"),
    ],
)
def test_a_new_format_names_the_line_of_an_error(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READERS, "chain", read_chain)
    with pytest.raises(lw.ModelError, match=words):
        lw.load(text)
