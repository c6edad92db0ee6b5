"""Public functions of contact: one time step with contact, friction and joint limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.contact import rows as contact_rows
from linkwork.algorithms.contact.division import divided
from linkwork.algorithms.contact.free_flight import moved_straight
from linkwork.algorithms.contact.rows import NONE_GIVEN, Coefficients
from linkwork.algorithms.contact.step import StepInput
from linkwork.algorithms.joint_step import with_joint_impulses
from linkwork.compiler.ir.functions import where
from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.contact import Contacts, JointLaws, chosen_contacts
from linkwork.errors import ModelError
from linkwork.functions.constrained import is_mass_matrix_candidate, projected
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.engine.call_arguments import as_numbers, on_host
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.joint_limits import impulse_method, joint_laws, switched
from linkwork.functions.states import integrate, raise_if_open
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.model.parameters import entries_of, parse


def _options(
    model: Model, contacts: Any, details: bool, limits: bool, friction: bool, differentiable: bool, **_: Any
) -> dict[str, Any]:
    if contacts is not None:
        contacts_in_use = chosen_contacts(model, contacts)["contacts"]
        return {"contacts": switched(contacts_in_use, limits, friction), "limits": True, "friction": True}
    if details:
        raise ModelError("step: details= requires contacts=, such as lw.Contacts()")
    laws = joint_laws(model, limits, friction)
    joint_options = {
        "limits": laws is not None and laws.limits,
        "friction": laws is not None and laws.joint_friction,
    }
    return {"contacts": None, **joint_options, "differentiable": differentiable and laws is not None}


COEFFICIENTS = {"contact_friction": np.inf, "contact_restitution": 1.0}  # and their upper bounds


def check_coefficients(
    who: str, model: Model, contacts: Contacts, coefficients: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Raise ModelError if contact coefficients or joint friction are given where no row uses them.

    Rows of a batch with coefficients of their own fail alone: see `contact_rows.where_valid`.
    """
    for name, x in coefficients.items():
        if not is_on_gpu(x):
            _check_coefficient(who, name, x)
    if coefficients or any(parse(name)[0] == "friction" for name in values):
        contacts = chosen_contacts(model, contacts)["contacts"]
        _check_restitution(contacts, coefficients.get("contact_restitution"), who)
        _check_contact_friction(who, model, contacts, coefficients.get("contact_friction"))
        check_joint_friction(who, model, contacts, values)


def _check_coefficient(who: str, name: str, x: Any) -> None:
    """Raise ModelError if one of `COEFFICIENTS`, given for all rows, is out of bounds."""
    numbers = as_numbers(x)
    bound = COEFFICIENTS[name]
    invalid = ~((numbers >= 0.0) & (numbers <= bound) & np.isfinite(numbers))
    if invalid.any() and numbers.ndim < 2:
        interval = "not negative" if bound == np.inf else f"from 0 to {bound:g}"
        raise ModelError(f"{who}: {name}: expected finite numbers, {interval}, got {numbers[invalid][0]:g}")


def _check_restitution(contacts: Contacts, restitution: Any, who: str = "step") -> None:
    """Raise ModelError if compliant contacts are given coefficients of restitution."""
    if restitution is not None and np.isfinite(contacts.stiffness):
        raise ModelError(
            f"{who}: contact_restitution is for rigid contacts; compliant ones rebound according to "
            f"Contacts(damping=...)"
        )


def _check_contact_friction(who: str, model: Model, contacts: Contacts, friction: Any) -> None:
    """Raise ModelError if friction is given for contacts without friction rows."""
    candidates = contacts.candidates(model)
    for k in contact_rows.without_friction(candidates) if friction is not None else ():
        numbers = as_numbers(on_host(friction))
        coefficients = numbers[..., k] if numbers.shape[-1:] == (len(candidates),) else np.zeros(0)
        if (coefficients > 0.0).any():
            raise ModelError(
                f"{who}: contact_friction of {printable(candidates[k].name)!r}: expected 0, got "
                f"{coefficients[coefficients > 0.0].flat[0]:g}: this contact has a friction of 0 (or a "
                "condim of 1), and so no rows for it; give Contacts(friction=...) above 0"
            )


