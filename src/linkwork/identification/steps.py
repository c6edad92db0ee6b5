"""The steps and outputs of a fit as compiled functions, and their Jacobians by states and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.closing_constrained import corrected
from linkwork.algorithms.loops.closing import close_loops as close_embedded
from linkwork.functions.constrained import impact, projected
from linkwork.functions.contact import step
from linkwork.functions.differentiation import jacobian
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.engine.tangent import is_plain
from linkwork.functions.states import close_loops, integrate
from linkwork.identification.parameters import Parameters
from linkwork.model import Model
from linkwork.model.parameters import parse

GEOMETRY = ("placement", "ratio", "loop_placement")


@model_function(q="nq", v="nv", tau="nv", dt="", f_ext="bodies 6", configurations=("out0",), open_states=True)
def closed_step(
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    dt: Any,
    f_ext: Any = None,
    *,
    limits: bool = True,
    friction: bool = True,
    differentiable: bool = False,
) -> tuple[Any, ...]:
    """Close the loops of q at fixed independent coordinates, then take a step as `lw.step` does.

    Its derivatives by placements and ratios contain the motion of dependent joints that keeps loops closed.
    """
    q = close_embedded(model, q, differentiable=True).q
    result: tuple[Any, ...] = step(
        model, q, v, tau, dt, f_ext, limits=limits, friction=friction, differentiable=differentiable
    )
    return result


@model_function(q="nq", measured="nq", open_states=True)
def position_error(model: Model, q: Any, measured: Any, *, close: bool = False) -> Any:
    """Return the motion of each joint of the tree from a measured configuration to q, (..., nv_spanning)."""
    if close:
        q = close_embedded(model, q, differentiable=True).q
    moved = [joint.kind.difference(measured[joint.q_slice], q[joint.q_slice]) for joint in model.joints]
    return np.concatenate([np.zeros(0), *moved])


@model_function(q="nq", v="nv", configurations=("out0",), open_states=True)
def projected_state(model: Model, q: Any, v: Any) -> tuple[Any, Any]:
    """Return a state whose constrained loops are closed, as it is.

    Its derivatives are those of the projection of q and v onto closed states, by q, v and parameters.
    """
    q = corrected(model, close_embedded(model, q, differentiable=True).q)
    return q, projected(model, q, v)


class Steps:
    """Kernels of one model and choice of parameters: steps, errors of positions, and Jacobians of both."""

    def __init__(
        self, model: Model, parameters: Parameters, *, limits: bool, friction: bool, forces: bool
    ) -> None:
        self.model = model
        self.parameters = parameters
        names = parameters.names
        self.closing = bool(model.embedded) and any(parse(name)[0] in GEOMETRY for name in names)
        self.direct = is_plain(model)  # positions are coordinates, and nothing else depends on parameters
        optional = ("f_ext",) if forces else ()
        options: dict[str, Any] = {"limits": limits, "friction": friction}
        function = closed_step if self.closing else step
        self.step = function.kernel(model, parameters=names, optional=optional, **options)
        self._by_force = bool(parameters.delays)
        wrt = ("q", "v", *(("tau",) if self._by_force else ()), *names)
        self._jacobian = jacobian(function, model, wrt=wrt, optional=optional, **options)
        self.constrained = bool(model.constrained_loops)
        if self.constrained:
            self._projection = jacobian(projected_state, model, wrt=("q", "v", *names))
        if not self.direct:
            step_options: dict[str, Any] = {"parameters": names} if self.closing else {}
            self._error = position_error.kernel(model, close=self.closing, **step_options)
            by = ("q", *(names if self.closing else ()))
            self._error_jacobian = jacobian(position_error, model, wrt=by, close=self.closing)

    def states_jacobian(self, arrays: Sequence[Any], values: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """Return the Jacobians of steps by states, (rows, nx, nx), numbers, (rows, nx, numbers),
        and forces.
        """
        return self._by_blocks(self._jacobian.kernel()(*arrays, *values), len(arrays[0]), self._by_force)

    def _by_blocks(
        self, jacobians: Sequence[np.ndarray], rows: int, with_force: bool
    ) -> tuple[np.ndarray, ...]:
        """Return Jacobians of q and v by states, numbers and forces, one array of each."""
        nv = self.model.nv
        half = len(jacobians) // 2
        by_state = np.empty((rows, 2 * nv, 2 * nv))
        by_force = np.zeros((rows, 2 * nv, nv))
        by_number = np.zeros((rows, 2 * nv, self.parameters.numbers))
        for part, blocks in enumerate((jacobians[:half], jacobians[half:])):
            columns = slice(part * nv, part * nv + nv)
            by_state[:, columns, :nv] = blocks[0]
            by_state[:, columns, nv:] = blocks[1]
            if with_force:
                by_force[:, columns] = blocks[2]
            first = 0
            for block in blocks[2 + with_force :]:
                flat = block.reshape(rows, nv, -1)
                by_number[:, columns, first : first + flat.shape[2]] = flat
                first += flat.shape[2]
        return by_state, by_number, by_force

    def directions(
        self, q: np.ndarray, v: np.ndarray, values: Sequence[Any], size: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the directions in which states can change, (rows, 2 nv, size), and how states change with
        the numbers, (rows, 2 nv, numbers).

        With constrained loops these are a basis of the tangent space of closed states, and the motion that
        keeps loops closed; otherwise all directions, and zero. Default of `size`: the dimension of this space
        at the state where it is least.
        """
        rows = len(q)
        nv = self.model.nv
        if not self.constrained:
            unit = np.broadcast_to(np.eye(2 * nv), (rows, 2 * nv, 2 * nv))
            return unit, np.zeros((rows, 2 * nv, self.parameters.numbers))
        jacobians = self._projection.kernel()(q, v, *values)
        by_state, by_number, _ = self._by_blocks(jacobians, rows, False)
        projections = by_state[:, :nv, :nv]
        if size is None:
            size = 2 * int(np.rint(np.trace(projections, axis1=1, axis2=2)).min())
        half = size // 2
        basis = np.linalg.svd(projections)[0][:, :, :half]  # of the range of these projections
        directions = np.zeros((rows, 2 * nv, size))
        directions[:, :nv, :half] = basis
        directions[:, nv:, :half] = by_state[:, nv:, :nv] @ basis
        directions[:, nv:, half:] = basis
        return directions, by_number

    def errors(self, q: np.ndarray, measured: np.ndarray, values: Sequence[Any]) -> np.ndarray:
        """Return the errors of positions, (rows, nv_spanning)."""
        if self.direct:
            return q - measured
        errors: np.ndarray = self._error(q, measured, *(values if self.closing else ()))
        return errors

    def errors_jacobian(
        self, q: np.ndarray, measured: np.ndarray, values: Sequence[Any]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the Jacobians of errors by q on the tangent space and by numbers.

        None where q are velocities' integrals.
        """
        if self.direct:
            return None
        jacobians = self._error_jacobian.kernel()(q, measured, *(values if self.closing else ()))
        by_q, *others = jacobians if isinstance(jacobians, tuple | list) else (jacobians,)
        by_number = np.zeros((len(q), self.model.nv_spanning, self.parameters.numbers))
        first = 0
        for block in others:
            flat = block.reshape(len(q), self.model.nv_spanning, -1)
            by_number[:, :, first : first + flat.shape[2]] = flat
            first += flat.shape[2]
        return by_q, by_number

    def moved(
        self, q: np.ndarray, v: np.ndarray, change: np.ndarray, values: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return states after a change, (rows, nx), of which loops are closed with these parameters."""
        nv = self.model.nv
        options = {"parameters": values} if self.closing or self.constrained else {}
        if self.model.embedded or self.constrained:
            q = close_loops(self.model, q, **options)[0]
        q = integrate(self.model, q, change[:, :nv], **options)
        v = v + change[:, nv:]
        return (q, impact(self.model, q, v, constraints=(), **options)[0]) if self.constrained else (q, v)
