"""Distances and normals by Coal, for tests of contact geometry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return Q * np.sign(np.linalg.det(Q))


def coal_shape(coal: Any, shape: str, size: Any) -> Any:
    """The same shape for Coal; `size` as in `Geometry`, of a hull its vertices."""
    if shape == "hull":
        points = coal.StdVec_Vec3s()
        for vertex in size:
            points.append(np.array(vertex, dtype=float))
        return coal.Convex.convexHull(points, False, "Qt")
    kinds = {
        "box": coal.Box,
        "sphere": coal.Sphere,
        "capsule": coal.Capsule,
        "cylinder": coal.Cylinder,
        "ellipsoid": coal.Ellipsoid,
    }
    return kinds[shape](*map(float, size))


def coal_distance(
    one: str, size: Any, other: str, other_size: Any, R: np.ndarray, p: np.ndarray, tolerance: float = 1e-10
) -> tuple[float, np.ndarray]:
    """The signed distance, and the normal from the second shape to the first, which has the pose R, p in the
    second's frame.
    """
    coal = pytest.importorskip("coal")
    request = coal.DistanceRequest()
    result = coal.DistanceResult()
    request.enable_signed_distance = True
    request.gjk_tolerance = request.epa_tolerance = tolerance
    request.gjk_max_iterations = request.epa_max_iterations = 1000
    shapes = coal_shape(coal, one, size), coal_shape(coal, other, other_size)
    distance = coal.distance(
        shapes[0], coal.Transform3s(R, p), shapes[1], coal.Transform3s(), request, result
    )
    return float(distance), -np.array(result.normal)
