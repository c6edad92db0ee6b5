"""Rollouts as C: the steps of `rollout` as one function, with the same bits as on the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.contact import rows as contact_rows
from linkwork.compiler.ir.functions import where
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.contact import Contacts
from linkwork.errors import ModelError
from linkwork.functions.contact import COEFFICIENTS
from linkwork.functions.export import Exported
from linkwork.functions.joint_limits import check_switches, joint_laws, switched
from linkwork.model import Model
from linkwork.model.parameters import known, read
from linkwork.simulation.control import Control, Policy, force_control, pd_control, policy_control
from linkwork.simulation.joint_laws import check_integrator
from linkwork.simulation.rollout_arguments import contacts_in_rollout
from linkwork.simulation.traced import (
    CARRIED,
    MAX_STEPS,
    STEPS,
    Laws,
    impulse_count,
    rollout_body,
)

SAMPLES = 8  # recorded calls
REPORT_NAMES = ("residual", "iterations", "unsolved")  # names of the numbers of `CARRIED`


def exported_rollout(
    model: Model,
    *,
    control: str = "tau",
    policy: Policy | None = None,
    inputs: Mapping[str, Any] | None = None,
    integrator: str = "semi_implicit_euler",
    parameters: tuple[str, ...] = (),
    contacts: Contacts | None = None,
    limits: bool = True,
    friction: bool = True,
    looped: bool = True,
) -> Exported:
    """Return the program of many steps, or of one if not `looped`, with names and states for its recorded
    calls.

    `control` is "tau", forces that stay the same in a call, or "pd". A `policy` takes its place, with
    `inputs`, the shapes of its arrays by name. With `contacts`, impulses to begin with are an input, and
    those of the last step a result.
    """
    if not isinstance(model, Model):
        raise ModelError(f"rollout: expected a model, got {type(model).__name__}")
    if integrator not in STEPS:
        raise ModelError(f"rollout: integrator: expected one of {', '.join(STEPS)}, got {integrator!r}")
    selected = _control(model, control, policy, inputs)
    if not isinstance(parameters, (str, tuple, list)):
        raise ModelError(
            f"rollout: parameters= in C: expected names such as ('mass',), got {type(parameters).__name__}"
        )
    parameter_names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    coefficients = tuple(name for name in COEFFICIENTS if name in parameter_names)
    check_switches("rollout", limits, friction)
    if contacts is not None:
        contacts = switched(contacts_in_rollout(model, contacts, selected, integrator), limits, friction)
    laws: Laws | None = joint_laws(model, limits, friction) if contacts is None else contacts
    check_integrator("rollout", model, laws, integrator)
    if contacts is None and coefficients:
        raise ModelError(f"rollout: the parameter {coefficients[0]} requires contacts=")
    names = tuple(known(model, [name for name in parameter_names if name not in coefficients]))
    program = _program(model, selected, integrator, (*coefficients, *names), looped, laws)
    words = {"q": "nq", "q_end": "nq", "pd_q": "nq"}
    axes = {a.name: words.get(a.name, "nv") for a in program.inputs + program.outputs}
    named = {"nq": model.q_names, "nv": model.v_names}
    ours = {"q", "v", "q_end", "v_end", "tau", "pd_q", "pd_kp", "pd_kd", "pd_v", "pd_tau"}
    notes: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
        name: (name, (named[word],)) for name, word in axes.items() if name in ours
    }
    about = {
        "dt": "dt [s]",
        "steps": "steps to take",
        "over": "steps over; times dt, the time",
        "steps_end": "steps taken",
    }
    about |= {"residual": "largest violation of any law [m/s or rad/s]", "iterations": "most in a step"}
    about |= {"unsolved": "steps whose contact problem was not solved"}
    notes |= {name: (text, ()) for name, text in about.items() if name in axes}
    samples = _samples(model, program, names)
    if contacts is not None:
        rows = contact_rows.names(model, contacts)
        notes |= {
            name: ("impulse [N s or N m s]", (rows,)) for name in ("impulses", "impulses_end") if name in axes
        }
        count = len(contacts.candidates(model))
        samples |= {name: np.full((SAMPLES, count), 0.5) for name in coefficients}
        samples |= {"impulses": np.zeros((SAMPLES, len(rows)))} if rows else {}
    return Exported(program, notes, samples)


def _control(model: Model, control: str, policy: Policy | None, inputs: Mapping[str, Any] | None) -> Control:
    if policy is not None:
        if control != "tau" or not callable(policy):
            raise ModelError("rollout: expected either control= or policy=, a function (q, v, t, inputs)")
        if not isinstance(inputs or {}, Mapping):
            raise ModelError(
                f"rollout: inputs= in C: expected a dict of shapes by name, got {type(inputs).__name__}"
            )
        shapes = {name: tuple(x) if isinstance(x, Iterable) else (x,) for name, x in (inputs or {}).items()}
        return policy_control(model, policy, shapes)
    if inputs is not None:
        raise ModelError("rollout: inputs= requires policy=")
    if control not in ("tau", "pd"):
        raise ModelError(
            f"rollout: control: expected 'tau' or 'pd', got {control!r}; other functions of the state are "
            "policy="
        )
    return force_control(model) if control == "tau" else pd_control(model)


def _program(
    model: Model,
    control: Control,
    integrator: str,
    parameters: tuple[str, ...],
    looped: bool,
    contacts: Laws | None,
) -> Program:
    """Return a program from q, v, dt, steps (if several), and control inputs to q_end, v_end and steps_end.

    With contact, `impulses` stand behind over, and those of the last step and the numbers of `CARRIED` behind
    steps_end.
    """
    shapes, body = rollout_body(
        model, control, integrator, parameters, contacts=contacts, most=MAX_STEPS if looped else 1
    )
    rows = impulse_count(model, contacts)
    scalars: dict[str, Any] = {
        "dt": (),
        **({"steps": ()} if looped else {}),
        "over": (),
        **({"impulses": (rows,)} if rows else {}),
    }
    remaining = {
        name: shape for name, shape in shapes.items() if name not in ("q", "v", "done", "carried", "how")
    }

    def traced(*arrays: Any) -> dict[str, Any]:
        values = dict(zip({"q": 0, "v": 0, **scalars, **remaining}, arrays))
        dt = values["dt"]
        steps = values.get("steps", 1.0)
        zero = where(abs(dt) < np.inf, 0.0, np.nan)  # a program would leave out a sum of constants
        how = np.array([dt, steps, zero, values["over"]], dtype=object)
        first = np.array([*values.get("impulses", ()), *(0.0 for _ in CARRIED)], dtype=object)
        carried = () if contacts is None else (first,)
        result = body(values["q"], values["v"], 0.0, *carried, how, *(values[name] for name in remaining))
        ends = {"q_end": result["q_end"], "v_end": result["v_end"], "steps_end": result["done_end"]}
        before = {"q_end": values["q"], "v_end": values["v"], "steps_end": np.array(0.0)}
        if contacts is not None:
            for outputs, x in ((ends, result["carried_end"]), (before, first)):
                outputs |= {"impulses_end": x[:rows]} if rows else {}
                outputs |= {
                    name: np.asarray(y, dtype=object) for name, y in zip(REPORT_NAMES, x[rows:], strict=True)
                }
        if looped:  # a loop takes one step at least
            ends = {name: where(steps < 1.0, before[name], x) for name, x in ends.items()}
        return ends

    name = "rollout" if looped else "rollout_step"
    return trace(traced, {"q": shapes["q"], "v": shapes["v"], **scalars, **remaining}, name=name)


def _samples(model: Model, program: Program, parameters: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return inputs of recorded calls: states of the model, short steps and few of them; others are drawn."""
    rng = np.random.default_rng(0)
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(SAMPLES))))
    steps = np.arange(SAMPLES) % 4
    result = {
        "q": q,
        "v": v,
        "pd_q": q[::-1],
        "dt": np.full(SAMPLES, 2.0**-9),
        "steps": steps,
        "over": 10.0 * steps,
    }
    numbers = read(model)
    words = (
        [a.name for a in program.inputs][-len(parameters) :] if parameters else []
    )  # parameters stand behind the others
    result |= {
        word: np.array([numbers[name]] * SAMPLES) for name, word in zip(parameters, words) if name in numbers
    }
    expected = {a.name for a in program.inputs}
    return {name: np.asarray(x, dtype=float) for name, x in result.items() if name in expected}
