"""Controls inside of a rollout kernel: given forces, PD control, or a traced policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.errors import LinkworkError, ShapeError, TraceError
from linkwork.functions.states import difference
from linkwork.model import Model
from linkwork.model.parameters import input_names, shape_of

Policy = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class PD:
    """PD control: kp (q_target ⊖ q) + kd (v_target - v) + tau, with the difference on the manifold.

    Parameters
    ----------
    kp : float or array_like, shape (..., nv)
        Stiffness [N m/rad, N/m]; a number is that of all joints.
    kd : float or array_like, shape (..., nv)
        Damping [N m s/rad, N s/m].
    q : array_like, shape (..., nq)
        Target configuration; the difference is that of `lw.difference`.
    v : float or array_like, shape (..., nv), optional
        Target velocity [rad/s, m/s]. Default zero.
    tau : float or array_like, shape (..., nv), optional
        Feedforward joint forces [N m, N]. Default zero.
    """

    kp: Any
    kd: Any
    q: Any
    v: Any = 0.0
    tau: Any = 0.0

    def arrays(self, model: Model) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """Return the arrays by name, with the shape of one row."""
        result = {}
        for name in ("kp", "kd", "v", "tau"):
            value = getattr(self, name)
            wide = np.full(model.nv, value) if np.isscalar(value) or getattr(value, "ndim", 1) == 0 else value
            result[f"pd_{name}"] = (wide, (model.nv,))
        return {"pd_q": (self.q, (model.nq,)), **result}

    def control(self, model: Model) -> Control:
        """Return the control inside of a kernel."""
        return pd_control(model)


@dataclass(frozen=True)
class Control:
    """Traced forces as a function of the state: the inputs of the program and the function of them."""

    key: Any  # by which programs are remembered
    inputs: Mapping[str, tuple[int, ...]]
    force: Callable[[Model, Any, Any, Any, Mapping[str, Any]], Any]

    def program(self, model: Model, parameters: Sequence[str] = ()) -> Program:
        """Return the program from q, v, t, the inputs and parameters of the model to forces."""
        shapes: dict[str, tuple[int, ...]] = {"q": (model.nq,), "v": (model.nv,), "t": (), **self.inputs}
        words = input_names(parameters, taken=[*shapes])
        shapes |= {word: shape_of(model, name) for name, word in zip(parameters, words)}

        def body(*arrays: Any) -> Any:
            inputs = dict(zip(shapes, arrays))
            values = {name: inputs[word] for name, word in zip(parameters, words)}
            traced_model = model.traced_with(values) if values else model
            return self.force(traced_model, inputs["q"], inputs["v"], inputs["t"], inputs)

        return trace(body, shapes, name="forces")


def force_control(model: Model) -> Control:
    """Return the control whose forces are an input."""
    return Control("tau", {"tau": (model.nv,)}, lambda _, q, v, t, inputs: inputs["tau"])


def pd_control(model: Model) -> Control:
    """Return the control of `PD`."""

    def force(model: Model, q: Any, v: Any, t: Any, inputs: Mapping[str, Any]) -> Any:
        error = difference(model, q, inputs["pd_q"])
        return inputs["pd_kp"] * error + inputs["pd_kd"] * (inputs["pd_v"] - v) + inputs["pd_tau"]

    nv = (model.nv,)
    return Control("pd", {"pd_q": (model.nq,), "pd_kp": nv, "pd_kd": nv, "pd_v": nv, "pd_tau": nv}, force)


def policy_control(model: Model, policy: Policy, inputs: Mapping[str, tuple[int, ...]]) -> Control:
    """Return the control of a user's function, which is called once, on symbols.

    It is traced again in each rollout if it cannot be hashed.
    """

    def force(model: Model, q: Any, v: Any, t: Any, values: Mapping[str, Any]) -> Any:
        try:
            tau = np.asarray(
                policy(q, v, t, {name: values[f"input_{name}"] for name in inputs}), dtype=object
            )
        except LinkworkError:
            raise
        except Exception as error:
            reraise_signal(error)
            raise TraceError(
                f"rollout: policy cannot be traced ({type(error).__name__}: {error}): it gets symbols, and "
                "must work on them with arithmetic and linkwork's functions; decisions are "
                "lw.where(condition, a, b)"
            ) from error
        if tau.shape != (model.nv,):
            raise ShapeError(
                f"rollout: policy: expected returned forces of shape ({model.nv},), got {tau.shape}"
            )
        for x in tau:
            if not isinstance(x, (Symbol, Real)) or isinstance(x, (bool, np.bool_)):
                raise TraceError(
                    f"rollout: policy: expected returned forces that are real numbers, got {type(x).__name__}"
                )
        return tau

    control = Control(("policy", policy), {f"input_{name}": shape for name, shape in inputs.items()}, force)
    try:
        hash(policy)
    except (
        TypeError
    ):  # an object that may change, such as a dataclass: what it computes now is what it is known by
        control = replace(control, key=("policy", control.program(model).digest))
    return control
