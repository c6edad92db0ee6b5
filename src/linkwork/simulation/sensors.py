"""Sensors of a simulation: quantities measured from the state and the last step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.functions.dynamics import bias_force, forward_dynamics
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.kinematics import frame_acceleration, frame_pose, frame_velocity, normalize_frame
from linkwork.functions.states import spanning_velocity
from linkwork.mechanism.names import did_you_mean, printable
from linkwork.model import Model
from linkwork.simulation.numbers import real_numbers
from linkwork.spatial import rotation


@dataclass(frozen=True)
class SensorContext:
    """State of a simulation that sensors read: rows q, v at a time t [s], and the step that led there.

    `a` is the mean acceleration of that step and `tau` the joint forces in it. Before the first step tau is
    zero and `a` is that of `initial_acceleration`. `forces`, (rows, candidates, 3), are contact forces on the
    first body of each candidate, in world axes [N].
    """

    t: float
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    batch: tuple[int, ...] = ()
    parameters: Mapping[str, np.ndarray] = field(default_factory=dict)
    candidates: tuple[Any, ...] = ()
    forces: np.ndarray | None = None

    def evaluate(self, function: Any, model: Model, *arrays: np.ndarray, **options: Any) -> np.ndarray:
        """Return the value of a function of the model, with the parameters of the simulation."""
        parameters = {"parameters": dict(self.parameters)} if self.parameters else {}
        return np.asarray(function(model, *arrays, **options, **parameters))


@runtime_checkable
class Sensor(Protocol):
    """Interface of sensors: any object with these methods is one.

    A function (q, v, t) of all states is accepted as a sensor too.
    """

    def columns(self, model: Model) -> tuple[str, ...]:
        """Return the names of the numbers that are measured."""

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        """Return the measured numbers, (rows, columns)."""


@model_function(q="nq", v="nv", a="nv", options=normalize_frame)
def _inertial(model: Model, q: Any, v: Any, a: Any, *, frame: str) -> Any:
    """Return angular velocity [rad/s] and specific force [m/s²] of a frame in its own axes, (..., 6)."""
    R = frame_pose(model, q, frame=frame)[:3, :3]
    angular_velocity = frame_velocity(model, q, v, frame=frame)[:3]
    specific_force = frame_acceleration(model, q, v, a, frame=frame, classical=True)[3:] - R.T @ np.array(
        model.gravity, dtype=object
    )
    return np.array([*angular_velocity, *specific_force], dtype=object)


@model_function(q="nq", options=normalize_frame)
def _placed(model: Model, q: Any, *, frame: str) -> Any:
    """Return position [m] and quaternion (x, y, z, w) of a frame in the world, (..., 7)."""
    pose = frame_pose(model, q, frame=frame)
    return np.array([*pose[:3, 3], *rotation.of_matrix(pose[:3, :3])], dtype=object)


@model_function(q="nq", v="nv")
def _least_acceleration(model: Model, q: Any, v: Any) -> Any:
    """Return the least accelerations, in the kinetic-energy metric, that keep constrained loops closed.

    By Gauss's principle these are the ones under forces that balance gravity, Coriolis and passive forces.
    """
    return forward_dynamics(model, q, v, bias_force(model, q, v))


def initial_acceleration(
    model: Model, q: np.ndarray, v: np.ndarray, parameters: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return the accelerations that sensors see before the first step, (rows, nv).

    They are zero, or with constrained loops the least ones that keep these closed.
    """
    if not model.constrained_loops or not np.any(v):
        return np.zeros(v.shape)
    options = {"parameters": dict(parameters)} if parameters else {}
    return np.asarray(_least_acceleration(model, q, v, **options))


