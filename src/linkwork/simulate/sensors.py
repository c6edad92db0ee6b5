"""Sensors of a simulation: what can be measured at a moment, up to the step that led to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.functions.kinematics import chosen_frame, frame_acceleration, frame_pose, frame_velocity
from linkwork.functions.model_function import model_function
from linkwork.functions.states import spanning_velocity
from linkwork.model import Model
from linkwork.parts.names import did_you_mean, shown
from linkwork.spatial import rotation


@dataclass(frozen=True)
class Moment:
    """States at a time t [s], and what the step before was like; arrays of rows.

    `a` is the mean acceleration of that step and `tau` the joint forces in it; both are zero before the first step. `forces`,
    (rows, candidates, 3), are contact forces on the first body of each candidate, in the world's axes [N].
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

    def asked(self, function: Any, model: Model, *arrays: np.ndarray, **options: Any) -> np.ndarray:
        """What a function of the model gives, with the parameters of the simulation."""
        more = {"parameters": dict(self.parameters)} if self.parameters else {}
        return np.asarray(function(model, *arrays, **options, **more))


@runtime_checkable
class Sensor(Protocol):
    """What a sensor must have; those of your own may be any object like this, or a function (q, v, t) of all states."""

    def columns(self, model: Model) -> tuple[str, ...]:
        """The names of its numbers."""

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        """What it says, (rows, columns)."""


@model_function(q="nq", v="nv", a="nv", options=chosen_frame)
def _inertial(model: Model, q: Any, v: Any, a: Any, *, frame: str) -> Any:
    """Angular velocity [rad/s] and specific force [m/s²] of a frame in its own axes, (..., 6)."""
    R = frame_pose(model, q, frame=frame)[:3, :3]
    spin = frame_velocity(model, q, v, frame=frame)[:3]
    felt = frame_acceleration(model, q, v, a, frame=frame, classical=True)[3:] - R.T @ np.array(model.gravity, dtype=object)
    return np.array([*spin, *felt], dtype=object)


@model_function(q="nq", options=chosen_frame)
def _placed(model: Model, q: Any, *, frame: str) -> Any:
    """Position [m] and quaternion (x, y, z, w) of a frame in the world, (..., 7)."""
    pose = frame_pose(model, q, frame=frame)
    return np.array([*pose[:3, 3], *rotation.of_matrix(pose[:3, :3])], dtype=object)


@dataclass(frozen=True)
class IMU:
    """A gyroscope and an accelerometer: angular velocity [rad/s] and specific force [m/s²] of a frame, in its own axes.

    The specific force is the acceleration of the frame's origin less gravity: at rest it points up, with 9.81 m/s². It is
    that of the last step; before the first one, that of rest.
    """

    frame: str

    def columns(self, model: Model) -> tuple[str, ...]:
        model.frame(self.frame)
        return ("wx", "wy", "wz", "fx", "fy", "fz")

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        return moment.asked(_inertial, model, moment.q, moment.v, moment.a, frame=self.frame)


@dataclass(frozen=True)
class FramePose:
    """Position [m] and quaternion (x, y, z, w) of a frame in the world."""

    frame: str

    def columns(self, model: Model) -> tuple[str, ...]:
        model.frame(self.frame)
        return ("x", "y", "z", "qx", "qy", "qz", "qw")

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        return moment.asked(_placed, model, moment.q, frame=self.frame)


@dataclass(frozen=True)
class FrameVelocity:
    """Angular velocity [rad/s] and velocity [m/s] of a frame; `reference` as in `lw.frame_velocity`."""

    frame: str
    reference: str = "body"

    def columns(self, model: Model) -> tuple[str, ...]:
        chosen_frame(model, self.frame, self.reference)
        return ("wx", "wy", "wz", "vx", "vy", "vz")

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        return moment.asked(frame_velocity, model, moment.q, moment.v, frame=self.frame, reference=self.reference)


@dataclass(frozen=True)
class JointPosition:
    """The coordinates of a joint, independent or not."""

    joint: str

    def columns(self, model: Model) -> tuple[str, ...]:
        return model.q_names[model.joint(self.joint).q_slice]

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        return moment.q[:, model.joint(self.joint).q_slice]


@dataclass(frozen=True)
class JointVelocity:
    """The velocities of a joint, independent or not."""

    joint: str

    def columns(self, model: Model) -> tuple[str, ...]:
        return model.v_names_spanning[model.joint(self.joint).v_slice]

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        every = moment.asked(spanning_velocity, model, moment.q, moment.v) if model.embedded else moment.v
        return every[:, model.joint(self.joint).v_slice]


