"""Export of spatial tendons, and of joints that represent fixed ones (see `mjcf_tendons`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from linkwork.formats.export_checks import Losses
from linkwork.formats.export_text import Names, Tag
from linkwork.formats.mjcf_names import tendon_joint
from linkwork.joints import Prismatic
from linkwork.mechanism import Around, Coupling, End
from linkwork.model import GROUND, Model, PlacedJoint
from linkwork.spatial import Pose

NO_LIMIT = 1e10  # an infinite limit whose counterpart is finite
PREFIX = tendon_joint("")
FROM_SPRINGS = -1.0  # a spring length that means none in MuJoCo


def tendons_of(model: Model) -> dict[int, Coupling]:
    """Return the couplings of joints that represent tendons, by joint: massless prismatic followers."""
    couplings = {loop.name: loop for loop in model.loops if isinstance(loop, Coupling) and loop.offset == 0.0}
    used = {joint.parent for joint in model.joints} | {shape.body for shape in model.geometries}
    used |= {end.body for loop in model.loops for end in loop.ends}
    for loop in model.loops:
        used |= {
            k
            for k in loop.bodies
            if k != GROUND
            and _represents_tendon(model, k)
            and couplings.get(model.joints[k].name) is not loop
        }
    used |= {
        frame.body
        for frame in model.frames
        if frame.body != GROUND and frame.name != model.bodies[frame.body].name
    }
    tendons = {}
    for joint in model.joints:
        coupling = couplings.get(joint.name)
        body = model.bodies[joint.child]
        if coupling is None or joint.child in used or not _represents_tendon(model, joint.child):
            continue
        own_factors = [factor for k, _, factor in coupling.terms if k == joint.child]
        if (
            body.mass == 0.0
            and not np.any(body.moment)
            and len(own_factors) == 1
            and len(coupling.terms) > 1
            and _is_plain(joint)
        ):
            tendons[joint.child] = coupling
    return tendons


def _represents_tendon(model: Model, k: int) -> bool:
    joint = model.joints[k]
    return joint.name.startswith(PREFIX) and isinstance(joint.kind, Prismatic) and joint.parent == GROUND


def _is_plain(joint: PlacedJoint) -> bool:
    """Return True if a joint has only properties that a tendon supports."""
    return joint.max_velocity == (math.inf,) and joint.max_effort == (math.inf,) and joint.lower < joint.upper


def _in_one_chain(model: Model, bodies: list[int]) -> bool:
    """Return True if each of the joints of some bodies carries the next one."""
    body = max(bodies)
    above = {body}
    while body != GROUND:
        body = model.joints[body].parent
        above.add(body)
    return above.issuperset(bodies)


def add_tendons(into: Tag, model: Model, tendons: dict[int, Coupling], names: Names, losses: Losses) -> None:
    """Add the tendons."""
    for k, coupling in tendons.items():
        joint = model.joints[k]
        own_factor = next(factor for at, _, factor in coupling.terms if at == k)
        low = joint.lower[0]
        high = joint.upper[0]
        limited = math.isfinite(low) or math.isfinite(high)
        spring_length = (
            joint.rest[0] if joint.rest[0] != FROM_SPRINGS else float(np.nextafter(FROM_SPRINGS, 0.0))
        )
        armature = joint.armature[0]
        if armature and not _in_one_chain(model, [at for at, _, _ in coupling.terms if at != k]):
            message = "armature couples joints of different branches here, but not in MuJoCo"
            losses.lose("armature", f"tendon {joint.name.removeprefix(PREFIX)!r}: {message}")
            armature = 0.0
        tendon = into.add(
            "fixed",
            name=names.new("tendon", joint.name.removeprefix(PREFIX)),
            stiffness=joint.stiffness[0] or None,
            springlength=(spring_length, spring_length) if joint.stiffness[0] else None,
            damping=joint.damping[0] or None,
            frictionloss=joint.friction[0] or None,
            armature=armature or None,
            limited=limited,
            range=(max(low, -NO_LIMIT), min(high, NO_LIMIT)) if limited else None,
        )
        for at, _, factor in coupling.terms:
            if at != k:
                tendon.add("joint", joint=model.joints[at].name, coef=-factor / own_factor)


def add_spatial_tendons(
    into: Tag,
    model: Model,
    names: Names,
    add_site: Callable[[End, str], str],
    add_geom: Callable[[Around, str], str],
) -> dict[str, str]:
    """Add spatial tendons, with sites and shapes on their paths; return the names of tendons in the file."""
    called = {}
    for tendon in model.tendons:
        called[tendon.name] = names.new("tendon", tendon.name)
        low, high = tendon.range
        spatial = into.add(
            "spatial",
            name=called[tendon.name],
            stiffness=tendon.stiffness or None,
            damping=tendon.damping or None,
            frictionloss=tendon.friction or None,
            limited=tendon.limited,
            range=(max(low, -NO_LIMIT), min(high, NO_LIMIT)) if tendon.limited else None,
            springlength=tuple(
                x if x != FROM_SPRINGS else float(np.nextafter(FROM_SPRINGS, 0.0)) for x in tendon.rest
            ),
        )
        for k, (divisor, points) in enumerate(tendon.branches):
            if k or divisor != 1.0:
                spatial.add("pulley", divisor=divisor)
            for point in points:
                if isinstance(point, Around):
                    geom = add_geom(point, f"{tendon.name} shape")
                    beside = _end(point.body, point.side) if point.side else None
                    side = None if beside is None else add_site(beside, f"{tendon.name} side")
                    spatial.add("geom", geom=geom, sidesite=side)
                else:
                    spatial.add("site", site=add_site(_end(*point), f"{tendon.name} point"))
    return called


def _end(body: int, position: tuple[float, ...]) -> End:
    return End(body, Pose.translation(np.array(position)))
