"""A chain of flexible links in Exudyn and in linkwork, of the same modal data: what one evaluation costs in Exudyn."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from linkwork.flexible import FlexibleBody, from_nodes
from linkwork.joints import Revolute
from linkwork.model import WORLD, Model, ModelBuilder

LENGTH, WIDTH, MASS, EI = 0.5, 0.01, 0.3, 50.0
STATIONS = 9
GRAVITY = (0.0, 0.0, -9.81)


def link(modes: int) -> tuple[FlexibleBody, dict[str, Any]]:
    """A link of lumped masses that bends in powers of x along y and z in turn, and its nodal data."""
    points, masses = [], []
    for i, x in enumerate(np.linspace(0.0, LENGTH, STATIONS)):
        for y, z in ((WIDTH, WIDTH), (-WIDTH, WIDTH), (-WIDTH, -WIDTH), (WIDTH, -WIDTH)):
            points.append((x, y, z))
            masses.append(MASS / (4 * (STATIONS - 1)) * (0.5 if i in (0, STATIONS - 1) else 1.0))
    points.append((LENGTH, 0.0, 0.0))
    masses.append(0.0)
    shapes, slopes = np.zeros((2, len(points), 3, modes))
    for n, (x, y, z) in enumerate(points):
        for j in range(modes):
            p, s = 2 + j // 2, x / LENGTH
            value, slope = s**p, p * s ** (p - 1) / LENGTH
            if j % 2:
                shapes[n, :, j], slopes[n, :, j] = (-z * slope, 0.0, value), (0.0, -slope, 0.0)
            else:
                shapes[n, :, j], slopes[n, :, j] = (-y * slope, value, 0.0), (0.0, 0.0, slope)
    K = np.zeros((modes, modes))
    for i in range(modes):
        for j in range(i % 2, modes, 2):
            a, b = 2 + i // 2, 2 + j // 2
            K[i, j] = EI / LENGTH**3 * a * (a - 1) * b * (b - 1) / (a + b - 3)
    data: dict[str, Any] = {
        "points": np.array(points),
        "masses": np.array(masses),
        "shapes": shapes,
        "slopes": slopes,
        "stiffness": K,
    }
    return from_nodes("link", **data), data


def axis(k: int) -> tuple[float, float, float]:
    """About which hinge k turns."""
    return (0.0, 1.0, 0.0) if k % 2 else (0.0, 0.0, 1.0)


def chain(bodies: int, modes: int) -> Model:
    """The chain in linkwork."""
    body, _ = link(modes)
    builder = ModelBuilder("chain", gravity=GRAVITY)
    for k in range(bodies):
        below, at = (WORLD, 0.0) if k == 0 else (f"link_{k - 1}", LENGTH)
        builder.add_body(f"link_{k}", flexible=body)
        builder.add_joint(f"joint_{k}", Revolute(axis(k)), parent=below, child=f"link_{k}", xyz=(at, 0.0, 0.0))
    return builder.build()


class Exudyn(NamedTuple):
    """Seconds that Exudyn takes to `evaluate` a system once, and to solve for its `accelerations` then."""

    evaluate: float
    accelerations: float


def exudyn_times(bodies: int, modes: int, turns: int) -> Exudyn | None:
    """What Exudyn takes for the chain; None where it is not installed.

    Evaluated are mass matrix, forces and the Jacobian of constraints, in C++, by its own solver's functions: what every method
    needs. Accelerations are found by its sparse factorisation and one solution, as its own timers say of a step.
    """
    try:
        import exudyn as exu
    except ImportError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mbs = _assembled(exu, bodies, modes)
        settings = exu.SimulationSettings()
        settings.solutionSettings.writeSolutionToFile = False
        solver = exu.MainSolverImplicitSecondOrder()
        if not solver.InitializeSolver(mbs, settings):
            raise RuntimeError("Exudyn's solver does not start")
        try:
            evaluate = _timed(solver, mbs, turns)
        finally:
            solver.FinalizeSolver(mbs, settings)
        solve = min(_solution(exu, bodies, modes) for _ in range(max(1, turns // 3)))
    return Exudyn(evaluate, evaluate + solve)


def _solution(exu: Any, bodies: int, modes: int) -> float:
    """Seconds of one sparse factorisation and one solution in a step."""
    mbs, steps = _assembled(exu, bodies, modes), 20
    settings = exu.SimulationSettings()
    settings.solutionSettings.writeSolutionToFile = False
    settings.linearSolverType = exu.LinearSolverType.EigenSparse
    settings.displayComputationTime = True
    settings.timeIntegration.verboseMode = 0
    settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = steps, 1e-5 * steps
    settings.timeIntegration.newton.useModifiedNewton = False
    mbs.SolveDynamic(settings)
    made = mbs.sys["dynamicSolver"]
    return float((made.timer.factorization + made.timer.newtonIncrement) / max(made.it.newtonJacobiCount, 1))


def _timed(solver: Any, mbs: Any, turns: int) -> float:
    best = np.inf
    for _ in range(turns):
        start = time.perf_counter()
        for _ in range(20):
            solver.ComputeMassMatrix(mbs)
            solver.ComputeODE2RHS(mbs)
            solver.ComputeJacobianAE(mbs)
        best = min(best, (time.perf_counter() - start) / 20)
    return float(best)


def _assembled(exu: Any, bodies: int, modes: int) -> Any:
    from exudyn import FEM
    from exudyn.itemInterface import GenericJoint, MarkerBodyRigid, MarkerNodeRigid, MarkerSuperElementRigid, ObjectGround
    from scipy.sparse import csr_matrix

    _, data = link(modes)
    n = len(data["points"])
    mbs = exu.SystemContainer().AddSystem()
    below = mbs.AddMarker(MarkerBodyRigid(bodyNumber=mbs.AddObject(ObjectGround())))
    tips = [k for k in range(n - 1) if data["points"][k][0] == LENGTH]
    for k in range(bodies):
        fem = FEM.FEMinterface()
        fem.nodes = {"Position": data["points"]}
        fem.massMatrix = csr_matrix(np.kron(np.diag(data["masses"]), np.eye(3)))
        fem.stiffnessMatrix = csr_matrix((3 * n, 3 * n))
        fem.modeBasis = {"matrix": data["shapes"].reshape(3 * n, -1).copy(), "type": "NormalModes"}
        cms = FEM.ObjectFFRFreducedOrderInterface(fem)
        cms.stiffnessMatrixReduced = np.array(data["stiffness"])
        made = cms.AddObjectFFRFreducedOrder(mbs, positionRef=[k * LENGTH, 0.0, 0.0], gravity=list(GRAVITY))
        root = mbs.AddMarker(MarkerNodeRigid(nodeNumber=made["nRigidBody"]))
        held = [1, 1, 1, 1, 0, 1] if k % 2 else [1, 1, 1, 1, 1, 0]
        mbs.AddObject(GenericJoint(markerNumbers=[below, root], constrainedAxes=held))
        below = mbs.AddMarker(
            MarkerSuperElementRigid(
                bodyNumber=made["oFFRFreducedOrder"], meshNodeNumbers=tips, weightingFactors=[1.0 / len(tips)] * len(tips)
            )
        )
    mbs.Assemble()
    return mbs