def check_joint_friction(
    who: str, model: Model, contacts: Contacts | JointLaws, values: Mapping[str, Any]
) -> None:
    """Raise ModelError if dry friction is given for joints without a row for it."""
    known = model.nominal
    for name in (name for name in values if parse(name)[0] == "friction"):
        where = range(known.nv_spanning)[entries_of(known, name)]
        joint_of_velocity = {
            joint.v_start + i: (joint, f) for joint in known.joints for i, f in enumerate(joint.friction)
        }
        without_row = [k for k in where if joint_of_velocity[k][1] == 0.0 or not contacts.joint_friction]
        numbers = as_numbers(on_host(values[name])) if without_row else np.zeros(0)
        for k in without_row if numbers.shape[-1:] == (len(where),) else ():
            friction = numbers[..., where.index(k)]
            joint = joint_of_velocity[k][0]
            if (friction > 0.0).any():
                reason = (
                    "the model's value is 0, so that it has no row; set it above 0 by model.with_parameters"
                    if contacts.joint_friction
                    else "friction=False or Contacts(joint_friction=False) leave it out"
                )
                raise ModelError(
                    f"{who}: parameter {name!r}: expected 0 at joint {printable(joint.name)!r}, got "
                    f"{friction[friction > 0.0].flat[0]:g}: {reason}"
                )


def _check_contact_arguments(arrays: Mapping[str, Any]) -> None:
    for name in ("warm_start", *COEFFICIENTS):
        if arrays.get(name) is not None:
            raise ModelError(f"step: {name} requires contacts=")


def _raise_if_open(model: Any, result: tuple[Any, ...], arrays: Sequence[Any]) -> None:
    """Raise ClosureError if loops of a single state could not be closed after the step."""
    if np.isfinite(result[1]).all():
        raise_if_open(model, result[0], arrays)


