"""Modes of straight beams: the lowest of each family, in a basis with given end conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.eigen import normal_modes, solve, times
from linkwork.flexible.elements import Family
from linkwork.flexible.tabulated import integer
from linkwork.mechanism.names import did_you_mean

FAMILIES = ("bending_y", "bending_z", "torsion", "stretch")
BASES = ("clamped", "craig_bampton", "free", "pinned")


class Mode(NamedTuple):
    """A mode of a family: its degrees of freedom, (n,), and ω² [rad²/s²].

    Its modal mass was one before the rigid motion of its root was subtracted.
    """

    family: Family
    dofs: np.ndarray
    square: float


def select_modes(label: str, families: Sequence[Family], modes: Any, basis: str, elements: int) -> list[Mode]:
    """Return the requested modes: the lowest ones, or a number for each family."""
    max_count = elements  # shapes finer than elements are not resolved
    if isinstance(modes, Mapping):
        for word, count in modes.items():
            if word not in FAMILIES:
                raise ModelError(
                    f"{label}: modes: expected {', '.join(FAMILIES)}; got "
                    f"{word!r}{did_you_mean(word, FAMILIES)}"
                )
            _check_count(label, count, max_count)
        return [
            mode for family in families for mode in lowest_modes(family, basis, modes.get(family.name, 0))
        ]
    _check_count(label, modes, max_count)
    candidates = [mode for family in families for mode in lowest_modes(family, basis, modes)]
    return sorted(candidates, key=lambda mode: mode.square)[:modes]


def _check_count(label: str, count: Any, most: int) -> None:
    integer(f"{label}: modes", count, 0, most, " (the number of elements)")


def lowest_modes(family: Family, basis: str, count: int) -> list[Mode]:
    """Return the lowest modes of a family, relative to its root."""
    if count == 0:
        return []
    with np.errstate(all="ignore"):
        K, M = family.matrices
    n = len(K)
    if not all(np.isfinite(x).all() and (np.diag(x) > 0.0).all() for x in (K, M)):
        raise ModelError(
            f"beam: {family.name}: masses or stiffnesses exceed the range of floats; check the units"
        )
    fixed = {"clamped": family.root, "pinned": family.pins, "free": [], "craig_bampton": family.root}[basis]
    free = [k for k in range(n) if k not in fixed]
    K = K[np.ix_(free, free)]
    M = M[np.ix_(free, free)]
    if basis == "craig_bampton":
        T = _craig_bampton(K, M, [free.index(k) for k in family.tip], count)
        squares, Y = normal_modes(times(T.T, times(K, T)), times(T.T, times(M, T)), count)
        Y = times(T, Y)
    else:
        rigid = family.rigid if basis == "free" else 0
        squares, Y = normal_modes(K, M, count + rigid, shift=family.softness(K, M) if rigid else 0.0)
        squares = squares[rigid:]
        Y = Y[:, rigid:]
    selected = []
    for j in range(min(count, len(squares))):
        dofs = np.zeros(n)
        dofs[free] = Y[:, j]
        selected.append(Mode(family, family.grounded(dofs), float(squares[j])))
    return selected


def _craig_bampton(K: np.ndarray, M: np.ndarray, tip: list[int], count: int) -> np.ndarray:
    """Return Craig-Bampton modes as columns: static ones of the tip, and the lowest with the tip clamped."""
    inner = [k for k in range(len(K)) if k not in tip]
    T = np.zeros((len(K), len(tip) + max(count - len(tip), 0)))
    for j, k in enumerate(tip):
        T[k, j] = 1.0
    T[inner, : len(tip)] = -solve(K[np.ix_(inner, inner)], K[np.ix_(inner, tip)])
    if count > len(tip):
        _, clamped = normal_modes(K[np.ix_(inner, inner)], M[np.ix_(inner, inner)], count - len(tip))
        T[inner, len(tip) :] = clamped
    return T
