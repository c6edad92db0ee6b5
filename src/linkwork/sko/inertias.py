"""Inertias of nodes: of several bodies as blocks, of parts of a node, and dense ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.lazy import cached_property
from linkwork.spatial import Factor, Inertia, is_zero, mirrored


class DenseInertia:
    """An inertia as a symmetric matrix, (rows, rows)."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    def __matmul__(self, X: np.ndarray) -> np.ndarray:
        return self.matrix @ X

    def __add__(self, other: Any) -> DenseInertia:
        return DenseInertia(self.matrix + other.dense())

    def projected(
        self, G: np.ndarray, U: np.ndarray, D: Any = None, zero_rows: Sequence[int] = ()
    ) -> DenseInertia:
        remainder = np.array(mirrored(self.matrix - G @ U.T), dtype=object)
        remainder[list(zero_rows)] = 0.0
        remainder[:, list(zero_rows)] = 0.0
        return DenseInertia(remainder)

    def dense(self) -> np.ndarray:
        return self.matrix


class BlockInertia(NamedTuple):
    """Inertia of one body, in a block of the rows of its node."""

    block: slice
    inertia: Inertia
    rows: int

    def dense(self) -> np.ndarray:
        M = np.zeros((self.rows, self.rows), dtype=object)
        M[self.block, self.block] = self.inertia.dense()
        return M


class CouplingInertia(NamedTuple):
    """A symmetric inertia that couples several blocks of a node, six rows and columns for each."""

    blocks: Sequence[slice]
    matrix: np.ndarray
    rows: int

    def dense(self) -> np.ndarray:
        M = np.zeros((self.rows, self.rows), dtype=object)
        places = np.concatenate([np.arange(block.start, block.stop) for block in self.blocks])
        M[np.ix_(places, places)] = self.matrix
        return M


class RotorRow(NamedTuple):
    """A rotor as a single row: its spin about axis k relative to the coaxial body in `block`.

    `J` [kg m²] is its axial inertia.
    """

    block: slice
    k: int
    J: float


class ModalRows(NamedTuple):
    """Modes of a flexible body as rows: `E`, (m, m), coupled by `C`, (6, m), to the block at `start`."""

    start: int
    C: np.ndarray
    E: np.ndarray


class ModalBlock(NamedTuple):
    """An inertia of one body and its modes: `R` in its block, `E` in the modal rows, `C` between them."""

    block: slice
    modes: slice
    R: Inertia
    C: np.ndarray
    E: np.ndarray
    rows: int

    def dense(self) -> np.ndarray:
        M = np.zeros((self.rows, self.rows), dtype=object)
        M[self.block, self.block] = self.R.dense()
        M[self.modes, self.modes] = self.E
        M[self.block, self.modes] = self.C
        M[self.modes, self.block] = self.C.T
        return M


