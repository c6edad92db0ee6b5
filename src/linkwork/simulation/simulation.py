"""Simulations: a model with controllers, sensors and events, integrated into a log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from linkwork.compiler.runtime.progress import Progress
from linkwork.errors import ModelError
from linkwork.functions.engine.spring_potential import raise_if_no_potential
from linkwork.functions.joint_limits import check_switches
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.simulation.actuation import Drive
from linkwork.simulation.actuators import Controls, warn_inactive_actuators
from linkwork.simulation.closedness import closed_start
from linkwork.simulation.control import Policy
from linkwork.simulation.log import Log, State
from linkwork.simulation.rollout_arguments import (
    check_integrator_name,
)
from linkwork.simulation.simulation_run import SimulationOptions, SimulationRun
from linkwork.simulation.traced import check_moves

MAX_STEPS = 10_000_000  # of one call


def simulate(
    model: Model,
    q: Any = None,
    v: Any = None,
    duration: float | None = None,
    controller: Any = None,
    *,
    dt: float = 1e-3,
    record_every: int = 1,
    integrator: str = "semi_implicit_euler",
    rtol: float | None = None,
    atol: float | None = None,
    policy: Policy | None = None,
    inputs: Mapping[str, Any] | None = None,
    memory: Any = None,
    f_ext: Any = None,
    contacts: Any = None,
    limits: bool = True,
    friction: bool = True,
    sensors: Mapping[str, Any] | None = None,
    events: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    start: State | None = None,
    close: bool = False,
    progress: bool = True,
) -> Log:
    """Integrate the motion of a model with controllers, sensors and events, and return a log.

    The same call gives the same bits, and so does a simulation continued from any logged state with the same
    other arguments: ``simulate(model, start=log.state(k), duration=...)``. Time continues too, and dt may
    change.

    Parameters
    ----------
    model : Model
        The mechanism.
    q, v : array_like, shape (..., nq) and (..., nv)
        Initial states; required unless `start` is given. Rows of a batch are independent.
    duration : float
        Simulated time [s], a multiple of dt.
    controller : array_like, callable, PD or Controls, optional
        Forces of the independent joints [N m, N]: an array (..., nv); `lw.PD` or `lw.Controls`, evaluated at
        every stage of a step; or a function ``controller(q, v, t)`` of all states that returns (..., nv),
        called once at the beginning of each step, like a digital controller. With an argument `sensors` it
        gets their readings by name. With an argument `memory` it gets the memory that it returned last and
        returns (tau, memory).
    dt : float
        Step [s].
    record_every : int
        Steps between logged states; the last state is logged too.
    integrator, rtol, atol : str and float
        As in `rollout`.
    policy, inputs : callable and mapping, optional
        Traced control, as in `rollout`; takes the place of the controller.
    memory : optional
        Initial memory of the controller; later ones are part of logged states.
    f_ext : array_like or mapping, optional
        External forces: (..., bodies, 6) as in `lw.forward_dynamics`, or by names of frames (..., 6): moment
        [N m] and force [N] at the frame's origin in world axes. Each may be a function of the time, called at
        each step.
    contacts, limits, friction : optional
        As in `rollout`.
    sensors : mapping of str to Sensor or callable, optional
        `IMU`, `FramePose`, `JointTorque`, ... of `linkwork.simulation`, or functions (q, v, t).
    events : mapping of str to Event or callable, optional
        Conditions (q, v, t) -> bool, evaluated after every step. A row whose condition becomes true stops;
        with ``lw.simulation.Event(condition, stop=False)`` it is only recorded in `Log.events`.
    parameters : mapping of str to array_like, optional
        As in `rollout`.
    start : State, optional
        A state of a log to continue from.
    close : bool
        Close the loops of q first.
    progress : bool
        Show progress on a terminal if the simulation takes more than two seconds.

    Returns
    -------
    Log
        The initial state, a state after every `record_every` steps, and the last one. `Log.status` says why
        rows stopped.

    Raises
    ------
    ModelError
        If an argument is invalid, or cannot be combined with the others or with the model.
    ShapeError
        If arrays cannot be broadcast.

    See Also
    --------
    rollout : Batches of states in one kernel.

    Examples
    --------
    >>> import linkwork as lw
    >>> arm = lw.robots.arm()
    >>> log = lw.simulate(arm, arm.neutral(), [0.0] * arm.nv, duration=0.01, record_every=5)
    >>> log.t
    array([0.   , 0.005, 0.01 ])
    """
    steps = _steps(model, duration, dt, record_every, integrator)
    check_switches("simulate", limits, friction)
    parameters = {} if parameters is None else parameters
    _check_start(q, v, start, parameters)
    raise_if_no_potential("simulate", model, parameters)
    if controller is None and policy is None:
        warn_inactive_actuators("simulate", model)
    if isinstance(controller, Controls) and controller.is_sampled(model):
        if memory is not None:
            raise ModelError("simulate: memory= is for a controller that is a function, not for lw.Controls")
        controller, activations = controller.sampled(model, dt, parameters)
        memory = activations if start is None else None
    if close is not False and start is not None:
        raise ModelError("simulate: close=True is for q=: a state of a log is closed")
    q = closed_start("simulate", model, q, parameters, close)
    drive = Drive(model, controller, policy, inputs, f_ext, memory)
    options = SimulationOptions(
        dt=dt,
        integrator=integrator,
        rtol=rtol,
        atol=atol,
        contacts=contacts,
        limits=limits,
        friction=friction,
        sensors=sensors,
        events=events,
        parameters=dict(parameters),
    )
    run = SimulationRun(model, drive, options, states=(q, v), start=start, memory=memory)
    with Progress(f"simulating {printable(model.name)}") if progress else nullcontext() as reporter:
        run.run(steps, record_every, reporter)
    return run.log()


def _check_start(q: Any, v: Any, start: Any, parameters: Any) -> None:
    if not isinstance(parameters, Mapping):
        raise ModelError(
            f"simulate: parameters: expected a dict of arrays by name, got {type(parameters).__name__}"
        )
    if start is not None and not isinstance(start, State):
        raise ModelError(
            f"simulate: start: expected a state of a log, such as log.state(-1), got {type(start).__name__}"
        )
    if start is not None and (q is not None or v is not None):
        raise ModelError("simulate: expected either q and v, or start=, got both")
    if start is None and (q is None or v is None):
        raise ModelError("simulate: expected q and v, or start=, got neither")


def _steps(model: Any, duration: Any, dt: Any, record_every: Any, integrator: Any) -> int:
    if not isinstance(model, Model):
        raise ModelError(f"simulate: expected a model, got {type(model).__name__}")
    check_moves(model, "simulate")
    check_integrator_name("simulate", integrator)
    if not isinstance(record_every, (int, np.integer)) or isinstance(record_every, bool) or record_every < 1:
        raise ModelError(f"simulate: record_every: expected an integer of at least 1, got {record_every!r}")
    for name, value in (("dt", dt), ("duration", duration)):
        if (
            not isinstance(value, (int, float, np.floating, np.integer))
            or isinstance(value, bool)
            or not np.isfinite(value)
        ):
            raise ModelError(f"simulate: {name}: expected a number of seconds, got {value!r}")
    if not dt > 0.0 or duration < 0.0:
        raise ModelError(f"simulate: expected dt > 0 and duration >= 0, got {dt!r} and {duration!r}")
    quotient = float(duration) / float(dt)
    steps = round(min(quotient, 1e300))  # the quotient of tiny numbers is infinite
    if steps <= MAX_STEPS and abs(quotient - steps) > 1e-6 * max(1, steps):
        raise ModelError(
            f"simulate: {duration!r} s are {quotient:.6g} steps of {dt!r} s, not an integer number of steps"
        )
    if steps > MAX_STEPS:
        raise ModelError(
            f"simulate: {duration!r} s are {quotient:.9g} steps of {dt!r} s, expected at most "
            f"{MAX_STEPS}: use a larger dt"
        )
    return steps
