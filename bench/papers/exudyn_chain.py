"""A chain of flexible links in Exudyn and linkwork with the same modal data, and the time of an evaluation in Exudyn."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from typing import Any

import numpy as np

from linkwork.flexible import FlexibleBody, from_nodes
from linkwork.functions.kinematics import frame_pose, frame_velocity
from linkwork.joints import Revolute
from linkwork.model import WORLD, Model, ModelBuilder

LENGTH = 0.5
WIDTH = 0.01
MASS = 0.3
EI = 50.0
STATIONS = 9
GRAVITY = (0.0, 0.0, -9.81)


def link(modes: int) -> tuple[FlexibleBody, dict[str, Any]]:
    """Return a link of lumped masses that bends in powers of x along y and z in turn, and its nodal data."""
    points = []
    masses = []
    for i, x in enumerate(np.linspace(0.0, LENGTH, STATIONS)):
        for y, z in ((WIDTH, WIDTH), (-WIDTH, WIDTH), (-WIDTH, -WIDTH), (WIDTH, -WIDTH)):
            points.append((x, y, z))
            masses.append(MASS / (4 * (STATIONS - 1)) * (0.5 if i in (0, STATIONS - 1) else 1.0))
    points.append((LENGTH, 0.0, 0.0))
    masses.append(0.0)
    shapes, slopes = np.zeros((2, len(points), 3, modes))
    for n, (x, y, z) in enumerate(points):
        for j in range(modes):
            p = 2 + j // 2
            s = x / LENGTH
            value = s**p
            slope = p * s ** (p - 1) / LENGTH
            if j % 2:
                shapes[n, :, j], slopes[n, :, j] = (-z * slope, 0.0, value), (0.0, -slope, 0.0)
            else:
                shapes[n, :, j], slopes[n, :, j] = (-y * slope, value, 0.0), (0.0, 0.0, slope)
    K = np.zeros((modes, modes))
    for i in range(modes):
        for j in range(i % 2, modes, 2):
            a = 2 + i // 2
            b = 2 + j // 2
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
    """Return the axis of hinge k."""
    return (0.0, 1.0, 0.0) if k % 2 else (0.0, 0.0, 1.0)


def chain(bodies: int, modes: int) -> Model:
    """Return the chain in linkwork."""
    body, _ = link(modes)
    builder = ModelBuilder("chain", gravity=GRAVITY)
    for k in range(bodies):
        below, at = (WORLD, 0.0) if k == 0 else (f"link_{k - 1}", LENGTH)
        builder.add_body(f"link_{k}", flexible=body)
        builder.add_joint(
            f"joint_{k}", Revolute(axis(k)), parent=below, child=f"link_{k}", xyz=(at, 0.0, 0.0)
        )
    return builder.build()


class ExudynChain:
    """The chain in Exudyn, where it moves: what one evaluation takes, and its accelerations.

    Evaluated are mass matrix, forces and the Jacobian of constraints, in C++, by its own solver's functions:
    what every method needs. Exudyn's fast module does it, which checks no ranges, on one thread. `turn` times
    that; it is called between the calls that are compared with it, so that all see the same machine. For
    accelerations a sparse factorisation and a solution follow.
    """

    def __init__(self, bodies: int, modes: int) -> None:
        exudyn = _imported(fast=True)
        self._of = (bodies, modes)
        self._evaluation = np.inf
        self.version = f"Exudyn {exudyn.__version__}"
        if getattr(exudyn, "_compiledModuleName", "") == "exudynCPPfast":
            self.version += " without range checks"
        with quiet():
            self._mbs, self._settings = (
                _assembled(exudyn, bodies, modes, *moving_state(bodies, modes)),
                _settings(exudyn),
            )
            self._solver = exudyn.MainSolverImplicitSecondOrder()
            if not self._solver.InitializeSolver(self._mbs, self._settings):
                raise RuntimeError("Exudyn's solver does not start")
        found = np.array(self._mbs.systemData.GetODE2Coordinates_tt()).reshape(bodies, -1)
        self.modal_accelerations = found[:, found.shape[1] - modes :]
        """Of each body's modes in `moving_state`, (bodies, modes), as Exudyn's solver finds them where it begins."""

    @property
    def evaluation(self) -> float:
        """The best time of one evaluation [s]."""
        return float(self._evaluation)

    def accelerations(self) -> float:
        """Return the best times of one evaluation and of the following solution [s].

        The latter is what Exudyn's own timers say of steps. Its fast module has none, and no process can load
        both modules, so that another one measures it.
        """
        command = [sys.executable, "-c", f"from {__name__} import _solution; print(_solution{self._of})"]
        path = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        made = subprocess.run(command, capture_output=True, text=True, env=os.environ | path, check=True)
        return self.evaluation + float(made.stdout.split()[-1])

    def turn(self) -> None:
        """Time a few evaluations, each short enough that other programs do not interrupt all of them."""
        mbs = self._mbs
        solver = self._solver
        for _ in range(20):
            start = time.perf_counter()
            solver.ComputeMassMatrix(mbs)
            solver.ComputeODE2RHS(mbs)
            solver.ComputeJacobianAE(mbs)
            self._evaluation = min(self._evaluation, time.perf_counter() - start)


def missing() -> list[str]:
    """Return the missing packages of those that the chain in Exudyn needs."""
    return [name for name in ("exudyn", "scipy") if find_spec(name) is None]


def exudyn_chain(bodies: int, modes: int) -> ExudynChain | None:
    """Return the chain in Exudyn, or None if a package is `missing`."""
    return None if missing() else ExudynChain(bodies, modes)


def _imported(*, fast: bool) -> Any:
    """Return the module Exudyn, with or without its checks as selected at its first import."""
    if fast and "exudyn" not in sys.modules:
        sys.exudynFast = True  # type: ignore[attr-defined]
    with redirect_stdout(StringIO()):
        import exudyn
    return exudyn


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Exudyn's warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def moving_state(bodies: int, modes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return q and v of the chain with all hinges rotated, hinges and modes moving, and nothing deformed.

    Where rotations of a deformed tip follow one another, Exudyn's markers have terms of first order in the
    deformation that are not the rate of any rotation, so that states are compared where these vanish.
    """
    rng = np.random.default_rng(1)
    q, v = rng.uniform(-1.0, 1.0, (2, bodies, 1 + modes))
    q[:, 1:] = 0.0
    return q.ravel(), v.ravel()