@dataclass(frozen=True)
class JointTorque:
    """The forces of the controller at a joint in the last step, of those that are independent; zero before the first one."""

    joint: str

    def columns(self, model: Model) -> tuple[str, ...]:
        return tuple(model.v_names[k] for k in self._places(model))

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        return moment.tau[:, self._places(model)]

    def _places(self, model: Model) -> list[int]:
        own = set(model.v_names_spanning[model.joint(self.joint).v_slice])
        places = [k for k, name in enumerate(model.v_names) if name in own]
        if not places:
            raise ModelError(
                f"JointTorque: {shown(self.joint)} depends on other joints, and no force acts there; independent are "
                f"{', '.join(map(shown, model.v_names))}"
            )
        return places


@dataclass(frozen=True)
class Clock:
    """The time [s]."""

    def columns(self, model: Model) -> tuple[str, ...]:
        return ("t",)

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        return np.full((len(moment.q), 1), moment.t)


@dataclass(frozen=True)
class ContactForce:
    """The sum of contact forces [N] on a body or a frame's body in the last step, in the world's axes."""

    body: str

    def columns(self, model: Model) -> tuple[str, ...]:
        model.frame(self.body)
        return ("x", "y", "z")

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        own, found = model.frame(self.body).body, np.zeros((len(moment.q), 3))
        for k, candidate in enumerate(moment.candidates):
            assert moment.forces is not None
            found += moment.forces[:, k] * float((candidate.body == own) - (candidate.other == own))
        return found


_WITHOUT_CONTACT = (IMU, FramePose, FrameVelocity, JointPosition, JointVelocity, JointTorque, Clock)


class _Function:
    """A function (q, v, t) of all states as a sensor."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function, self._count = name, function, 0

    def columns(self, model: Model) -> tuple[str, ...]:
        return tuple(map(str, range(self._count)))

    def read(self, model: Model, moment: Moment) -> np.ndarray:
        states = (x.reshape(*moment.batch, x.shape[1]).copy() for x in (moment.q, moment.v))
        said = np.asarray(self._function(*states, moment.t), dtype=float)
        if said.shape[: len(moment.batch)] != moment.batch:
            raise ShapeError(f"simulate: what sensor {shown(self._name)} says has shape {said.shape}, not {moment.batch} first")
        flat = said.reshape(len(moment.q), -1)
        self._count = flat.shape[1]
        return flat


class Suite:
    """All sensors of a simulation, by name."""

    def __init__(self, model: Model, given: Mapping[str, Any] | None, *, contacts: bool) -> None:
        self.model, self._sensors = model, dict[str, Any]()
        if given is not None and not isinstance(given, Mapping):
            raise ModelError(f"simulate: sensors are given by name: {{'imu': IMU('torso')}}, not as {type(given).__name__}")
        for name, sensor in (given or {}).items():
            if isinstance(sensor, type) or not (isinstance(sensor, Sensor) or callable(sensor)):
                raise ModelError(f"simulate: sensor {shown(name)} must be a sensor or a function (q, v, t), not {sensor!r}")
            if isinstance(sensor, ContactForce) and not contacts:
                raise ModelError(f"simulate: sensor {shown(name)} measures contact, and no contacts= are given")
            self._sensors[str(name)] = sensor if isinstance(sensor, Sensor) else _Function(name, sensor)
            if isinstance(sensor, Sensor):
                sensor.columns(model)  # which says what is wrong with it

    @property
    def touches(self) -> bool:
        """Whether a sensor may ask for contact forces."""
        return any(not isinstance(x, (*_WITHOUT_CONTACT, _Function)) for x in self._sensors.values())

    def read(self, moment: Moment) -> dict[str, np.ndarray]:
        """What all say, (rows, columns) each."""
        return {name: sensor.read(self.model, moment) for name, sensor in self._sensors.items()}

    def columns(self) -> dict[str, tuple[str, ...]]:
        """The names of their numbers."""
        return {name: sensor.columns(self.model) for name, sensor in self._sensors.items()}


def named(what: str, name: str, known: Mapping[str, Any]) -> Any:
    """What has a name; an error with a hint where nothing does."""
    if name not in known:
        raise ModelError(f"there is no {what} named {shown(name)!r}{did_you_mean(name, known)}")
    return known[name]
