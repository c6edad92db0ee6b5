"""Pinocchio's constrained dynamics and Delassus matrices, on the sets of constraint_sets.py.

    with solvers(SETS["talos F6x2"]) as peer:
        for _ in range(30):
            peer.turn()
            ...                                               # our own turn
        peer.best["constrained dynamics, 3 iterations"]       # ns per state, of the fastest solver
        peer.variants["constrained dynamics, 3 iterations/pv"]
        peer.results(0, iterations=3)["acceleration/pv"]      # in our conventions

What all solvers solve, by proximal iterations from λ = 0, with mu as Pinocchio has it (the paper's is 1 /
mu):

    M a + h = tau + Jᵀ λ,   J a + γ = -mu (λ - λ before)

- λ is the force of the holder on the held frame, in the axes of the held frame and at its origin: a force [N]
  (size 3), or a moment [N m] and a force (size 6; Pinocchio has the force first, which is turned here). The
  other body feels -λ: at its own point (size 3), at the held frame's origin (size 6).
- Size 3: the classical accelerations of the two points are equal, in the axes of the held frame. Size 6: the
  spatial velocity of the held frame relative to the holder, in the held frame, does not change. To the world
  that is: its spatial acceleration is zero, not the classical one (they differ by ω × v where the frame
  moves). No feedback of position or velocity (Baumgarte).

In Pinocchio that is RigidConstraintModel with ReferenceFrame.LOCAL, the held frame as the first. What is
special to 4.1:

- constrainedABA, pv and proxLTLs, EFPA, PV-OSIMr and cABA-OSIM know only constraints to the world. proxLTLs
  is called untested there and gives no forces; its accelerations are right.
- constrainedABA takes its first residual before the accelerations are there, from the call before: after
  three iterations it is as exact as others after one; and with several constraints on one body it adds their
  inertia several times.
- lcaba takes drifts of 6D constraints from the call before, so that these are set to zero before each call
  here.
- EFPA's damped inverse loses all but a few digits at mu = 1e-6 with 3D constraints; Cholesky's Delassus
  matrix is NaN where constraints are redundant.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Self

import numpy as np

from constraint_sets import SETS, Constraint, ConstraintSet
from peers import build, models, python_times
from peers.servers import WALKS, Programs, Times
from speed import row

MU = 1e-6
COUNT = 64  # states: a walk over more of them would seldom be left alone by the system's other programs
ENDS: dict[str, tuple[float, int]] = {
    ", 1 iteration": (0.0, 1),
    ", 3 iterations": (0.0, 3),
    ", to 1e-9": (1e-9, 20),
}
"""When iterations end, by what is put behind the algorithm's name: tolerance and largest number."""

Results = dict[str, np.ndarray]
"""By kind and solver, "acceleration/pv" or "damped inverse/EFPA"."""


def solvers(constraints: ConstraintSet, states: list[models.State] | None = None) -> Server | PythonSolvers:
    """Return Pinocchio's solvers in C++, or in Python if that cannot be built, on given or 64 random states."""
    binary = build.pinocchio(best=True, source="pinocchio_constrained")
    return PythonSolvers(constraints, states) if binary is None else Server(constraints, binary, states)


def to_ours(constraints: ConstraintSet, state: models.State, results: dict[str, Any]) -> Results:
    """Return Pinocchio's results on a state of linkwork in linkwork's conventions."""
    T = models.turn(constraints.robot, state[0], "pinocchio")
    rows = []
    start = 0
    for c in constraints.constraints:
        rows += [start + k for k in ((3, 4, 5, 0, 1, 2) if c.size == 6 else (0, 1, 2))]
        start += c.size
    out: Results = {}
    for name, values in results.items():
        x = np.array(values, dtype=float)
        kind = name.split("/")[0]
        if kind == "acceleration":
            out[name] = T.T @ x
        else:
            out[name] = x[rows] if kind == "force" else x.reshape(start, start)[np.ix_(rows, rows)]
    return out


def constraints_text(constraints: Sequence[Constraint]) -> str:
    """Return the constraints as the C++ programs read them."""
    lines = [str(len(constraints))]
    for c in constraints:
        place, to_place = (models.numbers([*np.ravel(x.R), *x.p]) for x in (c.place, c.to_place))
        lines.append(f"{c.size} {c.body} {place} {c.to} {to_place}")
    return "\n".join(lines)


class Server(Programs):
    """Pinocchio in C++, on states of ours."""

    def __init__(
        self, constraints: ConstraintSet, binary: Path, states: list[models.State] | None = None
    ) -> None:
        self.constraints = constraints
        robot = constraints.robot
        self.states = states or models.states(robot, COUNT)
        states_text = models.states_text(robot, "pinocchio", self.states)
        held = constraints_text(constraints.constraints)
        files = {"model.txt": models.bodies_text(robot), "states.txt": states_text, "held.txt": held}
        super().__init__(f"Pinocchio, C++ on {robot}", {"inlined": binary}, files)

    def turn(self, walks: int = WALKS, mu: float = MU) -> dict[str, float]:
        """Return the best ns per state of each algorithm in several passes over all states, after a warm-up."""
        out = self.timed(f"matrices {walks} {mu}")
        for after, (tolerance, iterations) in ENDS.items():
            out |= self.timed(f"dynamics {walks} {mu} {tolerance} {iterations}", after)
        return out

    def results(self, state: int = 0, mu: float = MU, tolerance: float = 0.0, iterations: int = 3) -> Results:
        """Return all solvers' results on one state; forces are complete only if iterations ended by their
        number.
        """
        answer = self.ask("inlined", f"check {state} {mu} {tolerance} {iterations}")
        return to_ours(self.constraints, self.states[state], answer)


