"""Shapes that overlap at the start of a motion are told, by body and depth; and the command puts robots on
the ground.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.cli.cli import main
from linkwork.spatial import Pose


def balls(count: int = 1) -> lw.Model:
    """Balls of 0.1 m, each a mechanism of its own."""
    builder = lw.ModelBuilder("balls")
    for k in range(count):
        builder.add_body(f"ball{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"free{k}", lw.joints.Free(), parent="world", child=f"ball{k}")
        builder.add_geometry(lw.Geometry(f"skin{k}", -1, Pose.identity(), "sphere", (0.1,), link=f"ball{k}"))
    return builder.build()


def at(*places: tuple[float, float, float]) -> np.ndarray:
    return np.concatenate([[*place, 0.0, 0.0, 0.0, 1.0] for place in places])


def environment(model: lw.Model, q: np.ndarray, contacts: Any, **_: Any) -> Any:
    pytest.importorskip("gymnasium")
    q = np.atleast_2d(q)
    return lw.interop.gymnasium.VectorEnv(
        model, len(q), action=lw.interop.gymnasium.torques(model, 1.0), contacts=contacts,
        reset=lambda rng, count: (q[:count], np.zeros((count, model.nv))),
    )  # fmt: skip


CALLS: dict[str, Any] = {
    "rollout": lambda m, q, c, **x: lw.rollout(m, q, np.zeros(m.nv), dt=1e-3, steps=2, contacts=c, **x),
    "simulate": lambda m, q, c, **x: lw.simulate(m, q, np.zeros(m.nv), 0.002, contacts=c, **x),
    "VectorEnv": environment,
}


def told(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in found if issubclass(each.category, lw.InitialPenetrationWarning)]


@pytest.mark.parametrize("who", CALLS)
def test_bodies_and_depth_are_told(who: str) -> None:
    call, rigid = CALLS[who], lw.Contacts()
    (found,) = told(lambda: call(balls(), at((0.0, 0.0, 0.06)), rigid))
    assert found.startswith(
        f"{who}: ball0 and the ground (skin0, sphere on plane) overlap by 0.04 m at the start: "
    )
    (found,) = told(lambda: call(balls(2), at((0.0, 0.0, 1.0), (0.15, 0.0, 1.0)), rigid))
    assert (
        "overlap by 0.05 m at the start" in found
        and "ball0" in found
        and "ball1" in found
        and "ground" not in found
    )
    rows = np.array([at((0.0, 0.0, z), (3.0, 0.0, 0.08)) for z in (0.3, 0.03, 0.05)])
    (found,) = told(lambda: call(balls(2), rows, rigid))
    assert (
        "ball0 and the ground" in found
        and "by 0.07 m at the start in 3 of 3 rows, most in row 1, and 1 more contact" in found
    )
    for height in (0.1, 0.096, 0.5):
        assert not told(lambda height=height: call(balls(), at((0.0, 0.0, height)), rigid))
    assert not told(
        lambda: call(balls(), at((0.0, 0.0, 0.06)), lw.Contacts(stiffness=100.0))
    )  # as deep as that is soft


def test_motions_that_go_on_say_nothing() -> None:
    model, q = balls(), at((0.0, 0.0, 0.06))
    first = lw.rollout(model, q, np.zeros(6), dt=1e-3, steps=2, contacts=lw.Contacts())
    how: dict[str, Any] = {"contacts": lw.Contacts(), "status": first.status}
    assert not told(lambda: CALLS["rollout"](model, q, warm_start=first.impulses, c=how["contacts"]))
    log = lw.simulate(model, q, np.zeros(6), 0.002, contacts=lw.Contacts())
    assert not told(lambda: lw.simulate(model, start=log.state(), duration=0.002, contacts=lw.Contacts()))


def test_the_command_puts_robots_on_the_ground(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["simulate", "quadruped", "--contact", "--duration", "0.02", "--rows", "3", "--json"]
    assert main(given) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["notes"] == [] and found["energy"]["last"] <= found["energy"]["first"] + 1e-9
    assert main(["simulate", "quadruped", "--duration", "0.002"]) == 0
    assert "do not act" not in capsys.readouterr().out


@pytest.mark.parametrize("robot", ["quadruped", "hexapod"])
def test_feet_touch_and_nothing_lies_below(robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if robot not in lw.robots.names():
        pytest.skip("no such robot")
    from linkwork.cli import simulate

    seen: list[np.ndarray] = []
    real = simulate._simulated
    monkeypatch.setattr(
        simulate, "_simulated", lambda model, q, *rest: seen.append(q.copy()) or real(model, q, *rest)
    )
    assert main(["simulate", robot, "--contact", "--duration", "0.001", "--rows", "4"]) == 0
    model = getattr(lw.robots, robot)()
    candidates = lw.contact_candidates(model)
    gaps = lw.contact_points(model, seen[0])[0][
        :, [k for k, each in enumerate(candidates) if each.other == -1]
    ]
    assert np.allclose(gaps.min(axis=1), 0.0, atol=1e-8)


@pytest.mark.parametrize("who", CALLS)
def test_shapes_that_cannot_be_tested_are_told(who: str) -> None:
    """A mesh without a hull fell through the ground without a word; no warning where other shapes are named."""
    builder = lw.ModelBuilder("stone and ball")
    builder.add_body("stone", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("free", lw.joints.Free(), parent="world", child="stone")
    builder.add_geometry(lw.Geometry("hide", shape="mesh", mesh="stone.stl", link="stone"))
    builder.add_geometry(lw.Geometry("ball", shape="sphere", size=(0.1,), link="stone"))
    model = builder.build()
    q = at((0.0, 0.0, 1.0))
    with pytest.warns(lw.UntestedShapesWarning, match="1 mesh has no hull and can touch nothing"):
        CALLS[who](model, q, lw.Contacts())
    CALLS[who](model, q, lw.Contacts(shapes=["ball"]))
