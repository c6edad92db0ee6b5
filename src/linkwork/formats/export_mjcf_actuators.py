"""MuJoCo actuators of type general, with gain, bias and dynamics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from linkwork.formats.export_checks import Losses
from linkwork.formats.export_text import Names, Tag
from linkwork.joints import Free, Helical, Prismatic, Revolute, Spherical
from linkwork.mechanism import Actuator
from linkwork.mechanism.actuator_laws import is_on_spatial_tendon
from linkwork.model import Model

GAINS = ("fixed", "affine", "muscle")
BIASES = ("none", "affine", "muscle")
DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle")
NO_LIMIT = 1e10  # an infinite limit whose counterpart is finite
GEARS = 6


def add_actuators(
    into: Tag,
    tendons: Tag,
    model: Model,
    losses: Losses,
    names: Names,
    sites: Mapping[str, str],
    spatial: Mapping[str, str],
) -> list[int]:
    """Add all actuators and return their indices; those that MuJoCo would simulate differently are lost.

    `sites` and `spatial` are the names in the file of sites and spatial tendons.
    """
    written = []
    for k, actuator in enumerate(model.actuators):
        problem = _problem(actuator, model, sites)
        if problem:
            losses.lose("actuators", f"actuator {actuator.name!r}: {problem}")
            continue
        into.add(
            "general",
            name=names.new("actuator", actuator.name),
            **_drives(actuator, tendons, names, sites, spatial),
            **_law(actuator),
        )
        written.append(k)
    return written


def _problem(actuator: Actuator, model: Model, sites: Mapping[str, str]) -> str:
    """Return why an actuator cannot be exported; "" if it can."""
    kind = actuator.transmission
    joints = [name for name, _ in actuator.joints]
    for word, known in (("gain", GAINS), ("bias", BIASES), ("dynamics", DYNAMICS)):
        if getattr(actuator, word)[0] not in known:
            return f"{word} {getattr(actuator, word)[0]!r} has parameters that the model does not store"
    if actuator.unread:
        return f"{actuator.unread} is not stored in the model"
    if not actuator.enabled:
        return "disabled"
    if kind in ("joint", "jointinparent", "tendon"):
        kinds = {joint.name: type(joint.kind) for joint in model.joints}
        if kind != "tendon" and not joints and kinds.get(actuator.target) in (Spherical, Free):
            return ""
        if is_on_spatial_tendon(actuator) and any(t.name == actuator.target for t in model.tendons):
            return ""
        if not joints:
            return f"{kind} {actuator.target!r}: only its name is stored in the model"
        odd = next((name for name in joints if kinds.get(name) not in (Revolute, Prismatic, Helical)), None)
        if odd is not None:
            return f"expected joints with one DoF, got {odd!r}"
        return "" if kind == "tendon" or len(joints) == 1 else "drives several joints without a tendon"
    if kind == "site" and actuator.target in sites and actuator.reference in ("", *sites):
        return ""
    return f"{kind} {actuator.target!r}: only its name is stored in the model"


def _drives(
    actuator: Actuator, tendons: Tag, names: Names, sites: Mapping[str, str], spatial: Mapping[str, str]
) -> dict[str, Any]:
    """Return the target of an actuator: a joint, a fixed tendon of joints, a spatial one, or a site."""
    gear = list(actuator.gear[:GEARS])
    if actuator.transmission == "site":
        return {"site": sites[actuator.target], "refsite": sites.get(actuator.reference), "gear": gear}
    if is_on_spatial_tendon(actuator):
        return {"tendon": spatial[actuator.target], "gear": gear}
    if actuator.transmission != "tendon" and not actuator.joints:
        return {actuator.transmission: actuator.target, "gear": gear}
    if actuator.transmission != "tendon":
        ((joint, ratio),) = actuator.joints
        return {actuator.transmission: joint, "gear": [ratio, *gear[1:]]}
    tendon = names.new("tendon", actuator.target or actuator.name)
    fixed = tendons.add("fixed", name=tendon)
    factor = gear[0] if gear and gear[0] else 1.0
    for joint, ratio in actuator.joints:
        fixed.add("joint", joint=joint, coef=ratio / factor)
    return {"tendon": tendon, "gear": [factor, *gear[1:]]}


def _law(actuator: Actuator) -> dict[str, Any]:
    """Return ranges, gain, bias and dynamics."""
    words: dict[str, Any] = {}
    ranges = {"ctrl": actuator.control_range, "force": actuator.force_range, "act": actuator.activation_range}
    for word, (low, high) in ranges.items():
        words[f"{word}limited"] = limited = math.isfinite(low) or math.isfinite(high)
        words[f"{word}range"] = (max(low, -NO_LIMIT), min(high, NO_LIMIT)) if limited else None
    if words["actlimited"] is False:
        # Only general actuators with dynamics may have these.
        del words["actlimited"]
        del words["actrange"]
    for word, (kind, parameters) in (
        ("gain", actuator.gain),
        ("bias", actuator.bias),
        ("dyn", actuator.dynamics),
    ):
        if kind == "affine" and len(parameters) > 1:  # MuJoCo measures lengths from coordinates 0
            parameters = (parameters[0] + parameters[1] * actuator.length, *parameters[1:])
        words |= {f"{word}type": kind, f"{word}prm": parameters or None}
    if any(actuator.length_range):
        words["lengthrange"] = tuple(x - actuator.length for x in actuator.length_range)
    return words