def _check_given(
    model: Any, arrays: dict[str, Any], options: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    contacts = options.get("contacts")
    if contacts is None:
        _check_contact_arguments(arrays)
        friction = options.get("friction", True)
        check_joint_friction("step", model, JointLaws(joint_friction=bool(friction)), parameters)
        if joint_laws(model, options.get("limits", True), friction) is not None:
            _check_dt(arrays, "with limits or dry friction in joints")
        return
    _check_dt(arrays, "with contacts=")
    coefficients = {name: arrays[name] for name in COEFFICIENTS if name in arrays}
    check_coefficients("step", model, contacts, coefficients, parameters)


def _check_dt(arrays: dict[str, Any], when: str) -> None:
    """Raise ModelError if dt is not a positive number; in a batch, such rows become NaN."""
    dt = arrays["dt"]
    if type(dt) is float and 0.0 < dt < np.inf:
        return
    numbers = as_numbers(dt)
    valid = (numbers > 0.0) & np.isfinite(numbers)
    if not valid.all() and numbers.ndim == 0:
        raise ModelError(f"step: {when} dt: expected positive numbers of seconds, got {dt!r}")
    if not valid.all():
        arrays["dt"] = np.where(valid, dt, np.asarray(np.nan, np.asarray(dt).dtype))


def impulse_names(model: Model, *, contacts: Contacts | None = None) -> tuple[str, ...]:
    """Return a name for each impulse of `step`: contact rows, joint limits, then dry friction in joints."""
    if not isinstance(model, Model):
        raise ModelError(f"impulse_names: first argument: expected a model, got {type(model).__name__}")
    return contact_rows.names(model, chosen_contacts(model, contacts)["contacts"])


def _without_contacts(
    model: Model,
    laws: JointLaws | None,
    q: Any,
    v: Any,
    tau: Any,
    f_ext: Any,
    dt: Any,
    differentiable: bool,
) -> tuple[Any, Any]:
    """Return q and v after a step in which only laws of joints act."""
    if laws is None:
        v = v + dt * forward_dynamics(model, q, v, tau, f_ext)
    else:
        dt = contact_rows.where_valid(model, laws, NONE_GIVEN, dt)
        free_velocity = v + dt * forward_dynamics(model, q, v, tau, f_ext)
        impulse_solver = impulse_method(model)
        v = with_joint_impulses(
            model, laws, q, v, free_velocity, dt, impulse_solver, differentiable=differentiable
        ).v
    q = integrate(model, q, dt * v)
    return q, projected(model, q, v)


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    dt="",
    f_ext="bodies 6",
    warm_start="impulses",
    contact_friction="candidates",
    contact_restitution="candidates",
    options=_options,
    methods={
        "sweeps": lambda model: not is_mass_matrix_candidate(model),
        "mass_matrix": is_mass_matrix_candidate,
    },
    configurations=("out0",),
    check_given=_check_given,
    check=_raise_if_open,
    rule_in="linkwork.functions.contact_derivatives",
)
def step(
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    dt: Any,
    f_ext: Any = None,
    warm_start: Any = None,
    contact_friction: Any = None,
    contact_restitution: Any = None,
    *,
    contacts: Contacts | None = None,
    limits: bool = True,
    friction: bool = True,
    method: str = "auto",
    details: bool = False,
    differentiable: bool = False,
) -> tuple[Any, ...]:
    """Return the state after one time step with joint limits, friction and contact.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    tau : array_like, shape (..., nv)
        Joint forces of the independent joints [N m, N].
    dt : array_like, shape (...)
        Step [s].
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    warm_start : array_like, shape (..., impulses), optional
        Initial impulses, such as those of the last step. They change the number of iterations and, where
        several solutions exist, which one is found.
    contact_friction, contact_restitution : array_like, shape (..., candidates), optional
        Coefficients in place of those in `contacts`; also accepted in `parameters`.
    contacts : Contacts, optional
        Possible contacts, such as `lw.Contacts()`. Default: none.
    limits, friction : bool, optional
        Joint limits and dry friction in joints act. Default True.
    method : {"auto", "sweeps", "mass_matrix"}, optional
        How responses to impulses are computed.
    details : bool, optional
        Only with contacts: return four more results.
    differentiable : bool, optional
        Trace a program that `lw.jvp` and `lw.vjp` of functions that call `step` can differentiate.

    Returns
    -------
    q : ndarray, shape (..., nq)
        Configurations.
    v : ndarray, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    impulses : ndarray, shape (..., impulses)
        With `details`: impulses [N s, N m s], named by `impulse_names`.
    violation, iterations, converged : ndarray, shape (...)
        With `details`: the largest violation of any contact, friction or limit law [m/s, rad/s], the number
        of iterations, and 1 where the violation is within the tolerance.

    Raises
    ------
    ClosureError
        If loops of a single state cannot be closed after the step; in a batch such rows are NaN.

    See Also
    --------
    rollout : Many steps in one kernel.
    simulate : One robot with controllers, sensors and a log.

    Notes
    -----
    v' = v + dt a + M⁻¹ Jᵀ λ and q' = integrate(q, dt v'): semi-implicit Euler, where the impulses λ satisfy
    the laws of contact, friction and limits at v' (docs/algorithms/contact.md). Velocities of constrained
    loops are projected onto those that keep them closed at q'.

    With contacts, free and planar joints step about centers of mass in axes at rest, so floating mechanisms
    keep their momentum; where joints rotate so far in a step that it would gain energy, the motion relative
    to locked joints is scaled down.

    Derivatives by `lw.jvp`, `lw.vjp` and `lw.jacobian` hold where no contact begins, ends, sticks or slips
    anew, by the implicit function theorem (docs/how_to/contact.md).
    """
    if contacts is None:
        arrays = (warm_start, contact_friction, contact_restitution)
        _check_contact_arguments(dict(zip(("warm_start", *COEFFICIENTS), arrays)))
        laws = joint_laws(model, limits, friction)
        return _without_contacts(model, laws, q, v, tau, f_ext, dt, differentiable)
    active_contacts = switched(chosen_contacts(model, contacts)["contacts"], limits, friction)
    check_motions(model)
    initial = np.zeros(contact_rows.count(model, active_contacts)) if warm_start is None else warm_start
    coefficients = Coefficients(contact_friction, contact_restitution)
    _check_restitution(active_contacts, contact_restitution)
    requested_dt = dt
    dt = contact_rows.where_valid(model, active_contacts, coefficients, dt)

    def arrive(q: Any, u: np.ndarray, dt: Any) -> tuple[np.ndarray, np.ndarray]:
        motion, after = moved_straight(model, dt * u, u)
        return integrate(model, q, motion), after

    step_input = StepInput(
        *(model, active_contacts, q, v, tau, dt, f_ext, initial, method, arrive),
        coefficients,
        differentiable,
    )
    result = divided(step_input)
    if not details:
        return result.q, result.v
    impulses, residual, iterations, converged = result.solution[:4]
    if dt is not requested_dt:
        residual = where(dt == dt, residual, np.nan)
        converged = where(dt == dt, converged, 0.0)
    return result.q, result.v, impulses, residual, iterations, converged
