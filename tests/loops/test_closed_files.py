"""Files of public packages whose mechanisms are closed: they load, have the right mobility, and their states
are closed.
"""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import numpy as np
import pytest
from test_closed_mechanisms import EPS, independent_indices

import linkwork as lw
from linkwork.joints import Spherical
from linkwork.model import Model
from mp_mechanics import Tree, constrained_motion

FILES = Path(os.environ.get("LINKWORK_URDF_PLUS") or Path(__file__).parents[2] / "../shared/data/urdf_plus")
PLUS = {"four_bar": 1, "six_bar": 3, "planar_leg_linkage": 2, "mit_humanoid_leg": 5}  # degrees of freedom
KNEES = {
    "R": (0.0, 0.005, 0.2),
    "L": (0.0, 0.01, 0.2),
}  # in pybullet_envs/minitaur/envs/minitaur.py, from the centre of mass
MINITAURS = ("minitaur", "minitaur_v1")


def check(model: Model, gap: float, states: int, dynamics: int) -> None:
    """Random states are closed, to 1e-12 or to a gap [m, rad], and some of them move as the oracle says."""
    rng = np.random.default_rng(0)
    for n in range(states):
        q, v = model.random_state(rng)
        assert Tree(model, q, jacobians=False).misses(model.embedded, 1.0) < max(gap, 1e-12), n
        if n < dynamics:
            tau = rng.normal(size=model.nv_spanning)
            right = constrained_motion(model, q, v, tau, independent_indices(model))
            a = lw.forward_dynamics(model, q, v, lw.independent_force(model, q, tau))
            found = lw.spanning_acceleration(model, q, v, a)
            error = np.abs((found - right.a) * right.scale).max() / np.abs(right.a * right.scale).max()
            assert error <= 100 * right.condition * max(EPS, gap), (n, error, right.condition)


@pytest.mark.slow
@pytest.mark.skipif(
    not (FILES / "four_bar.urdf").is_file(), reason="needs the URDF+ files (LINKWORK_URDF_PLUS)"
)
@pytest.mark.parametrize("file", PLUS)
def test_files_of_urdf_plus(file: str) -> None:
    model = lw.load(FILES / f"{file}.urdf")
    assert model.nv == PLUS[file]
    check(model, 0.0, 200, 3)


def minitaur(name: str, *, standing: bool) -> Model:
    """Ghost Robotics' Minitaur: each leg is a five-bar, whose loop the simulation adds, where it is
    `standing`.
    """
    try:
        found = importlib.metadata.files("pybullet") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("pybullet is not installed")
    path = next(Path(str(f.locate())) for f in found if f.name == f"{name}.urdf")
    tree = lw.load(path)
    loops = []
    for leg in ("front_left", "back_left", "front_right", "back_right"):
        bodies = {side: tree.bodies[tree.joint(f"knee_{leg}{side}_link").child] for side in KNEES}
        points = {side: (body.center + KNEES[side]).tolist() for side, body in bodies.items()}
        ends = {"predecessor": bodies["R"].name, "successor": bodies["L"].name}
        loops.append(
            {"name": leg, "kind": Spherical(), **ends, "xyz": points["R"], "successor_xyz": points["L"]}
        )
    posture = {}
    for joint in tree.joints:
        angle = np.pi / 2 if joint.name.startswith("motor") else -2.1834
        posture[joint.name] = -angle if "left" in joint.name else angle
    return lw.load(path, loops=loops, start=posture if standing else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", MINITAURS)
def test_minitaur(name: str) -> None:
    """Its hinges are turned by 1.57075: the file's gap is some 1e-4 m.

    At zero both halves of each leg lie on one another. From there they can also turn as one, without ever
    coming apart: that is another branch, with as many degrees of freedom.
    """
    assert minitaur(name, standing=False).nv == 8
    model = minitaur(name, standing=True)
    assert model.nv == 8
    check(model, 1e-3, 200, 3)
