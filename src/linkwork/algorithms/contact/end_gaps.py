"""Gaps at the end of a step, compared with those that the rates at its beginning let expect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from linkwork.compiler.ir.functions import minimum, where
from linkwork.contact import Candidate
from linkwork.contact.candidates import ContactPoint


def pairs_of(candidates: Sequence[Candidate]) -> list[list[int]]:
    """Return the candidates of each pair of shapes whose points are found together, by index."""
    result: dict[Any, list[int]] = {}
    for k, candidate in enumerate(candidates):
        result.setdefault(candidate.pair, []).append(k)
    return list(result.values())


def least_by_pair(pairs: Sequence[Sequence[int]], gaps: Sequence[Any]) -> list[Any]:
    """Return the least gap of each pair of shapes."""
    return [reduce(minimum, [gaps[k] for k in pair]) for pair in pairs]


def missed_gaps(
    pairs: Sequence[Sequence[int]],
    start: Sequence[ContactPoint],
    end_points: Sequence[ContactPoint],
    expected: Sequence[Any],
) -> list[Any]:
    """Return the shortfall of the gap at the end of a step for each candidate; at most zero.

    Points of one pair may change places in a step. So each point at the end counts for that one at the
    beginning which is nearest to it on both bodies.
    """
    result: list[Any] = [0.0] * len(end_points)
    for pair in pairs:
        if len(pair) == 1:
            (k,) = pair
            result[k] = minimum(end_points[k].gap - expected[k], 0.0)
            continue
        nearest = reduce(minimum, [expected[k] for k in pair])
        deepest = reduce(minimum, [end_points[k].gap for k in pair])
        for k in pair:  # the point that was to be nearest answers for the deepest one, wherever that is
            result[k] = where(expected[k] <= nearest, minimum(deepest - nearest, 0.0), 0.0)
        for j in pair:
            distances = [_apart(start[k], end_points[j]) for k in pair]
            least = reduce(minimum, distances)
            for k, distance in zip(pair, distances):
                is_nearer = (distance <= least) & (end_points[j].gap < 0.0)
                result[k] = minimum(result[k], where(is_nearer, end_points[j].gap - expected[k], 0.0))
    return result


def _apart(one: ContactPoint, other: ContactPoint) -> Any:
    """Return the squared distance of two contact points on the first body, and of those on the other one."""
    a = one.point - other.point
    b = one.other_point - other.other_point
    return a @ a + b @ b