@dataclass(frozen=True)
class IMU:
    """Gyroscope and accelerometer: angular velocity [rad/s] and specific force [m/s²] in the axes of a frame.

    The specific force is the acceleration of the frame's origin less gravity: at rest it points up, with 9.81
    m/s². It belongs to the last step. Before the first step the accelerations of independent joints are taken
    as zero, so that a rotating frame measures the centripetal part w² r and minus gravity; with constrained
    loops, the smallest that keep them closed are taken.
    """

    frame: str

    def columns(self, model: Model) -> tuple[str, ...]:
        model.frame(self.frame)
        return ("wx", "wy", "wz", "fx", "fy", "fz")

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        return context.evaluate(_inertial, model, context.q, context.v, context.a, frame=self.frame)


@dataclass(frozen=True)
class FramePose:
    """Position [m] and quaternion (x, y, z, w) of a frame in the world."""

    frame: str

    def columns(self, model: Model) -> tuple[str, ...]:
        model.frame(self.frame)
        return ("x", "y", "z", "qx", "qy", "qz", "qw")

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        return context.evaluate(_placed, model, context.q, frame=self.frame)


@dataclass(frozen=True)
class FrameVelocity:
    """Angular velocity [rad/s] and velocity [m/s] of a frame; `reference` as in `lw.frame_velocity`."""

    frame: str
    reference: str = "body"

    def columns(self, model: Model) -> tuple[str, ...]:
        normalize_frame(model, self.frame, self.reference)
        return ("wx", "wy", "wz", "vx", "vy", "vz")

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        return context.evaluate(
            frame_velocity, model, context.q, context.v, frame=self.frame, reference=self.reference
        )


@dataclass(frozen=True)
class JointPosition:
    """Coordinates of a joint, independent or not."""

    joint: str

    def columns(self, model: Model) -> tuple[str, ...]:
        return model.q_names[model.joint(self.joint).q_slice]

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        return context.q[:, model.joint(self.joint).q_slice]


@dataclass(frozen=True)
class JointVelocity:
    """Velocities of a joint, independent or not."""

    joint: str

    def columns(self, model: Model) -> tuple[str, ...]:
        return model.v_names_spanning[model.joint(self.joint).v_slice]

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        velocities = (
            context.evaluate(spanning_velocity, model, context.q, context.v) if model.embedded else context.v
        )
        return velocities[:, model.joint(self.joint).v_slice]


@dataclass(frozen=True)
class JointTorque:
    """Forces of the controller at a joint in the last step, of its independent velocities.

    Zero before the first step.
    """

    joint: str

    def columns(self, model: Model) -> tuple[str, ...]:
        return tuple(model.v_names[k] for k in self._indices(model))

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        return context.tau[:, self._indices(model)]

    def _indices(self, model: Model) -> list[int]:
        joint_names = set(model.v_names_spanning[model.joint(self.joint).v_slice])
        indices = [k for k, name in enumerate(model.v_names) if name in joint_names]
        if not indices:
            raise ModelError(
                f"JointTorque: {printable(self.joint)} is not independent, so no force acts there; "
                f"independent velocities: {', '.join(map(printable, model.v_names))}"
            )
        return indices


@dataclass(frozen=True)
class Clock:
    """Time [s]."""

    def columns(self, model: Model) -> tuple[str, ...]:
        return ("t",)

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        return np.full((len(context.q), 1), context.t)


@dataclass(frozen=True)
class ContactForce:
    """Sum of contact forces [N] on a body, or on the body of a frame, in the last step, in world axes."""

    body: str

    def columns(self, model: Model) -> tuple[str, ...]:
        model.frame(self.body)
        return ("x", "y", "z")

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        body = model.frame(self.body).body
        total = np.zeros((len(context.q), 3))
        for k, candidate in enumerate(context.candidates):
            assert context.forces is not None
            total += context.forces[:, k] * float((candidate.body == body) - (candidate.other == body))
        return total


_WITHOUT_CONTACT = (IMU, FramePose, FrameVelocity, JointPosition, JointVelocity, JointTorque, Clock)


