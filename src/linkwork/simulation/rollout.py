"""Rollouts: time integration of a batch of states, each row in coordinates that are regular there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linkwork.contact import Contacts
from linkwork.errors import ModelError
from linkwork.functions.engine.call_arguments import resolve_device
from linkwork.functions.engine.spring_potential import raise_if_no_potential
from linkwork.functions.joint_limits import check_switches, joint_laws, switched
from linkwork.model import Model
from linkwork.simulation.actuators import Controls, warn_inactive_actuators
from linkwork.simulation.charts import Charts
from linkwork.simulation.closedness import closed_start
from linkwork.simulation.control import PD, Control, Policy
from linkwork.simulation.failure import (
    earlier_status,
)
from linkwork.simulation.joint_laws import check_integrator
from linkwork.simulation.monitor import families
from linkwork.simulation.numbers import report_memory_error
from linkwork.simulation.penetration import warn_penetration, warn_untested
from linkwork.simulation.rollout_arguments import (
    IMPLICIT,
    arrays_by_name,
    broadcast_arrays,
    check_arguments,
    check_counts,
    check_device,
    check_tree,
    contacts_in_rollout,
    integration_method,
    rollout_control,
)
from linkwork.simulation.rollout_in_charts import rollout_in_charts
from linkwork.simulation.rollout_in_kernel import rollout_in_kernel
from linkwork.simulation.rollout_problem import RolloutCall, RolloutProblem, Schedule
from linkwork.simulation.rollout_result import Rollout
from linkwork.simulation.stiffness import implicit_parameters
from linkwork.simulation.traced import Laws, taken_coefficients
from linkwork.sko import Tree


@report_memory_error
def rollout(
    model: Model,
    q: Any,
    v: Any,
    tau: Any = None,
    *,
    dt: float,
    steps: int,
    integrator: str = "semi_implicit_euler",
    rtol: float | None = None,
    atol: float | None = None,
    record_every: int = 1,
    parameters: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    inputs: Mapping[str, Any] | None = None,
    contacts: Contacts | None = None,
    limits: bool = True,
    friction: bool = True,
    warm_start: Any = None,
    status: Any = None,
    close: bool = False,
    dtype: str | None = None,
    device: str | None = None,
) -> Rollout:
    """Integrate the equations of motion from a batch of initial states.

    Each row is integrated independently; results are bitwise identical for one state and any batch.

    Parameters
    ----------
    model : Model or Tree
        The mechanism. A custom tree (`linkwork.sko.Tree`) needs v = dq/dt, forces that are not a Python
        function, and "semi_implicit_euler", "rk4" or "rk45" on the CPU; its rows stop as `NOT_FINITE` only.
    q : array_like, shape (..., nq)
        Initial configurations. Loops must be closed within `model.closure_tolerance`; see `close`.
    v : array_like, shape (..., nv)
        Initial velocities of the independent joints [rad/s, m/s].
    tau : array_like, callable, PD or Controls, optional
        Forces of the independent joints [N m, N]: constant (..., nv); constant in each step
        (..., steps, nv), with one dimension more than the states; a function ``tau(q, v, t)`` of all states,
        called at every stage of a step, that returns (..., nv); `lw.PD`; or `lw.Controls`. Default zero.
    dt : float
        Step [s].
    steps : int
        Number of steps.
    integrator : str
        "semi_implicit_euler" (order 1), "linearly_implicit_euler" (order 1; springs and dampers of joints
        linearised at the end of the step, stable for any stiffness, dissipative), "rk4" (order 4),
        "implicit_midpoint" (order 2, variational and symplectic, embedded loops only) or "rk45" (adaptive,
        Dormand and Prince, order 5). See Notes.
    rtol, atol : float, optional
        Tolerances of "rk45" (1e-6 and 1e-9): the estimated error of each coordinate and velocity in each
        substep is at most atol + rtol times its magnitude. ``t`` of a function tau is then an array (...).
    record_every : int
        Steps between recorded states.
    parameters : mapping of str to array_like, optional
        Parameters of the model, (..., shape) each. With `contacts` also "contact_friction" and
        "contact_restitution", (..., candidates).
    policy : callable, optional
        ``policy(q, v, t, inputs)`` returns the forces of one state, (nv,). It is traced once for each model
        into the kernel: values that change must be `inputs`. Takes the place of tau.
    inputs : mapping of str to array_like, optional
        Arrays for `policy`, of each row or of all; matrices are passed flattened.
    contacts : Contacts, optional
        Each step is then that of `lw.step`, with semi-implicit Euler. A row whose contact problem is not
        solved within the tolerance continues and ends as `Status.CONTACT_NOT_CONVERGED`.
    limits, friction : bool
        Whether joint limits and dry friction of joints act, with and without `contacts`.
    warm_start : array_like, shape (..., impulses), optional
        Contact impulses that precede the first step [N s].
    status : array_like, shape (...), optional
        Status of an earlier rollout that ended in these states: rows that had stopped stay as they are, and
        rows that are `CONTACT_NOT_CONVERGED` keep that status.
    close : bool
        Close the loops of q first, as `lw.close_loops` does.
    dtype : str, optional
        "float64" or "float32". Default: that of arrays on a GPU, float64 on the CPU.
    device : str, optional
        "cpu" or "cuda". Default: where the arrays are.

    Returns
    -------
    Rollout
        ``q`` (..., n, nq), ``v`` (..., n, nv) and ``status`` (...), with ``n = steps // record_every + 1``;
        row 0 is the initial state. Rows that stopped are NaN from there on: `status` and `causes` say why,
        `steps` when. Results of a GPU are arrays of the library that the states came in.

    Raises
    ------
    ModelError
        If an argument is invalid, or cannot be combined with the others or with the model.
    ShapeError
        If q, v, tau and the other arrays cannot be broadcast.

    Warns
    -----
    InitialPenetrationWarning
        If rigid shapes overlap by more than 5 mm at the start (on the CPU).
    UntestedShapesWarning
        If shapes that take part in contact cannot be tested, such as meshes without hulls.

    See Also
    --------
    simulate : Motion with controllers, sensors, events and a log.
    step : One step, with contact.
    Status : Why a row stopped.

    Notes
    -----
    Semi-implicit Euler is v' = v + dt a(q, v, tau), q' = integrate(q, dt v'). "rk4" and "rk45" integrate
    dq/dt and dv/dt; quaternions are normalised and loops closed after each step. Forces of
    "implicit_midpoint" are evaluated in the middle of the step.

    *Coordinates.* Where the independent velocities of the model become singular in a row, for instance at a
    turning point of their joint, others are chosen for that row, from its state alone; v and tau remain
    those of the model. On a GPU and with contacts this is not done: the row stops as
    `Status.SINGULAR_COORDINATES` shortly before. `Status.DEAD_POINT` means that the rank of all loop
    equations drops. Steps near such a state are compared with finer ones, and it is passed on the same branch
    where these agree within the accuracy of the integrator.

    *Loops.* A step that moves a joint of a loop by more than 0.5 rad (or half the length of the loop), or
    after which loops cannot be closed, is divided into up to 64 parts. Constrained loops are closed after
    every step, and velocities projected onto their tangent space in the kinetic-energy metric.

    *Stiffness.* A row that stops, or ends far away, where springs, dampers, PD control or a policy make the
    step unstable is `Status.STIFF`.

    *Limits and dry friction.* A step ends on a limit that it would pass; see `lw.step`. Integrators other
    than Euler's keep their order while no joint reaches a limit and no joint with dry friction starts, stops
    or reverses; such steps are taken by semi-implicit Euler.

    *Kernels.* Unless tau is a function, all steps are taken inside one kernel, with the same bits for any
    number of steps per call, and for constant forces and forces per step. `lw.step` has these bits for trees;
    with parameters or gears it agrees to rounding, since values that no step changes are computed once here.

    Examples
    --------
    >>> import linkwork as lw
    >>> arm = lw.robots.arm()
    >>> motion = lw.rollout(arm, arm.neutral(), [0.1] * arm.nv, dt=1e-3, steps=1000)
    >>> motion.q.shape[0], motion.status == lw.Status.OK
    (1001, np.True_)
    """
    check_arguments(model, dt, steps, record_every, integrator, parameters)
    raise_if_no_potential("rollout", model, parameters or {})
    is_feedback = policy is not None or isinstance(tau, (PD, Controls))
    if isinstance(model, Tree):
        check_tree(model, integrator, callable(tau) and not isinstance(tau, (PD, Controls)), contacts)
    method = integration_method(model, integrator, rtol, atol)
    q = closed_start("rollout", model, q, parameters or {}, close)
    if integrator == IMPLICIT:
        parameters = implicit_parameters(model, parameters or {}, dt)
    if tau is None and policy is None:
        warn_inactive_actuators("rollout", model)
    control, control_arrays = rollout_control(model, tau, policy, inputs)
    laws = _laws(model, control, integrator, contacts, limits, friction)
    if contacts is None and warm_start is not None:
        raise ModelError("rollout: warm_start= requires contacts=")
    device, dtype = _placement(device, dtype, (q, v, tau))
    check_device(model, control, device, dtype)
    check_counts(dt, steps, dtype)
    model_parameters = dict(parameters or {})
    call = RolloutCall(
        model, q, v, tau, control, control_arrays, is_feedback,
        coefficients=taken_coefficients(model, model_parameters, laws, "rollout", bool(friction)),
        parameters=model_parameters,
        laws=laws,
        warm_start=warm_start,
        status=status,
        # a small integer type of NumPy would overflow in sizes
        schedule=Schedule(dt, int(steps), int(record_every), method),
        dtype=dtype,
    )  # fmt: skip
    if device == "cuda":
        from linkwork.simulation.cuda import rollout_on_gpu

        return rollout_on_gpu(call)
    return _rollout_on_cpu(call)


def _placement(device: str | None, dtype: str | None, arrays: tuple[Any, ...]) -> tuple[str, str]:
    """Return the device and dtype of a rollout: those that are named, else those of the arrays."""
    named = {name: x for name, x in (("device", device), ("dtype", dtype)) if x is not None}
    return resolve_device("rollout", named, arrays)


def _laws(
    model: Model,
    control: Control | None,
    integrator: str,
    contacts: Contacts | None,
    limits: Any,
    friction: Any,
) -> Laws | None:
    """Return contacts, or the laws of joint limits and dry friction alone; None if nothing of these acts."""
    check_switches("rollout", limits, friction)
    laws: Laws | None
    if contacts is None:
        laws = joint_laws(model, limits, friction)
    else:
        warn_untested("rollout", model, contacts)
        laws = switched(contacts_in_rollout(model, contacts, control, integrator), limits, friction)
    check_integrator("rollout", model, laws, integrator)
    return laws


def _rollout_on_cpu(call: RolloutCall) -> Rollout:
    """Return a rollout by one kernel, or in charts if coordinates may become singular."""
    model = call.model
    control = call.control
    batch, rows = broadcast_arrays(arrays_by_name(call))
    start = rows.pop("q"), rows.pop("v")
    earlier = earlier_status(call.status, batch)
    if call.contacts is not None and call.warm_start is None and call.status is None:
        parameters = {name: rows[name] for name in call.parameters}
        warn_penetration("rollout", model, call.contacts, start[0], parameters)
    never_singular = not model.loops or (
        call.is_feedback and not Charts(model).moving and not families(model)
    )
    if control is not None and (never_singular or call.contacts is not None or call.dtype != "float64"):
        names = (*call.coefficients, *call.parameters)
        problem = RolloutProblem(model, control, batch, start, rows, call.tau, earlier, call.schedule)
        return rollout_in_kernel(problem, names, call.laws, call.dtype)
    control_inputs = {name: rows.pop(name) for name in call.control_arrays}
    problem = RolloutProblem(model, control, batch, start, rows, call.tau, earlier, call.schedule)
    laws = None if isinstance(call.laws, Contacts) else call.laws
    return rollout_in_charts(problem, control_inputs if call.is_feedback else None, laws)
