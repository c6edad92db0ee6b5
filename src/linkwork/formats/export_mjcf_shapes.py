"""MJCF assets of shapes (hulls, height fields) and contact pairs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from linkwork.formats.export_text import Tag
from linkwork.mechanism import Geometry
from linkwork.model import Model
from linkwork.spatial import Pose


def sizes(shape: Geometry) -> list[float] | None:
    """Return MuJoCo's sizes (half lengths); None for shapes without sizes."""
    if shape.shape in ("hull", "mesh", "heightfield"):
        return None
    half = {"box": (0.5, 0.5, 0.5), "cylinder": (1.0, 0.5), "capsule": (1.0, 0.5)}.get(shape.shape)
    if shape.shape == "plane":
        return [*(*shape.size, 0.0, 0.0)[:2], 1.0]
    return list(shape.size) if half is None else [x * k for x, k in zip(shape.size, half)]


def hull(asset: Tag, shape: Geometry) -> str:
    """Add the mesh of a hull and return its name."""
    name = f"hull {len(asset.children)}"
    asset.add("mesh", name=name, vertex=[x for vertex in shape.vertices for x in vertex])
    return name


def height_field(asset: Tag, shape: Geometry) -> tuple[str, Pose]:
    """Add a height field; return its name and pose.

    MuJoCo measures heights from the lowest one and writes the last row first.
    """
    heights = np.array(shape.heights)
    low = float(heights.min())
    span = float(np.ptp(heights)) or 1.0
    name, (rows, columns) = f"height field {len(asset.children)}", heights.shape
    size = [0.5 * shape.size[0], 0.5 * shape.size[1], span, 0.1 * span]
    asset.add(
        "hfield",
        name=name,
        size=size,
        nrow=rows,
        ncol=columns,
        elevation=((heights - low)[::-1] / span).ravel(),
    )
    return name, shape.place.then(Pose.translation(np.array([0.0, 0.0, low])))


def contact(model: Model, written: Mapping[str, str]) -> Tag:
    """Return pairs of exported shapes, and excluded pairs of bodies."""
    tag = Tag("contact")
    links = {link: body.name for body in model.bodies for link in body.links}
    for pair in model.contact_pairs:
        if pair.excluded and pair.first in links and pair.second in links:
            tag.add("exclude", body1=links[pair.first], body2=links[pair.second])
        elif not pair.excluded and pair.first in written and pair.second in written:
            words = {"condim": pair.condim, "friction": pair.friction or None, "margin": pair.margin or None}
            tag.add("pair", geom1=written[pair.first], geom2=written[pair.second], **words)
    return tag
