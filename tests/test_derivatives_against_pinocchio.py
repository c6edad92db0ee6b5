"""The derivatives of inverse and forward dynamics of real robots, as Pinocchio finds them."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LinkworkError
from linkwork.formats import urdf
from linkwork.interop.pinocchio import States

pin = pytest.importorskip("pinocchio")

from test_against_pinocchio import BULLET, EXAMPLES, MIMIC, REFUSED, built, ours  # noqa: E402

BENCH = Path(__file__).parents[1] / "bench"
DYNAMICS = re.compile(r"<dynamics\b[^>]*?(/>|>.*?</dynamics>)", re.DOTALL)  # damping and friction
LARGEST = 60  # velocities; the programs of larger robots take minutes to interpret
DIGITS = 1e-13  # rounding, times the condition of the mass matrix: what the inverse may lose


def check(model: lw.Model, peer: Any, count: int) -> None:
    """∂ID and ∂FD in random states, to 1e-10 of the largest entry, or what the mass matrix's condition leaves.

    Where all entries vanish, as for rotors on a fixed base, they may be the rounding errors of forces and accelerations.
    """
    states, data, rng = States(model, peer), peer.createData(), np.random.default_rng(0)
    pairs = [model.random_state(rng) for _ in range(count)]
    q, v = (np.array(x) for x in zip(*pairs))
    a, tau = rng.normal(size=(2, count, model.nv))
    M = ours(lw.mass_matrix, model, q, compiled=False)
    condition = float(np.linalg.cond(M).max())
    calls = {lw.inverse_dynamics_derivatives: (pin.computeRNEADerivatives, a, 1e-10, float(np.abs(M).max()))}
    if condition < 1e9:
        size = float(np.abs(np.linalg.solve(M, tau[..., None])).max())
        calls[lw.forward_dynamics_derivatives] = (pin.computeABADerivatives, tau, max(1e-10, DIGITS * condition), size)
    for function, (theirs, x, tolerance, size) in calls.items():
        found = ours(function, model, q, v, x, compiled=False)
        Q, V, X = states.q_to(q), states.v_to(v), states.v_to(x)
        for k in range(count):
            right = [states.matrix_from(np.array(m)) for m in theirs(peer, data, Q[k], V[k], X[k])]
            for which, want in enumerate(right[:2]):
                off = np.abs(found[which][k] - want).max() / max(np.abs(want).max(), 1e-3 * size)
                assert off < tolerance, f"{model.name}: {function.__name__}, by {'qv'[which]}: {off:.1e}"


@cache
def bench(module: str) -> Any:
    """A module of the bench's folder."""
    spec = importlib.util.spec_from_file_location(module, BENCH / f"{module}.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def in_pinocchio(robot: str) -> Any:
    """A robot of the bench in Pinocchio."""
    robots, peer, places = bench("robots"), pin.Model(), [0]
    kinds = {"x": pin.JointModelRX, "y": pin.JointModelRY, "z": pin.JointModelRZ, None: pin.JointModelFreeFlyer}
    for k, (body, joint) in enumerate(zip(robots.bodies(robot), robots.model(robot).joints)):
        place = pin.SE3(joint.place.R, joint.place.p)
        places.append(peer.addJoint(places[body["parent"] + 1], kinds[body["axis"]](), place, f"joint{k}"))
        inertia = pin.Inertia(body["mass"], np.array(body["com"], float), np.array(body["inertia"], float))
        peer.appendBodyToJoint(places[-1], inertia, pin.SE3.Identity())
    return peer


@pytest.mark.parametrize(
    "robot", ["iiwa14", *(pytest.param(name, marks=pytest.mark.slow) for name in ("solo12", "g1", "talos"))]
)
def test_robots_of_the_bench(robot: str) -> None:
    check(bench("robots").model(robot), in_pinocchio(robot), 3)


@pytest.mark.slow
@pytest.mark.skipif(not EXAMPLES, reason="example-robot-data is not installed")
@pytest.mark.parametrize(
    ("path", "base"), list(zip([*EXAMPLES, *BULLET], cycle(["fixed", "free"]))), ids=lambda x: getattr(x, "stem", x)
)
def test_robots_of_the_package_index(path: Path, base: str) -> None:
    """On a fixed base and on a free one in turn, for most robots are there in several variants.

    Without mimic joints, damping and friction, which Pinocchio leaves out of its derivatives.
    """
    if path.stem in REFUSED:
        pytest.skip("this file cannot be loaded")
    text = DYNAMICS.sub("", MIMIC.sub("", path.read_text(errors="replace")))
    model = urdf.read(text, base=base)
    if not 0 < model.nv <= LARGEST:
        pytest.skip(f"it has {model.nv} velocities")
    try:
        check(model, built(text, base), 2)
    except LinkworkError as error:
        assert "moves no mass" in str(error)
