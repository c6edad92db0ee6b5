"""Models: frozen descriptions of mechanisms, made by a builder, and summarised by a report."""

from linkwork.model.builder import ModelBuilder
from linkwork.model.loop_joints import LoopJoint
from linkwork.model.model import Model, derived
from linkwork.parts import GROUND, WORLD, Body, Frame, PlacedJoint
from linkwork.parts.limits import Limits

__all__ = ["GROUND", "WORLD", "Body", "Frame", "Limits", "LoopJoint", "Model", "ModelBuilder", "PlacedJoint", "derived"]
