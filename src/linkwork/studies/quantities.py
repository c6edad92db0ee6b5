"""Quantities that a study varies: their names, their shapes, and how they become arguments of a call.

| name | varied quantity |
| --- | --- |
| a parameter of the model | as `Model.parameters` names it: "mass", "mass@hand", "gravity", "loop_placement"
  |
| "q", "v", "tau" | the initial state and constant joint forces, whole |
| "v@joint", "tau@joint", "q@joint" | the same of one joint, in place of what the whole has there |
| "dq", "dq@joint" | a displacement by `integrate` from the task's q: keeps quaternions and loops |
| "input@name" | an entry of the policy's `inputs=`, which sees a vector |
| "pd@kp", "pd@kd", "pd@q", "pd@v", "pd@tau" | fields of the task's `lw.PD` |
| "control" | the values of the task's `lw.Controls` |
| "contact_friction", "contact_restitution" | coefficients of contact candidates |
| "model" | the number of the model in a family |
| other arrays of a model function | by their names: "a", "f_ext" |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.errors import LinkworkError, StudyError
from linkwork.functions.states import close_loops, integrate
from linkwork.model import Model, parameters

STATE = ("q", "v", "tau", "dq")
FIELDS_OF_PD = ("kp", "kd", "q", "v", "tau")
COEFFICIENTS = ("contact_friction", "contact_restitution")
MOVES_LOOPS = ("placement", "ratio", "loop_placement")


class Quantity(NamedTuple):
    """A varied quantity of one model: its shape, its own value where it has one, whether it is a parameter,
    its minimum, and which components must be zero (None: any numbers are valid).
    """

    shape: tuple[int, ...]
    nominal: np.ndarray | None
    is_parameter: bool = False
    minimum: float = -np.inf
    zero: np.ndarray | None = None


def describe_quantity(model: Model, name: str, task: Any, given_shape: tuple[int, ...] | None) -> Quantity:
    """Return the shape and the nominal value of a quantity; StudyError if there is no such quantity."""
    try:
        return _describe(model, name, task, given_shape)
    except StudyError:
        raise
    except LinkworkError as error:
        raise StudyError(f"study: quantity {name!r}: {error}") from None


def _describe(model: Model, name: str, task: Any, given_shape: tuple[int, ...] | None) -> Quantity:
    kind, _, who = name.partition("@")
    if name == "model":
        return Quantity((), None)
    if kind == "input" and who:
        return Quantity(given_shape if given_shape is not None else (), None)
    if kind == "pd" and who:
        if who not in FIELDS_OF_PD:
            raise StudyError(f"study: quantity {name!r}: expected pd@{', pd@'.join(FIELDS_OF_PD)}")
        return Quantity((model.nq if who == "q" else model.nv,), task.nominal_of_pd(model, who))
    if name == "control":
        described: Quantity = task.control(model)
        return described
    if name in COEFFICIENTS:
        return task.contact_coefficient(model, name)
    if kind in STATE and name in task.quantities(model):
        return _state(model, name, task, given_shape)
    if kind in STATE and who and kind in task.quantities(model):
        return _state(model, name, task, given_shape)
    if name in task.quantities(model):
        shape = task.quantities(model)[name]
        return Quantity(shape, np.zeros(shape))
    if kind not in parameters.KINDS:
        known = [*task.quantities(model), *parameters.KINDS]
        raise StudyError(
            f"study: unknown quantity {name!r}; expected one of {', '.join(known)}, or kind@name"
        )
    least = parameters.KINDS[kind].minimum
    value = parameters.value_of(model, name).astype(float)
    return Quantity(parameters.shape_of(model, name), value, True, least, _without_springs(model, name))


def _without_springs(model: Model, name: str) -> np.ndarray | None:
    """Return which components are stiffnesses of joints that can have no springs, such as free joints; None
    where those of all joints can be any numbers.
    """
    if name.partition("@")[0] != "stiffness":
        return None
    springs = np.array([joint.kind.springs for joint in model.joints for _ in range(joint.nv)])
    own = springs[parameters.entries_of(model, name)]
    return own == "none" if (own != "each").any() else None


def _state(model: Model, name: str, task: Any, given_shape: tuple[int, ...] | None) -> Quantity:
    kind, _, who = name.partition("@")
    size = model.nq if kind == "q" else model.nv
    if not who:
        steps = task.steps_of_forces()
        if kind == "tau" and given_shape is not None and len(given_shape) == 2 and steps is not None:
            return Quantity((steps, size), None)
        nominal = task.start(model)["q" if kind == "q" else "v"] if kind in "qv" else np.zeros(size)
        return Quantity((size,), nominal)
    if kind == "q" and model.loops:
        raise StudyError(
            f"study: quantity {name!r}: the model has loops; vary 'dq@{who}', which keeps them closed"
        )
    places = component_places(model, kind, who)
    if kind in "qv":
        return Quantity(
            (len(places),) if len(places) > 1 else (), _unwrapped(task.start(model)[kind][places])
        )
    return Quantity((len(places),) if len(places) > 1 else (), _unwrapped(np.zeros(len(places))))


def _unwrapped(values: np.ndarray) -> np.ndarray:
    return values if len(values) > 1 else values[0]


def component_places(model: Model, kind: str, who: str) -> np.ndarray:
    """Return the places of a joint's components in q, or in v."""
    if kind == "q":
        joint = model.joint(who)
        return np.arange(joint.q_slice.start, joint.q_slice.stop)
    names = list(model.v_names)
    if who in names:
        return np.array([names.index(who)])
    places = [names.index(word) for word in model.joint(who).v_names if word in names]
    if not places:
        raise StudyError(
            f"study: {kind}@{who}: not an independent velocity; expected one of {', '.join(names)}"
        )
    return np.array(places)


