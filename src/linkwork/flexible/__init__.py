"""Flexible bodies with small deformations in assumed modes: finite-element beams and modal data."""

from linkwork.flexible.beam import beam, natural_frequencies
from linkwork.flexible.body import FlexibleBody
from linkwork.flexible.nodal import from_nodes
from linkwork.flexible.npz import load, save
from linkwork.flexible.sections import ALUMINIUM, STEEL, Circle, General, Material, Rectangle, Tube

__all__ = [
    "ALUMINIUM",
    "STEEL",
    "Circle",
    "FlexibleBody",
    "General",
    "Material",
    "Rectangle",
    "Tube",
    "beam",
    "from_nodes",
    "load",
    "natural_frequencies",
    "save",
]
