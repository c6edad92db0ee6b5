"""Nodes of custom trees, as matrices or functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.sko.custom_nodes import (
    Entry,
    evaluated,
)

MAX_TRIAL_COORDINATES = 1000  # length of q for a trial call of H, before nq is known


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a custom tree: V = A* V(℘) + H* θ̇, α = A* α(℘) + H* θ̈ + a, f = Σ A f + M α + b, T = H f.

    Each entry is an array, or a function of the whole tree's q, (nq,), and v, (nv,), over numbers or symbols;
    or of (q, v, p) with p the parameters of the tree by name. Only a, b, passive forces and biases may depend
    on v.

    Parameters
    ----------
    name : str
        Name of the node.
    H : (m, rows)
        Joint map for m velocities.
    M : (rows, rows)
        Symmetric inertia.
    parent : str, optional
        Name of the parent node; a root needs an `A` only if the base of the tree accelerates.
    A : (rows of the parent, rows)
        Weight, of any rank.
    a, b : (rows,), optional
        Coriolis and gyroscopic terms. Default zero.
    armature : (m, m), optional
        Inertia of the joint velocities.
    passive_force : (m,), optional
        Forces of springs and dampers.
    pick_offs : mapping, optional
        B, (n, rows), by frame name with V_frame = B V; or pairs (B, bias) with α_frame = B α + bias.
    shape : (m, rows), optional
        Shape of H, needed only if H is a function that asks for the lengths of q and v.
    """

    name: str
    H: Entry
    M: Entry
    parent: str | None = None
    A: Entry = None
    a: Entry = None
    b: Entry = None
    armature: Entry = None
    passive_force: Entry = None
    pick_offs: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, int] | None = None


def node_shape(node: Node, H: Any, nq: int) -> tuple[int, int]:
    """Return velocities and rows of a node from H, evaluated with enough coordinates if it is a function."""
    if node.shape is not None:
        sizes = tuple(node.shape) if isinstance(node.shape, Sequence) else ()
        if len(sizes) != 2 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in sizes):
            raise ModelError(
                f"node {node.name!r}: shape: expected two integers above zero, got {node.shape!r}"
            )
        H = np.empty(sizes)
    elif callable(H):
        try:
            H = evaluated(f"node {node.name!r}: H", H, np.full(max(nq, MAX_TRIAL_COORDINATES), 0.1))
        except ModelError as error:
            raise ModelError(f"{error}; or give shape=(velocities, rows)") from error
    shape = np.shape(H)
    if len(shape) != 2 or 0 in shape:
        raise ModelError(f"node {node.name!r}: H: expected shape (velocities, rows), got {shape}")
    return shape[0], shape[1]