class PythonSolvers(Times):
    """The solvers that Pinocchio's Python module has."""

    def __init__(self, constraints: ConstraintSet, states: list[models.State] | None = None) -> None:
        super().__init__()
        self.constraints = constraints
        self.states = states or models.states(constraints.robot, COUNT)
        self._theirs = [models.to_peer(constraints.robot, s, "pinocchio") for s in self.states]

    def _calls(self, mu: float, tolerance: float, iterations: int) -> dict[str, python_times.Call]:
        """Return fresh data for each solver, and its call."""
        import pinocchio as pin

        model, rigid = _rigid(self.constraints)
        settings = pin.ProximalSettings(tolerance, mu, iterations)

        def data() -> tuple[Any, Any]:
            return model.createData(), pin.StdVec_RigidConstraintData([c.createData() for c in rigid])

        (d1, c1), (d2, c2), (d3, c3), (d4, c4) = data(), data(), data(), data()
        factors = pin.ConstraintCholeskyDecomposition(model, d4, rigid, c4)
        pin.initConstraintDynamics(model, d1, rigid, c1)
        pin.computeJointMinimalOrdering(model, d2, rigid)
        calls: dict[str, python_times.Call] = {
            "constrained dynamics/constraintDynamics": lambda q, v, a, tau: pin.constraintDynamics(
                model, d1, q, v, tau, rigid, c1, settings
            ),
            "constrained dynamics/lcaba": lambda q, v, a, tau: pin.lcaba(
                model, d2, q, v, tau, rigid, c2, settings
            ),
        }
        if self.constraints.to_world:
            calls["Delassus matrix/EFPA"] = lambda q, v, a, tau: pin.computeDelassusMatrix(
                model, d3, q, rigid, c3
            )

        def damped(q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> np.ndarray:
            pin.crba(model, d4, q, pin.Convention.WORLD)
            for c, d in zip(rigid, c4):
                c.calc(model, d4, d)
            factors.compute(model, d4, rigid, c4, mu)
            return factors.getOperationalSpaceInertiaMatrix()

        calls["damped inverse/Cholesky"] = damped  # what the module has by other ways is wrong
        return calls

    def turn(self, walks: int = WALKS, mu: float = MU) -> dict[str, float]:
        """Return the best ns per state of each algorithm in several passes over all states, after a warm-up."""
        turn: dict[str, float] = {}
        for after, (tolerance, iterations) in ENDS.items():
            for name, call in self._calls(mu, tolerance, iterations).items():
                walked = [
                    python_times.walk(call, self._theirs) / len(self._theirs) for _ in range(walks + 1)
                ][1:]
                algorithm, variant = name.split("/")
                algorithm += after if algorithm == "constrained dynamics" else ""
                self.times.setdefault(f"{algorithm}/{variant}/Python", []).append(
                    (1e9 * min(walked), 1e9 * median(walked))
                )
                turn[algorithm] = min(turn.get(algorithm, np.inf), 1e9 * min(walked))
        return turn

    def results(self, state: int = 0, mu: float = MU, tolerance: float = 0.0, iterations: int = 3) -> Results:
        """Return all solvers' results on one of the states."""
        out = {}
        for name, call in self._calls(mu, tolerance, iterations).items():
            kind, variant = name.split("/")
            out[f"{'acceleration' if kind == 'constrained dynamics' else kind}/{variant}"] = call(
                *self._theirs[state]
            )
        return to_ours(self.constraints, self.states[state], out)

    def close(self) -> None:
        """Do nothing, since no process runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        self.close()


def _rigid(constraints: ConstraintSet) -> tuple[Any, Any]:
    """Return Pinocchio's model and constraints in Python."""
    import pinocchio as pin

    model = models.pinocchio_model(constraints.robot)
    rigid = pin.StdVec_RigidConstraintModel()
    for c in constraints.constraints:
        kind = pin.ContactType.CONTACT_6D if c.size == 6 else pin.ContactType.CONTACT_3D
        place, to_place = (
            pin.SE3(np.array(x.R, dtype=float), np.array(x.p, dtype=float)) for x in (c.place, c.to_place)
        )
        rigid.append(
            pin.RigidConstraintModel(
                kind, model, c.body + 1, place, c.to + 1, to_place, pin.ReferenceFrame.LOCAL
            )
        )
    return model, rigid


def dense(constraints: ConstraintSet, state: models.State, mu: float = MU, iterations: int = 3) -> Results:
    """Return the results by dense matrices, with M, h and the Jacobians from Pinocchio."""
    import pinocchio as pin

    model, rigid = _rigid(constraints)
    q, v, _, tau = models.to_peer(constraints.robot, state, "pinocchio")
    data = model.createData()
    pin.forwardKinematics(model, data, q, v, np.zeros(model.nv))
    pin.computeJointJacobians(model, data, q)
    J = []
    drift = []
    for c in rigid:
        (J1, X1, v1, a1), (J2, X2, v2, a2) = (
            _frame(model, data, i, place)
            for i, place in ((c.joint1_id, c.joint1_placement), (c.joint2_id, c.joint2_placement))
        )
        if c.type == pin.ContactType.CONTACT_6D:
            X = X1.inverse().action  # from the world's frame to the held one's
            J.append(X @ (J1 - J2))
            drift.append(X @ (a1 - a2).vector + (X1.actInv(v1).cross(X1.actInv(v2))).vector)
        else:
            (L1, g1), (L2, g2) = (_point(*frame) for frame in ((J1, X1, v1, a1), (J2, X2, v2, a2)))
            J.append(X1.rotation.T @ (L1 - L2))
            drift.append(X1.rotation.T @ (g1 - g2))
    J = np.vstack(J)
    gamma = np.concatenate(drift)
    upper = np.triu(pin.crba(model, data, q))
    M = upper + np.triu(upper, 1).T
    free = tau - pin.nonLinearEffects(model, data, q, v)
    G = J @ np.linalg.solve(M, J.T)
    G = (G + G.T) / 2
    damped = np.linalg.inv(G + mu * np.eye(len(G)))
    force = np.zeros(len(G))
    for _ in range(iterations):
        force = damped @ (mu * force - J @ np.linalg.solve(M, free) - gamma)
    a = np.linalg.solve(M, free + J.T @ force)
    return to_ours(
        constraints,
        state,
        {"acceleration": a, "force": force, "Delassus matrix": G, "damped inverse": damped},
    )


def _frame(model: Any, data: Any, joint: int, place: Any) -> tuple[np.ndarray, Any, Any, Any]:
    """Return Jacobian, pose, spatial velocity and acceleration without that of q, in the world's frame."""
    import pinocchio as pin

    if joint == 0:
        return np.zeros((6, model.nv)), place, pin.Motion.Zero(), pin.Motion.Zero()
    joint_pose = data.oMi[joint]
    J = pin.getJointJacobian(model, data, joint, pin.ReferenceFrame.WORLD)
    return J, joint_pose * place, joint_pose.act(data.v[joint]), joint_pose.act(data.a[joint])


def _point(J: np.ndarray, X: Any, v: Any, a: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return Jacobian and classical acceleration of a frame's origin, in the world's axes."""
    p = X.translation
    lever = np.cross(J[3:].T, p).T  # ω × p, column by column
    velocity = v.linear + np.cross(v.angular, p)
    return J[:3] + lever, a.linear + np.cross(a.angular, p) + np.cross(v.angular, velocity)


def differences(peer: Server | PythonSolvers, state: int = 0, iterations: int = 3) -> dict[str, float]:
    """Return the differences of each solver's results from the dense ones, relative to the largest entry."""
    expected = dense(peer.constraints, peer.states[state], iterations=iterations)
    out = {}
    for name, x in peer.results(state, iterations=iterations).items():
        y = expected[name.split("/")[0]]
        out[name] = float(np.max(np.abs(x - y)) / np.max(np.abs(y)))
    return out


COLUMNS: dict[str, tuple[str, ...]] = {
    **{
        f"constrained dynamics{after}": ("constrainedABA", "pv", "proxLTLs", "lcaba", "constraintDynamics")
        for after in ENDS
    },
    "Delassus matrix": ("EFPA", "PV-OSIMr", "Cholesky"),
    "damped inverse": ("cABA-OSIM", "EFPA", "Cholesky"),
}


def table(names: list[str], turns: int) -> str:
    """Return Markdown: best ns per state of each solver, by set of constraints."""
    lines: list[str] = []
    times: dict[str, dict[str, float]] = {}
    for name in names:
        with solvers(SETS[name]) as peer:
            for _ in range(turns):
                peer.turn()
            times[name] = peer.variants
    for algorithm, variants in COLUMNS.items():
        head = [f"{algorithm}, ns", "rows", *variants]
        lines += [row(head), row(["---"] * len(head))]
        for name in names:
            cells = [times[name].get(f"{algorithm}/{variant}") for variant in variants]
            lines.append(
                row([name, str(SETS[name].rows), *("" if ns is None else f"{ns:.0f}" for ns in cells)])
            )
        lines.append("")
    return "\n".join(lines)


def check(names: list[str]) -> str:
    """Return the largest relative error of each solver on ten states, by set."""
    lines = []
    for name in names:
        with solvers(SETS[name]) as peer:
            found = [differences(peer, state) for state in range(10)]
            lines += [f"{name}: {key}: {max(d[key] for d in found):.1e}" for key in found[0]]
    return "\n".join(lines)
