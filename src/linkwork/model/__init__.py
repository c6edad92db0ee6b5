"""Models: frozen descriptions of mechanisms, created by a builder."""

from linkwork.mechanism import GROUND, WORLD, Body, Frame, PlacedJoint
from linkwork.mechanism.limits import Limits
from linkwork.model.builder import ModelBuilder
from linkwork.model.loop_joints import LoopJoint
from linkwork.model.model import Model, cached_on_model

__all__ = [
    "GROUND",
    "WORLD",
    "Body",
    "Frame",
    "Limits",
    "LoopJoint",
    "Model",
    "ModelBuilder",
    "PlacedJoint",
    "cached_on_model",
]