class Arguments(NamedTuple):
    """Arrays of one batch, as calls take them; `parameters` includes contact coefficients."""

    arrays: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]
    inputs: dict[str, np.ndarray]
    pd: dict[str, np.ndarray]


def arguments_of(
    model: Model, values: Mapping[str, np.ndarray], start: Mapping[str, np.ndarray], rows: int
) -> Arguments:
    """Return the arguments of a call with varied values, (rows, *shape) each; `start` has the task's own
    arrays.
    """
    arrays = {name: np.broadcast_to(x, (rows, *x.shape)) for name, x in start.items()}
    result = Arguments(arrays, {}, {}, {})
    for name, value in values.items():
        kind, _, who = name.partition("@")
        if kind == "input":
            result.inputs[who] = value.reshape(rows, -1)
        elif kind in ("pd", "control"):
            result.pd[who or "values"] = value
        elif name in COEFFICIENTS or kind in parameters.KINDS:
            result.parameters[name] = value
        elif not who and name != "model":
            arrays[name] = value
    for name, value in values.items():
        kind, _, who = name.partition("@")
        if kind in STATE and who:
            base = arrays.get(kind, np.zeros((rows, model.nv)))
            changed = np.array(base)
            places = component_places(model, kind, who)
            changed[..., places] = value.reshape(rows, *([1] * (base.ndim - 2)), len(places))
            arrays[kind] = changed
    _place_on_manifold(model, result)
    return result


def _place_on_manifold(model: Model, arguments: Arguments) -> None:
    """Replace q by the configuration that "dq" leads to, with loops closed for the varied geometry."""
    step = arguments.arrays.pop("dq", None)
    moved = {name: x for name, x in arguments.parameters.items() if name.partition("@")[0] in MOVES_LOOPS}
    if model.loops and moved:
        arguments.arrays["q"] = close_loops(model, arguments.arrays["q"], parameters=moved)[0]
    if step is not None:
        q = arguments.arrays["q"]
        if is_on_gpu(step) and not is_on_gpu(q):  # the task's q, the same in all samples
            q = q[0]
        arguments.arrays["q"] = integrate(model, q, step, **({"parameters": moved} if moved else {}))


def check_values(
    names: Sequence[str],
    values: Mapping[str, np.ndarray],
    described: Mapping[str, Quantity],
    index: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return values of samples `index` as float arrays of the right shapes, or raise one StudyError that
    names the first invalid sample.
    """
    rows = len(index)
    if not isinstance(values, Mapping):
        raise StudyError(f"sampler: expected a dict of arrays by name, got {type(values).__name__}")
    if set(values) != set(names):
        raise StudyError(
            f"sampler: expected values of {', '.join(names)}, got {', '.join(map(str, values)) or 'none'}"
        )
    checked = {}
    invalid: list[tuple[int, str]] = []  # samples and messages: the first is reported
    for name in names:
        expected = (rows, *described[name].shape)
        try:
            array = np.asarray(values[name], dtype=float)
        except (TypeError, ValueError):
            raise StudyError(f"sampler: {name}: expected numbers, got {values[name]!r}") from None
        if array.shape != expected:
            raise StudyError(f"sampler: {name}: expected shape {expected}, got {array.shape}")
        flat = array.reshape(rows, -1)
        least = described[name].minimum
        if not np.isfinite(array).all():
            sample = int(index[np.argmin(np.isfinite(flat).all(axis=1))])
            message = f"expected finite numbers, got NaN or infinity in sample {sample}"
            invalid.append((sample, f"sampler: {name}: {message}"))
        elif least > -np.inf and array.size and array.min() < least:
            k = int(np.argmax((flat < least).any(axis=1)))
            message = f"expected numbers >= {least:g}, got {flat[k].min():g} in sample {index[k]}"
            invalid.append((int(index[k]), f"sampler: {name}: {message}"))
        elif (zero := described[name].zero) is not None and flat[:, zero].any():
            k = int(np.argmax(flat[:, zero].any(axis=1)))
            message = f"expected 0 at joints that can have no springs, got {array[k].tolist()}"
            invalid.append((int(index[k]), f"sampler: {name}: {message} in sample {index[k]}"))
        checked[name] = array
    if invalid:
        raise StudyError(min(invalid)[1])
    return checked
