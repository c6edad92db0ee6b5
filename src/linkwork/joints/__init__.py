"""Joints: one frozen class per kind and file, all with the interface of `Joint`."""

from linkwork.joints.cylindrical import Cylindrical
from linkwork.joints.fixed import Fixed
from linkwork.joints.free import Free
from linkwork.joints.gimbal import Gimbal
from linkwork.joints.helical import Helical
from linkwork.joints.joint import Joint
from linkwork.joints.planar import Planar
from linkwork.joints.prismatic import Prismatic
from linkwork.joints.revolute import Revolute
from linkwork.joints.rod import PointOnLine, Rod
from linkwork.joints.spherical import Spherical
from linkwork.joints.universal import Universal

__all__ = [
    "Cylindrical",
    "Fixed",
    "Free",
    "Gimbal",
    "Helical",
    "Joint",
    "Planar",
    "PointOnLine",
    "Prismatic",
    "Revolute",
    "Rod",
    "Spherical",
    "Universal",
]
