"""Derivatives of dynamics, Coriolis matrices and regressors of real robots, as Pinocchio finds them."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
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

BENCH = Path(__file__).parents[2] / "bench"
DYNAMICS = re.compile(r"<dynamics\b[^>]*?(/>|>.*?</dynamics>)", re.DOTALL)  # damping and friction
LARGEST = 60  # velocities; the programs of larger robots take minutes to interpret
DIGITS = 1e-13  # rounding, times the condition of the mass matrix: what the inverse may lose


def check(model: lw.Model, peer: Any, count: int) -> None:
    """Everything in random states, to 1e-10 of the largest entry, or what the conditions of matrices leave.

    Where all entries vanish, as for rotors on a fixed base, they may be the rounding errors of forces and
    accelerations.
    """
    states = States(model, peer)
    data = peer.createData()
    rng = np.random.default_rng(0)
    pairs = [model.random_state(rng) for _ in range(count)]
    q, v = (np.array(x) for x in zip(*pairs))
    a, tau = rng.normal(size=(2, count, model.nv))
    M = ours(lw.mass_matrix, model, q, compiled=False)
    condition = float(np.linalg.cond(M).max())
    Q = states.q_to(q)
    V = states.v_to(v)
    A = states.v_to(a)
    calls = {lw.inverse_dynamics_derivatives: (pin.computeRNEADerivatives, a, 1e-10, M)}
    if condition < 1e9:
        sizes = np.concatenate([np.linalg.inv(M), np.linalg.solve(M, tau[..., None])], axis=-1)
        calls[lw.forward_dynamics_derivatives] = (
            pin.computeABADerivatives,
            tau,
            max(1e-10, DIGITS * condition),
            sizes,
        )
    for function, (theirs, x, tolerance, beside) in calls.items():
        found = ours(function, model, q, v, x, compiled=False)
        X = states.v_to(x)
        for k in range(count):
            right = [states.matrix_from(np.array(m)) for m in theirs(peer, data, Q[k], V[k], X[k])]
            for which, name in enumerate("qv"):
                near(found[which][k], right[which], tolerance, f"{function.__name__}, by {name}", beside)
    C = ours(lw.coriolis_matrix, model, q, v, compiled=False)
    for k in range(count):
        right = states.matrix_from(np.array(pin.computeCoriolisMatrix(peer, data, Q[k], V[k])))
        near(C[k], right, 1e-10, "coriolis_matrix", M[k])
    Y = ours(lw.inverse_dynamics_regressor, model, q, v, a, compiled=False)
    columns = regressor_columns(model, peer)
    for k in range(count):
        there = np.reshape(
            pin.computeJointTorqueRegressor(peer, data, Q[k], V[k], A[k]), (peer.nv, -1)
        )  # of one row, a vector
        right = np.array([states.tau_from(there[:, theirs]) for theirs in columns.values()])
        near(Y[k][:, list(columns)].T, right, 1e-10, "inverse_dynamics_regressor")
    if condition < 1e9:
        check_constrained(model, peer, q[0], v[0], tau[0], condition)


def near(found: np.ndarray, right: np.ndarray, tolerance: float, what: str, beside: Any = 0.0) -> None:
    """Equal to a part of the largest entry; where all should be zero, of what stands beside them."""
    scale = max(float(np.abs(right).max(initial=0.0)), 1e-3 * float(np.abs(beside).max(initial=0.0)), 1e-300)
    off = float(np.abs(found - right).max(initial=0.0)) / scale
    assert off < tolerance, f"{what}: {off:.1e}"


def regressor_columns(model: lw.Model, peer: Any) -> dict[int, int]:
    """Columns of regressors, here and there, of the bodies behind joints; Pinocchio lumps what is fixed to
    them.
    """
    names = {name: k - 1 for k, name in enumerate(peer.names)}
    out = {}
    for joint in model.joints:
        there = names.get(joint.name, 0 if joint.nv == 6 else None)  # the free joint is the first there
        if joint.nv and there is not None:
            out |= {10 * joint.child + k: 10 * there + k for k in range(10)}
    return out


def check_constrained(
    model: lw.Model, peer: Any, q: np.ndarray, v: np.ndarray, tau: np.ndarray, condition: float
) -> None:
    """With a point of the last link held to the world, where that leaves some motion; velocities keep it."""
    states = States(model, peer)
    data = peer.createData()
    known = [f.name for f in model.frames if peer.existFrame(f.name, pin.FrameType.BODY)]
    moving = [name for name in known if peer.frames[peer.getFrameId(name, pin.FrameType.BODY)].parentJoint]
    if not moving:
        return
    held = [lw.Connect(moving[-1])]
    J = ours(lw.constraint_jacobian, model, q, compiled=False, constraints=held)
    if model.nv <= len(J) or np.linalg.cond(J @ J.T) > 1e6:
        return
    v = v - np.linalg.pinv(J) @ (J @ v)
    frame = peer.frames[peer.getFrameId(moving[-1], pin.FrameType.BODY)]
    kind = pin.ContactType.CONTACT_3D
    local = pin.ReferenceFrame.LOCAL
    rigid = pin.StdVec_RigidConstraintModel(
        [pin.RigidConstraintModel(kind, peer, frame.parentJoint, frame.placement, local)]
    )
    datas = pin.StdVec_RigidConstraintData([c.createData() for c in rigid])
    pin.initConstraintDynamics(peer, data, rigid, datas)
    exact = pin.ProximalSettings(1e-14, 0.0, 1)
    pin.constraintDynamics(
        peer, data, states.q_to(q), states.v_to(v), states.tau_to(tau), rigid, datas, exact
    )
    right = pin.computeConstraintDynamicsDerivatives(peer, data, rigid, datas, exact)
    found = ours(lw.constrained_dynamics_derivatives, model, q, v, tau, compiled=False, constraints=held)
    tolerance = max(1e-10, DIGITS * condition)
    of_forces = [np.array([states.tau_from(row) for row in np.array(x)]) for x in right[3:]]
    for k, name in enumerate(("q", "v", "tau")):
        of_motion = states.matrix_from(np.array(right[k]))
        near(found[k], of_motion, tolerance, f"constrained_dynamics_derivatives, by {name}", found[2])
        near(
            found[3 + k],
            of_forces[k],
            tolerance,
            f"constrained_dynamics_derivatives, of forces by {name}",
            found[5],
        )


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
    robots = bench("robots")
    peer = pin.Model()
    places = [0]
    kinds = {
        "x": pin.JointModelRX,
        "y": pin.JointModelRY,
        "z": pin.JointModelRZ,
        None: pin.JointModelFreeFlyer,
    }
    for k, (body, joint) in enumerate(zip(robots.bodies(robot), robots.model(robot).joints)):
        place = pin.SE3(joint.place.R, joint.place.p)
        places.append(peer.addJoint(places[body["parent"] + 1], kinds[body["axis"]](), place, f"joint{k}"))
        inertia = pin.Inertia(body["mass"], np.array(body["com"], float), np.array(body["inertia"], float))
        peer.appendBodyToJoint(places[-1], inertia, pin.SE3.Identity())
        peer.addBodyFrame(f"body{k}", places[-1], pin.SE3.Identity(), 0)
    return peer


@pytest.mark.parametrize(
    "robot", ["iiwa14", *(pytest.param(name, marks=pytest.mark.slow) for name in ("solo12", "g1", "talos"))]
)
def test_robots_of_the_bench(robot: str) -> None:
    check(bench("robots").model(robot), in_pinocchio(robot), 3)


@pytest.mark.slow
@pytest.mark.skipif(not EXAMPLES, reason="example-robot-data is not installed")
@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.parametrize("path", [*EXAMPLES, *BULLET], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_robots_of_the_package_index(path: Path, base: str) -> None:
    """Without mimic joints, damping and friction, which Pinocchio leaves out of its derivatives."""
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
