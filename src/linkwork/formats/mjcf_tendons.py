"""Tendons of MJCF.

The length of a fixed tendon is a sum of coordinates. A massless prismatic joint that is coupled to that sum
takes the tendon's stiffness, damping, friction, armature and limits, and is a joint like any other to all
functions. Spatial tendons become those of a model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linkwork.formats.mjcf_chains import is_coupled, is_one_chain
from linkwork.formats.mjcf_names import tendon_joint
from linkwork.formats.mjcf_reader import BY_TENDON, Reader, place_of, unlimited
from linkwork.joints import Prismatic
from linkwork.mechanism import Wrap
from linkwork.mechanism.names import printable
from linkwork.model import WORLD

# mjtWrap
WRAPS_PULLEY = 2
WRAPS_SITE = 3
WRAPS_CYLINDER = 5
NO_LIMITS = (-math.inf, math.inf)
FLAGS = {"stiffness": "spring", "damping": "damper", "limited": "limit", "frictionloss": "frictionloss"}


def add_tendons(reader: Reader) -> None:
    """Add all tendons; what is not supported of them is noted."""
    tendons = reader.compiled.names["tendon"]
    for k, name in enumerate(tendons):
        words = _acting(reader, k)
        called = name or f"tendon{k}"
        of = f"tendon {printable(called)!r}"
        if not reader.fixed_tendon(k):
            _add_spatial(reader, k, called, words, of)
            continue
        if not words:
            continue
        terms: dict[str, float] = {}
        for j, factor in reader.fixed_tendon(k):
            terms[reader.joints[j]] = terms.get(reader.joints[j], 0.0) + factor
        if any(terms.values()):
            _add(reader, k, tendon_joint(called), terms, words, of)


def _add_spatial(reader: Reader, k: int, name: str, values_by_name: dict[str, float], of: str) -> None:
    """Add a spatial tendon through sites and pulleys, and around geoms."""
    c = reader.compiled
    branches: list[tuple[float, list[Any]]] = [(1.0, [])]
    for w in range(int(c.tendon_adr[k]), int(c.tendon_adr[k]) + int(c.tendon_num[k])):
        type_ = int(c.wrap_type[w])
        if type_ == WRAPS_PULLEY:
            branches.append((float(c.wrap_prm[w]), []))
        elif type_ == WRAPS_SITE:
            site = int(c.wrap_objid[w])
            link = reader.links[int(c.site_bodyid[site])]
            branches[-1][1].append((link, c.site_pos[site].tolist()))
        else:
            wrap = _wrap(reader, w)
            if wrap is None:
                reader.notes.missing(
                    "a tendon with a sidesite inside of a geom is not supported and ignored", of
                )
                return
            branches[-1][1].append(wrap)
    reader.spatial_tendons.add(k)
    for word in ("armature", "dampingpoly", "stiffnesspoly", "springyield"):
        if word in values_by_name:
            reader.notes.missing(f"{word} of spatial tendons is not supported and ignored", of)
    low, high = (float(x) for x in c.tendon_lengthspring[k])
    limits = [unlimited(float(x)) for x in c.tendon_range[k]] if "limited" in values_by_name else NO_LIMITS
    reader.builder.add_tendon(
        name,
        branches=[(divisor, points) for divisor, points in branches if len(points) > 1],
        stiffness=values_by_name.get("stiffness", 0.0),
        damping=values_by_name.get("damping", 0.0),
        rest=(low, high),
        range=limits,
        friction=values_by_name.get("frictionloss", 0.0),
    )


def _wrap(reader: Reader, w: int) -> Wrap | None:
    """Return the shape of a wrap, None if its sidesite is inside of it or on another body."""
    c = reader.compiled
    geom = int(c.wrap_objid[w])
    body = int(c.geom_bodyid[geom])
    place = place_of(c.geom_pos[geom], c.geom_quat[geom])
    axis = tuple(place.R[:, 2].tolist()) if int(c.wrap_type[w]) == WRAPS_CYLINDER else ()
    radius = float(c.geom_size[geom][0])
    site = int(c.wrap_prm[w])
    side: tuple[float, ...] = ()
    if site >= 0:
        side = tuple(c.site_pos[site].tolist())
        if int(c.site_bodyid[site]) != body or math.dist(side, place.p) < radius:
            return None
    return Wrap(reader.links[body], radius, tuple(place.p.tolist()), axis, side)


def _acting(reader: Reader, k: int) -> dict[str, float]:
    """Return the properties of a tendon that act and are not disabled."""
    c = reader.compiled
    values_by_name = {}
    for word in ("stiffness", "damping", "frictionloss", "armature", "limited"):
        values = c.optional(f"tendon_{word}")
        if len(values) and values[k] and reader.acts(FLAGS.get(word, word)):
            values_by_name[word] = float(values[k])
    for word, flag in (("dampingpoly", "damper"), ("stiffnesspoly", "spring"), ("springyield", "spring")):
        values = c.optional(f"tendon_{word}")
        if len(values) and np.any(values[k]) and np.isfinite(values[k]).all() and reader.acts(flag):
            values_by_name[word] = 0.0
    motors = [a for a in range(len(c.names["actuator"])) if _drives(reader, a, k)]
    armature = c.optional("actuator_armature")
    added = {"damping": sum(reader.motor_damping(a) for a in motors)}
    if len(armature) and is_coupled(c, reader.fixed_tendon(k)):
        added["armature"] = sum(float(armature[a]) * float(c.actuator_gear[a][0]) ** 2 for a in motors)
    for word, value in added.items():
        if value:
            values_by_name[word] = values_by_name.get(word, 0.0) + value
    return values_by_name


def _drives(reader: Reader, actuator: int, tendon: int) -> bool:
    c = reader.compiled
    return int(c.actuator_trntype[actuator]) == BY_TENDON and int(c.actuator_trnid[actuator][0]) == tendon


def _add(
    reader: Reader, k: int, joint: str, terms: dict[str, float], values_by_name: dict[str, float], of: str
) -> None:
    c = reader.compiled
    # Its length in qpos0.
    zero = sum(factor * float(c.qpos0[c.jnt_qposadr[j]]) for j, factor in reader.fixed_tendon(k))
    options: dict[str, Any] = {
        "damping": values_by_name.get("damping", 0.0),
        "friction": values_by_name.get("frictionloss", 0.0),
        "armature": values_by_name.get("armature", 0.0),
    }
    if options["armature"] and not is_one_chain(c, reader.fixed_tendon(k)):
        message = "armature of a tendon couples joints of different branches here, but not in MuJoCo"
        reader.notes.add(message, of)
    if "stiffness" in values_by_name:
        low, high = (float(x) for x in c.tendon_lengthspring[k])
        if low == high:
            options |= {"stiffness": values_by_name["stiffness"], "rest": low - zero}
        else:
            reader.notes.missing(
                "tendon spring with a slack range is not supported and ignored",
                of,
            )
    if "limited" in values_by_name:
        low, high = (unlimited(float(x)) - zero for x in c.tendon_range[k])
        options |= {"lower": low, "upper": high}
    for word in ("dampingpoly", "stiffnesspoly", "springyield"):
        if word in values_by_name:
            reader.notes.missing(f"{word} of tendons is not supported and ignored", of)
    if (
        not any(options.get(word) for word in ("damping", "friction", "armature", "stiffness"))
        and "lower" not in options
    ):
        return
    name = reader.new_name(joint)
    reader.tendon_joints[k] = name
    reader.builder.add_body(name)
    reader.builder.add_joint(
        name, Prismatic((1.0, 0.0, 0.0)), parent=WORLD, child=name, independent=False, **options
    )
    reader.builder.add_coupling(name, {name: -1.0, **terms}, embed=True)