def _settings(exu: Any) -> Any:
    settings = exu.SimulationSettings()
    settings.solutionSettings.writeSolutionToFile = False
    return settings


def _solution(bodies: int, modes: int, steps: int = 20, turns: int = 5) -> float:
    """Return the time of one sparse factorization with known pattern and one solution [s], the best of
    several turns.
    """
    exu = _imported(fast=False)
    best = np.inf
    with quiet():
        for _ in range(turns):
            mbs, settings = _assembled(exu, bodies, modes, *moving_state(bodies, modes)), _settings(exu)
            settings.linearSolverType = exu.LinearSolverType.EigenSparse
            settings.linearSolverSettings.reuseAnalyzedPattern = True
            settings.displayComputationTime = True
            settings.timeIntegration.verboseMode = 0
            settings.timeIntegration.numberOfSteps = steps
            settings.timeIntegration.endTime = 1e-5 * steps
            settings.timeIntegration.newton.useModifiedNewton = False
            mbs.SolveDynamic(settings)
            made = mbs.sys["dynamicSolver"]
            spent = made.timer.factorization + made.timer.newtonIncrement
            best = min(best, spent / max(made.it.newtonJacobiCount, 1))
    return float(best)


def _assembled(exu: Any, bodies: int, modes: int, q: np.ndarray, v: np.ndarray) -> Any:
    from exudyn import FEM
    from exudyn.itemInterface import (
        GenericJoint,
        MarkerBodyRigid,
        MarkerNodeRigid,
        MarkerSuperElementRigid,
        ObjectGround,
    )
    from scipy.sparse import csr_matrix

    _, data = link(modes)
    n = len(data["points"])
    model = chain(bodies, modes)
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
        T = frame_pose(model, q, frame=f"link_{k}")
        V = frame_velocity(model, q, v, frame=f"link_{k}")
        R = T[:3, :3]
        own = slice(k * (1 + modes) + 1, (k + 1) * (1 + modes))
        motion = {"initialVelocity": list(R @ V[3:]), "initialAngularVelocity": list(R @ V[:3])}
        made = cms.AddObjectFFRFreducedOrder(
            mbs, positionRef=list(T[:3, 3]), rotationMatrixRef=R, gravity=list(GRAVITY), **motion
        )
        mbs.SetNodeParameter(made["nGenericODE2"], "initialCoordinates", list(q[own]))
        mbs.SetNodeParameter(made["nGenericODE2"], "initialCoordinates_t", list(v[own]))
        root = mbs.AddMarker(MarkerNodeRigid(nodeNumber=made["nRigidBody"]))
        held = [1, 1, 1, 1, 0, 1] if k % 2 else [1, 1, 1, 1, 1, 0]
        mbs.AddObject(GenericJoint(markerNumbers=[below, root], constrainedAxes=held))
        below = mbs.AddMarker(
            MarkerSuperElementRigid(
                bodyNumber=made["oFFRFreducedOrder"],
                meshNodeNumbers=tips,
                weightingFactors=[1.0 / len(tips)] * len(tips),
            )
        )
    mbs.Assemble()
    return mbs
