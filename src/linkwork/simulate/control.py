"""What drives a rollout that is one kernel: given forces, PD control, or a function of the user that is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from linkwork.errors import LinkworkError, ShapeError, TraceError
from linkwork.functions.states import difference
from linkwork.ir.program import Program
from linkwork.ir.symbol import Symbol
from linkwork.ir.trace import trace
from linkwork.model import Model

Policy = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class PD:
    """tau = kp (q_target ⊖ q) + kd (v_target - v) + tau, each of shape (..., nv), and q_target (..., nq).

    The difference is that of `lw.difference`, on the manifold. Gains and forces may be numbers for all joints.
    """

    kp: Any
    kd: Any
    q: Any
    v: Any = 0.0
    tau: Any = 0.0

    def arrays(self, model: Model) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """The arrays by name, with the shape of one state's."""
        found = {}
        for name in ("kp", "kd", "v", "tau"):
            value = getattr(self, name)
            wide = np.full(model.nv, value) if np.isscalar(value) or getattr(value, "ndim", 1) == 0 else value
            found[f"pd_{name}"] = (wide, (model.nv,))
        return {"pd_q": (self.q, (model.nq,)), **found}


@dataclass(frozen=True)
class Control:
    """How forces follow from a state, in a trace: which inputs the program has for it, and what it does with them."""

    key: Any  # by which programs are remembered
    inputs: Mapping[str, tuple[int, ...]]
    force: Callable[[Model, Any, Any, Any, Mapping[str, Any]], Any]

    def program(self, model: Model) -> Program:
        """From q, v, t and its inputs to forces."""
        shapes: dict[str, tuple[int, ...]] = {"q": (model.nq,), "v": (model.nv,), "t": (), **self.inputs}

        def body(*arrays: Any) -> Any:
            given = dict(zip(shapes, arrays))
            return self.force(model, given["q"], given["v"], given["t"], given)

        return trace(body, shapes, name="forces")


def given_forces(model: Model) -> Control:
    """Forces that are an input."""
    return Control("tau", {"tau": (model.nv,)}, lambda _, q, v, t, given: given["tau"])


def pd_control(model: Model) -> Control:
    """Forces of `PD`."""

    def force(model: Model, q: Any, v: Any, t: Any, given: Mapping[str, Any]) -> Any:
        error = difference(model, q, given["pd_q"])
        return given["pd_kp"] * error + given["pd_kd"] * (given["pd_v"] - v) + given["pd_tau"]

    nv = (model.nv,)
    return Control("pd", {"pd_q": (model.nq,), "pd_kp": nv, "pd_kd": nv, "pd_v": nv, "pd_tau": nv}, force)


def traced_policy(model: Model, policy: Policy, inputs: Mapping[str, tuple[int, ...]]) -> Control:
    """Forces of a function of the user, which is called once, on symbols; again in each rollout if it cannot be hashed."""

    def force(model: Model, q: Any, v: Any, t: Any, given: Mapping[str, Any]) -> Any:
        try:
            tau = np.asarray(policy(q, v, t, {name: given[f"input_{name}"] for name in inputs}), dtype=object)
        except LinkworkError:
            raise
        except Exception as error:
            raise TraceError(
                f"rollout: policy cannot be traced ({type(error).__name__}: {error}): it gets symbols, and must work on them "
                "with arithmetic and linkwork's functions; decisions are lw.where(condition, a, b)"
            ) from error
        if tau.shape != (model.nv,):
            raise ShapeError(f"rollout: policy must return forces of shape ({model.nv},), not {tau.shape}")
        for x in tau:
            if not isinstance(x, (Symbol, Real)) or isinstance(x, (bool, np.bool_)):
                raise TraceError(f"rollout: policy must return forces, which are real numbers, not {type(x).__name__}")
        return tau

    control = Control(("policy", policy), {f"input_{name}": shape for name, shape in inputs.items()}, force)
    try:
        hash(policy)
    except TypeError:  # an object that may change, such as a dataclass: what it computes now is what it is known by
        control = replace(control, key=("policy", control.program(model).digest))
    return control
