"""Reflected rotor inertias of URDF transmissions, with the tags of Drake."""

from __future__ import annotations

from collections.abc import Mapping

from linkwork.formats.urdf_parts import MAX_VALUE, ONE, Notes
from linkwork.formats.xml import Element
from linkwork.mechanism.names import printable

GEAR = "drake:gear_ratio"
ROTOR = "drake:rotor_inertia"


def reflected_inertias(robot: Element, joints: Mapping[str, Element], notes: Notes) -> dict[str, float]:
    """Return the reflected inertia of each joint: Σ rotor inertia * gear ratio²."""
    inertias: dict[str, float] = {}
    for transmission in robot.all("transmission"):
        driven = [joint.attributes.get("name", "") for joint in transmission.all("joint")]
        for actuator in transmission.all("actuator"):
            rotor = actuator.one(ROTOR)
            gear = actuator.one(GEAR)
            inertia = 0.0 if rotor is None else rotor.number("value", largest=MAX_VALUE)
            if not inertia:
                continue
            assert rotor is not None
            if inertia < 0.0:
                raise rotor.error(f"rotor inertia: expected a non-negative number, got {inertia:g}")
            if (
                len(driven) != 1
                or driven[0] not in joints
                or joints[driven[0]].attributes.get("type") not in ONE
            ):
                message = (
                    "rotor inertia is ignored: the transmission does not drive exactly one joint with one DoF"
                )
                notes.lost(rotor, message, f"line {rotor.line}")
                continue
            ratio = 1.0 if gear is None else gear.number("value", largest=MAX_VALUE)
            inertias[driven[0]] = inertias.get(driven[0], 0.0) + inertia * ratio**2
            if inertias[driven[0]] > MAX_VALUE:
                raise rotor.error(
                    f"reflected inertia of joint {printable(driven[0])!r}: expected at most {MAX_VALUE:g}"
                )
    return inertias
