"""Simulated recordings in segments, and the least-squares problem of their residuals linearised and
condensed.

A recording is cut into segments, each with a state of its own at its start (a node). Segments are simulated
side by side in one batch. In the linearised problem the states of later nodes are eliminated by continuity
(Bock 1983), so that its variables are the initial state of each recording and the parameters: the solution is
that of single shooting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.functions.states import difference
from linkwork.identification.parameters import Parameters
from linkwork.identification.recordings import Signals, step_forces
from linkwork.identification.steps import Steps

BLOCK = 200_000  # products in a block of a matrix product
CHUNK = 1 << 23  # numbers of Jacobians that are in memory at once


@dataclass(frozen=True, eq=False)
class Point:
    """Coordinates of parameters, and nodes of each recording: configurations (nodes,
    nq) and velocities (nodes, nv).
    """

    x: np.ndarray
    q: list[np.ndarray]
    v: list[np.ndarray]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A simulated recording: states before each step and at its end, residuals in units of noise,
    and defects at nodes.
    """

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    slope: np.ndarray
    residuals: np.ndarray
    defects: np.ndarray


@dataclass(frozen=True, eq=False)
class Linear:
    """A recording's part of the linear problem, by (initial state, numbers, 1): products,
    and how nodes move.
    """

    gram: np.ndarray
    nodes: np.ndarray


