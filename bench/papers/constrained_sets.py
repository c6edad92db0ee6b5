"""Constrained robots for benchmarks, and Pinocchio's solvers for them.

In a checkout they are those of the folder `bench`: the sets of the paper Constrained on existing robots, with
Pinocchio in C++. Elsewhere they are robots that ship with linkwork, with Pinocchio in Python if installed. In
the names H is a hand, F a foot and E an elbow; 3 is a point (`Connect`), 6 a frame (`Weld`); "F6x2" is two.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from linkwork import robots
from linkwork.cli.measure import states
from linkwork.constraints import Connect, Constraint, Weld, total
from linkwork.interop.pinocchio import States
from linkwork.interop.pinocchio_model import pinocchio, pinocchio_tree
from linkwork.model import Model
from papers.peers import proximal_solvers

MU = 1e-6  # compliance of all that is measured
SOLVERS = (
    "constrainedABA",
    "pv",
    "proxLTLs",
    "lcaba",
    "constraintDynamics",
)  # Pinocchio's, and its ways to the inverse
INVERSES = ("cABA-OSIM", "EFPA", "Cholesky")
DYNAMICS = {1: "constrained dynamics, 1 iteration", 3: "constrained dynamics, 3 iterations"}
DAMPED = "damped inverse"


class Peer(Protocol):
    """Another software's solvers on one set of constraints, which are timed a little in each turn."""

    @property
    def variants(self) -> dict[str, float]:
        """The best ns of one state so far, by "algorithm/solver"."""

    def turn(self) -> Any:
        """Time all of them."""

    def close(self) -> None:
        """End the running peer."""


@dataclass(frozen=True, eq=False)
class Case:
    """A model with constraints, and who else is measured on it."""

    name: str
    model: Model
    constraints: tuple[Constraint, ...]
    peer: Callable[[], Peer]

    @property
    def rows(self) -> int:
        return total(self.model, self.constraints)


class Sets(NamedTuple):
    """What there is to measure: the names of independent sets and of a redundant one. Chains and trees have
    any size.
    """

    table: tuple[str, ...]
    redundant: str
    case: Callable[[str], Case]


def sets() -> Sets:
    """Return the sets of `bench/constraint_sets.py`."""
    known = importlib.import_module("constraint_sets")

    def case(name: str) -> Case:
        made = _sized(name)
        chosen = getattr(known, made[0])(made[1]) if made else known.SETS[name]
        held = []
        for i, c in enumerate(chosen.constraints):
            kind = Weld if c.size == 6 else Connect
            held.append(kind(f"held{i}", f"holder{i}") if c.to >= 0 else kind(f"held{i}"))
        model = chosen.model()
        return Case(
            name, model, tuple(held), lambda: InPython(model, ()) if pinocchio() is None else theirs(chosen)
        )

    def theirs(chosen: Any) -> Peer:
        peer: Peer = importlib.import_module("peers.constrained").solvers(chosen)
        return peer

    return Sets(tuple(known.TABLE), next(iter(known.REDUNDANT)), case)


def _sized(name: str) -> tuple[str, int] | None:
    """Return the kind, "chain" or "tree", and the number of bodies."""
    found = re.fullmatch(r"(chain|tree)(\d+)", name)
    return (found[1], int(found[2])) if found else None


FEET = tuple(Connect(f"{foot}_foot") for foot in ("front_left", "front_right", "rear_left", "rear_right"))
SOLES, PALMS = ((Weld(f"left_{part}"), Weld(f"right_{part}")) for part in ("sole", "palm"))
HELD: dict[str, tuple[Constraint, ...]] = {
    "arm H3": (Connect("tool"),),
    "arm H6": (Weld("tool"),),
    "quadruped F3x2": FEET[:2],
    "quadruped F3x4": FEET,
    "humanoid F6x2": SOLES,
    "humanoid F6x2 H6x2": (*SOLES, *PALMS),
    "humanoid F6x2 H6 E3": (*SOLES, PALMS[0], Connect("left_forearm")),
}


def _shipped(name: str) -> Case:
    made = _sized(name)
    if made is None:
        model = getattr(robots, name.partition(" ")[0])()
        held = HELD[name]
    else:
        kind, n = made
        model = robots.chain(n) if kind == "chain" else robots.binary_tree(n)
        inner = {joint.parent for joint in model.joints}
        end = Weld if kind == "chain" else Connect
        held = tuple(end(body.name) for k, body in enumerate(model.bodies) if k not in inner)
    return Case(name, model, held, lambda: InPython(model, held))


SHIPPED = Sets(tuple(name for name in HELD if "E3" not in name), "humanoid F6x2 H6 E3", _shipped)


class InPython:
    """The solvers of Pinocchio's Python module, for constraints to the world; none where it is not installed."""

    def __init__(self, model: Model, held: tuple[Constraint, ...]) -> None:
        self.variants: dict[str, float] = {}
        self._calls: dict[str, Callable[..., Any]] = {}
        pin = pinocchio()
        if pin is None:
            return
        there = pinocchio_tree(pin, model)
        same = States(model, there)
        some = states(model)
        self._rows = list(zip(same.q_to(some["q"]), same.v_to(some["v"]), same.tau_to(some["tau"])))
        rigid = pin.StdVec_RigidConstraintModel()
        for constraint in held:
            frame = model.frame(constraint.frame)  # type: ignore[attr-defined]
            kind = pin.ContactType.CONTACT_6D if isinstance(constraint, Weld) else pin.ContactType.CONTACT_3D
            place = pin.SE3(np.array(frame.place.R, float), np.array(frame.place.p, float))
            rigid.append(
                pin.RigidConstraintModel(kind, there, frame.body + 1, place, pin.ReferenceFrame.LOCAL)
            )
        for iterations, algorithm in DYNAMICS.items():
            for solver, call in proximal_solvers(
                pin, there, rigid, pin.ProximalSettings(0.0, MU, iterations)
            ).items():
                self._calls[f"{algorithm}/{solver}"] = call

    def turn(self) -> None:
        for name, call in self._calls.items():
            for _ in range(3):
                start = time.perf_counter()
                for row in self._rows:
                    call(*row)
                taken = 1e9 * (time.perf_counter() - start) / len(self._rows)
                self.variants[name] = min(self.variants.get(name, np.inf), taken)

    def close(self) -> None:
        """Do nothing, since no peer runs."""
