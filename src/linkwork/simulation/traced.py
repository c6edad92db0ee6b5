"""Rollouts as one kernel: a loop over steps with the state in registers.

Each row stops on its own, where a step leaves the finite numbers. The loop's body is one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.algorithms.contact import rows as contact_rows
from linkwork.compiler.ir.functions import absolute, fma, loop, maximum, where
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.hoist import move_up
from linkwork.contact import Contacts, JointLaws
from linkwork.errors import ModelError
from linkwork.functions.constrained import projected
from linkwork.functions.contact import COEFFICIENTS, check_coefficients, check_joint_friction
from linkwork.functions.contact import step as contact_step
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.engine.parameter_names import shape_of
from linkwork.functions.states import integrate
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.model.parameters import input_names
from linkwork.simulation import joint_laws, kernels
from linkwork.simulation.adaptive import Adaptive, adaptive_step
from linkwork.simulation.charts import Charts
from linkwork.simulation.control import Control
from linkwork.simulation.midpoint import midpoint
from linkwork.simulation.monitor import (
    coordinate_scales,
    families,
    motion,
    nearly_singular,
    probes,
    turned,
)
from linkwork.simulation.turning_point import near_turning_point
from linkwork.sko import Tree

STEP_ARGS = 4  # dt, the number of steps, zero, and how many steps are over
ZERO = 2  # its place; where it is NaN, a row takes no step
MAX_STEPS = 2**31  # steps of one call
Step = Callable[[Model, Any, Any, Any, Callable[[Any, Any, Any], Any]], tuple[Any, Any, Any]]
Integrator = str | Adaptive


def _semi_implicit_euler(
    model: Model, q: Any, v: Any, dt: Any, force: Callable[[Any, Any, float], Any]
) -> tuple[Any, Any, Any]:
    a = forward_dynamics(model, q, v, force(q, v, 0.0))
    v = v + dt * a
    q = integrate(model, q, dt * v)
    return q, projected(model, q, v), a


def _rk4(
    model: Model, q: Any, v: Any, dt: Any, force: Callable[[Any, Any, float], Any]
) -> tuple[Any, Any, Any]:
    def rates(q: Any, v: Any, part: float) -> tuple[Any, Any]:
        return kernels.rates(model, q, v), forward_dynamics(model, q, v, force(q, v, part))

    half = 0.5 * dt
    sixth = dt / 6.0
    k1, l1 = rates(q, v, 0.0)
    k2, l2 = rates(q + half * k1, v + half * l1, 0.5)
    k3, l3 = rates(q + half * k2, v + half * l2, 0.5)
    k4, l4 = rates(q + dt * k3, v + dt * l3, 1.0)
    q = q + sixth * (k1 + 2.0 * (k2 + k3) + k4)
    v = v + sixth * (l1 + 2.0 * (l2 + l3) + l4)
    q = integrate(model, q, np.zeros(model.nv))
    return q, projected(model, q, v), l4


def _implicit_midpoint(
    model: Model, q: Any, v: Any, dt: Any, force: Callable[[Any, Any, Any], Any]
) -> tuple[Any, Any, Any]:
    result = midpoint(model, q, v, dt, force)
    return result.q, result.v, result.v


STEPS: dict[str, Step] = {
    "semi_implicit_euler": _semi_implicit_euler,
    "rk4": _rk4,
    "implicit_midpoint": _implicit_midpoint,
}


def step_of(integrator: Integrator) -> Step:
    """Return one step by an integrator, given by name or, for adaptive steps, by their tolerances: q, v, and
    what they follow from.
    """
    if not isinstance(integrator, Adaptive):
        return STEPS[integrator]

    def step(
        model: Model, q: Any, v: Any, dt: Any, force: Callable[[Any, Any, Any], Any]
    ) -> tuple[Any, Any, Any]:
        nq = model.nq

        def rates(y: Any, part: Any) -> Any:
            q = y[:nq]
            v = y[nq:]
            return np.concatenate(
                [kernels.rates(model, q, v), forward_dynamics(model, q, v, force(q, v, part))]
            )

        def settle(y: Any) -> Any:
            return np.concatenate([integrate(model, y[:nq], np.zeros(model.nv)), y[nq:]])

        end = adaptive_step(rates, settle, np.concatenate([q, v]), dt, integrator)
        return end[:nq], end[nq:], end

    return step


CARRIED = (
    "residual",
    "iterations",
    "failed",
)  # the largest of both, and the number of steps that did not converge


Laws = Contacts | JointLaws  # those of contact and joints, or of joints only


def impulse_count(model: Model, laws: Laws | None) -> int:
    """Return the number of impulses that a rollout carries from step to step; 0 without contacts."""
    return contact_rows.count(model, laws) if isinstance(laws, Contacts) else 0


def carried_size(model: Model, contacts: Laws) -> int:
    """Return how many numbers a rollout with contact or joint laws carries besides q and v."""
    return impulse_count(model, contacts) + len(CARRIED)


def rollout_program(
    model: Model,
    control: Control,
    integrator: Integrator = "semi_implicit_euler",
    parameters: tuple[str, ...] = (),
    *,
    contacts: Laws | None = None,
    early: bool = False,
) -> Program:
    """Return the program of a rollout: from q, v, done, how = (dt, count, 0, over) and what controls it to q,
    v and done.

    With contact, or laws in joints, `carried` stands behind done, on both sides: impulses and what `CARRIED`
    names.

    At least one step is taken, at times from `over` · dt on. `done` counts those that a
    row took. Where one would leave the finite numbers, or cannot be taken in the model's own coordinates
    (`own_chart`), the row stops: its q and v are NaN from then on.

    `early`: the end of a step stands as soon as it is known, and not behind its dynamics (see `move_up`).
    """
    known: list[Any] = []
    shapes, body = rollout_body(model, control, integrator, parameters, contacts=contacts, known=known)
    program = trace(body, shapes, name=f"rollout_{integrator}")
    values = [x.value for x in known if isinstance(x, Symbol)]
    if not early or not values or model.loops:
        return program
    return program.map_bodies(lambda step: move_up(step, values))


def taken_coefficients(
    model: Model, parameters: dict[str, Any], contacts: Laws | None, who: str, friction: bool = True
) -> dict[str, Any]:
    """Remove `COEFFICIENTS` from the parameters and return them; raise if one cannot act."""
    if isinstance(model, Tree):
        return {}
    coefficients = {name: parameters[name] for name in COEFFICIENTS if name in parameters}
    if coefficients and not isinstance(contacts, Contacts):
        raise ModelError(f"{who}: parameters={{{next(iter(coefficients))!r}: ...}} requires contacts=")
    for name in coefficients:
        del parameters[name]
    if isinstance(contacts, Contacts):
        check_coefficients(who, model, contacts, coefficients, parameters)
    else:
        check_joint_friction(who, model, JointLaws(joint_friction=friction), parameters)
    return coefficients


def finite_checks(q: Any, v: Any) -> list[Any]:
    """Return numbers of a state of which one is not finite if any is.

    These are q, and v of joints whose q is not a sum q + dt v.
    """
    summed: set[int] = set()
    for x in (x for x in q if isinstance(x, Symbol)):
        op, args, _ = x.builder.code[x.value]
        for product in (x.builder.code[a] for a in args if op == "add"):
            summed.update(product.args if product.op == "mul" else ())
    return [*q, *(x for x in v if not (isinstance(x, Symbol) and x.value in summed))]


def check_moves(model: Model | Tree, who: str) -> None:
    """Raise if a model has no degrees of freedom."""
    if model.nv == 0:
        raise ModelError(f"{who}: {printable(model.name)} has no degrees of freedom")


def probe_places(charts: Charts | None) -> list[int]:
    """Return the ends of the probes of clusters among the numbers of all; see `probes`."""
    sizes = [] if charts is None else [len(charts.clusters[n].rows) for n in charts.moving]
    return np.cumsum(sizes).tolist()


def rollout_body(
    model: Model,
    control: Control,
    integrator: Integrator,
    parameters: tuple[str, ...],
    *,
    contacts: Laws | None = None,
    known: list[Any] | None = None,
    most: int = MAX_STEPS,
) -> tuple[dict[str, Any], Callable[..., dict[str, Any]]]:
    """Return the shapes of a rollout's inputs by name, and the function from them to results that is traced.

    That puts the accelerations that a step ends with into the list `known`, and takes at most `steps` steps.
    """
    check_moves(model, "rollout")
    setup = _Setup(model, control, integrator, parameters, contacts, known, most)
    return setup.shapes, lambda *arrays: _TracedSteps(setup, arrays).results()


class _Setup:
    """A rollout that is traced: its inputs, and what is observed of the loops after each step."""

    def __init__(
        self,
        model: Model,
        control: Control,
        integrator: Integrator,
        parameters: tuple[str, ...],
        laws: Laws | None,
        known: list[Any] | None,
        max_steps: int,
    ) -> None:
        self.model = model
        self.control = control
        self.integrator = integrator
        self.laws = laws
        self.known = known
        self.max_steps = max_steps
        more = {} if laws is None else {"carried": (carried_size(model, laws),)}
        shapes: dict[str, Any] = {
            "q": (model.nq,),
            "v": (model.nv,),
            "done": (),
            **more,
            "how": (STEP_ARGS,),
            **control.inputs,
        }
        self.coefficients = [name for name in parameters if name in COEFFICIENTS]
        if laws is not None:
            shapes |= dict.fromkeys(self.coefficients, (len(laws.candidates(model)),))
            parameters = tuple(name for name in parameters if name not in self.coefficients)
        words = input_names(parameters, taken=tuple(shapes)) if parameters else ()
        shapes |= {word: shape_of(model, name) for word, name in zip(words, parameters)}
        self.shapes = shapes
        self.word_of = dict(zip(parameters, words))  # inputs of parameters of the model
        charts = self.charts = None if isinstance(model, Tree) or not model.loops else Charts(model)
        self.places = probe_places(charts)
        self.probe_count = self.places[-1] if self.places else 0
        self.constrained = charts is not None and bool(families(model))
        self.scales = np.zeros(model.nq)
        if charts is not None and (self.probe_count or self.constrained):
            self.scales = coordinate_scales(charts)


class _TracedSteps:
    """The loop over steps, on the symbols of one trace."""

    def __init__(self, setup: _Setup, arrays: tuple[Any, ...]) -> None:
        self.setup = setup
        self.inputs = dict(zip(setup.shapes, arrays))
        self.numbers = {name: self.inputs[word] for name, word in setup.word_of.items()}
        self.moving = self._with_parameters(setup.model)
        self.dt, self.count, self.zero, self.before = self.inputs["how"]
        self.one_step = step_of(setup.integrator)

    def results(self) -> dict[str, Any]:
        """Take the steps; return the states at the end, the steps taken and what is carried."""
        setup = self.setup
        inputs = self.inputs
        nq = setup.model.nq
        nv = setup.model.nv
        start = [x for each in self._probed(inputs["q"]) for x in each]
        first = np.array([*inputs["q"], *inputs["v"], *inputs.get("carried", ()), *start, 0.0], dtype=object)
        last = loop(self._step, first, limit=setup.max_steps)
        completed = last[-1] == self.count
        ends = [where(completed, x, np.nan) for x in last[: nq + nv]]
        result = {
            "q_end": np.array(ends[:nq]),
            "v_end": np.array(ends[nq:]),
            "done_end": inputs["done"] + last[-1],
        }
        if setup.laws is None:
            return result
        # A row that stopped in an earlier call keeps what it carried then.
        is_continued = absolute(inputs["q"][0]) < np.inf
        carried = last[nq + nv : -1 - setup.probe_count]
        return {**result, "carried_end": where(is_continued, carried, inputs["carried"])}

    def _step(self, state: Any) -> tuple[Any, Any]:
        """Return the state after one step, and whether to go on; see `results` for its parts."""
        setup = self.setup
        size = setup.probe_count
        nq = setup.model.nq
        nv = setup.model.nv
        q = state[:nq]
        v = state[nq : nq + nv]
        k = state[-1]
        last_probes = np.split(state[-1 - size : -1], setup.places[:-1])
        q1, v1, carried = self._moved(q, v, state[nq + nv : -1 - size], k)
        bad = self.zero
        for x in finite_checks(q1, v1):
            bad = fma(x, self.zero, bad)  # NaN where a number is not finite
        fine = (
            bad == self.zero
            if isinstance(self.moving, Tree)
            else (bad == self.zero) & (near_turning_point(self.moving, q, v, self.dt) <= 1.0)
        )
        new_probes = self._probed(q1)
        if new_probes:
            fine = fine & ~turned(last_probes, new_probes, motion(setup.scales, q, q1))
        if setup.constrained:
            fine = fine & ~nearly_singular(self.moving, q, q1, motion(setup.scales, q, q1))
        flat = [x for each in new_probes for x in each]
        after = np.array([*q1, *v1, *carried, *flat, where(fine, k + 1.0, k)], dtype=object)
        return after, fine & (k + 1.0 < self.count)

    def _moved(self, q: Any, v: Any, carried: Any, k: Any) -> tuple[Any, Any, Any]:
        """Return q, v and what is carried after step k: impulses, then the numbers of `CARRIED`."""
        setup = self.setup

        def force(q: Any, v: Any, part: Any) -> Any:
            return setup.control.force(self.moving, q, v, (self.before + k + part) * self.dt, self.inputs)

        laws = setup.laws
        if laws is None:
            q1, v1, last_known = self.one_step(self.moving, q, v, self.dt, force)
            if setup.known is not None:
                setup.known.extend(last_known)
            return q1, v1, carried
        impulses, (worst, most, failed) = carried[: -len(CARRIED)], carried[-len(CARRIED) :]
        if isinstance(laws, JointLaws):
            euler = setup.integrator == "semi_implicit_euler"
            smooth = None if euler else step_of(setup.integrator)
            q, v, *solved = joint_laws.stepped(self.moving, laws, smooth, q, v, self.dt, force)
        else:
            q, v, impulses, *solved = contact_step(
                self.moving, q, v, force(q, v, 0.0), self.dt, None, impulses,
                contacts=laws, details=True, **{name: self.inputs[name] for name in setup.coefficients},
            )  # fmt: skip
        residual, iterations, converged = solved
        worst = maximum(worst, residual)
        most = maximum(most, iterations)
        return q, v, np.array([*impulses, worst, most, failed + (1.0 - converged)], dtype=object)

    def _probed(self, q: Any) -> list[np.ndarray]:
        charts = self.setup.charts
        if charts is None or not self.setup.probe_count:
            return []
        return probes(self._with_parameters(charts.whole), q, charts)

    def _with_parameters(self, model: Model) -> Model:
        return model.traced_with(self.numbers) if self.numbers else model
