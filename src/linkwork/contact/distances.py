"""Distances between two shapes of a model: the option `pairs` of `linkwork.distance`, and what it means in a
state.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as combinations
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.compiler.ir.functions import where
from linkwork.constraints import BodyKinematics
from linkwork.contact.candidates import Candidate, Place
from linkwork.contact.checks import checked_shape
from linkwork.contact.collision_functions import PointOf
from linkwork.contact.contacts import Contacts
from linkwork.contact.names import named_shapes
from linkwork.contact.pair_filter import PairFilter, untested
from linkwork.contact.pairs import contacts_of, has_law
from linkwork.errors import LimitError, ModelError
from linkwork.mechanism import GROUND, Geometry
from linkwork.model import Model
from linkwork.spatial.constants import product

MAX_PAIRS = 1024  # pairs


class Distance(NamedTuple):
    """The distance of two shapes [m], their nearest points, and the normal, (3,) each, in the world."""

    gap: Any
    point: np.ndarray
    other_point: np.ndarray
    normal: np.ndarray


@final
@dataclass(frozen=True)
class ShapePair:
    """Two shapes, by name, and the points of them of which the nearest one counts."""

    first: str
    second: str
    candidates: tuple[Candidate, ...]

    def distance(self, kinematics: BodyKinematics) -> Distance:
        """Return the distance in one state."""
        first = self.candidates[0]
        if isinstance(first.law, PointOf):
            return _in_world(first, kinematics, *_witness(first, kinematics))
        result: tuple[Any, ...] | None = None
        for each in self.candidates:
            gap, _, _, at, axes = each.touch(kinematics)
            point = at + each.law.part * gap * axes[0]
            this = (gap, point, point - gap * axes[0], axes[0])
            if result is None:
                result = this
                continue
            nearer = gap < result[0]
            vectors = [
                np.array([where(nearer, x, y) for x, y in zip(a, b)], dtype=object)
                for a, b in zip(this[1:], result[1:])
            ]
            result = (where(nearer, gap, result[0]), *vectors)
        assert result is not None
        return _in_world(first, kinematics, *result)


def _witness(candidate: Candidate, kinematics: BodyKinematics) -> tuple[Any, ...]:
    """Return distance, nearest points and normal in the frame of the second body."""
    assert isinstance(candidate.law, PointOf)
    _, G, _, T = candidate.frames(kinematics)
    n, result = candidate.law.collision.witness(T, thorough=True)
    return result.gap, G.point(result.point), G.point(result.other_point), product(G.R, n)


def _in_world(
    candidate: Candidate, kinematics: BodyKinematics, gap: Any, point: Any, other: Any, n: Any
) -> Distance:
    if candidate.other == GROUND:
        return Distance(gap, point, other, n)
    T = kinematics.pose(kinematics.nodes[candidate.other], kinematics.nodes.below)
    return Distance(gap, T.point(point), T.point(other), product(T.R, n))


def chosen_pairs(model: Model, pairs: Any = None, **_: Any) -> dict[str, Any]:
    """Return the option `pairs` in normal form: the shapes' places and how they are tested, which kernels are
    found by.
    """
    if isinstance(pairs, tuple) and pairs and all(isinstance(each, ShapePair) for each in pairs):
        return {"pairs": pairs}
    result = _by_rule(model) if pairs is None else _named(model, pairs)
    if not result:
        raise ModelError(
            "distance: the model has no two shapes that can collide; name some, pairs=[('hand', 'table')]"
        )
    if len(result) > MAX_PAIRS:
        raise LimitError(
            f"distance: {len(result)} pairs of shapes, more than {MAX_PAIRS}: name fewer, pairs=[('hand', "
            "'table')]"
        )
    return {"pairs": tuple(_pair(one, other) for one, other in result)}


def _by_rule(model: Model) -> list[tuple[Geometry, Geometry]]:
    """Return all pairs of shapes that the model lets collide and that can be tested."""
    fixed = tuple(each for each in model.geometries if each.collision and each.body == GROUND)
    rule = PairFilter(model, Contacts(ground=fixed, pairs="all"))
    return [(one, other) for one, other, _ in rule.pairs() if has_law(one, other)]


def _named(model: Model, pairs: Any) -> list[tuple[Geometry, Geometry]]:
    several = (
        [pairs]
        if isinstance(pairs, (tuple, list)) and len(pairs) == 2 and all(map(_is_name, pairs))
        else pairs
    )
    if not isinstance(several, (tuple, list)) or not all(
        isinstance(pair, (tuple, list)) and len(pair) == 2 and all(map(_is_name, pair)) for pair in several
    ):
        raise ModelError(
            "distance: pairs: expected pairs of names or geometries, such as [('hand', 'table')], got "
            f"{pairs!r}"
        )
    return [both for a, b in several for both in combinations(named_shapes(model, a), named_shapes(model, b))]


def _is_name(x: Any) -> bool:
    return isinstance(x, (str, Geometry))


def _pair(one: Geometry, other: Geometry) -> ShapePair:
    if not has_law(one, other):
        raise ModelError(f"distance: {untested(one, other)}")
    result = []
    for each in contacts_of(checked_shape(one), checked_shape(other)):
        places = [Place.of(shape.place.then(at)) for shape, at in ((one, each.at), (other, each.other_at))]
        result.append(Candidate(each.label, one.body, each.law, places[0], other.body, places[1]))
    return ShapePair(one.name, other.name, tuple(result))
