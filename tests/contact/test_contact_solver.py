"""The contact problem by itself: laws of its solution, redundant and contradicting contacts, and Pinocchio's
solver.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.contact.friction_laws import Coulomb, Rolling
from linkwork.algorithms.contact.laws import Bounded, Interval
from linkwork.algorithms.contact.solver import Problem, Solution, solve

FEET = [f"{leg}_knee_link" for leg in ("FR", "FL", "HR", "HL")]


def skew(p: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -p[2], p[1]], [p[2], 0.0, -p[0]], [-p[1], p[0], 0.0]])


def at_point(p: np.ndarray) -> np.ndarray:
    """Rows z, x, y of the velocity of a point, (3, 6), on [w, v] in the world's axes."""
    turned = np.eye(3)[[2, 0, 1]]
    return np.concatenate([-turned @ skew(p), turned], axis=1)


def quadruped(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """G and g of four feet in a random posture."""
    model = lw.robots.mini_cheetah()
    q, _ = model.random_state(rng)
    q[3:7] = [0.0, 0.0, 0.0, 1.0]
    rows = []
    for foot in FEET:
        R = lw.frame_pose(model, q, frame=foot)[:3, :3]
        J = lw.frame_jacobian(model, q, frame=foot)
        rows.append(at_point(R @ [0.0, 0.0, -0.2]) @ np.concatenate([R @ J[:3], R @ J[3:]]))
    J = np.concatenate(rows)
    v = rng.normal(size=model.nv) - 0.5 * np.eye(model.nv)[5]
    return J @ np.linalg.solve(lw.mass_matrix(model, q), J.T), J @ v


def box(rng: np.random.Generator, corners: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """G, which is singular, and g of a box on so many corners."""
    half = np.array([0.1, 0.1, 0.05])
    signs = [np.array([x, y, z]) for z in (-1, 1) for x in (-1, 1) for y in (-1, 1)][:corners]
    J = np.concatenate([at_point(half * sign) for sign in signs])
    moment = (np.sum(half**2) - half**2) / 3.0
    v = rng.normal(size=6) * np.array([3.0, 3.0, 3.0, 1.0, 1.0, 1.0]) - np.eye(6)[5]
    return J @ np.diag([*(1.0 / moment), 1.0, 1.0, 1.0]) @ J.T, J @ v


def solved(G: np.ndarray, g: np.ndarray, mu: float, start: Any = None, implicit: bool = False) -> Solution:
    """`implicit`: by sweeps over the contacts, with Newton's steps between them."""
    blocks = [Coulomb(3 * k, mu) for k in range(len(g) // 3)]
    first = np.zeros(len(g)) if start is None else start
    found = solve(Problem(G.astype(object), g.astype(object), blocks), first, 200, 1e-9, implicit=implicit)
    return found._replace(impulses=found.impulses.astype(float))


def check_laws(G: np.ndarray, g: np.ndarray, mu: float, lam: np.ndarray, within: float = 1e-9) -> None:
    """Signorini's and Coulomb's laws as they stand in textbooks, and maximum dissipation."""
    for w, x in zip((G @ lam + g).reshape(-1, 3), lam.reshape(-1, 3)):
        size = float(np.linalg.norm(x[1:]))
        slip = float(np.linalg.norm(w[1:]))
        assert x[0] >= 0.0 and w[0] >= -within and x[0] * w[0] <= within * (x[0] + 1.0)
        assert size <= mu * x[0] * (1.0 + 1e-9) + 1e-12
        assert abs(w[1:] @ x[1:] + mu * x[0] * slip) <= within * (mu * x[0] + slip + 1.0)


@pytest.mark.parametrize("implicit", [False, True], ids=["bodies", "sweeps"])
@pytest.mark.parametrize("mu", [0.3, 0.9])
@pytest.mark.parametrize("case", [quadruped, box])
def test_solutions_satisfy_the_laws(case: Any, mu: float, implicit: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(2 if implicit else 8):
        G, g = case(rng)
        found = solved(G, g, mu, implicit=implicit)
        assert found.converged == 1.0 and found.residual <= 1e-9
        check_laws(G, g, mu, found.impulses)
        again = solved(G, g, mu, found.impulses, implicit)
        assert again.iterations <= 2


def test_redundant_and_contradicting_contacts_do_no_harm() -> None:
    rng = np.random.default_rng(1)
    G, g = box(rng)
    twice = np.block([[G, G], [G, G]])
    found = solved(twice, np.concatenate([g, g]), 0.5)
    assert found.converged == 1.0
    check_laws(twice, np.concatenate([g, g]), 0.5, found.impulses)
    # one body is asked to leave two walls at once, each faster than the other allows
    J = np.array([[1.0], [0.0], [0.0], [-1.0], [0.0], [0.0]])
    squeezed = solved(J @ J.T, np.array([-1.0, 0.0, 0.0, -1.0, 0.0, 0.0]), 0.5)
    assert np.isfinite(squeezed.impulses).all() and squeezed.converged == 0.0 and squeezed.residual > 0.5


@pytest.mark.parametrize("implicit", [False, True], ids=["bodies", "sweeps"])
def test_torsion_rolling_limits_and_boxes(implicit: bool) -> None:
    """One free body with all kinds of rows, against the laws."""
    rng = np.random.default_rng(2)
    contact = np.concatenate([at_point(np.array([0.0, 0.0, -0.1])), np.eye(3, 6)[[2, 0, 1]]])
    J = np.concatenate([contact, np.eye(6)[3:5]])
    G = J @ np.diag([40.0, 50.0, 60.0, 1.0, 1.0, 1.0]) @ J.T
    for _ in range(4 if implicit else 20):
        g = J @ (rng.normal(size=6) - np.eye(6)[5])
        blocks = [
            Coulomb(0, 0.5),
            Bounded(3, 0.02, 0),
            Rolling(4, 0.01, 0),
            Interval(6, -0.1, 0.1),
            Bounded(7, 0.05),
        ]
        problem = Problem(G.astype(object), g.astype(object), blocks)
        found = solve(problem, np.zeros(8), 200, 1e-9, implicit=implicit)
        assert found.converged == 1.0
        x = found.impulses.astype(float)
        w = G @ x + g
        check_laws(np.zeros((3, 3)), w[:3], 0.5, x[:3])
        assert abs(x[3]) <= 0.02 * x[0] + 1e-12 and abs(w[3] * x[3] + 0.02 * x[0] * abs(w[3])) < 1e-9
        assert np.linalg.norm(x[4:6]) <= 0.01 * x[0] + 1e-12
        assert abs(w[4:6] @ x[4:6] + 0.01 * x[0] * np.linalg.norm(w[4:6])) < 1e-9
        assert abs(w[6]) <= 0.1 + 1e-9 and (abs(x[6]) < 1e-9 or abs(w[6] + 0.1 * np.sign(x[6])) < 1e-9)
        assert abs(x[7]) <= 0.05 + 1e-12 and abs(w[7] * x[7] + 0.05 * abs(w[7])) < 1e-9


def by_pinocchio(G: np.ndarray, g: np.ndarray, mu: float) -> np.ndarray:
    """The impulses of Pinocchio's ADMM solver, of the problem that is not made convex, to 1e-11."""
    pin = pytest.importorskip("pinocchio")
    if not hasattr(pin, "ADMMConstraintSolver"):
        pytest.skip("a Pinocchio before 4")
    model = pin.Model()
    n = len(g) // 3
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "free")
    order = np.concatenate([[3 * k + 1, 3 * k + 2, 3 * k] for k in range(n)])  # it has tangents first
    models = pin.StdVec_ConstraintModel()
    datas = pin.StdVec_ConstraintData()
    for _ in range(n):
        contact = pin.PointContactConstraintModel(model, joint, pin.SE3.Identity())
        contact.setFriction(mu)
        models.append(pin.ConstraintModel(contact))
        datas.append(models[-1].createData())
    settings = pin.ADMMSolverSettings()
    result = pin.ADMMSolverResult()
    settings.max_iterations = 20000
    settings.solve_ncp = True
    for word in ("feasibility", "complementarity"):
        setattr(settings, f"absolute_{word}_tol", 1e-11)
        setattr(settings, f"relative_{word}_tol", 1e-11)
    theirs = pin.DelassusOperatorDense(np.array(G[np.ix_(order, order)]))
    assert pin.ADMMConstraintSolver(3 * n).solve(theirs, np.array(g[order]), models, datas, settings, result)
    lam = np.zeros(3 * n)
    lam[order] = np.ravel(result.retrieveConstraintImpulses())
    return lam


def off_the_law(G: np.ndarray, g: np.ndarray, mu: float, lam: np.ndarray) -> float:
    """How far impulses are from K ∋ λ ⊥ w + μ |w_t| n ∈ K*, as a velocity: De Saxcé's form of Signorini's and
    Coulomb's laws.

    λ solves it where it is its own projection onto the cone K from λ - ρ (w + μ |w_t| n), for any ρ > 0.
    """
    rho = 1.0 / np.diag(G).max()
    worst = 0.0
    for w, x in zip((G @ lam + g).reshape(-1, 3), lam.reshape(-1, 3)):
        z = x - rho * (w + mu * np.hypot(*w[1:]) * np.eye(3)[0])
        size = np.hypot(*z[1:])
        near = np.zeros(3)
        if size <= mu * z[0]:
            near = z
        elif z[0] > -mu * size:
            normal = (z[0] + mu * size) / (1.0 + mu * mu)
            near = np.array([normal, *(mu * normal * z[1:] / size)])
        worst = max(worst, float(np.abs(x - near).max()) / rho)
    return worst


def sliding_box(v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """J, G and g of a box that lies on four corners, with a velocity [w, v]."""
    half = np.array([0.1, 0.1, 0.05])
    J = np.concatenate([at_point(half * np.array([x, y, -1.0])) for x in (-1.0, 1.0) for y in (-1.0, 1.0)])
    moment = (np.sum(half**2) - half**2) / 3.0
    return J, J @ np.diag([*(1.0 / moment), 1.0, 1.0, 1.0]) @ J.T, J @ v


@pytest.mark.parametrize("corners", [None, 3])
def test_impulses_and_resultants_of_pinocchio(corners: int | None) -> None:
    """Impulses on the feet of a quadruped, and what they do to a box on three corners, which may stick
    against each other.
    """
    rng = np.random.default_rng(3)
    mu = 0.6
    touched = 0
    for _ in range(12):
        G, g = quadruped(rng) if corners is None else box(rng, corners)
        ours = solved(G, g, mu).impulses
        theirs = by_pinocchio(G, g, mu)
        touched += bool(theirs.any())
        if corners is None:
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        np.testing.assert_allclose(G @ ours, G @ theirs, atol=1e-6)
    assert touched >= 6


def test_resultants_of_pinocchio_on_a_box_that_slides_straight() -> None:
    """Four corners share the load in any way, and all slide in one direction: resultants are unique."""
    rng = np.random.default_rng(4)
    for _ in range(6):
        J, G, g = sliding_box(np.array([0.0, 0.0, 0.0, *rng.normal(size=2), -0.02]))
        ours = solved(G, g, 0.3).impulses
        theirs = by_pinocchio(G, g, 0.3)
        np.testing.assert_allclose(J.T @ ours, J.T @ theirs, atol=1e-6)


def test_a_box_that_slides_and_turns_has_several_solutions() -> None:
    """Pinocchio's resultants differ from ours, and both satisfy the laws exactly; from theirs, our solver
    stays where it is.

    The corners share the load in any way, and each has a friction of another direction: so resultants depend
    on the share.
    """
    rng = np.random.default_rng(5)
    mu = 0.5
    apart = 0.0
    for _ in range(6):
        J, G, g = sliding_box(np.array([0.0, 0.0, 5.0 * rng.normal(), *rng.normal(size=2), -0.3]))
        ours = solved(G, g, mu).impulses
        theirs = by_pinocchio(G, g, mu)
        assert (
            max(off_the_law(G, g, mu, lam) for lam in (ours, theirs))
            < 1e-9
            < off_the_law(G, g, mu, 1.001 * ours)
        )
        again = solved(G, g, mu, theirs)
        assert again.converged == 1.0
        np.testing.assert_allclose(again.impulses, theirs, atol=1e-6)
        apart = max(apart, float(np.abs(J.T @ (ours - theirs)).max()))
    assert apart > 1e-4
