"""The parts of mechanisms, as frozen values: bodies, joints, frames, and loop constraints."""

from linkwork.parts.attached import Actuator, ContactPair, Geometry, Keyframe, Named
from linkwork.parts.implicit import ImplicitConstraint
from linkwork.parts.loops import Coupling, End, Loop, LoopConstraint
from linkwork.parts.mechanism import Mechanism
from linkwork.parts.tree import GROUND, WORLD, Body, Frame, PlacedJoint, path_to_ground

__all__ = [
    "GROUND",
    "WORLD",
    "Actuator",
    "Body",
    "ContactPair",
    "Coupling",
    "End",
    "Frame",
    "Geometry",
    "ImplicitConstraint",
    "Keyframe",
    "Loop",
    "LoopConstraint",
    "Mechanism",
    "Named",
    "PlacedJoint",
    "path_to_ground",
]
