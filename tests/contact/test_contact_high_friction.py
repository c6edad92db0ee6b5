"""Contacts with little and with much friction: bodies that land on edges and faces, whose corners contradict
each other while all of them stick.
"""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.contact import pivoting
from linkwork.algorithms.contact.friction_laws import Coulomb
from linkwork.algorithms.contact.solver import Problem, solve
from linkwork.spatial import Pose

CORNERS = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.08, 0.08) for z in (-0.05, 0.05)])
INERTIA = np.diag([0.004, 0.005, 0.006])


def landing(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """G and g of the lowest corners of a falling box of 1 kg that is not quite level on an edge or a face: the
    first corner touches the ground, others reach it within the step.
    """
    tilt = rng.uniform(0.02, 0.1) * rng.choice([-1.0, 1.0])
    roll = 0.0 if count == 4 else rng.uniform(0.3, 1.2)
    about_y = np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(roll), -np.sin(roll)], [0, np.sin(roll), np.cos(roll)]])
    R = about_y @ about_x
    points = CORNERS @ R.T
    points = points[np.argsort(points[:, 2])[:count]]
    dt = 0.004
    v = np.array([*(0.5 * rng.normal(size=3)), *(0.1 * rng.normal(size=2)), -0.5 - rng.uniform()])
    rows = []
    for p in points:
        cross = np.array([[0.0, -p[2], p[1]], [p[2], 0.0, -p[0]], [-p[1], p[0], 0.0]])
        rows.append(np.concatenate([-cross, np.eye(3)], axis=1)[[2, 0, 1]])
    J = np.concatenate(rows)
    M = np.block([[R @ INERTIA @ R.T, np.zeros((3, 3))], [np.zeros((3, 3)), np.eye(3)]])
    g = J @ v
    g[::3] += np.minimum(points[:, 2] - points[0, 2], 0.3 * dt) / dt
    return J @ np.linalg.solve(M, J.T), g


@pytest.mark.parametrize("mu", [1e-6, 1.0, 30.0, 1e3, 1e5])
@pytest.mark.parametrize("count", [2, 4])
def test_corners_that_land_satisfy_the_laws(mu: float, count: int) -> None:
    """Signorini's and Coulomb's laws as in textbooks; without pivoting, a third of these did not converge for
    mu = 1000.
    """
    rng = np.random.default_rng(count)
    for _ in range(8):
        G, g = landing(rng, count)
        blocks = [Coulomb(3 * k, mu) for k in range(count)]
        found = solve(Problem(G.astype(object), g.astype(object), blocks), np.zeros(3 * count), 200, 1e-9)
        assert found.converged == 1.0
        lam = found.impulses.astype(float)
        for w, x in zip((G @ lam + g).reshape(-1, 3), lam.reshape(-1, 3)):
            size, slip = np.hypot(*x[1:]), np.hypot(*w[1:])
            assert x[0] >= 0.0 and w[0] >= -2e-9 and x[0] * w[0] <= 2e-9 * (x[0] + 1.0)
            assert size <= mu * x[0] * (1.0 + 1e-9) + 1e-12
            assert abs(w[1:] @ x[1:] + mu * x[0] * slip) <= 4e-9 * (mu * x[0] + slip + 1.0)


@pytest.mark.parametrize("mu", [1e-6, 100.0, 1e3, 1e5])
def test_drops_of_boxes_converge(mu: float) -> None:
    """64 boxes fall onto corners, edges and faces and come to rest in steps of 4 ms. Without pivoting, up to
    35 of them did not converge. A few edges still have no solution that is found.
    """
    b = lw.ModelBuilder("box")
    b.add_body("body", mass=1.0, inertia=INERTIA)
    b.add_joint("float", lw.joints.Free(), parent="world", child="body")
    b.add_geometry(lw.Geometry("shape", -1, Pose.identity(), "box", (0.1, 0.08, 0.05), link="body"))
    rng = np.random.default_rng(0)
    q = np.zeros((64, 7))
    q[:, 2] = 0.25
    turn = rng.normal(size=(64, 4))
    q[:, 3:] = turn / np.linalg.norm(turn, axis=1)[:, None]
    v = 0.5 * rng.normal(size=(64, 6))
    last = lw.rollout(
        b.build(), q, v, dt=0.004, steps=150, record_every=150, contacts=lw.Contacts(friction=mu)
    )
    assert np.isfinite(last.q).all()
    assert np.isin(last.status, [lw.Status.OK, lw.Status.CONTACT_NOT_CONVERGED]).all()
    assert (last.status == lw.Status.OK).sum() >= 58


@pytest.mark.parametrize(("count", "pivots"), [(1, True), (2, False)])
def test_problems_of_many_contacts_have_no_pivoting(
    count: int, pivots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the length of their programs, and the time to compile them, does not grow by it."""
    monkeypatch.setattr(pivoting, "MAX_CONTACTS", 4)
    entered = []
    steps = pivoting._newton_step
    monkeypatch.setattr(pivoting, "_newton_step", lambda *args: entered.append(1) or steps(*args))
    G, g = landing(np.random.default_rng(2), 4)
    twice = np.kron(np.eye(count), G)
    blocks = [Coulomb(3 * k, 1e3) for k in range(4 * count)]
    start = np.zeros(12 * count)
    solve(Problem(twice.astype(object), np.tile(g, count).astype(object), blocks), start, 30, 1e-9)
    assert bool(entered) == pivots
