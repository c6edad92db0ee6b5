"""Inertias for MuJoCo: positive principal moments that satisfy the triangle inequality."""

from __future__ import annotations

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.export_text import Tag
from linkwork.mechanism import Body
from linkwork.spatial import Pose
from linkwork.spatial.rotation import of_matrix

MIN_INERTIA = 1e-15  # mjMINVAL [kg, kg m²], MuJoCo's minimum for moving bodies
TRIANGLE_TOL = 1e-12  # of the triangle inequality, relative to the largest principal moment


def inertial(tag: Tag, body: Body) -> None:
    """Add the <inertial> of a body; raise ModelError if MuJoCo would reject it."""
    moments, axes = np.linalg.eigh(body.moment)
    a, b, c = (float(x) for x in moments)
    if not (body.mass > MIN_INERTIA and a > MIN_INERTIA):
        raise ModelError(
            f"body {body.name!r}: MuJoCo requires mass and principal moments above {MIN_INERTIA:g} of moving "
            f"bodies, got {body.mass:g} kg and {a:g} kg m²"
        )
    if c > (a + b) * (1.0 + TRIANGLE_TOL):
        raise ModelError(
            f"body {body.name!r}: principal moment {c:g} kg m² exceeds the sum of the others, {a:g} and "
            f"{b:g}: not physically consistent"
        )
    words = {"pos": body.center, "mass": body.mass}
    if np.count_nonzero(body.moment - np.diag(np.diag(body.moment))) == 0:
        x, y, z = np.diag(body.moment)
        tag.add("inertial", **words, diaginertia=(x, y, z) if c <= a + b else np.minimum((x, y, z), a + b))
        return
    R = axes * np.sign(np.linalg.det(axes))
    x, y, z, w = (float(part) for part in of_matrix(Pose(R, np.zeros(3)).R))
    tag.add("inertial", **words, quat=(w, x, y, z), diaginertia=(a, b, min(c, a + b)))
