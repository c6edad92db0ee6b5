"""Pinocchio's analytic derivatives in C++, as shipped and inlined, as servers that alternate with linkwork.

with Server("g1") as peer:
    for _ in range(40):
        peer.turn()
        ...                                 # a turn of linkwork
    peer.best["forward dynamics"]           # ns per state, of the faster build
    peer.matrices()["forward dynamics"]     # by q and by v, in linkwork's conventions
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from constraint_sets import Constraint
from peers import build, models
from peers.constrained import constraints_text
from peers.servers import WALKS, Programs


class Server(Programs):
    """Derivatives of inverse and forward dynamics of a robot; with constraints, those of constrained
    dynamics.
    """

    def __init__(
        self, robot: str, constraints: Sequence[Constraint] = (), states: list[models.State] | None = None
    ) -> None:
        programs = {"shipped": False, "inlined": True}
        made = {
            name: build.pinocchio(best, source="pinocchio_derivatives") for name, best in programs.items()
        }
        there = {name: binary for name, binary in made.items() if binary is not None}
        if not there:
            raise RuntimeError("Pinocchio's derivatives cannot be compiled here")
        self.robot, self.states = robot, states or models.states(robot)
        text = models.states_text(robot, "pinocchio", self.states)
        files = {
            "model.txt": models.bodies_text(robot),
            "states.txt": text,
            "held.txt": constraints_text(constraints),
        }
        super().__init__(f"Pinocchio's derivatives on {robot}", there, files)

    def turn(self, walks: int = WALKS) -> dict[str, float]:
        """Return the best ns per state of each algorithm in several passes over all states, after a warm-up."""
        return self.timed(f"go {walks}")

    def matrices(self, made: str = "shipped") -> dict[str, list[np.ndarray]]:
        """Return the derivatives of the first state by q, v (and tau), by algorithm, in linkwork's
        conventions.
        """
        T = models.turn(self.robot, self.states[0][0], "pinocchio")
        out: dict[str, list[np.ndarray]] = {}
        for name, values in self.ask(made, "check").items():
            by_columns = np.reshape(values, T.shape[::-1])
            out.setdefault(name.split(",")[0], []).append(T.T @ by_columns.T @ T)
        return out
