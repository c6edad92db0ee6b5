"""Models: frozen descriptions of mechanisms, put together by a builder, and told by a report."""

from linkwork.model.builder import ModelBuilder
from linkwork.model.model import Model, derived
from linkwork.parts import GROUND, WORLD, Body, Frame, PlacedJoint
from linkwork.parts.limits import Limits

__all__ = ["GROUND", "WORLD", "Body", "Frame", "Limits", "Model", "ModelBuilder", "PlacedJoint", "derived"]