class _Function:
    """Sensor that calls a function (q, v, t) of all states."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self._count: int | None = None  # readings of a state, known after the first

    def columns(self, model: Model) -> tuple[str, ...]:
        return tuple(map(str, range(self._count or 0)))

    def read(self, model: Model, context: SensorContext) -> np.ndarray:
        states = (x.reshape(*context.batch, x.shape[1]).copy() for x in (context.q, context.v))
        label = f"sensor {printable(self._name)}"
        readings = real_numbers("simulate", label, self._function(*states, context.t))
        if readings.shape[: len(context.batch)] != context.batch:
            raise ShapeError(
                f"simulate: {label}: expected leading dimensions {context.batch}, got shape {readings.shape}"
            )
        flat = readings.reshape(len(context.q), math.prod(readings.shape[len(context.batch) :]))
        if self._count not in (None, flat.shape[1]):
            raise ShapeError(
                f"simulate: {label}: expected {self._count} readings in every step, got {flat.shape[1]} at "
                f"{context.t:g} s"
            )
        self._count = flat.shape[1]
        return flat


_BUILTIN = (*_WITHOUT_CONTACT, ContactForce, _Function)


class SensorSet:
    """Sensors of a simulation by name."""

    def __init__(self, model: Model, sensors: Mapping[str, Any] | None, *, contacts: bool) -> None:
        self.model = model
        self._sensors = dict[str, Any]()
        if sensors is not None and not isinstance(sensors, Mapping):
            raise ModelError(
                f"simulate: sensors: expected a dict by name such as {{'imu': IMU('torso')}}, got "
                f"{type(sensors).__name__}"
            )
        for name, sensor in (sensors or {}).items():
            if isinstance(sensor, type) or not (isinstance(sensor, Sensor) or callable(sensor)):
                raise ModelError(
                    f"simulate: sensor {printable(name)}: expected a sensor or a function (q, v, t), got "
                    f"{sensor!r}"
                )
            if isinstance(sensor, ContactForce) and not contacts:
                raise ModelError(
                    f"simulate: sensor {printable(name)} measures contact forces: contacts= is missing"
                )
            self._sensors[str(name)] = sensor if isinstance(sensor, Sensor) else _Function(name, sensor)
            if isinstance(sensor, Sensor):
                _check_columns(model, str(name), sensor.columns(model))  # raises if it does not fit the model

    @property
    def touches(self) -> bool:
        """True if a sensor may read contact forces."""
        return any(not isinstance(x, (*_WITHOUT_CONTACT, _Function)) for x in self._sensors.values())

    def read(self, context: SensorContext) -> dict[str, np.ndarray]:
        """Return the readings of all sensors, (rows, columns) each."""
        return {name: self._readings(name, sensor, context) for name, sensor in self._sensors.items()}

    def _readings(self, name: str, sensor: Any, context: SensorContext) -> np.ndarray:
        x: np.ndarray = sensor.read(self.model, context)
        if isinstance(sensor, _BUILTIN):
            return x
        expected = (len(context.q), len(sensor.columns(self.model)))
        if np.shape(x) != expected:
            raise ShapeError(
                f"simulate: sensor {printable(name)}: expected readings of shape {expected}, got "
                f"{np.shape(x)}"
            )
        return x

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the numbers of each sensor."""
        return {name: sensor.columns(self.model) for name, sensor in self._sensors.items()}


def _check_columns(model: Model, name: str, columns: tuple[str, ...]) -> None:
    """Raise if columns of a sensor have the name of another column of the log."""
    states = {"q": model.q_names, "v": model.v_names, "a": model.v_names, "tau": model.v_names}
    taken = set(states.get(name, ()))
    for column in columns:
        if column in taken:
            raise ModelError(
                f"simulate: sensor {printable(name)}: the log has another column "
                f"{printable(f'{name}.{column}')!r}; rename the sensor"
            )
        taken.add(column)


def named(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    """Return the value of a name; raise with a suggestion if it is unknown."""
    if name not in known:
        raise ModelError(f"no {kind} named {printable(name)!r}{did_you_mean(name, known)}")
    return known[name]
