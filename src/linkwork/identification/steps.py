"""The steps and outputs of a fit as compiled functions, and their Jacobians by states and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.loops.closing import close_loops as close_all
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
    q = close_all(model, q, differentiable=True).q
    result: tuple[Any, ...] = step(
        model, q, v, tau, dt, f_ext, limits=limits, friction=friction, differentiable=differentiable
    )
    return result


@model_function(q="nq", measured="nq", open_states=True)
def position_error(model: Model, q: Any, measured: Any, *, close: bool = False) -> Any:
    """Return the motion of each joint of the tree from a measured configuration to q, (..., nv_spanning)."""
    if close:
        q = close_all(model, q, differentiable=True).q
    moved = [joint.kind.difference(measured[joint.q_slice], q[joint.q_slice]) for joint in model.joints]
    return np.concatenate([np.zeros(0), *moved])


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
        if not self.direct:
            step_options: dict[str, Any] = {"parameters": names} if self.closing else {}
            self._error = position_error.kernel(model, close=self.closing, **step_options)
            by = ("q", *(names if self.closing else ()))
            self._error_jacobian = jacobian(position_error, model, wrt=by, close=self.closing)

    def states_jacobian(self, arrays: Sequence[Any], values: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """Return the Jacobians of steps by states, (rows, nx, nx), numbers, (rows, nx, numbers),
        and forces.
        """
        jacobians = self._jacobian.kernel()(*arrays, *values)
        rows = len(arrays[0])
        nv = self.model.nv
        half = len(jacobians) // 2
        by_state = np.empty((rows, 2 * nv, 2 * nv))
        by_force = np.zeros((rows, 2 * nv, nv))
        by_number = np.zeros((rows, 2 * nv, self.parameters.numbers))
        for part, blocks in enumerate((jacobians[:half], jacobians[half:])):
            columns = slice(part * nv, part * nv + nv)
            by_state[:, columns, :nv] = blocks[0]
            by_state[:, columns, nv:] = blocks[1]
            if self._by_force:
                by_force[:, columns] = blocks[2]
            first = 0
            for block in blocks[2 + self._by_force :]:
                flat = block.reshape(rows, nv, -1)
                by_number[:, columns, first : first + flat.shape[2]] = flat
                first += flat.shape[2]
        return by_state, by_number, by_force

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

    def moved(self, q: np.ndarray, change: np.ndarray, values: dict[str, np.ndarray]) -> np.ndarray:
        """Return configurations after a change of independent coordinates, closed with these parameters."""
        options = {"parameters": values} if self.closing else {}
        if self.model.embedded:
            q = close_loops(self.model, q, **options)[0]
        result: np.ndarray = integrate(self.model, q, change, **options)
        return result
