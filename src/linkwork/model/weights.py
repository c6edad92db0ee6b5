"""Compensated weights of bodies whose links have a `gravity_scale`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from linkwork.mechanism import GROUND, Body, WeightCompensation
from linkwork.spatial import Inertia, Pose


def of_scaled_links(
    bodies: Sequence[Body],
    poses: Mapping[str, tuple[int, Pose]],
    links: Mapping[str, Inertia],
    scales: Mapping[str, float],
) -> list[WeightCompensation]:
    """Return the compensations of bodies with scaled links.

    `poses` are bodies and poses of links, and `links` their inertias; links without a scale have 1.
    """
    compensations = []
    for k in sorted({poses[link][0] for link in scales} - {GROUND}):
        heavy = [link for link in bodies[k].links if links[link].mass]
        fractions = {link: 1.0 - scales.get(link, 1.0) for link in heavy}
        if len({*fractions.values()}) == 1:
            compensations.append(WeightCompensation(k, fractions[heavy[0]]))
        elif heavy:
            compensations.append(_of_parts(k, fractions, poses, links))
    return compensations


def _of_parts(
    body: int,
    fractions: Mapping[str, float],
    poses: Mapping[str, tuple[int, Pose]],
    links: Mapping[str, Inertia],
) -> WeightCompensation:
    """Return the compensation of a body whose links differ."""
    mass = 0.0
    h = np.zeros(3)
    for link, fraction in fractions.items():
        part = poses[link][1].congruence(links[link])
        mass += fraction * float(part.mass or 0.0)
        h += fraction * np.asarray(part.h, dtype=float)
    return WeightCompensation(body, mass=mass, first_moment=tuple(h.tolist()))
