"""Actions of reinforcement-learning environments: joint forces, PD targets and actuator controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.functions.actuation import select_actuators
from linkwork.interop.array_libraries import ArrayLibrary, array_library
from linkwork.mechanism.actuator_laws import has_dynamics
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.simulation import PD, Controls


@dataclass(frozen=True)
class Worlds:
    """States of all worlds of an environment, as arguments of its functions; arrays of its array library.

    Attributes
    ----------
    q : array, shape (worlds, nq)
        Configurations after the step.
    v : array, shape (worlds, nv)
        Velocities after the step.
    q_before, v_before : array
        Configurations and velocities before the step.
    t : array, shape (worlds,)
        Time since the reset [s].
    action : array, shape (worlds, n)
        Actions of the step.
    parameters : mapping of str to array
        Parameters that differ between worlds, by name.
    activations : array, shape (worlds, actuators), or None
        Activations of the actuators after the step; None without dynamics.
    """

    q: Any
    v: Any
    q_before: Any
    v_before: Any
    t: Any
    action: Any
    parameters: Mapping[str, Any]
    activations: Any = None


@dataclass(frozen=True)
class Action:
    """Action space of `size` numbers from -1 to 1, and their effect on the model.

    `drive(action, worlds)` returns joint forces, (worlds, nv), a `lw.PD` or `lw.Controls`.
    """

    size: int
    drive: Callable[[Any, Worlds], Any]


def torques(model: Model, largest: Any = None) -> Action:
    """Return actions that are joint forces.

    1 is the `largest` force, (nv,), by default the model's `max_effort`. Joints without one are not driven.
    """
    efforts = (
        _max_efforts(model)
        if largest is None
        else np.broadcast_to(np.asarray(largest, dtype=float), (model.nv,))
    )
    driven = np.flatnonzero(np.isfinite(efforts) & (efforts > 0.0))
    if not len(driven):
        raise ModelError(
            f"torques: no independent joint of {printable(model.name)} has a maximum effort; pass largest=, "
            "(nv,)"
        )
    scale = np.zeros((len(driven), model.nv))
    scale[np.arange(len(driven)), driven] = efforts[driven]
    return Action(len(driven), lambda action, worlds: action @ array_library(action).constant(scale, action))


def joint_targets(model: Model, kp: Any, kd: Any, *, around: Any, reach: Any = 0.5) -> Action:
    """Return actions that move the targets of PD control.

    Parameters
    ----------
    model : Model
        Model of the environment.
    kp : float or array_like, shape (nv,)
        Stiffness [N m/rad, N/m]. Independent joints with one velocity and a positive kp are driven; a free
        base is not.
    kd : float or array_like, shape (nv,)
        Damping [N m s/rad, N s/m].
    around : array_like, shape (nq,)
        Configuration of the targets for an action of zero.
    reach : float or array_like, shape (nv,), optional
        Distance of the targets from `around` for an action of one [rad, m]. Default 0.5.

    Returns
    -------
    Action
        Actions with one number for each driven joint.
    """
    stiffness, damping = (np.broadcast_to(np.asarray(x, dtype=float), (model.nv,)).copy() for x in (kp, kd))
    q_index = {j.v_names[0]: j.q_start for j in model.joints if j.nv == 1 and j.nq == 1}
    driven = [k for k, name in enumerate(model.v_names) if name in q_index and stiffness[k] > 0.0]
    if not driven:
        raise ModelError(
            f"joint_targets: no independent joint of {printable(model.name)} has one velocity and a kp above "
            "zero"
        )
    mask = np.isin(np.arange(model.nv), driven)
    stiffness = stiffness * mask
    damping = damping * mask
    reaches = np.broadcast_to(np.asarray(reach, dtype=float), (model.nv,))
    scale = np.zeros((len(driven), model.nq))
    for row, k in enumerate(driven):
        scale[row, q_index[model.v_names[k]]] = reaches[k]
    center = np.asarray(around, dtype=float)
    if center.shape != (model.nq,):
        raise ShapeError(f"joint_targets: around: expected shape ({model.nq},), got {center.shape}")

    def drive(action: Any, worlds: Worlds) -> PD:
        library = array_library(action)
        q = library.constant(center, action) + action @ library.constant(scale, action)
        return PD(library.constant(stiffness, action), library.constant(damping, action), q)

    return Action(len(driven), drive)


def actuator_controls(model: Model, actuators: Any = None) -> Action:
    """Return actions that are controls of actuators of the model, by default of all.

    -1 and 1 are the ends of the control range; -1 to 1 is used if an end is infinite. The environment keeps
    the activations of actuators with dynamics, which are zero after a reset, in `Worlds.activations`.
    """
    selected = select_actuators(model, actuators)
    ends = np.array(
        [
            actuator.control_range if np.isfinite(actuator.control_range).all() else (-1.0, 1.0)
            for actuator in selected
        ]
    )
    center = ends.mean(axis=1)
    scale = np.diag(0.5 * (ends[:, 1] - ends[:, 0]))

    def drive(action: Any, worlds: Worlds) -> Controls:
        library = array_library(action)
        return Controls(library.constant(center, action) + action @ library.constant(scale, action), selected)

    return Action(len(selected), drive)


class Activations:
    """Activations of actuators with dynamics in an environment, (worlds, actuators), zero after a reset."""

    def __init__(self, model: Model, worlds: int) -> None:
        self._model = model
        self._worlds = worlds
        self._names: tuple[str, ...] | None = None
        self.values: np.ndarray | None = None  # float64, on the host; None without dynamics

    def reset(self, worlds: np.ndarray) -> None:
        """Set the activations of some worlds to zero."""
        if self.values is not None:
            self.values[worlds] = 0.0

    def start(self, drive: Any) -> np.ndarray | None:
        """Return the activations that a step of this drive begins with; None if it needs none."""
        if not isinstance(drive, Controls) or drive.activations is not None:
            return None
        selected = select_actuators(self._model, drive.actuators)
        if not any(map(has_dynamics, selected)):
            return None
        names = tuple(actuator.name for actuator in selected)
        if self._names not in (None, names):
            raise ModelError(
                "VectorEnv: expected the same actuators in every step, since some have dynamics; got "
                f"{', '.join(names)} after {', '.join(self._names or ())}"
            )
        if self.values is None:
            self._names = names
            self.values = np.zeros((self._worlds, len(selected)))
        return self.values

    def of_user(self, library: ArrayLibrary) -> Any:
        """Return the activations as an array of the environment's library, or None."""
        return None if self.values is None else library.to_user(library.native(self.values))

    def of_drive(self, drive: Any, library: ArrayLibrary) -> Any:
        """Return a drive with native arrays, and with activations if it needs them."""
        native = library.to_native(drive)
        start = self.start(drive)
        return native if start is None else replace(native, activations=library.native(start))

    def advance(self, drive: Any, library: ArrayLibrary, time: float, failed: np.ndarray) -> None:
        """Replace the activations by those after a time [s]; worlds that failed keep theirs."""
        before = self.start(drive)
        if before is None:
            return
        controls = np.asarray(library.host(drive.values), dtype=float)
        after = Controls(controls, drive.actuators, before).activations_at(self._model, time)
        self.values = np.where(failed[:, None], before, after)


def _max_efforts(model: Model) -> np.ndarray:
    """Return the maximum forces at independent joints, (nv,); zero where unknown."""
    effort_of = {name: effort for j in model.joints for name, effort in zip(j.v_names, j.max_effort)}
    result = np.array([effort_of.get(name, 0.0) for name in model.v_names])
    return np.where(np.isfinite(result), result, 0.0)
