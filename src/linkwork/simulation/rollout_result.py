"""Result of a rollout: trajectories, and how each row ended."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.contact import Contacts
from linkwork.simulation.traced import CARRIED, Laws


class _Arrays(NamedTuple):
    q: np.ndarray
    v: np.ndarray
    status: np.ndarray


_ATTRIBUTES = ("steps", "causes", "impulses", "residual", "iterations")  # besides those of the tuple


class Rollout(_Arrays):
    """Trajectories q, (..., n, nq), and v, (..., n, nv), with a status of each row, (...).

    Attributes
    ----------
    q, v : ndarray, shape (..., n, nq) and (..., n, nv)
        States after every `record_every` steps; row 0 is the initial state. NaN after a row has stopped.
    status : ndarray, shape (...)
        Values of `Status`.
    steps : ndarray, shape (...)
        Steps that each row took.
    causes : ndarray of str, shape (...), or None
        For rows that stopped: the joint or loop that failed first, and the time. For rows that are
        `CONTACT_NOT_CONVERGED`: the residual, and which shapes overlap most at the end. Only for the first
        hundred such rows, on the CPU; otherwise empty or None.
    impulses : ndarray, shape (..., impulses), or None
        Contact impulses of the last step [N s]; None without contacts.
    residual : ndarray, shape (...), or None
        Largest residual of contacts, joint limits and dry friction in any step [m/s or rad/s]. None where
        none of these act, and without contacts for mechanisms with loops.
    iterations : ndarray, shape (...), or None
        Most solver iterations in any step; None as `residual`.
    """

    steps: np.ndarray
    causes: Any = None
    impulses: Any = None
    residual: Any = None
    iterations: Any = None

    def _replace(self, /, **changes: Any) -> Rollout:
        """Return the rollout with other values of some attributes."""
        others = {name: changes.pop(name) for name in _ATTRIBUTES if name in changes}
        result = super()._replace(**changes)
        vars(result).update(vars(self) | others)
        return result


def with_contact(result: Rollout, carried: Any, contacts: Laws | None) -> Rollout:
    """Return the result with the impulses and `CARRIED` that steps pass on, (...,
    impulses + len(CARRIED)).
    """
    if carried is not None:
        result.impulses = carried[..., : -len(CARRIED)] if isinstance(contacts, Contacts) else None
        result.residual = carried[..., -len(CARRIED)]
        result.iterations = carried[..., 1 - len(CARRIED)]
    return result