class BodiesInertia:
    """The inertias of a node's bodies, of rotor rows, of joints with rows of their own, and of modes.

    `across` has, for the starts of two blocks, their (6, 6) coupling block: it comes from clusters supported
    by both bodies.
    """

    def __init__(
        self,
        inertias: Mapping[int, Inertia],
        spins: Sequence[RotorRow] = (),
        joints: Sequence[float] = (),
        across: Mapping[tuple[int, int], np.ndarray] | None = None,
        modes: Sequence[ModalRows] = (),
    ) -> None:
        """Prepare the inertia; `inertias` are keyed by the start of each body's block."""
        self.inertias = dict(inertias)
        self.spins = spins
        self.joints = joints
        self.across = across or {}
        self.modes = modes
        self.bodies = 6 * len(self.inertias)
        self.rows = self.bodies + len(spins) + len(joints) + sum(len(one.E) for one in modes)

    def __add__(self, other: BlockInertia | CouplingInertia | ModalBlock | Inertia) -> BodiesInertia:
        changed = dict(self.inertias)
        across = dict(self.across)
        modes = self.modes
        if isinstance(other, ModalBlock):
            start = other.block.start
            R = other.R
            C = other.C
            E = other.E
            changed[start] = changed[start] + R
            modes = [one._replace(C=one.C + C, E=one.E + E) if one.start == start else one for one in modes]
        elif isinstance(other, CouplingInertia):
            for i, block in enumerate(other.blocks):
                rows = other.matrix[6 * i : 6 * i + 6]
                changed[block.start] = changed[block.start] + Inertia.from_matrix(rows[:, 6 * i : 6 * i + 6])
                for j, another in enumerate(other.blocks[:i]):
                    coupling = rows[:, 6 * j : 6 * j + 6]
                    across[block.start, another.start] = (
                        across.get((block.start, another.start), 0.0) + coupling
                    )
        else:
            start, inertia = (
                (other.block.start, other.inertia) if isinstance(other, BlockInertia) else (0, other)
            )
            changed[start] = changed[start] + inertia
        return BodiesInertia(changed, self.spins, self.joints, across, modes)

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        forces = {start: inertia @ x[start : start + 6] for start, inertia in self.inertias.items()}
        for (i, j), coupling in self.across.items():
            forces[i], forces[j] = forces[i] + coupling @ x[j : j + 6], forces[j] + coupling.T @ x[i : i + 6]
        on_modes = []
        row = self.rows - sum(len(one.E) for one in self.modes)
        for start, C, E in self.modes:
            modal = x[row : row + len(E)]
            row += len(E)
            on_modes.append(C.T @ x[start : start + 6] + E @ modal)
            forces[start] = forces[start] + C @ modal
        return self.with_rotors(forces, x, on_modes)

    def with_rotors(
        self, forces: dict[int, np.ndarray], x: np.ndarray, on_modes: Sequence[np.ndarray] = ()
    ) -> np.ndarray:
        """Return forces for a motion x: on bodies with rotors, on further rows, and on modes."""
        rows = []
        for r, (block, k, J) in enumerate(self.spins, self.bodies):
            moment = J * (x[block.start + k] + x[r])
            forces[block.start] = add_to_row(forces[block.start], k, moment)
            rows.append(moment)
        rows += [J * x[r] for r, J in enumerate(self.joints, self.bodies + len(self.spins))]
        further = np.reshape(np.array(rows, dtype=object), (len(rows), *x.shape[1:]))
        return np.concatenate([*forces.values(), further, *on_modes])

    def with_locked_rotors(self) -> dict[int, Inertia]:
        """Return the inertias of the bodies with their rotors locked to them."""
        inertias = dict(self.inertias)
        for block, k, J in self.spins:
            inertia = inertias[block.start]
            A = np.array(inertia.A, dtype=object)
            A[k, k] = A[k, k] + J
            inertias[block.start] = Inertia(A, inertia.B, inertia.D, inertia.mass)
        return inertias

    def projected(
        self, G: np.ndarray, U: np.ndarray, D: Factor, zero_rows: Sequence[int] = ()
    ) -> ReducedInertia:
        return ReducedInertia(self, G, U, D)

    def dense(self) -> np.ndarray:
        return self @ np.eye(self.rows)


class ReducedInertia:
    """P - G Uᵀ of a node's bodies, with G = U D⁻¹."""

    def __init__(self, P: BodiesInertia, G: np.ndarray, U: np.ndarray, D: Factor) -> None:
        self.P = P
        self.G = G
        self.U = U
        self.D = D

    @cached_property
    def one(self) -> Inertia:
        """The block of a node's only body."""
        (block,) = self.P.with_locked_rotors().values()
        return block.projected(self.G[:6], self.U[:6])

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        if len(self.P.inertias) == 1 and all(is_zero(y) for y in x[6:].ravel()):
            return np.concatenate([self.one @ x[:6], (self.P @ x - self.G @ (self.U.T @ x))[6:]])
        return self.P @ x - self.G @ (self.U.T @ x)

    def dense(self) -> np.ndarray:
        return self @ np.eye(self.P.rows)


def add_to_row(x: np.ndarray, k: int, y: Any) -> np.ndarray:
    """Return x with y added to its row k."""
    changed = np.array(x, dtype=object)
    changed[k] = changed[k] + y
    return changed
