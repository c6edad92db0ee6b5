"""Rollouts as C: the steps of `rollout` as one function, with the bits that it has on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.functions.export import EXPORTED, Exported
from linkwork.ir.functions import where
from linkwork.ir.program import Program
from linkwork.ir.trace import trace
from linkwork.model import Model
from linkwork.model.parameters import known, read
from linkwork.simulate.control import Control, Policy, given_forces, pd_control, traced_policy
from linkwork.simulate.rollout import rollout
from linkwork.simulate.traced import STEPS, rollout_body

SAMPLES = 8  # recorded calls


def exported_rollout(
    model: Model,
    *,
    control: str = "tau",
    policy: Policy | None = None,
    inputs: Mapping[str, Any] | None = None,
    integrator: str = "semi_implicit_euler",
    parameters: tuple[str, ...] = (),
    looped: bool = True,
) -> Exported:
    """The program of many steps, or of one if not `looped`, with names and states for its recorded calls.

    `control` is "tau", forces that stay the same in a call, or "pd". A `policy` takes its place, with `inputs`, the shapes of
    its arrays by name.
    """
    if not isinstance(model, Model):
        raise ModelError(f"rollout takes a model, not {type(model).__name__}")
    if integrator not in STEPS:
        raise ModelError(f"rollout: integrator must be one of {', '.join(STEPS)}, not {integrator!r}")
    chosen = _control(model, control, policy, inputs)
    names = tuple(known(model, parameters))
    program = _program(model, chosen, integrator, names, looped)
    words = {"q": "nq", "q_end": "nq", "pd_q": "nq"}
    axes = {a.name: words.get(a.name, "nv") for a in program.inputs + program.outputs}
    named = {"nq": model.q_names, "nv": model.v_names}
    ours = {"q", "v", "q_end", "v_end", "tau", "pd_q", "pd_kp", "pd_kd", "pd_v", "pd_tau"}
    notes: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
        name: (name, (named[word],)) for name, word in axes.items() if name in ours
    }
    about = {"dt": "dt [s]", "steps": "steps to take", "over": "steps over, which says the time", "steps_end": "steps taken"}
    notes |= {name: (text, ()) for name, text in about.items() if name in axes}
    return Exported(program, notes, _samples(model, program, names))


def _control(model: Model, control: str, policy: Policy | None, inputs: Mapping[str, Any] | None) -> Control:
    if policy is not None:
        shapes = {name: (shape,) if isinstance(shape, int) else tuple(shape) for name, shape in (inputs or {}).items()}
        return traced_policy(model, policy, shapes)
    if inputs is not None:
        raise ModelError("rollout: inputs= are for policy=, which is not given")
    if control not in ("tau", "pd"):
        raise ModelError(f"rollout: control must be 'tau' or 'pd', not {control!r}; other functions of the state are policy=")
    return given_forces(model) if control == "tau" else pd_control(model)


def _program(model: Model, control: Control, integrator: str, parameters: tuple[str, ...], looped: bool) -> Program:
    """From q, v, dt, steps (where there are many), over and what controls them to q_end, v_end and steps_end."""
    shapes, body = rollout_body(model, control, integrator, parameters, looped=looped)
    scalars: dict[str, Any] = {"dt": (), **({"steps": ()} if looped else {}), "over": ()}
    rest = {name: shape for name, shape in shapes.items() if name not in ("q", "v", "done", "how")}

    def traced(*arrays: Any) -> dict[str, Any]:
        given = dict(zip({"q": 0, "v": 0, **scalars, **rest}, arrays))
        dt, steps = given["dt"], given.get("steps", 1.0)
        zero = where(abs(dt) < np.inf, 0.0, np.nan)  # a program would leave out a sum of constants
        how = np.array([dt, steps, zero, given["over"]], dtype=object)
        found = body(given["q"], given["v"], 0.0, how, *(given[name] for name in rest))
        ends = {"q_end": found["q_end"], "v_end": found["v_end"], "steps_end": found["done_end"]}
        if looped:  # a loop takes one step at least
            before = {"q_end": given["q"], "v_end": given["v"], "steps_end": np.array(0.0)}
            ends = {name: where(steps < 1.0, before[name], x) for name, x in ends.items()}
        return ends

    name = "rollout" if looped else "rollout_step"
    return trace(traced, {"q": shapes["q"], "v": shapes["v"], **scalars, **rest}, name=name)


def _samples(model: Model, program: Program, parameters: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Inputs of recorded calls: states of the model, short steps and few of them; others are drawn."""
    rng = np.random.default_rng(0)
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(SAMPLES))))
    steps = np.arange(SAMPLES) % 4
    found = {"q": q, "v": v, "pd_q": q[::-1], "dt": np.full(SAMPLES, 2.0**-9), "steps": steps, "over": 10.0 * steps}
    numbers = read(model)
    words = [a.name for a in program.inputs][-len(parameters) :] if parameters else []  # parameters stand behind the others
    found |= {word: np.array([numbers[name]] * SAMPLES) for name, word in zip(parameters, words) if name in numbers}
    wanted = {a.name for a in program.inputs}
    return {name: np.asarray(x, dtype=float) for name, x in found.items() if name in wanted}


EXPORTED[rollout] = exported_rollout
