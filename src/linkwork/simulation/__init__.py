"""Motion over time: rollouts, simulations with controllers, sensors and events, and their logs."""

from linkwork.simulation.actuators import Controls
from linkwork.simulation.control import PD
from linkwork.simulation.events import Event
from linkwork.simulation.log import EventRecord, Log, State
from linkwork.simulation.rollout import rollout
from linkwork.simulation.rollout_result import Rollout
from linkwork.simulation.sensors import (
    IMU,
    Clock,
    ContactForce,
    FramePose,
    FrameVelocity,
    JointPosition,
    JointTorque,
    JointVelocity,
    Sensor,
    SensorContext,
)
from linkwork.simulation.status import Status

__all__ = [
    "IMU",
    "PD",
    "Clock",
    "ContactForce",
    "Controls",
    "Event",
    "EventRecord",
    "FramePose",
    "FrameVelocity",
    "JointPosition",
    "JointTorque",
    "JointVelocity",
    "Log",
    "Rollout",
    "Sensor",
    "SensorContext",
    "State",
    "Status",
    "rollout",
]
