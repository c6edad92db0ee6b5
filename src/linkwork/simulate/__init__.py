"""Motion over time: rollouts of many states at once, and simulations with controllers, sensors and events, into logs.

The room itself can be called: `lw.simulate(model, q, v, duration)` is a simulation.
"""

import sys
from types import ModuleType

import linkwork.simulate.exported  # noqa: F401  (which tells `export_c` of rollouts)
from linkwork.simulate.control import PD
from linkwork.simulate.events import Event
from linkwork.simulate.log import Log, Occurrence, State
from linkwork.simulate.rollout import Rollout, rollout
from linkwork.simulate.sensors import (
    IMU,
    Clock,
    ContactForce,
    FramePose,
    FrameVelocity,
    JointPosition,
    JointTorque,
    JointVelocity,
    Moment,
    Sensor,
)
from linkwork.simulate.simulation import simulate
from linkwork.simulate.status import Status

__all__ = [
    "IMU",
    "PD",
    "Clock",
    "ContactForce",
    "Event",
    "FramePose",
    "FrameVelocity",
    "JointPosition",
    "JointTorque",
    "JointVelocity",
    "Log",
    "Moment",
    "Occurrence",
    "Rollout",
    "Sensor",
    "State",
    "Status",
    "rollout",
    "simulate",
]


class _Room(ModuleType):
    __call__ = staticmethod(simulate)


sys.modules[__name__].__class__ = _Room
