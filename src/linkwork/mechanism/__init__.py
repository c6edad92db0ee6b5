"""The parts of mechanisms, as frozen values: bodies, joints, frames, and loop constraints."""

from linkwork.mechanism.attached import Actuator, ContactPair, Geometry, Keyframe, Named
from linkwork.mechanism.body_loads import Around, SpatialTendon, WeightCompensation, Wrap
from linkwork.mechanism.couplings import Coupling
from linkwork.mechanism.implicit import ImplicitConstraint
from linkwork.mechanism.loops import End, Loop, LoopConstraint
from linkwork.mechanism.mechanism import Mechanism
from linkwork.mechanism.tree import GROUND, WORLD, Body, Frame, PlacedJoint, path_to_ground

__all__ = [
    "GROUND",
    "WORLD",
    "Actuator",
    "Around",
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
    "SpatialTendon",
    "WeightCompensation",
    "Wrap",
    "path_to_ground",
]
