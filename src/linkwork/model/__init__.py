"""Models: frozen descriptions of mechanisms, put together by a builder, and the nodes that algorithms are written on."""

from linkwork.model.builder import ModelBuilder
from linkwork.model.limits import Limits
from linkwork.model.model import Model
from linkwork.model.nodes import Node, Nodes
from linkwork.model.parts import GROUND, WORLD, Body, Frame, PlacedJoint

__all__ = ["GROUND", "WORLD", "Body", "Frame", "Limits", "Model", "ModelBuilder", "Node", "Nodes", "PlacedJoint"]
