"""Equations on the accelerations of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.sko.contracts import HingeNode


class Rows(NamedTuple):
    """Equations Σ K α(node) + Σ c θ̈(node) = k on the accelerations of nodes and of their hinges, m of them.

    Where there are two nodes, the rows constrain their relative motion: a common rigid motion does not
    matter. `nodes` are (node, block of its rows, K), K being (m, block); `hinges` are (node, c), c being (m,
    its velocities); k is (m,).
    """

    nodes: Sequence[tuple[HingeNode, slice, np.ndarray]]
    hinges: Sequence[tuple[HingeNode, np.ndarray]]
    k: Any