class Shooting:
    """The residuals of recordings as functions of parameters and nodes."""

    def __init__(
        self,
        steps: Steps,
        parameters: Parameters,
        signals: Sequence[Signals],
        *,
        segment: int,
        substeps: int,
        free_start: bool,
    ) -> None:
        self.steps = steps
        self.parameters = parameters
        self.signals = signals
        self.model = steps.model
        self.substeps = substeps
        self.free_start = free_start
        self.starts = [np.arange(0, one.intervals, segment) for one in signals]
        self.weights: list[tuple[np.ndarray, np.ndarray | None]] = []
        self.nx = self._state_size()

    def _state_size(self) -> int:
        """Return the number of directions in which the state at the start of a recording can change."""
        point = self.measured(self.parameters.start)
        values = list(self.parameters.arrays(point.x).values())
        q, v = (np.stack([x[0] for x in nodes]) for nodes in (point.q, point.v))
        return self.steps.directions(q, v, values)[0].shape[2]

    def set_noise(self, noise: Sequence[tuple[np.ndarray, np.ndarray | None]]) -> None:
        """Set the standard deviations of positions and velocities of each recording."""
        self.weights = [(1.0 / q, None if v is None else 1.0 / v) for q, v in noise]

    def measured(self, x: np.ndarray) -> Point:
        """Return the start of a fit from coordinates x: nodes at measured states."""
        values = self.parameters.arrays(x)
        q = []
        v = []
        for one, starts in zip(self.signals, self.starts):
            zero = np.zeros((len(starts), 2 * self.model.nv))
            velocities = _velocities(self.model, one) if one.v is None else one.v
            moved_q, moved_v = self.steps.moved(one.q[starts], velocities[starts], zero, values)
            q.append(moved_q)
            v.append(moved_v)
        return Point(x, q, v)

    def simulate(self, point: Point) -> list[Trajectory] | None:
        """Return all recordings as simulated from their nodes; None if a state is not finite."""
        values = list(self.parameters.arrays(point.x).values())
        delay = self.parameters.delay(point.x)
        forces = [step_forces(one, self.substeps, delay) for one in self.signals]
        with np.errstate(invalid="ignore", over="ignore"):
            paths = self._paths(point, [tau for tau, _ in forces], values)
        simulated = []
        for k, (q, v, end_q, end_v) in enumerate(paths):
            if not (np.isfinite(q).all() and np.isfinite(v).all()):
                return None
            at = slice(None, None, self.substeps)
            residuals = self._residuals(k, q[at], v[at], values)
            moved = (
                difference(self.model, point.q[k][1:], end_q[:-1])
                if len(end_q) > 1
                else np.zeros((0, self.model.nv))
            )
            defects = np.concatenate([moved, end_v[:-1] - point.v[k][1:]], axis=1)
            simulated.append(Trajectory(q, v, *forces[k], residuals, defects))
        return simulated

    def _paths(
        self, point: Point, forces: list[np.ndarray], values: list[np.ndarray]
    ) -> list[tuple[np.ndarray, ...]]:
        """Return states before all steps and at the end of each recording, and states at the ends of
        segments.
        """
        inputs = [self._step_inputs(k, tau) for k, tau in enumerate(forces)]
        bounds = [
            np.append(starts, one.intervals) * self.substeps for starts, one in zip(self.starts, self.signals)
        ]
        lengths = np.concatenate([np.diff(b) for b in bounds])
        owner = np.concatenate([np.full(len(b) - 1, k) for k, b in enumerate(bounds)])
        first = np.concatenate([b[:-1] for b in bounds])
        order = np.argsort(-lengths, kind="stable")  # segments that are over are at the end of the batch
        most = int(lengths.max())
        columns = [np.concatenate(parts) for parts in zip(*inputs)]
        offset = np.cumsum([0, *(len(tau) for tau in forces)])[:-1]
        begin = (offset[owner] + first)[order]
        q, v = (np.concatenate(parts)[order] for parts in (point.q, point.v))
        Q = np.full((most + 1, *q.shape), np.nan)
        V = np.full((most + 1, *v.shape), np.nan)
        Q[0] = q
        V[0] = v
        active = np.searchsorted(-lengths[order], -np.arange(most), side="left")
        for k in range(most):
            n = active[k]
            rows = [column[begin[:n] + k] for column in columns]
            Q[k + 1, :n], V[k + 1, :n] = self._step(Q[k, :n], V[k, :n], rows, values)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        paths: list[tuple[np.ndarray, ...]] = []
        row = 0
        for b in bounds:
            segments = [(back[row + j], int(n)) for j, n in enumerate(np.diff(b))]
            row += len(segments)
            parts = [(Q[:n, r], V[:n, r]) for r, n in segments]
            end_q, end_v = (np.array([X[n, r] for r, n in segments]) for X in (Q, V))
            path_q = np.concatenate([*(p[0] for p in parts), end_q[-1:]])
            path_v = np.concatenate([*(p[1] for p in parts), end_v[-1:]])
            paths.append((path_q, path_v, end_q, end_v))
        return paths

    def _step_inputs(self, k: int, tau: np.ndarray) -> list[np.ndarray]:
        """Return forces, lengths and external forces of all steps of a recording."""
        one = self.signals[k]
        inputs = [tau, np.repeat(np.diff(one.t) / self.substeps, self.substeps)]
        if any(other.f_ext is not None for other in self.signals):
            size = len(self.model.bodies)
            f_ext = np.zeros((one.intervals, size, 6)) if one.f_ext is None else one.f_ext[:-1]
            inputs.append(np.repeat(f_ext, self.substeps, axis=0))
        return inputs

    def _step(self, q: np.ndarray, v: np.ndarray, rows: list[np.ndarray], values: list[np.ndarray]) -> Any:
        return self.steps.step(q, v, *rows, *values)

    def _residuals(self, k: int, q: np.ndarray, v: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        one, (of_q, of_v) = self.signals[k], self.weights[k]
        residuals = self.steps.errors(q, one.q, values) * of_q
        return residuals if one.v is None else np.concatenate([residuals, (v - one.v) * of_v], axis=1)

    def linearise(self, paths: Sequence[Trajectory], x: np.ndarray) -> list[Linear]:
        """Return products of residual Jacobians by (initial state, numbers, 1) of each recording, in units of
        noise.

        Recordings of the same length are computed together.
        """
        values = list(self.parameters.arrays(x).values())
        same_length: dict[tuple[int, ...], list[int]] = {}
        for k, (one, starts) in enumerate(zip(self.signals, self.starts)):
            same_length.setdefault((one.v is None, one.intervals, *starts.tolist()), []).append(k)
        problems: dict[int, Linear] = {}
        width = self.nx + self.parameters.numbers + 1
        for members in same_length.values():
            most = max(1, CHUNK // (2 * self.model.nv * width * self.substeps * 4))
            for first in range(0, len(members), most):
                group = members[first : first + most]
                problems |= zip(group, self._linearised(group, [paths[k] for k in group], values))
        return [problems[k] for k in range(len(paths))]

    def _linearised(
        self, group: list[int], paths: list[Trajectory], values: list[np.ndarray]
    ) -> list[Linear]:
        """Return the linear problems of recordings of the same length with the same nodes."""
        nx = self.nx
        many = len(group)
        width = nx + self.parameters.numbers + 1
        inputs = [
            np.stack(x) for x in zip(*(self._step_inputs(k, path.tau) for k, path in zip(group, paths)))
        ]
        q, v, slope = (np.stack([getattr(path, name) for path in paths]) for name in ("q", "v", "slope"))
        defects = np.stack([path.defects for path in paths])
        at_step = {int(k) * self.substeps: j for j, k in enumerate(self.starts[group[0]][1:])}
        S = np.zeros((many, 2 * self.model.nv, width))
        S[:, :, :nx], S[:, :, nx:-1] = self.steps.directions(q[:, 0], v[:, 0], values, nx)
        gram = np.zeros((many, width, width))
        nodes = [S]
        steps = slope.shape[1]
        chunk = max(1, CHUNK // (S[0].size * many) // self.substeps) * self.substeps
        for begin in range(0, steps, chunk):
            rows = slice(begin, min(begin + chunk, steps))
            path = np.empty((rows.stop - begin, *S.shape))
            by_state, by_number = self._rates((q, v, *inputs), slope, rows, values)
            for j in range(rows.stop - begin):
                node = at_step.get(begin + j)
                if node is not None:
                    S[:, :, -1] += defects[:, node]
                    nodes.append(S)
                path[j] = S
                S = by_state[:, j] @ S
                S[:, :, nx:-1] += by_number[:, j]
            sampled = path[:: self.substeps].swapaxes(0, 1)
            samples = slice(begin // self.substeps, begin // self.substeps + sampled.shape[1])
            gram += self._products(group, paths, q, samples, sampled, values)
        last = slice(steps // self.substeps, steps // self.substeps + 1)
        gram += self._products(group, paths, q, last, S[:, None], values)
        if not self.free_start:
            gram[:, :nx] = gram[:, :, :nx] = 0.0
        moves = np.stack(nodes, axis=1)
        return [Linear(gram[r], moves[r]) for r in range(many)]

    def _rates(
        self, arrays: Sequence[np.ndarray], slope: np.ndarray, rows: slice, values: list[np.ndarray]
    ) -> Any:
        """Return Jacobians of some steps of several recordings by states and numbers."""
        cut = [x[:, rows] for x in arrays]
        flat = [x.reshape(-1, *x.shape[2:]) for x in cut]
        by_state, by_number, by_force = self.steps.states_jacobian(flat, values)
        late = slope[:, rows].reshape(-1, self.model.nv)
        for j, joints in enumerate(self.parameters.delays):
            place = self.parameters.numbers - len(self.parameters.delays) + j
            by_number[:, :, place] = np.einsum("kij,kj->ki", by_force[:, :, joints], late[:, joints])
        shape = cut[0].shape[:2]
        return by_state.reshape(*shape, *by_state.shape[1:]), by_number.reshape(*shape, *by_number.shape[1:])

    def _products(
        self,
        group: list[int],
        paths: list[Trajectory],
        q: np.ndarray,
        samples: slice,
        S: np.ndarray,
        values: list[np.ndarray],
    ) -> np.ndarray:
        """Return Jᵀ J of some samples of several recordings; the last column is of residuals with closed
        defects.
        """
        nv = self.model.nv
        shape = S.shape[:2]
        at = q[:, :: self.substeps][:, samples].reshape(-1, self.model.nq)
        measured = np.concatenate([self.signals[k].q[samples] for k in group])
        rates = self.steps.errors_jacobian(at, measured, values)
        J = S[:, :, :nv]
        if rates is not None:
            by_q, by_number = (x.reshape(*shape, *x.shape[1:]) for x in rates)
            J = by_q @ J
            J[..., self.nx : -1] += by_number
        J = J * np.stack([self.weights[k][0] for k in group])[:, None, :, None]
        of_v = [weight for k in group if (weight := self.weights[k][1]) is not None]
        if of_v:
            J = np.concatenate([J, S[:, :, nv:] * np.stack(of_v)[:, None, :, None]], axis=2)
        J[..., -1] += np.stack([path.residuals[samples] for path in paths])
        return _gram(J.reshape(len(group), -1, J.shape[3]))

    def moved(
        self, point: Point, linear: Sequence[Linear], x: np.ndarray, change: Sequence[np.ndarray]
    ) -> Point:
        """Return the point after steps (initial state, numbers) of each recording,
        with new coordinates x of parameters.
        """
        values = self.parameters.arrays(x)
        q = []
        v = []
        for k, (one, step) in enumerate(zip(linear, change)):
            move = one.nodes @ np.append(step, 1.0)
            moved_q, moved_v = self.steps.moved(point.q[k], point.v[k], move, values)
            q.append(moved_q)
            v.append(moved_v)
        return Point(x, q, v)


def _gram(J: np.ndarray) -> np.ndarray:
    """Return Jᵀ J of each matrix, (many, rows, width), in blocks that are small enough for BLAS to use one
    thread.

    Threads of BLAS cost more than they gain here.
    """
    many, rows, width = J.shape
    size = max(1, BLOCK // (width * width))
    full = rows // size * size
    blocks = J[:, :full].reshape(many, -1, size, width)
    gram: np.ndarray = (blocks.swapaxes(2, 3) @ blocks).sum(axis=1)
    remainder = J[:, full:]
    return gram + remainder.swapaxes(1, 2) @ remainder if remainder.shape[1] else gram


def _velocities(model: Any, one: Signals) -> np.ndarray:
    """Return velocities from differences of positions."""
    moved = difference(model, one.q[:-1], one.q[1:]) / np.diff(one.t)[:, None]
    velocities: np.ndarray = np.concatenate([moved[:1], 0.5 * (moved[1:] + moved[:-1]), moved[-1:]])
    return velocities
